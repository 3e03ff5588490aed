"""The lines of JSON that rows were read from, in a column of their own: unchanged rows are written from it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

#: The column that holds the line of each row, with its newline; null for a row that was not read from one.
LINE = "_dcurate_line"
#: Metadata of the field of a column whose values are those of the lines. A field of changed values does not have it.
_AS_READ = {b"dcurate": b"as read"}
#: Characters of a whole number that has 64 bits in any case.
_LONGEST_INTEGER = 18


class LineType(pa.ExtensionType):  # type: ignore[misc]
    """The type of the column of lines.

    Args:
        columns: those that were read from the lines. One that is no longer in the table was dropped; all others are in
            the lines alone.

    Examples:
        >>> LineType(["text"]).columns
        ('text',)
        >>> LineType(["text"]) == LineType(["id"])
        False
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        super().__init__(pa.large_binary(), "dcurate.line")

    def __arrow_ext_serialize__(self) -> bytes:
        return orjson.dumps(self.columns)

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> LineType:
        return _line_type(serialized)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LineType) and self.columns == other.columns

    def __hash__(self) -> int:
        return hash(self.columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return LineType, (self.columns,)


@lru_cache
def _line_type(serialized: bytes) -> LineType:
    """The type that was serialized; Arrow asks whenever it is looked at."""
    return LineType(orjson.loads(serialized))


pa.register_extension_type(LineType(()))


def with_lines(table: pa.Table, lines: pa.Array, columns: Sequence[str], added: Collection[str] = ()) -> pa.Table:
    """The table with a column of lines, its other columns marked as read from them.

    Args:
        lines: large binary.
        columns: those that were looked for in the lines.
        added: those of the table whose values are not from the lines.
    """
    read = {field.name: field.with_metadata({**(field.metadata or {}), **_AS_READ}) for field in table.schema}
    fields = [field if field.name in added else read[field.name] for field in table.schema]
    kind = LineType(columns)
    arrays = [*table.columns, pa.ExtensionArray.from_storage(kind, lines)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([*fields, pa.field(LINE, kind)]))


def with_lines_at(table: pa.Table, source: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """The table with the lines of rows of another; a column that is the same in both stays marked as read.

    Args:
        rows: the number of the row in the other table, for each row of this one.
    """
    lines = source.column(LINE).take(pa.array(rows))
    extended = table.append_column(source.schema.field(LINE), lines)
    if table.num_rows != source.num_rows or (rows != np.arange(len(rows))).any():
        return extended
    return _marked_as(extended, [_same_columns(source, table)])


def _same_columns(source: pa.Table, table: pa.Table) -> pa.Table:
    same = [
        field.name
        for field in source.schema
        if field.name in table.column_names and source.column(field.name).equals(table.column(field.name))
    ]
    return source.select(same)


def without_lines(table: pa.Table) -> pa.Table:
    """The table without its column of lines, if it has one, and without the marks of what was read from it."""
    if LINE not in table.column_names:
        return table
    return _marked(table.drop_columns([LINE]), ())


def with_more_read(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """The table with further columns, which were read from its lines."""
    kind = LineType([*read_columns(table), *columns])
    table = table.set_column(table.column_names.index(LINE), LINE, as_type(table.column(LINE), kind))
    for name, values in columns.items():
        table = table.append_column(pa.field(name, values.type, metadata=_AS_READ), values)
    return table


def with_new_lines(table: pa.Table, lines: pa.Array, columns: Sequence[str]) -> pa.Table:
    """The table with other lines, in which the values of these columns are written; they count as read from them.

    Args:
        lines: large binary.
    """
    kind = LineType(tuple(dict.fromkeys((*read_columns(table), *columns))))
    as_read = {field.name for field in table.schema if is_as_read(field)}
    place = table.column_names.index(LINE)
    return _marked(table.set_column(place, LINE, pa.ExtensionArray.from_storage(kind, lines)), as_read | {*columns})


def left_in_lines(table: pa.Table, keep: Collection[str]) -> pa.Table:
    """The table without the columns of text that are in its lines as they are, except for some.

    Examples:
        >>> texts = pa.table({"a": ["1"], "b": ["2"]})
        >>> table = with_lines(texts, pa.array([b"x"], pa.large_binary()), ["a", "b"])
        >>> left_in_lines(table, ["b"]).column_names
        ['b', '_dcurate_line']
    """
    if LINE not in table.column_names or table.column(LINE).null_count:
        return table
    dropped = [
        field.name
        for field in table.schema
        if is_as_read(field) and pa.types.is_string(field.type) and field.name not in keep
    ]
    kind = LineType([name for name in read_columns(table) if name not in dropped])
    remaining = table.drop_columns(dropped)
    return remaining.set_column(remaining.column_names.index(LINE), LINE, as_type(remaining.column(LINE), kind))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of the rows of several, with null where one has no such column.

    Raises:
        ArrowInvalid, ArrowTypeError: columns of one name have types that do not go together.
    """
    table = pa.concat_tables(_with_same_line_type(tables), promote_options="permissive").combine_chunks()
    return _marked_as(table, tables)


def _marked_as(table: pa.Table, tables: Sequence[pa.Table]) -> pa.Table:
    """The table with those columns marked as read that are so in all of the tables that it was made of."""
    if LINE not in table.column_names:
        return table
    read = set.intersection(*({field.name for field in source.schema if is_as_read(field)} for source in tables))
    return _marked(table, read)


def _marked(table: pa.Table, read: Collection[str]) -> pa.Table:
    """The table with these columns marked as read, and no others."""
    if not table.num_columns:  # a table made of none has no rows
        return table
    fields = [unmarked(field) for field in table.schema]
    marked = [
        field.with_metadata({**(field.metadata or {}), **_AS_READ}) if field.name in read else field for field in fields
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(marked, table.schema.metadata))


def unmarked(field: pa.Field) -> pa.Field:
    """The field of values that may not be those of the lines."""
    if not is_as_read(field):
        return field
    metadata = {key: value for key, value in field.metadata.items() if key not in _AS_READ}
    return field.with_metadata(metadata or None)


def common_type(one: pa.DataType, other: pa.DataType) -> LineType | None:
    """The type of lines of which different columns were read; None if these are not types of lines."""
    if not isinstance(one, LineType) or not isinstance(other, LineType):
        return None
    return LineType(tuple(dict.fromkeys((*one.columns, *other.columns))))


def as_type(lines: pa.ChunkedArray, kind: LineType) -> pa.ChunkedArray:
    """The lines with another type of lines."""
    return pa.chunked_array([pa.ExtensionArray.from_storage(kind, chunk.storage) for chunk in lines.chunks], kind)


def _with_same_line_type(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The tables with one type for their lines, so that they can be joined."""
    kinds = [table.schema.field(LINE).type for table in tables if LINE in table.column_names]
    if all(kind == kinds[0] for kind in kinds):
        return list(tables)
    kind = LineType(tuple(dict.fromkeys(name for line_type in kinds for name in line_type.columns)))
    return [
        table.set_column(table.column_names.index(LINE), LINE, as_type(table.column(LINE), kind))
        if LINE in table.column_names
        else table
        for table in tables
    ]


def lines_of(table: pa.Table) -> tuple[npt.NDArray[np.int64], memoryview] | None:
    """Where each line begins and the last one ends, and the bytes; None if a row has no line.

    Examples:
        >>> table = with_lines(pa.table({"a": [1, 2]}), pa.array([b"x", b"yz"], pa.large_binary()), ["a"])
        >>> bounds, data = lines_of(table.slice(1))
        >>> bounds.tolist(), bytes(data)
        ([0, 2], b'yz')
    """
    storage = storage_of(table)
    if storage.null_count:
        return None
    _, offsets, data = storage.buffers()
    bounds = np.frombuffer(offsets, np.int64)[storage.offset : storage.offset + len(storage) + 1]
    content = memoryview(data if data is not None else b"")[bounds[0] : bounds[-1]]
    return bounds - bounds[0], content


def has_lines(table: pa.Table) -> bool:
    """Whether rows have lines: a column that the table does not have may be in them."""
    return LINE in table.column_names


def columns_to_read(wanted: Sequence[str], available: Collection[str]) -> list[str]:
    """The columns to read of a file, to have those that are wanted: also the lines, if one may be in them alone.

    Args:
        wanted: names of columns.
        available: names of the columns of the file.

    Examples:
        >>> columns_to_read(["id", "text"], ["id", "_dcurate_line"]), columns_to_read(["id"], ["id", "_dcurate_line"])
        (['id', '_dcurate_line'], ['id'])
    """
    present = [name for name in wanted if name in available]
    return [*present, LINE] if LINE in available and len(present) < len(wanted) else list(wanted)


def whole_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows with all columns: those of the lines, and those of the table in their stead.

    Examples:
        >>> line = pa.array([b'{"a": 1, "b": 2}'], pa.large_binary())
        >>> list(whole_rows(with_lines(pa.table({"a": [7]}), line, ["a"])))
        [{'a': 7, 'b': 2}]
    """
    read, values_only = set(read_columns(table)), without_lines(table)
    if not values_only.num_columns and not read:
        yield from map(parsed_line, table.column(LINE).to_pylist())
        return
    table_rows = values_only.to_pylist()
    for line, row in zip(table.column(LINE).to_pylist(), table_rows or [{}] * table.num_rows, strict=True):
        values = {} if line is None else parsed_line(line)
        kept = {name: row.get(name) if name in row else value for name, value in values.items()}
        yield {name: value for name, value in kept.items() if name in row or name not in read} | row


def parsed_line(line: bytes) -> Any:
    """Parse a line of JSON; a number that is too large for a float is text.

    Raises:
        ValueError: it is no JSON.

    Examples:
        >>> parsed_line(b'{"a": 1e400, "b": 1e300}')
        {'a': '1e400', 'b': 1e+300}
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line, parse_float=_number, parse_int=_number)


def _number(text: str) -> int | float | str:
    if len(text) <= _LONGEST_INTEGER and text.lstrip("-").isdecimal():
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else text


def line_type_of(table: pa.Table) -> LineType | None:
    """The type of the lines of a table; None without lines."""
    kind = table.schema.field(LINE).type if LINE in table.column_names else None
    return kind if isinstance(kind, LineType) else None


def storage_of(table: pa.Table) -> pa.Array:
    """The lines of a table as large binary."""
    column = table.column(LINE)
    if column.num_chunks == 1:  # to combine it would copy it
        return column.chunk(0).storage
    column = column.combine_chunks()
    return (column.chunk(0) if isinstance(column, pa.ChunkedArray) else column).storage


def read_columns(table: pa.Table) -> tuple[str, ...]:
    """The columns that were read from the lines of a table."""
    return tuple(table.schema.field(LINE).type.columns)


def is_as_read(field: pa.Field) -> bool:
    """Whether the values of a column are certainly those of the lines."""
    return field.metadata is not None and _AS_READ.keys() <= field.metadata.keys()
