"""Measure source code: number of lines, the longest line, and whether a phrase is near the beginning."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, Bytes, Ints, Scalar, frozen
from dcurate.kernels.signal import SINGLE, columns, signal

_NEWLINE = 0x0A


class SourceSignals(NamedTuple):
    r"""The lines of each text, blank ones too: what ``text.split("\n")`` gives.

    ``lines`` is their number, ``longest`` the characters of the longest, ``characters`` all, newlines too.
    """

    lines: npt.NDArray[np.int64]
    longest: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]


@njit(**INLINE)
def count_lines(data: Bytes, span: tuple[int, int], tables: int, scratch: Bytes, out: Ints) -> None:
    """Count the lines of one text."""
    lines = 1
    for byte in data[span[0] : span[1]]:
        lines += byte == _NEWLINE
    out[0] = lines


@signal(count_lines, SINGLE)
def line_counts() -> int:
    r"""Count lines, blank ones too: one more than there are newlines.

    Examples:
        >>> text = b"a\n\nb"
        >>> line_counts(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])).tolist()
        [3]
    """
    return 0


@njit(**INLINE)
def measure_source(data: Bytes, span: tuple[int, int], tables: int, scratch: Bytes, out: Ints) -> None:
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


@signal(measure_source, columns(SourceSignals))
def source_signals() -> int:
    r"""Measure lines, blank ones too.

    Examples:
        >>> text = "x = 'é'\n\n".encode()
        >>> signals = source_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [3, 7, 9]
    """
    return 0


@njit(**INLINE)
def _stands_at(data: Bytes, at: int, stop: int, phrase: Bytes) -> Scalar:
    same = at + phrase.size <= stop
    place = 0
    while same and place < phrase.size:
        same = data[at + place] == phrase[place]
        place += 1
    return same


@njit(**INLINE)
def find_opening(data: Bytes, span: tuple[int, int], sought: tuple[Bytes, int], scratch: Bytes, out: Ints) -> None:
    """Write 1 if a phrase is within the first characters of one text, else 0."""
    at, stop = span
    phrase, characters = sought
    remaining = characters - phrase.size
    out[0] = 0
    while at < stop and remaining >= 0:
        if _stands_at(data, at, stop, phrase):
            out[0] = 1
            return
        at += 1
        remaining -= at < stop and (data[at] & 0xC0) != 0x80


@signal(find_opening, SINGLE)
def opens_with(phrase: str, characters: int) -> tuple[Bytes, int]:
    """Find an ASCII phrase within the first ``characters`` of a text: 1 if it is there, else 0.

    Examples:
        >>> text = "é<?xml".encode()
        >>> arrays = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> opens_with(*arrays, "<?xml", 6).tolist(), opens_with(*arrays, "<?xml", 5).tolist()
        ([1], [0])
    """
    return frozen(np.frombuffer(phrase.encode("ascii"), np.uint8), np.uint8), characters
