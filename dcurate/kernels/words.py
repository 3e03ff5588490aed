"""Signals of the words of a text; words are what ``str.split`` gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import load_eight, load_up_to_eight
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Rows, frozen, longest
from dcurate.kernels.unicode import KINDS, MAYBE_SPACE, alphabetic_bits, has_letter, space_width

_COMMON = ("the", "be", "to", "of", "and", "that", "have", "with")
_ELLIPSES = ("...", "[...]", "…", "(...)", "[…]", "-»")
_HASH = 35

_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_ONE, _SIX, _SEVEN, _TOP_BYTE = np.uint64(1), np.uint64(6), np.uint64(7), np.uint64(56)
_TO_LOWER = np.uint64(0x2020202020202020)
_LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_FROM_A = np.uint64((0x80 - ord("a")) * 0x0101010101010101)
_PAST_Z = np.uint64((0x80 - ord("z") - 1) * 0x0101010101010101)
_SLOT_SHIFT = np.uint64(60)


def _packed(word: str) -> int:
    return int.from_bytes(word.encode(), "little")


def _slots(words: tuple[str, ...]) -> tuple[np.uint64, npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """A multiplier that sends each word to a slot of its own among sixteen; the slots' words and their bytes."""
    factor = 0x9E3779B97F4A7C15
    while len({_packed(word) * factor % 2**64 >> 60 for word in words}) < len(words):
        factor = factor * 0x5851F42D4C957F2D % 2**64
    packed, lengths = np.zeros(16, np.uint64), np.zeros(16, np.int64)
    for word in words:
        slot = _packed(word) * factor % 2**64 >> 60
        packed[slot], lengths[slot] = _packed(word), len(word.encode())
    return np.uint64(factor), packed, lengths


_COMMON_FACTOR, _COMMON_WORDS, _COMMON_LENGTHS = _slots(_COMMON)
_ELLIPSIS_FACTOR, _ELLIPSIS_WORDS, _ELLIPSIS_LENGTHS = _slots(_ELLIPSES)


class WordSignals(NamedTuple):
    """What the words of each text are like.

    ``characters`` is their length together, ``longest`` that of the longest, ``symbolic`` counts ellipsis marks and
    words made of ``#`` for the most part, ``lettered`` words with an alphabetic character, ``common`` the words
    the, be, to, of, and, that, have, with.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    longest: npt.NDArray[np.int64]
    symbolic: npt.NDArray[np.int64]
    lettered: npt.NDArray[np.int64]
    common: npt.NDArray[np.int64]


@njit(**INLINE)
def find_words(data, start, stop, bounds):
    """Write where each word of a text begins and ends, in turn, into ``bounds``; returns how many words there are.

    No branch depends on where words end: a mispredicted one a word would cost more than all the rest.
    """
    count = np.uint64(0)
    before = np.uint64(1)
    at = start
    while at < stop:
        kind = KINDS[data[np.uint64(at)]]
        blank = np.uint64((kind >> 1) & 1)
        width = 1
        if kind & MAYBE_SPACE:
            spaces = space_width(data, at, stop)
            blank = np.uint64(spaces > 0)
            width = max(spaces, 1)
        bounds[count] = at
        count += blank ^ before
        before = blank
        at += width
    bounds[count] = stop
    return np.int64(count + np.uint64(1)) // 2


@njit(**INLINE)
def continuations(word):
    """How many of eight packed bytes continue a character that began before them."""
    return np.int64((((word >> _SEVEN) & ~(word >> _SIX) & _ONES) * _ONES) >> _TOP_BYTE)


@njit(**INLINE)
def _ascii_letters(word):
    """Not zero if any of eight packed bytes is an ASCII letter."""
    lower = (word | _TO_LOWER) & _LOW_SEVEN
    return (lower + _FROM_A) & ~(lower + _PAST_Z) & ~word & _HIGH


@njit(**INLINE)
def _is_common(word, length):
    slot = np.int64((word * _COMMON_FACTOR) >> _SLOT_SHIFT)
    return (_COMMON_WORDS[slot] == word) & (_COMMON_LENGTHS[slot] == length)


@njit(**INLINE)
def _is_ellipsis(word, length):
    slot = np.int64((word * _ELLIPSIS_FACTOR) >> _SLOT_SHIFT)
    return (_ELLIPSIS_WORDS[slot] == word) & (_ELLIPSIS_LENGTHS[slot] == length)


@njit(**INLINE)
def _is_hashes(data, start, stop, characters):
    """Whether the runs of ``#`` are more than half as many as the characters of the word."""
    runs = 0
    for at in range(start, stop):
        runs += data[at] == _HASH and (at == start or data[at - 1] != _HASH)
    return 2 * runs > characters


@njit(**OPTIONS)
def _words(offsets, data, rows, alphabetic, out):
    bounds = np.empty(longest(offsets, rows) + 3, np.int64)
    for place in range(rows.size):
        begin, end = offsets[rows[place]], offsets[rows[place] + 1]
        total = find_words(data, begin, end, bounds)
        characters = longest_word = symbolic = lettered = common = 0
        for number in range(total):
            start, stop = bounds[2 * number], bounds[2 * number + 1]
            length = stop - start
            at = start
            letters = high = np.uint64(0)
            while at + 8 < stop:
                word = load_eight(data, at)
                letters |= _ascii_letters(word)
                high |= word & _HIGH
                length -= continuations(word)
                at += 8
            word = load_up_to_eight(data, at, stop)
            letters |= _ascii_letters(word)
            high |= word & _HIGH
            length -= continuations(word)
            characters += length
            longest_word = max(longest_word, length)
            common += _is_common(word, stop - start)
            if letters:
                lettered += 1
            else:
                symbolic += _is_ellipsis(word, stop - start)
                if high:
                    lettered += has_letter(data, start, stop, alphabetic)
            if data[start] == _HASH:
                symbolic += _is_hashes(data, start, stop, length)
        out[0, place], out[1, place], out[2, place] = total, characters, longest_word
        out[3, place], out[4, place], out[5, place] = symbolic, lettered, common


def word_signals(offsets: Offsets, data: Bytes, rows: Rows) -> WordSignals:
    """Measure the words of the texts numbered ``rows``.

    >>> text = "to be ... ## naïve".encode()
    >>> signals = word_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
    >>> [int(count[0]) for count in signals]
    [5, 14, 5, 1, 3, 2]
    """
    out = np.empty((6, rows.size), np.int64)
    _words(frozen(offsets, np.int64), frozen(data, np.uint8), frozen(rows, np.int64), alphabetic_bits(), out)
    return WordSignals(*out)
