"""Reads Parquet files, also in Hive directories (``lang=en/...``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from dcurate.core.batch import FileGroup, FilePart, FileRows
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.frames.gpus import decode
from dcurate.frames.schema import ColumnTypes, combined, with_fields, without
from dcurate.fs.errors import storage_errors
from dcurate.fs.listing import check_unchanged, open_unchanged, unchanged
from dcurate.io import files
from dcurate.io.json_parse import remarks_on_rounded, rounded_as
from dcurate.io.parquet_bounds import group_bounds
from dcurate.io.parquet_int96 import ALL_YEARS, int96_columns, with_declared_units
from dcurate.io.parquet_schema import unpacked
from dcurate.io.row_filter import GROUP_BYTES, GROUPS, Bounds, skipped_groups
from dcurate.io.source import FileReader
from dcurate.rows import with_origins
from dcurate.rows.origins import Place

#: Types that cuDF reads as Arrow does.
_PLAIN = frozenset({pa.string(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()})
#: Rows that are decoded at once where some rows of a row group are read.
_BATCH = 1024
#: Arguments for some rows of a file: its pages are read as they are needed, not whole row groups.
_BUFFERED = MappingProxyType({"buffer_size": 2**20, "pre_buffer": False})
_PANDAS = {"engine": "pyarrow", "dtype_backend": "pyarrow"}
_READ_KWARGS = (
    "memory_map",
    "buffer_size",
    "pre_buffer",
    "coerce_int96_timestamp_unit",
    "page_checksum_verification",
    "thrift_string_size_limit",
    "thrift_container_size_limit",
)
READ_KWARGS = (*_READ_KWARGS, *_PANDAS)


@dataclass
class ParquetReader(FileReader):
    """Read Parquet files.

    Files larger than 128 MiB (or than ``blocksize``) are cut at row groups. A column that is missing in a file is
    null there. Folders named ``column=value`` below the given path are a column: of whole numbers, dates
    (``2024-05-06``) or booleans (``true``, ``false``) where all values of all files are such, in the way in which they
    are written again, and else of text, such as ``007``.

    A column has one type in all files: that of the file where all have the same; of two whole numbers the wider, of
    whole numbers and floats ``float64``, of text and large text large text, of timestamps the finer. A dictionary, or a
    view of text, counts as its plain values. Types without a common one are refused; ``schema`` decides then.
    Timestamps of 96 bits, as of Spark and Hive, have nanoseconds. These end at the years 1677 and 2262: others are
    refused, and ``schema={"at": "timestamp[us]"}`` reads the years 1 to 9999.

    Stages get dictionaries and views as plain values. `ParquetWriter` writes a column that no stage replaced as it was:
    as a dictionary or view, with its nullability, metadata and encoding. The metadata of a file goes to the files that
    are written of its rows. Where these are of several files, what all of them agree on is kept: a dictionary in one
    and text in another leave as text. What pandas and Hugging Face ``datasets`` note of columns is kept for columns
    that are as they were. With ``frames="cudf"`` all of this may be lost.

    Args:
        file_paths: files, directories (searched recursively) and globs, local or URLs; ``{a,b}`` is either of both.
        files_per_partition: files of one split: one by default, or up to 16 of 1,000 or more small ones.
        blocksize: split size on disk, as bytes or ``"128MiB"``: larger files are cut, smaller ones packed.
        fields: the columns to read, in this order; all by default.
        read_kwargs: for `pyarrow.parquet.ParquetFile`, such as ``memory_map``, and ``storage_options``.
        storage_options: for fsspec.
        schema: types of columns by name, to override those of the files: ``{"id": "string"}``.
        limit: number of rows to read, at most: the first ones in the order of the files, before `filter`.
        filter: rows to read: an SQL condition such as ``"lang = 'en' AND score >= 0.5"``, or a
            `pyarrow.compute.Expression`; others are no input. Files in Hive directories and row groups that cannot
            hold any are not read.
        folder_fields: whether folders named ``column=value`` are columns. A file that has the column itself keeps its
            values; with ``filter`` they must be those of the folder. ``schema`` gives such a column another type.
        frames: ``"cudf"`` to have the rows on a GPU, in a slot that has one: local files of plain columns are decoded
            there, others on the CPU and moved once. Untested on a GPU.

    Raises:
        PipelineError: incompatible settings.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import InlineExecutor, Pipeline
        >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        ...     pd.DataFrame({"text": ["one"], "n": [1]}).to_parquet(file.name)
        ...     reader = ParquetReader(file.name, fields=["n"])
        ...     [batch] = Pipeline("read", stages=[reader]).run(InlineExecutor(), observers=[])
        >>> batch.to_pandas().to_dict("records")
        [{'n': 1}]
    """

    name: str = "parquet_reader"

    kind: ClassVar[files.Format] = files.PARQUET
    has_folder_columns: ClassVar[bool] = True

    def process(self, task: FileGroup) -> DocumentBatch | None:
        """The rows of a split; None if it has none.

        Raises:
            DataError: a file that cannot be read, or types that clash.
        """
        decoded = self._decoded_on_gpu(task)
        if decoded is not None:
            return DocumentBatch(data=decoded, key=task.key) if len(decoded) else None
        pieces, schema = self._read(task, self._known())
        expected = self._known().types
        if any(piece.left for piece in pieces) and any(
            schema.field(name).type != expected[name] for name in self._filter_columns() or () if name in expected
        ):
            pieces, schema = self._read(task, None)  # row groups were left out by values of another type
        tables = [piece.table for piece in pieces]
        rounded_counts = sum((rounded_as(table, schema) for table in tables), Counter[str]())
        try:
            rows = combined(tables, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"{task.key}: {error}; give the column another type with schema=") from error
        if self._marks_rows:
            rows = with_origins(rows, [self._place(*pair) for pair in zip(task.parts, pieces, strict=True)])
        rows = self._matching(rows, schema.names)
        for piece in pieces:
            rounded_counts += piece.left
        counts = rows.num_rows or rounded_counts
        return DocumentBatch(data=self._held(rows), key=task.key, found=rounded_counts) if counts else None

    def _read(self, task: FileGroup, known: ColumnTypes | None) -> tuple[list[RowGroupPiece], pa.Schema]:
        """The rows of each part, and the types that they are to have; row groups are left out by known types."""
        shape, fixed = self._known(), self._declared()
        pieces = []
        for part in task.parts:
            name = self._named(part)
            piece = self._piece(part, name, known)
            shape = self._joined(shape, [column for column in piece.table.schema if column.name not in fixed], name)
            pieces.append(piece)
        return pieces, shape.schema(self._read_names())

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return sentences about whole numbers that lost digits."""
        return [*remarks_on_rounded(found), *skipped_groups(found)]

    def _place(self, part: FilePart, piece: RowGroupPiece) -> Place:
        first = part.rows[0] if part.rows else 0
        if not part.start and not piece.left:
            return self._named(part), np.arange(first, first + piece.table.num_rows)
        with self._opened(part.path, self._named(part), part.version) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        begins = list(accumulate(sizes, initial=first))
        if part.rows is not None:
            return self._named(part), np.arange(begins[part.start], begins[part.start] + piece.table.num_rows)
        numbers = [np.arange(begins[group], begins[group] + sizes[group]) for group in piece.groups]
        return self._named(part), np.concatenate([np.arange(0), *numbers])

    def _decoded_on_gpu(self, task: FileGroup) -> Any | None:
        """Return the rows as read by cuDF; None if not requested, or if they might differ from Arrow's."""
        if self.frames != "cudf" or self.schema or self.filter is not None or isinstance(task, FileRows):
            return None
        parts = []
        for part in task.parts:
            name, (store, path) = self._named(part), self._store(part.path)
            with self._opened(part.path, name, part.version) as file:
                groups = range(part.start, file.num_row_groups if part.stop is None else part.stop)
                schema = file.schema_arrow.remove_metadata()
            if (
                not isinstance(store, LocalFileSystem)
                or not _is_plain(schema, self._known(), self.fields)
                or self._in_folders(name)
            ):
                return None
            parts.append((path, self.fields or schema.names, list(groups)))
        decoded = decode(parts)
        for part in task.parts:
            check_unchanged(*self._store(part.path), part.version, self._named(part))
        return decoded

    def _piece(self, part: FilePart, name: str, known: ColumnTypes | None) -> RowGroupPiece:
        how = {} if part.rows is None or _BUFFERED.keys() & self._reading().keys() else _BUFFERED
        with self._opened(part.path, name, part.version, how) as file:
            in_part = range(part.start, file.num_row_groups if part.stop is None else part.stop)
            schema, names = file.schema_arrow, self._read_names()
            columns = self._columns(part, name, schema)
            places = {column.name: old for old, column in columns.items()}
            wanted = list(columns) if names is None else [places[new] for new in names if new in places]
            groups = list(in_part)
            if known is not None and part.rows is None:
                groups = self._possible_groups(file.metadata, in_part, places, self._constants(part, name), known)
            left = _amounts(file.metadata, set(in_part) - set(groups), wanted)
            twice = [column for column, count in Counter(schema.names).items() if count > 1 and column in wanted]
            if twice:
                raise DataError(
                    f"{name} has several columns {listed(twice)}; leave them out with fields=, or rename them"
                )
            # One column at least, even if it is dropped later: without any, Arrow forgets how many rows there are.
            table = _groups(file, groups, wanted or schema.names[:1], part.rows)
            table.validate(full=True)
            moments = [] if ALL_YEARS.keys() & self._reading().keys() else int96_columns(file.metadata, wanted)
            if moments:
                declared = self._declared()
                types = {old: declared[new.name] for old, new in columns.items() if new.name in declared}
                with self._opened(part.path, name, part.version, ALL_YEARS) as again:
                    coarse = _groups(again, groups, moments, part.rows)
                table = with_declared_units(table, coarse, types, name)
            table = unpacked(table, file.metadata)
        columns = self._columns(part, name, table.schema)
        # A column without a name is dropped later.
        table = with_fields(table, [columns.get(column.name, column.with_name("\1")) for column in table.schema])
        table = self._with_folders(table, name, names)
        for column, value in self._constants(part, name).items():
            if column not in table.column_names and (names is None or column in names):
                table = table.append_column(column, pa.repeat(value, table.num_rows))
        return RowGroupPiece(table, groups, left)

    def _possible_groups(
        self,
        about: pq.FileMetaData,
        groups: Sequence[int],
        places: Mapping[str, str],
        constants: Mapping[str, pa.Scalar],
        known: ColumnTypes,
    ) -> list[int]:
        """The row groups that may hold rows that match the filter.

        Args:
            about: footer of the file.
            groups: numbers of row groups.
            places: names in the file of the columns, by the names that rows have.
            constants: values of columns for all rows of the file.
            known: types that the columns get.
        """
        condition, looked_at = self._row_filter(), self._filter_columns()
        if condition is None or not looked_at or not known.types:
            return list(groups)
        kinds = {name: kind for name, kind in known.types.items() if name in looked_at}
        in_folders = self.has_folder_columns
        fixed = {name: constants[name] for name in kinds if name in constants and (in_folders or name not in places)}
        whole = {name: Bounds.of_constant(value) for name, value in fixed.items()}
        absent = {name: Bounds(all_null=True) for name in kinds if name not in places and name not in fixed}
        stored = {name: places[name] for name in kinds if name in places and name not in fixed}
        bounds = [whole | absent | known_bounds for known_bounds in group_bounds(about, groups, stored)]
        possible = condition.may_match(bounds, known.schema())
        return [group for group, is_possible in zip(groups, possible, strict=True) if is_possible]

    def _columns(self, part: FilePart, name: str, schema: pa.Schema) -> dict[str, pa.Field]:
        """The columns of a file as rows have them, by their names in the file."""
        return {column.name: column for column in schema}

    def _constants(self, part: FilePart, name: str) -> dict[str, pa.Scalar]:
        """Values for all rows of a file, by column; the file itself may have one that is not in the folders."""
        return self._folder_values(name)

    def _counted(self, part: FilePart) -> list[FilePart]:
        with self._opened(part.path, self._named(part), part.version) as file:
            groups = range(part.start, file.num_row_groups if part.stop is None else part.stop)
            counts = {group: file.metadata.row_group(group).num_rows for group in groups}
        return [replace(part, start=group, stop=group + 1, rows=(0, count)) for group, count in counts.items()]

    @contextmanager
    def _opened(
        self, address: str, name: str, version: str = "", how: Mapping[str, Any] = MappingProxyType({})
    ) -> Iterator[pq.ParquetFile]:
        store, path = self._store(address)
        kwargs = {**how, **{key: value for key, value in self._reading().items() if key not in _PANDAS}}
        with storage_errors("read", address), ExitStack() as stack:
            source: str | BinaryIO = path
            if isinstance(store, LocalFileSystem):
                stack.enter_context(unchanged(store, path, version, name))
            else:
                source = stack.enter_context(open_unchanged(store, path, version, name, cache_type="readahead"))
            try:
                opened = stack.enter_context(pq.ParquetFile(source, **kwargs))
                _check_rows(opened.metadata)
                yield opened
            except (FileNotFoundError, PermissionError, pa.ArrowMemoryError):
                raise
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise DataError(f"{name} {_problem(error)}") from error

    def _cut(self, file: files.SourceFile, target: int) -> list[int]:
        with self._opened(file.path, file.name) as opened:
            groups = [opened.metadata.row_group(number).total_byte_size for number in range(opened.num_row_groups)]
        share = file.size / max(sum(groups), 1)
        bounds, size = [0], 0.0
        for number, nbytes in enumerate(groups):
            if size and size + nbytes * share > target:
                bounds.append(number)
                size = 0.0
            size += nbytes * share
        return [*bounds, len(groups)]

    def _head(self, file: files.SourceFile) -> pa.Schema | None:
        with self._opened(file.path, file.name) as opened:
            schema = opened.schema_arrow
        plain = [pa.field(column.name, without(column.type, "encoding")) for column in schema]
        return pa.schema(plain)

    def _check_read_kwargs(self, kwargs: dict[str, Any]) -> None:
        refused = [name for name, value in kwargs.items() if name not in _READ_KWARGS and _PANDAS.get(name) != value]
        if refused:
            raise PipelineError(
                f"{self.name}: read_kwargs {listed(refused)} mean nothing here; there are {listed(_READ_KWARGS)}, "
                f"and fields= for columns"
            )


