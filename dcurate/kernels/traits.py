"""Counts of words by the features of each distinct word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import ALLOCATING, INLINE, Bytes, Ints, Places, Scalar, frozen
from dcurate.kernels.signal import Array, Output, columns, signal

_BITS = 8
#: Number of distinguished lengths for the median; longer words count as this long.
_LONG = 255
#: Numbers that `measure_traits` writes for a text.
_NUMBERS = 3 + 2 * _BITS


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


class TraitScratch(NamedTuple):
    """Counters for one text: words by length, and words and their characters by combination of features."""

    sizes: Ints
    having: Ints
    letters: Ints


@njit(**ALLOCATING)
def new_trait_scratch(most: int, known: tuple[Places, Bytes]) -> TraitScratch:
    """Counters for any text."""
    return TraitScratch(np.empty(_LONG + 1, np.int64), np.empty(256, np.int64), np.empty(256, np.int64))


@njit(**INLINE)
def measure_traits(
    numbers: Places, span: tuple[int, int], known: tuple[Places, Bytes], scratch: TraitScratch, out: Ints
) -> None:
    """Count the words of one text: all, their characters, twice the median of their lengths, and those by feature.

    Args:
        numbers: word ids, and ``span`` the range of those of the text.
        known: the length and the traits of each different word.
    """
    lengths, traits = known
    sizes, having, letters = scratch
    words = span[1] - span[0]
    sizes[:], having[:], letters[:] = 0, 0, 0
    for at in range(span[0], span[1]):
        number = numbers[at]
        length, kind = lengths[number], traits[number]
        sizes[length if length < _LONG else _LONG] += 1
        having[kind] += 1
        letters[kind] += length
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


class SoughtScratch(NamedTuple):
    """``seen[which]`` is the number of the last text that has the word, and ``text[0]`` the number of this text."""

    seen: Places
    text: Places


@njit(**ALLOCATING)
def new_sought_scratch(most: int, places: Places) -> SoughtScratch:
    """Scratch for any text."""
    words = np.int64(0)
    for place in places:
        words = max(words, np.int64(place))
    return SoughtScratch(np.empty(words + 1, np.int32), np.empty(1, np.int32))


@njit(**INLINE)
def forget_sought(scratch: SoughtScratch) -> None:
    """Make scratch ready for the first text."""
    scratch.seen[:] = 0
    scratch.text[0] = 0


@njit(**INLINE)
def measure_sought(numbers: Places, span: tuple[int, int], places: Places, scratch: SoughtScratch, out: Ints) -> None:
    """Count the words of one text that are in a list, and the distinct ones among them.

    Args:
        numbers: word ids, and ``span`` the range of those of the text.
        places: for each distinct word a number from 1 on if it is in the list, else 0.
    """
    seen, text = scratch
    text[0] += 1
    total = different = 0
    for at in range(span[0], span[1]):
        which = places[numbers[at]]
        if which:
            total += 1
            different += seen[which] < text[0]
            seen[which] = text[0]
    out[0], out[1] = total, different


def _as_traits(out: Array, tables: tuple[Places, Bytes]) -> TraitSignals:
    counts = np.ascontiguousarray(out.T)
    return TraitSignals(counts[0], counts[1], counts[2] / 2, counts[3 : 3 + _BITS].T, counts[3 + _BITS :].T)


@signal(measure_traits, Output(_NUMBERS, _as_traits), scratch=Scratch(new_trait_scratch), items=np.int32)
def trait_signals(lengths: Places, traits: Bytes) -> tuple[Places, Bytes]:
    """Count words by their features; texts are sequences of word ids.

    Args:
        lengths: characters of each distinct word.
        traits: features of each distinct word, as bits.

    Examples:
        >>> texts = np.array([0, 3]), np.array([0, 1, 1], np.int32), np.array([0])
        >>> signals = trait_signals(*texts, np.array([5, 2], np.int32), np.array([1, 2], np.uint8))
        >>> signals.total.tolist(), signals.characters.tolist(), signals.median.tolist(), signals.having[:, 1].tolist()
        ([3], [9], [2.0], [2])
    """
    return frozen(lengths, np.int32), frozen(traits, np.uint8)


class SoughtSignals(NamedTuple):
    """How many of the words of each text are in a list: ``total``, and ``different`` ones."""

    total: npt.NDArray[np.int64]
    different: npt.NDArray[np.int64]


@signal(measure_sought, columns(SoughtSignals), scratch=Scratch(new_sought_scratch, forget_sought), items=np.int32)
def sought_signals(places: Places) -> Places:
    """Count the words that are in a list; texts are sequences of word ids.

    Args:
        places: for each distinct word a number from 1 on if it is in the list, else 0; equal words have equal numbers.

    Examples:
        >>> texts = np.array([0, 3]), np.array([0, 1, 1], np.int32), np.array([0])
        >>> [int(count[0]) for count in sought_signals(*texts, np.array([0, 1], np.int32))]
        [2, 1]
    """
    return frozen(places, np.int32)
