"""Which frames are the nearest to times at a rate: NeMo Curator's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[Any]
Numbers = npt.NDArray[Any]


def find_closest_indices(src: Times, dst: Times) -> Numbers:
    """Return the number of the nearest time for each of some; of two equally near ones, the earlier.

    Args:
        src: times in order, at least one.
        dst: times that are looked for.

    Examples:
        >>> find_closest_indices(np.array([0.0, 1.0, 2.0]), np.array([0.4, 0.5, 1.6, 9.0])).tolist()
        [0, 0, 2, 2]
    """
    if len(src) == 1:
        return np.zeros(len(dst), np.int64)
    right = np.clip(np.searchsorted(src, dst), 1, len(src) - 1)
    closest = right - 1
    is_right = np.abs(dst - src[right]) < np.abs(dst - src[closest])
    closest[is_right] = right[is_right]
    closest[dst >= src[-1]] = len(src) - 1
    return closest


def sample_closest(  # noqa: PLR0917 - as in NeMo Curator
    src: Times,
    sample_rate: float,
    start: float | None = None,
    stop: float | None = None,
    endpoint: bool = True,
    dedup: bool = True,
) -> tuple[Numbers, Numbers, Times]:
    """Return the numbers of the times that are the nearest to times at a rate, how often each is, and the latter.

    Args:
        src: times in order.
        sample_rate: times a second.
        start, stop: first and last time; those of `src` if not given.
        endpoint: whether `stop` may be the last.
        dedup: whether each number is returned once.

    Raises:
        ValueError: the rate is not above 0.

    Examples:
        >>> numbers, counts, _ = sample_closest(np.arange(5, dtype=np.float32), 0.5)
        >>> numbers.tolist(), counts.tolist()
        ([0, 2, 4], [1, 1, 1])
    """
    if sample_rate <= 0:
        raise ValueError(f"Sample rate must be greater than 0, got sample_rate={sample_rate}")
    step = 1.0 / sample_rate
    first = src[0] if start is None else start
    last = src[-1] if stop is None else stop
    if endpoint:
        last += step * 0.5
    wanted = np.arange(first, last, step, dtype=np.float32)
    numbers = find_closest_indices(src, wanted)
    if not endpoint and len(wanted) and np.isclose(wanted[-1], last):
        numbers, wanted = numbers[:-1], wanted[:-1]
    if not dedup:
        return numbers, np.ones_like(numbers), wanted
    numbers, counts = np.unique(numbers, return_counts=True)
    return numbers, counts, wanted
