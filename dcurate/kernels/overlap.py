"""Which n-grams of words two sets of texts share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import bits_of_table, stirred
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, Word, Words, frozen, longest
from dcurate.kernels.normal_words import (
    BLANK,
    DROPPED,
    SPACE,
    Normal,
    NormalScratch,
    letters,
    new_scratch,
    next_letter,
    read_words,
)

_BASE = np.uint64(0xF1357AEA2E62A9C5)
_ONE, _SIX, _SIXTY_THREE = np.uint64(1), np.uint64(6), np.uint64(63)
#: Bits of the sieve for each slot of the table, as a power of two.
_FILTER_BITS = 2
#: Minimum words of a span that is looked up, if n-grams have as many, and maximum words between two such spans.
_ANCHOR, _LONGEST_STRIDE = 5, 8


class SoughtNgrams(NamedTuple):
    """A set of n-grams to look for: n-gram ``i`` is ``points[starts[i]:stops[i]]``, its words joined by blanks.

    ``slots`` is a hash table of numbers of n-grams plus one, 0 where empty, ``hashes`` has the hash of each n-gram,
    and ``sizes`` lists how many words there are in n-grams. ``sieve`` has a bit for the hash of every span of
    ``anchor`` words in them: around a span that is not in it, at every ``stride``-th word of a text, there is no
    n-gram.
    """

    sizes: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    points: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    sieve: npt.NDArray[np.uint64]
    anchor: int
    stride: int


class Matches(NamedTuple):
    """Matches of n-grams: text ``i`` has those from ``bounds[i]`` to ``bounds[i + 1]``, by where they begin.

    ``starts`` and ``stops`` are places in the data of the column, ``grams`` numbers of n-grams.
    """

    bounds: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    grams: npt.NDArray[np.int64]


@njit(**INLINE)
def _hash_words(hashes: Words, first: int, size: int) -> Word:
    """The hash of an n-gram, of those of its words."""
    value = np.uint64(size)
    for word in range(first, first + size):
        value = value * _BASE + hashes[word]
    return stirred(value)


@njit(**OPTIONS)
def _hash_grams(hashes: Words, firsts: Ints, sizes: Ints, out: Words) -> None:
    for number in range(firsts.size):
        out[number] = _hash_words(hashes, firsts[number], sizes[number])


def gram_hashes(words: Normal, firsts: Ints, sizes: Ints) -> Words:
    """The hashes of the n-grams of those first words and sizes."""
    out = np.empty(len(firsts), np.uint64)
    _hash_grams(frozen(words.hashes, np.uint64), frozen(firsts, np.int64), frozen(sizes, np.int64), out)
    return out


@njit(**OPTIONS)
def _fill(words: Words, firsts: Ints, grams: SoughtNgrams) -> None:
    slots, sieve, sizes = grams.slots, grams.sieve, grams.stops
    bits = _bits(slots.size)
    for number in range(grams.hashes.size):
        slot = np.int64(grams.hashes[number] >> np.uint64(64 - bits))
        while slots[slot]:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = number + 1
        for first in range(firsts[number], firsts[number] + sizes[number] - grams.anchor + 1):
            place = _hash_words(words, first, grams.anchor) >> np.uint64(64 - bits - _FILTER_BITS)
            sieve[np.int64(place >> _SIX)] |= _ONE << (place & _SIXTY_THREE)


@njit(**INLINE)
def _bits(size: int) -> Scalar:
    """The width in bits of numbers below a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


def gram_table(words: Normal, hashes: Words, firsts: Ints, sizes: Ints) -> SoughtNgrams:
    """A set of different n-grams, of those hashes, first words and sizes, to look for.

    Hashes need not be different: n-grams are compared by their words.
    """
    bits = bits_of_table(max(len(hashes), 16))
    slots = np.zeros(1 << bits, np.int32)
    sieve = np.zeros(1 << (bits + _FILTER_BITS - 6), np.uint64)
    smallest = int(sizes.min()) if len(sizes) else 1
    anchor = min(smallest, max(_ANCHOR, smallest - _LONGEST_STRIDE + 1))
    starts = words.starts[firsts] if len(firsts) else np.zeros(0, np.int64)
    stops = words.stops[firsts + sizes - 1] if len(firsts) else np.zeros(0, np.int64)
    empty = SoughtNgrams(
        np.unique(sizes), hashes, starts, sizes, words.points, slots, sieve, anchor, smallest - anchor + 1
    )
    _fill(frozen(words.hashes, np.uint64), frozen(firsts, np.int64), empty)
    return empty._replace(stops=stops)


