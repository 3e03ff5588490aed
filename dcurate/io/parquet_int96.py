"""Timestamps of 96 bits, as Spark, Hive and Impala wrote them, with all their years and all their digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.errors import DataError
from dcurate.frames.schema import nested_fields

#: Argument of `pyarrow.parquet.ParquetFile` with which no year becomes another: nanoseconds end at 1677 and 2262.
ALL_YEARS = {"coerce_int96_timestamp_unit": "us"}

_Integers = npt.NDArray[np.int64]


def int96_columns(about: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return those columns of a file that hold such timestamps, also within their values.

    Args:
        about: the footer of the file.
        names: names of columns.
    """
    leaves = [about.schema.column(place) for place in range(about.num_columns)]
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return [name for name in names if any(path == name or path.startswith(f"{name}.") for path in paths)]


def unit_for(fine: pa.Table, coarse: pa.Table, file: str) -> Mapping[str, str]:
    """Return the arguments of `pyarrow.parquet.ParquetFile` that keep such timestamps: none, or `ALL_YEARS`.

    It is for copies of a whole file, which have one type however they are cut.

    Args:
        fine: the columns of such timestamps, with nanoseconds.
        coarse: the same as read with `ALL_YEARS`.
        file: its name, for the error.

    Raises:
        DataError: some have years that nanoseconds do not hold, and some digits that microseconds do not.
    """
    both = [pairs for left, right in zip(coarse.columns, fine.columns, strict=True) for pairs in _moments(left, right)]
    if not any((fine // 1000 != micros).any() for micros, fine in both):
        return {}
    if any((fine != micros * 1000).any() for micros, fine in both):
        raise DataError(
            f"{file} has timestamps finer than microseconds, and others beyond the years 1677 to 2262, which "
            "nanoseconds do not hold; write it again with one unit"
        )
    return ALL_YEARS


def with_declared_units(table: pa.Table, coarse: pa.Table, declared: Mapping[str, pa.DataType], file: str) -> pa.Table:
    """Return a table with microseconds in those columns that are declared with a unit of that or coarser.

    The unit never depends on the values, so that a column has one type in all splits.

    Args:
        table: table as pyarrow reads it, with nanoseconds.
        coarse: its columns of such timestamps as read with `ALL_YEARS`.
        declared: types by the names of columns.
        file: its name, for the error.

    Raises:
        DataError: a column has years or digits that its unit does not hold.
    """
    for name, values in zip(coarse.column_names, coarse.columns, strict=True):
        pairs = list(_moments(values, table[name]))
        if name in declared and _is_coarse(declared[name]):
            # Nanoseconds of far years wrap around in both, so that the digits are compared in all years.
            if any((fine != micros * 1000).any() for micros, fine in pairs):
                raise DataError(
                    f"column {name!r} of {file} has timestamps finer than microseconds, which {declared[name]} does "
                    f"not hold; give it nanoseconds with schema=, or cut the digits with read_kwargs={ALL_YEARS}"
                )
            table = table.set_column(table.column_names.index(name), coarse.schema.field(name), values)
        elif any((fine // 1000 != micros).any() for micros, fine in pairs):
            nested = pa.types.is_nested(values.type)
            cut = f"read_kwargs={ALL_YEARS}, which cuts finer digits"
            raise DataError(
                f"column {name!r} of {file} has timestamps beyond the years 1677 to 2262, which nanoseconds do not "
                f"hold; read it with {cut if nested else f'schema={{{name!r}: {str(values.type)!r}}}'}"
            )
    return table


def _is_coarse(kind: pa.DataType) -> bool:
    """Whether a type has days, or timestamps of a unit that holds all years, also within."""
    is_ = pa.types
    here = is_.is_date(kind) or (is_.is_timestamp(kind) and kind.unit != "ns")
    return here or any(_is_coarse(child.type) for child in nested_fields(kind))


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
