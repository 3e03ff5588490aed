"""Folders that are tables of Delta Lake, Iceberg or Hudi: a log says which of their files count."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from fsspec.implementations.local import LocalFileSystem

from dcurate.core.extras import missing
from dcurate.errors import DataError, PipelineError

#: The folder in which a table of a kind keeps its log, by the folder's name.
LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_ICEBERG = ".metadata.json"
#: Features of Delta tables that do not change what the files at its version hold.
_PLAIN = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
#: The feature of tables that name deleted rows of their files.
DELETION_VECTORS = "deletionVectors"


def table_at(store: Any, folder: str, logs: Collection[str], paths: Sequence[str]) -> str:
    """Return the kind of table that a folder is, or is a part of; empty if it is none.

    Args:
        store: the file system.
        folder: folder that was named, or that a glob begins with.
        logs: names of `LOGS` that were seen in it or below.
        paths: paths of the files in it and below.
    """
    for name, kind in LOGS.items():
        if name in logs or any(store.isdir(f"{above}/{name}") for above in _with_table(folder)):
            return kind
    iceberg = any(path.endswith(_ICEBERG) and os.path.basename(os.path.dirname(path)) == "metadata" for path in paths)
    if not iceberg and os.path.basename(folder.rstrip("/")) == "data":
        above = f"{os.path.dirname(folder.rstrip('/'))}/metadata"
        iceberg = store.isdir(above) and any(str(path).endswith(_ICEBERG) for path in store.ls(above, detail=False))
    return "Iceberg" if iceberg else ""


def live_files(store: Any, folder: str, kind: str, shown: str) -> set[str]:
    """Return the paths of the files that the table holds at its newest version, if `deltalake` can name them.

    Args:
        store: the file system.
        folder: the folder of the table.
        kind: kind of table, as `table_at` names it.
        shown: the path in messages.

    Raises:
        DataError: the table cannot be read file by file.
        PipelineError: it is not a Delta table on local disks, or `deltalake` is not installed.
    """
    is_table = isinstance(store, LocalFileSystem) and os.path.isdir(f"{folder}/_delta_log")
    if kind != "Delta Lake" or not is_table:
        advice = "name the folder of the table itself" if kind == "Delta Lake" else "export it"
        if kind == "Iceberg" or (kind == "Delta Lake" and not isinstance(store, LocalFileSystem)):
            advice = f"read it with TableReader(..., format={kind.split(maxsplit=1)[0].lower()!r})"
        raise PipelineError(
            f"{shown!r} is a table of {kind}, or in one, and its folder also holds files that were removed from it; "
            f"{advice}, or give its rows as initial_tasks"
        )
    if missing(["deltalake"]):
        raise PipelineError(
            f"{shown!r} is a table of Delta Lake, and its folder also holds files that were removed from it; "
            "pip install 'dcurate[tables]' to read those of its newest version, or give its rows as initial_tasks"
        )
    library = importlib.import_module("deltalake")
    table = library.DeltaTable(folder)
    check_plain(table, shown)
    return {os.path.realpath(_local(uri, folder)) for uri in table.file_uris()}


def check_plain(table: Any, shown: str, applied: Collection[str] = ()) -> None:
    """Refuse a table of Delta Lake whose files do not say which rows it has.

    Args:
        table: table as `deltalake` opens it.
        shown: the path in messages.
        applied: features that the caller applies to the rows of the files.

    Raises:
        DataError: they do not.
    """
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - _PLAIN - set(applied)
    if features or protocol.min_reader_version == 2:
        named = ", ".join(sorted(features)) or "column mapping"
        if features == {DELETION_VECTORS}:
            raise DataError(
                f"{shown!r} is a table of Delta Lake with {named}, so its files alone do not say which rows it has; "
                "read it with TableReader(path)"
            )
        raise DataError(
            f"{shown!r} is a table of Delta Lake with {named}, so its files alone do not say which rows it has; "
            "give its rows as initial_tasks, with deltalake: QueryBuilder().register('rows', DeltaTable(path))"
            ".execute('SELECT * FROM rows')"
        )


def _with_table(folder: str) -> list[str]:
    """Return a folder, and those above it while their names are values of partitions, such as ``date=2024-01-01``.

    Examples:
        >>> _with_table("/t/lang=en/year=2024/")
        ['/t/lang=en/year=2024', '/t/lang=en', '/t']
    """
    folders = [folder.rstrip("/")]
    while "=" in os.path.basename(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    return folders


def _local(uri: str, folder: str) -> str:
    """The path of a file of a table; of a local path `deltalake` escapes the folder, and nothing else."""
    if uri.startswith("file:"):
        return unquote(urlsplit(uri).path)
    escaped = quote(os.path.abspath(folder)) + "/"
    return f"{folder}/{uri.removeprefix(escaped)}" if uri.startswith(escaped) else uri
