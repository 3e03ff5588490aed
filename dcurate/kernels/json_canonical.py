"""Rows of JSON in a form that only depends on their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.core.kernels import Kernels
from dcurate.kernels.json_texts import put
from dcurate.kernels.json_values import (
    BACKSLASH,
    BOOLEAN,
    CLOSE,
    COLON,
    COMMA,
    ESCAPED_TEXT,
    INTEGER,
    LOWER_U,
    MINUS,
    NULL,
    OPEN,
    TEXT,
    ZERO,
    end_of_key,
    end_of_scalar,
    find_byte,
    skip_white,
)
from dcurate.kernels.kept import Kept
from dcurate.kernels.layout import INLINE_LATE, OPTIONS, Bytes, Ints, Offsets, Scalar, frozen

#: Rows of more keys are left out.
_MOST_KEYS = 64
#: Characters of a whole number that has 64 bits in any case.
_LONGEST_INTEGER = 18
_SLASH = np.uint8(47)

#: Of each key of a row: where it begins and ends, with its quotes, and where its value does; its kind.
_Entries = Ints


@njit(**INLINE_LATE)
def _is_shortest(data: Bytes, at: int, stop: int) -> Scalar:
    """Whether all escapes of a valid string are the shortest, and needed."""
    at = find_byte(data, at, stop, BACKSLASH)
    while at < stop:
        if data[at + 1] == LOWER_U or data[at + 1] == _SLASH:
            return False
        at = find_byte(data, at + 2, stop, BACKSLASH)
    return True


@njit(**INLINE_LATE)
def _is_plain(data: Bytes, at: int, stop: int, kind: int) -> Scalar:
    """Whether a value is written as all that are equal to it are."""
    if kind == ESCAPED_TEXT:
        return _is_shortest(data, at, stop)
    if kind == INTEGER:
        return stop - at <= _LONGEST_INTEGER and not (data[at] == MINUS and data[at + 1] == ZERO)
    return kind in (TEXT, BOOLEAN, NULL)


@njit(**INLINE_LATE)
def _order(data: Bytes, first: int, first_stop: int, second: int, second_stop: int) -> Scalar:
    """Negative, 0 or positive as one key comes before, is the same as, or comes after another."""
    while first < first_stop and second < second_stop:
        if data[first] != data[second]:
            return np.int64(data[first]) - np.int64(data[second])
        first += 1
        second += 1
    return np.int64((first_stop - first) - (second_stop - second))


@njit(**INLINE_LATE)
def _find_entries(data: Bytes, at: int, stop: int, entries: _Entries) -> Scalar:
    """Write the keys of a row in their order; return how many, or -1 if the row is left out."""
    none, count = np.int64(-1), np.int64(0)
    at = skip_white(data, at, stop)
    if at == stop or data[at] != OPEN:
        return none
    at = skip_white(data, at + 1, stop)
    while at < stop and data[at] != CLOSE:
        end, escaped, value = end_of_key(data, at, stop)
        if end < 0 or escaped or count == _MOST_KEYS:
            return none
        value_end, kind = end_of_scalar(data, value, stop)
        if value_end < 0 or not _is_plain(data, value, value_end, kind):
            return none
        place = count
        while place > 0:
            order = _order(data, at + 1, end, entries[place - 1, 0] + 1, entries[place - 1, 1] - 1)
            if order == 0:
                return none
            if order > 0:
                break
            for item in range(5):
                entries[place, item] = entries[place - 1, item]
            place -= 1
        entries[place, 0], entries[place, 1] = at, end + 1
        entries[place, 2], entries[place, 3] = value, value_end
        entries[place, 4] = kind
        count += 1
        at = skip_white(data, value_end, stop)
        if at < stop and data[at] == COMMA:
            at = skip_white(data, at + 1, stop)
    return count


@njit(**OPTIONS)
def _write_rows(data: Bytes, bounds: Offsets, entries: _Entries, out: Bytes, offsets: Offsets) -> None:
    size = np.int64(0)
    for row in range(bounds.size - 1):
        offsets[row] = size
        count = _find_entries(data, bounds[row], bounds[row + 1], entries)
        if count < 0:
            continue
        out[size] = OPEN
        first = size = size + 1
        for entry in range(count):
            if entries[entry, 4] == NULL:
                continue
            if size > first:
                out[size] = COMMA
                size += 1
            size = np.int64(put(data, entries[entry, 0], entries[entry, 1], out, size))
            out[size] = COLON
            size = np.int64(put(data, entries[entry, 2], entries[entry, 3], out, size + 1))
        out[size] = CLOSE
        size += 1
    offsets[bounds.size - 1] = size


def canonical(data: bytes | memoryview, bounds: npt.NDArray[np.int64]) -> tuple[Offsets, Bytes]:
    r"""Write rows with their keys in order, without whitespace and nulls: offsets and bytes.

    That is done for rows of texts with the shortest escapes, whole numbers of 64 bits, true, false and null, each key
    once. Nothing is written for any other row, such as one with floats or nested values.

    Args:
        data: valid rows, each an object of JSON.
        bounds: where each begins, and the end of the last.

    Examples:
        >>> data = b'{"b": "x\\n", "a": 1, "c": null}\n{"a": 1.5}\n'
        >>> offsets, written = canonical(data, np.array([0, 32, 43]))
        >>> offsets.tolist(), written.tobytes()
        ([0, 17, 17], b'{"a":1,"b":"x\\n"}')
    """
    bounds = frozen(bounds, np.int64)
    offsets = np.empty(len(bounds), np.int64)
    out = np.empty(int(bounds[-1] - bounds[0]), np.uint8)
    _write_rows(frozen(np.frombuffer(data, np.uint8), np.uint8), bounds, _no_entries(), out, offsets)
    return offsets, out[: offsets[-1]]


def _no_entries() -> _Entries:
    return np.empty((_MOST_KEYS, 5), np.int64)


def _load() -> None:
    canonical(b"", np.zeros(1, np.int64))


def _kept() -> list[Any]:
    return [_write_rows]


KERNELS = Kernels("json_canonical", _load, Kept(_kept), 2.0)
