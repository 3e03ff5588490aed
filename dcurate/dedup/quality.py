"""Evaluate a search for near-duplicates against all pairs of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.kernels.all_pairs import arranged, similar_sets
from dcurate.kernels.layout import Ints, frozen

#: Pairs that are this much more similar than the threshold must be found.
MARGIN = 0.05

#: Lower bounds of the bands of similarity by which recall is reported; the last one holds 1.
BANDS = tuple(number / 100 for number in range(50, 100, 5))

#: Resolution of similarities.
_SLACK = 1e-9

_HALF = np.uint64(32)


class Pairs(NamedTuple):
    """Pairs of documents, by number: ``left[p] < right[p]``, ordered by both, each once; and how similar they are."""

    left: Ints
    right: Ints
    similarity: npt.NDArray[np.float64]

    def at_least(self, similarity: float) -> Pairs:
        """Return the pairs with at least a similarity."""
        chosen = self.similarity >= similarity - _SLACK
        return Pairs(self.left[chosen], self.right[chosen], self.similarity[chosen])


def similar_pairs(bounds: Ints, values: npt.NDArray[np.uint32], least: float) -> Pairs:
    """All pairs of sets with at least a Jaccard similarity, and it: exact, none is left out.

    Time grows with the number of pairs that share a rare element, not with that of all pairs: 5,000 documents of 13 kB,
    of which 4,000 pairs are alike, take seconds. Two empty sets are no pair.

    Args:
        bounds: set ``i`` is ``values[bounds[i]:bounds[i + 1]]``, each value once.
        values: see there.
        least: the similarity, above 0.

    Raises:
        PipelineError: ``least`` is no share.

    Examples:
        >>> sets = np.array([0, 3, 6, 8]), np.array([1, 2, 3, 2, 3, 4, 8, 9], np.uint32)
        >>> [array.tolist() for array in similar_pairs(*sets, least=0.5)]
        [[0], [1], [0.5]]
    """
    if not 0 < least <= 1:
        raise PipelineError(f"least={least!r} is not a similarity; it must be above 0 and at most 1")
    ranks, singles, different = _ranked(values)
    sizes = np.diff(bounds)
    order = np.argsort(sizes, kind="stable")
    sets = arranged(frozen(bounds, np.int64), frozen(ranks, np.uint32), frozen(order, np.int64))
    first, second, shared = similar_sets(
        frozen(sets[0], np.int64), frozen(sets[1], np.uint32), singles, different, least
    ).T
    first, second = order[first], order[second]
    left, right = np.minimum(first, second), np.maximum(first, second)
    similarity = shared / (sizes[left] + sizes[right] - shared)
    placed = np.lexsort((right, left))
    return Pairs(left[placed], right[placed], similarity[placed])


def _ranked(values: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], int, int]:
    """Each value's place among the different ones, the rarest first; how many come once, and how many there are."""
    if not len(values):
        return values, 0, 0
    placed = values.astype("<u8")
    placed <<= _HALF
    placed |= np.arange(len(values), dtype=np.uint64)
    placed.sort()
    places, ordered = placed.view("<u4").reshape(-1, 2).T
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(starts, append=len(values))
    rank = np.empty(len(starts), np.uint32)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(starts), dtype=np.uint32)
    ranks = np.empty(len(values), np.uint32)
    ranks[places] = np.repeat(rank, counts)
    return ranks, int((counts == 1).sum()), len(starts)


class Band(NamedTuple):
    """The pairs whose similarity is at least ``low`` and below ``high``; of how many how many were found."""

    low: float
    high: float
    pairs: int
    found: int


