"""E-mail addresses, and passwords in URLs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.alphabet import (
    ALNUM,
    CLASS,
    COLON,
    DOT,
    HYPHEN,
    INNER,
    LETTER,
    LOCAL,
    SLASH,
    SPACE,
    UNDERSCORE,
    is_byte,
    two_byte_letter,
)

#: RFC 5321: the longest local part and the longest domain.
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 253
_LONGEST_USERINFO = 256
_BITS = 11
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - _BITS)
_STEP = np.uint64(0x100000001B3)
_LOWER = np.uint64(0x20)
_X, _N = b"xn"
_GIT = int.from_bytes(b"git", "big")
_QUOTES = np.array([byte in b'"<>`{}()[]' for byte in range(256)])


def _top_level_domains() -> np.ndarray:
    """The ASCII top-level domains of the root zone, as a hash table."""
    table = np.zeros(1 << _BITS, np.uint64)
    for name in (Path(__file__).parent / "tlds.txt").read_text(encoding="ascii").split():
        value = 0
        for byte in name.encode():
            value = (value ^ byte) * int(_STEP) % 2**64
        slot = value * int(_FACTOR) % 2**64 >> int(_SHIFT)
        while table[slot]:
            slot = (slot + 1) % len(table)
        table[slot] = value
    return table


_TOP_LEVEL = _top_level_domains()


@njit(**INNER)
def _is_top_level(data: Bytes, start: int, stop: int) -> Scalar:
    """Whether a label is a top-level domain: in the table, non-ASCII, or ``xn--``."""
    if stop - start < 2:
        return False
    if stop - start > 4 and data[start] | 0x20 == _X and data[start + 1] | 0x20 == _N and data[start + 2] == HYPHEN:
        return True
    value = np.uint64(0)
    for at in range(start, stop):
        if data[at] >= 0x80:
            return True
        if CLASS[data[at]] & LETTER == 0:
            return False
        value = (value ^ (np.uint64(data[at]) | _LOWER)) * _STEP
    slot = np.int64((value * _FACTOR) >> _SHIFT)
    known = _TOP_LEVEL  # once: a CUDA kernel has a copy of a table for each use of its name
    while known[slot] != 0:
        if known[slot] == value:
            return True
        slot = (slot + 1) & (known.size - 1)
    return False


@njit(**INNER)
def _domain_character(data: Bytes, at: int, stop: int) -> Scalar:
    """Bytes of the letter or digit at ``at``; 0 if there is none."""
    if at >= stop:
        return 0
    if CLASS[data[at]] & ALNUM:
        return 1
    return 2 if two_byte_letter(data, at, stop) else 0


@njit(**INNER)
def _domain_end(data: Bytes, start: int, stop: int) -> Scalar:
    """End of the domain starting at ``start``; ``start`` if there is none."""
    at = label = start
    while at < stop and at - start <= _LONGEST_DOMAIN:
        width = _domain_character(data, at, stop)
        if width:
            at += width
        elif data[at] == HYPHEN and at > label:
            at += 1
        elif data[at] == DOT and at > label and data[at - 1] != HYPHEN and _domain_character(data, at + 1, stop):
            at += 1
            label = at
        else:
            break
    while at > start and data[at - 1] == HYPHEN:
        at -= 1
    # "john@site.com.Then" has lost a space: what follows a top-level domain and is none is left behind.
    while label > start and not _is_top_level(data, label, at):
        at = label - 1
        label = at
        while label > start and data[label - 1] != DOT:
            label -= 1
    return at if label > start and at - start <= _LONGEST_DOMAIN else start


@njit(**INNER)
def _local_start(data: Bytes, free: int, at: int) -> Scalar:
    """Start of the local part before the ``@`` at ``at``; ``at`` if there is none."""
    start = at
    while start > free and at - start <= _LONGEST_LOCAL:
        if CLASS[data[start - 1]] & LOCAL:
            start -= 1
        elif start - 2 >= free and 0x80 <= data[start - 1] < 0xC0 and two_byte_letter(data, start - 2, at):
            start -= 2
        else:
            break
    if at - start > _LONGEST_LOCAL:
        return at
    for step in range(at - 1, start, -1):
        if data[step] == DOT and data[step - 1] == DOT:
            start = step + 1
            break
    while start < at and CLASS[data[start]] & (ALNUM | UNDERSCORE) == 0 and data[start] < 0x80:
        start += 1
    return start


@njit(**INNER)
def email_at(data: Bytes, span: tuple[int, int, int], at: int) -> tuple[Scalar, Scalar]:
    """Start and end of the e-mail address around the ``@`` at ``at``; twice ``at`` if there is none.

    Args:
        span: where the text begins and ends, and from where on it is free.
    """
    begin, stop, free = span
    start = _local_start(data, free, at)
    if start == at:
        return at, at
    if is_byte(data, begin, start - 1, stop, SLASH) and is_byte(data, begin, start - 2, stop, SLASH):
        return at, at  # ssh://user@host
    if at - start == 3 and (np.int64(data[start]) << 16 | np.int64(data[start + 1]) << 8 | data[start + 2]) == _GIT:
        return at, at  # git@github.com:owner/name
    end = _domain_end(data, at + 1, stop)
    if end == at + 1:
        return at, at
    return start, end


@njit(**INNER)
def password_at(data: Bytes, free: int, at: int) -> tuple[Scalar, Scalar]:
    """Start and end of the password in ``https://user:password@host``, whose ``@`` is at ``at``; or twice ``at``."""
    colon = -1
    step = at - 1
    while step >= free + 2 and at - step < _LONGEST_USERINFO and data[step] > SPACE and not _QUOTES[data[step]]:
        if data[step] == COLON:
            colon = step
        if data[step] == SLASH:
            scheme = data[step - 1] == SLASH and data[step - 2] == COLON
            return (colon + 1, at) if scheme and step < colon < at - 1 else (at, at)
        step -= 1
    return at, at
