"""Timestamps of 96 bits, as Spark, Hive and Impala wrote them, with all their years and all their digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.errors import DataError

#: Argument of `pyarrow.parquet.ParquetFile` with which no year becomes another: nanoseconds end at 1677 and 2262.
ALL_YEARS = {"coerce_int96_timestamp_unit": "us"}
ALL_DIGITS = {"coerce_int96_timestamp_unit": "ns"}
_MOST = np.int64(2**63 // 1000 - 1)

_Integers = npt.NDArray[np.int64]


def int96_columns(about: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return those columns of a file that hold such timestamps, also within their values.

    Args:
        about: the footer of the file.
        names: of columns.
    """
    leaves = [about.schema.column(place) for place in range(about.num_columns)]
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return [name for name in names if any(path == name or path.startswith(f"{name}.") for path in paths)]


def with_all_digits(table: pa.Table, exact: pa.Table, file: str) -> pa.Table:
    """Return a table with nanoseconds in those columns that have more digits than microseconds hold.

    Args:
        table: as read with `ALL_YEARS`.
        exact: some of its columns as read with `ALL_DIGITS`.
        file: its name, for the error.

    Raises:
        DataError: a column has years that nanoseconds do not hold, and such digits.
    """
    for name, column in zip(exact.column_names, exact.columns, strict=True):
        pairs = list(_moments(table[name], column))
        held = [np.abs(coarse) <= _MOST for coarse, _ in pairs]
        digits = any(
            (fine[inside] != coarse[inside] * 1000).any() for (coarse, fine), inside in zip(pairs, held, strict=True)
        )
        if not digits:
            continue
        if not all(inside.all() for inside in held):
            raise DataError(
                f"column {name!r} of {file} has timestamps beyond the years 1677 to 2262 and others finer than "
                f"microseconds, and no type holds both; cut the digits with read_kwargs={ALL_YEARS}"
            )
        table = table.set_column(table.column_names.index(name), exact.schema.field(name), column)
    return table


def _moments(coarse: pa.ChunkedArray, fine: pa.ChunkedArray) -> Iterator[tuple[_Integers, _Integers]]:
    """The timestamps of a column that both readings have in other units, as numbers."""
    for left, right in zip(_leaves(coarse), _leaves(fine), strict=True):
        if left.type != right.type:
            yield _numbers(left), _numbers(right)


def _leaves(values: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    kind = values.type
    if pa.types.is_struct(kind):
        for column in values.flatten():
            yield from _leaves(column)
    elif pa.types.is_map(kind):
        yield from _leaves(pa.chunked_array([chunk.keys for chunk in values.chunks], kind.key_type))
        yield from _leaves(pa.chunked_array([chunk.items for chunk in values.chunks], kind.item_type))
    elif pa.types.is_nested(kind):
        yield from _leaves(pa.chunked_array([chunk.flatten() for chunk in values.chunks], kind.value_type))
    else:
        yield values


def _numbers(values: pa.ChunkedArray) -> _Integers:
    return np.asarray(values.drop_null().cast(pa.int64()))
