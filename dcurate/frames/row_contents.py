"""Hashes of rows by their values, the same for all Arrow types that hold these."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from dcurate.frames.columns import rows_at
from dcurate.rows import left_in_lines
from dcurate.rows.lines import LINE, storage_of

_NULL, _TEXT, _BYTES, _INT, _UINT64, _FLOAT, _BOOL, _DATE, _TIME, _MOMENT, _STRUCT, _LIST = range(12)
#: Bytes before a value: its kind, and the value if it is a number, or its length.
_HEAD = 9
#: What the names of columns begin with that stages do not make.
_OURS = "_dcurate_"
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Ints = npt.NDArray[np.int64]


def row_contents(table: pa.Table) -> Iterator[tuple[memoryview, Ints]]:
    """The rows as bytes, one after another and in pieces, and where each ends in its piece.

    They follow from the values in the order of the columns. Equal values give equal bytes in each type that holds
    them: text in dictionaries, whole numbers of any width, times of any unit. Values of types that Parquet cannot hold
    are taken as text.

    Examples:
        >>> import pyarrow as pa
        >>> plain = pa.table({"n": pa.array([1, None], pa.int64()), "text": ["a", "b"]})
        >>> other = pa.table({"n": pa.array([1, None], pa.int8()), "text": pa.array(["a", "b"]).dictionary_encode()})
        >>> [(content, ends)], [(other_content, _)] = row_contents(plain), row_contents(other)
        >>> content == other_content, len(ends)
        (True, 2)
    """
    for batch in table.to_batches():
        bounds, content = _buffers(_contents(batch))
        yield content[bounds[0] : bounds[-1]], bounds[1:] - bounds[0]


def row_hashes(table: pa.Table, rows: npt.NDArray[np.int64]) -> bytes:
    r"""XXH3 of some rows of a table that `visible_values` made, 128 bits of the line and as many of other columns.

    It is as fast as reading them, and not secure against somebody who looks for other rows of equal hashes.

    Examples:
        >>> table = pa.table({"a": ["x", "y", "x"]})
        >>> hashes = row_hashes(table, np.array([0, 1, 2]))
        >>> len(hashes), hashes[:16] == hashes[32:], row_hashes(table, np.array([1])) == hashes[16:32]
        (48, True, True)
    """
    columns = [_hashes(storage_of(table), rows)] if LINE in table.column_names else []
    others = table.select([name for name in table.column_names if name != LINE])
    if others.num_columns:
        columns.append(_hashes_of_values(rows_at(others, rows).combine_chunks()))
    return b"".join(part for parts in zip(*columns, strict=True) for part in parts)


def _hashes_of_values(table: pa.Table) -> list[bytes]:
    return [
        digest
        for batch in table.to_batches()
        for digest in _hashes(_contents(batch), np.arange(batch.num_rows, dtype=np.int64))
    ]


def _hashes(contents: pa.Array, rows: npt.NDArray[np.int64]) -> list[bytes]:
    """Hashes of some values of large binary."""
    bounds, data = _buffers(contents)
    starts, stops = bounds[rows].tolist(), bounds[rows + 1].tolist()
    return [xxh3_128_digest(data[start:stop]) for start, stop in zip(starts, stops, strict=True)]


def _contents(batch: pa.RecordBatch) -> pa.Array:
    """Each row as bytes."""
    parts = [part for column in batch.columns for part in _parts(column)]
    return _side_by_side(parts or [_binary(np.zeros(batch.num_rows + 1, np.int64), b"")])


def visible_values(table: pa.Table) -> pa.Table:
    """The columns that count for a row that a stage took out: its own, and the line that it was read from.

    Hidden ones, such as the traceback of an error, differ between runs of equal rows.

    Examples:
        >>> visible_values(pa.table({"b": [1], "_dcurate_error": ["x"], "a": [2]})).column_names
        ['a', 'b']
    """
    table = left_in_lines(table, ())
    return table.select(sorted(name for name in table.column_names if name == LINE or not name.startswith(_OURS)))


def columns_about(table: pa.Table) -> bytes:
    """The names of the columns, for the root of the digests of the rows."""
    return json.dumps(table.column_names).encode()


def _parts(column: pa.Array) -> Iterator[pa.Array]:
    """A column as arrays of large binary without nulls, which side by side say where they end."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _parts(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from _parts(column.dictionary_decode())
    elif pa.types.is_struct(kind):
        yield _head(column, _STRUCT, np.zeros(len(column), np.int64))
        for child in column.flatten():  # null where the struct is
            yield from _parts(child)
    elif _is_list(kind):
        yield from _list_parts(column)
    elif _is_text(kind):
        yield from _variable(column.cast(pa.large_string()), _TEXT)
    elif _is_bytes(kind):
        yield from _variable(column.cast(pa.large_binary()), _BYTES)
    else:
        yield from _fixed(column)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or types.is_map(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _variable(column: pa.Array, mark: int) -> Iterator[pa.Array]:
    filled = column.fill_null(pa.scalar("" if mark == _TEXT else b"", column.type)) if column.null_count else column
    content = filled.cast(pa.large_binary())
    bounds, _ = _buffers(content)
    yield _head(column, mark, np.diff(bounds))
    yield content


def _list_parts(column: pa.Array) -> Iterator[pa.Array]:
    """The number of elements, and their bytes one after another."""
    if pa.types.is_map(column.type):
        plain = pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)]))
        column = column.cast(plain)
    elif pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    counts = _ints(pc.list_value_length(column))
    elements = column.flatten()  # without those of lists that are null
    bounds, content = _buffers(_side_by_side(list(_parts(elements))))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    yield _head(column, _LIST, counts)
    yield _binary(bounds[ends], content)


