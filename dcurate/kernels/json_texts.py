"""JSON strings: the text that they stand for, and how a text is written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dcurate.core.kernels import Kernels
from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.json_values import BACKSLASH, ESCAPES, LOWER_U, QUOTE, ZERO, code_unit, find_special
from dcurate.kernels.kept import Kept
from dcurate.kernels.layout import INLINE, OPTIONS, SHARED, Bytes, Ints, Offsets, Scalar, Word, frozen

#: The letter of the short escape of a byte; 0 if it has none.
_SHORT = np.zeros(256, np.uint8)
_SHORT[list(b'"\\\b\f\n\r\t')] = list(b'"\\bfnrt')
#: Bytes after the end of what `decode_into` decodes that it may overwrite.
SPARE = 8
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


@njit(**SHARED)
def put(source: Bytes, start: int, stop: int, out: Bytes, size: int) -> Scalar:
    """Copy bytes to ``out`` from ``size``, and return where they end there."""
    first, place = np.uint64(start), np.uint64(size)  # with these, numba looks for no negative numbers
    for step in range(stop - start):
        out[place + np.uint64(step)] = source[first + np.uint64(step)]
    return size + stop - start


@njit(**INLINE)
def _store_eight(out: Bytes, at: int, word: Word) -> None:
    first = np.uint64(at)
    for step in range(8):
        out[first + np.uint64(step)] = np.uint8((word >> np.uint64(8 * step)) & np.uint64(255))


@njit(**INLINE)
def _copy_to_backslash(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> Scalar:
    """Copy bytes up to the next backslash or the end: eight at a time, which is quicker than to look for it first."""
    while at + 8 <= stop:
        eight = load_eight(data, at)
        _store_eight(out, size, eight)
        if has_zero(eight ^ _BACKSLASHES):
            break
        at += 8
        size += 8
    while at < stop and data[at] != BACKSLASH:
        out[size] = data[at]
        at += 1
        size += 1
    return at, size


@njit(**INLINE)
def decode_into(data: Bytes, at: int, stop: int, out: Bytes, size: int) -> Scalar:
    """Decode the inside of a valid string to ``out`` from ``size``, and return where it ends there.

    What follows there, up to `SPARE` bytes, is overwritten.
    """
    while True:
        at, size = _copy_to_backslash(data, at, stop, out, size)
        if at == stop:
            break
        if data[at + 1] != LOWER_U:
            out[size] = ESCAPES[data[at + 1]]
            size += 1
            at += 2
            continue
        code = code_unit(data, at, stop)
        at += 6
        if 0xD800 <= code < 0xDC00:
            code = 0x10000 + ((code - 0xD800) << 10) + (code_unit(data, at, stop) - 0xDC00)
            at += 6
        if code < 0x80:
            out[size] = code
            size += 1
        elif code < 0x800:
            out[size], out[size + 1] = 0xC0 | (code >> 6), 0x80 | (code & 63)
            size += 2
        elif code < 0x10000:
            out[size], out[size + 1], out[size + 2] = 0xE0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)
            size += 3
        else:
            out[size], out[size + 1] = 0xF0 | (code >> 18), 0x80 | ((code >> 12) & 63)
            out[size + 2], out[size + 3] = 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)
            size += 4
    return size


@njit(**OPTIONS)
def _encoded_sizes(data: Bytes, offsets: Offsets, out: Ints) -> None:
    for row in range(offsets.size - 1):
        size, at, stop = offsets[row + 1] - offsets[row] + 2, offsets[row], offsets[row + 1]
        while True:
            at = find_special(data, at, stop)
            if at == stop:
                break
            size += 1 if _SHORT[data[at]] else 5
            at += 1
        out[row + 1] = out[row] + size


@njit(**INLINE)
def _escape_into(byte: Scalar, out: Bytes, size: int) -> Scalar:
    out[size] = BACKSLASH
    if _SHORT[byte]:
        out[size + 1] = _SHORT[byte]
        return size + 2
    out[size + 1], out[size + 2], out[size + 3] = LOWER_U, ZERO, ZERO
    out[size + 4], out[size + 5] = _DIGITS[byte >> 4], _DIGITS[byte & 15]
    return size + 6


@njit(**OPTIONS)
def _encode(data: Bytes, offsets: Offsets, out: Bytes) -> None:
    size = 0
    for row in range(offsets.size - 1):
        at, stop = offsets[row], offsets[row + 1]
        out[size] = QUOTE
        size += 1
        while True:
            end = find_special(data, at, stop)
            size = put(data, at, end, out, size)
            if end == stop:
                break
            size = _escape_into(data[end], out, size)
            at = end + 1
        out[size] = QUOTE
        size += 1


def encode(offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes]:
    r"""Encode texts as JSON strings with the shortest escapes: the inverse of `decode`.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.

    Examples:
        >>> encode(np.array([0, 3, 4]), np.frombuffer(b'a"b\x01', np.uint8))[1].tobytes()
        b'"a\\"b""\\u0001"'
    """
    offsets, data = frozen(offsets, np.int64), frozen(data, np.uint8)
    bounds = np.zeros(len(offsets), np.int64)
    _encoded_sizes(data, offsets, bounds)
    out = np.empty(int(bounds[-1]), np.uint8)
    _encode(data, offsets, out)
    return bounds, out


def _load() -> None:
    encode(np.zeros(1, np.int64), np.zeros(0, np.uint8))


def _kept() -> list[Any]:
    return [_encoded_sizes, _encode]


#: Those of `encode`.
KERNELS = Kernels("json_texts.encode", _load, Kept(_kept), 0.8)
