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


@njit(**INLINE)
def count_lines(data: Bytes, span: tuple[int, int], out: Ints) -> None:
    """Count the lines of one text."""
    lines = 1
    for byte in data[span[0] : span[1]]:
        lines += byte == _NEWLINE
    out[0] = lines


@njit(**OPTIONS)
def _lines(offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    for place in range(rows.size):
        count_lines(data, (offsets[rows[place]], offsets[rows[place] + 1]), out[:, place])


def line_counts(offsets: Offsets, data: Bytes, rows: Rows) -> npt.NDArray[np.int64]:
    r"""The lines of the texts numbered ``rows``, blank ones too: one more than there are newlines.

    Examples:
        >>> text = b"a\n\nb"
        >>> line_counts(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])).tolist()
        [3]
    """
    out = np.empty((1, rows.size), np.int64)
    _lines(frozen(offsets, np.int64), frozen(data, np.uint8), frozen(rows, np.int64), out)
    return out.ravel()


@njit(**INLINE)
def measure_source(data: Bytes, span: tuple[int, int], out: Ints) -> None:
    """Measure the lines of one text, as in `SourceSignals`."""
    lines, longest, length, characters = 1, 0, 0, 0
    for at in range(span[0], span[1]):
        byte = data[at]
        if byte == _NEWLINE:
            longest = max(longest, length)
            characters += length + 1
            lines += 1
            length = 0
        else:
            length += (byte & 0xC0) != 0x80
    out[0], out[1], out[2] = lines, max(longest, length), characters + length


@njit(**OPTIONS)
def _source(offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    for place in range(rows.size):
        measure_source(data, (offsets[rows[place]], offsets[rows[place] + 1]), out[:, place])


def source_signals(offsets: Offsets, data: Bytes, rows: Rows) -> SourceSignals:
    r"""Count the lines of the texts numbered ``rows``.

    Examples:
        >>> text = "x = 'é'\n\n".encode()
        >>> signals = source_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [3, 7, 9]
    """
    out = np.empty((3, rows.size), np.int64)
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


@njit(**INLINE)
def find_opening(data: Bytes, span: tuple[int, int], sought: tuple[Bytes, int], out: Ints) -> None:
    """Whether a phrase stands within the first so many characters of one text."""
    at, stop = span
    phrase, characters = sought
    left = characters - phrase.size
    out[0] = 0
    while at < stop and left >= 0:
        if _stands_at(data, at, stop, phrase):
            out[0] = 1
            return
        at += 1
        left -= at < stop and (data[at] & 0xC0) != 0x80


@njit(**OPTIONS)
def _opens_with(sought: tuple[Bytes, int], offsets: Offsets, data: Bytes, rows: Rows, out: Ints) -> None:
    for place in range(rows.size):
        find_opening(data, (offsets[rows[place]], offsets[rows[place] + 1]), sought, out[:, place])


def opening(phrase: str, characters: int) -> tuple[Bytes, int]:
    """What `opens_with` looks for, as the kernel takes it."""
    return frozen(np.frombuffer(phrase.encode("ascii"), np.uint8), np.uint8), characters


def opens_with(offsets: Offsets, data: Bytes, rows: Rows, phrase: str, characters: int) -> npt.NDArray[np.int64]:
    """Where a phrase of ASCII stands within the first so many characters of the texts numbered ``rows``: 1, else 0.

    Examples:
        >>> text = "é<?xml".encode()
        >>> arrays = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> opens_with(*arrays, "<?xml", 6).tolist(), opens_with(*arrays, "<?xml", 5).tolist()
        ([1], [0])
    """
    out = np.empty((1, rows.size), np.int64)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    _opens_with(opening(phrase, characters), *layout, frozen(rows, np.int64), out)
    return out.ravel()
