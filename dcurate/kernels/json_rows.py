"""JSON Lines as bytes: find the rows and the values of some keys, decode texts, and edit rows in place.

A row is the bytes of a line, without the newline. What is not edited is copied as it is: whitespace, the order of
keys, repeated keys, numbers of any size, escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from dcurate.core.kernels import Kernels
from dcurate.kernels.hashing import bits_of_table, hash_bytes
from dcurate.kernels.json_texts import KERNELS as TEXT_KERNELS
from dcurate.kernels.json_texts import SPARE, decode_into, encode, put
from dcurate.kernels.json_values import (
    ABSENT,
    ARRAY,
    BOOLEAN,
    CLOSE,
    COLON,
    COMMA,
    ESCAPED_TEXT,
    FLOAT,
    INTEGER,
    NEWLINE,
    NULL,
    OBJECT,
    OPEN,
    RETURN,
    SPACE,
    TAB,
    TEXT,
    Levels,
    end_of_key,
    end_of_value,
    find_byte,
    skip_white,
)
from dcurate.kernels.kept import Kept
from dcurate.kernels.layout import INLINE, INLINE_LATE, OPTIONS, Bytes, Ints, Offsets, Places, Scalar, frozen
from dcurate.kernels.nesting import KERNELS as NESTING_KERNELS

__all__ = [
    "ABSENT",
    "ARRAY",
    "BOOLEAN",
    "ESCAPED_TEXT",
    "FLOAT",
    "INTEGER",
    "KERNELS",
    "LEAVE",
    "NULL",
    "OBJECT",
    "REMOVE",
    "TEXT",
    "WRITE",
    "Edits",
    "Rows",
    "decode",
    "edit",
    "encode",
    "scan",
]

#: What to do with a key of a row: leave it, write its new value, or remove it.
LEAVE, WRITE, REMOVE = range(3)
#: So few bytes are counted at once that no count of them is larger than a byte holds.
_BLOCK = 240


class _Keys(NamedTuple):
    """Keys to look for: their names, a hash table of their numbers plus one, and scratch.

    ``decoded`` is for keys with escapes. One that does not fit is no name: an escape is at most six bytes for one.
    """

    offsets: Offsets
    letters: Bytes
    table: Places
    decoded: Bytes
    levels: Levels


@njit(**INLINE)
def _slot(letters: Bytes, start: int, stop: int, keys: _Keys) -> Scalar:
    """The slot of the name that these letters are, or the empty slot where it belongs."""
    offsets, table = keys.offsets, keys.table
    slot = np.int64(hash_bytes(letters, start, stop)) & (table.size - 1)
    while table[slot]:
        first = offsets[table[slot] - 1]
        same = offsets[table[slot]] - first == stop - start
        step = 0
        while same and step < stop - start:
            same = keys.letters[first + step] == letters[start + step]
            step += 1
        if same:
            break
        slot = (slot + 1) & (table.size - 1)
    return slot


@njit(**OPTIONS)
def _fill(keys: _Keys) -> None:
    """Enter the names into the table."""
    for number in range(keys.offsets.size - 1):
        keys.table[_slot(keys.letters, keys.offsets[number], keys.offsets[number + 1], keys)] = number + 1


@njit(**INLINE)
def _number_of(data: Bytes, start: int, stop: int, escaped: bool, keys: _Keys) -> Scalar:
    """The number of the name that a key is; -1 if it is none of them."""
    if not escaped:
        return np.int64(keys.table[_slot(data, start, stop, keys)]) - 1
    if stop - start > keys.decoded.size - SPARE:
        return np.int64(-1)
    first = np.int64(0)
    end = decode_into(data, start, stop, keys.decoded, first)
    return np.int64(keys.table[_slot(keys.decoded, first, end, keys)]) - 1


def _keys_of(names: Sequence[str], deepest: int) -> _Keys:
    """Prepare the search of names, each given once, in rows with values that are nested at most so deep."""
    keys = _empty_keys(names, deepest)
    _fill(keys)
    return keys


def _empty_keys(names: Sequence[str], deepest: int) -> _Keys:
    """The same before the names are in the table."""
    encoded = [name.encode() for name in names]
    return _Keys(
        frozen(np.cumsum([0, *map(len, encoded)]), np.int64),
        np.frombuffer(b"".join(encoded), np.uint8),
        np.zeros(1 << bits_of_table(len(names)), np.int32),
        np.empty(6 * max(map(len, encoded), default=0) + SPARE, np.uint8),
        np.empty(deepest - 1, np.bool_),
    )


class Rows(NamedTuple):
    """The rows of a block of JSON Lines, and where the values of some keys are.

    Args:
        starts: first byte of each row.
        stops: the end of each row: its newline, or the end of the block.
        valid: whether the row is a JSON object.
        value_starts: first byte of the value, shape (rows, keys); of a key that is repeated, the last one.
        value_stops: the end of it.
        kinds: what the key holds, such as `TEXT`; `ABSENT` if the row does not have it, or is not valid.
    """

    starts: Ints
    stops: Ints
    valid: npt.NDArray[np.bool_]
    value_starts: Ints
    value_stops: Ints
    kinds: Bytes


# Scanning


@njit(**INLINE_LATE)
def _end_of_line(data: Bytes, at: int) -> Scalar:
    """Where a line ends that has only whitespace from this position on; -1 if it has more."""
    at = skip_white(data, at, data.size)
    return np.int64(at) if at == data.size or data[at] == NEWLINE else np.int64(-1)


@njit(**INLINE_LATE)
def _scan_row(data: Bytes, at: int, keys: _Keys, row: int, out: Rows) -> Scalar:
    """The end of the line of a JSON object that begins at this position; write where the values of the keys are.

    It is -1 if there is no JSON object, or if more follows in its line. The line need not be found first: no value and
    no whitespace holds a newline.
    """
    none, stop = np.int64(-1), data.size
    if data[at] != OPEN:
        return none
    at = skip_white(data, at + 1, stop)
    if at < stop and data[at] == CLOSE:
        return _end_of_line(data, at + 1)
    while True:
        end, escaped, value = end_of_key(data, at, stop)
        if end < 0:
            return none
        value_end, kind = end_of_value(data, value, stop, keys.levels)
        if value_end < 0:
            return none
        number = _number_of(data, at + 1, end, escaped, keys)
        if number >= 0:
            out.value_starts[row, number], out.value_stops[row, number] = value, value_end
            out.kinds[row, number] = kind
        at = skip_white(data, value_end, stop)
        if at == stop:
            return none
        if data[at] == CLOSE:
            return _end_of_line(data, at + 1)
        if data[at] != COMMA:
            return none
        at = skip_white(data, at + 1, stop)


@njit(**OPTIONS)
def _count_lines(data: Bytes) -> Scalar:
    ends = np.int64(0)
    for at in range(0, data.size, _BLOCK):
        some = np.uint8(0)
        for byte in data[at : min(at + _BLOCK, data.size)]:
            some = np.uint8(some + np.uint8(byte == NEWLINE))
        ends += np.int64(some)
    return ends + (data.size > 0 and data[data.size - 1] != NEWLINE)


@njit(**OPTIONS)
def _scan(data: Bytes, keys: _Keys, out: Rows) -> Scalar:
    rows = at = np.int64(0)  # with literals, numba would compile all that they are passed to twice
    while at < data.size:
        first = skip_white(data, at, data.size)
        if first == data.size or data[first] == NEWLINE:
            at = first + 1
            continue
        stop = _scan_row(data, first, keys, rows, out)
        out.valid[rows] = stop >= 0
        if stop < 0:
            out.kinds[rows] = ABSENT
            stop = find_byte(data, first, data.size, NEWLINE)
        out.starts[rows], out.stops[rows] = at, stop
        rows += 1
        at = stop + 1
    return rows


def scan(data: bytes | memoryview, keys: Sequence[str], deepest: int) -> Rows:
    r"""Find the rows of a block of whole lines, and in each the values of some keys. Blank lines are no rows.

    Each row is checked against the grammar of JSON, with all its values. Whether it is UTF-8 is not checked.

    Args:
        data: the lines.
        keys: names of keys, each once.
        deepest: a row whose values are nested deeper is not valid; the row is the first level.

    Examples:
        >>> rows = scan(b'{"a": 1, "text": "x"}\n\n{"text": \n', ["text"], 40)
        >>> rows.starts.tolist(), rows.stops.tolist(), rows.valid.tolist()
        ([0, 23], [21, 32], [True, False])
        >>> rows.kinds.tolist(), rows.value_starts.tolist(), rows.value_stops.tolist()
        ([[5], [0]], [[17], [0]], [[20], [0]])
    """
    block = frozen(np.frombuffer(data, np.uint8), np.uint8)
    out = _no_rows(int(_count_lines(block)), len(keys))
    rows = _scan(block, _keys_of(keys, deepest), out)
    return Rows._make(values[:rows] for values in out)


def _no_rows(most: int, keys: int) -> Rows:
    """Return arrays for this number of rows."""
    return Rows(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.bool_),
        np.zeros((most, keys), np.int64),
        np.zeros((most, keys), np.int64),
        np.zeros((most, keys), np.uint8),
    )


# Decoding


@njit(**OPTIONS)
def _decode(data: Bytes, spans: tuple[Ints, Ints], kinds: Bytes, out: Bytes, offsets: Offsets) -> None:
    starts, stops = spans
    size = np.int64(0)
    for row in range(starts.size):
        offsets[row] = size
        if kinds[row] == TEXT:
            size = np.int64(put(data, starts[row] + 1, stops[row] - 1, out, size))
        elif kinds[row] == ESCAPED_TEXT:
            size = np.int64(decode_into(data, starts[row] + 1, stops[row] - 1, out, size))
    offsets[starts.size] = size


def decode(data: bytes | memoryview, rows: Rows, key: int) -> tuple[Offsets, Bytes]:
    r"""Decode the texts of a key: offsets, and UTF-8 bytes if those of the rows are. A value that is no text is empty.

    Examples:
        >>> data = b'{"a": "x\\ny"}\n{"a": "\\u00e9"}\n'
        >>> offsets, letters = decode(data, scan(data, ["a"], 40), 0)
        >>> offsets.tolist(), letters.tobytes()
        ([0, 3, 5], b'x\ny\xc3\xa9')
    """
    block = frozen(np.frombuffer(data, np.uint8), np.uint8)
    starts, stops = frozen(rows.value_starts[:, key], np.int64), frozen(rows.value_stops[:, key], np.int64)
    kinds = frozen(rows.kinds[:, key], np.uint8)
    texts = (kinds == TEXT) | (kinds == ESCAPED_TEXT)
    # From Arrow's memory, which keeps what is freed for its next array, as the C library does for NumPy's: from one of
    # them, less is kept.
    out = np.frombuffer(pa.allocate_buffer(int((stops - starts)[texts].sum()) + SPARE), np.uint8)
    offsets = np.empty(len(starts) + 1, np.int64)
    _decode(block, (starts, stops), kinds, out, offsets)
    return offsets, out[: offsets[-1]]


# Editing


class Edits(NamedTuple):
    """What to do with some keys of each row.

    Args:
        keys: the names of the keys, as they are written: offsets, and JSON strings.
        actions: `LEAVE`, `WRITE`, or `REMOVE`, shape (rows, keys).
        bounds: where the new values begin in ``values``, shape (keys, rows + 1).
        values: JSON text of the new values.
    """

    keys: tuple[Offsets, Bytes]
    actions: Bytes
    bounds: Ints
    values: Bytes


class _Block(NamedTuple):
    """Lines, what `scan` found in them, and what to do with it."""

    data: Bytes
    rows: Rows
    keys: _Keys
    edits: Edits


@njit(**INLINE_LATE)
def _append(block: _Block, row: int, some: bool, out: Bytes, size: int) -> Scalar:
    """Write the keys that the row does not have; ``some`` if there are others before them."""
    edits = block.edits
    offsets, names = edits.keys
    for key in range(offsets.size - 1):
        if edits.actions[row, key] != WRITE or block.rows.kinds[row, key] != ABSENT:
            continue
        if some:
            out[size] = COMMA
            size += 1
        some = True
        size = put(names, offsets[key], offsets[key + 1], out, size)
        out[size] = COLON
        size = put(edits.values, edits.bounds[key, row], edits.bounds[key, row + 1], out, size + 1)
    return size


@njit(**INLINE_LATE)
def _rewrite(block: _Block, row: int, out: Bytes, size: int) -> Scalar:
    """Write a row in which some keys have new values or are removed; return where it ends in ``out``."""
    data, edits, stop = block.data, block.edits, block.rows.stops[row]
    brace = skip_white(data, block.rows.starts[row], stop)
    size = put(data, block.rows.starts[row], brace + 1, out, size)
    first = at = skip_white(data, brace + 1, stop)
    gap = brace + 1  # the end of the value before
    some = False
    while data[at] != CLOSE:
        end, escaped, value = end_of_key(data, at, stop)
        value_end, _ = end_of_value(data, value, stop, block.keys.levels)
        number = _number_of(data, at + 1, end, escaped, block.keys)
        action = LEAVE if number < 0 else np.int64(edits.actions[row, number])
        if action != REMOVE:
            size = put(data, gap, at, out, size) if some else put(data, brace + 1, first, out, size)
            some = True
            if action == WRITE and value == block.rows.value_starts[row, number]:
                size = put(data, at, value, out, size)
                size = put(edits.values, edits.bounds[number, row], edits.bounds[number, row + 1], out, size)
            else:
                size = put(data, at, value_end, out, size)
        gap = value_end
        at = skip_white(data, value_end, stop)
        if data[at] == COMMA:
            at = skip_white(data, at + 1, stop)
    size = _append(block, row, some, out, size)
    return put(data, gap, stop, out, size)


@njit(**INLINE_LATE)
def _extend(block: _Block, row: int, out: Bytes, size: int) -> Scalar:
    """Write a row that only gets new keys; return where it ends in ``out``."""
    data, start, stop = block.data, block.rows.starts[row], block.rows.stops[row]
    last = stop - 1
    while data[last] != CLOSE:
        last -= 1
    last -= 1
    while data[last] == SPACE or data[last] == TAB or data[last] == RETURN:
        last -= 1
    size = put(data, start, last + 1, out, size)
    size = _append(block, row, data[last] != OPEN, out, size)
    return put(data, last + 1, stop, out, size)


@njit(**OPTIONS)
def _edit(block: _Block, out: Bytes, offsets: Offsets) -> None:
    rows, actions = block.rows, block.edits.actions
    size = np.int64(0)
    for row in range(rows.starts.size):
        offsets[row] = size
        some = changed = False
        if rows.valid[row]:
            for key in range(actions.shape[1]):
                some |= actions[row, key] == WRITE
                changed |= actions[row, key] != LEAVE and rows.kinds[row, key] != ABSENT
        if changed:
            size = np.int64(_rewrite(block, row, out, size))
        elif some:
            size = np.int64(_extend(block, row, out, size))
        else:
            size = np.int64(put(block.data, rows.starts[row], rows.stops[row], out, size))
    offsets[rows.starts.size] = size


def edit(
    data: bytes | memoryview, rows: Rows, keys: Sequence[str], edits: Edits, deepest: int
) -> tuple[Offsets, Bytes]:
    r"""Give keys of rows new values, or remove them; return the offsets and bytes of the new rows.

    A new value replaces the one before in place, or is appended to the row. Of a key that a row repeats, the last value
    is replaced; all are removed. All else is copied as it is, rows that are not valid as a whole.

    Args:
        data: the lines.
        rows: found in them by `scan`, with these keys.
        keys: names of keys, each once.
        edits: what to do.
        deepest: limit of nesting, as for `scan`.

    Examples:
        >>> data = b'{"a": 1, "b": 2.50}\n{}\n'
        >>> name, value = encode(np.array([0, 1]), np.frombuffer(b"a", np.uint8))[1], np.frombuffer(b"77", np.uint8)
        >>> edits = Edits((np.array([0, 3]), name), np.full((2, 1), WRITE, np.uint8), np.array([[0, 1, 2]]), value)
        >>> edit(data, scan(data, ["a"], 40), ["a"], edits, 40)[1].tobytes()
        b'{"a": 7, "b": 2.50}{"a":7}'
    """
    block = _block(data, rows, _keys_of(keys, deepest), edits)
    written = (edits.actions == WRITE).T
    grown = (np.diff(edits.bounds) + np.diff(edits.keys[0])[:, None] + 2)[written].sum()
    out = np.empty(int((rows.stops - rows.starts).sum() + grown), np.uint8)
    bounds = np.empty(len(rows.starts) + 1, np.int64)
    _edit(block, out, bounds)
    return bounds, out[: bounds[-1]]


def _block(data: bytes | memoryview, rows: Rows, keys: _Keys, edits: Edits) -> _Block:
    return _Block(
        frozen(np.frombuffer(data, np.uint8), np.uint8),
        Rows._make(frozen(values, values.dtype) for values in rows),
        keys,
        Edits(
            (frozen(edits.keys[0], np.int64), frozen(edits.keys[1], np.uint8)),
            frozen(edits.actions, np.uint8),
            frozen(edits.bounds, np.int64),
            frozen(edits.values, np.uint8),
        ),
    )


# Compilation


def _load_scan() -> None:
    block = frozen(np.empty(0, np.uint8), np.uint8)
    _scan(block, _empty_keys([], 2), _no_rows(0, 0))


def _load_edit() -> None:
    none = np.zeros(0, np.uint8)
    edits = Edits((np.zeros(1, np.int64), none), np.zeros((0, 0), np.uint8), np.zeros((0, 1), np.int64), none)
    _edit(_block(b"", _no_rows(0, 0), _empty_keys([], 2), edits), np.empty(0, np.uint8), np.empty(1, np.int64))


def _load_small() -> None:
    decode(b"", _no_rows(0, 1), 0)
    _count_lines(frozen(np.empty(0, np.uint8), np.uint8))
    _fill(_empty_keys([], 2))


def _kept_scan() -> list[Any]:
    return [_scan]


def _kept_edit() -> list[Any]:
    return [_edit]


def _kept_small() -> list[Any]:
    return [_decode, _count_lines, _fill]


#: What reading and editing lines takes; damaged ones are parsed.
KERNELS = (
    Kernels("json_rows.scan", _load_scan, Kept(_kept_scan), 2.7, "json_rows"),
    Kernels("json_rows.edit", _load_edit, Kept(_kept_edit), 1.5, "json_rows"),
    NESTING_KERNELS,
    TEXT_KERNELS,
    Kernels("json_rows.decode", _load_small, Kept(_kept_small), 0.8),
)
