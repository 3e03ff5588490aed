"""Clusters of voices in a stream of embeddings, in two levels, so that memory and time stay bounded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

#: Small clusters that are held at most, and the similarity to its mean from which on an embedding belongs to one.
CAPACITY, TIGHT = 512, 0.85


class SmallClusters:
    """Small clusters of a stream of embeddings: their sums and sizes, at most `CAPACITY` of them.

    An embedding joins the cluster whose mean is nearest to it, from a similarity of `TIGHT` on; else it begins one.
    Where there are too many, the most similar ones are joined until half of them are left.

    Args:
        size: numbers of an embedding.
        capacity: clusters that are held at most.

    Examples:
        >>> small = SmallClusters(2)
        >>> small.add(np.array([[1, 0], [0, 1], [0.995, 0.0999]], np.float32))
        >>> small.counts.tolist()
        [2, 1]
    """

    def __init__(self, size: int, capacity: int = CAPACITY) -> None:
        self._sums = np.zeros((capacity, size))
        self._means = np.zeros((capacity, size), np.float32)  # of unit length
        self._counts = np.zeros(capacity, np.int64)
        self._held = 0

    @property
    def sums(self) -> npt.NDArray[np.float64]:
        """The sum of the embeddings of each cluster: shape (clusters, size)."""
        return self._sums[: self._held]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many each has."""
        return self._counts[: self._held]

    def add(self, embeddings: Floats) -> None:
        """Take embeddings of unit length, in order: shape (embeddings, size)."""
        for embedding in embeddings:
            place = self._place(embedding)
            self._sums[place] += embedding
            self._counts[place] += 1
            self._means[place] = unit(self._sums[place])

    def _place(self, embedding: Floats) -> int:
        if self._held:
            similar = self._means[: self._held] @ embedding
            nearest = int(similar.argmax())
            if similar[nearest] >= TIGHT:
                return nearest
        if self._held == len(self._counts):
            self._join()
        self._held += 1
        return self._held - 1

    def _join(self) -> None:
        groups = joined(
            self.sums, self.counts, fewest=len(self._counts) // 2, similarity=1.0, most=len(self._counts) // 2
        )
        held = groups.max() + 1
        sums, counts = np.zeros_like(self._sums), np.zeros_like(self._counts)
        np.add.at(sums, groups, self.sums)
        np.add.at(counts, groups, self.counts)
        self._sums, self._counts, self._held = sums, counts, int(held)
        self._means = unit(sums).astype(np.float32)


def joined(
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    *,
    similarity: float,
    fewest: int = 1,
    most: int | None = None,
) -> npt.NDArray[np.int64]:
    """Return which clusters belong together, by average linkage: numbers from 0, in the order of the first of each.

    The most similar two are joined again and again: those whose embeddings are, by the mean of all pairs, the most
    similar. That is the product of the means of the clusters, so that only their sums are needed.

    Args:
        sums: sum of the embeddings of each cluster: shape (clusters, size).
        counts: how many each has.
        similarity: mean similarity of pairs from which on clusters are joined, while there are more than `fewest`.
        fewest: clusters that are left at least.
        most: clusters that are left at most, even if they are less similar; None for any number.

    Examples:
        >>> sums = np.array([[2.0, 0.0], [0.0, 1.0], [0.96, 0.28]])
        >>> joined(sums, np.array([2, 1, 1]), similarity=0.7).tolist()
        [0, 1, 0]
    """
    count = len(counts)
    means = sums / counts[:, None]
    pairs = means @ means.T
    np.fill_diagonal(pairs, -np.inf)
    sizes, owner = counts.astype(np.float64), np.arange(count)
    best = pairs.max(axis=1) if count > 1 else np.full(count, -np.inf)
    left = count
    while left > fewest:
        first = int(best.argmax())
        if not (best[first] >= similarity or (most is not None and left > most)) or best[first] == -np.inf:
            break
        second = int(pairs[first].argmax())
        first, second = min(first, second), max(first, second)
        share = sizes[first] / (sizes[first] + sizes[second])
        row = share * pairs[first] + (1 - share) * pairs[second]
        row[[first, second]] = -np.inf
        changed = (best == pairs[:, first]) | (best == pairs[:, second])
        pairs[first], pairs[:, first] = row, row
        pairs[second], pairs[:, second] = -np.inf, -np.inf
        sizes[first] += sizes[second]
        owner[owner == second] = first
        best = np.maximum(best, row)
        changed[first] = True
        best[changed] = pairs[changed].max(axis=1)
        best[second] = -np.inf
        left -= 1
    return np.unique(owner, return_inverse=True)[1]


def unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return vectors at unit length; zeros stay zeros.

    Examples:
        >>> unit(np.array([3.0, 4.0])).tolist()
        [0.6, 0.8]
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: npt.NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)
    return scaled


def voices_of(small: SmallClusters, *, similarity: float, least: int, most: int | None) -> npt.NDArray[np.float64]:
    """Return the mean embedding of each speaker, of unit length: shape (speakers, size).

    Args:
        small: small clusters of all embeddings.
        similarity: mean similarity from which on two clusters are one speaker.
        least: embeddings that a speaker has at least; those of smaller clusters are near a speaker, or none's. The
            largest cluster is always a speaker.
        most: speakers at most; None for any number.
    """
    if not len(small.counts):
        return np.zeros((0, small.sums.shape[1]))
    groups = joined(small.sums, small.counts, similarity=similarity, most=most)
    sums, counts = np.zeros((groups.max() + 1, small.sums.shape[1])), np.zeros(groups.max() + 1, np.int64)
    np.add.at(sums, groups, small.sums)
    np.add.at(counts, groups, small.counts)
    large = counts >= min(least, int(counts.max()))
    return unit(sums[large])
