"""IP addresses, and whether they are public."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.alphabet import (
    ALNUM,
    CLASS,
    COLON,
    DIGIT,
    DOT,
    HEX,
    HYPHEN,
    INNER,
    LETTER,
    WORD,
    ZERO,
    in_class,
    is_byte,
)

#: IPv4 networks that are not global (RFC 6890 and its registry), and those of groups of hosts: first and last address.
_RESERVED = np.array(
    [
        (0x00000000, 0x00FFFFFF),
        (0x01030601, 0x01030601),  # 1.3.6.1, with which most object identifiers begin
        (0x0A000000, 0x0AFFFFFF),
        (0x64400000, 0x647FFFFF),
        (0x7F000000, 0x7FFFFFFF),
        (0xA9FE0000, 0xA9FEFFFF),
        (0xAC100000, 0xAC1FFFFF),
        (0xC0000000, 0xC00000FF),
        (0xC0000200, 0xC00002FF),
        (0xC0A80000, 0xC0A8FFFF),
        (0xC6120000, 0xC613FFFF),
        (0xC6336400, 0xC63364FF),
        (0xCB007100, 0xCB0071FF),
        (0xE0000000, 0xFFFFFFFF),
    ],
    np.int64,
)
_UNICAST_FROM, _UNICAST_TO = 0x2000, 0x3FFF
_SITE_FROM = 0xFC00
# Numbers of groups before the double colon, of numba's own type; see `alphabet`.
_AT_FIRST, _NO_GAP = np.int64(0), np.int64(-1)


@njit(**INNER)
def is_public_v4(address: int) -> Scalar:
    """Whether an IPv4 address, as a number, is globally reachable."""
    for network in range(_RESERVED.shape[0]):  # noqa: SIM110 - a loop compiles to less than a generator
        if _RESERVED[network, 0] <= address <= _RESERVED[network, 1]:
            return False
    return True


@njit(**INNER)
def is_public_v6(first: int, second: int) -> Scalar:
    """The same for an IPv6 address, by its first two groups."""
    if not _UNICAST_FROM <= first <= _UNICAST_TO:
        return False
    documentation = (first == 0x2001 and second == 0x0DB8) or (first == 0x3FFF and second < 0x1000)
    orchid = first == 0x2001 and (second == 0x0002 or 0x0010 <= second <= 0x002F)
    return not documentation and not orchid


@njit(**INNER)
def read_v4(data: Bytes, at: int, stop: int) -> tuple[Scalar, Scalar]:
    """The IPv4 address starting at ``at`` and its end; -1 if there is none."""
    address = np.int64(0)
    for octet in range(4):
        start = at
        value = np.int64(0)
        while at < stop and at - start < 3 and CLASS[data[at]] & DIGIT:
            value = value * 10 + data[at] - ZERO
            at += 1
        if at == start or value > 255 or (at - start > 1 and data[start] == ZERO):
            return np.int64(-1), at
        address = (address << 8) | value
        if octet < 3:
            if at >= stop or data[at] != DOT:
                return np.int64(-1), at
            at += 1
    return address, at


@njit(**INNER)
def may_be_v4(data: Bytes, at: int, run: int, stop: int) -> Scalar:
    """Whether the digits from ``at`` to ``run`` may begin an IPv4 address: a second number and a dot follow."""
    if run - at > 3 or not is_byte(data, at, run, stop, DOT):
        return False
    place = run + 1
    while place - run <= 3 and in_class(data, at, place, stop, DIGIT):
        place += 1
    return place > run + 1 and is_byte(data, at, place, stop, DOT) and in_class(data, at, place + 1, stop, DIGIT)


@njit(**INNER)
def v4_at(data: Bytes, begin: int, at: int, stop: int) -> tuple[Scalar, Scalar]:
    """The IPv4 address starting with the digit at ``at``, and its end; -1 if there is none or it is part of more.

    A fifth number (``1.2.3.4.5``), a letter or a label (``v1.2.3.4``, ``1.2.3.4-beta``, ``lib-1.2.3.4``) make it a
    version.
    """
    none = np.int64(-1)
    if in_class(data, begin, at - 1, stop, WORD) or is_byte(data, begin, at - 1, stop, DOT):
        return none, at
    if is_byte(data, begin, at - 1, stop, HYPHEN) and in_class(data, begin, at - 2, stop, LETTER):
        return none, at
    address, end = read_v4(data, at, stop)
    if address < 0 or in_class(data, begin, end, stop, WORD):
        return none, at
    if is_byte(data, begin, end, stop, DOT) and in_class(data, begin, end + 1, stop, ALNUM):
        return none, at
    if is_byte(data, begin, end, stop, HYPHEN) and in_class(data, begin, end + 1, stop, ALNUM):
        following, _ = read_v4(data, end + 1, stop)
        if following < 0:
            return none, at
    return address, end


@njit(**INNER)
def _hex_value(byte: int) -> Scalar:
    return np.int64(byte - ZERO if byte <= 0x39 else (byte | 0x20) - 0x57)


class _Address(NamedTuple):
    """A parsed IPv6 address.

    Attributes:
        end: where it ends.
        groups: how many there are; more than 8 if it is none.
        gap: number of groups before the double colon; -1 without one.
        first: the first group, and ``second`` the next.
        mapped: whether all groups before an IPv4 address are ``ffff``.
        address: IPv4 address; -1 without one.
        digits: how many decimal digits there are.
    """

    end: Scalar
    groups: Scalar
    gap: Scalar
    first: Scalar
    second: Scalar
    mapped: Scalar
    address: Scalar
    digits: Scalar


@njit(**INNER)
def _hex_group(data: Bytes, at: int, stop: int) -> tuple[Scalar, Scalar, Scalar]:
    """End of the hexadecimal digits at ``at``, their value, and how many of them are decimal; at most five."""
    end, value, digits = at, np.int64(0), np.int64(0)
    while end < stop and end - at < 5 and CLASS[data[end]] & HEX:
        value = (value << 4) | _hex_value(np.int64(data[end]))
        digits += CLASS[data[end]] & DIGIT
        end += 1
    return end, value, digits


@njit(**INNER)
def _read_v6(data: Bytes, at: int, stop: int, gap: int) -> _Address:
    """Read the groups from ``at`` on; they follow the double colon if ``gap`` is 0."""
    place, count, digits = at, 0, np.int64(0)
    first = second = np.int64(0)
    address = np.int64(-1)
    mapped = False
    while count < 8:
        end, value, decimal = _hex_group(data, place, stop)
        digits += decimal
        if end == place:
            break
        if count <= 6 and is_byte(data, place, end, stop, DOT):
            address, over = read_v4(data, place, stop)
            if address >= 0:
                count, place = count + 2, over
                break
        mapped = count == 0 and gap == 0 and value == 0xFFFF
        if gap != 0 and count == 0:
            first = value
        if gap < 0 and count == 1:
            second = value
        count += 1 if end - place <= 4 else 9
        place = end
        if is_byte(data, at, place, stop, COLON) and is_byte(data, at, place + 1, stop, COLON):
            count += 0 if gap < 0 else 9
            gap = count
            place += 2
        elif is_byte(data, at, place, stop, COLON) and in_class(data, at, place + 1, stop, HEX) and count < 8:
            place += 1
        else:
            break
    return _Address(place, count, gap, first, second, mapped, address, digits)


@njit(**INNER)
def may_be_v6(data: Bytes, span: tuple[int, int, int], at: int) -> Scalar:
    """Whether the colon at ``at`` may be the first of an IPv6 address: it follows four places, or precedes another."""
    _, stop, free = span
    if is_byte(data, free, at + 1, stop, COLON):
        return True
    for place in range(at - 4, at):  # noqa: SIM110 - a loop compiles to less than a generator
        if not in_class(data, free, place, stop, HEX):
            return False
    return True


@njit(**INNER)
def v6_at(data: Bytes, span: tuple[int, int, int], at: int) -> tuple[Scalar, Scalar, Scalar]:
    """Start and end of the IPv6 address around the first colon at ``at``, and whether it is public.

    Begin and end are the same where there is none. It needs a digit and a first group of four places, so that
    ``std::array`` and ``12:30:45`` are not taken for addresses. An IPv4 address in one (``::ffff:192.0.2.1``) decides.

    Args:
        span: where the text begins and ends, and from where on it is free.
    """
    begin, stop, free = span
    none = (at, at, False)
    start = at
    while start > free and at - start < 5 and CLASS[data[start - 1]] & HEX:
        start -= 1
    before = is_byte(data, begin, start - 1, stop, COLON) or is_byte(data, begin, start - 1, stop, DOT)
    if before or in_class(data, begin, start - 1, stop, WORD) or at - start not in (0, 4):
        return none
    double = is_byte(data, begin, at + 1, stop, COLON)
    if at == start and not double:
        return none
    read = _read_v6(data, at + 2, stop, _AT_FIRST) if at == start else _read_v6(data, start, stop, _NO_GAP)
    complete = read.groups == 8 if read.gap < 0 else 0 < read.groups < 8
    ninth = is_byte(data, begin, read.end, stop, COLON) and in_class(data, begin, read.end + 1, stop, HEX)
    if not complete or ninth or in_class(data, begin, read.end, stop, WORD):
        return none
    if read.address >= 0 and read.mapped and read.groups == 3:
        return start, read.end, is_public_v4(read.address)
    known = _UNICAST_FROM <= read.first <= _UNICAST_TO or read.first >= _SITE_FROM
    return (start, read.end, is_public_v6(read.first, read.second)) if known and read.digits else none
