"""Personal data in texts, found in one pass over their bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn, TextFunction, launch
from dcurate.kernels.cuda_scratch import Scratch
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, frozen
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
from dcurate.kernels.pii.groups import DigitGroups, group_scratch, new_groups, read_groups
from dcurate.kernels.pii.networks import is_public_v4, v4_at, v6_at
from dcurate.kernels.pii.phones import phone_at
from dcurate.kernels.pii.secrets import SECRET_BYTES, bot_token_at, secret_at
from dcurate.kernels.signal import with_gpu

#: What can be found, in the order of its numbers.
KINDS = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "SECRET")
_EMAIL, _PHONE, _IP, _CARD, _IBAN, _SSN, _SECRET = range(len(KINDS))
_ALL = (1 << len(KINDS)) - 1
_NUMBERS = 1 << _PHONE | 1 << _CARD | 1 << _SSN

_NUMBER, _SIGN, _AT, _COLON = 1, 2, 3, 4
_ROLE = np.zeros(256, np.uint8)
_ROLE[list(SECRET_BYTES)] = _SIGN
_ROLE[list(b"0123456789")] = _NUMBER
_ROLE[AT] = _AT
_ROLE[COLON] = _COLON
#: What may follow the first group of digits of a number of several groups: a mark, or the first byte of one.
_MARK = np.array([byte in b" -./()\xc2\xe2" for byte in range(256)])
_SHORTEST_RUN = 7
#: With which digits by themselves a telephone number begins: 1-800, 8 (800), 0 801; others need a plus sign.
_BEGINS = np.array([byte in b"018" for byte in range(256)])


class PiiSpans(NamedTuple):
    """Spans of personal data: text ``i`` has the spans from ``bounds[i]`` to ``bounds[i + 1]``, in order.

    ``starts`` and ``stops`` are places in the data of the column, ``kinds`` numbers of `KINDS`. No two overlap.
    """

    bounds: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int16]


@njit(**INNER)
def _dotted_at(data: Bytes, span: tuple[int, int, int], at: int, options: tuple[int, bool]) -> tuple[Scalar, Scalar]:
    """Kind and end of four numbers separated by dots at ``at``; the end is ``at`` if there are none."""
    begin, stop, _ = span
    wanted, public = options
    address, end = v4_at(data, begin, at, stop)
    if address < 0:
        return -1, at
    hidden = not (wanted >> _IP) & 1 or (public and not is_public_v4(address))
    return (-1, end) if hidden or announced_at_once(data, begin, at) & VERSION else (_IP, end)


@njit(**INNER)
def _number_at(
    data: Bytes, span: tuple[int, int, int], at: int, options: tuple[int, bool], groups: DigitGroups
) -> tuple[Scalar, Scalar, Scalar]:
    """Kind, start and end of the entity starting with the digit at ``at``; kind -1, and where to continue, if none."""
    begin, stop, free = span
    wanted = options[0]
    run = at + 1
    while run < stop and CLASS[data[run]] & DIGIT:
        run += 1
    if in_class(data, begin, at - 1, stop, WORD):
        end = iban_end(data, begin, at, stop) if (wanted >> _IBAN) & 1 and at - 2 >= free else at
        return (_IBAN, at - 2, end) if end > at else (-1, run, run)
    if run - at <= 3 and is_byte(data, begin, run, stop, DOT) and in_class(data, begin, run + 1, stop, DIGIT):
        kind, end = _dotted_at(data, span, at, options)
        if end > at:
            return kind, at, end
    several = run < stop and _MARK[data[run]]
    if several and data[run] == SPACE and run + 1 < stop and CLASS[data[run + 1]] & LETTER:
        several = False
    lone = run - at == 1 and not _BEGINS[data[at]] and not is_byte(data, begin, at - 1, stop, PLUS)
    if wanted & _NUMBERS == 0 or lone or (run - at < _SHORTEST_RUN and not several):
        return -1, run, run
    count = read_groups(data, at, stop, groups)
    end = card_end(data, begin, stop, groups, count) if (wanted >> _CARD) & 1 else at
    if end > at:
        return _CARD, at, end
    end = social_security_end(data, begin, stop, groups, count) if (wanted >> _SSN) & 1 else at
    if end > at:
        return _SSN, at, end
    if (wanted >> _PHONE) & 1:
        start, end = phone_at(data, begin, stop, groups, count)
        if end > start >= free:
            return _PHONE, start, end
    return -1, run, run


@njit(**INNER)
def _sign_at(
    data: Bytes, span: tuple[int, int, int], at: int, options: tuple[int, bool]
) -> tuple[Scalar, Scalar, Scalar]:
    """The same for a byte that is not a digit."""
    stop, free = span[1], span[2]
    wanted, public = options
    role = _ROLE[data[at]]
    if role == _AT:
        start, end = password_at(data, free, at) if (wanted >> _SECRET) & 1 else (at, at)
        if end > start:
            return _SECRET, start, end
        start, end = email_at(data, span, at) if (wanted >> _EMAIL) & 1 else (at, at)
        if end > start:
            return _EMAIL, start, end
    elif role == _COLON:
        start, end = bot_token_at(data, span, at) if (wanted >> _SECRET) & 1 else (at, at)
        if end > start:
            return _SECRET, start, end
        if (wanted >> _IP) & 1 and at + 1 < stop and data[at + 1] > SPACE:
            start, end, known = v6_at(data, span, at)
            if end > start:
                return (_IP, start, end) if known or not public else (-1, end, end)
    elif (wanted >> _SECRET) & 1:
        start, end = secret_at(data, span, at)
        if end > start:
            return _SECRET, start, end
    return -1, at + 1, at + 1


@njit(**INLINE)
def _next_in(
    data: Bytes, span: tuple[int, int, int], options: tuple[int, bool], groups: DigitGroups
) -> tuple[Scalar, Scalar, Scalar]:
    """Kind, start and end of the next entity in a text; kind -1 at the end."""
    begin, stop, free = span
    at = free
    while at < stop:
        role = _ROLE[data[at]]
        if role == 0:
            at += 1
            continue
        if role == _NUMBER:
            kind, start, at = _number_at(data, (begin, stop, free), at, options, groups)
        else:
            kind, start, at = _sign_at(data, (begin, stop, free), at, options)
        if kind >= 0:
            return kind, start, at
    return -1, stop, stop


@njit(**INLINE)
def count_pii(data: Bytes, span: tuple[int, int], options: tuple[int, bool], groups: DigitGroups, out: Ints) -> None:
    """Count the personal data in one text: kinds as bits, and whether only public IP addresses count."""
    begin, stop = span
    free = begin
    count = 0
    while free < stop:
        kind, _, free = _next_in(data, (begin, stop, free), options, groups)
        count += kind >= 0
    out[0] = count


@njit(**OPTIONS)
def _scan(
    layout: tuple[Offsets, Bytes], rows: Rows, options: tuple[int, bool], bounds: Ints, out: tuple[Ints, Ints, Bytes]
) -> Scalar:
    """Write the spans; returns their number, of which only those within the capacity are written."""
    offsets, data = layout
    starts, stops, kinds = out
    groups = new_groups()
    count = 0
    for place in range(rows.size):
        begin, stop = offsets[rows[place]], offsets[rows[place] + 1]
        free = begin
        while free < stop:
            kind, start, free = _next_in(data, (begin, stop, free), options, groups)
            if kind < 0:
                break
            if count < starts.size:
                starts[count], stops[count], kinds[count] = start, free, kind
            count += 1
        bounds[place + 1] = count
    return count


def _counts_on_gpu(column: CudaColumn, rows: Rows, kinds: int, public: bool) -> npt.NDArray[np.int64]:
    out = np.empty((len(rows), 1), np.int64)

    def on_cpu(long: Rows) -> npt.NDArray[np.int64]:
        assert column.host is not None
        return np.diff(find_pii(column.offsets, column.host, long, kinds, public).bounds)[:, None]

    function = TextFunction(count_pii, Scratch(group_scratch), on_cpu)
    launch(function, column, rows, (int(kinds), bool(public)), out=out)
    return out[:, 0]


@with_gpu(_counts_on_gpu)
def pii_counts(offsets: Offsets, data: Bytes, rows: Rows, kinds: int, public: bool) -> npt.NDArray[np.int64]:
    """The number of entities that `find_pii` finds in each of the texts numbered ``rows``.

    Examples:
        >>> text = b"jo@example.org, al@example.org"
        >>> pii_counts(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), 1, True).tolist()
        [2]
    """
    return np.diff(find_pii(offsets, data, rows, kinds, public).bounds)


def find_pii(
    offsets: Offsets, data: Bytes, rows: Rows, kinds: int = (1 << len(KINDS)) - 1, public: bool = True
) -> PiiSpans:
    """Find personal data in the texts numbered ``rows``.

    Args:
        kinds: bit ``n`` is ``KINDS[n]``.
        public: leave out IP addresses that the world cannot reach: private, reserved, or of documentation.

    Examples:
        >>> text = b"Mail jo@example.org or call +1 415 555 2671."
        >>> spans = find_pii(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]))
        >>> [(KINDS[kind], text[start:stop]) for start, stop, kind in zip(spans.starts, spans.stops, spans.kinds)]
        [('EMAIL_ADDRESS', b'jo@example.org'), ('PHONE_NUMBER', b'+1 415 555 2671')]
    """
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    numbers, options = frozen(rows, np.int64), (int(kinds), bool(public))
    bounds = np.zeros(rows.size + 1, np.int64)
    capacity = 1024 + rows.size
    while True:
        starts, stops, found = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.int16)
        count = _scan(layout, numbers, options, bounds, (starts, stops, found))
        if count <= capacity:
            return PiiSpans(bounds, starts[:count], stops[:count], found[:count])
        capacity = count
