"""Fold texts for comparison: case, spacing, digits, punctuation or Unicode normalization."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import load_eight
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Scalar, Word, frozen

#: More code points than there are letters of.
POINTS = 0x30000
#: Characters that never change.
_PLAIN = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xE000, 0xF900), (0x20000, 0x2F800))
_DROPPED, _SPACE = 0, -1
_BLANK = 32
_TWO, _EIGHT, _NONE, _FIRST = (np.uint64(number) for number in (2, 8, 0, 0x80))
_HIGH, _LOW_SEVEN, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (0x80, 0x7F, _BLANK))
#: Added to bytes below 0x80, these set the high bit of each that is not before the character.
_FROM_A, _PAST_Z, _FROM_CAPITAL_A, _PAST_CAPITAL_Z, _FROM_0, _PAST_9 = (
    np.uint64((0x80 - first) * 0x0101010101010101) for first in (97, 123, 65, 91, 48, 58)
)


class Folding(NamedTuple):
    """A folding table.

    ``ascii`` has for each byte below 0x80 the one that stands for it, 0 if it is left out, as the byte 0 always is.
    ``others`` has for each code point the one that stands for it as a positive number, 0 if it is left out, -1 for a
    space, and below that ``-2 - i`` for all of ``points[firsts[i]:firsts[i + 1]]``. ``classes`` are the canonical
    combining classes. ``folds`` is false where texts are compared byte for byte, ``collapses`` true where a run of
    whitespace is a space; ``digits`` and ``punctuation`` say whether these change. A byte becomes at most so many
    characters (``most_points``) and bytes (``most_bytes``).
    """

    ascii: Bytes
    others: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int32]
    points: npt.NDArray[np.int32]
    classes: Bytes
    folds: bool
    collapses: bool
    digits: bool
    punctuation: bool
    most_points: int
    most_bytes: int


@lru_cache(32)
def folding(steps: frozenset[str]) -> Folding:
    """The folding for ``steps``: case, whitespace, digits, punctuation and unicode.

    Examples:
        >>> table = folding(frozenset({"case", "digits"}))
        >>> chr(table.ascii[ord("A")]), chr(table.ascii[ord("7")]), chr(table.others[ord("É")])
        ('a', '0', 'é')
    """
    mapped = np.arange(POINTS, dtype=np.int32)
    classes = np.zeros(POINTS, np.uint8)
    firsts, points = [0], []
    most_points = most_bytes = 1
    for point in _points() if steps else range(0x80):
        character = chr(point)
        decomposed = unicodedata.normalize("NFKD", character) if "unicode" in steps else character
        folded = [_folded(letter, steps) for letter in decomposed]
        if "unicode" in steps:
            classes[point] = unicodedata.combining(character)
        width = _width(point)
        most_points = max(most_points, -(-len(folded) // width))
        most_bytes = max(most_bytes, -(-sum(map(_width, folded)) // width))
        if len(folded) == 1:
            mapped[point] = folded[0]
            continue
        mapped[point] = -2 - (len(firsts) - 1)
        points.extend(folded)
        firsts.append(len(points))
    plain = np.where(mapped[:128] == _SPACE, _BLANK, mapped[:128]).astype(np.uint8)
    return Folding(
        frozen(np.append(plain, np.zeros(128, np.uint8)), np.uint8),
        frozen(mapped, np.int32),
        frozen(np.array(firsts), np.int32),
        frozen(np.array(points), np.int32),
        frozen(classes, np.uint8),
        bool(steps),
        "whitespace" in steps,
        "digits" in steps,
        "punctuation" in steps,
        most_points,
        most_bytes,
    )


def _width(point: int) -> int:
    """Bytes of a character in UTF-8."""
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4


def _points() -> Iterator[int]:
    """The code points that may change."""
    edges = [0, *(edge for run in _PLAIN for edge in run), POINTS]
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        yield from range(first, last)


def _folded(character: str, steps: frozenset[str]) -> int:
    """The code point that replaces a character, or `_DROPPED` or `_SPACE`."""
    if "whitespace" in steps and character.isspace():
        return _SPACE
    category = unicodedata.category(character)
    if "digits" in steps and category == "Nd":
        return ord("0")
    if "punctuation" in steps and not character.isspace() and (category[0] in "PS" or category in ("Cc", "Cf")):
        return _DROPPED
    if "case" in steps:
        character = "σ" if character == "ς" else character.lower()[0]
    return ord(character)


@njit(**INLINE)
def point_at(data: Bytes, at: int, stop: int) -> tuple[Scalar, Scalar]:
    """The code point at ``at``, and the position of the next character."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return lead, at + 1
    width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if at + width > stop:
        return np.int64(0xFFFD), stop
    point = lead & (0x7F >> width)
    for step in range(1, width):
        point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
    return point, at + width