@dataclass(frozen=True)
class PairScores:
    """What of the pairs was found.

    Attributes:
        threshold: pairs that are at least so similar are duplicates.
        duplicates: how many there are.
        found: how many pairs were said to be duplicates.
        right: how many of those are.
        above: duplicates that are at least ``threshold + MARGIN`` similar.
        above_found: how many of those were found.
        bands: all pairs by similarity.
    """

    threshold: float
    duplicates: int
    found: int
    right: int
    above: int
    above_found: int
    bands: tuple[Band, ...]

    @property
    def precision(self) -> float | None:
        """The share of the pairs found that are duplicates; None if none was found."""
        return share(self.right, self.found)

    @property
    def recall(self) -> float | None:
        """The share of the duplicates that were found; None if there are none."""
        return share(self.right, self.duplicates)

    @property
    def recall_above(self) -> float | None:
        """The share of those found that are clearly above the threshold; None if there are none."""
        return share(self.above_found, self.above)


def share(part: int, whole: int) -> float | None:
    """A share, or None where there is nothing to share."""
    return part / whole if whole else None


def score_pairs(left: Ints, right: Ints, truth: Pairs, threshold: float) -> PairScores:
    """What of the pairs was found.

    Args:
        left: documents of the pairs that were said to be duplicates, each pair once, in any order.
        right: what they are paired with.
        truth: all pairs from any similarity below the threshold on.
        threshold: pairs that are at least so similar are duplicates.

    Examples:
        >>> truth = Pairs(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0.9, 0.8, 0.6]))
        >>> scores = score_pairs(np.array([1, 1]), np.array([0, 2]), truth, threshold=0.8)
        >>> scores.precision, scores.recall, scores.recall_above
        (0.5, 0.5, 1.0)
    """
    is_found = np.isin(_codes(truth.left, truth.right), _codes(left, right))
    similarity = truth.similarity + _SLACK
    duplicate, above = similarity >= threshold, similarity >= threshold + MARGIN
    edges = (*BANDS, np.inf)
    bands = []
    for low, high in pairwise(edges):
        within = (similarity >= low) & (similarity < high)
        bands.append(Band(low, min(high, 1.0), int(within.sum()), int((is_found & within).sum())))
    return PairScores(
        threshold,
        int(duplicate.sum()),
        len(left),
        int((is_found & duplicate).sum()),
        int(above.sum()),
        int((is_found & above).sum()),
        tuple(bands),
    )


@dataclass(frozen=True)
class GroupScores:
    """What of the pairs came into one group, and what would be lost.

    Attributes:
        recall: the share of the duplicates of which both are in one group.
        precision: the share of the pairs in one group that are duplicates: a chain of small differences makes it small.
        removed: documents that go.
        removed_rightly: the share of them that have a duplicate among those that stay.
        duplicates_left: pairs of duplicates among the documents that stay.
    """

    recall: float | None
    precision: float | None
    removed: int
    removed_rightly: float | None
    duplicates_left: int


def score_groups(groups: Ints, kept: npt.NDArray[np.bool_], truth: Pairs, threshold: float) -> GroupScores:
    """What of the pairs came into one group.

    Args:
        groups: the group of each document; one that is in none has a group of its own.
        kept: whether it stays.
        truth: all pairs from any similarity below the threshold on.
        threshold: pairs that are at least so similar are duplicates.

    Examples:
        A chain: 0 is like 1, and 1 like 2.

        >>> truth = Pairs(np.array([0, 1]), np.array([1, 2]), np.array([0.9, 0.9]))
        >>> scores = score_groups(np.array([0, 0, 0]), np.array([True, False, False]), truth, threshold=0.8)
        >>> scores.recall, round(scores.precision, 3), scores.removed_rightly
        (1.0, 0.667, 0.5)
    """
    left, right, _ = truth.at_least(threshold)
    together = int((groups[left] == groups[right]).sum())
    sizes = np.unique(groups, return_counts=True)[1]
    has_kept = np.zeros(len(groups), np.bool_)
    has_kept[left[kept[right]]] = True
    has_kept[right[kept[left]]] = True
    removed = int((~kept).sum())
    return GroupScores(
        share(together, len(left)),
        share(together, int((sizes * (sizes - 1) // 2).sum())),
        removed,
        share(int((~kept & has_kept).sum()), removed),
        int((kept[left] & kept[right]).sum()),
    )


def _codes(left: Ints, right: Ints) -> Ints:
    """Each pair as one number."""
    return np.minimum(left, right) << 32 | np.maximum(left, right)
