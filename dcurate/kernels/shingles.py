r"""Texts as shingles: every stretch of n consecutive words, or characters, as a hash of 64 bits.

A word is a maximal run of what ``\w`` matches, in lower case; where words are written without spaces, in Chinese,
Japanese, Thai, Lao, Khmer and Burmese, each character is a word. A text is read in blocks of a few kilobytes, so what
is kept of it while it is read fits the processor's first cache however long the text is.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import load_eight, load_up_to_eight, stirred
from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Bytes, Ints, Scalar, Word, Words
from dcurate.kernels.normal_words import SPACE, letters, next_letter

#: Bytes of text that are read at a time.
_BLOCK = 2048
#: Of a character in the table of `word_letters`: its lower case, and whether it is a word, or ends one.
_POINT, _ALONE, _LAST = 0x1FFFFF, 1 << 22, 1 << 23
#: What `Reading` holds, by place: where to read on, where the text ends, bounds of words not yet hashed, words that the
#: block before had, and how many there were so far, up to the size of a shingle.
_AT, _STOP, _OPEN, _COUNT, _SEEN = range(5)

_MIX = np.uint64(0x9E3779B97F4A7C15)
_BASE = np.uint64(0xD1342543DE82EF95)
_ZERO, _SEVEN, _EIGHT, _THIRD, _HALF = (np.uint64(number) for number in (0, 7, 8, 29, 32))
_TOP_BYTE = np.uint64(56)
_BLANK, _SEVEN_BITS, _TOP = (np.uint64(byte) for byte in (0x20, 0x7F, 0x80))
_HIGH, _LOW_SEVEN, _TO_LOWER, _UNDERSCORES = (np.uint64(byte * 0x0101010101010101) for byte in (0x80, 0x7F, 0x20, 0x5F))
#: Added to bytes below 0x80, these set the high bit of each that is not before the character.
_FROM_A, _PAST_Z, _FROM_0, _PAST_9 = (np.uint64((0x80 - first) * 0x0101010101010101) for first in (97, 123, 48, 58))
#: Multiplied with it, the lowest bits of eight bytes gather in the highest byte.
_GATHER = np.uint64(0x0102040810204080)
#: For each byte, the places of its bits that are set, one to a byte from the lowest on, and how many there are.
_PLACES = np.array(
    [
        sum(place << 8 * rank for rank, place in enumerate(at for at in range(8) if byte >> at & 1))
        for byte in range(256)
    ],
    np.uint64,
)
#: For each number of bytes up to eight, all their bits.
_WITHIN = np.array([(1 << 8 * min(count, 8)) - 1 for count in range(10)], np.uint64)
_FOUND = np.array([byte.bit_count() for byte in range(256)], np.uint64)


class Rule(NamedTuple):
    """How texts are cut: into shingles of ``size`` words, or of characters; ``seed`` changes every hash."""

    size: int
    words: bool
    seed: np.uint64


class Reading(NamedTuple):
    """A text while it is read, and arrays for a block of it.

    These are bounds of words, hashes of words and then of shingles, and the numbers of words that are hashed by letter.
    """

    state: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    odd: npt.NDArray[np.int64]


@cache
def word_letters() -> npt.NDArray[np.int32]:
    r"""What each character is to words: its lower case and whether it is a word or ends one; 0 if it is in none.

    ``str.lower`` makes one character of each but of U+0130, an i with a dot above: to Python's ``\w`` the dot ends the
    word. It writes a capital sigma in two ways, by what follows; here both are one letter.
    """
    spaced = letters()
    table = np.zeros(len(spaced), np.int32)
    for point in range(len(spaced)):
        character = chr(point)
        if character.isalnum():
            table[point] = ord("σ" if character == "ς" else character.lower()[0])
    table[ord("_")] = ord("_")
    table[(spaced < SPACE) & (table > 0)] |= _ALONE
    table[0x130] |= _LAST
    table.flags.writeable = False
    return table


@njit(**ALLOCATING)
def new_reading(size: int) -> Reading:
    """What reading texts into shingles of that size takes."""
    return Reading(
        np.zeros(5, np.int64),
        np.empty(_BLOCK + 32, np.int64),
        np.zeros(_BLOCK + size + 16, np.uint64),
        np.empty(_BLOCK + 16, np.int64),
    )


@njit(**INLINE)
def open_text(reading: Reading, start: int, stop: int, size: int) -> None:
    """Begin to read a text."""
    state = reading.state
    state[_AT], state[_STOP] = start, stop
    state[_OPEN] = state[_COUNT] = state[_SEEN] = 0
    reading.hashes[:size] = _ZERO


@njit(**INLINE)
def is_open(reading: Reading) -> Scalar:
    """Whether there is more of the text to read."""
    return reading.state[_AT] < reading.state[_STOP]


@njit(**INLINE)
def _outside_words(block: Word) -> Word:
    r"""The high bits of those of eight packed ASCII bytes that ``\w`` does not match."""
    lower = block | _TO_LOWER
    alphabetic = (lower + _FROM_A) & ~(lower + _PAST_Z)
    digits = (block + _FROM_0) & ~(block + _PAST_9)
    return ((block ^ _UNDERSCORES) + _LOW_SEVEN) & ~(alphabetic | digits) & _HIGH


@njit(**OPTIONS)
def _find_words(data: Bytes, state: Ints, table: npt.NDArray[np.int32], bounds: Ints) -> Scalar:
    """Write where each word of the next block begins and ends, in turn, into ``bounds``; returns how many there are.

    A word that the block ends within stays open: its beginning comes after the others, until a later call.
    Eight ASCII bytes are looked at together, and no branch depends on where words end.
    """
    at, stop = state[_AT], state[_STOP]
    until = min(at + _BLOCK, stop)
    count = np.uint64(state[_OPEN])
    while at < until:
        block = load_eight(data, at) if at + 8 <= stop else _HIGH
        if block & _HIGH:
            letter, following = next_letter(data, at, stop, table)
            inside = count & np.uint64(1)
            alone = np.uint64((letter & _ALONE) != 0)
            bounds[count] = at
            count += inside & (alone | np.uint64(letter == 0))
            bounds[count] = at
            count += np.uint64(letter != 0) & ~count
            bounds[count] = following
            count += alone | np.uint64((letter & _LAST) != 0)
            at = following
            continue
        outside = _outside_words(block)
        before = (count & np.uint64(1)) ^ np.uint64(1)
        changes = (((outside ^ ((outside << _EIGHT) | (before << _SEVEN))) >> _SEVEN) * _GATHER) >> _TOP_BYTE
        places = _PLACES[changes]
        for step in range(4):
            bounds[count + np.uint64(step)] = at + np.int64((places >> np.uint64(8 * step)) & _SEVEN)
        if _FOUND[changes] > 4:
            for step in range(4, 8):
                bounds[count + np.uint64(step)] = at + np.int64((places >> np.uint64(8 * step)) & _SEVEN)
        count += _FOUND[changes]
        at += 8
    state[_AT] = at
    if at >= stop and count & np.uint64(1):
        bounds[count] = stop
        count += np.uint64(1)
    state[_OPEN] = np.int64(count & np.uint64(1))
    return np.int64(count) // 2


@njit(**OPTIONS)
def _hash_letters(data: Bytes, start: int, stop: int, table: npt.NDArray[np.int32]) -> Word:
    """The hash of a word of any letters: of one byte for each in ASCII, three for others, in lower case."""
    value = word = shift = _ZERO
    at = np.int64(start)
    while at < stop:
        letter, at = next_letter(data, at, stop, table)
        point = np.uint64(letter & _POINT)
        plain = point < 0x80
        for _ in range(1 if plain else 3):
            if shift == 64:
                value = (value ^ word) * _MIX
                value ^= value >> _HALF
                word = shift = _ZERO
            word |= (point | _BLANK if plain else (point & _SEVEN_BITS) | _TOP) << shift
            shift += _EIGHT
            point >>= _SEVEN
    return stirred(value ^ word)


@njit(**INLINE)
def _hash_word(data: Bytes, start: int, stop: int, table: npt.NDArray[np.int32]) -> Word:
    """The hash of a word, ignoring case; no byte of it is 0, so the last eight encode its length."""
    value = high = _ZERO
    at = start
    while at + 8 < stop:
        word = load_eight(data, at)
        high |= word
        value = (value ^ (word | _TO_LOWER)) * _MIX
        value ^= value >> _HALF
        at += 8
    word = load_up_to_eight(data, at, stop)
    if (high | word) & _HIGH:
        return _hash_letters(data, start, stop, table)
    within = ~_ZERO >> np.uint64(64 - 8 * (stop - at))
    return stirred(value ^ ((word | _TO_LOWER) & within))


@njit(**OPTIONS)
def _hash_words(data: Bytes, reading: Reading, table: npt.NDArray[np.int32], size: int) -> Scalar:
    """Hash the words that end in the next block; returns how many do.

    First all as if they were of eight letters of ASCII at most, without a branch or a call; then the odd ones again.
    """
    bounds, hashes, odd = reading.bounds, reading.hashes, reading.odd
    count = _find_words(data, reading.state, table, bounds)
    odds = _ZERO
    last = data.size - 8
    if last < 0:
        for number in range(count):
            odd[number] = number
        odds = np.uint64(count)
    for number in range(count if last >= 0 else 0):
        place = np.uint64(2 * number)
        start = bounds[place]
        length = np.uint64(min(bounds[place + np.uint64(1)] - start, 9))
        word = load_eight(data, min(start, last)) & _WITHIN[length]
        odd[odds] = number
        odds += np.uint64(((word & _HIGH) != 0) | (length > _EIGHT) | (start > last))
        hashes[np.uint64(size + number)] = stirred(word | (_TO_LOWER & _WITHIN[length]))
    for at in range(odds):
        number = odd[at]
        hashes[size + number] = _hash_word(data, bounds[2 * number], bounds[2 * number + 1], table)
    bounds[0] = bounds[2 * count]
    return count


@njit(**INLINE)
def character_width(lead: int) -> Scalar:
    """Bytes of the character that begins with this one."""
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


@njit(**OPTIONS)
def _hash_characters(data: Bytes, reading: Reading, size: int) -> Scalar:
    """Hash the characters that begin in the next block; returns how many do."""
    state, hashes = reading.state, reading.hashes
    at, stop = state[_AT], state[_STOP]
    until = min(at + _BLOCK, stop)
    count = size
    while at < until:
        lead = np.uint64(data[at])
        if lead < 0x80:
            hashes[count] = (lead + np.uint64(1)) * _MIX
            at += 1
        else:
            following = min(at + character_width(lead), stop)
            hashes[count] = load_up_to_eight(data, at, following) * _MIX
            at = following
        count += 1
    state[_AT] = at
    return count - size


@njit(**INLINE)
def _mixed(value: Word) -> Word:
    """A number of which each bit depends on all bits of the value, so that like shingles are unlike numbers."""
    value = (value ^ (value >> _HALF)) * _MIX
    return stirred(value ^ (value >> _THIRD))


@njit(**INLINE)
def _roll(hashes: Words, count: int, rule: Rule) -> Word:
    """Put the hash of each shingle where its first word or character stood; returns the sum that the last one is of.

    Sums come first, each made of the one before, and are mixed in a loop of its own that does many at once.
    """
    size = np.uint64(rule.size)
    power, total = np.uint64(1), _ZERO
    for place in range(rule.size):
        total = total * _BASE + hashes[place]
        power *= _BASE
    for number in range(count):
        here = np.uint64(number)
        total = total * _BASE + (hashes[here + size] - hashes[here] * power)
        hashes[here] = total
    for number in range(count):
        hashes[number] = _mixed(hashes[number] ^ rule.seed)
    return total


@njit(**OPTIONS)
def next_shingles(data: Bytes, reading: Reading, rule: Rule, table: npt.NDArray[np.int32]) -> tuple[Scalar, Scalar]:
    """Hash the shingles that end in the next block of the open text: ``reading.hashes[first:stop]``.

    A text of fewer words, or characters, than a shingle has is one shingle; a text of none has none.
    """
    state, hashes = reading.state, reading.hashes
    size = rule.size
    before = state[_COUNT]
    for place in range(size):
        hashes[place] = hashes[before + place]
    count = _hash_words(data, reading, table, size) if rule.words else _hash_characters(data, reading, size)
    total = _roll(hashes, count, rule)
    seen = state[_SEEN] + count
    first = max(size - 1 - state[_SEEN], 0)
    state[_COUNT], state[_SEEN] = count, min(seen, size)
    if 0 < seen < size and not is_open(reading):
        hashes[0] = _mixed(total ^ rule.seed)
        return np.int64(0), np.int64(1)
    return np.int64(first), np.int64(max(first, count))
