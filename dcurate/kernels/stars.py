"""Star clustering: a node joins one centre that it has an edge to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import OPTIONS, Ints

Similarities = npt.NDArray[np.float32]


class Links(NamedTuple):
    """Edges between numbers with how similar their ends are."""

    low: Ints
    high: Ints
    similarity: Similarities


@njit(**OPTIONS)
def stars(links: Links, count: int) -> Ints:
    """The centre of each number: in order, a number that has none becomes one, and takes its neighbours without any.

    Args:
        links: edges between the numbers 0 to ``count``, ``low`` before ``high``.
        count: how many numbers there are.
    """
    ends = np.zeros(count + 1, np.int64)
    for low in links.low:
        ends[low + 1] += 1
    for number in range(count):
        ends[number + 1] += ends[number]
    taken = ends[:-1].copy()
    neighbours = np.empty(links.low.size, np.int64)
    for edge in range(links.low.size):
        neighbours[taken[links.low[edge]]] = links.high[edge]
        taken[links.low[edge]] += 1
    centres = np.full(count, -1, np.int64)
    for number in range(count):
        if centres[number] >= 0:
            continue
        centres[number] = number
        for at in range(ends[number], ends[number + 1]):
            if centres[neighbours[at]] < 0:
                centres[neighbours[at]] = number
    return centres


@njit(**OPTIONS)
def similarity_to(links: Links, centres: Ints) -> Similarities:
    """How similar each number is to its centre, by the edge between them; NaN where there is none, 1 for a centre."""
    similarities = np.full(centres.size, np.nan, np.float32)
    for number in range(centres.size):
        if centres[number] == number:
            similarities[number] = np.float32(1)
    for edge in range(links.low.size):
        low, high = links.low[edge], links.high[edge]
        value = links.similarity[edge]
        if centres[high] == low and (value > similarities[high] or np.isnan(similarities[high])):
            similarities[high] = value
    return similarities
