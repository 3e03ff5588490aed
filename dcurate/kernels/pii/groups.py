"""Groups of digits with separators: the form of card, account and telephone numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import OPTIONS, Bytes, Scalar
from dcurate.kernels.pii.alphabet import CLASS, CLOSE, DIGIT, DOT, HYPHEN, INNER, OPEN, SLASH, SPACE, ZERO

#: Kinds of marks between groups, as bits.
BLANK, DASH, POINT, STROKE, OPENS, CLOSES = 1, 2, 4, 8, 16, 32
MOST_GROUPS = 9
_MOST_DIGITS, _ROOM, _WIDEST_GAP = 24, 48, 3


class DigitGroups(NamedTuple):
    """Groups of digits; `read_groups` returns their number.

    Attributes:
        starts: where each group begins, and ``stops`` where it ends.
        sizes: how many digits it has, and ``totals`` how many there are up to its end.
        gaps: the kinds of marks after it.
        digits: the digits of all groups, concatenated, up to the size of the array.
    """

    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    gaps: npt.NDArray[np.int64]
    digits: npt.NDArray[np.int64]


def group_scratch(most: int) -> DigitGroups:
    """Scratch for texts of any length, allocated outside of kernels."""
    return DigitGroups(*(np.empty(size, np.int64) for size in (*[MOST_GROUPS] * 5, _ROOM)))


@njit(**OPTIONS)
def new_groups() -> DigitGroups:
    """Arrays for the groups of one number."""
    room = np.zeros((5, MOST_GROUPS), np.int64)
    return DigitGroups(room[0], room[1], room[2], room[3], room[4], np.zeros(_ROOM, np.int64))


@njit(**INNER)
def _gap(data: Bytes, at: int, stop: int) -> tuple[Scalar, Scalar]:
    """Start of the next group after the separators at ``at``, and their kinds; ``at`` if there is none."""
    place, kinds = at, 0
    for _ in range(_WIDEST_GAP):
        if place >= stop:
            break
        byte = data[place]
        if byte == SPACE:
            kinds, place = kinds | BLANK, place + 1
        elif byte == HYPHEN:
            kinds, place = kinds | DASH, place + 1
        elif byte == DOT:
            kinds, place = kinds | POINT, place + 1
        elif byte == SLASH:
            kinds, place = kinds | STROKE, place + 1
        elif byte == OPEN:
            kinds, place = kinds | OPENS, place + 1
        elif byte == CLOSE:
            kinds, place = kinds | CLOSES, place + 1
        elif byte == 0xC2 and place + 1 < stop and data[place + 1] == 0xA0:
            kinds, place = kinds | BLANK, place + 2
        elif byte == 0xE2 and place + 2 < stop and data[place + 1] == 0x80 and 0x90 <= data[place + 2] <= 0x93:
            kinds, place = kinds | DASH, place + 3
        elif byte == 0xE2 and place + 2 < stop and data[place + 1] == 0x80 and data[place + 2] == 0xAF:
            kinds, place = kinds | BLANK, place + 3
        else:
            break
    followed = place > at and place < stop and CLASS[data[place]] & DIGIT
    return (place, kinds) if followed else (at, 0)


@njit(**INNER)
def read_groups(data: Bytes, at: int, stop: int, groups: DigitGroups) -> Scalar:
    """Read the groups that begin at ``at``; returns their number."""
    count = 0
    total = np.int64(0)
    while count < MOST_GROUPS and total <= _MOST_DIGITS:
        groups.starts[count] = at
        while at < stop and CLASS[data[at]] & DIGIT:
            if total < _ROOM:
                groups.digits[total] = data[at] - ZERO
            total += 1
            at += 1
        groups.stops[count] = at
        groups.sizes[count], groups.totals[count] = at - groups.starts[count], total
        following, groups.gaps[count] = _gap(data, at, stop)
        count += 1
        if following == at:
            break
        at = following
    return count
