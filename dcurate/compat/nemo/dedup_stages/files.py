"""The files that stages of deduplication read and write, in the places and with the columns of NeMo Curator's."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.compat.nemo.bridge import engine_stage, with_settings
from dcurate.compat.nemo.partitioning import FilePartitioningStage, PartitionSource
from dcurate.compat.nemo.readers import JsonlReaderStage, ParquetReaderStage
from dcurate.compat.nemo.tasks import FileGroupTask
from dcurate.errors import listed
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory

FileType: TypeAlias = Literal["jsonl", "parquet"]

#: Columns that NeMo Curator's stages write.
BUCKET, DUPLICATE_GROUP, SIGNATURE = "_bucket_id", "_duplicate_group_id", "_minhash_signature"

_EXTENSIONS = {"jsonl": [".jsonl", ".json"], "parquet": [".parquet"]}
_READERS: dict[str, Any] = {"jsonl": JsonlReaderStage, "parquet": ParquetReaderStage}
#: What is passed on to Arrow's writer of Parquet files.
_WRITER_SETTINGS = {
    *("compression", "compression_level", "data_page_size", "row_group_size"),
    *("use_dictionary", "version", "write_statistics"),
}

_log = logging.getLogger("dcurate.compat.nemo")


def extensions_of(filetype: str) -> list[str]:
    """The endings of files of a type.

    Raises:
        ValueError: the type is not known.
    """
    if filetype not in _EXTENSIONS:
        raise ValueError(f"Unsupported filetype: {filetype}. Only jsonl and parquet are supported.")
    return list(_EXTENSIONS[filetype])


def groups_of_files(
    path: Any, filetype: str, extensions: list[str] | None, settings: Mapping[str, Any] | None, **how: Any
) -> FilePartitioningStage:
    """The stage that lists files of a type and puts them into groups.

    Args:
        path: or several.
        extensions: their endings, if they differ from those of the type.
        settings: settings of their reader, with ``storage_options``.
        how: settings of `FilePartitioningStage`.
    """
    endings = extensions or extensions_of(filetype)
    return FilePartitioningStage(path, file_extensions=endings, storage_options=storage_of(settings), **how)


def check_found(files: Sequence[Any], path: Any, filetype: str) -> None:
    """Refuse input without files.

    Args:
        files: files that were found.
        path, filetype: where, and of which type.

    Raises:
        ValueError: there are none.
    """
    if not files:
        raise ValueError(
            f"no {filetype} files in {path!r}; name another folder, or the type of its files with input_filetype="
        )


def reader_of(filetype: str, **settings: Any) -> Any:
    """The stage that reads files of a type.

    Raises:
        ValueError: there is none.
    """
    if filetype not in _READERS:
        raise ValueError(f"Invalid input filetype: {filetype}")
    return _READERS[filetype](**settings)


def with_reader(stage: Any, before: list[Any]) -> None:
    """Put a reader before a stage that needs documents, where it would be given files.

    Args:
        stage: has a ``reader()``.
        before: the stages of the engine so far.
    """
    if before and not isinstance(before[-1], PartitionSource):
        return
    reader = stage.reader()
    source = reader.engine_form(before, False)
    before.append(engine_stage(reader) if source is None else with_settings(source, reader))


def storage_of(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The ``storage_options`` in the keyword arguments of a reader or writer."""
    return dict((settings or {}).get("storage_options") or {})


def check_settings(settings: Mapping[str, Any] | None, disallowed: Sequence[str]) -> None:
    """Refuse keyword arguments that a stage sets itself.

    Raises:
        ValueError: one of them is given.
    """
    conflicts = [name for name in disallowed if name in (settings or {})]
    if conflicts:
        raise ValueError(f"the stage itself sets {listed(conflicts)}; leave it out")


def joined(folder: str, *names: str) -> str:
    """The address of a file or folder below a folder."""
    return "/".join([folder.rstrip("/") or folder, *names])


def make_folder(path: str, storage_options: Mapping[str, Any] | None = None) -> None:
    """Create an empty folder; what it held is deleted."""
    Directory(path, storage_options or {}).clear()
    store, place = open_store(path, storage_options)
    with storage_errors("create", path):
        store.makedirs(place, exist_ok=True)


def read_parquet(files: Sequence[str], columns: Sequence[str], storage_options: Mapping[str, Any]) -> pa.Table:
    """Columns of Parquet files, in the order of the files.

    Raises:
        KeyError: a file does not have one of them.
    """
    tables = []
    for path in files:
        store, place = open_store(path, storage_options)
        with storage_errors("read", path):
            column_names = pq.read_schema(place, filesystem=store).names
            missing = [name for name in columns if name not in column_names]
            if missing:
                raise KeyError(f"Required columns {missing} not found in {path}. Available columns: {column_names}")
            tables.append(pq.read_table(place, columns=list(columns), filesystem=store, partitioning=None))
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def write_parquet(table: pa.Table, path: str, settings: Mapping[str, Any] | None = None) -> None:
    """Write a Parquet file, complete or not at all.

    Args:
        settings: settings of cuDF, pandas or Arrow; those that have a counterpart here are carried out.
    """
    settings = dict(settings or {})
    if "row_group_size_rows" in settings:
        settings["row_group_size"] = settings["row_group_size_rows"]
    folder, _, name = path.rpartition("/")
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **{key: value for key, value in settings.items() if key in _WRITER_SETTINGS})
    store, place = open_store(folder, storage_of(settings))
    with storage_errors("create", folder):
        store.makedirs(place, exist_ok=True)
    Directory(folder, storage_of(settings)).write(name, buffer.getvalue(), ".")


def check_initial_tasks(tasks: Sequence[Any] | None, input_path: Any) -> None:
    """Check what a workflow is to begin with.

    Raises:
        ValueError: neither tasks nor a path are given, or a task is of another type.
    """
    if tasks is None:
        if input_path is None:
            raise ValueError("input_path to the dataset must be provided if initial_tasks are not provided manually.")
        return
    if not all(isinstance(task, FileGroupTask) for task in tasks):
        raise ValueError(
            "All input tasks to the pipeline must be of type FileGroupTask pointing to the dataset to be deduplicated."
        )
    if input_path is not None:
        _log.warning("input_path is ignored: there are initial_tasks")
