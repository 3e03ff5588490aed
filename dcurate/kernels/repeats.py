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
        joined: n-grams are equal whose words joined are equal, even where the words are not.
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


@njit(**OPTIONS)
def _repeats(
    found: Numbered,
    known: tuple[Places, Words, Words],
    rows: Rows,
    sought: tuple[Ints, int, Counting],
    out: Ints,
) -> None:
    characters, hashes, powers = known
    sizes, tops, how = sought
    room = np.int64(0)
    for row in rows:
        room = max(room, found.counts[row])
    values, factors, joined = np.empty(room, np.uint64), np.empty(room, np.uint64), np.empty(room, np.uint64)
    scratch = np.empty(room, np.int32), np.empty(room, np.int32)
    ends, table = np.empty(room + 1, np.int64), np.zeros(1 << table_bits(room), np.int32)
    base = np.int64(0)
    for place in range(rows.size):
        begin, words = found.begins[rows[place]], found.counts[rows[place]]
        ends[0] = 0
        for at in range(words):
            number = found.numbers[begin + at]
            values[at] = hashes[number] if how.joined else stirred(np.uint64(number + 1) * _STEP)
            factors[at] = powers[number] if how.joined else _STEP
            ends[at + 1] = ends[at] + characters[number]
            joined[at] = values[at]
        size = 1
        for index in range(sizes.size):
            n = sizes[index]
            number = words - n + 1
            if number < 1:
                break
            while size < n:
                for at in range(words - size):
                    joined[at] = joined[at] * factors[at + size] + values[at + size]
                size += 1
            if base + number > _FULL:
                table[:], base = 0, np.int64(0)
            grams = _Grams(number, n, joined, ends, table, base)
            if index < tops:
                out[0, index, place] = _top(grams, how, scratch[0])
            elif how.duplicates == SKIPPING:
                out[1, index, place] = _skipping(grams)
            else:
                out[1, index, place], out[2, index, place] = _repeated(grams, how, scratch)
            base += number


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
        sizes: of n-grams for ``top``, and greater ones for ``repeated`` and ``total``, ascending.
        how: what counts.

    Examples:
        >>> found = Numbered(np.array([0, 1, 2, 0, 1], np.int32), np.array([0]), np.array([5]))
        >>> known = np.array([2, 2, 4], np.int32), np.arange(3, dtype=np.uint64), np.ones(3, np.uint64)
        >>> how = Counting(joined=False, duplicates=EVERY, longest=False, spaced=True, singles=False)
        >>> signals = repeat_signals(found, known, np.array([0]), ((1,), (2,)), how)
        >>> signals.top.tolist(), signals.repeated.tolist(), signals.total.tolist()
        ([[4, 0]], [[0, 8]], [[0, 20]])
    """
    tops, duplicates = sizes
    every = np.array((*tops, *duplicates), np.int64)
    out = np.zeros((3, len(every), len(rows)), np.int64)
    parts = (frozen(known[0], np.int32), frozen(known[1], np.uint64), frozen(known[2], np.uint64))
    read = Numbered(frozen(found.numbers, np.int32), frozen(found.begins, np.int64), frozen(found.counts, np.int64))
    _repeats(read, parts, frozen(rows, np.int64), (frozen(every, np.int64), len(tops), how), out)
    return RepeatSignals(*(values.T for values in out))
