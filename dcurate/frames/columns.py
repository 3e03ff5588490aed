"""Read and write table columns for text stages: Python values, numbers, new columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.errors import DataError
from dcurate.frames.libraries import pd
from dcurate.frames.schema import without
from dcurate.frames.text import text_array
from dcurate.rows import columns_listed

#: From so many bytes on, NumPy asks for large pages.
_LARGE = 2**22
#: Mean bytes of stretches of rows from which on it pays to copy them one by one.
_STRETCH = 2**11
#: The types of offsets of the columns of bytes.
_WIDTHS: dict[pa.DataType, Any] = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}


def values(table: pa.Table, name: str) -> list[Any]:
    """The values of a column as Python objects, None for null.

    Raises:
        DataError: the column does not exist.

    Examples:
        >>> values(pa.table({"text": ["a", None]}), "text")
        ['a', None]
    """
    return list(_column(table, name).to_pylist())


def optional_values(table: pa.Table, name: str | None) -> list[Any]:
    """The values of a column as Python objects; None for each row if the column is missing.

    Examples:
        >>> optional_values(pa.table({"text": ["a"]}), "url")
        [None]
    """
    return values(table, name) if name and name in table.column_names else [None] * table.num_rows


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python objects; a date or time that Python does not have is text.

    Python's dates end with the year 9999, those of Arrow do not. In a nested value all dates and times are text then.

    Examples:
        >>> python_values(pa.array([0, 2**31 - 1], pa.date32()))
        [datetime.date(1970, 1, 1), '<value out of range: 2147483647>']
    """
    try:
        return list(column.to_pylist())
    except OverflowError:
        return [_python_value(column.slice(place, 1)) for place in range(len(column))]


def floats_in(values: pa.Array) -> Iterator[pa.Array]:
    """The floats that an array is of, or that are within its values: an array of them for each place in its type."""
    if pa.types.is_floating(values.type):
        yield values
    elif pa.types.is_dictionary(values.type) and _has_floats(values.type):
        yield from floats_in(values.dictionary_decode())
    elif _has_floats(values.type):
        children = values.flatten()
        for child in children if pa.types.is_struct(values.type) else [children]:
            yield from floats_in(child)


def _has_floats(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_has_floats(child.type) for child in type_)
    nested = pa.types.is_nested(type_) or pa.types.is_dictionary(type_)
    return _has_floats(type_.value_type) if nested else pa.types.is_floating(type_)