@njit(**INLINE)
def _encode(point: Scalar, out: Bytes, at: int) -> Scalar:
    """Write a character in UTF-8; returns the next position."""
    if point < 0x80:
        out[at] = point
        return at + 1
    width = 2 if point < 0x800 else 3 if point < 0x10000 else 4
    for step in range(width - 1, 0, -1):
        out[at + step] = 0x80 | (point & 0x3F)
        point >>= 6
    out[at] = (0xF00 >> width & 0xFF) | point
    return at + width


@njit(**INLINE)
def _put(points: npt.NDArray[np.int32], count: int, floor: int, point: int, fold: Folding) -> tuple[Scalar, Scalar]:
    """Insert a character among the previous ones, in canonical order; returns their number, and the next floor.

    Marks do not move before the floor: the character that carries them, though it may have been left out.
    """
    weight = fold.classes[point] if point > 0 else np.uint8(0)
    if point == _DROPPED:
        return count, count
    if point == _SPACE:
        if count and points[count - 1] != _BLANK:
            points[count] = _BLANK
            count += 1
        return count, count
    at = count
    while weight and at > floor and fold.classes[points[at - 1]] > weight:
        points[at] = points[at - 1]
        at -= 1
    points[at] = point
    return count + 1, floor if weight else count + 1


@njit(**OPTIONS)
def fold_any(data: Bytes, span: tuple[int, int], fold: Folding, points: npt.NDArray[np.int32], out: Bytes) -> Scalar:
    """Write a folded span of any characters; returns its bytes."""
    at, stop = span
    count = floor = 0
    while at < stop:
        point, at = point_at(data, at, stop)
        if point >= fold.others.size:
            points[count] = point
            count += 1
            floor = count
            continue
        stands = np.int64(fold.others[point])
        if stands >= _SPACE:
            count, floor = _put(points, count, floor, stands, fold)
            continue
        for number in range(fold.firsts[-2 - stands], fold.firsts[-1 - stands]):
            count, floor = _put(points, count, floor, np.int64(fold.points[number]), fold)
    if fold.collapses and count and points[count - 1] == _BLANK:
        count -= 1
    size = 0
    for number in range(count):
        size = _encode(np.int64(points[number]), out, size)
    return size


@njit(**INLINE)
def _spaces(block: Word) -> Word:
    """The high bit of each of eight packed ASCII bytes that is a space."""
    return ~((block ^ _BLANKS) + _LOW_SEVEN) & _HIGH


@njit(**INLINE)
def _within(block: Word, least: Word, beyond: Word) -> Word:
    """The high bit of each of eight packed ASCII bytes within a range of characters; see `_FROM`."""
    return (block + least) & ~(block + beyond) & _HIGH


@njit(**INLINE)
def _is_simple(block: Word, fold: Folding, after_blank: bool) -> Scalar:
    """Whether eight packed bytes are ASCII and change at most in case."""
    if block & _HIGH or (block - _BLANKS) & ~block & _HIGH:
        return False
    blanks = _spaces(block)
    if fold.collapses and blanks & ((blanks << _EIGHT) | (_FIRST if after_blank else _NONE)):
        return False
    simple = _HIGH
    if fold.punctuation:
        simple = blanks | _within(block | _BLANKS, _FROM_A, _PAST_Z) | _within(block, _FROM_0, _PAST_9)
    if fold.digits:
        simple &= ~_within(block, _FROM_0, _PAST_9)
    return simple == _HIGH


@njit(**INLINE)
def _stand_in(data: Bytes, at: int, stop: int, fold: Folding) -> tuple[Scalar, Scalar]:
    """The single character that replaces the one at ``at``, -1 if it is not single, and the position of the next."""
    if data[at] < 0x80:
        return np.int64(fold.ascii[data[at]]), at + 1
    point, at = point_at(data, at, stop)
    if point >= fold.others.size:
        return point, at
    stands = np.int64(fold.others[point])
    if stands == _SPACE:
        return np.int64(_BLANK), at
    return np.int64(-1) if fold.classes[point] else stands, at


@njit(**OPTIONS)
def fold_most(data: Bytes, start: int, stop: int, fold: Folding, out: Bytes) -> Scalar:
    """Write a folded span; -1 if there are marks to reorder, or characters that expand to several."""
    size = 0
    blank = True
    at = start
    upper = _BLANKS if fold.ascii[65] == 97 else _NONE
    while at < stop:
        if at + 8 <= stop:
            block = load_eight(data, at)
            if _is_simple(block, fold, blank):
                block |= (_within(block, _FROM_CAPITAL_A, _PAST_CAPITAL_Z) >> _TWO) & upper
                for step in range(8):
                    out[size + step] = block >> np.uint64(8 * step)
                size += 8
                at += 8
                blank = out[size - 1] == _BLANK
                continue
        end = min(at + 8, stop)
        while at < end:
            stands, at = _stand_in(data, at, stop, fold)
            if stands < 0:
                return -1
            if stands >= 0x80:
                size = _encode(stands, out, size)
                blank = False
            elif stands and not (fold.collapses and blank and stands == _BLANK):
                out[size] = stands
                size += 1
                blank = stands == _BLANK
    return size - (fold.collapses and size > 0 and blank)
