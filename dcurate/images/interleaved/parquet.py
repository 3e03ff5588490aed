"""Read interleaved rows from Parquet files, as NeMo Curator writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.core.batch import FileGroup, FilePart
from dcurate.frames.document import DocumentBatch
from dcurate.io import files
from dcurate.io.parquet_reader import ParquetReader
from dcurate.io.partition import parse_bytes
from dcurate.media.interleaved.schema import RESERVED, SCHEMA, aligned


@dataclass
class InterleavedParquetReader(ParquetReader):
    """Read interleaved rows from Parquet files: `InterleavedParquetWriter`'s and NeMo Curator's.

    The reserved columns come first, of their types; missing ones are null. The rows of a sample must follow one
    another: a sample is then never split over batches, and files are cut between samples.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs.
        files_per_partition: files of one split.
        blocksize: split size on disk, as bytes or ``"128MiB"``.
        fields: columns to read besides the reserved ones; all by default.
        read_kwargs, storage_options, schema, limit: same settings as in `ParquetReader`.
        max_batch_bytes: batches of about this many bytes at most, cut between samples; by default a batch is a split.

    Raises:
        PipelineError: settings that cannot be.

    Examples:
        >>> InterleavedParquetReader("rows/", max_batch_bytes="64MiB").name
        'interleaved_parquet_reader'
    """

    max_batch_bytes: int | str | None = None
    name: str = "interleaved_parquet_reader"

    filters_rows: ClassVar[bool] = False  # rows of a sample belong together

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_batch_bytes is not None:
            parse_bytes(self.max_batch_bytes, f"{self.name}: max_batch_bytes")

    def is_fanout_stage(self) -> bool:
        return self.max_batch_bytes is not None

    def process(self, task: FileGroup) -> Any:
        """The rows of a split, in batches of whole samples; None if it has none.

        Raises:
            DataError: a file that cannot be read, types that clash, or rows that are not interleaved.
        """
        read = self._with_reserved().process_rows(task)
        if read is None:
            return None
        table = aligned(read.to_arrow())
        if self.max_batch_bytes is None:
            return read.with_data(table)
        most = parse_bytes(self.max_batch_bytes, self.name)
        batches = [read.with_data(part) for part in _cut_between_samples(table, most)]
        return batches if len(batches) > 1 else batches[0]

    def process_rows(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split as they are stored."""
        return super().process(task)

    def columns(self) -> list[str] | None:
        names = super(InterleavedParquetReader, self._with_reserved()).columns()
        return None if names is None else list(dict.fromkeys([*SCHEMA.names, *names]))

    def _with_reserved(self) -> InterleavedParquetReader:
        """The reader with the reserved columns that the files have among its fields."""
        if self.fields is None:
            return self
        heads = self._heads(self._files()) if self._sniffed is None else self._sniffed
        reserved = [name for name in heads.types if name in RESERVED]
        reader = replace(self, fields=list(dict.fromkeys([*reserved, *self.fields])))
        reader._sniffed, reader._folder_types = self._sniffed, self._folder_types
        return reader

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        bounds = super()._cut(file, target)
        with self._opened(file.path, file.name) as opened:

            def ids(group: int) -> Sequence[Any]:
                column = opened.read_row_group(group, columns=["sample_id"])["sample_id"]
                return [column[0].as_py(), column[-1].as_py()] if len(column) else [None, None]

            return [bound for bound in bounds if bound in (0, bounds[-1]) or ids(bound - 1)[1] != ids(bound)[0]]

    def _counted(self, part: FilePart) -> list[FilePart]:
        with self._opened(part.path, self._named(part), part.version) as file:
            groups = range(part.start, file.num_row_groups if part.stop is None else part.stop)
            rows = sum(file.metadata.row_group(group).num_rows for group in groups)
        return [replace(part, rows=(0, rows))]


def _cut_between_samples(table: pa.Table, most: int) -> Iterator[pa.Table]:
    names = table["sample_id"].to_pylist()
    begins = [row for row, name in enumerate(names) if row == 0 or name != names[row - 1]]
    start = size = 0
    for begin, end in zip(begins, [*begins[1:], len(names)], strict=True):
        nbytes = table.slice(begin, end - begin).nbytes
        if begin > start and size + nbytes > most:
            yield table.slice(start, begin - start)
            start, size = begin, 0
        size += nbytes
    if start < len(names):
        yield table.slice(start)
