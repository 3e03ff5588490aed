"""k-means over vectors of length one: sums of blocks in a fixed order, so that the same rows give the same centroids.

Products of matrices run with the array library that is given, NumPy or CuPy. NumPy adds up rows in float64; a GPU does
in whole numbers, because its threads add in any order, and only of those is the sum always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
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
#: Distances from rows to centroids that are held at a time, and rows that are compared at a time: on a CPU, and on a
#: GPU, where each step costs some launches.
_CELLS, _ROWS = 2**23, 4096
_GPU_CELLS, _GPU_ROWS = 2**26, 65536
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


def step_of(centroids: int, gpu: bool = False) -> int:
    """Return how many rows to compare with `centroids` centroids at a time: a power of two.

    Examples:
        >>> step_of(1000), step_of(100_000), step_of(1000, gpu=True)
        (4096, 64, 65536)
    """
    cells, rows = (_GPU_CELLS, _GPU_ROWS) if gpu else (_CELLS, _ROWS)
    return int(min(rows, 2 ** int(np.log2(max(1, cells // centroids)))))


def held(vectors: Matrix, library: Any = np) -> Any:
    """Copy rows to the GPU, for functions of this module that read them again and again; none if it cannot hold them.

    Args:
        library: CuPy; with NumPy they stay as they are.
    """
    if library is np:
        return vectors
    try:
        return library.asarray(vectors)
    except MemoryError:  # of CuPy and RMM, too
        return vectors


def nearest(vectors: Matrix, centroids: Matrix, library: Any = np) -> tuple[Labels, Matrix]:
    """The centroid that each row is nearest to, the first of several; and the squared distances.

    Args:
        vectors: rows of length one; may be `held`.
        library: NumPy or CuPy.

    Examples:
        >>> rows = np.eye(2, dtype=np.float32)
        >>> labels, squares = nearest(rows, np.array([[0, 1], [1, 1]], np.float32))
        >>> labels.tolist(), squares.tolist()
        ([1, 0], [1.0, 0.0])
    """
    labels, squares = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
    start = 0
    for rows, best, highest in _compared(vectors, centroids, library):
        stop = start + len(rows)
        labels[start:stop] = on_host(best)
        squares[start:stop] = np.maximum(1 - 2 * on_host(highest), 0)
        start = stop
    return labels, squares


def _compared(vectors: Any, centroids: Matrix, library: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Some rows at a time, as arrays of the library: with the nearest centroid, and how near it is."""
    centers = library.asarray(centroids)
    halves = (centers * centers).sum(axis=1) / 2
    step = step_of(len(centroids)) if library is np else step_of(max(centroids.shape), gpu=True)
    for start in range(0, len(vectors), step):
        rows = library.asarray(vectors[start : start + step])
        scores = rows @ centers.T
        scores -= halves
        best = scores.argmax(axis=1)
        yield rows, best, library.take_along_axis(scores, best[:, None], axis=1)[:, 0]


def sums_of(vectors: Matrix, centroids: Matrix, block: int, library: Any = np) -> Sums:
    """Add up the rows by nearest centroid, `block` rows at a time; they may be `held`."""
    total = Sums(np.zeros(centroids.shape), np.zeros(len(centroids), np.int64), np.zeros(len(centroids)))
    for start in range(0, len(vectors), block):
        rows = vectors[start : start + block]
        if library is np:
            block_sums = _sums(rows, *nearest(rows, centroids), len(centroids))
        else:
            block_sums = _gpu_sums(rows, centroids, library)
        total = total.with_block(block_sums)
    return total


def _gpu_sums(vectors: Any, centroids: Matrix, library: Any) -> Sums:
    """The same on a GPU: what comes to the host are the sums.

    Numbers of at most one are added as multiples of 2**-62 times the next power of two above the number of rows, in 64
    bits, which cannot overflow. CuPy adds them at places without sign; that is the same, for it wraps around.
    """
    scale = 2.0 ** (62 - len(vectors).bit_length())
    totals, counts = library.zeros(centroids.shape, np.uint64), library.zeros(len(centroids), np.uint64)
    squares = library.zeros(len(centroids), np.uint64)
    for rows, best, highest in _compared(vectors, centroids, library):
        # The square of a distance between vectors of length one is at most four.
        nearness = library.maximum(highest * -2 + 1, 0)
        library.add.at(totals, best, (rows.astype(np.float64) * scale).astype(np.int64).view(np.uint64))
        library.add.at(squares, best, (nearness.astype(np.float64) * (scale / 4)).astype(np.int64).view(np.uint64))
        library.add.at(counts, best, library.ones(len(rows), np.uint64))
    host_totals = on_host(totals).view(np.int64) / scale
    return Sums(host_totals, on_host(counts).astype(np.int64), on_host(squares).view(np.int64) / (scale / 4))


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
    device_vectors = held(vectors, library)
    chosen = draw.integers(len(vectors), size=1)
    squares = np.full(len(vectors), 4.0)
    latest = chosen
    while len(chosen) < clusters:
        squares = np.minimum(squares, nearest(device_vectors, vectors[latest], library)[1])
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
    drawn = weighty[np.argsort(waits, kind="stable")[:few]]
    if len(drawn) < few:
        remaining = np.setdiff1d(np.arange(len(weights)), np.concatenate([chosen, drawn]))
        drawn = np.concatenate([drawn, remaining[: few - len(drawn)]])
    return drawn


def distances(vectors: Matrix, centroids: Matrix, labels: Labels) -> tuple[Matrix, Matrix]:
    """Return the Euclidean and the cosine distance of each row to its centroid."""
    rows, assigned = frozen(vectors, np.float32), frozen(labels, np.int32)
    squares, products = held_against(rows, assigned, frozen(centroids, np.float32))
    lengths = np.sqrt((centroids.astype(np.float64) ** 2).sum(axis=1))[labels]
    cosine = 1 - np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.sqrt(squares).astype(np.float32), cosine.astype(np.float32)
