"""Sums of rows of large matrices, which are read in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np import arrayobj

from dcurate.kernels.layout import INLINE, Places, Scalar

Floats = npt.NDArray[np.float32]

#: How many places before it is read memory is asked for, so that the CPU waits for many places at a time.
AHEAD = 32
#: Numbers of 32 bits in a line of the CPU's cache.
_LINE = 16
#: How many columns of short rows are added in one pass.
_EIGHT = 8
#: It is asked for to be read, to stay in all caches, and as data.
_READ, _KEEP, _DATA = 0, 3, 1
_O, _I, _II, _III, _IV, _V, _VI, _VII = (np.uint64(step) for step in range(8))


def _prefetch(_: Any, array: Any, place: Any) -> tuple[Any, Any]:
    """The type of `prefetch`, and its code: one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arrayobj.make_array(signature.args[0])(context, builder, arguments[0]).data  # type: ignore[no-untyped-call]
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        numbers = [ir.IntType(32)(number) for number in (_READ, _KEEP, _DATA)]
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, *(number.type for number in numbers)])
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind), [pointer, *numbers])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


#: Ask for the element of a contiguous array at a place, counted through all its rows; reads nothing.
prefetch: Scalar = intrinsic(_prefetch)


@njit(**INLINE)
def _prefetch_row(rows: Floats, row: Scalar) -> None:
    width = rows.shape[1]
    first = np.int64(row) * width
    for step in range(0, width, _LINE):
        prefetch(rows, first + step)
    prefetch(rows, first + width - 1)


@njit(**INLINE)
def _factor(factors: Floats | None, place: Scalar) -> Scalar:
    if factors is None:
        return np.float32(1)
    return factors[place]


@njit(**INLINE)
def add_rows(rows: Floats, listed: Places, factors: Floats | None, total: Floats) -> None:
    """Add rows to a sum. Rows that are longer than a few numbers are loaded `AHEAD` places before they are read.

    Args:
        rows: a matrix.
        listed: numbers of its rows, in the order in which they are added.
        factors: what each of these is multiplied by; None for 1.
        total: the sum.
    """
    if total.size >= _EIGHT:
        for place in range(min(AHEAD, listed.size)):
            _prefetch_row(rows, listed[place])
    if total.size >= _LINE:
        _add_long_rows(rows, listed, factors, total)
    elif total.size >= _EIGHT:
        for first in range(0, listed.size, AHEAD):  # few at a time, as each is read more than once
            _add_short_rows(rows, listed, factors, total, (first, min(first + AHEAD, listed.size)))
    else:
        _add_short_rows(rows, listed, factors, total, (0, listed.size))


@njit(**INLINE)
def _add_long_rows(rows: Floats, listed: Places, factors: Floats | None, total: Floats) -> None:
    """Add rows one after the other: the sum stays in the CPU's cache."""
    for place in range(listed.size):
        _prefetch_row(rows, listed[min(place + AHEAD, listed.size - 1)])
        row, factor = np.uint64(listed[place]), _factor(factors, place)
        for step in range(total.size):
            total[step] += factor * rows[row, step]


@njit(**INLINE)
def _add_short_rows(
    rows: Floats, listed: Places, factors: Floats | None, total: Floats, span: tuple[Scalar, Scalar]
) -> None:
    """Add some rows of up to `_LINE` numbers, a few columns at a time: each pass holds its sums in registers."""
    first, last = span
    done = 0
    if total.size >= _EIGHT:
        a, b, c, d, e, f, g, h = total[0], total[1], total[2], total[3], total[4], total[5], total[6], total[7]
        for place in range(first, last):
            _prefetch_row(rows, listed[min(place + AHEAD, listed.size - 1)])
            # Indices that cannot be negative are not checked for it.
            row, factor = np.uint64(listed[place]), _factor(factors, place)
            a += factor * rows[row, _O]
            b += factor * rows[row, _I]
            c += factor * rows[row, _II]
            d += factor * rows[row, _III]
            e += factor * rows[row, _IV]
            f += factor * rows[row, _V]
            g += factor * rows[row, _VI]
            h += factor * rows[row, _VII]
        for step, part in enumerate((a, b, c, d, e, f, g, h)):
            total[step] = part
        done = _EIGHT
    while done + 2 <= total.size:
        a, b = total[done], total[done + 1]
        at = np.uint64(done)
        for place in range(first, last):
            row, factor = np.uint64(listed[place]), _factor(factors, place)
            a += factor * rows[row, at]
            b += factor * rows[row, at + _I]
        total[done] = a
        total[done + 1] = b
        done += 2
    for step in range(done, total.size):
        a = total[step]
        for place in range(first, last):
            a += _factor(factors, place) * rows[np.uint64(listed[place]), np.uint64(step)]
        total[step] = a
