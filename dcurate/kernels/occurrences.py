"""Count occurrences of a string in texts."""

from __future__ import annotations

import numpy as np
from numba import njit

from dcurate.kernels.hashing import has_zero, load_eight
from dcurate.kernels.layout import INLINE, Bytes, Ints, Scalar, frozen
from dcurate.kernels.signal import SINGLE, signal

_ONES = np.uint64(0x0101010101010101)


@njit(**INLINE)
def _stands(data: Bytes, at: int, mark: Bytes) -> Scalar:
    for step in range(mark.size):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[at + step] != mark[step]:
            return False
    return True


@njit(**INLINE)
def count_occurrences(data: Bytes, span: tuple[int, int], mark: Bytes, scratch: Bytes, out: Ints) -> None:
    """Count a string in one text; eight bytes without its first byte are skipped together."""
    at, stop = span
    count = 0 if mark.size else stop - at + 1
    if mark.size == 1:
        for byte in data[at:stop]:
            count += byte == mark[0]
    if mark.size < 2:
        out[0] = count
        return
    first = np.uint64(mark[0]) * _ONES
    while at + mark.size <= stop:
        if at + 8 <= stop and has_zero(load_eight(data, at) ^ first) == 0:
            at += 8
        elif _stands(data, at, mark):
            count += 1
            at += mark.size
        else:
            at += 1
    out[0] = count


@signal(count_occurrences, SINGLE)
def occurrences(mark: str) -> Bytes:
    """Non-overlapping occurrences of a string, as by ``bytes.count``.

    Examples:
        >>> text = b"a ... b ....... c"
        >>> occurrences(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), "...").tolist()
        [3]
    """
    return frozen(np.frombuffer(mark.encode(), np.uint8), np.uint8)
