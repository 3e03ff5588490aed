"""Count and measure comments in source code, by the lexical rules of a family of languages.

The rules are those of the package comment_parser 1.2.4, bugs included (an escaped quotation mark ends a string of C):
thresholds in use were tuned on its counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, Bytes, Ints, Scalar
from dcurate.kernels.signal import columns, signal
from dcurate.kernels.unicode import count_characters

#: Families of languages with the same comment syntax.
C, JAVASCRIPT, GO, SHELL, RUBY, MARKUP = range(6)

_NEWLINE, _DOUBLE, _HASH, _SINGLE, _STAR, _DASH, _SLASH = 0x0A, 0x22, 0x23, 0x27, 0x2A, 0x2D, 0x2F
_LESS, _GREATER, _BACKSLASH, _BACKTICK, _BANG = 0x3C, 0x3E, 0x5C, 0x60, 0x21


class CommentSignals(NamedTuple):
    """The comments of each text: their number, their characters without markers, and whether one is not closed.

    In a text with an unclosed comment, only the part before it is counted.
    """

    total: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int64]
    unended: npt.NDArray[np.int64]


@njit(**INLINE)
def _line_end(data: Bytes, at: int, stop: int) -> Scalar:
    while at < stop and data[at] != _NEWLINE:
        at += 1
    return at


@njit(**INLINE)
def _is_at(data: Bytes, at: int, stop: int, first: int, second: int) -> Scalar:
    return at + 1 < stop and data[at] == first and data[at + 1] == second


@njit(**INLINE)
def _star_slash(data: Bytes, at: int, stop: int) -> Scalar:
    """The position of the next ``*/``, or -1."""
    while at + 1 < stop:
        if data[at] == _STAR and data[at + 1] == _SLASH:
            return at
        at += 1
    return -1


@njit(**INLINE)
def _arrow(data: Bytes, at: int, stop: int) -> Scalar:
    """The position of the next ``-->``, or -1."""
    while at + 2 < stop:
        if data[at] == _DASH and data[at + 1] == _DASH and data[at + 2] == _GREATER:
            return at
        at += 1
    return -1


@njit(**INLINE)
def _past_line_string(data: Bytes, at: int, stop: int) -> Scalar:
    """Skip the string at this position if it ends on its line, otherwise its quotation mark."""
    end = at + 1
    while end < stop and data[end] != _NEWLINE:
        if data[end] == _DOUBLE:
            return end + 1
        end += 1
    return at + 1


@njit(**INLINE)
def _past_string(data: Bytes, at: int, stop: int) -> Scalar:
    """Skip the string at this position, on any number of lines; a backslash escapes."""
    quote = data[at]
    at += 1
    while at < stop and data[at] != quote:
        at += 2 if data[at] == _BACKSLASH else 1
    return at + 1


@njit(**INLINE)
def _past_ruby_string(data: Bytes, at: int, stop: int) -> Scalar:
    """Skip the string at this position if it ends on its line.

    It ends at the first quotation mark that no backslash precedes; without one, at the last of its line.
    """
    quote, end, last = data[at], at + 1, at
    while end < stop and data[end] != _NEWLINE:
        if data[end] == quote:
            last = end
            if data[end - 1] != _BACKSLASH:
                break
        end += 1
    return last + 1


@njit(**INLINE)
def _slashed(data: Bytes, start: int, stop: int, family: int) -> tuple[Scalar, Scalar, Scalar]:
    """Comments of C, JavaScript and Go: from ``//`` to the end of the line, and from ``/*`` to ``*/``."""
    total = characters = np.int64(0)
    at = start
    while at < stop:
        byte = data[at]
        if byte == _SLASH:
            if _is_at(data, at, stop, _SLASH, _SLASH):
                end = _line_end(data, at + 2, stop)
                after = end
            elif _is_at(data, at, stop, _SLASH, _STAR):
                end = _star_slash(data, at + 2, stop)
                if end < 0:
                    return total, characters, np.int64(1)
                after = end + 2
            else:
                at += 1 if family == C else 2
                continue
            total += 1
            characters += count_characters(data, at + 2, end)
            at = after
        elif family == C:
            at = _past_line_string(data, at, stop) if byte == _DOUBLE else at + 1
        elif byte in (_DOUBLE, _SINGLE) or (byte == _BACKTICK and family == GO):
            at = _past_string(data, at, stop)
        else:
            at += 1
    return total, characters, np.int64(0)


@njit(**INLINE)
def _hashed(data: Bytes, start: int, stop: int, family: int) -> tuple[Scalar, Scalar]:
    """Comments of the shell and Ruby: from ``#`` to the end of the line."""
    total = characters = np.int64(0)
    at = start
    while at < stop:
        byte = data[at]
        if byte == _HASH:
            end = _line_end(data, at + 1, stop)
            total += 1
            characters += count_characters(data, at + 1, end)
            at = end
        elif byte in (_DOUBLE, _SINGLE):
            at = _past_string(data, at, stop) if family == SHELL else _past_ruby_string(data, at, stop)
        else:
            at += 2 if byte == _BACKSLASH and family == SHELL else 1
    return total, characters


@njit(**INLINE)
def _marked_up(data: Bytes, start: int, stop: int) -> tuple[Scalar, Scalar, Scalar]:
    """Comments of HTML and XML: from ``<!--`` to ``-->``."""
    total = characters = np.int64(0)
    at = start
    while at < stop:
        if data[at] == _DOUBLE:
            at = _past_line_string(data, at, stop)
        elif _is_at(data, at, stop, _LESS, _BANG) and _is_at(data, at + 2, stop, _DASH, _DASH):
            end = _arrow(data, at + 4, stop)
            if end < 0:
                return total, characters, np.int64(1)
            total += 1
            characters += count_characters(data, at + 4, end)
            at = end + 3
        else:
            at += 1
    return total, characters, np.int64(0)


@njit(**INLINE)
def measure_comments(data: Bytes, span: tuple[int, int], family: int, scratch: Bytes, out: Ints) -> None:
    """Measure the comments of one text, as in `CommentSignals`."""
    start, stop = span
    unended = np.int64(0)
    if family <= GO:
        total, characters, unended = _slashed(data, start, stop, family)
    elif family <= RUBY:
        total, characters = _hashed(data, start, stop, family)
    else:
        total, characters, unended = _marked_up(data, start, stop)
    out[0], out[1], out[2] = total, characters, unended


@signal(measure_comments, columns(CommentSignals))
def comment_signals(family: int) -> int:
    r"""Find the comments of source code in a language of a family.

    Examples:
        >>> text = b"int i; // one\n/* two */ /* three"
        >>> signals = comment_signals(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), C)
        >>> [int(count[0]) for count in signals]
        [2, 9, 1]
    """
    return family
