"""Numbers, dates and times of a column as floats that order them exactly."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.frames.columns import column_of, numbers

Floats = npt.NDArray[np.float64]

#: Units of Arrow in a second.
_IN_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Holds every digit of a decimal of Arrow, and of the float next to it.
_WIDE = Context(prec=400)
#: Times in ISO 8601 with an offset from UTC.
_WITH_ZONE = r"[Tt ].*([Zz]|[+-]\d\d(:?\d\d)?)$"


class TwoFloats(NamedTuple):
    """Values as sums of two floats; where the first are equal, the second decide.

    Args:
        rounded: NaN for null.
        rest: 0 for null.
    """

    rounded: Floats
    rest: Floats


def parts_of_numbers(table: pa.Table, name: str) -> TwoFloats:
    """Return the values of a column of numbers, or of dates, times and texts with these as seconds and nanoseconds.

    Values are comparable also if the column has different types in different batches.

    Raises:
        DataError: the column does not exist, or holds something else.

    Examples:
        >>> parts_of_numbers(pa.table({"n": [2**53 + 1, None]}), "n")
        TwoFloats(rounded=array([9.00719925e+15,            nan]), rest=array([1., 0.]))
    """
    column = column_of(table, name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, is_ = column.type, pa.types
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        column = _moments(column.cast(pa.large_string()), name)
        kind = column.type
    valid = np.asarray(column.is_valid())
    if is_.is_integer(kind):
        parts = _of_integers(np.asarray(column.fill_null(0)))
    elif is_.is_decimal(kind):
        exact = [Decimal(0) if value is None else value for value in column.to_pylist()]
        rounded = np.array([float(value) for value in exact], np.float64)
        pairs = zip(exact, rounded.tolist(), strict=True)
        remainders = [float(_WIDE.subtract(value, Decimal(near))) for value, near in pairs]
        parts = TwoFloats(rounded, np.array(remainders, np.float64))
    elif is_.is_date(kind) or is_.is_timestamp(kind) or is_.is_time(kind) or is_.is_duration(kind):
        unit = "s" if kind == pa.date32() else "ms" if kind == pa.date64() else kind.unit
        scale, per = (86_400, 1) if kind == pa.date32() else (1, _IN_A_SECOND[unit])
        integers = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        counts = np.asarray(integers.fill_null(0)).astype(np.int64)
        seconds, beyond = np.divmod(counts, per)
        parts = TwoFloats((seconds * scale).astype(np.float64), (beyond * (10**9 // per)).astype(np.float64))
    else:
        rounded = numbers(table, name).astype(np.float64)
        return TwoFloats(rounded, np.zeros(len(rounded)))
    return TwoFloats(np.where(valid, parts.rounded, np.nan), np.where(valid, parts.rest, 0.0))


def _of_integers(values: npt.NDArray[Any]) -> TwoFloats:
    rounded = values.astype(np.float64)
    if values.dtype.itemsize < 8:
        return TwoFloats(rounded, np.zeros(len(rounded)))
    most = np.iinfo(values.dtype).max
    beyond = rounded >= float(most)  # rounded up to one more than the type holds
    nearest = np.where(beyond, 0, rounded).astype(values.dtype)
    nearest[beyond] = most
    return TwoFloats(rounded, (values - nearest).view(np.int64).astype(np.float64) - beyond)


def _moments(texts: pa.Array, name: str) -> pa.Array:
    """Texts as timestamps of UTC; those without a time zone count as UTC, and empty ones as null."""
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    zoned = pc.match_substring_regex(texts, _WITH_ZONE)
    for unit in ("us", "ns"):
        try:
            plain = pc.if_else(zoned, None, texts).cast(pa.timestamp(unit))
            exact = pc.if_else(zoned, texts, None).cast(pa.timestamp(unit, "UTC"))
        except pa.ArrowInvalid as error:
            problem = error
            continue
        return pc.coalesce(plain.cast(exact.type), exact)
    raise DataError(
        f"column {name!r} holds text that is not a date or time in ISO 8601 ({problem}); name a column of numbers, "
        "dates or times"
    ) from problem
