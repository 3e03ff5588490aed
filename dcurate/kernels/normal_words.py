"""Normalize texts to words, ignoring case and punctuation, to compare n-grams in decontamination.

A word is a string between whitespace, reduced to letters, marks and digits, in lower case: ``Don't!`` is ``dont``,
and a dash by itself is no word (Brown et al., 2020, appendix C). Case is folded letter by letter. Where words are
written without spaces, in Chinese, Japanese, Thai, Lao, Khmer and Burmese, each character is a word.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import hash_bytes, load_eight, load_up_to_eight, stirred
from dcurate.kernels.layout import (
    ALLOCATING,
    INLINE,
    OPTIONS,
    Bytes,
    Ints,
    Offsets,
    Rows,
    Scalar,
    Word,
    Words,
    frozen,
    longest,
)
from dcurate.kernels.words import find_words

#: What a character is to the kernels: its lower case as a positive number, or one of these, or its negative for a
#: character that is a word.
DROPPED, SPACE = 0, -1
BLANK = 32
#: Beyond it there are no letters: variation selectors, tags and private use.
_POINTS = 0x40000
_UNSPACED = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x19E0, 0x19FF), (0x3005, 0x3007), (0x3040, 0x30FF)),
    *((0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF)),
    *((0xFF66, 0xFF9F), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF)),
)
#: Whether a byte is ASCII and neither letter nor digit.
_IS_MARK = np.array([byte < 0x80 and not chr(byte).isalnum() for byte in range(256)])
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ALL, _HIGH, _LOW_SEVEN = (np.uint64(byte * 0x0101010101010101) for byte in (0xFF, 0x80, 0x7F))
_TO_LOWER = np.uint64(0x2020202020202020)
#: Added to bytes below 0x80, these set the high bit of each that is not before the character.
_FROM_A, _PAST_Z, _FROM_0, _PAST_9 = (np.uint64((0x80 - first) * 0x0101010101010101) for first in (97, 123, 48, 58))


class Normal(NamedTuple):
    """Texts as their words: text ``i`` has the words from ``bounds[i]`` to ``bounds[i + 1]``.

    ``starts`` and ``stops`` are places in ``points``, which holds the code points of the words with a blank after each.
    """

    bounds: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    points: npt.NDArray[np.int32]


@cache
def letters() -> npt.NDArray[np.int32]:
    """What each character is to the kernels."""
    table = np.zeros(_POINTS, np.int32)
    for point in range(_POINTS):
        character = chr(point)
        if character.isspace():
            table[point] = SPACE
        elif unicodedata.category(character)[0] in "LMN":
            table[point] = ord("σ" if character == "ς" else character.lower()[0])
    for first, last in _UNSPACED:
        table[first : last + 1] *= -1
    table.flags.writeable = False
    return table


@njit(**INLINE)
def next_letter(data: Bytes, at: int, stop: int, table: npt.NDArray[np.int32]) -> tuple[Scalar, Scalar]:
    """What the character at ``at`` is, and where the next one begins."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return np.int64(table[lead]), at + 1
    width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if at + width > stop:
        return np.int64(DROPPED), stop
    point = lead & (0x7F >> width)
    for step in range(1, width):
        point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
    return (np.int64(table[point]) if point < _POINTS else np.int64(DROPPED)), at + width


class NormalScratch(NamedTuple):
    """Scratch for one text: bounds of strings between whitespace, then of words, hashes of words, and one word."""

    tokens: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    word: npt.NDArray[np.uint8]


