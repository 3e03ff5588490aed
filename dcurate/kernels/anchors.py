"""Content-defined chunking: spans between anchors, positions that equal texts share whatever surrounds them.

Anchors are chosen by winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003): of every ``window`` successive k-grams of
bytes, the one of the smallest hash. What two texts have in common, they have the same anchors in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dcurate.kernels.hashing import stirred
from dcurate.kernels.layout import (
    ALLOCATING,
    INLINE,
    OPTIONS,
    Bytes,
    Ints,
    Offsets,
    Scalar,
    Word,
    Words,
    frozen,
    longest,
)
from dcurate.kernels.units import Found, Spans, first_spans, hash_two

_BASE = np.uint64(0xF1357AEA2E62A9C5)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_NEWLINE = 10
_BY_WINDOW, _BY_LINE = range(2)


@njit(**INLINE)
def _smallest(ring: Words, first: int, last: int) -> Scalar:
    """The position of the smallest hash from ``first`` to ``last``; of equal ones, the last."""
    mask = ring.size - 1
    best = first
    for place in range(first + 1, last + 1):
        if ring[place & mask] <= ring[best & mask]:
            best = place
    return best


class Chosen(NamedTuple):
    """Anchors of one text: ``counts[0]`` chosen by winnowing, then ``counts[1]`` by lines.

    ``places`` and ``grams``, the hashes of the k-grams there, have a column for each of the two ways.
    """

    counts: Ints
    places: Ints
    grams: Words


@njit(**INLINE)
def _choose(chosen: Chosen, way: int, place: int, value: Word) -> None:
    count = chosen.counts[way]
    if count == 0 or chosen.places[count - 1, way] < place:
        chosen.places[count, way], chosen.grams[count, way] = place, value
        chosen.counts[way] = count + 1


@njit(**INLINE)
def choose_anchors(data: Bytes, span: tuple[int, int], sizes: tuple[int, int], rings: Words, chosen: Chosen) -> None:
    """Choose the anchors of a text: its first and last k-gram, those of winnowing, those at the ends of lines.

    What winnowing chose stays chosen while a window holds it and nothing smaller: so texts that repeat themselves have
    few anchors too, where every k-gram is as small as the next.
    """
    start, stop = span
    gram, window = sizes
    values, mixes = rings[0], rings[1]
    mask = mixes.size - 1
    high = np.uint64(1)
    value = np.uint64(0)
    begin = start
    for step in range(start, start + gram - 1):
        value = value * _BASE + np.uint64(data[step])
        high *= _BASE
        if data[step] == _NEWLINE:
            begin = step + 1
    chosen.counts[:] = 0
    best = np.int64(-1)
    leaving = np.uint64(0)
    for place in range(start, stop - gram + 1):
        entering = data[place + gram - 1]
        before = value
        value = (value - leaving) * _BASE + np.uint64(entering)
        leaving = np.uint64(data[place]) * high
        mixed = value * _MIX
        mixed ^= mixed >> _HALF
        values[place & mask], mixes[place & mask] = value, mixed
        if place == start:
            _choose(chosen, _BY_WINDOW, place, value)
        if entering == _NEWLINE:
            if begin < place:
                _choose(chosen, _BY_LINE, place - 1, before)
            begin = place + gram
        elif begin == place:
            _choose(chosen, _BY_LINE, place, value)
        if place < start + window - 1:
            continue
        if best <= place - window:
            best = _smallest(mixes, place - window + 1, place)
        elif mixed < mixes[best & mask]:
            best = np.int64(place)
        else:
            continue
        _choose(chosen, _BY_WINDOW, best, values[best & mask])
    _choose(chosen, _BY_WINDOW, stop - gram, value)


@njit(**OPTIONS)
def merge_anchors(chosen: Chosen, places: Ints, grams: Words) -> Scalar:
    """Write all anchors of a text in order, without duplicates; returns their number."""
    count = first = second = 0
    while first < chosen.counts[0] or second < chosen.counts[1]:
        way, at = 0, first
        if first == chosen.counts[0] or (
            second < chosen.counts[1] and chosen.places[second, 1] < chosen.places[first, 0]
        ):
            way, at = 1, second
            second += 1
        else:
            first += 1
        if count == 0 or places[count - 1] != chosen.places[at, way]:
            places[count], grams[count] = chosen.places[at, way], chosen.grams[at, way]
            count += 1
    return count


@njit(**INLINE)
def write_stretches(data: Bytes, gram: int, anchors: tuple[Ints, Words], out: Found, places: tuple[int, int]) -> None:
    """Write the spans between the anchors of a text, between two positions."""
    at, grams = anchors
    for number in range(places[0], places[1]):
        anchor = number - places[0]
        key, check = hash_two(data, at[anchor], at[anchor + 1])
        tail = stirred(grams[anchor + 1])
        out.starts[number], out.stops[number] = at[anchor], at[anchor + 1] + gram
        out.keys[number], out.checks[number] = stirred(key * _BASE + tail), stirred(check * _MIX + tail) >> _HALF


class AnchorScratch(NamedTuple):
    """Scratch for one text: rings of raw and mixed k-gram hashes, anchors of both methods, and all of them."""

    rings: Words
    counts: Ints
    places: Ints
    grams: Words
    merged: Ints
    grams_merged: Words


@njit(**ALLOCATING)
def new_anchor_scratch(most: int, window: int) -> AnchorScratch:
    """Scratch for texts of at most ``most`` bytes."""
    bits = 0
    while (1 << bits) < window:
        bits += 1
    most += 2
    return AnchorScratch(
        np.empty((2, 1 << bits), np.uint64),
        np.zeros(2, np.int64),
        np.empty((most, 2), np.int64),
        np.empty((most, 2), np.uint64),
        np.empty(2 * most, np.int64),
        np.empty(2 * most, np.uint64),
    )


@njit(**INLINE)
def find_anchors(data: Bytes, span: tuple[int, int], gram: int, window: int, scratch: AnchorScratch) -> Scalar:
    """Merge the anchors of a text into ``merged`` and ``grams_merged``; returns their number."""
    if span[1] - span[0] <= gram:
        return 0
    chosen = Chosen(scratch.counts, scratch.places, scratch.grams)
    choose_anchors(data, span, (gram, window), scratch.rings, chosen)
    return merge_anchors(chosen, scratch.merged, scratch.grams_merged)


@njit(**OPTIONS)
def _segments(layout: tuple[Offsets, Bytes], first: int, gram: int, window: int, out: Spans) -> Scalar:
    """Write the spans of texts from ``first`` on, up to the capacity; returns the next text."""
    offsets, data = layout
    scratch = new_anchor_scratch(longest(offsets, np.arange(first, offsets.size - 1)), window)
    arrays = Found(out.starts, out.stops, out.keys, out.checks)
    written = 0
    for text in range(first, offsets.size - 1):
        span = offsets[text], offsets[text + 1]
        if written + span[1] - span[0] > out.starts.size:
            return text
        beyond = written + max(find_anchors(data, span, gram, window, scratch) - 1, 0)
        write_stretches(data, gram, (scratch.merged, scratch.grams_merged), arrays, (written, beyond))
        written = beyond
        out.bounds[text + 1 - first] = written
    return offsets.size - 1


def anchored_spans(offsets: Offsets, data: Bytes, gram: int, window: int) -> Spans:
    """The spans of all texts from each anchor to the end of the next.

    Anchors are the first and last k-gram of a text, those at both ends of lines of at least ``gram`` bytes, and those
    that winnowing chooses. So a stretch has more than ``gram`` bytes and at most ``gram + window``, and two neighbours
    have ``gram`` bytes in common. Whatever two texts have in common, if it is at least
    ``gram + 2 * window - 1`` bytes long, holds a stretch that is in both, and all but the first and last
    ``window - 1`` bytes of it are in such stretches. (Where a text repeats itself within ``window`` bytes, more may be
    missed at its ends.)

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        gram: bytes of a k-gram.
        window: number of k-grams per anchor.

    Examples:
        >>> texts = [b"0123456789 shared by both of them", b"abc shared by both of them."]
        >>> data = np.frombuffer(b"".join(texts), np.uint8)
        >>> spans = anchored_spans(np.array([0, 33, 60]), data, 4, 4)
        >>> bool(np.isin(spans.keys[: spans.bounds[1]], spans.keys[spans.bounds[1] :]).any())
        True
    """
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    sizes = np.diff(layout[0])
    capacity = int(sizes.max(initial=0)) + 4 * int(sizes.sum()) // window
    bounds, pieces = [np.zeros(1, np.int64)], []
    text = 0
    while text < len(sizes):
        out = Spans(
            np.zeros(len(sizes) - text + 1, np.int64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.uint64),
            np.empty(capacity, np.uint32),
        )
        done = int(_segments(layout, text, gram, window, out))
        bounds.append(bounds[-1][-1] + out.bounds[1 : done - text + 1])
        pieces.append(first_spans(out, int(out.bounds[done - text])))
        text = done
    if len(pieces) == 1:
        return pieces[0]
    return Spans(
        np.concatenate(bounds),
        np.concatenate([np.zeros(0, np.int64), *(piece.starts for piece in pieces)]),
        np.concatenate([np.zeros(0, np.int64), *(piece.stops for piece in pieces)]),
        np.concatenate([np.zeros(0, np.uint64), *(piece.keys for piece in pieces)]),
        np.concatenate([np.zeros(0, np.uint32), *(piece.checks for piece in pieces)]),
    )
