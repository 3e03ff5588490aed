"""Keys of JSON objects, found by their names in a hash table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from dcurate.kernels.hashing import bits_of_table, hash_bytes
from dcurate.kernels.json_texts import SPARE, decode_into
from dcurate.kernels.json_values import Levels
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Places, Scalar, frozen


class Keys(NamedTuple):
    """Keys to look for: their names, a hash table of their numbers plus one, and scratch.

    ``decoded`` is for keys with escapes. One that does not fit is no name: an escape is at most six bytes for one.
    """

    offsets: Offsets
    letters: Bytes
    table: Places
    decoded: Bytes
    levels: Levels


@njit(**INLINE)
def _slot(letters: Bytes, start: int, stop: int, keys: Keys) -> Scalar:
    """The slot of the name that these letters are, or the empty slot where it belongs."""
    offsets, table = keys.offsets, keys.table
    slot = np.int64(hash_bytes(letters, start, stop)) & (table.size - 1)
    while table[slot]:
        first = offsets[table[slot] - 1]
        same = offsets[table[slot]] - first == stop - start
        step = 0
        while same and step < stop - start:
            same = keys.letters[first + step] == letters[start + step]
            step += 1
        if same:
            break
        slot = (slot + 1) & (table.size - 1)
    return slot


@njit(**OPTIONS)
def fill(keys: Keys) -> None:
    """Enter the names into the table."""
    for number in range(keys.offsets.size - 1):
        keys.table[_slot(keys.letters, keys.offsets[number], keys.offsets[number + 1], keys)] = number + 1


@njit(**INLINE)
def number_of(data: Bytes, start: int, stop: int, escaped: bool, keys: Keys) -> Scalar:
    """The number of the name that a key is; -1 if it is none of them."""
    if not escaped:
        return np.int64(keys.table[_slot(data, start, stop, keys)]) - 1
    if stop - start > keys.decoded.size - SPARE:
        return np.int64(-1)
    first = np.int64(0)
    end = decode_into(data, start, stop, keys.decoded, first)
    return np.int64(keys.table[_slot(keys.decoded, first, end, keys)]) - 1


def keys_of(names: Sequence[str], deepest: int) -> Keys:
    """Prepare the search of names, each given once, in rows with values that are nested at most so deep."""
    keys = empty_keys(names, deepest)
    fill(keys)
    return keys


def empty_keys(names: Sequence[str], deepest: int) -> Keys:
    """The same before the names are in the table."""
    encoded = [name.encode() for name in names]
    return Keys(
        frozen(np.cumsum([0, *map(len, encoded)]), np.int64),
        np.frombuffer(b"".join(encoded), np.uint8),
        np.zeros(1 << bits_of_table(len(names)), np.int32),
        np.empty(6 * max(map(len, encoded), default=0) + SPARE, np.uint8),
        np.empty(deepest - 1, np.bool_),
    )
