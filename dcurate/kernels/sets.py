"""Shingle sets by their smallest hashes (bottom-k sketches), and their similarity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import ALLOCATING, INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, frozen
from dcurate.kernels.shingles import Reading, Rule, is_open, new_reading, next_shingles, open_text, word_letters

_LOW = np.uint64(0xFFFFFFFF)
_LAST = np.uint32(0xFFFFFFFF)
#: Number of values from which radix sort is faster than comparison sort.
_MANY = 64
#: More values than a text can have.
ALL = 2**62

Values = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]


class Sets(NamedTuple):
    """Sets of 32-bit hashes of shingles: set ``i`` is ``values[bounds[i]:bounds[i + 1]]``, ascending, each once.

    ``whole[i]`` is whether it has all hashes of its text; otherwise it has the smallest ones.
    """

    bounds: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint32]
    whole: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.whole)


class SetPlan(NamedTuple):
    """How the sets of texts are made: by which rule, what each character is to it, and the most values of a set."""

    rule: Rule
    table: npt.NDArray[np.int32]
    most: int


class SetScratch(NamedTuple):
    """Scratch for the set of a text: the text as it is read, values, and arrays to sort them."""

    reading: Reading
    held: Values
    spare: Values
    counts: Ints


@njit(**ALLOCATING)
def new_set_scratch(size: int, limit: int) -> SetScratch:
    """Scratch for texts in shingles of ``size``; the least ``limit`` values of a text are kept."""
    reading = new_reading(size)
    most = limit + reading.hashes.size
    return SetScratch(reading, np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(4 * 256, np.int64))


@njit(**OPTIONS)
def _insert(values: Values) -> None:
    """Sort a few values."""
    for place in range(1, values.size):
        value = values[place]
        at = place
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@njit(**OPTIONS)
def _sort(values: Values, spare: Values, counts: Ints) -> None:
    """Sort values, by radix sort if they are many; ``spare`` is an array of the same size."""
    if values.size < _MANY:
        _insert(values)
        return
    counts[:] = 0
    for value in values:
        for step in range(4):
            counts[256 * step + np.int64((value >> np.uint32(8 * step)) & np.uint32(0xFF))] += 1
    for step in range(4):
        shift = np.uint32(8 * step)
        places = counts[256 * step : 256 * (step + 1)]
        before = 0
        for digit in range(256):
            places[digit], before = before, before + places[digit]
        source, target = (values, spare) if step % 2 == 0 else (spare, values)
        for value in source[: values.size]:
            byte = (value >> shift) & np.uint32(0xFF)
            target[places[byte]] = value
            places[byte] += 1


@njit(**OPTIONS)
def _distinct(values: Values, spare: Values, counts: Ints) -> Scalar:
    """Sort the distinct values to the front; returns their number."""
    _sort(values, spare, counts)
    count = 0
    for value in values:
        values[count] = value
        count += count == 0 or values[count - 1] != value
    return count


@njit(**OPTIONS)
def _least(scratch: SetScratch, count: int, most: int) -> tuple[Scalar, Scalar]:
    """Sort the least distinct values to the front; returns their number, and whether any was dropped."""
    count = _distinct(scratch.held[:count], scratch.spare, scratch.counts)
    return min(count, most), count > most


@njit(**INLINE)
def set_of_text(data: Bytes, span: tuple[int, int], plan: SetPlan, scratch: SetScratch) -> tuple[Scalar, Scalar]:
    """Write the set of a text into ``scratch.held``; returns its size, and whether it is complete."""
    rule, table, most = plan
    reading, held = scratch.reading, scratch.held
    limit = held.size - reading.hashes.size
    open_text(reading, span[0], span[1], rule.size)
    count, cut, last = 0, False, _LAST
    while is_open(reading):
        first, stop = next_shingles(data, reading, rule, table)
        for number in range(first, stop):
            value = np.uint32(reading.hashes[np.uint64(number)] & _LOW)
            held[np.uint64(count)] = value
            count += int(value <= last)
        if count > limit:
            count, more = _least(scratch, count, most)
            cut |= more
            last = held[count - 1] if cut else last
    count, more = _least(scratch, count, most)
    return count, not (cut or more)


@njit(**OPTIONS)
def _sets(
    layout: tuple[Offsets, Bytes],
    rows: Rows,
    plan: SetPlan,
    limit: int,
    out: tuple[Ints, Values, npt.NDArray[np.bool_]],
) -> None:
    offsets, data = layout
    bounds, values, complete = out
    scratch = new_set_scratch(plan.rule.size, limit)
    bounds[0] = 0
    for place in range(rows.size):
        count, all_of_them = set_of_text(data, (offsets[rows[place]], offsets[rows[place] + 1]), plan, scratch)
        start = bounds[place]
        for number in range(count):
            values[start + number] = scratch.held[number]
        bounds[place + 1] = start + count
        complete[place] = all_of_them


def most_values(lengths: Ints, rule: Rule, most: int | None) -> Ints:
    """Maximum number of values in the sets of texts of a number of bytes."""
    largest = lengths // 2 + 1 if rule.words else lengths
    return largest if most is None else np.minimum(largest, most)


def values_held(length: int, rule: Rule, most: int | None) -> int:
    """Maximum number of values held while the set of a text of a number of bytes is made."""
    largest = int(most_values(np.array([length]), rule, None)[0])
    return largest if most is None else min(2 * most, largest)


def shingle_sets(offsets: Offsets, data: Bytes, rows: Rows, rule: Rule, most: int | None) -> Sets:
    """The sets of the texts numbered ``rows``: all hashes, or the smallest ``most`` of each text."""
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    rows = frozen(rows, np.int64)
    lengths = offsets[rows + 1] - offsets[rows]
    values = np.empty(int(most_values(lengths, rule, most).sum()), np.uint32)
    bounds, complete = np.empty(len(rows) + 1, np.int64), np.empty(len(rows), np.bool_)
    plan = SetPlan(rule, word_letters(), ALL if most is None else most)
    limit = values_held(int(lengths.max(initial=0)), rule, most)
    _sets(layout, rows, plan, limit, (bounds, values, complete))
    return Sets(bounds, values[: bounds[-1]].copy(), complete)


@njit(**INLINE)
def similarity(sets: tuple[Ints, Values, npt.NDArray[np.bool_]], one: int, other: int) -> Scalar:
    """The Jaccard similarity of two sets: of the hashes up to the smallest maximum of a truncated set, if any."""
    bounds, values, complete = sets
    at, stop = np.uint64(bounds[one]), np.uint64(bounds[one + 1])
    to, end = np.uint64(bounds[other]), np.uint64(bounds[other + 1])
    limit = (stop - at) + (end - to)
    if not complete[one]:
        limit = min(limit, stop - at)
    if not complete[other]:
        limit = min(limit, end - to)
    union = both = np.uint64(0)
    while at < stop and to < end and union < limit:
        first, second = values[at], values[to]
        at += np.uint64(first <= second)
        to += np.uint64(second <= first)
        both += np.uint64(first == second)
        union += np.uint64(1)
    union = min(union + (stop - at) + (end - to), limit)
    return np.float64(both) / np.float64(union) if union else 1.0


@njit(**OPTIONS)
def _jaccard(sets: tuple[Ints, Values, npt.NDArray[np.bool_]], left: Ints, right: Ints, out: Floats) -> None:
    for pair in range(left.size):
        out[pair] = similarity(sets, left[pair], right[pair])


def jaccard_of_sets(sets: Sets, left: Ints, right: Ints) -> Floats:
    """The Jaccard similarity of the sets numbered ``left`` with those numbered ``right``."""
    out = np.empty(len(left), np.float64)
    arrays = frozen(sets.bounds, np.int64), frozen(sets.values, np.uint32), frozen(sets.whole, np.bool_)
    _jaccard(arrays, frozen(left, np.int64), frozen(right, np.int64), out)
    return out
