"""Edits between sequences: the substitutions, deletions and insertions of a shortest list of them.

Of the shortest lists, that which RapidFuzz finds by tracing its matrix back is counted, and so jiwer's counts: from the
end, a deletion if one is on a shortest path, an insertion if the cell above is less than that across, else a match or
substitution. As this looks at the neighbours of one cell only, it is followed forwards, with two numbers a column.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Scalar

Tokens = npt.NDArray[np.uint32]

#: More than any number of edits.
_FAR = 2**40
#: Half the width of the first band.
_BAND = 8


def encoded(texts: Sequence[str]) -> tuple[Tokens, Ints]:
    """The characters of texts as numbers, and the bounds of each text.

    Examples:
        >>> encoded(["ab", "", "a"])
        (array([97, 98, 97], dtype=uint32), array([0, 2, 2, 3]))
    """
    numbers = np.frombuffer(bytearray("".join(texts), "utf-32-le"), np.uint32)  # writable, as those of words are
    return numbers, _bounds([len(text) for text in texts])


class Numbers(dict[str, int]):
    """The numbers of words; a word that is asked for the first time gets the next one."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def numbered(texts: Sequence[str], numbers: Numbers) -> tuple[Tokens, Ints]:
    """The words of texts, between white space, as numbers, and the bounds of each text.

    Examples:
        >>> numbered(["a  b", "a"], Numbers())
        (array([0, 1, 0], dtype=uint32), array([0, 2, 3]))
    """
    found = array("I")
    ends = [0]
    for text in texts:
        found.extend(map(numbers.__getitem__, text.split()))
        ends.append(len(found))
    return np.array(found, np.uint32), np.array(ends, np.int64)


def count_edits(references: tuple[Tokens, Ints], hypotheses: tuple[Tokens, Ints], max_cells: int) -> Ints:
    """Substitutions, deletions and insertions of each pair of sequences, rows x 3; -1 where it takes too long.

    Memory is linear. Time is linear in length times edits, and in `max_cells` at most.

    Args:
        references: tokens and bounds of what is edited.
        hypotheses: those of what it becomes.
        max_cells: cells of the matrix of a pair that are computed, at most.

    Examples:
        >>> count_edits(encoded(["kitten"]), encoded(["sitting"]), 1000).tolist()
        [[2, 0, 1]]
    """
    return np.asarray(_count_all(*references, *hypotheses, max_cells), np.int64)


def _bounds(lengths: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@njit(**INLINE)
def _within(a: Tokens, b: Tokens, band: int, cost: Ints, deleted: Ints) -> Scalar:
    """Compute the cells at most `band` off the diagonal; the last of `cost` is exact if it is at most `band`."""
    for column in range(a.size + 1):
        cost[column] = column if column <= band else _FAR
        deleted[column] = column
    for row in range(1, b.size + 1):
        first = max(0, row - band)
        if first == 0:
            across, across_deleted = cost[0], deleted[0]
            cost[0], deleted[0] = row, 0
            left, left_deleted = row, 0
            first = 1
        else:
            across, across_deleted = cost[first - 1], deleted[first - 1]
            left, left_deleted = _FAR, 0
        for column in range(first, min(a.size, row + band) + 1):
            above, above_deleted = cost[column], deleted[column]
            least = across + (0 if a[column - 1] == b[row - 1] else 1)
            least = min(least, min(above, left) + 1)
            if left + 1 == least:
                left_deleted += 1
            elif above < across:
                left_deleted = above_deleted
            else:
                left_deleted = across_deleted
            left = least
            cost[column], deleted[column] = left, left_deleted
            across, across_deleted = above, above_deleted
    return cost[a.size]


@njit(**OPTIONS)
def _count_all(tokens: Tokens, bounds: Ints, others: Tokens, other_bounds: Ints, max_cells: int) -> Ints:
    counts = np.zeros((bounds.size - 1, 3), np.int64)
    room = 1
    for pair in range(bounds.size - 1):
        room = max(room, bounds[pair + 1] - bounds[pair] + 1)
    cost, deleted = np.empty(room, np.int64), np.empty(room, np.int64)
    for pair in range(bounds.size - 1):
        begin, end = bounds[pair], bounds[pair + 1]
        other, other_end = other_bounds[pair], other_bounds[pair + 1]
        while begin < end and other < other_end and tokens[begin] == others[other]:
            begin, other = begin + 1, other + 1
        while begin < end and other < other_end and tokens[end - 1] == others[other_end - 1]:
            end, other_end = end - 1, other_end - 1
        a, b = tokens[begin:end], others[other:other_end]
        band = max(abs(a.size - b.size), _BAND)
        cells, edits = 0, -1
        if min(a.size, b.size) == 0:
            counts[pair, 1], counts[pair, 2] = a.size, b.size
            continue
        while edits < 0:
            cells += b.size * min(2 * band + 1, a.size + 1)
            if cells > max_cells:
                break
            edits = _within(a, b, band, cost, deleted)
            if edits > band:
                edits, band = -1, 2 * band
        if edits < 0:
            counts[pair] = -1
            continue
        counts[pair, 1] = deleted[a.size]
        counts[pair, 2] = deleted[a.size] + b.size - a.size
        counts[pair, 0] = edits - counts[pair, 1] - counts[pair, 2]
    return counts