class RowGroupPiece(NamedTuple):
    """Rows of one part: of which row groups they are, and what a filter left out of these."""

    table: pa.Table
    groups: Sequence[int]
    left: Counter[str]


def _amounts(about: pq.FileMetaData, groups: Collection[int], columns: Sequence[str]) -> Counter[str]:
    """What row groups are that are not read: their number, and the bytes of their columns."""
    if not groups:
        return Counter()
    chunks = (about.row_group(group).column(number) for group in groups for number in range(about.num_columns))
    nbytes = sum(c.total_compressed_size for c in chunks if c.path_in_schema.partition(".")[0] in columns)
    return Counter({GROUPS: len(groups), GROUP_BYTES: nbytes})


def _groups(file: pq.ParquetFile, groups: Sequence[int], columns: list[str], rows: tuple[int, int] | None) -> pa.Table:
    """Yield row groups of a file, or some of their rows; skipped rows are read a batch at a time."""
    if rows is None:
        try:
            return file.read_row_groups(list(groups), columns=columns, use_threads=False)
        except pa.ArrowNotImplementedError:  # for dictionaries within lists, over several row groups
            tables = [file.read_row_group(group, columns=columns, use_threads=False) for group in groups]
            return pa.concat_tables(tables)
    first, last = rows
    batches, at = [], 0
    if first < last:
        for batch in file.iter_batches(_BATCH, list(groups), columns, use_threads=False):
            low, high = max(first - at, 0), min(last - at, batch.num_rows)
            batches += [batch.slice(low, high - low)] if low < high else []
            at += batch.num_rows
            if at >= last:
                break
    return pa.Table.from_batches(batches) if batches else file.schema_arrow.empty_table().select(columns)


def _problem(error: Exception) -> str:
    """What is wrong with a file that Arrow does not read, and what to do about it."""
    if "encrypt" in str(error) or "decrypt" in str(error):
        return f"is encrypted ({error}); decrypt it first, or leave it out"
    return f"is truncated or not a Parquet file ({error}); fetch it again or leave it out"


def _check_rows(about: pq.FileMetaData) -> None:
    """Refuse a footer whose total differs from its row groups: Arrow reads only the rows that these have.

    Some writers leave the total at 0.
    """
    rows = sum(about.row_group(number).num_rows for number in range(about.num_row_groups))
    if about.num_rows not in (0, rows):
        raise pa.ArrowInvalid(f"its row groups have {rows:,} rows, and it says that it has {about.num_rows:,}")


def _is_plain(schema: pa.Schema, known: ColumnTypes, fields: Sequence[str] | None) -> bool:
    """Whether Arrow and cuDF read all column types alike, and they are those of the other files."""
    names = schema.names if fields is None else fields
    alike = known.types.keys() == set(schema.names) if fields is None else set(fields) <= set(schema.names)
    return alike and all(
        schema.field(name).type in _PLAIN and known.types.get(name) == schema.field(name).type for name in names
    )
