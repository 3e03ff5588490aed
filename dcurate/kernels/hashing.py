"""64-bit hashes of stretches of bytes, and sets of them.

Equal stretches have equal hashes. Unequal ones share a hash with a chance of about 2**-64 a pair: below one in
10**11 for a text of 10,000 lines, which the kernels accept as never.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Places, Scalar, Word, Words, frozen

_MIX = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(**INLINE)
def load_eight(data: Bytes, at: int) -> Word:
    """Eight bytes at ``at`` as one little-endian number."""
    first = np.uint64(at)
    word = np.uint64(0)
    for step in range(8):
        word |= np.uint64(data[first + np.uint64(step)]) << np.uint64(8 * step)
    return word


@njit(**INLINE)
def load_up_to_eight(data: Bytes, start: int, stop: int) -> Word:
    """The bytes from ``start`` to ``stop``, one to eight, as one little-endian number."""
    if start + 8 <= data.size:
        return load_eight(data, start) & (_ALL >> np.uint64(64 - 8 * (stop - start)))
    word = np.uint64(0)
    for step in range(stop - start):
        word |= np.uint64(data[start + step]) << np.uint64(8 * step)
    return word


@njit(**INLINE)
def has_zero(block: Word) -> Scalar:
    """Not zero if any of eight packed bytes is 0."""
    return (block - _ONES) & ~block & _HIGH


@njit(**INLINE)
def stirred(value: Word) -> Word:
    """Mix all bits of a number: a bijection."""
    value = (value ^ (value >> _HALF)) * _STIR
    return value ^ (value >> _HALF)


@njit(**INLINE)
def hash_bytes(data: Bytes, start: int, stop: int) -> Word:
    """The hash of a span of bytes."""
    value = np.uint64(stop - start) * _MIX
    if start == stop:
        return value
    at = start
    while at + 8 < stop:
        value = (value ^ load_eight(data, at)) * _MIX
        value ^= value >> _HALF
        at += 8
    return stirred(value ^ load_up_to_eight(data, at, stop))


@njit(**OPTIONS)
def _text_hashes(offsets: Offsets, data: Bytes, out: Words) -> None:
    for row in range(out.size):
        out[row] = hash_bytes(data, offsets[row], offsets[row + 1])


def text_hashes(offsets: Offsets, data: Bytes) -> Words:
    """The hashes of texts.

    Examples:
        >>> text = np.frombuffer(b"onetwoone", np.uint8)
        >>> one, two, again = text_hashes(np.array([0, 3, 6, 9]), text).tolist()
        >>> one == again, one == two
        (True, False)
    """
    out = np.empty(len(offsets) - 1, np.uint64)
    _text_hashes(frozen(offsets, np.int64), frozen(data, np.uint8), out)
    return out


def bits_of_table(count: int) -> int:
    """The width in bits of the slot numbers of a table that is at most a quarter full with ``count`` entries."""
    bits = 3
    while (1 << bits) < 4 * count:
        bits += 1
    return bits


#: The same in kernels.
table_bits = njit(**INLINE)(bits_of_table)


@njit(**INLINE)
def table_slot(wanted: Word, bits: int) -> Scalar:
    """The slot of a hash among ``2**bits``."""
    return np.int64((wanted * _MIX) >> np.uint64(64 - bits))


@njit(**INLINE)
def find_leader(table: Places, bits: int, hashes: Words, at: int) -> Scalar:
    """The first entry with the hash of entry ``at``, which is inserted if there is none.

    ``table`` holds numbers of entries plus one in ``2**bits`` slots, 0 where empty.
    """
    wanted = hashes[at]
    mask = (1 << bits) - 1
    slot = table_slot(wanted, bits)
    entry: Scalar = np.int64(table[slot])
    # Whether the slot is empty cannot be predicted, and is no branch; that another hash is there is rare.
    while (entry != 0) & (hashes[max(entry - 1, 0)] != wanted):
        slot = (slot + 1) & mask
        entry = np.int64(table[slot])
    leader = entry - 1 if entry else np.int64(at)
    table[slot] = leader + 1
    return leader
