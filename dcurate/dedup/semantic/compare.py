"""The most similar of the rows before each row, in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.frames.vectors import Matrix, on_host

Ints = npt.NDArray[np.int64]


def most_similar(
    read: Callable[[int, int], Matrix], rows: tuple[int, int], block: int, portion: int, library: Any = np
) -> tuple[Matrix, Ints]:
    """The highest cosine similarity of each row with any row before it, and the first row that has it.

    A row that is similar to none before it (a cosine above zero) has the similarity 0 and its own number. With CuPy the
    GPU holds the rows to compare, a portion of earlier ones, and the products of two blocks; rows go there once, and
    what is found comes back at the end.

    Args:
        read: gives rows, of length one, from a number up to another.
        rows: from which to which row to compare with all before them; the first is a multiple of ``block``.
        block: rows that are compared with as many others at a time.
        portion: earlier rows that are read at a time, a multiple of ``block``.
        library: NumPy or CuPy.

    Examples:
        >>> held = np.array([[1, 0], [0, 1], [1, 0], [0.6, 0.8]], np.float32)
        >>> scores, places = most_similar(lambda start, stop: held[start:stop], (0, 4), 2, 2)
        >>> scores.round(3).tolist(), places.tolist()
        ([0.0, 0.0, 1.0, 0.800000011920929], [0, 1, 0, 1])
    """
    start, stop = rows
    own = library.asarray(read(start, stop))
    scores, places = library.asarray(np.zeros(len(own), np.float32)), library.asarray(np.arange(start, stop))
    for first in [*range(0, start, portion), start]:
        others = own if first == start else library.asarray(read(first, min(first + portion, start)))
        for at in range(0, stop - start, block):
            these, best = own[at : at + block], (scores[at : at + block], places[at : at + block])
            for before in range(0, min(len(others), start + at + 1 - first), block):
                products = these @ others[before : before + block].T
                if first + before == start + at:  # a block with itself: only what comes before a row counts
                    products *= library.tri(len(these), k=-1, dtype=np.float32)
                _take(products, first + before, best, library)
    return on_host(scores), on_host(places)


def _take(products: Any, first: int, best: tuple[Any, Any], library: Any) -> None:
    """Remember the highest product of each row where it is above what was found before."""
    scores, places = best
    found = products.argmax(axis=1)
    highest = library.take_along_axis(products, found[:, None], axis=1)[:, 0]
    better = highest > scores
    scores[:] = library.where(better, highest, scores)
    places[:] = library.where(better, found + first, places)
