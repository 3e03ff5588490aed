"""Draw pseudorandom numbers that depend on a seed and a place alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def lots(places: Ints, seed: int) -> npt.NDArray[np.uint64]:
    """64 bits for each place (SplitMix64).

    Examples:
        >>> lots(np.array([0, 1]), 42).tolist() == lots(np.array([1, 0]), 42).tolist()[::-1]
        True
    """
    start = np.array([seed % 2**64], np.uint64) * np.uint64(0xD1342543DE82EF95)
    mixed = start + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def edges(total: int, wanted: int, places: Ints) -> Ints:
    """Return the starts of `wanted` ranges of equal length, each of which gives one row to the sample."""
    return places * total // wanted


def drawn(total: int, wanted: int, seed: int, first: int, last: int) -> Ints:
    """The rows from place ``first`` up to place ``last`` of a sample without replacement, in order.

    One row is drawn of each of ``wanted`` stretches of equal length, so no part of a dataset is left out.

    Examples:
        >>> drawn(10, 10, 1, 0, 10).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        >>> rows = drawn(1000, 4, 1, 0, 4)
        >>> bool((rows // 250 == np.arange(4)).all()), drawn(1000, 4, 1, 2, 3).tolist() == rows[2:3].tolist()
        (True, True)
    """
    bounds = edges(total, wanted, np.arange(first, last + 1))
    widths = np.diff(bounds).astype(np.uint64)
    return np.asarray(bounds[:-1] + (lots(np.arange(first, last), seed) % widths).astype(np.int64))
