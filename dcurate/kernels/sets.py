"""Sets of shingles by their least hashes, and how similar two of them are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, frozen
from dcurate.kernels.shingles import Rule, is_open, new_reading, next_shingles, open_text, word_letters

_LOW = np.uint64(0xFFFFFFFF)
_LAST = np.uint32(0xFFFFFFFF)
#: From so many values on, sorting by bytes is faster than by comparing.
_MANY = 64

Values = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]


class Sets(NamedTuple):
    """Sets of 32-bit hashes of shingles: set ``i`` is ``values[bounds[i]:bounds[i + 1]]``, ascending, each once.

    ``whole[i]`` tells whether it has all hashes of its text; else it has the least of them.
    """

    bounds: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint32]
    whole: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.whole)


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
def _sort(values: Values, spare: Values) -> None:
    """Sort values, byte by byte from the lowest on if they are many; ``spare`` has room for as many."""
    if values.size < _MANY:
        _insert(values)
        return
    counts = np.zeros((4, 256), np.int64)
    for value in values:
        for step in range(4):
            counts[step, (value >> np.uint32(8 * step)) & np.uint32(0xFF)] += 1
    for step in range(4):
        shift = np.uint32(8 * step)
        places = counts[step]
        before = 0
        for digit in range(256):
            places[digit], before = before, before + places[digit]
        source, target = (values, spare) if step % 2 == 0 else (spare, values)
        for value in source[: values.size]:
            byte = (value >> shift) & np.uint32(0xFF)
            target[places[byte]] = value
            places[byte] += 1


@njit(**OPTIONS)
def _distinct(values: Values, spare: Values) -> Scalar:
    """Sort the values, each once, to the front; returns how many there are."""
    _sort(values, spare)
    count = 0
    for value in values:
        values[count] = value
        count += count == 0 or values[count - 1] != value
    return count


@njit(**OPTIONS)
def _least(values: Values, spare: Values, most: int) -> tuple[Scalar, Scalar]:
    """Sort the least values, each once, to the front; returns how many there are, and whether any was cut off."""
    count = _distinct(values, spare)
    return min(count, most), count > most


@njit(**OPTIONS)
def _sets(
    layout: tuple[Offsets, Bytes],
    rows: Rows,
    plan: tuple[Rule, int, int],
    table: npt.NDArray[np.int32],
    out: tuple[Ints, Values, npt.NDArray[np.bool_]],
) -> None:
    offsets, data = layout
    rule, most, room = plan
    bounds, values, whole = out
    reading = new_reading(rule.size)
    held, spare = np.empty(room + reading.hashes.size, np.uint32), np.empty(room + reading.hashes.size, np.uint32)
    bounds[0] = 0
    for place in range(rows.size):
        open_text(reading, offsets[rows[place]], offsets[rows[place] + 1], rule.size)
        count, cut, last = 0, False, _LAST
        while is_open(reading):
            first, stop = next_shingles(data, reading, rule, table)
            for number in range(first, stop):
                value = np.uint32(reading.hashes[np.uint64(number)] & _LOW)
                held[np.uint64(count)] = value
                count += int(value <= last)
            if count > room:
                count, more = _least(held[:count], spare, most)
                cut |= more
                last = held[count - 1] if cut else last
        count, more = _least(held[:count], spare, most)
        start = bounds[place]
        for number in range(count):
            values[start + number] = held[number]
        bounds[place + 1] = start + count
        whole[place] = not (cut or more)


def shingle_sets(offsets: Offsets, data: Bytes, rows: Rows, rule: Rule, most: int | None) -> Sets:
    """The sets of the texts numbered ``rows``: all hashes, or the least ``most`` of each text."""
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    rows = frozen(rows, np.int64)
    lengths = offsets[rows + 1] - offsets[rows]
    largest = lengths // 2 + 1 if rule.words else lengths
    limit = int(largest.max(initial=0)) if most is None else most
    values = np.empty(int(np.minimum(largest, limit).sum()), np.uint32)
    bounds, whole = np.empty(len(rows) + 1, np.int64), np.empty(len(rows), np.bool_)
    room = min(2 * limit, int(largest.max(initial=0)))
    _sets(layout, rows, (rule, limit, room), word_letters(), (bounds, values, whole))
    return Sets(bounds, values[: bounds[-1]].copy(), whole)


@njit(**OPTIONS)
def _jaccard(sets: tuple[Ints, Values, npt.NDArray[np.bool_]], left: Ints, right: Ints, out: Floats) -> None:
    bounds, values, whole = sets
    for pair in range(left.size):
        one, other = left[pair], right[pair]
        at, stop = np.uint64(bounds[one]), np.uint64(bounds[one + 1])
        to, end = np.uint64(bounds[other]), np.uint64(bounds[other + 1])
        limit = (stop - at) + (end - to)
        if not whole[one]:
            limit = min(limit, stop - at)
        if not whole[other]:
            limit = min(limit, end - to)
        union = both = np.uint64(0)
        while at < stop and to < end and union < limit:
            first, second = values[at], values[to]
            at += np.uint64(first <= second)
            to += np.uint64(second <= first)
            both += np.uint64(first == second)
            union += np.uint64(1)
        union = min(union + (stop - at) + (end - to), limit)
        out[pair] = np.float64(both) / np.float64(union) if union else 1.0


def jaccard_of_sets(sets: Sets, left: Ints, right: Ints) -> Floats:
    """The Jaccard similarity of the sets numbered ``left`` with those numbered ``right``."""
    out = np.empty(len(left), np.float64)
    arrays = frozen(sets.bounds, np.int64), frozen(sets.values, np.uint32), frozen(sets.whole, np.bool_)
    _jaccard(arrays, frozen(left, np.int64), frozen(right, np.int64), out)
    return out