def _fixed(column: pa.Array) -> Iterator[pa.Array]:
    kind, types = column.type, pa.types
    if types.is_null(kind):
        yield _head(column, _NULL, np.zeros(len(column), np.int64))
    elif types.is_boolean(kind):
        yield _head(column, _BOOL, _ints(column))
    elif types.is_uint64(kind):
        yield _head(column, _UINT64, column.fill_null(0).to_numpy(zero_copy_only=False).view(np.int64))
    elif types.is_integer(kind):
        yield _head(column, _INT, _ints(column))
    elif types.is_floating(kind):
        numbers = column.cast(pa.float64()).fill_null(0)
        yield _head(column, _FLOAT, numbers.to_numpy(zero_copy_only=False).view(np.int64))
    elif types.is_date(kind):
        yield _head(column, _DATE, _ints(column.cast(pa.date32()).view(pa.int32())))
    elif types.is_time(kind):
        numbers = column.view(pa.int32() if types.is_time32(kind) else pa.int64())
        yield _head(column, _TIME, _ints(numbers) * (_UNITS["ns"] // _UNITS[kind.unit]))
    elif types.is_timestamp(kind):
        seconds, fraction = np.divmod(_ints(column.view(pa.int64())), _UNITS[kind.unit])
        yield _head(column, _MOMENT, seconds)
        yield _head(column, _MOMENT, fraction * (_UNITS["ns"] // _UNITS[kind.unit]))
    elif types.is_duration(kind):
        yield _head(column, _INT, _ints(column.view(pa.int64())))
    elif types.is_decimal(kind):
        yield from _variable(column.cast(pa.large_string()), _TEXT)
    else:
        values = [None if value is None else str(value) for value in column.to_pylist()]
        yield from _variable(pa.array(values, pa.large_string()), _TEXT)


def _ints(column: pa.Array) -> Ints:
    filled = column.cast(pa.int64()).fill_null(0)
    values: Ints = filled.to_numpy(zero_copy_only=False)
    return values


def _head(column: pa.Array, mark: int, values: Any) -> pa.Array:
    """The kind of each value and a number of 64 bits; zeros for null."""
    valid = np.asarray(column.is_valid()) if column.null_count or mark == _NULL else None
    heads = np.zeros((len(column), _HEAD), np.uint8)
    heads[:, 0] = mark
    heads[:, 1:] = np.ascontiguousarray(values, np.int64).view(np.uint8).reshape(len(column), 8)
    if valid is not None:
        heads[~valid] = 0
    return _binary(np.arange(0, _HEAD * len(column) + 1, _HEAD, dtype=np.int64), heads)


def _binary(bounds: Ints, content: Any) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _buffers(column: pa.Array) -> tuple[Ints, memoryview]:
    """Where each value begins and the last one ends, and the bytes."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return bounds if len(bounds) else np.zeros(1, np.int64), memoryview(data if data is not None else b"")


def _side_by_side(parts: list[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
