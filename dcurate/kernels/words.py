"""Signals of the words of a text, split as by ``str.split``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import load_eight, load_up_to_eight
from dcurate.kernels.layout import ALLOCATING, INLINE_LATE, Bytes, Ints, Scalar, Word
from dcurate.kernels.signal import columns, signal
from dcurate.kernels.unicode import alphabetic_bits, continuations, has_letter, space_width

_COMMON = ("the", "be", "to", "of", "and", "that", "have", "with")
_ELLIPSES = ("...", "[...]", "…", "(...)", "[…]", "-»")
_HASH = 35

_HIGH = np.uint64(0x8080808080808080)
_LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_TO_LOWER = np.uint64(0x2020202020202020)
_ZERO, _ONE, _SEVEN, _EIGHT = (np.uint64(number) for number in (0, 1, 7, 8))
_TOP_BYTE, _TOP_BIT = np.uint64(56), np.uint64(63)
#: Added to bytes below 0x80, these set the high bit of each that is not before the character.
_FROM_A, _PAST_Z, _FROM_TAB, _PAST_RETURN, _FROM_FS, _PAST_SPACE = (
    np.uint64((0x80 - first) * 0x0101010101010101) for first in (97, 123, 9, 14, 28, 33)
)
#: Multiplied with it, the lowest bits of eight bytes gather in the highest byte.
_GATHER = np.uint64(0x0102040810204080)

#: For each byte, where its bits are set, and how many are.
_PLACES = np.array([([at for at in range(8) if byte >> at & 1] + [0] * 8)[:8] for byte in range(256)], np.int64)
_FOUND = np.array([byte.bit_count() for byte in range(256)], np.uint64)


def _packed(word: str) -> int:
    return int.from_bytes(word.encode(), "little")


def _slot_factor(words: tuple[str, ...]) -> int:
    """A multiplier that sends each word to a slot of its own among 64."""
    factor = 0x9E3779B97F4A7C15
    while len({_packed(word) * factor % 2**64 >> 58 for word in words}) < len(words):
        factor = factor * 0x5851F42D4C957F2D % 2**64
    return factor


_FACTOR = np.uint64(_slot_factor(_COMMON + _ELLIPSES))
_SLOT = np.uint64(58)
#: In each slot: the word, its bytes, and what it counts as: one in the lower half if common, in the upper if a symbol.
_WORDS, _LENGTHS, _COUNTS_AS = np.zeros(64, np.uint64), np.zeros(64, np.int64), np.zeros(64, np.int64)
for _word in _COMMON + _ELLIPSES:
    _place = _packed(_word) * int(_FACTOR) % 2**64 >> 58
    _WORDS[_place], _LENGTHS[_place] = _packed(_word), len(_word.encode())
    _COUNTS_AS[_place] = 1 if _word in _COMMON else 1 << 32


class WordSignals(NamedTuple):
    """Word statistics of each text.

    ``characters`` is the sum of their lengths, ``longest`` the length of the longest, ``symbolic`` counts ellipsis
    marks and words that are mostly ``#``, ``lettered`` words with an alphabetic character, ``common`` the words
    the, be, to, of, and, that, have, with.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    longest: npt.NDArray[np.int64]
    symbolic: npt.NDArray[np.int64]
    lettered: npt.NDArray[np.int64]
    common: npt.NDArray[np.int64]


@njit(**INLINE_LATE)
def ascii_spaces(block: Word) -> Word:
    """The high bits of the whitespace among eight packed ASCII bytes."""
    controls = (block + _FROM_TAB) & ~(block + _PAST_RETURN)
    return (controls | ((block + _FROM_FS) & ~(block + _PAST_SPACE))) & _HIGH


@njit(**INLINE_LATE)
def first_high(block: Word) -> Scalar:
    """The place of the first of eight packed bytes whose high bit is set; one has to be."""
    return _PLACES[((block & _HIGH) >> _SEVEN) * _GATHER >> _TOP_BYTE, 0]


