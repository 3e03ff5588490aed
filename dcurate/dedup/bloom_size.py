"""The size and the false positive rate of a blocked Bloom filter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.kernels.bloom import BLOCK_BITS

Floats = npt.NDArray[np.float64]

_MOST_PROBES = 16
#: Maximum number of throws of a bit into a block; beyond that, it counts as full.
_MOST_THROWS = 8192
_MOST_BLOCKS = 2**32 - 1


@dataclass(frozen=True)
class BloomSize:
    """The size of a blocked Bloom filter: the number of 64-byte blocks, and of bits set for each key.

    Examples:
        >>> size = BloomSize.of(capacity=1_000_000_000, rate=0.001)
        >>> size.probes, round(size.nbytes / 1e9, 2), round(8 * size.nbytes / 1e9, 1)
        (9, 1.94, 15.5)
        >>> [f"{size.rate(keys):.1e}" for keys in (500_000_000, 1_000_000_000, 2_000_000_000)]
        ['1.4e-05', '1.0e-03', '3.8e-02']
    """

    blocks: int
    probes: int

    @classmethod
    def of(cls, capacity: int, rate: float) -> BloomSize:
        """Return the smallest filter with a false positive rate of at most `rate` when it holds `capacity` keys.

        Raises:
            PipelineError: a number out of range.
        """
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise PipelineError(
                f"capacity={capacity!r} must be a whole number of at least 1: how many documents there are"
            )
        if not 1e-12 <= rate <= 0.5:
            raise PipelineError(f"false_positive_rate={rate!r} must be from 1e-12 to 0.5")
        load, probes = _best(rate)
        blocks = math.ceil(capacity / load)
        if blocks > _MOST_BLOCKS:
            raise PipelineError(f"capacity={capacity} needs more than 256 GiB; ask for a higher false_positive_rate")
        return cls(blocks, probes)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.blocks * BLOCK_BITS // 8

    def rate(self, keys: int) -> float:
        """Return the false positive rate of a filter that holds `keys` keys."""
        return _rate(keys / self.blocks, self.probes)

    def rate_of_fill(self, counts: npt.NDArray[np.int64]) -> float:
        """Return the false positive rate; `counts[n]` blocks have n bits set (`dcurate.kernels.bloom.fill`)."""
        share = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
        return float(np.average(share**self.probes, weights=counts))


@cache
def _hits() -> Floats:
    """Return the probability that all bits of a new key are set in a block, by number of bits thrown into it.

    A throw sets a bit that was not set with a chance of the share of those; so the number of bits that are set is a
    Markov chain, whose distribution is followed exactly. Column ``n`` is for keys of ``n`` bits.
    """
    share = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    hit = share[:, None] ** np.arange(_MOST_PROBES + 1)
    chances = np.zeros(BLOCK_BITS + 1)
    chances[0] = 1.0
    hits = np.zeros((_MOST_THROWS + 1, _MOST_PROBES + 1))
    for throws in range(1, _MOST_THROWS + 1):
        missed = chances * (1.0 - share)
        chances = chances * share
        chances[1:] += missed[:-1]
        hits[throws] = chances @ hit
    return hits


def _rate(load: float, probes: int) -> float:
    """Return the false positive rate at `load` keys a block on average; a block holds a Poisson number of keys."""
    most = _MOST_THROWS // probes
    if load <= 0.0 or 2 * load > most:
        return float(load > 0.0)
    keys = np.arange(1, most + 1)
    weights = np.exp(keys * math.log(load) - load - np.cumsum(np.log(keys)))
    return float(weights @ _hits()[probes * keys, probes])


@cache
def _best(rate: float) -> tuple[float, int]:
    """Return the most keys per block for a rate, and the number of bits per key that allows it."""
    return max((_most_load(probes, rate), probes) for probes in range(1, _MOST_PROBES + 1))


def _most_load(probes: int, rate: float) -> float:
    """Return the most keys per block, on average, for a rate."""
    low, high = 0.0, float(BLOCK_BITS)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _rate(middle, probes) <= rate else (low, middle)
    return low
