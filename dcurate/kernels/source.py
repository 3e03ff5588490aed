"""Source code seen as lines of characters: how many lines, how long the longest, and what stands near the beginning."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, frozen

_NEWLINE = 0x0A


class SourceSignals(NamedTuple):
    r"""The lines of each text, blank ones too: what ``text.split("\n")`` gives.

    ``lines`` is their number, ``longest`` the characters of the longest, ``characters`` all, newlines too.
    """

    lines: npt.NDArray[np.int64]
    longest: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]


@njit(**OPTIONS)
def _lines(offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    for place in range(rows.size):
        lines = 1
        for byte in data[offsets[rows[place]] : offsets[rows[place] + 1]]:
            lines += byte == _NEWLINE
        out[place] = lines


def line_counts(offsets: Offsets, data: Bytes, rows: Rows) -> npt.NDArray[np.int64]:
    r"""The lines of the texts numbered ``rows``, blank ones too: one more than there are newlines.

    Examples:
        >>> text = b"a\n\nb"
        >>> line_counts(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])).tolist()
        [3]
    """
    out = np.zeros(rows.size, np.int64)
    _lines(frozen(offsets, np.int64), frozen(data, np.uint8), frozen(rows, np.int64), out)
    return out


@njit(**OPTIONS)
def _source(offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    for place in range(rows.size):
        lines, longest, length, characters = 1, 0, 0, 0
        for at in range(offsets[rows[place]], offsets[rows[place] + 1]):
            byte = data[at]
            if byte == _NEWLINE:
                longest = max(longest, length)
                characters += length + 1
                lines += 1
                length = 0
            else:
                length += (byte & 0xC0) != 0x80
        out[0, place] = lines
        out[1, place] = max(longest, length)
        out[2, place] = characters + length


def source_signals(offsets: Offsets, data: Bytes, rows: Rows) -> SourceSignals:
    r"""Count the lines of the texts numbered ``rows``.

    Examples:
        >>> text = "x = 'é'\n\n".encode()
        >>> signals = source_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [3, 7, 9]
    """
    out = np.zeros((3, rows.size), np.int64)
    _source(frozen(offsets, np.int64), frozen(data, np.uint8), frozen(rows, np.int64), out)
    return SourceSignals(*out)


@njit(**INLINE)
def _stands_at(data: Bytes, at: int, stop: int, phrase: Bytes) -> Scalar:
    same = at + phrase.size <= stop
    place = 0
    while same and place < phrase.size:
        same = data[at + place] == phrase[place]
        place += 1
    return same


@njit(**OPTIONS)
def _opens_with(sought: tuple[Bytes, int], offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    phrase, characters = sought
    for place in range(rows.size):
        at, stop = offsets[rows[place]], offsets[rows[place] + 1]
        left = characters - phrase.size
        while at < stop and left >= 0:
            if _stands_at(data, at, stop, phrase):
                out[place] = 1
                break
            at += 1
            left -= at < stop and (data[at] & 0xC0) != 0x80


def opens_with(offsets: Offsets, data: Bytes, rows: Rows, phrase: str, characters: int) -> npt.NDArray[np.int64]:
    """Where a phrase of ASCII stands within the first so many characters of the texts numbered ``rows``: 1, else 0.

    Examples:
        >>> text = "é<?xml".encode()
        >>> arrays = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> opens_with(*arrays, "<?xml", 6).tolist(), opens_with(*arrays, "<?xml", 5).tolist()
        ([1], [0])
    """
    out = np.zeros(rows.size, np.int64)
    sought = frozen(np.frombuffer(phrase.encode("ascii"), np.uint8), np.uint8), characters
    _opens_with(sought, frozen(offsets, np.int64), frozen(data, np.uint8), frozen(rows, np.int64), out)
    return out
