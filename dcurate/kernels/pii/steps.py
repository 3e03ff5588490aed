"""Personal data counted on a GPU, by three kernels that take turns at each text.

One kernel for all kinds takes a compiler 13 CPU-seconds, most of them for functions that few places of a text need. So
each of three kernels goes through a text up to a place that another one is to judge, and notes where it stopped. A few
bytes rule out most of such places. A text goes from kernel to kernel at most once for each place that is left.
Results equal those of the CPU, bit by bit, where the code for the GPU runs on a CPU; untested on a GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.cuda import CudaColumn, TextFunction, launch
from dcurate.kernels.cuda_scratch import NO_SCRATCH, Scratch
from dcurate.kernels.layout import INLINE, Bytes, Ints, Rows, Scalar
from dcurate.kernels.pii.accounts import may_be_account, may_be_iban
from dcurate.kernels.pii.alphabet import INNER, SPACE, WORD, in_class
from dcurate.kernels.pii.entities import (
    AT_SIGN,
    COLON_SIGN,
    GROUPED,
    IBAN,
    IP,
    NUMBER,
    PHONE,
    ROLE,
    SECRET,
    Options,
    Span,
    account_at,
    digits_end,
    may_be_grouped,
    sign_at,
)
from dcurate.kernels.pii.groups import DigitGroups, group_scratch, read_groups
from dcurate.kernels.pii.networks import may_be_v4, may_be_v6
from dcurate.kernels.pii.phones import phone_at
from dcurate.kernels.pii.secrets import may_be_bot_token, may_be_secret

#: What is to be judged where a kernel stopped; a text of which nothing is known is done, too, and begins.
DONE, GROUPS, PHONES, ACCOUNTS, SIGNS = range(5)
#: Columns of the state of a text: finds, what is to be judged, where, and from where on it is free, in bytes of it.
COUNT, STEP, PLACE, FREE = range(4)
#: How often kernels take turns before a core finishes what is left, if the text is on the host.
TURNS = 16


@njit(**INNER)
def _may_be_sign(data: Bytes, span: Span, at: int, wanted: int) -> Scalar:
    """Whether the byte at ``at``, which is no digit, may be in an entity; a few bytes around it say."""
    role = ROLE[data[at]]
    if role == AT_SIGN:
        return at > span[2] and data[at - 1] > SPACE
    if role == COLON_SIGN:
        address = (wanted >> IP) & 1 and may_be_v6(data, span, at)
        return address or ((wanted >> SECRET) & 1 and may_be_bot_token(data, at, span[1]))
    return (wanted >> SECRET) & 1 and may_be_secret(data, span, at)


@njit(**INNER)
def _next_step(data: Bytes, span: Span, at: int, wanted: int) -> tuple[Scalar, Scalar]:
    """What is to be judged next in a text, and where."""
    begin, stop, free = span
    while at < stop:
        role = ROLE[data[at]]
        if role == NUMBER:
            run = digits_end(data, at, stop)
            if in_class(data, begin, at - 1, stop, WORD):
                if (wanted >> IBAN) & 1 and at - 2 >= free and may_be_iban(data, begin, at, stop):
                    return ACCOUNTS, at
            elif may_be_v4(data, at, run, stop):
                return ACCOUNTS, at
            elif wanted & GROUPED and may_be_grouped(data, begin, at, run, stop):
                return GROUPS, at
            at = run
        elif role and _may_be_sign(data, span, at, wanted):
            return SIGNS, at
        else:
            at += 1
    return DONE, stop


@njit(**INLINE)
def count_phones(data: Bytes, span: tuple[int, int], options: Options, groups: DigitGroups, out: Ints) -> None:
    """Go through a text that begins, or on from a number, up to what another kernel is to judge."""
    begin, stop = span
    wanted = options[0]
    step, at, free = out[STEP], begin + out[PLACE], begin + out[FREE]
    while True:
        if step:
            count = read_groups(data, at, stop, groups)
            if step == GROUPS and may_be_account(groups, count):
                step = ACCOUNTS
                break
            first, last = phone_at(data, begin, stop, groups, count) if (wanted >> PHONE) & 1 else (at, at)
            if last > first >= free:
                out[COUNT] += 1
                at = free = last
            else:
                at = digits_end(data, at, stop)
        step, at = _next_step(data, (begin, stop, free), at, wanted)
        if step != GROUPS:
            break
    out[STEP], out[PLACE], out[FREE] = step, at - begin, free - begin


@njit(**INLINE)
def count_accounts(data: Bytes, span: tuple[int, int], options: Options, groups: DigitGroups, out: Ints) -> None:
    """Go on through a text from a number that may be one of a card or an account, or an address."""
    begin, stop = span
    step, at, free = out[STEP], begin + out[PLACE], begin + out[FREE]
    while step == ACCOUNTS:
        kind, _, end, count = account_at(data, (begin, stop, free), at, options, groups)
        if count and (options[0] >> PHONE) & 1:
            step = PHONES
            break
        at = end
        if kind >= 0:
            out[COUNT] += 1
            free = end
        step, at = _next_step(data, (begin, stop, free), at, options[0])
    out[STEP], out[PLACE], out[FREE] = step, at - begin, free - begin


@njit(**INLINE)
def count_signs(data: Bytes, span: tuple[int, int], options: Options, scratch: Bytes, out: Ints) -> None:
    """Go on through a text from a byte that is no digit."""
    begin, stop = span
    step, at, free = out[STEP], begin + out[PLACE], begin + out[FREE]
    while step == SIGNS:
        kind, _, at = sign_at(data, (begin, stop, free), at, options)
        if kind >= 0:
            out[COUNT] += 1
            free = at
        step, at = _next_step(data, (begin, stop, free), at, options[0])
    out[STEP], out[PLACE], out[FREE] = step, at - begin, free - begin


_KERNELS = (
    (TextFunction(count_phones, Scratch(group_scratch), resumes=True), (GROUPS, PHONES)),
    (TextFunction(count_accounts, Scratch(group_scratch), resumes=True), (ACCOUNTS,)),
    (TextFunction(count_signs, NO_SCRATCH, resumes=True), (SIGNS,)),
)


def count_on_gpu(
    column: CudaColumn, rows: Rows, options: tuple[int, bool], on_cpu: Callable[[Rows], Ints]
) -> npt.NDArray[np.int64]:
    """The number of entities in each of the texts numbered ``rows``.

    Args:
        options: kinds as bits, and whether only public IP addresses count.
        on_cpu: counts them on the CPU, if the column has its data on the host.
    """
    state = np.zeros((len(rows), 4), np.int64)

    def whole(long: Rows) -> Ints:
        done = np.zeros((len(long), 4), np.int64)
        done[:, COUNT] = on_cpu(long)
        return done

    def judged(function: TextFunction, places: Any) -> None:
        part = state[places]
        launch(function._replace(on_cpu=whole), column, rows[places], options, out=part)
        state[places] = part

    for turn in itertools.count():
        for function, steps in _KERNELS:
            waits = np.isin(state[:, STEP], steps)
            if turn == 0:  # each kernel runs on one text at least, so that set-up compiles all
                waits[: 1 if function.measure is not count_phones else None] = True
            if waits.any():
                judged(function, np.flatnonzero(waits))
        if turn == TURNS - 1 and column.host is not None:
            remaining = np.flatnonzero(state[:, STEP])
            state[remaining] = whole(rows[remaining])
        if not state[:, STEP].any():
            break
    return state[:, COUNT].copy()
