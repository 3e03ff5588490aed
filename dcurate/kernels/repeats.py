"""How much of a text its repeated n-grams of numbered words take up, as each of those who wrote rules counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import stirred, table_bits
from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Places, Rows, Scalar, Words, frozen

_STEP, _SPREAD = np.uint64(0xF1357AEA2E62A9C5 | 2), np.uint64(0x9E3779B97F4A7C15)
#: How far what tables hold may go before they are cleared.
_FULL = np.iinfo(np.int32).max

#: How characters of repeated n-grams are counted: `Counting`.
SKIPPING, EVERY, COVERED = range(3)


class Counting(NamedTuple):
    """What counts as repeated, and by how much.

    Args:
        joined: n-grams that repeat are equal where their words joined are, even if the words are not. The top n-gram is
            always counted word by word.
        duplicates: `SKIPPING` goes on behind an n-gram that occurred before, whose characters count; `EVERY` counts
            all copies of what occurs twice, in full; `COVERED` counts words that are in any of these, once each.
        longest: of n-grams equally frequent the longest is the top one, else the first.
        spaced: the top n-gram's length includes a space between its words.
        singles: an n-gram that occurs once can be the top one.
    """

    joined: bool
    duplicates: int
    longest: bool
    spaced: bool
    singles: bool


class RepeatSignals(NamedTuple):
    """For each text (axis 0) and n-gram size (axis 1) characters, all 0 for texts of fewer words.

    ``top`` of the most frequent n-gram, all its occurrences; ``repeated`` of those that repeat; ``total`` of all
    n-grams, each in full.
    """

    top: npt.NDArray[np.int64]
    repeated: npt.NDArray[np.int64]
    total: npt.NDArray[np.int64]


class _Grams(NamedTuple):
    """The n-grams of one size in a text: so many hashes, of so many words each, and where each word ends.

    ``table`` holds ``base`` plus the numbers of n-grams plus one; up to ``base`` a slot counts as empty, so that what
    stands there from before need not be cleared away.
    """

    number: int
    words: int
    hashes: Words
    ends: Ints
    table: Places
    base: Scalar


@njit(**INLINE)
def _leader(grams: _Grams, bits: int, at: int) -> Scalar:
    """The first n-gram that is equal to the one at ``at``, which is put in the table if there is none before it."""
    wanted = grams.hashes[at]
    mask = (1 << bits) - 1
    slot = np.int64((wanted * _SPREAD) >> np.uint64(64 - bits))
    while True:
        entry = np.int64(grams.table[slot]) - grams.base
        if entry <= 0:
            grams.table[slot] = grams.base + at + 1
            return at
        if grams.hashes[entry - 1] == wanted:
            return entry - 1
        slot = (slot + 1) & mask


@njit(**INLINE)
def _length(grams: _Grams, at: int) -> Scalar:
    """Characters of an n-gram."""
    return grams.ends[at + grams.words] - grams.ends[at]


@njit(**INLINE)
def _top(grams: _Grams, how: Counting, counts: Places) -> Scalar:
    """Characters of the most frequent of the n-grams."""
    bits = table_bits(grams.number)
    most: Scalar = np.int64(0)
    first: Scalar = np.int64(0)
    for at in range(grams.number):
        leader = _leader(grams, bits, at)
        counts[at] = 0
        counts[leader] += 1
        count = np.int64(counts[leader])
        if count > most or (count == most and leader < first):
            most, first = count, leader
    if most == 1 and not how.singles:
        return np.int64(0)
    length = _length(grams, first)
    if how.longest:
        for at in range(grams.number):
            if counts[at] == most:
                length = max(length, _length(grams, at))
    return most * (length + (grams.words - 1 if how.spaced else 0))


@njit(**INLINE)
def _repeated(grams: _Grams, how: Counting, scratch: tuple[Places, Places]) -> tuple[Scalar, Scalar]:
    """Characters of n-grams that occur twice, all copies or each word once; and of all n-grams."""
    leaders, counts = scratch
    bits = table_bits(grams.number)
    counts[: grams.number] = 0
    for at in range(grams.number):
        leaders[at] = _leader(grams, bits, at)
        counts[leaders[at]] += 1
    found: Scalar = np.int64(0)
    total: Scalar = np.int64(0)
    done: Scalar = np.int64(0)
    for at in range(grams.number):
        total += _length(grams, at)
        if counts[leaders[at]] > 1:
            first: Scalar = max(at, done) if how.duplicates == COVERED else at
            done = at + grams.words
            found += grams.ends[done] - grams.ends[first]
    return found, total


@njit(**INLINE)
def _skipping(grams: _Grams) -> Scalar:
    """Characters of n-grams that occurred before, going on behind each."""
    bits = table_bits(grams.number)
    found = np.int64(0)
    at = np.int64(0)
    while at < grams.number:
        if _leader(grams, bits, at) == at:
            at += 1
        else:
            found += _length(grams, at)
            at += grams.words
    return found


class RepeatRoom(NamedTuple):
    """Arrays for one text at a time.

    Of each word its hash, its power and the hash of the n-gram that begins with it; of each n-gram the first that is
    equal, and how many are; where each word ends; a hash table, and what it counts from (`_Grams`), one number.
    """

    values: Words
    factors: Words
    joined: Words
    leaders: Places
    counts: Places
    ends: Ints
    table: Places
    base: Ints


@njit(**INLINE)
def new_repeat_room(most: int) -> RepeatRoom:
    """Room for texts of at most so many words."""
    room = most + 1
    return RepeatRoom(
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.zeros(1 << int(table_bits(most)), np.int32),
        np.zeros(1, np.int64),
    )


@njit(**INLINE)
def _read(
    numbers: Places, span: tuple[int, int], known: tuple[Places, Words, Words], joined: bool, room: RepeatRoom
) -> None:
    """Read what is known of the words of a text; ``joined`` takes hashes that can be joined without a boundary."""
    characters, hashes, powers = known
    room.ends[0] = 0
    for at in range(span[1] - span[0]):
        number = numbers[span[0] + at]
        room.values[at] = hashes[number] if joined else stirred(np.uint64(number + 1) * _STEP)
        room.factors[at] = powers[number] if joined else _STEP
        room.ends[at + 1] = room.ends[at] + characters[number]
        room.joined[at] = room.values[at]


@njit(**INLINE)
def measure_repeats(
    numbers: Places,
    span: tuple[int, int],
    asked: tuple[tuple[Places, Words, Words], tuple[Ints, int, Counting]],
    room: RepeatRoom,
    out: Ints,
) -> None:
    """Find what n-grams repeat in one text, as in `RepeatSignals` (axis 0), by size (axis 1); ``out`` is 0 before.

    Args:
        numbers: of words, and ``span`` where those of the text are.
        asked: what is known of each word, and what is sought.
    """
    sizes, tops, how = asked[1]
    words, base = span[1] - span[0], room.base[0]
    size: Scalar = np.int64(0)
    joined: Scalar = False
    for index in range(sizes.size):
        n = sizes[index]
        number = words - n + 1
        if number < 1:
            continue
        if size == 0 or n < size or joined != (how.joined and index >= tops):
            joined = how.joined and index >= tops
            _read(numbers, span, asked[0], joined, room)
            size = np.int64(1)
        while size < n:
            for at in range(words - size):
                room.joined[at] = room.joined[at] * room.factors[at + size] + room.values[at + size]
            size += 1
        if base + number > _FULL:
            room.table[:] = 0
            base = np.int64(0)
        grams = _Grams(number, n, room.joined, room.ends, room.table, base)
        if index < tops:
            out[0, index] = _top(grams, how, room.counts)
        elif how.duplicates == SKIPPING:
            out[1, index] = _skipping(grams)
        else:
            out[1, index], out[2, index] = _repeated(grams, how, (room.leaders, room.counts))
        base += number
    room.base[0] = base


@njit(**OPTIONS)
def _repeats(
    found: Numbered,
    rows: Rows,
    asked: tuple[tuple[Places, Words, Words], tuple[Ints, int, Counting]],
    out: Ints,
) -> None:
    most = np.int64(0)
    for row in rows:
        most = max(most, found.counts[row])
    room = new_repeat_room(most)
    for place in range(rows.size):
        begin = found.begins[rows[place]]
        span = begin, begin + found.counts[rows[place]]
        measure_repeats(found.numbers, span, asked, room, out[:, :, place])


def repeat_signals(
    found: Numbered,
    known: tuple[Places, Words, Words],
    rows: Rows,
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    how: Counting,
) -> RepeatSignals:
    """Find what n-grams repeat in the texts numbered ``rows``.

    Args:
        found: the words by number, ``begins`` and ``counts`` by text.
        known: of each different word its characters, hash and power (`joinable_hashes`).
        rows: numbers of texts.
        sizes: of n-grams for ``top``, and for ``repeated`` and ``total``; ascending sizes take the least time.
        how: what counts.

    Examples:
        >>> found = Numbered(np.array([0, 1, 2, 0, 1], np.int32), np.array([0]), np.array([5]))
        >>> known = np.array([2, 2, 4], np.int32), np.arange(3, dtype=np.uint64), np.ones(3, np.uint64)
        >>> how = Counting(joined=False, duplicates=EVERY, longest=False, spaced=True, singles=False)
        >>> signals = repeat_signals(found, known, np.array([0]), ((1,), (2,)), how)
        >>> signals.top.tolist(), signals.repeated.tolist(), signals.total.tolist()
        ([[4, 0]], [[0, 8]], [[0, 20]])
    """
    sought = sought_grams(sizes, how)
    out = np.zeros((3, len(sought[0]), len(rows)), np.int64)
    parts = (frozen(known[0], np.int32), frozen(known[1], np.uint64), frozen(known[2], np.uint64))
    read = Numbered(frozen(found.numbers, np.int32), frozen(found.begins, np.int64), frozen(found.counts, np.int64))
    _repeats(read, frozen(rows, np.int64), (parts, sought), out)
    return RepeatSignals(*(values.T for values in out))


def sought_grams(
    sizes: tuple[tuple[int, ...], tuple[int, ...]], how: Counting
) -> tuple[npt.NDArray[np.int64], int, Counting]:
    """What `repeat_signals` seeks, as the kernel takes it: all sizes, how many of them for ``top``, what counts."""
    tops, duplicates = sizes
    return frozen(np.array((*tops, *duplicates), np.int64), np.int64), len(tops), how