@njit(**INLINE_LATE)
def find_words(data: Bytes, start: int, stop: int, bounds: Ints) -> Scalar:
    """Write where each word of a text begins and ends, in turn, into ``bounds``; returns the number of words.

    ``bounds`` has at least eight more entries than the text has bytes. Eight ASCII bytes are read together, and no
    branch depends on where words end: one misprediction a word would cost more than all the rest.
    """
    count = _ZERO
    before = _ONE
    at = start
    while at < stop:
        block = load_eight(data, at) if at + 8 <= stop else _HIGH
        if block & _HIGH:
            width = space_width(data, at, stop)
            blank = np.uint64(width > 0)
            bounds[count] = at
            count += blank ^ before
            before = blank
            at += max(width, 1)
            continue
        spaces = ascii_spaces(block)
        changes = (((spaces ^ ((spaces << _EIGHT) | (before << _SEVEN))) >> _SEVEN) * _GATHER) >> _TOP_BYTE
        for step in range(4):
            bounds[count + np.uint64(step)] = at + _PLACES[changes, step]
        if _FOUND[changes] > 4:
            for step in range(4, 8):
                bounds[count + np.uint64(step)] = at + _PLACES[changes, step]
        count += _FOUND[changes]
        before = spaces >> _TOP_BIT
        at += 8
    bounds[count] = stop
    return np.int64(count + _ONE) // 2


@njit(**INLINE_LATE)
def _ascii_letters(word: Word) -> Word:
    """Not zero if any of eight packed bytes is an ASCII letter."""
    lower = (word | _TO_LOWER) & _LOW_SEVEN
    return (lower + _FROM_A) & ~(lower + _PAST_Z) & ~word & _HIGH


@njit(**INLINE_LATE)
def _counts_as(word: Word, length: int) -> Scalar:
    """What a word is, as in `_COUNTS_AS`; 0 for all but a few words."""
    slot = (word * _FACTOR) >> _SLOT
    return _COUNTS_AS[slot] * ((_WORDS[slot] == word) & (_LENGTHS[slot] == length))


@njit(**INLINE_LATE)
def _is_hashes(data: Bytes, start: int, stop: int, characters: int) -> Scalar:
    """Whether the runs of ``#`` are more than half as many as the characters of the word."""
    runs = 0
    for at in range(start, stop):
        runs += data[at] == _HASH and (at == start or data[at - 1] != _HASH)
    return 2 * runs > characters


@njit(**ALLOCATING)
def new_bounds(most: int, tables: Bytes) -> Ints:
    """Scratch for the bounds of the words of a text of at most ``most`` bytes, as `find_words` writes them."""
    return np.empty(most + 9, np.int64)


@njit(**INLINE_LATE)
def measure_words(data: Bytes, span: tuple[int, int], alphabetic: Bytes, bounds: Ints, out: Ints) -> None:
    """Measure the words of one text, as in `WordSignals`."""
    total = find_words(data, span[0], span[1], bounds)
    characters = most = symbolic = lettered = known = 0
    for number in range(total):
        start, stop = bounds[2 * number], bounds[2 * number + 1]
        length = stop - start
        letters = high = _ZERO
        at = start
        while at + 8 < stop:
            word = load_eight(data, at)
            letters |= _ascii_letters(word)
            if word & _HIGH:
                high = _ONE
                length -= continuations(word)
            at += 8
        word = load_up_to_eight(data, at, stop)
        letters |= _ascii_letters(word)
        if word & _HIGH:
            high = _ONE
            length -= continuations(word)
        characters += length
        most = max(most, length)
        known += _counts_as(word, stop - start)
        lettered += letters != 0
        if (letters == 0) & (high != 0):
            lettered += has_letter(data, start, stop, alphabetic)
        if data[start] == _HASH:
            symbolic += _is_hashes(data, start, stop, length)
    out[0], out[1], out[2] = total, characters, most
    out[3], out[4], out[5] = symbolic + (known >> 32), lettered, known & 0xFFFFFFFF


@signal(measure_words, columns(WordSignals), scratch=Scratch(new_bounds))
def word_signals() -> Bytes:
    """Measure words.

    Examples:
        >>> text = "to be ... ## naïve".encode()
        >>> signals = word_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [int(count[0]) for count in signals]
        [5, 14, 5, 1, 3, 2]
    """
    return alphabetic_bits()
