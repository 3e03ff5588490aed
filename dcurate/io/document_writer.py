"""Files of a format that is chosen by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import BinaryIO, ClassVar

import pyarrow as pa

from dcurate.core.batch import BatchKey, FilePart
from dcurate.errors import PipelineError, listed, nearest
from dcurate.io.csv_writer import CsvWriter
from dcurate.io.jsonl_writer import JsonlWriter
from dcurate.io.parquet_writer import ParquetWriter
from dcurate.io.sink import FileWriter

_WRITERS: dict[str, type[FileWriter]] = {"jsonl": JsonlWriter, "parquet": ParquetWriter, "csv": CsvWriter}


@dataclass
class DocumentWriter(FileWriter):
    """Write JSON Lines, Parquet or CSV, as `JsonlWriter`, `ParquetWriter` and `CsvWriter` do, or as a param says.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches. It is also a
            directory where it is named like a file, such as ``"out.jsonl"``; a notice says so.
        write_kwargs: options passed to the writer of the format.
        fields: the columns to write, in this order; all by default.
        mode: what to do about existing files: ``"error"``, ``"overwrite"``, ``"ignore"`` or ``"append"``.
        compression: compression as the writer of the format takes it; None is plain JSON Lines, and Parquet with pages
            in zstd.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes.
        storage_options: for fsspec.
        separate_by: a column; rows of each of its values go to a folder of their own.
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: when a later run with the same
            label ends, its rows have replaced these, and those of other labels stay.
        filetype: ``"jsonl"``, ``"parquet"`` or ``"csv"``.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dcurate import DocumentReader, InlineExecutor, Pipeline
        >>> folder = tempfile.TemporaryDirectory()
        >>> source = Path(folder.name, "a.jsonl")
        >>> _ = source.write_text('{"text": "one"}')
        >>> stages = [DocumentReader(str(source)), DocumentWriter(f"{folder.name}/out", filetype="parquet")]
        >>> [batch] = Pipeline("convert", stages=stages).run(InlineExecutor(), observers=[])
        >>> Path(batch.data[0]).suffix
        '.parquet'
        >>> folder.cleanup()

    Raises:
        PipelineError: the format is not known, or settings that mean nothing in it.
    """

    filetype: str = "jsonl"
    name: str = "document_writer"

    takes_label: ClassVar[bool] = True
    writes_without_rows: ClassVar[bool] = True

    @property
    def writer_type(self) -> type[FileWriter]:
        """The class of the writer of the format."""
        return _WRITERS[self.filetype]

    @property
    def has_columns_in_files(self) -> bool:
        return self._writer().has_columns_in_files

    @property
    def _suffix(self) -> str:
        return self._writer()._suffix

    def _put_without_rows(self, table: pa.Table | None, file: BinaryIO) -> None:
        self._writer()._put_without_rows(table, file)

    def columns_read(self) -> Sequence[str] | None:
        """The columns that the writer of the format looks at."""
        return self._writer().columns_read()

    def __post_init__(self) -> None:
        if self.filetype not in _WRITERS:
            raise PipelineError(
                f"{self.name}: filetype={self.filetype!r} is not one of {listed(_WRITERS)}"
                f"{nearest(str(self.filetype), _WRITERS)}"
            )
        super().__post_init__()
        self._writer()

    def sample_paths(self, key: BatchKey) -> list[str]:
        return self._writer().sample_paths(key)

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        writer = self._writer()
        yield from writer._write(table, key, folder)
        self._generation = writer._generation

    def _lost(self, table: pa.Table) -> dict[str, int]:
        return self._writer()._lost(table)

    def _writer(self) -> FileWriter:
        """Return the writer of the format, in the state of this one; settings that are None are left to it."""
        names = {setting.name for setting in fields(self) if setting.init} - {"filetype"}
        settings = {name: value for name in sorted(names) if (value := getattr(self, name)) is not None}
        writer = _WRITERS[self.filetype](**settings)
        writer._generation, writer._shard, writer._proves = self._generation, self._shard, self._proves
        return writer
