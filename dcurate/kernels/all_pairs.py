"""All pairs of sets with at least a given Jaccard similarity, none left out: prefix filtering.

Two sets that share so much must share one of their few rarest elements (Bayardo, Ma and Srikant, WWW 2007), so only
those that do are compared.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import stirred
from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Places, Scalar, Words

#: What rounding may add to a product of a share and a size.
_SLACK = 1e-9

_MIX = np.uint64(0x9E3779B97F4A7C15)

Ranks = npt.NDArray[np.uint32]


class Lists(NamedTuple):
    """The inverted lists of set prefixes: ``sets[begins[e]:ends[e]]``, of element ``e + singles``."""

    begins: Ints
    ends: Ints
    sets: Places
    singles: Scalar


@njit(**INLINE)
def _at_least(share: float, size: int) -> Scalar:
    """The smallest whole number that is at least a share of a size."""
    return np.int64(math.ceil(share * size - _SLACK))


@njit(**INLINE)
def _listed(size: int, least: float) -> Scalar:
    """The prefix length: how many of its rarest elements a set is indexed under, to be found by larger sets."""
    return min(size, size - _at_least(2 * least / (1 + least), size) + 1)


@njit(**OPTIONS)
def _empty_lists(bounds: Ints, ranks: Ranks, singles: int, different: int, least: float) -> Lists:
    """Empty lists with the required capacity."""
    room = np.zeros(different - singles + 1, np.int64)
    for number in range(bounds.size - 1):
        for at in range(_listed(bounds[number + 1] - bounds[number], least)):
            element = np.int64(ranks[bounds[number] + at]) - singles
            if element >= 0:
                room[element + 1] += 1
    starts = np.cumsum(room)
    return Lists(starts[:-1].copy(), starts[:-1].copy(), np.empty(starts[-1], np.int32), singles)


@njit(**INLINE)
def _shared(first: Ranks, second: Ranks, wanted: int) -> Scalar:
    """The overlap of two ordered sets; -1 as soon as it cannot reach the required one."""
    left, right, count = 0, 0, 0
    while left < first.size and right < second.size:
        if count + min(first.size - left, second.size - right) < wanted:
            return -1
        low, high = first[left], second[right]
        count += low == high
        left += low <= high
        right += high <= low
    return count if count >= wanted else -1


@njit(**INLINE)
def _find(bounds: Ints, lists: Lists, ranks: Ranks, least: float, scratch: tuple[Places, Places]) -> Scalar:
    """Collect the indexed sets that may be similar enough; returns how many. ``scratch``: marks of all sets, hits."""
    marks, hits = scratch
    smallest = _at_least(least, ranks.size)
    count = 0
    for at in range(min(ranks.size, ranks.size - smallest + 1)):
        element = np.int64(ranks[at]) - lists.singles
        if element < 0:
            continue
        while lists.begins[element] < lists.ends[element]:
            candidate = lists.sets[lists.begins[element]]
            if bounds[candidate + 1] - bounds[candidate] >= smallest:
                break
            lists.begins[element] += 1  # too small for this set, so for all that follow
        for place in range(lists.begins[element], lists.ends[element]):
            candidate = lists.sets[place]
            if marks[candidate] == 0:
                marks[candidate] = 1
                hits[count] = candidate
                count += 1
    for candidate in hits[:count]:
        marks[candidate] = 0
    return count


@njit(**OPTIONS)
def similar_sets(bounds: Ints, ranks: Ranks, singles: int, different: int, least: float) -> Ints:
    """Pairs with similarity >= threshold, as rows (small, large, overlap).

    Args:
        bounds: set ``i`` is ``ranks[bounds[i]:bounds[i + 1]]``; no set is larger than the next one.
        ranks: the elements of each set, in order, numbered from the rarest to the most frequent.
        singles: number of elements that are in one set only: those of the smallest ranks.
        different: how many elements there are.
        least: the similarity, above 0.
    """
    sets = bounds.size - 1
    lists = _empty_lists(bounds, ranks, singles, different, least)
    marks, hits = np.zeros(sets, np.int32), np.empty(sets, np.int32)
    pairs = np.empty((1024, 3), np.int64)
    taken = 0
    for number in range(sets):
        elements = ranks[bounds[number] : bounds[number + 1]]
        count = _find(bounds, lists, elements, least, (marks, hits))
        if taken + count > len(pairs):
            longer = np.empty((2 * (taken + count), 3), np.int64)
            longer[:taken] = pairs[:taken]
            pairs = longer
        for candidate in hits[:count]:
            candidate_elements = ranks[bounds[candidate] : bounds[candidate + 1]]
            shared = _shared(
                elements, candidate_elements, _at_least(least / (1 + least), elements.size + candidate_elements.size)
            )
            if shared >= 0:
                pairs[taken, 0], pairs[taken, 1], pairs[taken, 2] = candidate, number, shared
                taken += 1
        for rank in elements[: _listed(elements.size, least)]:
            element = np.int64(rank) - singles
            if element >= 0:
                lists.sets[lists.ends[element]] = number
                lists.ends[element] += 1
    return pairs[:taken]


@njit(**OPTIONS)
def hashes_of_sets(bounds: Ints, values: Ranks) -> Words:
    """A 64-bit hash of each set, independent of the order: the sum of the element hashes."""
    out = np.zeros(bounds.size - 1, np.uint64)
    for number in range(out.size):
        for value in values[bounds[number] : bounds[number + 1]]:
            out[number] += stirred((np.uint64(value) + np.uint64(1)) * _MIX)
    return out


@njit(**OPTIONS)
def arranged(bounds: Ints, ranks: Ranks, order: Ints) -> tuple[Ints, Ranks]:
    """The sets with these numbers, in this order, each with sorted elements."""
    starts = np.zeros(order.size + 1, np.int64)
    for place in range(order.size):
        starts[place + 1] = starts[place] + bounds[order[place] + 1] - bounds[order[place]]
    out = np.empty(starts[-1], np.uint32)
    for place in range(order.size):
        out[starts[place] : starts[place + 1]] = ranks[bounds[order[place]] : bounds[order[place] + 1]]
        out[starts[place] : starts[place + 1]].sort()
    return starts, out
