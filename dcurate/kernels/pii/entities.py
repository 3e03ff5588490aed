"""The entity at a place of a text: which bytes may begin one, and what it is."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.layout import Bytes, Scalar
from dcurate.kernels.pii.accounts import card_end, iban_end, social_security_end
from dcurate.kernels.pii.alphabet import (
    AT,
    CLASS,
    COLON,
    DIGIT,
    DOT,
    INNER,
    LETTER,
    PLUS,
    SPACE,
    WORD,
    in_class,
    is_byte,
)
from dcurate.kernels.pii.context import VERSION, announced_at_once
from dcurate.kernels.pii.emails import email_at, password_at
from dcurate.kernels.pii.groups import DigitGroups, read_groups
from dcurate.kernels.pii.networks import is_public_v4, v4_at, v6_at
from dcurate.kernels.pii.phones import phone_at
from dcurate.kernels.pii.secrets import SECRET_BYTES, bot_token_at, secret_at

#: Numbers of `dcurate.kernels.pii.scan.KINDS`.
EMAIL, PHONE, IP, CARD, IBAN, SSN, SECRET = range(7)
#: Kinds that consist of groups of digits, as bits.
GROUPED = 1 << PHONE | 1 << CARD | 1 << SSN

#: What each byte may begin or be the middle of; 0 for nothing.
NUMBER, SIGN, AT_SIGN, COLON_SIGN = 1, 2, 3, 4
ROLE = np.zeros(256, np.uint8)
ROLE[list(SECRET_BYTES)] = SIGN
ROLE[list(b"0123456789")] = NUMBER
ROLE[AT] = AT_SIGN
ROLE[COLON] = COLON_SIGN
#: What may follow the first group of digits of a number of several groups: a mark, or the first byte of one.
_MARK = np.array([byte in b" -./()\xc2\xe2" for byte in range(256)])
_SHORTEST_RUN = 7
#: With which digits by themselves a telephone number begins: 1-800, 8 (800), 0 801; others need a plus sign.
_BEGINS = np.array([byte in b"018" for byte in range(256)])

Span = tuple[int, int, int]
Options = tuple[int, bool]


@njit(**INNER)
def digits_end(data: Bytes, at: int, stop: int) -> Scalar:
    """End of the digits of which the first is at ``at``."""
    run = at + 1
    while run < stop and CLASS[data[run]] & DIGIT:
        run += 1
    return run


@njit(**INNER)
def may_be_grouped(data: Bytes, begin: int, at: int, run: int, stop: int) -> Scalar:
    """Whether the digits from ``at`` to ``run`` may begin a card, social security or telephone number."""
    several = run < stop and _MARK[data[run]]
    if several and data[run] == SPACE and run + 1 < stop and CLASS[data[run + 1]] & LETTER:
        several = False
    lone = run - at == 1 and not _BEGINS[data[at]] and not is_byte(data, begin, at - 1, stop, PLUS)
    return not lone and (several or run - at >= _SHORTEST_RUN)


@njit(**INNER)
def _dotted_at(data: Bytes, span: Span, at: int, options: Options) -> tuple[Scalar, Scalar]:
    """Kind and end of four numbers separated by dots at ``at``; the end is ``at`` if there are none."""
    begin, stop, _ = span
    wanted, public = options
    address, end = v4_at(data, begin, at, stop)
    if address < 0:
        return -1, at
    hidden = not (wanted >> IP) & 1 or (public and not is_public_v4(address))
    return (-1, end) if hidden or announced_at_once(data, begin, at) & VERSION else (IP, end)


@njit(**INNER)
def account_at(
    data: Bytes, span: Span, at: int, options: Options, groups: DigitGroups
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Kind, start and end of the entity starting with the digit at ``at``, unless it is a telephone number.

    Without one the kind is -1, and the end is where to continue.

    Args:
        span: where the text begins and ends, and from where on it is free.
        options: kinds as bits, and whether only public IP addresses count.
        groups: those of a number that may be a telephone number are written there; the fourth result is how many.
    """
    begin, stop, free = span
    wanted = options[0]
    run = digits_end(data, at, stop)
    if in_class(data, begin, at - 1, stop, WORD):
        end = iban_end(data, begin, at, stop) if (wanted >> IBAN) & 1 and at - 2 >= free else at
        return (IBAN, at - 2, end, 0) if end > at else (-1, run, run, 0)
    if run - at <= 3 and is_byte(data, begin, run, stop, DOT) and in_class(data, begin, run + 1, stop, DIGIT):
        kind, end = _dotted_at(data, span, at, options)
        if end > at:
            return kind, at, end, 0
    if wanted & GROUPED == 0 or not may_be_grouped(data, begin, at, run, stop):
        return -1, run, run, 0
    count = read_groups(data, at, stop, groups)
    end = card_end(data, begin, stop, groups, count) if (wanted >> CARD) & 1 else at
    if end > at:
        return CARD, at, end, 0
    end = social_security_end(data, begin, stop, groups, count) if (wanted >> SSN) & 1 else at
    if end > at:
        return SSN, at, end, 0
    return -1, run, run, count


@njit(**INNER)
def number_at(data: Bytes, span: Span, at: int, options: Options, groups: DigitGroups) -> tuple[Scalar, Scalar, Scalar]:
    """Kind, start and end of the entity starting with the digit at ``at``; kind -1, and where to continue, if none."""
    begin, stop, free = span
    kind, start, end, count = account_at(data, span, at, options, groups)
    if count and (options[0] >> PHONE) & 1:
        first, last = phone_at(data, begin, stop, groups, count)
        if last > first >= free:
            return PHONE, first, last
    return kind, start, end


@njit(**INNER)
def sign_at(data: Bytes, span: Span, at: int, options: Options) -> tuple[Scalar, Scalar, Scalar]:
    """The same for a byte that is not a digit."""
    stop, free = span[1], span[2]
    wanted, public = options
    role = ROLE[data[at]]
    if role == AT_SIGN:
        start, end = password_at(data, free, at) if (wanted >> SECRET) & 1 else (at, at)
        if end > start:
            return SECRET, start, end
        start, end = email_at(data, span, at) if (wanted >> EMAIL) & 1 else (at, at)
        if end > start:
            return EMAIL, start, end
    elif role == COLON_SIGN:
        start, end = bot_token_at(data, span, at) if (wanted >> SECRET) & 1 else (at, at)
        if end > start:
            return SECRET, start, end
        if (wanted >> IP) & 1 and at + 1 < stop and data[at + 1] > SPACE:
            start, end, known = v6_at(data, span, at)
            if end > start:
                return (IP, start, end) if known or not public else (-1, end, end)
    elif (wanted >> SECRET) & 1:
        start, end = secret_at(data, span, at)
        if end > start:
            return SECRET, start, end
    return -1, at + 1, at + 1
