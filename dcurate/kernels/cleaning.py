"""Lines that C4's rules take out of a text, and what is left (Raffel et al., 2020)."""

from __future__ import annotations

import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.interning import Numbered
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Places, Rows, Scalar, frozen, longest
from dcurate.kernels.segments import LINES, first_character, last_character, segment_end
from dcurate.kernels.unicode import space_width
from dcurate.kernels.words import find_words

#: Why a text goes as a whole.
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
#: For each byte, the second letter of those that begin with it in any case, or 0; they all have the same.
_SECOND = np.zeros(256, np.uint8)
for _phrase in _SOUGHT:
    _SECOND[[ord(_phrase[0]), ord(_phrase[0].upper())]] = ord(_phrase[1])
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
    """Which lines are taken out, and which texts go.

    Args:
        min_words: words that a line needs.
        max_word_length: characters that no word of a line may exceed.
        end_marks: a line ends with one of these and not with ``...``; empty for lines that end anyhow.
        words_before: words are counted before citations are removed.
        citations: ``[1]``, ``[edit]`` and ``[citation needed]`` are removed.
        filler: a text with "lorem ipsum" goes.
        script: a line with "javascript" goes.
        curly: a text with ``{`` goes.
        policy: a line about cookies, privacy or terms of use goes.
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
    """The rules as the kernel takes them; end marks by byte, phrases as bits."""

    min_words: int
    max_word_length: int
    any_end: bool
    end_marks: npt.NDArray[np.bool_]
    words_before: bool
    citations: bool
    phrases: int
    curly: bool


class Cleaned(NamedTuple):
    """Texts without the lines that were taken out, in the Arrow layout; a text that goes is empty.

    ``outcome`` says for each text whether it stays, ``lines`` how many lines are left, ``ragged`` whether whitespace
    at its ends is yet to be removed.
    """

    offsets: Offsets
    data: Bytes
    outcome: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    ragged: npt.NDArray[np.int64]


@njit(**INLINE)
def _words(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar, Scalar]:
    """How many words a line has, characters of the longest, and whether it has a bracket."""
    words = length = most = 0
    bracket = False
    at = start
    while at < stop:
        byte = data[at]
        width = 0
        if byte <= 0x20 or byte >= 0x80:
            width = space_width(data, at, stop)
        if width:
            most = max(most, length)
            words += length > 0
            length = 0
            at += width
            continue
        bracket |= byte == _BRACKET
        length += (byte & 0xC0) != 0x80
        at += 1
    return words + (length > 0), max(most, length), bracket


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
def _copied(data: Bytes, span: tuple[int, int], citations: bool, out: Bytes, used: int) -> Scalar:
    """Write a line, with or without its citations, from ``used`` on; returns where it ends."""
    start, stop = span
    after = used + stop - start
    out[used:after] = data[start:stop]
    if citations:
        return after
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
    """Whether a phrase stands at ``at`` in any case of letters; the Kelvin sign is a k."""
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
def _phrases(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar]:
    """The groups of phrases in a line as bits, and whether it has a curly bracket."""
    found = np.int64(0)
    curly = False
    for at in range(start, stop):
        byte = data[at]
        curly |= byte == _BRACE
        if _SECOND[byte] and at + 1 < stop and data[at + 1] | 0x20 == _SECOND[byte]:
            for phrase in range(_STOPS.size):
                if _TEXT[0 if phrase == 0 else _STOPS[phrase - 1]] == byte | 0x20 and _says(data, at, stop, phrase):
                    found |= _FILLER if phrase == 0 else _SCRIPT if phrase == 1 else _POLICY
    return found, curly


@njit(**INLINE)
def _judged(data: Bytes, start: int, stop: int, limits: _Limits) -> Scalar:
    """What becomes of a line that has words enough: `STAYS`, `_OUT`, or the outcome for the whole text."""
    found, curly = _phrases(data, start, stop)
    found &= limits.phrases
    if found & _FILLER:
        return FILLER
    if found & _SCRIPT:
        return _OUT
    if curly and limits.curly:
        return CURLY
    return _OUT if found & _POLICY else STAYS


@njit(**INLINE)
def _line(data: Bytes, span: tuple[int, int], limits: _Limits, out: Bytes, used: int) -> tuple[Scalar, Scalar]:
    """What becomes of a line, and where it ends when it is written from ``used`` on."""
    first = first_character(data, span[0], span[1])
    last = last_character(data, first, span[1])
    words, most, bracket = _words(data, first, last)
    if limits.max_word_length >= 0 and most > limits.max_word_length:
        return _OUT, used
    after = _copied(data, (first, last), not (limits.citations and bracket), out, used)
    if not limits.any_end and not _ends_well(out, used, after, limits.end_marks):
        return _OUT, used
    if not limits.words_before:
        words, most, bracket = _words(out, used, after)
    if words < limits.min_words:
        return _OUT, used
    return _judged(out, used, after, limits), after


@njit(**OPTIONS)
def _clean(layout: tuple[Offsets, Bytes], rows: Rows, limits: _Limits, new: Cleaned) -> Scalar:
    offsets, data = layout
    used = np.int64(0)
    for place in range(rows.size):
        at, stop = offsets[rows[place]], offsets[rows[place] + 1]
        begin = used
        new.offsets[place] = begin
        lines = outcome = np.int64(0)
        while at < stop and outcome == STAYS:
            start = at
            end, at = segment_end(data, at, stop, LINES)
            became, after = _line(data, (start, end), limits, new.data, used + (lines > 0))
            if became == STAYS:
                if lines:
                    new.data[used] = _NEWLINE
                used = after
                lines += 1
            elif became != _OUT:
                outcome = np.int64(became)
                used = begin
        new.outcome[place], new.lines[place] = outcome, lines
        inner = first_character(new.data, begin, used), last_character(new.data, begin, used)
        new.ragged[place] = used > begin and inner != (begin, used)
    new.offsets[rows.size] = used
    return used


def clean_lines(offsets: Offsets, data: Bytes, rows: Rows, rules: LineRules) -> Cleaned:
    r"""Take lines out of the texts numbered ``rows``.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        rows: numbers of texts.
        rules: which lines go.

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
    marks = np.zeros(256, np.bool_)
    marks[list(rules.end_marks.encode("ascii"))] = True
    wanted = _FILLER * rules.filler | _SCRIPT * rules.script | _POLICY * rules.policy
    limits = _Limits(
        rules.min_words,
        rules.max_word_length,
        not rules.end_marks,
        marks,
        rules.words_before,
        rules.citations,
        wanted,
        rules.curly,
    )
    used = _clean(layout, rows, limits, new)
    return new._replace(data=new.data[:used])


