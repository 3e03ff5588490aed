"""Lines that C4's rules remove from a text, and the remaining text (Raffel et al., 2020)."""

from __future__ import annotations

import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Offsets, Rows, Scalar, Word, frozen
from dcurate.kernels.segments import LINES, first_character, last_character, segment_end
from dcurate.kernels.unicode import space_width
from dcurate.kernels.words import ascii_spaces

#: Reasons to drop a text as a whole.
STAYS, FILLER, CURLY = range(3)
#: What becomes of a line that is taken out.
_OUT = -1
_FILLER, _SCRIPT, _POLICY = 1, 2, 4
_BRACKET, _CLOSE, _BRACE, _NEWLINE, _DOT, _SPACE = 0x5B, 0x5D, 0x7B, 10, 0x2E, 32
#: What is looked for in lines, in any case of letters, and where each ends; the first two are filler and scripts.
_SOUGHT = (
    "lorem ipsum",
    "javascript",
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
_TEXT = np.frombuffer("".join(_SOUGHT).encode(), np.uint8).copy()
_STOPS = np.cumsum([len(phrase) for phrase in _SOUGHT])
#: The position in each phrase of the rare letter used to find it: one of j, k, m and v.
_RARE = np.array([phrase.index(letter) for phrase, letter in zip(_SOUGHT, "mjmvkkkk", strict=True)])
_IS_RARE = np.zeros(256, np.bool_)
#: The first byte of the Kelvin sign too, whose lower case is k.
_IS_RARE[list(b"jkmvJKMV\xe2")] = True
_RARE_EIGHT = np.frombuffer(b"".join(letter * 8 for letter in (b"j", b"k", b"m", b"v")), np.uint64)
_ONES, _HIGH, _BRACKETS, _BRACES, _KELVINS, _TO_LOWER = (
    np.uint64(byte * 0x0101010101010101) for byte in (0x01, 0x80, 0x5B, 0x7B, 0xE2, 0x20)
)
_ZERO, _ONE, _SEVEN, _EIGHT, _TOP_BYTE, _TOP_BIT = (np.uint64(number) for number in (0, 1, 7, 8, 56, 63))
_EDIT, _NEEDED = (np.frombuffer(text, np.uint8).copy() for text in (b"edit]", b"citation needed]"))
#: The zeros of all scripts; nine more digits follow each.
_ZEROS = np.array(
    [
        point
        for point in range(0x80, sys.maxunicode + 1)
        if unicodedata.digit(chr(point), -1) == 0 and unicodedata.category(chr(point)) == "Nd"
    ],
    np.int64,
)


class LineRules(NamedTuple):
    """Which lines are removed, and which texts are dropped.

    Args:
        min_words: words that a line needs.
        max_word_length: characters that no word of a line may exceed.
        end_marks: a line ends with one of these and not with ``...``; empty for lines that end anyhow.
        words_before: words are counted before citations are removed.
        citations: ``[1]``, ``[edit]`` and ``[citation needed]`` are removed.
        filler: drop a text with "lorem ipsum".
        script: remove a line with "javascript".
        curly: drop a text with ``{``.
        policy: remove a line about cookies, privacy or terms of use.
    """

    min_words: int = 5
    max_word_length: int = 1000
    end_marks: str = '.?!"'
    words_before: bool = False
    citations: bool = True
    filler: bool = True
    script: bool = True
    curly: bool = True
    policy: bool = True


class _Limits(NamedTuple):
    """The rules in the kernel's form; end marks by byte, phrases as bits."""

    min_words: int
    max_word_length: int
    any_end: bool
    end_marks: npt.NDArray[np.bool_]
    words_before: bool
    citations: bool
    phrases: int
    curly: bool


class Cleaned(NamedTuple):
    """Texts without the removed lines, in the Arrow layout; a dropped text is empty.

    ``outcome`` says for each text whether it stays, ``lines`` how many lines are left, ``ragged`` whether whitespace
    at its ends is yet to be removed.
    """

    offsets: Offsets
    data: Bytes
    outcome: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    ragged: npt.NDArray[np.int64]


@njit(**INLINE)
def _words(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar]:
    """The number of words of a line, and whether it may have a bracket."""
    words, before, bracket = _ZERO, _ONE, _ZERO
    at = start
    while at < stop:
        block = load_eight(data, at) if at + 8 <= stop else _HIGH
        if block & _HIGH:
            width = space_width(data, at, stop)
            blank = np.uint64(width > 0)
            words += before & ~blank
            bracket |= np.uint64(data[at] == _BRACKET)
            before = blank
            at += max(width, 1)
            continue
        spaces = ascii_spaces(block)
        starts = ~spaces & ((spaces << _EIGHT) | (before << _SEVEN)) & _HIGH
        words += ((starts >> _SEVEN) * _ONES) >> _TOP_BYTE
        bracket |= has_zero(block ^ _BRACKETS)
        before = spaces >> _TOP_BIT
        at += 8
    return np.int64(words), bracket != 0


@njit(**OPTIONS)
def _longest_word(data: Bytes, start: int, stop: int) -> Scalar:
    """Characters of the longest word of a line."""
    length = most = 0
    at = start
    while at < stop:
        width = space_width(data, at, stop)
        length = 0 if width else length + ((data[at] & 0xC0) != 0x80)
        most = max(most, length)
        at += max(width, 1)
    return most


@njit(**INLINE)
def _stands(data: Bytes, at: int, stop: int, text: Bytes) -> Scalar:
    if at + text.size > stop:
        return False
    for step in range(text.size):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[at + step] != text[step]:
            return False
    return True


@njit(**INLINE)
def _digit(data: Bytes, at: int, stop: int) -> Scalar:
    """Bytes of the decimal digit of any script at ``at``, or 0."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return 1 if 0x30 <= lead <= 0x39 else 0
    width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if lead < 0xC0 or at + width > stop:
        return 0
    point = lead & (0x7F >> width)
    for step in range(1, width):
        point = (point << 6) | (np.int64(data[at + step]) & 0x3F)
    for zero in _ZEROS:
        if zero <= point <= zero + 9:
            return width
    return 0


@njit(**INLINE)
def _citation(data: Bytes, at: int, stop: int) -> Scalar:
    """Bytes of the citation that begins with the bracket at ``at``, or 0."""
    if _stands(data, at + 1, stop, _EDIT):
        return 1 + _EDIT.size
    if _stands(data, at + 1, stop, _NEEDED):
        return 1 + _NEEDED.size
    end = at + 1
    while end < stop:
        if data[end] == _CLOSE:
            return end + 1 - at
        width = _digit(data, end, stop)
        if width == 0:
            return 0
        end += width
    return 0


@njit(**INLINE)
def _copied(data: Bytes, start: int, stop: int, out: Bytes, used: int) -> Scalar:
    """Write a span of bytes at ``used``; returns its end."""
    first, free = np.uint64(start), np.uint64(used)
    for step in range(np.uint64(stop - start)):
        out[free + np.uint64(step)] = data[first + np.uint64(step)]
    return used + stop - start


@njit(**INLINE)
def _uncited(data: Bytes, start: int, stop: int, out: Bytes, used: int) -> Scalar:
    """Write a line without its citations at ``used``; returns its end."""
    after = _copied(data, start, stop, out, used)
    at = free = used
    while at < after:
        width = _citation(out, at, after) if out[at] == _BRACKET else 0
        if width == 0:
            out[free] = out[at]
            free += 1
        at += max(width, 1)
    return free


@njit(**INLINE)
def _ends_well(data: Bytes, start: int, stop: int, marks: npt.NDArray[np.bool_]) -> Scalar:
    if start == stop or not marks[data[stop - 1]]:
        return False
    return not (stop - start > 2 and data[stop - 1] == _DOT and data[stop - 2] == _DOT and data[stop - 3] == _DOT)


@njit(**INLINE)
def _says(data: Bytes, at: int, stop: int, phrase: int) -> Scalar:
    """Whether a phrase occurs at ``at``, ignoring case; the Kelvin sign is a k."""
    for step in range(0 if phrase == 0 else _STOPS[phrase - 1], _STOPS[phrase]):
        if at >= stop:
            return False
        byte = data[at]
        at += 1
        if byte == 0xE2 and at + 1 < stop and data[at] == 0x84 and data[at + 1] == 0xAA:
            byte = np.uint8(0x6B)
            at += 2
        if (byte | 0x20 if 65 <= byte <= 90 else byte) != _TEXT[step]:
            return False
    return True


@njit(**INLINE)
def _may_say(block: Word) -> Scalar:
    """Not zero if any of eight packed bytes may be the rare letter of a phrase, or a curly bracket."""
    block |= _TO_LOWER
    bits = has_zero(block ^ _BRACES) | has_zero(block ^ _KELVINS)
    for eight in _RARE_EIGHT:
        bits |= has_zero(block ^ eight)
    return bits


@njit(**INLINE)
def _phrases(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar]:
    """The groups of phrases in a line as bits, and whether it has a curly bracket."""
    groups = np.int64(0)
    curly = False
    at = start
    while at < stop:
        if at + 8 <= stop and _may_say(load_eight(data, at)) == 0:
            at += 8
            continue
        for place in range(at, min(at + 8, stop)):
            byte = data[place]
            curly |= byte == _BRACE
            if _IS_RARE[byte]:
                for phrase in range(_STOPS.size):
                    begin = place - _RARE[phrase]
                    if begin >= start and _says(data, begin, stop, phrase):
                        groups |= _FILLER if phrase == 0 else _SCRIPT if phrase == 1 else _POLICY
        at += 8
    return groups, curly


@njit(**INLINE)
def _judged(data: Bytes, start: int, stop: int, limits: _Limits, words: int) -> Scalar:
    """The outcome for a line with a number of words: `STAYS`, `_OUT`, or the outcome for the whole text."""
    if words < limits.min_words or not (limits.any_end or _ends_well(data, start, stop, limits.end_marks)):
        return _OUT
    groups, curly = _phrases(data, start, stop)
    groups &= limits.phrases
    if groups & _FILLER:
        return FILLER
    if groups & _SCRIPT:
        return _OUT
    if curly and limits.curly:
        return CURLY
    return _OUT if groups & _POLICY else STAYS


@njit(**INLINE)
def _line(data: Bytes, span: tuple[int, int], limits: _Limits, out: Bytes, used: int) -> tuple[Scalar, Scalar]:
    """The outcome for a line, and its end when it is written at ``used``."""
    first = first_character(data, span[0], span[1])
    last = last_character(data, first, span[1])
    words, bracket = _words(data, first, last)
    most = limits.max_word_length
    if 0 <= most < last - first and _longest_word(data, first, last) > most:
        return _OUT, used
    if limits.citations and bracket:
        after = _uncited(data, first, last, out, used)
        if not limits.words_before:
            words, bracket = _words(out, used, after)
        became = _judged(out, used, after, limits, words)
    else:
        after = used + last - first
        became = _judged(data, first, last, limits, words)
        if became == STAYS:
            _copied(data, first, last, out, used)
    return became, after


@njit(**INLINE)
def clean_text(data: Bytes, span: tuple[int, int], limits: _Limits, new: Bytes, begin: int) -> tuple[Scalar, ...]:
    """Write one text without the removed lines at ``begin``; it never grows.

    Returns:
        Where it ends; its outcome, its lines, and whether it is ragged.
    """
    at, stop = span
    used = np.int64(begin)
    lines = outcome = np.int64(0)
    while at < stop and outcome == STAYS:
        start = at
        end, at = segment_end(data, at, stop, LINES)
        became, after = _line(data, (start, end), limits, new, used + (lines > 0))
        if became == STAYS:
            if lines:
                new[used] = _NEWLINE
            used = after
            lines += 1
        elif became != _OUT:
            outcome = np.int64(became)
            used = np.int64(begin)
    inner = first_character(new, begin, used), last_character(new, begin, used)
    return used, outcome, lines, np.int64(used > begin and inner != (begin, used))


@njit(**OPTIONS)
def _clean(layout: tuple[Offsets, Bytes], rows: Rows, limits: _Limits, new: Cleaned) -> Scalar:
    offsets, data = layout
    used = np.int64(0)
    for place in range(rows.size):
        new.offsets[place] = used
        span = offsets[rows[place]], offsets[rows[place] + 1]
        used, new.outcome[place], new.lines[place], new.ragged[place] = clean_text(data, span, limits, new.data, used)
    new.offsets[rows.size] = used
    return used


def limits_of(rules: LineRules) -> _Limits:
    """The rules in the kernel's form."""
    marks = np.zeros(256, np.bool_)
    marks[list(rules.end_marks.encode("ascii"))] = True
    wanted = _FILLER * rules.filler | _SCRIPT * rules.script | _POLICY * rules.policy
    return _Limits(
        rules.min_words,
        rules.max_word_length,
        not rules.end_marks,
        marks,
        rules.words_before,
        rules.citations,
        wanted,
        rules.curly,
    )


def clean_lines(offsets: Offsets, data: Bytes, rows: Rows, rules: LineRules) -> Cleaned:
    r"""Remove lines from the texts numbered ``rows``.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        rows: numbers of texts.
        rules: rules that decide which lines are removed.

    Examples:
        >>> text = b"Menu\nA line that ends as it should.[1]\n"
        >>> cleaned = clean_lines(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), LineRules())
        >>> cleaned.data.tobytes(), cleaned.lines.tolist()
        (b'A line that ends as it should.', [1])
    """
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    rows = frozen(rows, np.int64)
    size = int((layout[0][rows + 1] - layout[0][rows] + 1).sum())
    counts = [np.zeros(len(rows), np.int64) for _ in range(3)]
    new = Cleaned(np.zeros(len(rows) + 1, np.int64), np.empty(size + 1, np.uint8), *counts)
    used = _clean(layout, rows, limits_of(rules), new)
    return new._replace(data=new.data[:used])
