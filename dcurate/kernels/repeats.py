"""How much of a text its repeated n-grams of numbered words take up, as each of those who wrote rules counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import find_leader, stirred, table_bits
from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import INLINE, OPTIONS, Ints, Places, Rows, Scalar, Words, frozen

_STEP = np.uint64(0xF1357AEA2E62A9C5 | 2)

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


@njit(**INLINE)
def _top(leaders: Places, ends: Ints, gram: tuple[int, int], how: Counting, counts: Places) -> Scalar:
    """Characters of the most frequent of so many n-grams of so many words."""
    number, n = gram
    counts[:number] = 0
    most: Scalar = np.int64(1)
    for at in range(number):
        counts[leaders[at]] += 1
        most = max(most, counts[leaders[at]])
    if most == 1 and not how.singles:
        return 0
    length = np.int64(-1)
    for at in range(number):
        if counts[at] == most:
            size = ends[at + n] - ends[at]
            if length < 0 or (how.longest and size > length):
                length = size
            if not how.longest:
                break
    return most * (length + (n - 1 if how.spaced else 0))


@njit(**INLINE)
def _repeated(leaders: Places, ends: Ints, gram: tuple[int, int], how: Counting, counts: Places) -> Scalar:
    """Characters of n-grams that occur twice, all copies or each word once."""
    number, n = gram
    counts[:number] = 0
    for at in range(number):
        counts[leaders[at]] += 1
    found: Scalar = np.int64(0)
    done: Scalar = np.int64(0)
    for at in range(number):
        if counts[leaders[at]] > 1:
            first: Scalar = max(at, done) if how.duplicates == COVERED else at
            found += ends[at + n] - ends[first]
            done = at + n
    return found


@njit(**INLINE)
def _skipping(table: Places, grams: Words, ends: Ints, gram: tuple[int, int]) -> Scalar:
    """Characters of n-grams that occurred before, going on behind each."""
    number, n = gram
    bits = table_bits(number)
    found = np.int64(0)
    at = np.int64(0)
    while at < number:
        if find_leader(table, bits, grams, at) == at:
            at += 1
        else:
            found += ends[at + n] - ends[at]
            at += n
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
    values, grams = np.empty(room, np.uint64), np.empty(room, np.uint64)
    leaders, counts = np.empty(room, np.int32), np.empty(room, np.int32)
    ends, table = np.empty(room + 1, np.int64), np.empty(1 << table_bits(room), np.int32)
    for place in range(rows.size):
        begin, words = found.begins[rows[place]], found.counts[rows[place]]
        ends[0] = 0
        for at in range(words):
            number = found.numbers[begin + at]
            values[at] = hashes[number] if how.joined else stirred(np.uint64(number + 1) * _STEP)
            ends[at + 1] = ends[at] + characters[number]
            grams[at] = values[at]
        size = 1
        for index in range(sizes.size):
            n = sizes[index]
            number = words - n + 1
            if number < 1:
                break
            while size < n:
                for at in range(words - size):
                    power = powers[found.numbers[begin + at + size]] if how.joined else _STEP
                    grams[at] = grams[at] * power + values[at + size]
                size += 1
            bits = table_bits(number)
            table[: 1 << bits] = 0
            if index >= tops and how.duplicates == SKIPPING:
                out[1, index, place] = _skipping(table, grams, ends, (number, n))
                continue
            for at in range(number):
                leaders[at] = find_leader(table, bits, grams, at)
            if index < tops:
                out[0, index, place] = _top(leaders, ends, (number, n), how, counts)
            else:
                out[1, index, place] = _repeated(leaders, ends, (number, n), how, counts)
                for at in range(number):
                    out[2, index, place] += ends[at + n] - ends[at]


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
