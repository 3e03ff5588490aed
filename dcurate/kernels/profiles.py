"""Sums over profiles of languages: how much the sequences of a text speak for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Places, Scalar, Word, Words

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Table(NamedTuple):
    """The keys of sequences, a hash table of their numbers plus one, and what profiles hold each.

    Attributes:
        bounds: for each key where its profiles and weights begin, and where the last ones end.
    """

    keys: Words
    slots: Places
    bounds: Ints
    profiles: npt.NDArray[np.uint16]
    weights: Bytes


@njit(**INLINE)
def _slot(key: Word, mask: Scalar) -> Scalar:
    """Where the search for a key begins."""
    return np.int64((key * _FACTOR) >> np.uint64(32)) & mask


@njit(**OPTIONS)
def fill_slots(keys: Words, slots: Places) -> None:
    """Put the numbers of all keys, plus one, into a hash table of a power of two slots, more than there are keys."""
    mask = slots.size - 1
    for number in range(keys.size):
        slot = _slot(keys[number], mask)
        while slots[slot] > 0:
            slot = (slot + 1) & mask
        slots[slot] = number + 1


@njit(**OPTIONS)
def add_up(found: Words, table: Table, sums: Ints) -> None:
    """Add to the sum of each profile the weight that it has for each key that was found, as often as it was."""
    mask = table.slots.size - 1
    for place in range(found.size):
        slot = _slot(found[place], mask)
        while table.slots[slot] > 0:
            number = table.slots[slot] - 1
            if table.keys[number] == found[place]:
                for entry in range(table.bounds[number], table.bounds[number + 1]):
                    sums[table.profiles[entry]] += table.weights[entry]
                break
            slot = (slot + 1) & mask
