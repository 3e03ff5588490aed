"""Counts of words by the features of each distinct word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Places, Rows, Scalar, frozen

_BITS = 8
#: Number of distinguished lengths for the median; longer words count as this long.
_LONG = 255
#: How many numbers `measure_traits` writes for a text.
TRAIT_NUMBERS = 3 + 2 * _BITS


class TraitSignals(NamedTuple):
    """The words of each text.

    ``total`` is their number, ``characters`` their length together, ``median`` that of their lengths (one above 255
    counts as 255); ``having`` and ``having_characters`` are how many have each trait and how long these are together,
    by text (axis 0) and bit (axis 1).
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    median: npt.NDArray[np.float64]
    having: npt.NDArray[np.int64]
    having_characters: npt.NDArray[np.int64]


class TraitRoom(NamedTuple):
    """Counters for one text: of words of each length, and of those with each combination of features."""

    sizes: Ints
    having: Ints
    letters: Ints


@njit(**INLINE)
def new_trait_room() -> TraitRoom:
    """Counters for any text."""
    return TraitRoom(np.empty(_LONG + 1, np.int64), np.empty(256, np.int64), np.empty(256, np.int64))


@njit(**INLINE)
def measure_traits(
    numbers: Places, span: tuple[int, int], known: tuple[Places, Bytes], room: TraitRoom, out: Ints
) -> None:
    """Count the words of one text: all, their characters, twice the median of their lengths, and those by feature.

    Args:
        numbers: word ids, and ``span`` the range of those of the text.
        known: the length and the traits of each different word.
    """
    lengths, traits = known
    sizes, having, letters = room
    words = span[1] - span[0]
    sizes[:], having[:], letters[:] = 0, 0, 0
    for at in range(span[0], span[1]):
        number = numbers[at]
        length, kind = lengths[number], traits[number]
        sizes[length if length < _LONG else _LONG] += 1
        having[kind] += 1
        letters[kind] += length
    out[:] = 0
    out[0] = words
    before: Scalar = np.int64(0)
    for length in range(_LONG + 1):
        after = before + sizes[length]
        if words:
            out[2] += length * (before <= (words - 1) // 2 < after) + length * (before <= words // 2 < after)
        before = after
    for kind in range(256):
        if having[kind]:
            out[1] += letters[kind]
            for bit in range(_BITS):
                if kind >> bit & 1:
                    out[3 + bit] += having[kind]
                    out[3 + _BITS + bit] += letters[kind]


@njit(**OPTIONS)
def _traits(found: Numbered, known: tuple[Places, Bytes], rows: Rows, out: Ints) -> None:
    room = new_trait_room()
    for place in range(rows.size):
        begin = found.begins[rows[place]]
        measure_traits(found.numbers, (begin, begin + found.counts[rows[place]]), known, room, out[:, place])


@njit(**INLINE)
def measure_sought(
    numbers: Places, span: tuple[int, int], places: Places, stamps: tuple[Places, int], out: Ints
) -> None:
    """Count the words of one text that are in a list, and the distinct ones among them.

    Args:
        numbers: word ids, and ``span`` the range of those of the text.
        places: for each different word a number from 1 on if it is sought, else 0.
        stamps: for each of these numbers one not above the second value where the text has not been seen to have it.
    """
    seen, stamp = stamps
    total = different = 0
    for at in range(span[0], span[1]):
        which = places[numbers[at]]
        if which:
            total += 1
            different += seen[which] <= stamp
            seen[which] = stamp + 1
    out[0], out[1] = total, different


@njit(**OPTIONS)
def _sought(found: Numbered, places: Places, rows: Rows, seen: Places, out: Ints) -> None:
    for place in range(rows.size):
        begin = found.begins[rows[place]]
        span = begin, begin + found.counts[rows[place]]
        measure_sought(found.numbers, span, places, (seen, place), out[:, place])


def trait_signals(found: Numbered, lengths: Places, traits: Bytes, rows: Rows) -> TraitSignals:
    """Count the words of the texts numbered ``rows`` by their features.

    Args:
        found: the words by number, ``begins`` and ``counts`` by text.
        lengths: of each different word.
        traits: bits of each different word.
        rows: numbers of texts.

    Examples:
        >>> found = Numbered(np.array([0, 1, 1], np.int32), np.array([0]), np.array([3]))
        >>> signals = trait_signals(found, np.array([5, 2], np.int32), np.array([1, 2], np.uint8), np.array([0]))
        >>> signals.total.tolist(), signals.characters.tolist(), signals.median.tolist(), signals.having[:, 1].tolist()
        ([3], [9], [2.0], [2])
    """
    out = np.empty((TRAIT_NUMBERS, len(rows)), np.int64)
    _traits(found, (frozen(lengths, np.int32), frozen(traits, np.uint8)), frozen(rows, np.int64), out)
    return as_traits(out)


def as_traits(out: npt.NDArray[np.int64]) -> TraitSignals:
    """Counts, an array of shape (numbers, texts)."""
    return TraitSignals(out[0], out[1], out[2] / 2, out[3 : 3 + _BITS].T, out[3 + _BITS :].T)


class SoughtSignals(NamedTuple):
    """How many of the words of each text are in a list: ``total``, and ``different`` ones."""

    total: npt.NDArray[np.int64]
    different: npt.NDArray[np.int64]


def sought_signals(found: Numbered, places: Places, rows: Rows) -> SoughtSignals:
    """Count the words of the texts numbered ``rows`` that are in a list.

    Args:
        found: the words by number, ``begins`` and ``counts`` by text.
        places: for each different word a number from 1 on if it is sought, else 0; equal words have equal numbers.
        rows: numbers of texts.

    Examples:
        >>> found = Numbered(np.array([0, 1, 1], np.int32), np.array([0]), np.array([3]))
        >>> [int(count[0]) for count in sought_signals(found, np.array([0, 1], np.int32), np.array([0]))]
        [2, 1]
    """
    out = np.empty((2, len(rows)), np.int64)
    seen = np.zeros(int(places.max(initial=0)) + 1, np.int32)
    _sought(found, frozen(places, np.int32), frozen(rows, np.int64), seen, out)
    return SoughtSignals(*out)
