"""Which of the lines of a text go that many pages of a site share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Scalar, frozen
from dcurate.kernels.segments import first_character, last_character
from dcurate.kernels.unicode import count_characters
from dcurate.kernels.units import Spans

Mask = npt.NDArray[np.bool_]

_TAB, _SPACE, _BAR, _HASH, _TILDE, _BACKTICK, _DOLLAR = np.frombuffer(b"\t |#~`$", np.uint8)
_DASH, _STAR, _PLUS, _ZERO, _NINE = np.frombuffer(b"-*+09", np.uint8)
#: Characters of a fence, and spaces from which on a line is code.
_FENCE, _INDENT = 3, 4


class _Lines(NamedTuple):
    """Lines of texts, as in `Spans`, and which of them many pages share."""

    bounds: Ints
    starts: Ints
    stops: Ints
    shared: Mask


@njit(**INLINE)
def _fence(data: Bytes, first: int, last: int) -> tuple[Scalar, Scalar]:
    """Return the character and the length of the fence that a line begins with; 0 for another line."""
    mark = data[first]
    if mark not in (_BACKTICK, _TILDE, _DOLLAR):
        return 0, 0
    at = first
    while at < last and data[at] == mark:
        at += 1
    if at - first < (2 if mark == _DOLLAR else _FENCE):
        return 0, 0
    return mark, at - first


@njit(**INLINE)
def _is_indented(data: Bytes, start: int, first: int) -> Scalar:
    """Whether a line is indented as code is: by a tab or four spaces, without the mark of a list."""
    mark = data[first]
    listed = mark in (_DASH, _STAR, _PLUS) or _ZERO <= mark <= _NINE
    return first > start and (data[start] == _TAB or first - start >= _INDENT) and not listed


@njit(**OPTIONS)
def _unprotected(data: Bytes, lines: _Lines, text: int, out: Mask) -> None:
    """Mark the shared lines of a text that are outside of code, formulas and tables."""
    mark, length = 0, 0
    for line in range(lines.bounds[text], lines.bounds[text + 1]):
        first = first_character(data, lines.starts[line], lines.stops[line])
        last = last_character(data, first, lines.stops[line])
        fence, row = _fence(data, first, last)
        if mark:
            if fence == mark and row >= length and first + row == last:
                mark = 0
            continue
        if fence and not (fence == _DOLLAR and last - first > row):
            mark, length = fence, row
            continue
        table = data[first] == _BAR
        out[line] = lines.shared[line] and not (fence or table or _is_indented(data, lines.starts[line], first))


@njit(**OPTIONS)
def _gone(data: Bytes, lines: _Lines, min_chars: int, gone: Mask) -> None:
    for text in range(lines.bounds.size - 1):
        begin, end = lines.bounds[text], lines.bounds[text + 1]
        _unprotected(data, lines, text, gone)
        line = begin
        while line < end:
            if not gone[line]:
                line += 1
                continue
            run, characters = line, 0
            while line < end and gone[line]:
                first = first_character(data, lines.starts[line], lines.stops[line])
                characters += count_characters(data, first, last_character(data, first, lines.stops[line]))
                line += 1
            goes = run == begin or line == end or characters >= min_chars
            if not goes:
                gone[run:line] = False
            at = line - 1
            while goes and line < end and at >= run:
                if data[first_character(data, lines.starts[at], lines.stops[at])] != _HASH:
                    break
                gone[at] = False
                at -= 1


def lines_that_go(offsets: Offsets, data: Bytes, lines: Spans, shared: Mask, min_chars: int) -> Mask:
    r"""Return which lines of texts go: those in a run of shared lines at the beginning or end, or in a long run.

    Lines of code, formulas and tables stay: those in fences of Markdown (backticks, tildes, or ``$$``), those that
    begin with ``|``, and those indented as code. Headings of Markdown at the end of a run stay where text follows.

    Args:
        offsets: where each text begins in ``data``.
        data: UTF-8.
        lines: lines of these texts.
        shared: mask of the lines that many pages share.
        min_chars: characters from which on a run within a text goes.

    Examples:
        >>> from dcurate.kernels.folding import folding
        >>> from dcurate.kernels.units import LINE, SpanLimits, SpanRule, marks_of, unit_spans
        >>> text = b"Home\nA text.\nNote\nAnother.\nImprint\n"
        >>> column = np.array([0, len(text)]), np.frombuffer(text, np.uint8)
        >>> lines = unit_spans(*column, SpanRule(LINE, folding(frozenset()), marks_of(".", "")), SpanLimits(1, 0, 0))
        >>> lines_that_go(*column, lines, np.array([True, False, True, False, True]), 20).tolist()
        [True, False, False, False, True]
    """
    gone = np.zeros(len(lines.starts), np.bool_)
    bounds, starts, stops = (frozen(array, np.int64) for array in lines[:3])
    whole = _Lines(bounds, starts, stops, frozen(shared, np.bool_))
    _gone(frozen(data, np.uint8), whole, min_chars, gone)
    return gone
