"""Lines, paragraphs and sentences of texts, and hashes of them that can ignore case, spacing and punctuation."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.folding import POINTS, Folding, fold_any, fold_most, point_at
from dcurate.kernels.hashing import load_eight, load_up_to_eight, stirred
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
from dcurate.kernels.segments import first_character, last_character, line_boundary
from dcurate.kernels.unicode import count_characters, space_width

#: What texts are cut into.
LINE, PARAGRAPH, SENTENCE = range(3)

#: What a character is to sentences: it ends one, it ends one without a space after it, or closes a quote or bracket.
ENDS, ALONE, CLOSES = 1, 2, 4

_MIX, _MIX_TOO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_BASE, _BASE_TOO = np.uint64(0xF1357AEA2E62A9C5), np.uint64(0x165667B19E3779F9)
_HALF = np.uint64(32)
_HIGH, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (0x80, 0x20))


class Spans(NamedTuple):
    """Stretches of texts with hashes of what they say.

    Text ``i`` has the spans from ``bounds[i]`` to ``bounds[i + 1]``, by where they begin. ``starts`` and ``stops`` are
    places in the data of the column. Spans that say the same have the same hash, ``keys`` (64 bits) and ``checks``
    (32 more).
    """

    bounds: Ints
    starts: Ints
    stops: Ints
    keys: Words
    checks: npt.NDArray[np.uint32]


class Found(NamedTuple):
    """The arrays of `Spans` that have a place for each span."""

    starts: Ints
    stops: Ints
    keys: Words
    checks: npt.NDArray[np.uint32]


class SpanRule(NamedTuple):
    """What texts are cut into, how characters are compared, and what each is to sentences."""

    kind: int
    folding: Folding
    marks: Bytes


class SpanLimits(NamedTuple):
    """How spans are made: the number of consecutive units, and the minimum characters and words in them."""

    units: int
    characters: int
    words: int


@lru_cache(8)
def marks_of(ends: str, alone: str) -> Bytes:
    """What each character is to sentences.

    Args:
        ends: the characters that end a sentence, where whitespace or nothing follows.
        alone: those among them that always end it.
    """
    table = np.zeros(POINTS, np.uint8)
    for point in range(0x10000):
        if unicodedata.category(chr(point)) in ("Pe", "Pf", "Pi") or chr(point) in "\"'":
            table[point] = CLOSES
    for character in ends:
        table[ord(character)] |= ENDS
    for character in alone:
        table[ord(character)] |= ALONE
    table.flags.writeable = False
    return table


@njit(**OPTIONS)
def hash_two(data: Bytes, start: int, stop: int) -> tuple[Word, Word]:
    """Two hashes of a stretch of bytes that know nothing of each other."""
    first, second = np.uint64(stop - start) * _MIX, np.uint64(stop - start) * _MIX_TOO
    at = start
    while at + 8 < stop:
        block = load_eight(data, at)
        first, second = (first ^ block) * _MIX, (second ^ block) * _MIX_TOO
        first ^= first >> _HALF
        second ^= second >> _HALF
        at += 8
    if start < stop:
        block = load_up_to_eight(data, at, stop)
        first, second = first ^ block, (second ^ block) * _MIX_TOO
    return stirred(first), stirred(second)


@njit(**OPTIONS)
def _line_end(data: Bytes, at: int, stop: int) -> tuple[Scalar, Scalar]:
    """Where the line ends that begins at ``at``, and where the next begins; eight bytes are looked at together."""
    while at < stop:
        if at + 8 <= stop:
            block = load_eight(data, at)
            if not (block & _HIGH or (block - _BLANKS) & ~block & _HIGH):
                at += 8
                continue
        end = min(at + 8, stop)
        while at < end:
            width = line_boundary(data, at, stop)
            if width:
                return at, at + width
            at += 1
    return stop, stop


@njit(**OPTIONS)
def _sentence_end(data: Bytes, at: int, stop: int, marks: Bytes) -> Scalar:
    """Where the sentence ends that begins at ``at``; ``stop`` is the end of the line."""
    while at < stop:
        if data[at] < 0x80 and not marks[data[at]] & ENDS:
            at += 1
            continue
        point, after = point_at(data, at, stop)
        if point >= marks.size or not marks[point] & ENDS:
            at = after
            continue
        alone = marks[point] & ALONE
        while after < stop:
            point, following = point_at(data, after, stop)
            if point >= marks.size or not marks[point]:
                break
            alone |= marks[point] & ALONE
            after = following
        if alone or after == stop or space_width(data, after, stop):
            return after
        at = after
    return stop


@njit(**INLINE)
def _unit_end(data: Bytes, at: int, stop: int, rule: SpanRule, line: int) -> tuple[Scalar, Scalar, Scalar]:
    """Where the unit ends that begins at ``at``, where the next begins, and where the line ends that it is in.

    ``line`` is the end of the line of ``at`` if it is known, else less than ``at``. What is nothing but whitespace may
    come as a unit.
    """
    if rule.kind == SENTENCE:
        if line <= at:
            line, _ = _line_end(data, at, stop)
        end = _sentence_end(data, at, line, rule.marks)
        if end < line:
            after = first_character(data, end, line)
            if after < line:
                return end, after, line
        _, after = _line_end(data, line, stop)
        return end, after, line
    end, after = _line_end(data, at, stop)
    going = rule.kind == PARAGRAPH and first_character(data, at, end) < end
    while going and after < stop:
        following, beyond = _line_end(data, after, stop)
        if first_character(data, after, following) == following:
            break
        end, after = following, beyond
    return end, after, end


@njit(**OPTIONS)
def _count_words(data: Bytes, start: int, stop: int) -> Scalar:
    count = 0
    outside = True
    while start < stop:
        byte = data[start]
        width = space_width(data, start, stop) if byte <= 0x20 or byte >= 0x80 else 0
        count += outside and width == 0
        outside = width > 0
        start += max(width, 1)
    return count


class Units(NamedTuple):
    """The units of one text: where each begins, its two hashes, characters and words; and the text of one."""

    starts: Ints
    keys: Words
    checks: Words
    characters: Ints
    words: Ints
    points: npt.NDArray[np.int32]
    folded: Bytes


@njit(**OPTIONS)
def read_units(data: Bytes, span: tuple[int, int], rule: SpanRule, limits: SpanLimits, units: Units) -> Scalar:
    """Find and hash the units of a text; returns how many there are."""
    at, stop = span
    fold = rule.folding
    line = np.int64(-1)
    count = 0
    while at < stop:
        end, after, line = _unit_end(data, at, stop, rule, line)
        first = first_character(data, at, end)
        last = last_character(data, first, end)
        if not fold.folds:
            size = last - first
            key, check = hash_two(data, first, last)
        else:
            size = fold_most(data, first, last, fold, units.folded)
            if size < 0:
                size = fold_any(data, (first, last), fold, units.points, units.folded)
            key, check = hash_two(units.folded, 0, size)
        if size:
            units.starts[count], units.keys[count], units.checks[count] = at, key, check
            units.characters[count] = count_characters(data, first, last) if limits.characters else 0
            units.words[count] = _count_words(data, first, last) if limits.words else 0
            count += 1
        at = after
    units.starts[count] = stop
    return count


@njit(**ALLOCATING)
def new_units(most: int, folding: Folding) -> Units:
    """Scratch for a text of at most ``most`` bytes."""
    capacity = most // 2 + 2
    return Units(
        np.empty(capacity, np.int64),
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(folding.most_points * most + 1, np.int32),
        np.empty(folding.most_bytes * most + 1, np.uint8),
    )


@njit(**INLINE)
def is_long_enough(units: Units, first: int, limits: SpanLimits) -> Scalar:
    """Whether the span that begins with a unit has the characters and words that it needs."""
    characters = words = 0
    for unit in range(first, first + limits.units):
        characters += units.characters[unit]
        words += units.words[unit]
    return characters >= limits.characters and words >= limits.words


@njit(**INLINE)
def write_spans(units: Units, count: int, limits: SpanLimits, out: Found, found: int) -> Scalar:
    """Write the spans of a text of ``count`` units from place ``found`` on; returns the place after them."""
    for first in range(count - limits.units + 1):
        if is_long_enough(units, first, limits):
            key, check = units.keys[first], units.checks[first]
            for unit in range(first + 1, first + limits.units):
                key = stirred(key * _BASE + units.keys[unit])
                check = stirred(check * _BASE_TOO + units.checks[unit])
            out.starts[found], out.stops[found] = units.starts[first], units.starts[first + limits.units]
            out.keys[found], out.checks[found] = key, check >> _HALF
            found += 1
    return found


@njit(**OPTIONS)
def _spans(layout: tuple[Offsets, Bytes], rule: SpanRule, limits: SpanLimits, out: Spans) -> None:
    offsets, data = layout
    units = new_units(longest(offsets, np.arange(offsets.size - 1)), rule.folding)
    places = Found(out.starts, out.stops, out.keys, out.checks)
    taken = 0
    for text in range(offsets.size - 1):
        count = read_units(data, (offsets[text], offsets[text + 1]), rule, limits, units)
        taken = write_spans(units, count, limits, places, taken)
        out.bounds[text + 1] = taken


def unit_spans(offsets: Offsets, data: Bytes, rule: SpanRule, limits: SpanLimits) -> Spans:
    r"""Find the spans of all texts: consecutive lines, paragraphs or sentences.

    A *line* ends where ``str.splitlines`` ends it. A *paragraph* is all lines up to one of nothing but whitespace. A
    *sentence* ends with its line, or after a mark that ends sentences and those that close quotes and brackets,
    before whitespace. Whitespace at both ends does not count. A unit without content belongs to the one before it.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        rule: the kind is `LINE`, `PARAGRAPH` or `SENTENCE`.
        limits: units in a span, and the characters and words that it needs.

    Examples:
        >>> from dcurate.kernels.folding import folding
        >>> text = b"One.  Two!\n\nOne."
        >>> column = np.array([0, len(text)]), np.frombuffer(text, np.uint8)
        >>> rule = SpanRule(SENTENCE, folding(frozenset()), marks_of(".!", ""))
        >>> spans = unit_spans(*column, rule, SpanLimits(1, 0, 0))
        >>> [text[start:stop] for start, stop in zip(spans.starts, spans.stops)]
        [b'One.  ', b'Two!\n\n', b'One.']
        >>> bool(spans.keys[0] == spans.keys[2])
        True
    """
    capacity = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
    out = Spans(
        np.zeros(len(offsets), np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.uint32),
    )
    _spans((frozen(offsets, np.int64), frozen(data, np.uint8)), rule, limits, out)
    return first_spans(out, int(out.bounds[-1]))


def first_spans(spans: Spans, count: int) -> Spans:
    """So many spans, in the same arrays."""
    return spans._replace(
        starts=spans.starts[:count], stops=spans.stops[:count], keys=spans.keys[:count], checks=spans.checks[:count]
    )
