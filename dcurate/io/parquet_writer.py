"""Writes Parquet files, also in Hive directories (``lang=en/...``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.core.batch import BatchKey, FilePart
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import python_rows
from dcurate.frames.schema import ColumnTypes
from dcurate.io.appended import check_appended, types_in
from dcurate.io.folder_columns import NULL_FOLDER
from dcurate.io.parquet_schema import packed, write_options
from dcurate.io.partition import LARGE
from dcurate.io.proof import keep_rows, table_rows
from dcurate.io.sink import FileWriter
from dcurate.rows import columns_listed

_LONGEST_PART = 255
#: Arguments of `pyarrow.parquet.write_table` that say how columns are encoded.
_ENCODING = {"use_dictionary", "column_encoding", "use_byte_stream_split", "store_decimal_as_integer"}
_CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")


@dataclass
class ParquetWriter(FileWriter):
    """Write Parquet files.

    Columns and metadata that were read from Parquet, and that no stage touched, are written as they were; see
    `ParquetReader`. Values of a dictionary that no row has are left out, unless it is ordered, so that no text of a
    dropped row is in a file.

    Args:
        path: the directory to write to, local or a URL; file names follow from the keys of the batches. It is also a
            directory where it is named like a file, such as ``"out.jsonl"``; a notice says so.
        write_kwargs: for `pyarrow.parquet.write_table`, such as ``row_group_size``, and ``storage_options``.
        fields: the columns to write, in this order; all by default.
        mode: what to do about existing files: ``"error"`` refuses, ``"overwrite"`` deletes what an earlier
            run wrote, ``"ignore"`` writes beside them and replaces those of equal name, ``"append"`` leaves
            them all and writes under new names.
        compression: codec of the pages: ``"zstd"``, ``"snappy"``, ``"gzip"``, ``"lz4"``, ``"brotli"`` or ``"none"``.
        max_rows_per_file: split larger batches into several files.
        max_bytes_per_file: the same by bytes in memory; rows are distributed evenly.
        storage_options: for fsspec.
        label: with ``mode="append"``, a name of the rows, such as ``"2026-11-28"``: when a later run with the same
            label ends, its rows have replaced these, and those of other labels stay.
        separate_by: a column; rows of each of its values go to a folder of their own, such as ``en/``;
            null in ``%null/``. The column is written with the others, unless ``fields`` leaves it out.
        partition_cols: columns that become directories, ``lang=en/...``, instead of being written.

    Raises:
        PipelineError: settings that pyarrow does not know.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline
        >>> rows = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("write", stages=[ParquetWriter(folder.name)])
        >>> [files] = pipeline.run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> pd.read_parquet(files.data[0]).text.tolist()
        ['one', 'two']
        >>> folder.cleanup()
    """

    compression: str | None = "zstd"
    partition_cols: list[str] | None = None
    name: str = "parquet_writer"
    endings: ClassVar[tuple[str, ...]] = (".parquet",)
    takes_label: ClassVar[bool] = True
    writes_without_rows: ClassVar[bool] = True
    #: Types of the columns of files that earlier runs wrote, to which this one appends.
    _before: ColumnTypes = field(default=ColumnTypes(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.partition_cols, str):
            raise PipelineError(f"{self.name}: partition_cols must be a list: [{self.partition_cols!r}]")
        try:
            self._put(pa.table({"text": ["a"]}), BytesIO())
        except (TypeError, ValueError, pa.ArrowException, OSError) as error:
            known = "" if self.compression in _CODECS else f"; give one of {listed(_CODECS)}"
            raise PipelineError(
                f"{self.name}: pyarrow refuses compression={self.compression!r} or write_kwargs: {error}{known}"
            ) from error

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], list(dict.fromkeys([*super().inputs()[1], *(self.partition_cols or ())]))

    def prepare(self, resume: bool) -> None:
        super().prepare(resume)
        self._before = types_in(self.directory, self._files_before()) if self.mode == "append" else ColumnTypes()

    def _write(self, table: pa.Table, key: BatchKey, folder: str) -> Iterator[FilePart]:
        check_appended(self._before, table.schema, self.name)
        for inner, rows in self._folders(table):
            for number, piece in enumerate(self._pieces(rows)):
                name = folder + inner + self._name(key, ".parquet", number)
                with self.directory.writing(name) as file:
                    try:
                        self._put(piece, file)
                    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                        raise DataError(f"{self.name}: {error}; leave the column out with fields=") from error
                    size = file.tell()
                proof = keep_rows(self.directory, name, table_rows([piece])) if self._proves else ""
                yield FilePart(self.directory.path(name), size=size, proof=proof)

    def _put_without_rows(self, table: pa.Table | None, file: BinaryIO) -> None:
        assert table is not None, "files of Parquet have columns"
        self._put(table, file)

    def _put(self, table: pa.Table, file: BinaryIO) -> None:
        defaults = {
            "compression": self.compression or "none",
            "row_group_size": max(1, table.num_rows * LARGE // max(table.nbytes, 1)),
        }
        options = self._writing()
        as_read = {} if _ENCODING & options.keys() else write_options(table)
        pq.write_table(packed(table), file, **{**defaults, **as_read, **options})

    def _pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        limit = self._max_bytes()
        for rows in self._slices(table):
            number = 1 if limit is None else min(rows.num_rows, -(-rows.nbytes // limit) or 1)
            bounds = [place * rows.num_rows // number for place in range(number + 1)]
            for start, stop in pairwise(bounds):
                yield rows.slice(start, stop - start)

    def _folders(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The rows for each directory, in the order in which its first row comes."""
        columns = self.partition_cols
        if not columns:
            yield "", table
            return
        missing = [name for name in columns if name not in table.column_names]
        if missing or len(columns) == table.num_columns:
            raise DataError(
                f"{self.name}: partition_cols {listed(columns)} must be some of the columns, and not all: "
                f"{columns_listed(table.column_names)}"
            )
        place = "__place"
        keys = _named(table.select(columns)).append_column(place, pa.array(range(table.num_rows), pa.int64()))
        try:
            groups = keys.group_by(columns, use_threads=False).aggregate([(place, "list")])
        except pa.ArrowNotImplementedError as error:
            raise DataError(
                f"{self.name}: partition_cols {listed(columns)} hold {listed(map(str, keys.schema.types[:-1]))}, of "
                "which one names no directory; partition by columns of text or numbers"
            ) from error
        rows = table.drop_columns(columns)
        folders: dict[str, list[int]] = {}  # values of one name share a directory, such as several kinds of NaN
        for group in python_rows(groups):
            parts = [f"{quote(name, safe='')}={_segment(group[name])}" for name in columns]
            for name, part in zip(columns, parts, strict=True):
                if len(part) > _LONGEST_PART:
                    raise DataError(
                        f"{self.name}: a value of column {name!r} makes a name of {len(part):,} bytes, and a "
                        "directory's has 255 at most; partition by another column, or use separate_by="
                    )
            folders.setdefault("".join(f"{part}/" for part in parts), []).extend(group[f"{place}_list"])
        for folder, places in folders.items():
            yield folder, rows.take(pa.array(sorted(places)))


def _named(keys: pa.Table) -> pa.Table:
    """The columns with times of nanoseconds, which Python does not have, as text."""
    exact = [pa.string() if column.type == pa.time64("ns") else column.type for column in keys.columns]
    return keys.cast(pa.schema(list(zip(keys.column_names, exact, strict=True))))


def _segment(value: Any) -> str:
    """Return a value as it is in the name of a directory; the text that means null is escaped.

    Examples:
        >>> [_segment(value) for value in ("a/b", None, "__HIVE_DEFAULT_PARTITION__", True)]
        ['a%2Fb', '__HIVE_DEFAULT_PARTITION__', '%5F_HIVE_DEFAULT_PARTITION__', 'true']
    """
    if value is None:
        return NULL_FOLDER
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"%5F{text[1:]}" if text == NULL_FOLDER else quote(text, safe=" ,;+@")
