"""The length of the longest lines of a text."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.layout import ALLOCATING, INLINE, Bytes, Ints, Scalar
from dcurate.kernels.signal import SINGLE, signal
from dcurate.kernels.unicode import count_characters

_NEWLINE = 10
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_ONE, _SEVEN, _TOP_BYTE = np.uint64(1), np.uint64(7), np.uint64(56)
#: Multiplied with it, a one at the begin of a byte brings the number of that byte to the top.
_PLACES = np.uint64(0x0001020304050607)


@njit(**INLINE)
def _newline(data: Bytes, at: int, stop: int) -> Scalar:
    """The position of the next newline, or ``stop``."""
    while at + 8 <= data.size and at < stop:
        newlines = has_zero(load_eight(data, at) ^ _NEWLINES)
        if newlines:
            lowest = newlines & (~newlines + _ONE)
            return min(at + np.int64(((lowest >> _SEVEN) * _PLACES) >> _TOP_BYTE), stop)
        at += 8
    while at < stop and data[at] != _NEWLINE:
        at += 1
    return min(at, stop)


@njit(**ALLOCATING)
def new_lengths(most: int, number: int) -> Ints:
    """Scratch for the lengths of the longest lines."""
    return np.empty(number, np.int64)


@njit(**INLINE)
def measure_longest(data: Bytes, span: tuple[int, int], number: int, most: Ints, out: Ints) -> None:
    """Write the length of the n-th longest line of one text; ``most`` holds those of the longest lines so far."""
    at, stop = span
    most[:] = -1
    while at <= stop:
        end = _newline(data, at, stop)
        if end - at > most[number - 1]:
            length = count_characters(data, at, end)
            rank = number - 1
            while rank >= 0 and length > most[rank]:
                if rank + 1 < number:
                    most[rank + 1] = most[rank]
                rank -= 1
            if rank + 1 < number:
                most[rank + 1] = length
        at = end + 1
    out[0] = max(most[number - 1], 0)


@signal(measure_longest, SINGLE, scratch=Scratch(new_lengths))
def longest_lines(number: int) -> int:
    r"""Characters of the n-th longest line; 0 for a text with fewer lines.

    Examples:
        >>> text = "é\nfour\nand five".encode()
        >>> arrays = np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0])
        >>> [longest_lines(*arrays, number).tolist() for number in (1, 2, 3, 4)]
        [[8], [4], [1], [0]]
    """
    return number
