"""The least and the greatest values of columns in row groups, from the footers of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.io.row_filter import Bounds


def group_bounds(about: pq.FileMetaData, groups: Sequence[int], columns: Mapping[str, str]) -> list[dict[str, Bounds]]:
    """Return what the footer knows of columns in each row group, by the names that rows have.

    Args:
        about: footer of the file.
        groups: numbers of row groups.
        columns: names of columns in the file, by the names that rows have; nested ones are left out.
    """
    schema, leaves = about.schema.to_arrow_schema(), about.schema
    places = {str(leaves.column(place).path): place for place in range(about.num_columns)}
    kinds = {name: schema.field(stored).type for name, stored in columns.items() if stored in places}
    made = []
    for group in map(about.row_group, groups):
        known = {
            name: _bounds(group.column(places[columns[name]]).statistics, kind, group.num_rows)
            for name, kind in kinds.items()
            if not pa.types.is_nested(kind)
        }
        made.append({name: bounds for name, bounds in known.items() if bounds is not None})
    return made


def _bounds(statistics: Any, kind: pa.DataType, rows: int) -> Bounds | None:
    if statistics is None:
        return None
    nulls = statistics.null_count if statistics.has_null_count else None
    if nulls is not None and nulls == rows:
        return Bounds(all_null=True)
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        limits = (
            [pa.scalar(value, kind) for value in (statistics.min, statistics.max)] if statistics.has_min_max else []
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        limits = []
    least, greatest = limits or (None, None)
    return Bounds(least, greatest, has_nulls=nulls != 0).widened()