@njit(**ALLOCATING)
def new_scratch(most: int) -> NormalScratch:
    """Scratch for texts of at most that many bytes; memory is taken only as it is written."""
    return NormalScratch(
        np.empty(most + 9, np.int64),
        np.empty(most + 4, np.int64),
        np.empty(most // 2 + 2, np.uint64),
        np.empty(2 * most + 8, np.uint8),
    )


@njit(**INLINE)
def _ascii_alnum(word: Word) -> Word:
    """The high bit of each of eight packed bytes that is an ASCII letter or digit."""
    low = word & _LOW_SEVEN
    lower = low | _TO_LOWER
    alphabetic = (lower + _FROM_A) & ~(lower + _PAST_Z)
    digits = (low + _FROM_0) & ~(low + _PAST_9)
    return (alphabetic | digits) & ~word & _HIGH


@njit(**INLINE)
def _hash_plain(data: Bytes, start: int, stop: int) -> Word:
    """The hash of a word of ASCII letters and digits alone, in lower case; 0 if there is anything else in it."""
    value = np.uint64(stop - start) * _MIX
    at = start
    while at + 8 < stop:
        word = load_eight(data, at)
        if _ascii_alnum(word) != _HIGH:
            return np.uint64(0)
        value = (value ^ (word | _TO_LOWER)) * _MIX
        value ^= value >> np.uint64(32)
        at += 8
    within = _ALL >> np.uint64(64 - 8 * (stop - at))
    word = load_up_to_eight(data, at, stop)
    if _ascii_alnum(word) != _HIGH & within:
        return np.uint64(0)
    return stirred(value ^ ((word | _TO_LOWER) & within))


@njit(**OPTIONS)
def _encode(letter: int, out: Bytes, at: int) -> Scalar:
    """Write a character in UTF-8; returns where the next goes."""
    if letter < 0x80:
        out[at] = letter
        return at + 1
    width = 2 if letter < 0x800 else 3 if letter < 0x10000 else 4
    for step in range(width - 1, 0, -1):
        out[at + step] = 0x80 | (letter & 0x3F)
        letter >>= 6
    out[at] = (0xF00 >> width & 0xFF) | letter
    return at + width


@njit(**OPTIONS)
def _read_token(
    data: Bytes, span: tuple[int, int], table: npt.NDArray[np.int32], scratch: NormalScratch, count: int
) -> Scalar:
    """Read the words of a string between whitespace, of any characters; returns the number of words so far."""
    at, stop = span
    bounds, hashes, word = scratch.bounds, scratch.hashes, scratch.word
    size = 0
    end = at
    while at < stop:
        letter, following = next_letter(data, at, stop, table)
        if letter > 0:
            if size == 0:
                bounds[2 * count] = at
            size = _encode(letter, word, size)
            end = following
        elif letter < SPACE:
            if size:
                bounds[2 * count + 1], hashes[count] = end, hash_bytes(word, 0, size)
                count, size = count + 1, 0
            bounds[2 * count], bounds[2 * count + 1] = at, following
            hashes[count] = hash_bytes(word, 0, _encode(-letter, word, 0))
            count += 1
        at = following
    if size:
        bounds[2 * count + 1], hashes[count] = end, hash_bytes(word, 0, size)
        count += 1
    return count


@njit(**INLINE)
def read_words(data: Bytes, span: tuple[int, int], table: npt.NDArray[np.int32], scratch: NormalScratch) -> Scalar:
    """Find and hash the words of a text; returns how many there are."""
    tokens = scratch.tokens
    count = 0
    for number in range(find_words(data, span[0], span[1], tokens)):
        start, stop = tokens[2 * number], tokens[2 * number + 1]
        while start < stop and _IS_MARK[data[stop - 1]]:
            stop -= 1
        while start < stop and _IS_MARK[data[start]]:
            start += 1
        if start == stop:
            continue
        value = _hash_plain(data, start, stop)
        if value == 0:
            count = _read_token(data, (start, stop), table, scratch, count)
            continue
        scratch.bounds[2 * count], scratch.bounds[2 * count + 1] = start, stop
        scratch.hashes[count] = value
        count += 1
    return count


@njit(**OPTIONS)
def _normalise(
    layout: tuple[Offsets, Bytes], rows: Rows, table: npt.NDArray[np.int32], out: tuple[Ints, Ints, Ints, Words, Ints]
) -> Scalar:
    offsets, data = layout
    bounds, starts, stops, hashes, points = out
    scratch = new_scratch(longest(offsets, rows))
    places, values = scratch.bounds, scratch.hashes
    words = size = 0
    for place in range(rows.size):
        span = offsets[rows[place]], offsets[rows[place] + 1]
        count = read_words(data, span, table, scratch)
        for word in range(count):
            starts[words] = size
            at = places[2 * word]
            while at < places[2 * word + 1]:
                letter, at = next_letter(data, at, span[1], table)
                if letter > 0 or letter < SPACE:
                    points[size] = abs(letter)
                    size += 1
            stops[words], hashes[words] = size, values[word]
            points[size] = BLANK
            size += 1
            words += 1
        bounds[place + 1] = words
    return size


def normalised(offsets: Offsets, data: Bytes, rows: Rows) -> Normal:
    """The texts numbered ``rows`` as their words.

    Examples:
        >>> text = "Don't — STOP 中文!".encode()
        >>> words = normalised(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> "".join(map(chr, words.points))
        'dont stop 中 文 '
    """
    capacity = int(offsets[-1] - offsets[0]) + len(rows) + 1
    bounds = np.zeros(len(rows) + 1, np.int64)
    starts, stops, hashes = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.uint64)
    points = np.empty(2 * capacity, np.int32)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    size = _normalise(layout, frozen(rows, np.int64), letters(), (bounds, starts, stops, hashes, points))
    count = bounds[-1]
    return Normal(bounds, starts[:count].copy(), stops[:count].copy(), hashes[:count].copy(), points[:size].copy())
