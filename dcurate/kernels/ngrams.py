"""How much of a text its n-grams of words repeat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import find_leader, hash_bytes, table_bits
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Rows, frozen, longest
from dcurate.kernels.unicode import count_characters
from dcurate.kernels.words import find_words

_STEP = np.uint64(0xF1357AEA2E62A9C5 | 2)
_BLANK = 32


class NgramSignals(NamedTuple):
    """What repeated n-grams each text has, by n.

    ``removed[n]`` is how many characters go when every occurrence of the most frequent n-gram, its words joined by
    one space, is removed from the text; of n-grams equally frequent it is the one that occurs first.
    ``repeated[n]`` counts the characters of n-grams that occurred before, and the spaces in them, none twice.
    Both are -1 for a text of fewer than n words.
    """

    removed: dict[int, npt.NDArray[np.int64]]
    repeated: dict[int, npt.NDArray[np.int64]]


@njit(**INLINE)
def _hash_words(data, bounds, words, hashes):
    for number in range(words):
        hashes[number] = hash_bytes(data, bounds[2 * number], bounds[2 * number + 1])


@njit(**INLINE)
def _same(data, left, right, length):
    for step in range(length):
        if data[left + step] != data[right + step]:
            return False
    return True


@njit(**INLINE)
def _word_occurrences(data, at, stop, start, length):
    """How often a word occurs in a text, inside words too, no two occurrences overlapping."""
    count = 0
    while at + length <= stop:
        if data[at] == data[start] and _same(data, at, start, length):
            count += 1
            at += length
        else:
            at += 1
    return count


@njit(**INLINE)
def _occurrences(data, bounds, hashes, words, best, n):
    """How often the n-gram at word ``best``, joined by single spaces, occurs in the text, no two overlapping.

    An occurrence has its spaces between words, so it ends one word, begins another, and holds whole words between.
    """
    first, final = bounds[2 * best], bounds[2 * (best + n - 1)]
    first_length, final_length = bounds[2 * best + 1] - first, bounds[2 * (best + n) - 1] - final
    last_byte, next_byte = data[bounds[2 * best + 1] - 1], data[bounds[2 * best + 2]]
    count = 0
    free = np.int64(0)
    for at in range(words - n + 1):
        gap = bounds[2 * at + 1]
        if (data[gap - 1] != last_byte) | (data[bounds[2 * at + 2]] != next_byte):
            continue
        begin, end = gap - first_length, bounds[2 * (at + n - 1)]
        if begin < bounds[2 * at] or begin < free or bounds[2 * (at + n) - 1] - end < final_length:
            continue
        matches = _same(data, begin, first, first_length) and _same(data, end, final, final_length)
        for step in range(n - 1):
            gap = bounds[2 * (at + step) + 1]
            matches &= bounds[2 * (at + step + 1)] - gap == 1 and data[gap] == _BLANK
            matches &= step == 0 or hashes[at + step] == hashes[best + step]
        if matches:
            count += 1
            free = end + final_length
    return count


@njit(**INLINE)
def _removed(data, start, stop, bounds, hashes, words, best, n):
    """Characters that go when the n-gram at word ``best``, joined by single spaces, is removed from the text."""
    length = np.int64(n - 1)
    for number in range(best, best + n):
        length += count_characters(data, bounds[2 * number], bounds[2 * number + 1])
    if n == 1:
        return length * _word_occurrences(data, start, stop, bounds[2 * best], bounds[2 * best + 1] - bounds[2 * best])
    return length * _occurrences(data, bounds, hashes, words, best, n)


@njit(**INLINE)
def _choose(chosen, number, words, done, n, hashes, grams, leaders, counts):
    """Keep the words at which an n-gram may occur twice, and make the hashes of these; returns how many there are."""
    kept = 0
    for candidate in range(number):
        at = np.int64(chosen[candidate])
        if at + n > words or (done > 0 and counts[leaders[at]] < 2):
            continue
        gram = grams[at]
        for step in range(done, n):
            gram = gram * _STEP + hashes[at + step]
        grams[at] = gram
        chosen[kept] = at
        kept += 1
    return kept


@njit(**INLINE)
def _count(data, bounds, chosen, number, n, grams, leaders, counts, table):
    """Count n-grams at the chosen words; returns the most frequent one's word and the characters of repeated ones."""
    bits = table_bits(number)
    table[: 1 << bits] = 0
    best, best_count = np.int64(0), 1
    repeated, covered, before = np.int64(0), np.int64(0), np.int64(0)
    for place in range(number):
        at = np.int64(chosen[place])
        leader = find_leader(table, bits, grams, at)
        leaders[at] = leader
        if leader == at:
            counts[at] = 1
            continue
        counts[leader] += 1
        if counts[leader] > best_count or (counts[leader] == best_count and leader < best):
            best, best_count = leader, counts[leader]
        covered = max(covered - (at - before), 0)
        repeated += min(n - covered, n - 1)
        for word in range(at + covered, at + n):
            repeated += count_characters(data, bounds[2 * word], bounds[2 * word + 1])
        covered, before = np.int64(n), at
    return best, repeated


@njit(**OPTIONS)
def _ngrams(offsets, data, rows, sizes, tops, out):
    most = longest(offsets, rows)
    room = most // 2 + 1
    bounds = np.empty(most + 3, np.int64)
    hashes, grams = np.empty(room, np.uint64), np.empty(room, np.uint64)
    chosen, leaders, counts = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    table = np.empty(1 << table_bits(room), np.int32)
    for place in range(rows.size):
        start, stop = offsets[rows[place]], offsets[rows[place] + 1]
        words = find_words(data, start, stop, bounds)
        _hash_words(data, bounds, words, hashes)
        for at in range(words):
            chosen[at] = at
            grams[at] = 0
        number, done = words, 0
        for index in range(sizes.size):
            n = sizes[index]
            if words < n:
                out[0, index, place] = out[1, index, place] = -1
                continue
            number = _choose(chosen, number, words, done, n, hashes, grams, leaders, counts)
            done = n
            best, repeated = _count(data, bounds, chosen, number, n, grams, leaders, counts, table)
            out[1, index, place] = repeated
            if tops[index]:
                out[0, index, place] = _removed(data, start, stop, bounds, hashes, words, best, n)


def ngram_signals(
    offsets: Offsets, data: Bytes, rows: Rows, removed: Iterable[int] = (), repeated: Iterable[int] = ()
) -> NgramSignals:
    """Find repeated n-grams in the texts numbered ``rows``, for the sizes given in ``removed`` and ``repeated``.

    Several sizes cost little more than the smallest of them: an n-gram can only occur twice where its beginning does.

    >>> text = b"so it goes and so it goes"
    >>> signals = ngram_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), [2], [3])
    >>> int(signals.removed[2][0]), int(signals.repeated[3][0])
    (10, 10)
    """
    tops, repeats = set(removed), set(repeated)
    sizes = sorted(tops | repeats)
    out = np.empty((2, len(sizes), rows.size), np.int64)
    wanted = np.array([size in tops for size in sizes], np.bool_)
    _ngrams(
        frozen(offsets, np.int64),
        frozen(data, np.uint8),
        frozen(rows, np.int64),
        frozen(np.array(sizes, np.int64), np.int64),
        frozen(wanted, np.bool_),
        out,
    )
    return NgramSignals(
        {size: out[0, place] for place, size in enumerate(sizes) if size in tops},
        {size: out[1, place] for place, size in enumerate(sizes) if size in repeats},
    )