def python_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a table with values as `python_values` returns them.

    Examples:
        >>> python_rows(pa.table({"n": [1, 2]}))
        [{'n': 1}, {'n': 2}]
    """
    columns = map(python_values, table.columns)
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_value(column: pa.Array | pa.ChunkedArray) -> Any:
    try:
        return column.to_pylist()[0]
    except OverflowError:
        return column.cast(without(column.type, "temporal")).to_pylist()[0]


def numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """The values of a numeric or boolean column as an array, NaN for null.

    Raises:
        DataError: the column does not exist, or does not hold numbers.

    Examples:
        >>> numbers(pa.table({"score": [1, 2]}), "score")
        array([1, 2])
    """
    column = _column(table, name)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"column {name!r} holds {kind}, not numbers; name the column that holds the scores")
    return np.asarray(column.to_numpy())


def as_series(texts: pa.Array | Sequence[str | None]) -> pd.Series[str]:
    """Texts as a pandas Series backed by Arrow; a null text is an empty one.

    Examples:
        >>> as_series(["a", None]).tolist()
        ['a', '']
    """
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    return cast("pd.Series[str]", array.fill_null("").to_pandas())


def with_column(table: pa.Table, name: str, column: npt.NDArray[Any] | Sequence[Any]) -> pa.Table:
    """The table with a column added, or replaced in place.

    Raises:
        DataError: the values are of kinds that one column cannot hold together.

    Examples:
        >>> with_column(pa.table({"text": ["a", "b"]}), "score", np.array([1, 2])).to_pydict()
        {'text': ['a', 'b'], 'score': [1, 2]}
    """
    try:
        content = pa.array(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"values of column {name!r} mix types, which a column cannot: {error.args[0]}") from error
    return _put(table, name, content)


def with_text(table: pa.Table, name: str, texts: Sequence[str | None]) -> pa.Table:
    """The table with a text column of that name, which keeps its type if it was a text column before.

    Raises:
        DataError: a value is not text.

    Examples:
        >>> with_text(pa.table({"text": ["a "]}), "text", ["a"]).schema.field("text").type
        DataType(string)
    """
    kind = table.schema.field(name).type if name in table.column_names else pa.string()
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        kind = pa.string()
    try:
        content = pa.array(texts, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"column {name!r} must hold text: {error.args[0]}") from error
    return with_column(table, name, content)


def rows_at(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """The rows with these numbers, in this order.

    Examples:
        >>> rows_at(pa.table({"text": ["a", "b", "c"]}), np.array([2, 0]))["text"].to_pylist()
        ['c', 'a']
    """
    taken = pa.array(rows)
    columns = [_in_stretches(column, rows) or column.take(taken) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema) if columns else table.take(taken)


def nbytes_at(table: pa.Table, rows: npt.NDArray[np.int64]) -> int:
    """Bytes of `rows_at`, without a copy of the large columns.

    Examples:
        >>> table = pa.table({"text": ["a", "bc", "def"], "n": [1, 2, 3]})
        >>> nbytes_at(table, np.array([0, 2])) == rows_at(table, np.array([0, 2])).nbytes
        True
    """
    return sum(_nbytes_at(column, rows) for column in table.columns)


def _nbytes_at(column: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> int:
    layout = _bounds_of(column) if len(rows) else None
    if layout is None:
        return int(column.take(pa.array(rows)).nbytes)
    bounds, _ = layout
    nulls = -(-len(rows) // 8)  # Arrow makes a mask, also of none
    return int((bounds[rows + 1] - bounds[rows]).sum(dtype=np.int64)) + bounds.itemsize * len(rows) + nulls


def _bounds_of(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], pa.Array] | None:
    """Where each value of a column of bytes begins and the last one ends, and the values; None for other columns."""
    if column.num_chunks != 1 or column.null_count:
        return None
    chunk = column.chunk(0)
    values = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
    width = _WIDTHS.get(values.type)
    if width is None:
        return None
    return np.frombuffer(values.buffers()[1], width)[values.offset : values.offset + len(values) + 1], values


def _in_stretches(column: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> pa.Array | None:
    """The values of a large column in these rows, most of which follow each other; None if `take` is as fast.

    NumPy has large pages for large arrays, and Arrow does not: to make the small ones takes longer than to copy.
    """
    layout = _bounds_of(column) if len(rows) and column.nbytes >= _LARGE else None
    if layout is None:
        return None
    bounds, values = layout
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(bounds[rows + 1] - bounds[rows], out=ends[1:])
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    size = int(ends[-1])
    if size < _LARGE or size > np.iinfo(bounds.dtype).max or len(breaks) * _STRETCH > size:
        return None
    content, out = np.frombuffer(values.buffers()[2], np.uint8), np.empty(size, np.uint8)
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(rows))
    stretches = (bounds[rows[firsts]], bounds[rows[lasts - 1] + 1], ends[firsts], ends[lasts])
    for start, stop, begin, end in zip(*(positions.tolist() for positions in stretches), strict=True):
        out[begin:end] = content[start:stop]
    buffers = [None, pa.py_buffer(ends.astype(bounds.dtype)), pa.py_buffer(out)]
    taken = pa.Array.from_buffers(values.type, len(rows), buffers)
    return taken if values.type == column.type else pa.ExtensionArray.from_storage(column.type, taken)


def table_of(columns: Mapping[str, npt.NDArray[Any] | Sequence[Any]]) -> pa.Table:
    """A table of columns of equal length.

    Examples:
        >>> table_of({"number": np.array([1, 2]), "kept": np.array([True, False])}).to_pylist()
        [{'number': 1, 'kept': True}, {'number': 2, 'kept': False}]
    """
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def byte_rows(matrix: npt.NDArray[Any]) -> pa.Array:
    """The rows of a matrix as the values of a column of bytes; see `matrix_of`."""
    width = matrix.shape[1] * matrix.itemsize
    return pa.Array.from_buffers(pa.binary(width), len(matrix), [None, pa.py_buffer(np.ascontiguousarray(matrix))])


def matrix_of(table: pa.Table, name: str, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """The matrix in a column of `byte_rows`, without copying it if it is in one piece.

    Examples:
        >>> matrix_of(table_of({"pairs": byte_rows(np.array([[1, 2], [3, 4]]))}), "pairs", np.int64).tolist()
        [[1, 2], [3, 4]]
    """
    column = table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8, len(column) * width, column.offset * width)
    return data.view(kind).reshape(len(column), -1)


def nulls(rows: int) -> pa.Table:
    """A table with a number of rows and no columns.

    Examples:
        >>> nulls(3).num_rows
        3
    """
    return pa.table({"nothing": pa.nulls(rows)})


def only(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The table with these columns alone.

    Raises:
        DataError: the column does not exist.

    Examples:
        >>> only(pa.table({"id": [1], "text": ["a"]}), ["id"]).column_names
        ['id']
    """
    for name in columns:
        _column(table, name)
    return table.select(list(dict.fromkeys(columns)))


