"""Detect URLs and e-mail addresses as in spaCy's tokenizer."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import INLINE, OPTIONS, Scalar
from dcurate.kernels.runs import ALNUM, DECIMAL, LABEL, LOWER, Run

NO, YES, UNKNOWN = 0, 1, 2
_DOT, _DASH, _COLON, _AT, _SLASH, _SCORE, _PLUS = 0x2E, 0x2D, 0x3A, 0x40, 0x2F, 0x5F, 0x2B
_LONGEST_LABEL, _LONGEST_END = 64, 63


@njit(**INLINE)
def _ends(run: Run, at: int, stop: int) -> Scalar:
    """Whether the host name is followed by nothing or a path; a port may precede it."""
    if at < stop and run.points[at] == _COLON:
        end = at + 1
        while end < stop and run.kinds[end] & DECIMAL:
            end += 1
        if 2 <= end - at - 1 <= 5:
            at = end
    return at == stop or run.points[at] in (_SLASH, 0x3F, 0x23)


@njit(**INLINE)
def _numeric(run: Run, at: int, stop: int) -> Scalar:
    """Whether there are four groups of at most three digits, or the beginning of the fourth."""
    for _ in range(3):
        end = at
        while end < stop and end < at + 3 and run.kinds[end] & DECIMAL:
            end += 1
        if end in (at, stop) or run.points[end] != _DOT:
            return False
        at = end + 1
    return at < stop and run.kinds[at] & DECIMAL != 0


@njit(**INLINE)
def _named(run: Run, at: int, stop: int) -> Scalar:
    """Whether there is a host name: labels with full stops, the last of two letters or more."""
    labels = 0
    while at < stop:
        end = at
        while end < stop and (run.kinds[end] & LABEL or run.points[end] in (_DASH, _SCORE)):
            end += 1
        top = at
        while labels and top < stop and run.kinds[top] & LOWER:
            top += 1
        if labels and 2 <= top - at <= _LONGEST_END and _ends(run, top, stop):
            return True
        is_label = 0 < end - at <= _LONGEST_LABEL and run.kinds[at] & LABEL and run.kinds[end - 1] & LABEL
        if not is_label or end == stop or run.points[end] != _DOT:
            return False
        labels += 1
        at = end + 1
    return False


@njit(**INLINE)
def _host(run: Run, at: int, stop: int) -> Scalar:
    if _numeric(run, at, stop):
        return UNKNOWN
    return YES if _named(run, at, stop) else NO


@njit(**INLINE)
def _behind_scheme(run: Run, start: int, stop: int) -> Scalar:
    """The offset after ``scheme://``, or -1."""
    at = start
    while at < stop and (run.kinds[at] & ALNUM or run.points[at] in (_SCORE, _PLUS, _DASH, _DOT)):
        at += 1
    if at - start < 2 or at + 3 > stop or run.points[at] != _COLON:
        return -1
    return at + 3 if run.points[at + 1] == _SLASH and run.points[at + 2] == _SLASH else -1


@njit(**INLINE)
def _has_dot(run: Run, start: int, stop: int) -> Scalar:
    for at in range(start, stop):  # noqa: SIM110 - a loop compiles to less than a generator
        if run.points[at] == _DOT:
            return True
    return False


@njit(**OPTIONS)
def address(run: Run, start: int, stop: int) -> Scalar:
    """Whether a string is a URL or e-mail address: `NO`, `YES`, or `UNKNOWN` if the host is digits."""
    if not _has_dot(run, start, stop):
        return np.int64(NO)
    verdict = _host(run, start, stop)
    after = _behind_scheme(run, start, stop)
    if verdict == NO and after >= 0:
        verdict = _host(run, after, stop)
    at = start + 1
    while verdict == NO and at < stop:
        if run.points[at] == _AT:
            verdict = _host(run, at + 1, stop)
        at += 1
    return np.int64(verdict)
