"""k-means over vectors of length one: sums of blocks in a fixed order, so that the same rows give the same centroids.

Products of matrices run with the array library that is given, NumPy or CuPy; sums are added up by NumPy in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.frames.vectors import Matrix, on_host
from dcurate.kernels.layout import frozen
from dcurate.kernels.vectors import add_rows, held_against

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int32]

#: Turns at most in which seeds are drawn.
_TURNS = 64
#: Distances from rows to centroids that are held at a time.
_CELLS = 2**23
_ROWS = 4096
#: Squared distances below this are none: float32 cannot represent them.
_NOTHING = 1e-6


class Sums(NamedTuple):
    """The sums of the rows of a block by nearest centroid.

    Args:
        totals: the sum of the rows of each cluster, of shape (clusters, dimensions).
        counts: how many they are.
        squares: the sum of their squared distances to the centroid.
    """

    totals: Floats
    counts: Ints
    squares: Floats

    def with_block(self, other: Sums) -> Sums:
        """Return the sums of both blocks."""
        return Sums(self.totals + other.totals, self.counts + other.counts, self.squares + other.squares)


def step_of(centroids: int) -> int:
    """Return how many rows to compare with `centroids` centroids at a time: a power of two, at most 4096.

    Examples:
        >>> step_of(1000), step_of(100_000)
        (4096, 64)
    """
    return int(min(_ROWS, 2 ** int(np.log2(max(1, _CELLS // centroids)))))


def nearest(vectors: Matrix, centroids: Matrix, library: Any = np) -> tuple[Labels, Matrix]:
    """The centroid that each row is nearest to, the first of several; and the squared distances.

    Args:
        vectors: rows of length one.
        library: NumPy or CuPy.

    Examples:
        >>> rows = np.eye(2, dtype=np.float32)
        >>> labels, squares = nearest(rows, np.array([[0, 1], [1, 1]], np.float32))
        >>> labels.tolist(), squares.tolist()
        ([1, 0], [1.0, 0.0])
    """
    labels, squares = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
    centers = library.asarray(centroids)
    halves = (centers * centers).sum(axis=1) / 2
    step = step_of(len(centroids))
    for start in range(0, len(vectors), step):
        scores = library.asarray(vectors[start : start + step]) @ centers.T
        scores -= halves
        best = scores.argmax(axis=1)
        highest = library.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        labels[start : start + step] = on_host(best)
        squares[start : start + step] = np.maximum(1 - 2 * on_host(highest), 0)
    return labels, squares


def sums_of(vectors: Matrix, centroids: Matrix, block: int, library: Any = np) -> Sums:
    """Add up the rows by nearest centroid, `block` rows at a time."""
    whole = Sums(np.zeros(centroids.shape), np.zeros(len(centroids), np.int64), np.zeros(len(centroids)))
    for start in range(0, len(vectors), block):
        rows = vectors[start : start + block]
        whole = whole.with_block(_sums(rows, *nearest(rows, centroids, library), len(centroids)))
    return whole


def _sums(vectors: Matrix, labels: Labels, squares: Matrix, clusters: int) -> Sums:
    totals = np.zeros((clusters, vectors.shape[1]))
    add_rows(frozen(vectors, np.float32), frozen(labels, np.int32), totals)
    counts = np.bincount(labels, minlength=clusters).astype(np.int64)
    return Sums(totals, counts, np.bincount(labels, squares, minlength=clusters).astype(np.float64))


def moved(centroids: Matrix, block: Sums, tolerance: float) -> tuple[Matrix, bool]:
    """The centroids in the middle of their rows, and whether that is where they were.

    A cluster without rows stays where it was. Centroids have converged if the mean square of their movement is at most
    ``tolerance`` times the mean squared distance of a row to its centroid.
    """
    middles = centroids.copy()
    held = block.counts > 0
    middles[held] = (block.totals[held] / block.counts[held, None]).astype(np.float32)
    movement = ((middles - centroids).astype(np.float64) ** 2).sum() / len(centroids)
    spread = block.squares.sum() / max(1, block.counts.sum())
    return middles, bool(movement <= tolerance * spread)


def seeds(vectors: Matrix, clusters: int, seed: int, spread_out: bool, library: Any = np) -> Matrix:
    """Choose `clusters` rows as the first centroids.

    Args:
        vectors: at least as many rows.
        spread_out: draw each by its squared distance from those drawn before it, as k-means++ does; more than 64 are
            drawn several at a time, as k-means|| does. Else all rows are alike.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    if not spread_out:
        return vectors[np.sort(draw.permutation(len(vectors))[:clusters])]
    chosen = draw.integers(len(vectors), size=1)
    squares = np.full(len(vectors), 4.0)
    latest = chosen
    while len(chosen) < clusters:
        squares = np.minimum(squares, nearest(vectors, vectors[latest], library)[1])
        squares[squares < _NOTHING] = 0
        squares[latest] = 0
        few = min(clusters - len(chosen), max(1, clusters // _TURNS))
        latest = _drawn(squares, chosen, few, draw)
        chosen = np.concatenate([chosen, latest])
    return vectors[chosen]


def _drawn(weights: Floats, chosen: Ints, few: int, draw: np.random.Generator) -> Ints:
    """Different rows, each drawn by its weight; any that are not chosen yet where too few have a weight."""
    waits = draw.exponential(size=len(weights))
    weighty = np.flatnonzero(weights)
    waits = waits[weighty] / weights[weighty]
    found = weighty[np.argsort(waits, kind="stable")[:few]]
    if len(found) < few:
        rest = np.setdiff1d(np.arange(len(weights)), np.concatenate([chosen, found]))
        found = np.concatenate([found, rest[: few - len(found)]])
    return found


def distances(vectors: Matrix, centroids: Matrix, labels: Labels) -> tuple[Matrix, Matrix]:
    """Return the Euclidean and the cosine distance of each row to its centroid."""
    rows, own = frozen(vectors, np.float32), frozen(labels, np.int32)
    squares, products = held_against(rows, own, frozen(centroids, np.float32))
    lengths = np.sqrt((centroids.astype(np.float64) ** 2).sum(axis=1))[labels]
    cosine = 1 - np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.sqrt(squares).astype(np.float32), cosine.astype(np.float32)
