"""Write comma-separated values, and the like with other delimiters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar

import pyarrow as pa

from dcurate.core.batch import BatchKey, FilePart
from dcurate.errors import PipelineError, listed
from dcurate.fs.compression import ending_for, packing
from dcurate.io.csv_rows import Dialect, check_signs
from dcurate.io.csv_write import csv_header, csv_lines
from dcurate.io.sink import FileWriter, lines_of_files
from dcurate.rows.lines import without_lines

#: Rows that are made lines at a time.
_ROWS = 2**14
_ENDINGS = {"\t": ".tsv"}


@dataclass
class CsvWriter(FileWriter):
    r"""Write comma-separated values: UTF-8, a row a line that ends with ``\n``, which `CsvReader` reads back the same.

    Null is an empty value, and empty text a quoted one (``""``). Other values are quoted only where they must be, such
    as those with a delimiter or a line break. Types are not in the file: `CsvReader` needs a `schema` for them. Lists,
    structs and bytes are refused.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches. It is also a
            directory where it is named like a file, such as ``"out.jsonl"``; a notice says so.
        write_kwargs: for pipelines written for pandas: ``storage_options`` is taken, all else is refused.
        fields: the columns to write, in this order; all by default.
        mode: what to do about existing files: ``"error"``, ``"overwrite"``, ``"ignore"`` or ``"append"``.
        compression: ``"gzip"``, ``"zstd"``, ``"bz2"`` or ``"xz"``; plain if None.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes of text, before compression; a row is never cut.
        storage_options: for fsspec.
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: when a later run with the same
            label ends, its rows have replaced these, and those of other labels stay.
        separate_by: a column; rows of each of its values go to a folder of their own.
        delimiter: one character between values; files are ``.tsv`` with a tab, and else ``.csv``.
        quote: one character around values that must be quoted; a quote within a quoted value is doubled.
        escape: one character that is put before quotes and itself within a quoted value, instead of doubling quotes.
        header: whether the first row of each file holds the names of the columns.

    Raises:
        PipelineError: a setting that has no effect here, or signs that do not differ.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": [7, 8], "text": ["one, two", ""]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("write", stages=[CsvWriter(folder.name)])
        >>> [files] = pipeline.run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> Path(files.data[0]).read_text()
        'id,text\n7,"one, two"\n8,""\n'
        >>> folder.cleanup()
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = field(default=None, kw_only=True)
    header: bool = True
    name: str = "csv_writer"
    endings: ClassVar[tuple[str, ...]] = (".csv",)
    takes_label: ClassVar[bool] = True
    writes_without_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        ending_for(self.compression)
        check_signs(self.name, self.delimiter or "", self.quote, self.escape)
        if not isinstance(self.header, bool):
            raise PipelineError(f"{self.name}: header={self.header!r} must be True or False")
        if kwargs := self._writing():
            raise PipelineError(
                f"{self.name}: write_kwargs {listed(kwargs)} mean nothing here, as pandas is not in use; leave them "
                "out, and use delimiter=, quote=, header=, compression= and fields= for columns"
            )
        super().__post_init__()

    @property
    def has_columns_in_files(self) -> bool:
        return self.header

    @property
    def _suffix(self) -> str:
        return f"{_ENDINGS.get(self.delimiter, '.csv')}{ending_for(self.compression)}"

    @property
    def _dialect(self) -> Dialect:
        return Dialect(self.delimiter, self.quote, escape=self.escape)

    def _put_without_rows(self, table: pa.Table | None, file: BinaryIO) -> None:
        with packing(file, ending_for(self.compression)) as packed:
            packed.write(b"" if table is None else self._header(table))

    def _header(self, table: pa.Table) -> bytes:
        return f"{csv_header(table.column_names, self._dialect)}\n".encode() if self.header else b""

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        table = without_lines(table)
        header = self._header(table)
        for number, pieces in enumerate(self._contents(table, len(header))):
            name = folder + self._name(key, self._suffix, number)
            with self.directory.writing(name) as file:
                with packing(file, ending_for(self.compression)) as packed:
                    packed.write(header)
                    for piece in pieces:
                        packed.write(piece)
                size = file.tell()
            yield FilePart(self.directory.path(name), size=size)

    def _contents(self, table: pa.Table, header_bytes: int) -> Iterator[Iterator[bytes]]:
        """The content of each file after its header, in pieces."""
        limit = self._max_bytes()
        for rows in self._slices(table):
            pieces = (rows.slice(start, _ROWS) for start in range(0, rows.num_rows, _ROWS))
            lines = (csv_lines(piece, self._dialect).to_pylist() for piece in pieces)
            if limit is None:
                yield ("".join(f"{line}\n" for line in piece).encode() for piece in lines)
            else:
                encoded = (line.encode() for piece in lines for line in piece)
                files = lines_of_files(encoded, limit - header_bytes)
                yield from ((line + b"\n" for line in file) for file in files)
