"""Personal data in texts, found in one pass over their bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, frozen
from dcurate.kernels.pii.entities import NUMBER, ROLE, number_at, sign_at
from dcurate.kernels.pii.groups import DigitGroups, new_groups
from dcurate.kernels.pii.steps import count_on_gpu
from dcurate.kernels.signal import with_gpu

#: What can be found, in the order of its numbers.
KINDS = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "SECRET")


class PiiSpans(NamedTuple):
    """Spans of personal data: text ``i`` has the spans from ``bounds[i]`` to ``bounds[i + 1]``, in order.

    ``starts`` and ``stops`` are places in the data of the column, ``kinds`` numbers of `KINDS`. No two overlap.
    """

    bounds: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int16]


@njit(**INLINE)
def _next_in(
    data: Bytes, span: tuple[int, int, int], options: tuple[int, bool], groups: DigitGroups
) -> tuple[Scalar, Scalar, Scalar]:
    """Kind, start and end of the next entity in a text; kind -1 at the end."""
    begin, stop, free = span
    at = free
    while at < stop:
        role = ROLE[data[at]]
        if role == 0:
            at += 1
            continue
        if role == NUMBER:
            kind, start, at = number_at(data, (begin, stop, free), at, options, groups)
        else:
            kind, start, at = sign_at(data, (begin, stop, free), at, options)
        if kind >= 0:
            return kind, start, at
    return -1, stop, stop


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
    def on_cpu(some: Rows) -> Ints:
        assert column.host is not None
        return np.diff(find_pii(column.offsets, column.host, some, kinds, public).bounds)

    return count_on_gpu(column, rows, (int(kinds), bool(public)), on_cpu)


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
        starts, stops, span_kinds = (
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int16),
        )
        count = _scan(layout, numbers, options, bounds, (starts, stops, span_kinds))
        if count <= capacity:
            return PiiSpans(bounds, starts[:count], stops[:count], span_kinds[:count])
        capacity = count