def renamed(table: pa.Table, sources: Mapping[str, str]) -> pa.Table:
    """Columns of the table under other names, and no others.

    Args:
        sources: name of the column of the table, by the new name.

    Raises:
        DataError: the column does not exist.

    Examples:
        >>> renamed(pa.table({"id": [1], "text": ["a"]}), {"doc": "id", "number": "id"}).to_pylist()
        [{'doc': 1, 'number': 1}]
    """
    return pa.Table.from_arrays([column_of(table, source) for source in sources.values()], list(sources))


def rows_or_nulls(table: pa.Table, rows: npt.NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
    """Columns of some rows, with nulls for row -1 and in columns that the table does not have.

    Examples:
        >>> rows_or_nulls(pa.table({"id": [1, 2]}), np.array([1, -1]), ["id", "text"]).to_pylist()
        [{'id': 2, 'text': None}, {'id': None, 'text': None}]
    """
    places, absent = pa.array(np.maximum(rows, 0), mask=rows < 0), pa.nulls(table.num_rows)
    sources = [table[name] if name in table.column_names else absent for name in columns]
    return pa.Table.from_arrays(sources, list(columns)).take(places) if columns else nulls(len(rows)).select([])


def with_values(table: pa.Table, name: str, other: pa.Table, source: str) -> pa.Table:
    """The table with a column added, taken from another table of the same length.

    Examples:
        >>> with_values(pa.table({"row": [0]}), "id", pa.table({"url": ["x"]}), "url").to_pylist()
        [{'row': 0, 'id': 'x'}]
    """
    return _put(table, name, _column(other, source))


def as_text(table: pa.Table, name: str) -> pa.Table:
    """The table with a column of numbers, or of any type, converted to text.

    Examples:
        >>> as_text(pa.table({"id": [1, None]}), "id")["id"].to_pylist()
        ['1', None]
    """
    return _put(table, name, _column(table, name).cast(pa.string()))


def with_taken(table: pa.Table, name: str, source: str, rows: npt.NDArray[np.int64]) -> pa.Table:
    """The table with a column added: the values of another one in the given rows.

    Examples:
        >>> with_taken(pa.table({"id": ["a", "b"]}), "kept_id", "id", np.array([0, 0]))["kept_id"].to_pylist()
        ['a', 'a']
    """
    return _put(table, name, _column(table, source).take(pa.array(rows)).combine_chunks())


def column_of(table: pa.Table, name: str, *, text: bool = False) -> pa.Array:
    """A column in one chunk.

    Args:
        text: whether it must hold text; a column of nothing but nulls then becomes one.

    Raises:
        DataError: the column does not exist, or does not hold text.
    """
    column = _column(table, name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return text_array(column, name) if text else column


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise DataError(f"no column {name!r}; the rows have {columns_listed(table.column_names)}")
    return table.column(name)


def with_texts_each(table: pa.Table, name: str, texts: Sequence[Sequence[str | None]]) -> pa.Table:
    """The table with a column added: a list of texts in each row.

    Examples:
        >>> with_texts_each(pa.table({"id": [1]}), "failed", [[]]).schema.field("failed").type
        ListType(list<item: string>)
    """
    return _put(table, name, pa.array(texts, pa.list_(pa.string())))


def with_lists(table: pa.Table, name: str, bounds: npt.NDArray[np.int64], content: npt.NDArray[Any]) -> pa.Table:
    """The table with a column of lists of numbers added: that of row ``i`` is ``content[bounds[i]:bounds[i + 1]]``.

    Examples:
        >>> with_lists(pa.table({"id": [1, 2]}), "set", np.array([0, 2, 2]), np.array([7, 9]))["set"].to_pylist()
        [[7, 9], []]
    """
    return _put(table, name, pa.LargeListArray.from_arrays(pa.array(bounds), pa.array(content)))


def with_structures(
    table: pa.Table, name: str, bounds: npt.NDArray[np.int64], fields: Mapping[str, npt.NDArray[Any]], *, source: str
) -> pa.Table:
    """The table with a column of lists of structures added, null where the column `source` is.

    Args:
        bounds: first structure of each row, and the end of the last.
        fields: values of the structures, by the name of the field: whole numbers, or texts as objects.

    Examples:
        >>> texts = pa.table({"text": ["ab", None]})
        >>> spans = with_structures(texts, "spans", np.array([0, 1, 1]), {"start": np.array([1])}, source="text")
        >>> spans["spans"].to_pylist()
        [[{'start': 1}], None]
    """
    kinds = {field: pa.string() if content.dtype == object else pa.int64() for field, content in fields.items()}
    arrays = [pa.array(content, kinds[field]) for field, content in fields.items()]
    content = pa.StructArray.from_arrays(arrays, names=list(fields))
    missing = np.append(column_of(table, source).is_null().to_numpy(zero_copy_only=False), False)
    return _put(table, name, pa.ListArray.from_arrays(pa.array(bounds, pa.int32(), mask=missing), content))


def with_records(
    table: pa.Table, name: str, fields: Sequence[str], records: Sequence[Sequence[Sequence[str]]]
) -> pa.Table:
    """Return the table with a column of lists of structures of texts added, null for an empty list.

    Args:
        fields: names of the texts.
        records: texts of each structure, in the order of `fields`, of each row; null for an empty text.

    Examples:
        >>> table = with_records(pa.table({"a": [1, 2]}), "turns", ["who", "what"], [[("x", "y"), ("", "z")], []])
        >>> table["turns"].to_pylist()
        [[{'who': 'x', 'what': 'y'}, {'who': None, 'what': 'z'}], None]
    """
    kind = pa.list_(pa.struct([(field, pa.string()) for field in fields]))
    rows = [
        [dict(zip(fields, (text or None for text in record), strict=True)) for record in row] or None for row in records
    ]
    return _put(table, name, pa.array(rows, kind))


def lists_of(table: pa.Table, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The bounds and the numbers of a column of lists; the inverse of `with_lists`.

    Raises:
        DataError: the column does not exist.
    """
    column = column_of(table, name)
    return column.offsets.to_numpy() - column.offsets[0].as_py(), column.flatten().to_numpy()


def with_constant(table: pa.Table, name: str, text: str) -> pa.Table:
    """The table with a column added that holds the same text in each row, stored once in memory.

    Examples:
        >>> with_constant(pa.table({"id": [1, 2]}), "source", "web")["source"].to_pylist()
        ['web', 'web']
    """
    return _put(table, name, pa.DictionaryArray.from_arrays(pa.array(np.zeros(table.num_rows, np.int32)), [text]))


def _put(table: pa.Table, name: str, content: pa.Array | pa.ChunkedArray) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, content)
    return table.append_column(name, content)