class Spoken(NamedTuple):
    """The words of texts, by the runs of characters between whitespace.

    ``runs`` holds these by number; the words of run ``r`` are ``parts[firsts[r]:firsts[r + 1]]``, and ``traits`` the
    bits of each word: ``ending`` for a mark that ends a sentence, ``punctual`` for a word of punctuation alone.
    """

    runs: Numbered
    firsts: Ints
    parts: Places
    traits: Bytes
    ending: int
    punctual: int


@njit(**INLINE)
def _gap(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar]:
    """Whether whitespace, up to the first newline, is more than the one space after a word; and has a newline."""
    end = start
    while end < stop and data[end] != _NEWLINE:
        end += 1
    return end > start + 1 or (end == start + 1 and data[start] != _SPACE), end < stop


@njit(**OPTIONS)
def _sentences(layout: tuple[Offsets, Bytes], words: Spoken, out: Ints) -> None:
    offsets, data = layout
    rows = offsets.size - 1
    bounds = np.empty(longest(offsets, np.arange(rows)) + 9, np.int64)
    for row in range(rows):
        free, stop = offsets[row], offsets[row + 1]
        count = find_words(data, free, stop, bounds)
        seen = False
        for run in range(count + 1):
            blank, newline = _gap(data, free, bounds[2 * run] if run < count else stop)
            out[row] += run > 0 and blank and seen
            seen &= not blank and not newline
            if run == count:
                break
            number = words.runs.numbers[words.runs.begins[row] + run]
            for part in range(words.firsts[number], words.firsts[number + 1]):
                kind = words.traits[words.parts[part]]
                if kind & words.ending:
                    seen = True
                elif seen and not kind & words.punctual:
                    out[row] += 1
                    seen = False
            free = bounds[2 * run + 1]


def sentence_signals(offsets: Offsets, data: Bytes, words: Spoken) -> npt.NDArray[np.int64]:
    """How often a sentence begins within a line of each text, as spaCy's sentencizer has it: not at its begin.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        words: of all texts.
    """
    out = np.zeros(len(offsets) - 1, np.int64)
    runs = Numbered(*(frozen(values, values.dtype) for values in words.runs))
    read = Spoken(
        runs,
        frozen(words.firsts, np.int64),
        frozen(words.parts, np.int32),
        frozen(words.traits, np.uint8),
        words.ending,
        words.punctual,
    )
    _sentences((frozen(offsets, np.int64), frozen(data, np.uint8)), read, out)
    return out