@njit(**OPTIONS)
def _holds(
    data: Bytes,
    span: tuple[int, int],
    table: npt.NDArray[np.int32],
    points: npt.NDArray[np.int32],
    gram: tuple[int, int],
) -> Scalar:
    """Whether a stretch of a text is that n-gram, word for word."""
    at, stop = span
    place, last = gram
    apart = False
    while at < stop:
        letter, at = next_letter(data, at, stop, table)
        if letter == DROPPED:
            continue
        if letter == SPACE:
            apart = True
            continue
        if (apart or letter < 0) and place > gram[0] and points[place - 1] != BLANK:
            if place >= last or points[place] != BLANK:
                return False
            place += 1
        if place >= last or points[place] != abs(letter):
            return False
        place += 1
        apart = letter < 0
    return place == last


@njit(**INLINE)
def _sieved(grams: SoughtNgrams, bits: int, hashes: Words, first: int) -> Scalar:
    """Whether the stretch from that word on may be in an n-gram."""
    place = _hash_words(hashes, first, grams.anchor) >> np.uint64(64 - bits - _FILTER_BITS)
    return (grams.sieve[np.int64(place >> _SIX)] >> (place & _SIXTY_THREE)) & _ONE != 0


@njit(**OPTIONS)
def _number(
    grams: SoughtNgrams, bits: int, value: Word, data: Bytes, place: tuple[int, int, npt.NDArray[np.int32]]
) -> Scalar:
    """The number of the n-gram with this hash at this position; -1 if there is none."""
    slot = np.int64(value >> np.uint64(64 - bits))
    while grams.slots[slot]:
        number = np.int64(grams.slots[slot]) - 1
        gram = grams.starts[number], grams.stops[number]
        if grams.hashes[number] == value and _holds(data, (place[0], place[1]), place[2], grams.points, gram):
            return number
        slot = (slot + 1) & (grams.slots.size - 1)
    return np.int64(-1)


@njit(**OPTIONS)
def _around(
    data: Bytes,
    word: tuple[int, int],
    grams: SoughtNgrams,
    scratch: NormalScratch,
    matches: tuple[Ints, int, npt.NDArray[np.int32]],
) -> Scalar:
    """Write the n-grams that begin within a stride before that word, or with it; returns how many are found by then."""
    (at, words), (out, count, table) = word, matches
    bits = _bits(grams.slots.size)
    for first in range(max(at - grams.stride + 1, 0), at + 1):
        if not _sieved(grams, bits, scratch.hashes, first):
            continue
        for index in range(grams.sizes.size):
            size = grams.sizes[index]
            if first + size > words:
                break
            value = _hash_words(scratch.hashes, first, size)
            begin, end = scratch.bounds[2 * first], scratch.bounds[2 * (first + size) - 1]
            number = _number(grams, bits, value, data, (begin, end, table))
            if number < 0:
                continue
            if count < out.shape[1]:
                out[0, count], out[1, count], out[2, count] = begin, end, number
            count += 1
    return count


@njit(**OPTIONS)
def _overlaps(
    layout: tuple[Offsets, Bytes], rows: Rows, grams: SoughtNgrams, table: npt.NDArray[np.int32], out: tuple[Ints, Ints]
) -> Scalar:
    offsets, data = layout
    bounds, places = out
    scratch = new_scratch(longest(offsets, rows))
    bits = _bits(grams.slots.size)
    count = 0
    for place in range(rows.size):
        words = read_words(data, (offsets[rows[place]], offsets[rows[place] + 1]), table, scratch)
        for at in range(0, words - grams.anchor + 1, grams.stride):
            if _sieved(grams, bits, scratch.hashes, at):
                count = _around(data, (at, words), grams, scratch, (places, count, table))
        bounds[place + 1] = count
    return count


def overlaps(offsets: Offsets, data: Bytes, rows: Rows, grams: SoughtNgrams) -> Matches:
    """Find the n-grams of a set in the texts numbered ``rows``; they are compared word for word.

    Examples:
        >>> from dcurate.kernels.normal_words import normalised
        >>> def column(text):
        ...     return np.array([0, len(text)]), np.frombuffer(text, np.uint8)
        >>> row = np.array([0])
        >>> words = normalised(*column(b"to be or not"), row)
        >>> firsts, sizes = np.array([0, 1]), np.array([3, 3])
        >>> grams = gram_table(words, gram_hashes(words, firsts, sizes), firsts, sizes)
        >>> found = overlaps(*column(b"So: To be, OR... what?"), row, grams)
        >>> found.grams.tolist(), found.starts.tolist(), found.stops.tolist()
        ([0], [4], [13])
    """
    layout, numbers = (frozen(offsets, np.int64), frozen(data, np.uint8)), frozen(rows, np.int64)
    bounds = np.zeros(rows.size + 1, np.int64)
    capacity = 1024 + rows.size
    while True:
        places = np.empty((3, capacity), np.int64)
        count = _overlaps(layout, numbers, grams, letters(), (bounds, places))
        if count <= capacity:
            return Matches(bounds, *places[:, :count])
        capacity = count
