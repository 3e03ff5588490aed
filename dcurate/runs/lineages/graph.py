"""`lineage`: walk back from an output over the runs that made it, to files that no run made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dcurate.errors import DataError, DcurateError
from dcurate.fs.paths import open_store, protocol_of
from dcurate.fs.stores import BESIDE, META_DIR, TMP, Directory, output_of
from dcurate.redaction import without_secrets
from dcurate.runs.lineages.changes import bytes_digest, changes, use_changes
from dcurate.runs.lineages.record import LineageRecord, read_lineage, record_of
from dcurate.runs.lineages.result import Lineage, LineageRun, Read
from dcurate.runs.load import read_run

#: The input of a run without files.
PASSED = "rows that were passed in Python"
#: Stores in which folders cannot be looked for.
_NO_FOLDERS = ("http", "https")
#: What is left of files that were written one by one, beside no run.
_TMP = os.path.basename(TMP)


def lineage(
    output: str, *, storage_options: Mapping[str, Any] | None = None, check: bool = True, hash_bytes: bool = False
) -> Lineage:
    """Walk back from an output over the runs that made it and what each has read, to files that no run made.

    A run is found where an input file is in the output directory of another one, by the records beside that.

    Args:
        output: the output directory of a run, or the folder of its records; a local path, or as fsspec opens it.
        storage_options: for fsspec, for all stores.
        check: whether files are compared with the versions that were read; it lists them.
        hash_bytes: whether all files that the runs of ``output`` have read are read, for a digest of their bytes.

    Raises:
        DataError: no run left records there, or they cannot be read.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> first, second = f"{folder.name}/first", f"{folder.name}/second"
        >>> _ = Pipeline("write", stages=[JsonlWriter(first)]).run(InlineExecutor(), [rows], observers=[])
        >>> copy = Pipeline("copy", stages=[JsonlReader(first), JsonlWriter(second)])
        >>> _ = copy.run(InlineExecutor(), observers=[])
        >>> [run.record.pipeline for run in lineage(second).runs.values()]
        ['copy', 'write']
        >>> folder.cleanup()
    """
    options = storage_options or {}
    walk = _Walk(options, check, hash_bytes)
    root = output_of(output)
    address = Directory(root, options).address
    heads = walk.visit(address)
    if not heads:
        raise DataError(
            f"no run left records of {output!r}; name the output directory of a run, or the folder of its records, "
            "such as 'out.dcurate' of 'out'"
        )
    return Lineage(without_secrets(address), walk.runs, heads, tuple(dict.fromkeys(walk.warnings)))


@dataclass
class _Walk:
    options: Mapping[str, Any]
    check: bool
    hash_bytes: bool
    runs: dict[str, LineageRun] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    def visit(self, output: str) -> tuple[str, ...]:
        """Collect the runs that made an output, and all before them; return their keys, each run once."""
        heads: tuple[str, ...] = ()
        waiting = [output]
        seen = set(waiting)
        while waiting:
            address = waiting.pop(0)
            keys = []
            for record in self._records(address):
                key = f"{record.run}@{without_secrets(address)}"
                reads = tuple(self._reads(record, hash_bytes=self.hash_bytes and address == output))
                self.runs[key] = LineageRun(key, without_secrets(address), record, reads)
                keys.append(key)
                before = [read.address for read in reads if read.made and read.address not in seen]
                waiting += before
                seen.update(before)
            heads = heads or tuple(keys)
        return heads

    def _records(self, output: str) -> list[LineageRecord]:
        """The records of the runs that made an output, of an earlier version of dcurate from their reports."""
        try:
            records = read_lineage(output, self.options)
            if records or self.runs:
                return records or [_of_report(output, self.options)]
        except DcurateError as error:
            if not self.runs:
                raise
            self.warnings.append(f"the records of {without_secrets(output)!r} cannot be read: {error}")
            return []
        with suppress(DcurateError):  # `lineage` refuses an output without records
            return [_of_report(output, self.options)]
        return []

    def _reads(self, record: LineageRecord, *, hash_bytes: bool) -> Iterator[Read]:
        """What a run read: its input by outputs of other runs, tables and given paths, and what its stages name."""
        groups: dict[str, dict[str, str]] = {}
        sizes: dict[str, int] = {}
        for file in record.input_files(self.options):
            address = self._group(file.path, record)
            groups.setdefault(address, {})[file.path] = file.version
            sizes[address] = sizes.get(address, 0) + file.size
        for root in record.roots if not groups else ():
            groups[self._made_by(root) or root] = {}
        tables = {table["path"]: f"{table['format']} version {table['version']}" for table in record.tables}
        for address, files in groups.items():
            if self.check and address not in tables:
                self.warnings += changes(address, files, record, self.options)
            yield Read(
                address,
                "table" if address in tables else "input",
                files=len(files),
                nbytes=sizes.get(address, 0),
                version=tables.get(address, ""),
                made=self._made_by(address) == address,
                sha256=bytes_digest(address, files, self.options) if hash_bytes and address not in tables else "",
            )
        if not groups:
            yield Read(PASSED, "input")
        for use in record.uses:
            if self.check and use.role != "index":  # a run adds to its index
                self.warnings += use_changes(use, record, self.options)
            address = self._made_by(use.address) or use.address
            made = address != record.output and self._made_by(address) == address
            yield Read(address, use.role, use.stage, use.files, use.nbytes, use.version, made)

    def _group(self, path: str, record: LineageRecord) -> str:
        """What a file is shown as part of: a table, the output of a run, a path that was read, or its folder."""
        for table in record.tables:
            if path.startswith((f"{table['path']}/", f"{table['path']}#")):
                return str(table["path"])
        made = self._made_by(path)
        if made:
            return made
        roots = [root for root in record.roots if path == root or path.startswith(f"{root.rstrip('/')}/")]
        return max(roots, key=len) if roots and len(record.roots) <= 100 else os.path.dirname(path)

    def _made_by(self, path: str) -> str:
        """The output directory that a path is or is in, by the records beside it; empty if no run left any."""
        if protocol_of(path) in _NO_FOLDERS or "/" not in path:
            return ""
        path = path.rstrip("/")
        if path not in self.outputs:
            parent = os.path.dirname(path)
            inner = parent not in ("", "/", path) and not parent.endswith(":/")
            self.outputs[path] = path if self._has_records(path) else self._made_by(parent) if inner else ""
        return self.outputs[path]

    def _has_records(self, path: str) -> bool:
        """Whether a path is a folder with records of a run beside it, or in it."""
        try:
            store, root = open_store(path, self.options)
            folders = (folder for folder in (f"{root}{BESIDE}", f"{root}/{META_DIR}") if store.isdir(folder))
            return any(os.path.basename(path) != _TMP for folder in folders for path in store.ls(folder, detail=False))
        except Exception:  # of any library of a store: what cannot be looked at has no records that can be read
            return False


def _of_report(output: str, options: Mapping[str, Any]) -> LineageRecord:
    """What the report of a run of an earlier version says."""
    run = read_run(output, options)
    report, about = run.report, run.about
    roots = tuple(path if "://" in path else os.path.abspath(path) for path in map(str, about.get("inputs", ())))
    return replace(record_of(report, without_secrets(output)), roots=roots, about=about)
