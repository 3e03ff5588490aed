"""MurmurHash3 of byte spans, as in libcudf (Appleby, public domain)."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, Bytes, Scalar, Word

_C1, _C2, _STEP = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_FIVE = np.uint32(5)


@njit(**INLINE)
def _rotated(value: Word, bits: int) -> Word:
    return np.uint32(value << np.uint32(bits)) | (value >> np.uint32(32 - bits))


@njit(**INLINE)
def _scrambled(word: Word) -> Word:
    return np.uint32(_rotated(np.uint32(word * _C1), 15) * _C2)


@njit(**INLINE)
def murmur3_32(data: Bytes, start: int, stop: int, seed: np.uint32) -> Scalar:
    """MurmurHash3_x86_32 of the bytes from ``start`` to ``stop``."""
    value = np.uint32(seed)
    at = np.uint64(start)
    for _ in range((stop - start) // 4):
        word = np.uint32(0)
        for step in range(4):
            word |= np.uint32(data[at + np.uint64(step)]) << np.uint32(8 * step)
        value = np.uint32(_rotated(value ^ _scrambled(word), 13) * _FIVE + _STEP)
        at += np.uint64(4)
    word = np.uint32(0)
    for step in range((stop - start) % 4):
        word |= np.uint32(data[at + np.uint64(step)]) << np.uint32(8 * step)
    value ^= _scrambled(word) ^ np.uint32(stop - start)
    value = np.uint32((value ^ (value >> np.uint32(16))) * _F1)
    value = np.uint32((value ^ (value >> np.uint32(13))) * _F2)
    return value ^ (value >> np.uint32(16))
