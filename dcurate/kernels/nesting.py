"""Nesting depth of JSON Lines, and a check that each line is an object by its first and last characters."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from dcurate.core.kernels import Kernels
from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.kept import Kept
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Scalar

_NEWLINE, _RETURN, _SPACE, _TAB = np.uint8(10), np.uint8(13), np.uint8(32), np.uint8(9)
_QUOTE, _BACKSLASH = np.uint8(34), np.uint8(92)
#: ``[ ]`` with this bit set are ``{ }``.
_BIT, _OPENING, _CLOSING = np.uint8(32), np.uint8(123), np.uint8(125)
_QUOTES, _BACKSLASHES, _NEWLINES = (np.uint64(byte * 0x0101010101010101) for byte in b'"\\\n')
#: So few bytes are counted at once that no count of them is larger than a byte holds.
_BLOCK = 240


@njit(**INLINE)
def _is_white(byte: Scalar) -> Scalar:
    return byte in (_NEWLINE, _RETURN, _SPACE, _TAB)


@njit(**INLINE)
def _joins(data: Bytes, at: int) -> Scalar:
    """Whether the line end is between two objects, ignoring blank lines, or at an end of the data."""
    before, after = at - 1, at + 1
    if before >= 0 and _is_white(data[before]):
        while before >= 0 and data[before] != _NEWLINE and _is_white(data[before]):
            before -= 1
        if before >= 0 and data[before] == _NEWLINE:
            return True  # it ends a blank line: the end of the line before that one is looked at
    while after < data.size and _is_white(data[after]):
        after += 1
    return (before < 0 or data[before] == _CLOSING) and (after == data.size or data[after] == _OPENING)


@njit(**INLINE)
def _end_of_text(data: Bytes, at: int) -> Scalar:
    """The closing quote of the string at this position, or the byte before the line's end."""
    while True:
        while at + 8 <= data.size:
            eight = load_eight(data, at)
            if has_zero(eight ^ _QUOTES) | has_zero(eight ^ _BACKSLASHES) | has_zero(eight ^ _NEWLINES):
                break
            at += 8
        while at < data.size and data[at] != _QUOTE and data[at] != _BACKSLASH and data[at] != _NEWLINE:
            at += 1
        if at == data.size or data[at] == _NEWLINE:
            return at - 1
        if data[at] == _QUOTE:
            return at
        at += 1
        if at < data.size and data[at] != _NEWLINE:
            at += 1


@njit(**INLINE)
def _end_if_flat(data: Bytes, at: int, limit: int) -> Scalar:
    """The end of the line at this position; -1 if it is nested deeper than the limit."""
    depth = 0
    while at < data.size and data[at] != _NEWLINE:
        byte = data[at] | _BIT
        if byte == _OPENING:
            depth += 1
            if depth > limit:
                return -1
        elif byte == _CLOSING:
            depth -= 1
        elif data[at] == _QUOTE:
            at = _end_of_text(data, at + 1)
        at += 1
    return min(at, data.size)


@njit(**OPTIONS)
def _line_ends(data: Bytes, limit: int) -> Scalar:
    """Count brackets first, which is cheap, and parse only lines with more opening brackets than the limit."""
    size, total = data.size, np.int64(0)
    opened = np.int64(0)  # brackets since the last line end, at most
    flat = 0  # up to where lines were read
    for at in range(0, size, _BLOCK):
        stop = min(at + _BLOCK, size)
        brackets, ends = np.uint8(0), np.uint8(0)
        for byte in data[at:stop]:
            brackets = np.uint8(brackets + np.uint8((byte | _BIT) == _OPENING))
            ends = np.uint8(ends + np.uint8(byte == _NEWLINE))
        if ends:
            total += np.int64(ends)
            for place, byte in enumerate(data[at:stop]):
                if byte == _NEWLINE and not _joins(data, at + place):
                    return -1
        opened += np.int64(brackets)
        if opened > limit and stop > flat:
            line = max(at, flat)
            while line > flat and data[line - 1] != _NEWLINE:
                line -= 1
            while line < stop:
                line = _end_if_flat(data, line, limit) + 1
                if not line:
                    return -1
            flat = line
            opened = np.int64(0)
        elif ends:
            opened = np.int64(brackets)
    return total


def line_ends(data: bytes, limit: int) -> int:
    r"""The number of line ends; -1 if a line may not be a JSON object, or is nested deeper than the limit.

    Of data for which it is not -1, no parser that stops at the first error sees values nested deeper than the limit,
    also one that takes line ends for any other whitespace.

    Examples:
        >>> line_ends(b'{"a": [1]}\n{"b": "[[["}\n', 2), line_ends(b'{"a": [[1]]}\n', 2), line_ends(b'{"a":\n1}\n', 2)
        (2, -1, -1)
    """
    return int(_line_ends(np.frombuffer(data, np.uint8), limit))


def _kept() -> list[Any]:
    return [_line_ends]


#: What `line_ends` takes.
KERNELS = Kernels("nesting.line_ends", partial(line_ends, b"{}\n", 9), Kept(_kept), 0.9)


def line_ends_interpreted(data: bytes, limit: int) -> int:
    r"""The same number, found without a kernel: slower, for a process that needs no other and so does not load numba.

    Examples:
        >>> line_ends_interpreted(b'{"a": [1]}\n{"b": "[[["}\n', 2), line_ends_interpreted(b'{"a":\n1}\n', 2)
        (2, -1)
    """
    lines = data.split(b"\n")
    last = len(lines) - 1
    for number, line in enumerate(lines):
        bare = line.strip(b" \t\r")
        if bare and ((number and bare[:1] != b"{") or (number < last and bare[-1:] != b"}")):
            return -1
        if line.count(b"{") + line.count(b"[") > limit and _depth(line) > limit:
            return -1
    return last


#: A string, up to its closing quote or the end of the line.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?$)', re.S)
_BRACKET = re.compile(rb"[][{}]")


def _depth(line: bytes) -> int:
    deepest = depth = 0
    for bracket in _BRACKET.findall(_TEXT.sub(b"", line)):
        depth += 1 if bracket in b"{[" else -1
        deepest = max(deepest, depth)
    return deepest
