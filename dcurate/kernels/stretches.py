"""Excess copies of spans, and the parts of texts to remove."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import bits_of_table
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, Words, frozen
from dcurate.kernels.segments import first_character, last_character, line_boundary
from dcurate.kernels.unicode import space_width, space_width_before
from dcurate.kernels.units import Spans

#: How stretches are fitted to the text: to its lines, to whole characters, or to whole words.
LINES, CHARACTERS, WORDS = range(3)

Mask = npt.NDArray[np.bool_]

#: So far a stretch that begins or ends within a word gives way.
_WORD = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Copies(NamedTuple):
    """Spans with excess copies, without duplicates: its hash, and from which text on how many more copies may stay."""

    keys: Words
    checks: npt.NDArray[np.uint32]
    texts: Ints
    allowed: Ints


class Stretches(NamedTuple):
    """Disjoint parts of texts, in order: text ``i`` has those from ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: Ints
    starts: Ints
    stops: Ints


@njit(**INLINE)
def _slot(table: npt.NDArray[np.int32], bits: int, keys: Words, key: int) -> Scalar:
    """The slot of a key in the table, or the empty slot where it belongs."""
    slot = np.int64((np.uint64(key) * _MIX) >> np.uint64(64 - bits))
    while table[slot] and keys[table[slot] - 1] != key:
        slot = (slot + 1) & ((1 << bits) - 1)
    return slot


@njit(**OPTIONS)
def _surplus(spans: Spans, copies: Copies, bits: int, gone: Mask) -> None:
    table = np.zeros(1 << bits, np.int32)
    for number in range(copies.keys.size):
        table[_slot(table, bits, copies.keys, copies.keys[number])] = number + 1
    seen = np.zeros(copies.keys.size, np.int64)
    for text in range(spans.bounds.size - 1):
        for span in range(spans.bounds[text], spans.bounds[text + 1]):
            number = table[_slot(table, bits, copies.keys, spans.keys[span])] - 1
            if number >= 0 and text >= copies.texts[number] and spans.checks[span] == copies.checks[number]:
                seen[number] += 1
                gone[span] = seen[number] > copies.allowed[number]


def surplus(spans: Spans, copies: Copies) -> Mask:
    """A mask of the spans that are excess copies.

    Examples:
        >>> keys, none = np.array([7, 8, 7, 7], np.uint64), np.zeros(4, np.int64)
        >>> spans = Spans(np.array([0, 2, 4]), none, none, keys, none.astype(np.uint32))
        >>> one = np.array([1])
        >>> surplus(spans, Copies(7 * one, 0 * one, 0 * one, one)).tolist()
        [False, False, True, True]
    """
    gone = np.zeros(len(spans.keys), np.bool_)
    wanted = Copies(
        frozen(copies.keys, np.uint64),
        frozen(copies.checks, np.uint32),
        frozen(copies.texts, np.int64),
        frozen(copies.allowed, np.int64),
    )
    frozen_spans = Spans(*(frozen(array, array.dtype) for array in spans))
    _surplus(frozen_spans, wanted, bits_of_table(len(wanted.keys)), gone)
    return gone


@njit(**INLINE)
def _boundary_before(data: Bytes, start: int, at: int) -> Scalar:
    """Bytes of the line boundary that ends at ``at``, or 0."""
    for width in range(1, 4):
        if at - width >= start and line_boundary(data, at - width, at) == width:
            return width
    return 0


@njit(**INLINE)
def _fit_lines(data: Bytes, text: tuple[int, int], start: int, stop: int) -> tuple[Scalar, Scalar]:
    """A stretch so that lines stay lines, and no whitespace is left before what went at the end of a line or text."""
    ends_blank = space_width_before(data, start, stop) > 0
    if start > text[0] and _boundary_before(data, text[0], start) == 0:
        at = last_character(data, start, stop)
        while at < stop and line_boundary(data, at, stop) == 0:
            at += 1
        stop = at
        if stop == text[1] or line_boundary(data, stop, text[1]):
            while start > text[0] and space_width_before(data, text[0], start):
                start -= space_width_before(data, text[0], start)
    elif stop == text[1] and not ends_blank:
        start = last_character(data, text[0], start)
    return start, stop


@njit(**INLINE)
def _fit_characters(data: Bytes, text: tuple[int, int], start: int, stop: int) -> tuple[Scalar, Scalar]:
    """The whole characters in a span."""
    while start < stop and (data[start] & 0xC0) == 0x80:
        start += 1
    while start < stop < text[1] and (data[stop] & 0xC0) == 0x80:
        stop -= 1
    return start, stop


