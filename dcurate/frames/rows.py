"""Hash rows to numbers that do not depend on files and batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from dcurate.errors import DataError, listed
from dcurate.frames.columns import python_values
from dcurate.kernels.json_canonical import canonical
from dcurate.rows import columns_listed, has_lines, left_in_lines, whole_rows, without_origins
from dcurate.rows.lines import LINE, lines_of, read_columns

#: Rows by (high, low): an array of shape (rows, 2).
Keys = npt.NDArray[np.uint64]

#: Bytes of lines that are hashed at a time.
_BLOCK = 2**22
#: Up to here a double holds every whole number.
_EXACT = 2**53
_PLAIN = {str, int, bool}
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS


def row_keys(table: pa.Table, fields: Sequence[str] | None, seed: int) -> Keys:
    """128 random bits for each row that depend only on its values and the seed.

    Equal rows have equal keys: columns count by name, in any order; null is the same as no such column, and 1 the
    same as 1.0.

    Args:
        fields: the columns that identify a row; all of them if None.
        seed: other seeds give other keys.

    Raises:
        DataError: the column does not exist.

    Examples:
        >>> table = pa.table({"id": ["a", "b"], "n": [1, 2]})
        >>> swapped = pa.table({"n": [2.0, 1.0], "id": ["b", "a"]})
        >>> bool((row_keys(table, None, 7) == row_keys(swapped, None, 7)[::-1]).all())
        True
    """
    if fields is None:
        table = without_origins(table)
    if fields is None and has_lines(table):
        return _keys_of_lines(table, seed)
    names = sorted(table.column_names) if fields is None else list(fields)
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise DataError(f"no column {listed(missing)}; the rows have {columns_listed(table.column_names)}")
    columns = [_plain(table.column(name)) for name in names]
    return _digests((dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)), seed)


def _keys_of_lines(table: pa.Table, seed: int) -> Keys:
    """The keys of rows that have lines; plain lines that hold whole rows are hashed without parsing them."""
    remaining = left_in_lines(table, ())
    if remaining.column_names != [LINE] or read_columns(remaining):
        return _digests(map(_lean_row, whole_rows(table)), seed)
    keys = np.empty((table.num_rows, 2), np.uint64)
    step = max(1, table.num_rows * _BLOCK // max(1, remaining.nbytes))
    for start in range(0, table.num_rows, step):
        block = remaining.slice(start, step)
        lines = lines_of(block)
        assert lines is not None, "columns are left in lines where all rows have one"
        bounds, data = lines
        offsets, written = canonical(data, bounds)
        done = np.diff(offsets) > 0
        spans = map(slice, offsets[:-1][done].tolist(), offsets[1:][done].tolist())
        keys[start : start + step][done] = _hashed(map(written.data.__getitem__, spans), seed)
        if not done.any():  # nor are those that follow, most likely
            keys[start:] = _digests(map(_lean_row, whole_rows(remaining.slice(start))), seed)
            break
        if not done.all():
            keys[start : start + step][~done] = _digests(map(_lean_row, whole_rows(block.filter(~done))), seed)
    return keys


def _digests(rows: Iterable[Mapping[str, Any]], seed: int) -> Keys:
    return _hashed(map(_canonical, rows), seed)


def _hashed(rows: Iterable[bytes | memoryview], seed: int) -> Keys:
    salt = int(seed).to_bytes(16, "little", signed=True)
    digests = b"".join(hashlib.blake2b(row, digest_size=16, key=salt).digest() for row in rows)
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values = python_values(column)
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        return list(map(_lean, values))
    return values


def _lean(value: Any) -> Any:
    """Normalise a value that depends on how its file was read: nulls in structs, and 1.0 for 1.

    Examples:
        >>> _lean({"a": [1.0, None], "b": None, "c": {"d": 0.5}})
        {'a': [1, None], 'c': {'d': 0.5}}
    """
    kind = type(value)
    if kind in _PLAIN or value is None:
        return value
    if kind is dict:
        # What most values are is tested here: a call for each would take most of the time.
        return {
            name: inner if type(inner) in _PLAIN else _lean(inner) for name, inner in value.items() if inner is not None
        }
    if kind is list or kind is tuple:
        return [inner if type(inner) in _PLAIN else _lean(inner) for inner in value]
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    return value


def _lean_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Normalise a row of JSON; most hold nothing that would change."""
    return row if all(type(value) in _PLAIN for value in row.values()) else _lean(row)


def _canonical(row: Mapping[str, Any]) -> bytes:
    present = {name: value for name, value in row.items() if value is not None} if None in row.values() else row
    return orjson.dumps(present, repr, _SORTED)
