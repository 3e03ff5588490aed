"""The base of the writers of all formats."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import BatchKey, FileGroup, FilePart, Rejection
from dcurate.core.stage import SinkStage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import column_of, python_values
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.io import output
from dcurate.io.files import CSV, JSONL, PARQUET, is_names
from dcurate.io.labels import run_labels, superseded
from dcurate.io.opted_out import StandingLists, rows_but
from dcurate.io.optouts import REASON
from dcurate.io.partition import parse_bytes
from dcurate.redaction import without_secrets
from dcurate.rows import columns_listed

#: Key of the file of an output without rows; no split has such a name.
_NO_ROWS = BatchKey("\0no rows")
#: How the names of files without rows begin.
_WITHOUT_ROWS = f"{output.stem(_NO_ROWS.split)}-{_NO_ROWS.digest}"


@dataclass
class FileWriter(SinkStage[DocumentBatch]):
    """A sink that writes files of one format; see the writers made of it."""

    path: str
    write_kwargs: dict[str, Any] | None = None
    fields: list[str] | None = None
    mode: output.Mode = "error"
    compression: str | None = None
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | str | None = None
    storage_options: dict[str, Any] | None = None
    separate_by: str | None = None
    label: str | None = field(default=None, kw_only=True)
    #: Whether files that no finished split has any more are deleted; those of a table are part of its history.
    replaces_files: ClassVar[bool] = True
    #: Ending of the names of its files, if known: inputs with other endings do not include them.
    endings: ClassVar[tuple[str, ...]] = ()
    #: Whether each run has records of its own, so that several can write at once.
    separates_runs: ClassVar[bool] = False
    #: Whether the names of its files say which run wrote them, so that rows can be replaced by a label.
    takes_label: ClassVar[bool] = False
    #: Whether rows that were removed from its output on request are not written again; `dcurate.optouts` leaves tables.
    writes_documents: ClassVar[bool] = True
    #: Whether an output that no row is left for gets a file without rows.
    writes_without_rows: ClassVar[bool] = False

    #: Whether `proving` gives it the roots of the rows that it writes.
    _proves: bool = field(default=False, init=False, repr=False, compare=False)
    _generation: int | None = field(default=None, init=False, repr=False, compare=False)
    _shard: str = field(default="", init=False, repr=False, compare=False)
    _opened: Directory | None = field(default=None, init=False, repr=False, compare=False)
    _removed: StandingLists | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nested_options = (self.write_kwargs or {}).get("storage_options", {})
        self.storage_options = {**nested_options, **(self.storage_options or {})} or None
        if self.writes_documents and not os.fspath(self.path):
            raise PipelineError(f"{self.name}: path='' is not a folder; name one")
        if self.mode not in output.MODES:
            raise PipelineError(f"{self.name}: mode={self.mode!r} is not one of {listed(output.MODES)}")
        if self.fields is not None and not is_names(self.fields):
            raise PipelineError(f"{self.name}: fields={self.fields!r} must be a list of column names, or None for all")
        self._check_label()
        rows = self.max_rows_per_file
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            raise PipelineError(f"{self.name}: max_rows_per_file={rows!r} must be a whole number of at least 1")
        if self.separate_by is not None and (not isinstance(self.separate_by, str) or not self.separate_by):
            raise PipelineError(f"{self.name}: separate_by={self.separate_by!r} must be the name of one column")
        self._max_bytes()

    def _check_label(self) -> None:
        if self.label is None:
            return
        if not self.takes_label:
            raise PipelineError(f"{self.name}: label has no effect here; leave it out, and write a folder for each run")
        if not isinstance(self.label, str) or not self.label:
            raise PipelineError(f"{self.name}: label={self.label!r} must be text, such as '2026-11-28', or None")
        if self.mode != "append":
            raise PipelineError(
                f"{self.name}: label={self.label!r} says which rows a later run replaces, and mode={self.mode!r} does "
                "not add rows to those of others; give mode='append'"
            )

    def forecast(self) -> list[str]:
        path = without_secrets(os.fspath(self.path)).rstrip("/")
        named_like_file = any(kind.matches(path) for kind in (JSONL, PARQUET, CSV))
        if not named_like_file or not self.writes_documents or self.mode == "append":
            return []
        return [
            f"the output {path!r} is a folder, with a file for each split, though it is named like one file; readers "
            "take the folder"
        ]

    @property
    def output_path(self) -> str:
        return self.directory.address

    @property
    def directory(self) -> Directory:
        """The directory that it writes to; one object for all files, as it looks for its records once."""
        url, options = str(self.path), self.storage_options or {}
        opened = self._opened
        if opened is None or (opened.url, opened.options, opened.run) != (url, options, self._shard):
            opened = self._opened = Directory(url, options, self._shard)
        return opened

    def as_shard(self, folder: str) -> Self:
        """Return this writer for one of several runs side by side, with the name of a folder for records of its own."""
        if self.label is not None:
            raise PipelineError(f"{self.name}: label={self.label!r} is not for the shards of a run; leave it out")
        writer = copy.copy(self)
        writer._shard = folder
        return writer

    def proving(self) -> Self:
        """Return this writer for a run with a proof: its files come with the roots of their rows."""
        writer = copy.copy(self)
        writer._proves = True
        return writer

    def requires(self) -> dict[str, str]:
        return {**super().requires(), **({"blake3": "proof"} if self._proves else {})}

    def check(self) -> None:
        """Refuse a directory with files that must not be touched; see the modes.

        Raises:
            DataError: it does, or it is a file.
        """
        if not self._shard:  # what others write beside it is there
            output.check(self.directory, self.mode)

    def prepare(self, resume: bool) -> None:
        """Check and make ready the directory; see the modes.

        Raises:
            DataError: it holds what must not be touched, or cannot be written.
        """
        self.path = self.directory.address  # workers may run in another directory
        self._generation = 0 if self._shard else output.prepare(self.directory, self.mode, resume, self.label or "")
        self._opened = self._removed = None

    def complete(self, written: Sequence[str]) -> None:
        """Let the rows take the place of those that earlier runs wrote under the same label.

        Raises:
            DataError: these cannot be removed.
        """
        if self.label is not None:
            output.complete_label(self.directory)
            output.remove_runs(self.directory, superseded(self.directory))

    @property
    def has_columns_in_files(self) -> bool:
        """Whether a file without rows has the columns and their types."""
        return True

    def is_empty(self) -> bool:
        """Whether the output has no file."""
        return not any(not name.startswith((".", "_")) for name in self.directory.files())

    def write_without_rows(self, rows: pa.Table | None) -> None:
        """Write a file without rows, from which readers know the columns.

        Args:
            rows: table without rows, with the columns that rows of the run would have; None unless files have these.

        Raises:
            DataError: it cannot be written.
        """
        name = self._name(_NO_ROWS, self._suffix, 0)
        with self.directory.writing(name) as file:
            self._put_without_rows(None if rows is None else self._chosen(rows), file)

    def remove_without_rows(self) -> None:
        """Remove files of `write_without_rows`, as the output has rows now."""
        self.directory.remove([name for name in self.directory.files() if name.startswith(_WITHOUT_ROWS)])

    def _files_before(self) -> list[str]:
        """Return the sorted names of the files with rows that this run adds to: those of its label are replaced."""
        ours = [run.generation for run in run_labels(self.directory) if run.label == self.label]
        replaced = {self.generation, *ours, *superseded(self.directory)}
        leaves_out = set(output.files_of_runs(self.directory, replaced))
        names = self.directory.files().keys() - leaves_out
        return sorted(name for name in names if name.endswith(self.endings) and not name.startswith(_WITHOUT_ROWS))

    @property
    def _suffix(self) -> str:
        """The ending of the names of files."""
        return self.endings[0]

    def _put_without_rows(self, table: pa.Table | None, file: BinaryIO) -> None:
        """Write the content of a file without rows; for writers that have `writes_without_rows`."""
        raise NotImplementedError

    def sample_paths(self, key: BatchKey) -> list[str]:
        """Return addresses such as those of the files of a batch have."""
        folder = "" if self.separate_by is None else "value/"
        return [self.directory.path(folder + output.file_name(key, ending)) for ending in self.endings]

    @property
    def run(self) -> str:
        """The id of the run whose records `directory` has; empty if all runs share them."""
        return self._shard

    def earlier_runs(self) -> list[Directory]:
        """Return the output with the records of each earlier run, newest first."""
        same = output.is_prepared(self.directory) and output.label_of(self.directory) == (self.label or "")
        return [self.directory] if same else []

    def go_on_with(self, run: Directory) -> None:
        """Make `prepare` go on with one of the `earlier_runs`, if it is to go on with any."""

    def is_final(self, run: Directory) -> bool:
        """Whether rows that an earlier run wrote must stay as they are, as it has finished and others add to them."""
        return output.is_final(run, self.mode)

    @property
    def mark(self) -> str:
        """A part of names by which files of this run differ from those of runs that it appends to."""
        return f"-{self.run}" if self.run and self.separates_runs else f"-g{self.generation}" if self.generation else ""

    @property
    def generation(self) -> int:
        """The number in the names of files of the run that `prepare` was called for; 0 for none."""
        return self._generation or 0

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide rows and file names: all but the path and its earlier content."""
        settings = {name: value for name, value in super().settings().items() if not name.startswith("_")}
        for name in ("path", "storage_options", "mode", "label"):
            del settings[name]
        return {**settings, "write_kwargs": self._writing(), "max_bytes_per_file": self._max_bytes()}

    def inputs(self) -> tuple[list[str], list[str]]:
        wanted = [*(self.fields or ()), *([self.separate_by] if self.separate_by is not None else ())]
        return [], list(dict.fromkeys(wanted))

    def columns_read(self) -> Sequence[str] | None:
        """None: all columns are written."""
        return None

    def process(self, task: DocumentBatch) -> FileGroup:
        """Write the rows; the names of the files follow from the key of the batch. No rows, no file.

        Raises:
            DataError: they cannot be written.
        """
        if task.key is None:
            raise PipelineError(f"{self.name}: the batch has no key; give it one: DocumentBatch(key=BatchKey('name'))")
        parts: list[FilePart] = []
        lost = Counter[str]()
        rows, rejections = self._without_removed(task.to_arrow())
        for folder, table in self._separated(rows):
            chosen = self._chosen(table)
            parts += self._write(chosen, task.key, folder) if chosen.num_rows else []
            lost.update(self._lost(chosen))
        return FileGroup(key=task.key, parts=tuple(parts), found=+lost, rejections=rejections)

    def _without_removed(self, table: pa.Table) -> tuple[pa.Table, tuple[Rejection, ...]]:
        """The rows without those that were removed from the output on request; nothing of these is kept."""
        if self._removed is None:
            self._removed = StandingLists([self.directory] if self.writes_documents else [])
        gone = self._removed.named(table, self.fields)
        if not gone:
            return table, ()
        gone = self._together(table, gone)
        kept = rows_but(table, gone)
        nbytes = max(0, table.nbytes - kept.nbytes)
        return kept, (Rejection(self.name, REASON, len(gone), nbytes, None),)

    def _together(self, table: pa.Table, rows: set[int]) -> set[int]:
        """The rows that go with some: of the same document."""
        return rows

    def _lost(self, table: pa.Table) -> dict[str, int]:
        """Count the values that the format cannot hold, by sentence for the report."""
        return {}

    @abstractmethod
    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        """Write the rows to one file or more, in a folder that is named with its slash, or in none."""

    def _separated(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The rows for each folder, in the order in which its first row comes; one folder at a time is written to."""
        if self.separate_by is None:
            yield "", table
            return
        column = column_of(table, self.separate_by)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()  # nulls of a dictionary are not encoded again
        try:
            values = pc.dictionary_encode(column, null_encoding="encode")
        except pa.ArrowNotImplementedError as error:
            raise DataError(
                f"{self.name}: column {self.separate_by!r} holds {column.type}, which names no folder; "
                "separate by one of text or numbers"
            ) from error
        folders: dict[str, int] = {}  # values of one name share a folder, such as several kinds of NaN
        names = [f"{output.folder_name(value)}/" for value in python_values(values.dictionary)]
        numbers = [folders.setdefault(name, len(folders)) for name in names]
        codes = np.array(numbers, np.int64)[values.indices.to_numpy()]
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(folders) + 1))
        for folder, (start, stop) in zip(folders, pairwise(bounds), strict=True):
            yield folder, table.take(pa.array(order[start:stop]))

    def _chosen(self, table: pa.Table) -> pa.Table:
        if self.fields is None:
            return table
        missing = [name for name in self.fields if name not in table.column_names]
        if missing:
            raise DataError(
                f"{self.name}: no column {listed(missing)} to write; the rows have {columns_listed(table.column_names)}"
            )
        return table.select(self.fields)

    def _slices(self, table: pa.Table) -> Iterator[pa.Table]:
        rows = self.max_rows_per_file or table.num_rows
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)

    def _name(self, key: BatchKey, suffix: str, number: int) -> str:
        if self._generation is None:
            self._generation = output.generation(self.directory) if self.mode == "append" else 0
        return output.file_name(key, suffix, self._generation, number)

    def _max_bytes(self) -> int | None:
        limit = self.max_bytes_per_file
        return None if limit is None else parse_bytes(limit, f"{self.name}: max_bytes_per_file")

    def _writing(self) -> dict[str, Any]:
        return {name: value for name, value in (self.write_kwargs or {}).items() if name != "storage_options"}


def lines_of_files(lines: Iterable[bytes], limit: int) -> Iterator[list[bytes]]:
    """Divide lines into files of a number of bytes at most, with an end of each line; a longer line has its own file.

    Args:
        lines: lines without their ends.
        limit: bytes of a file.

    Examples:
        >>> list(lines_of_files([b"one", b"two", b"three"], 8))
        [[b'one', b'two'], [b'three']]
    """
    file: list[bytes] = []
    size = 0
    for line in lines:
        if file and size + len(line) + 1 > limit:
            yield file
            file, size = [], 0
        file.append(line)
        size += len(line) + 1
    if file:
        yield file
