"""A hash of the coarse structure of a picture, the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Bits of the hash.
BITS = 128
#: Side of the levels of gray that it is made of.
GRID = 64

_FREQUENCIES = 16
#: A frequency counts from this share of the mean on: what is weaker is noise, and so is what is weaker than 8 levels.
_SHARE, _LEAST = 0.4, 8.0
_SCALE = 2**12


def _waves() -> npt.NDArray[np.int64]:
    frequency, place = np.arange(1, _FREQUENCIES + 1)[:, None], np.arange(GRID)[None, :]
    exact = np.sqrt(2 / GRID) * np.cos(np.pi * frequency * (2 * place + 1) / (2 * GRID))
    rounded: npt.NDArray[np.int64] = np.round(exact * _SCALE).astype(np.int64)  # gives the same bits on every machine
    return rounded


def _lowest() -> npt.NDArray[np.int64]:
    """The places of the lowest frequencies, the lowest first."""
    down, across = np.divmod(np.arange(_FREQUENCIES**2), _FREQUENCIES)
    order: npt.NDArray[np.int64] = np.lexsort((down, (down - across) ** 2, down + across))
    return order[:BITS]


_COSINES, _LOWEST = _waves(), _lowest()


def structure_hash(gray: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The hash of 64 x 64 levels of gray: which of the 128 lowest frequencies of their cosine transform are strong.

    A bit is set where a frequency is above 0.4 of the root mean square of all, and 8 levels. So what is weak gives
    zeros rather than noise: pictures of one colour have the hash 0.

    Args:
        gray: array of shape (64, 64), whole numbers from 0 to 255.

    Examples:
        >>> structure_hash(np.full((64, 64), 200)).tolist()
        [0, 0]
    """
    waves = (_COSINES @ gray.astype(np.int64) @ _COSINES.T).ravel()[_LOWEST] / float(_SCALE**2)
    least = max(_LEAST, _SHARE * float(np.sqrt(np.square(waves).sum() / BITS)))
    return np.packbits(waves > least, bitorder="little").view("<u8").astype(np.uint64)
