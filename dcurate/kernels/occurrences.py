"""Count occurrences of a string in texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.hashing import load_eight
from dcurate.kernels.layout import INLINE, OPTIONS, Bytes, Ints, Offsets, Rows, Scalar, frozen
from dcurate.kernels.segments import has_zero

_ONES = np.uint64(0x0101010101010101)


@njit(**INLINE)
def _stands(data: Bytes, at: int, mark: Bytes) -> Scalar:
    for step in range(mark.size):  # noqa: SIM110 - a loop compiles to less than a generator
        if data[at + step] != mark[step]:
            return False
    return True


@njit(**INLINE)
def count_occurrences(data: Bytes, span: tuple[int, int], mark: Bytes, out: Ints) -> None:
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


@njit(**OPTIONS)
def _occurrences(offsets: Offsets, data: Bytes, rows: Rows, mark: Bytes, out: Ints) -> None:
    for place in range(rows.size):
        count_occurrences(data, (offsets[rows[place]], offsets[rows[place] + 1]), mark, out[:, place])


def occurrences(offsets: Offsets, data: Bytes, rows: Rows, mark: str) -> npt.NDArray[np.int64]:
    """Non-overlapping occurrences of a string in the texts numbered ``rows``, as by ``bytes.count``.

    Examples:
        >>> text = b"a ... b ....... c"
        >>> occurrences(np.array([0, len(text)]), np.frombuffer(text, np.uint8), np.array([0]), "...").tolist()
        [3]
    """
    out = np.empty((1, rows.size), np.int64)
    layout = frozen(offsets, np.int64), frozen(data, np.uint8)
    _occurrences(*layout, frozen(rows, np.int64), as_bytes(mark), out)
    return out.ravel()


def as_bytes(mark: str) -> Bytes:
    """A string in the kernel's form."""
    return frozen(np.frombuffer(mark.encode(), np.uint8), np.uint8)
