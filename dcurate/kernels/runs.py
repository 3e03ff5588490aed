"""Runs of characters without whitespace as code points, with what each character is to rules that cut them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, Bytes, Ints, Places, Scalar

#: What a character may be, as bits: a letter that counts as lower or upper case or either, an ASCII digit, a digit of
#: any script, a quotation mark, a mark that comes off the front or the back of a run, a pictogram, a letter or digit as
#: `str.isalnum` has it, what a full stop comes off behind, and what labels of an address are made of.
(LOWER, UPPER, LETTER, DIGIT, DECIMAL, QUOTE, FRONT, BACK, ICON, ALNUM, BEFORE_STOP, LABEL) = (
    1 << bit for bit in range(12)
)
#: Of characters from here on nothing is known.
POINTS = 0x30000

Kinds = npt.NDArray[np.uint16]


class Run(NamedTuple):
    """The characters of a run: code points, what each is, and where each begins in the bytes of the run."""

    points: Places
    kinds: Kinds
    places: Ints


@njit(**ALLOCATING)
def new_run(most: int) -> Run:
    """Scratch for a run of at most ``most`` bytes."""
    return Run(np.empty(most + 1, np.int32), np.empty(most + 1, np.uint16), np.empty(most + 1, np.int64))


@njit(**INLINE)
def read_run(data: Bytes, start: int, stop: int, table: Kinds, run: Run) -> Scalar:
    """Decode a run; returns how many characters it has, -1 if one of them is not known."""
    count = np.int64(0)
    at = start
    while at < stop:
        point = np.int64(data[at])
        run.places[count] = at
        width = 1
        if point >= 0x80:
            width = 2 if point < 0xE0 else 3 if point < 0xF0 else 4
            if at + width > stop:
                return np.int64(-1)
            point &= 0x7F >> width
            for step in range(1, width):
                point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
            if point >= POINTS:
                return np.int64(-1)
        run.points[count], run.kinds[count] = point, table[point]
        count += 1
        at += width
    run.places[count] = stop
    return count
