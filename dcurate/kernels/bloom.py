"""A blocked Bloom filter: all bits of a key are in one block of 64 bytes, a cache line.

F. Putze, P. Sanders and J. Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import stirred
from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Scalar, Word, Words

#: Bits of a block, and words of 64 bits.
BLOCK_BITS, BLOCK_WORDS = 512, 8

_STEP = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE, _SIX = np.uint64(1), np.uint64(6)
_LAST_SIX = np.uint64(63)
_TO_NINE = np.uint64(55)


@njit(**INLINE)
def _first_word(key: Word, blocks: Word) -> Word:
    """The block offset of a key: the key scaled from 2**64 to fewer than 2**32 blocks."""
    low = (key & _LOW) * blocks >> _HALF
    return ((key >> _HALF) * blocks + low >> _HALF) * np.uint64(BLOCK_WORDS)


@njit(**INLINE)
def _holds(words: Words, key: Word, blocks: Word, probes: Scalar) -> Scalar:
    first, value = _first_word(key, blocks), stirred(key * _STEP)
    for _ in range(probes):
        bit = value >> _TO_NINE
        if not words[first + (bit >> _SIX)] >> (bit & _LAST_SIX) & _ONE:
            return False
        value *= _STEP
    return True


@njit(**OPTIONS)
def _query(words: Words, keys: Words, probes: int, out: npt.NDArray[np.bool_]) -> None:
    blocks = np.uint64(words.size // BLOCK_WORDS)
    for row in range(keys.size):
        out[row] = _holds(words, keys[row], blocks, probes)


@njit(**OPTIONS)
def _insert(words: Words, keys: Words, probes: int) -> None:
    blocks = np.uint64(words.size // BLOCK_WORDS)
    for row in range(keys.size):
        first, value = _first_word(keys[row], blocks), stirred(keys[row] * _STEP)
        for _ in range(probes):
            bit = value >> _TO_NINE
            words[first + (bit >> _SIX)] |= _ONE << (bit & _LAST_SIX)
            value *= _STEP


@njit(**OPTIONS)
def _fill(words: Words, counts: Ints) -> None:
    for block in range(words.size // BLOCK_WORDS):
        bits = np.int64(0)
        for place in range(BLOCK_WORDS):
            word = words[block * BLOCK_WORDS + place]
            while word:
                word &= word - _ONE
                bits += 1
        counts[bits] += 1


def query(words: Words, keys: Words, probes: int) -> npt.NDArray[np.bool_]:
    """A mask of the keys that a filter (probably) contains.

    Args:
        words: the filter, `BLOCK_WORDS` for each block.
        keys: 64 bits each, as good as drawn at random.
        probes: how many bits each key has.

    Examples:
        >>> words, keys = np.zeros(8 * BLOCK_WORDS, np.uint64), np.array([1 << 63, 3], np.uint64)
        >>> insert(words, keys[:1], probes=5)
        >>> query(words, keys, probes=5).tolist()
        [True, False]
    """
    hits = np.zeros(len(keys), np.bool_)
    _query(words, np.ascontiguousarray(keys), probes, hits)
    return hits


def insert(words: Words, keys: Words, probes: int) -> None:
    """Add keys to a filter; idempotent."""
    _insert(words, np.ascontiguousarray(keys), probes)


def fill(words: Words) -> Ints:
    """A histogram of set bits per block: ``fill(words)[n]`` blocks have n."""
    counts = np.zeros(BLOCK_BITS + 1, np.int64)
    _fill(words, counts)
    return counts
