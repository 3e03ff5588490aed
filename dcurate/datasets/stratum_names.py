"""The stratum of each row of a table, from columns of values and of bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.errors import DataError
from dcurate.frames.columns import column_of, values

#: Strata at most; a column of ids would make one for each row.
MOST_STRATA = 4096
#: Up to here a double holds every whole number.
_EXACT = 2**53


def strata_of(
    table: Any, by: Sequence[str], bands: Mapping[str, Sequence[float]]
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the number of the stratum of each row, and the name of each stratum.

    Raises:
        DataError: there are too many strata, a column is missing, or it holds other values.
    """
    codes, labels = np.zeros(table.num_rows, np.int64), [""]
    for column in (*by, *bands):
        edges = bands.get(column)
        in_column, names = _valued(table, column) if edges is None else _banded(table, column, edges)
        both, codes = np.unique(codes * len(names) + in_column, return_inverse=True)
        if len(both) > MOST_STRATA:
            raise too_many(len(both), column)
        labels = [
            f"{labels[place // len(names)]}, {column}={names[place % len(names)]}".removeprefix(", ")
            for place in both.tolist()
        ]
    return codes.astype(np.int64), labels


def too_many(strata: int, column: str) -> DataError:
    """The error for a sample of too many strata."""
    return DataError(
        f"{strata:,} strata of {column}, and there may be {MOST_STRATA:,}; leave out columns with many values, or give "
        "bands="
    )


def _valued(table: Any, column: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The number of the value of each row, and the values as JSON."""
    try:
        coded = column_of(table, column).dictionary_encode()
    except NotImplementedError:  # of Arrow, for lists and structures
        values_there = (value for value in values(table, column) if value is not None)
        raise _unusable(next(values_there, None), column) from None
    names = [_name(value, column) for value in coded.dictionary.to_pylist()]
    known = {name: number for number, name in enumerate(dict.fromkeys([*names, "null"]))}
    renumbered = np.array([known[name] for name in names] or [0], np.int64)
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = column_of(table, column).is_null().to_numpy(zero_copy_only=False)
    return np.where(missing, known["null"], renumbered[codes]), list(known)


def _name(value: Any, column: str) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)  # a file with a null in the column may hold whole numbers as floats
    if not isinstance(value, str | int | None):
        raise _unusable(value, column)
    return orjson.dumps(value).decode()


def _banded(table: Any, column: str, edges: Sequence[float]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The number of the band of each row, and the names of the bands."""
    ends = [f"{edge:g}" if abs(edge) < _EXACT else repr(edge) for edge in edges]
    names = [f"below {ends[0]}", *(f"[{low}, {high})" for low, high in pairwise(ends)), f"from {ends[-1]}", "null"]
    content = values(table, column)
    if any(isinstance(value, str) for value in content):
        content = [len(value) if isinstance(value, str) else value for value in content]
    measured = np.array([math.nan if value is None else _number(value, column) for value in content], np.float64)
    bands = np.searchsorted(np.array(edges, np.float64), measured, "right")
    return np.where(np.isnan(measured), len(edges) + 1, bands).astype(np.int64), names


def _number(value: Any, column: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"column {column!r} holds {value!r}, and bands are of numbers or texts; give it in by= instead")
    return float(value)


def _unusable(value: Any, column: str) -> DataError:
    shown = repr(value)[:60]
    return DataError(
        f"column {column!r} holds {shown}, which is not text, a whole number or a flag; give bands= for numbers"
    )
