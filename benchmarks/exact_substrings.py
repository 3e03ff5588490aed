"""The bytes of texts that stand in them before, by a suffix array: what `SubstringDuplicates` approximates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.frames.text import TextColumn
from dcurate.kernels.layout import OPTIONS

Ints = npt.NDArray[np.int64]


def repeated(column: TextColumn, least: list[int]) -> list[npt.NDArray[np.bool_]]:
    """For each length, which bytes of the texts are in a stretch of so many or more that begins earlier, too.

    Examples:
        >>> from dcurate.frames.text import column_of
        >>> repeated(column_of([b"abcd", b"xbcd"]), [3])[0].tolist()
        [False, False, False, False, False, True, True, True]
    """
    sizes = np.diff(column.offsets)
    ends = np.cumsum(sizes + 1)
    whole = np.full(int(ends[-1]), 256, np.int64)
    within = np.ones(len(whole), np.bool_)
    within[ends - 1] = False
    whole[within] = column.data[column.offsets[0] : column.offsets[-1]]
    order = suffix_array(whole)
    before = _longest_before(whole, order)
    stops = np.repeat(ends - 1, sizes + 1)
    before = np.minimum(before, stops - np.arange(len(whole)))
    found = []
    for length in least:
        edges = np.zeros(len(whole) + 1, np.int64)
        starts = np.flatnonzero(before >= length)
        np.add.at(edges, starts, 1)
        np.add.at(edges, starts + before[starts], -1)
        found.append((np.cumsum(edges[:-1]) > 0)[within])
    return found


def suffix_array(values: Ints) -> Ints:
    """Where the suffixes of numbers begin, in order, by doubling prefixes (Manber and Myers, 1993).

    Examples:
        >>> suffix_array(np.array([2, 1, 2, 1])).tolist()
        [3, 1, 2, 0]
    """
    ranks = np.unique(values, return_inverse=True)[1].astype(np.int64)
    step = 1
    while True:
        following = np.zeros(len(ranks), np.int64)
        following[:-step] = ranks[step:] + 1
        keys = (ranks << 32) | following
        order = np.argsort(keys)
        ordered = keys[order]
        ranks = np.empty(len(keys), np.int64)
        ranks[order] = np.cumsum(np.concatenate([[0], np.diff(ordered) != 0]))
        if ranks.max() == len(ranks) - 1:
            return order
        step *= 2


@njit(**OPTIONS)
def _longest_before(values: Ints, order: Ints) -> Any:
    """For each place, how many numbers from there on stand from an earlier place on too, at most."""
    size = values.size
    ranks = np.empty(size, np.int64)
    for number in range(size):
        ranks[order[number]] = number
    common = np.zeros(size + 1, np.int64)  # of each suffix and the one before it in order
    length = 0
    for place in range(size):
        if ranks[place] == 0:
            length = 0
            continue
        other = order[ranks[place] - 1]
        while place + length < size and other + length < size and values[place + length] == values[other + length]:
            length += 1
        common[ranks[place]] = length
        length = max(length - 1, 0)
    best = np.zeros(size, np.int64)
    places, lengths = np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    for way in range(2):
        top = 0
        for step in range(size):
            number = step if way == 0 else size - 1 - step
            shared = common[number] if way == 0 else common[number + 1]
            while top and places[top - 1] > order[number]:
                shared = min(shared, lengths[top - 1])
                top -= 1
            if top:
                best[order[number]] = max(best[order[number]], shared)
            places[top], lengths[top] = order[number], shared
            top += 1
    return best