@njit(**INLINE)
def _fit_words(data: Bytes, text: tuple[int, int], start: int, stop: int) -> tuple[Scalar, Scalar]:
    """The whole words in a span with the whitespace on one side, if there are words near its ends."""
    begin, end = start, stop
    if begin > text[0] and space_width_before(data, text[0], begin) == 0:
        while begin < stop and begin - start < _WORD and space_width(data, begin, stop) == 0:
            begin += 1
        if begin == stop or space_width(data, begin, stop) == 0:
            begin = start
    spaced = begin < stop and begin > text[0] and space_width(data, begin, stop) > 0
    if end < text[1] and space_width(data, end, text[1]) == 0:
        while end > begin and stop - end < _WORD and space_width_before(data, begin, end) == 0:
            end -= 1
        if end == begin or space_width_before(data, begin, end) == 0:
            end = stop
        while spaced and end > begin and space_width_before(data, begin, end):
            end -= space_width_before(data, begin, end)
    begin, end = _fit_characters(data, text, begin, end)
    return begin, end


@njit(**OPTIONS)
def _stretches(layout: tuple[Offsets, Bytes], spans: Spans, gone: Mask, fit: int, out: Stretches) -> Scalar:
    offsets, data = layout
    count = 0
    for row in range(offsets.size - 1):
        text = offsets[row], offsets[row + 1]
        last = spans.bounds[row + 1]
        start = stop = np.int64(-1)
        for span in range(spans.bounds[row], last + 1):
            if span < last and not gone[span]:
                continue
            if span < last and spans.starts[span] <= stop:
                stop = max(stop, spans.stops[span])
                continue
            if stop >= 0:
                if fit == LINES:
                    start, stop = _fit_lines(data, text, start, stop)
                elif fit == CHARACTERS:
                    start, stop = _fit_characters(data, text, start, stop)
                else:
                    start, stop = _fit_words(data, text, start, stop)
                if start < stop:
                    out.starts[count], out.stops[count] = start, stop
                    count += 1
            if span < last:
                start, stop = spans.starts[span], spans.stops[span]
        out.bounds[row + 1] = count
    return count


def stretches_of(offsets: Offsets, data: Bytes, spans: Spans, gone: Mask, fit: int) -> Stretches:
    r"""The parts to remove from texts, given some of their spans; adjacent or overlapping spans are merged.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        spans: spans of these texts.
        gone: a mask of the spans to remove.
        fit: `LINES`, for spans of lines, paragraphs or sentences: a stretch that begins within a line leaves the end
            of its last line, and takes the whitespace before it where the line or text ends then. `CHARACTERS` and
            `WORDS`, for any spans: a stretch gives way to whole ones.

    Examples:
        >>> text = b"one two three four"
        >>> column = np.array([0, len(text)]), np.frombuffer(text, np.uint8)
        >>> hashes = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
        >>> spans = Spans(np.array([0, 1]), np.array([1]), np.array([15]), *hashes)
        >>> cut = stretches_of(*column, spans, np.array([True]), WORDS)
        >>> text[: cut.starts[0]] + text[cut.stops[0] :]
        b'one four'
    """
    many = int(gone.sum())
    out = Stretches(np.zeros(len(offsets), np.int64), np.empty(many, np.int64), np.empty(many, np.int64))
    frozen_spans = Spans(*(frozen(array, array.dtype) for array in spans))
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    count = int(_stretches(layout, frozen_spans, frozen(gone, np.bool_), fit, out))
    return Stretches(out.bounds, out.starts[:count].copy(), out.stops[:count].copy())


@njit(**OPTIONS)
def _blank(layout: tuple[Offsets, Bytes], rows: Rows, out: Mask) -> None:
    offsets, data = layout
    for place in range(rows.size):
        stop = offsets[rows[place] + 1]
        out[place] = first_character(data, offsets[rows[place]], stop) == stop


def blank(offsets: Offsets, data: Bytes, rows: Rows) -> Mask:
    """A mask of the texts numbered ``rows`` that are only whitespace.

    Examples:
        >>> blank(np.array([0, 2, 4]), np.frombuffer(b" a  ", np.uint8), np.array([0, 1])).tolist()
        [False, True]
    """
    out = np.zeros(len(rows), np.bool_)
    _blank((frozen(offsets, np.int64), frozen(data, np.uint8)), frozen(rows, np.int64), out)
    return out
