"""Keys of 64 bits, and the ranges that cut all of them into partitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

#: One more than the largest key.
KEY_SPACE = 2**64


def scale_keys(numbers: npt.NDArray[Any], count: int) -> npt.NDArray[np.uint64]:
    """Return keys for whole numbers from 0 to below `count`, in their order and evenly apart.

    Examples:
        >>> [hex(key) for key in scale_keys(np.array([0, 1, 3]), 4)]
        ['0x0', '0x4000000000000000', '0xc000000000000000']
    """
    return np.asarray(numbers).astype(np.uint64) * np.uint64(key_step(count))


def key_step(count: int) -> int:
    """Return how far apart `count` scaled keys are; see `scale_keys`."""
    return KEY_SPACE // max(2, count)


def equal_edges(partitions: int) -> list[int]:
    """Return the first key of each of `partitions` ranges of equal length, and the end of the last.

    Examples:
        >>> [hex(edge) for edge in equal_edges(2)]
        ['0x0', '0x8000000000000000', '0x10000000000000000']
    """
    return [partition * KEY_SPACE // partitions for partition in range(partitions + 1)]


def range_of(keys: npt.NDArray[np.uint64], ranges: int) -> Ints:
    """Return the number of the range that each key lies in, of `ranges` of equal length; a power of two.

    Examples:
        >>> range_of(np.array([0, 2**63], np.uint64), 2).tolist()
        [0, 1]
    """
    return np.asarray((keys >> np.uint64(1)).astype(np.int64) >> (63 - int(math.log2(ranges))))
