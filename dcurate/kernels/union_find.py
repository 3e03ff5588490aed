"""Sets of numbers that are joined, in an array of four bytes a number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Scalar, frozen

#: How far below each number its parent is: 0 for one that was never joined, as all are at first; `ROOT` for the
#: smallest of a set.
Parents = npt.NDArray[np.uint32]

ROOT = np.uint32(0xFFFFFFFF)
_ALONE = np.uint32(0)


@njit(**INLINE)
def find_root(parents: Parents, at: Scalar) -> Scalar:
    """The smallest number of the set of number ``at``; the way there is halved."""
    while True:
        step = parents[at]
        if step in (_ALONE, ROOT):
            return at
        above = at - np.int64(step)
        further = parents[above]
        if further in (_ALONE, ROOT):
            return above
        parents[at] = step + further
        at = above - np.int64(further)


@njit(**OPTIONS)
def join(parents: Parents, left: Ints, right: Ints) -> Scalar:
    """Join the sets of each two numbers; returns how often there were two.

    The smallest number of a set is its root, in any order of the edges.
    """
    joined = 0
    for edge in range(left.size):
        root, other_root = find_root(parents, left[edge]), find_root(parents, right[edge])
        if root == other_root:
            continue
        low, high = min(root, other_root), max(root, other_root)
        parents[high] = np.uint32(high - low)
        parents[low] = ROOT
        joined += 1
    return joined


@njit(**OPTIONS)
def flatten(parents: Parents, start: int, stop: int) -> None:
    """Make the parent of each number from ``start`` to ``stop`` the root of its set; all before them are so."""
    for at in range(start, stop):
        step = parents[at]
        if step in (_ALONE, ROOT):
            continue
        further = parents[at - np.int64(step)]
        if further != ROOT:
            parents[at] = step + further


def joined(count: int, left: Ints, right: Ints) -> Parents:
    """The sets of the numbers below ``count`` that edges make, flat."""
    parents = np.zeros(count, np.uint32)
    join(parents, frozen(left, np.int64), frozen(right, np.int64))
    flatten(parents, 0, count)
    return parents


def roots(parents: Parents) -> Ints:
    """The root of each number; all are flat."""
    steps = np.where(parents == ROOT, _ALONE, parents)
    return np.arange(len(parents)) - steps.astype(np.int64)


@njit(**OPTIONS)
def places(known: Ints, firsts: Ints, shift: int, numbers: Ints) -> Ints:
    """Positions of ``numbers`` in ``known``, which is sorted and contains all of them.

    ``firsts[c]`` is the first place of a number that is ``c << shift`` or more above the first one, for all cells ``c``
    and one beyond the last.
    """
    positions = np.empty(numbers.size, np.int64)
    for place in range(numbers.size):
        cell = (numbers[place] - known[0]) >> shift
        low, high = firsts[cell], firsts[cell + 1]
        while high - low > 8:
            middle = (low + high) // 2
            if known[middle] <= numbers[place]:
                low = middle
            else:
                high = middle
        while known[low] < numbers[place]:
            low += 1
        positions[place] = low
    return positions


@njit(**OPTIONS)
def first_places(known: Ints, shift: int, cells: int) -> Ints:
    """The ``firsts`` that `places` takes."""
    firsts = np.empty(cells + 1, np.int64)
    reached = 0
    for at in range(known.size):
        cell = (known[at] - known[0]) >> shift
        while reached <= cell:
            firsts[reached] = at
            reached += 1
    firsts[reached:] = known.size
    return firsts
