"""Characters of repeated word n-grams, by the definitions of several rule sets; texts are sequences of word ids."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.hashing import stirred, table_bits
from dcurate.kernels.layout import ALLOCATING, INLINE, Ints, Places, Scalar, Words, frozen
from dcurate.kernels.signal import Array, Output, signal

_STEP, _SPREAD = np.uint64(0xF1357AEA2E62A9C5 | 2), np.uint64(0x9E3779B97F4A7C15)
#: Largest entry of a hash table before it is cleared.
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
        longest: whether the longest of equally frequent n-grams is the top one, else the first.
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
    """The n-grams of one size in a text: their number and size, their hashes, and where each word ends.

    ``table`` holds ``base`` plus the numbers of n-grams plus one; up to ``base`` a slot counts as empty, so that
    older entries need not be cleared.
    """

    number: int
    words: int
    hashes: Words
    ends: Ints
    table: Places
    base: Scalar


@njit(**INLINE)
def _leader(grams: _Grams, bits: int, at: int) -> Scalar:
    """The first n-gram equal to the one at ``at``, which is inserted if there is none."""
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
    repeated: Scalar = np.int64(0)
    total: Scalar = np.int64(0)
    done: Scalar = np.int64(0)
    for at in range(grams.number):
        total += _length(grams, at)
        if counts[leaders[at]] > 1:
            first: Scalar = max(at, done) if how.duplicates == COVERED else at
            done = at + grams.words
            repeated += grams.ends[done] - grams.ends[first]
    return repeated, total


@njit(**INLINE)
def _skipping(grams: _Grams) -> Scalar:
    """Characters of n-grams that occurred before, going on behind each."""
    bits = table_bits(grams.number)
    repeated = np.int64(0)
    at = np.int64(0)
    while at < grams.number:
        if _leader(grams, bits, at) == at:
            at += 1
        else:
            repeated += _length(grams, at)
            at += grams.words
    return repeated


class RepeatScratch(NamedTuple):
    """Scratch for one text.

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


#: The sizes of n-grams, how many of them for ``top``, and what counts.
_Sought = tuple[Ints, int, Counting]
#: Of each distinct word its characters, hash and power.
_Known = tuple[Places, Words, Words]


@njit(**ALLOCATING)
def new_repeat_scratch(most: int, tables: tuple[_Known, _Sought]) -> RepeatScratch:
    """Scratch for texts of at most ``most`` words."""
    words = most + 1
    return RepeatScratch(
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty(words, np.int64),
        np.empty(1 << int(table_bits(most)), np.int32),
        np.empty(1, np.int64),
    )


@njit(**INLINE)
def forget_repeats(scratch: RepeatScratch) -> None:
    """Make scratch ready for the first text."""
    scratch.table[:] = 0
    scratch.base[0] = 0


@njit(**INLINE)
def _read(numbers: Places, span: tuple[int, int], known: _Known, joined: bool, scratch: RepeatScratch) -> None:
    """Look up the words of a text; ``joined`` takes hashes that can be joined without a boundary."""
    characters, hashes, powers = known
    scratch.ends[0] = 0
    for at in range(span[1] - span[0]):
        number = numbers[span[0] + at]
        scratch.values[at] = hashes[number] if joined else stirred(np.uint64(number + 1) * _STEP)
        scratch.factors[at] = powers[number] if joined else _STEP
        scratch.ends[at + 1] = scratch.ends[at] + characters[number]
        scratch.joined[at] = scratch.values[at]


@njit(**INLINE)
def measure_repeats(
    numbers: Places,
    span: tuple[int, int],
    tables: tuple[_Known, _Sought],
    scratch: RepeatScratch,
    out: Ints,
) -> None:
    """Find what n-grams repeat in one text, as in `RepeatSignals` (axis 0), by size (axis 1).

    Args:
        numbers: word ids, and ``span`` the range of those of the text.
    """
    known, (sizes, tops, how) = tables
    words, base = span[1] - span[0], scratch.base[0]
    size: Scalar = np.int64(0)
    joined: Scalar = False
    for index in range(sizes.size):
        n = sizes[index]
        number = words - n + 1
        if number < 1:
            continue
        if size == 0 or n < size or joined != (how.joined and index >= tops):
            joined = how.joined and index >= tops
            _read(numbers, span, known, joined, scratch)
            size = np.int64(1)
        while size < n:
            for at in range(words - size):
                scratch.joined[at] = scratch.joined[at] * scratch.factors[at + size] + scratch.values[at + size]
            size += 1
        if base + number > _FULL:
            scratch.table[:] = 0
            base = np.int64(0)
        grams = _Grams(number, n, scratch.joined, scratch.ends, scratch.table, base)
        if index < tops:
            out[0, index] = _top(grams, how, scratch.counts)
        elif how.duplicates == SKIPPING:
            out[1, index] = _skipping(grams)
        else:
            out[1, index], out[2, index] = _repeated(grams, how, (scratch.leaders, scratch.counts))
        base += number
    scratch.base[0] = base


def _shape(tables: tuple[_Known, _Sought]) -> tuple[int, ...]:
    return 3, len(tables[1][0])


def _by_text(out: Array, tables: tuple[_Known, _Sought]) -> RepeatSignals:
    return RepeatSignals(*(np.ascontiguousarray(out[:, kind]) for kind in range(3)))


@signal(measure_repeats, Output(_shape, _by_text), scratch=Scratch(new_repeat_scratch, forget_repeats), items=np.int32)
def repeat_signals(
    known: _Known, sizes: tuple[tuple[int, ...], tuple[int, ...]], how: Counting
) -> tuple[_Known, _Sought]:
    """Find what n-grams repeat; texts are sequences of word ids.

    Args:
        known: characters, hash and power of each distinct word (`joinable_hashes`).
        sizes: sizes of n-grams for ``top``, and for ``repeated`` and ``total``; ascending sizes take the least time.
        how: what counts.

    Examples:
        >>> texts = np.array([0, 5]), np.array([0, 1, 2, 0, 1], np.int32), np.array([0])
        >>> known = np.array([2, 2, 4], np.int32), np.arange(3, dtype=np.uint64), np.ones(3, np.uint64)
        >>> how = Counting(joined=False, duplicates=EVERY, longest=False, spaced=True, singles=False)
        >>> signals = repeat_signals(*texts, known, ((1,), (2,)), how)
        >>> signals.top.tolist(), signals.repeated.tolist(), signals.total.tolist()
        ([[4, 0]], [[0, 8]], [[0, 20]])
    """
    tops, duplicates = sizes
    sought = frozen(np.array((*tops, *duplicates), np.int64), np.int64), len(tops), how
    return (frozen(known[0], np.int32), frozen(known[1], np.uint64), frozen(known[2], np.uint64)), sought
