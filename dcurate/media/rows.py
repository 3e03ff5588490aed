"""Columns of rows that name files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dcurate.media.refs import BYTES, REF, Ref, refs_of

#: Columns of references and bytes, which are in no manifest.
MEDIA = (REF, BYTES)


def without_media(table: pa.Table) -> pa.Table:
    """The table without its columns of references and bytes."""
    return table.drop_columns([name for name in MEDIA if name in table.column_names])


def part_columns(prefix: str) -> tuple[str, str, str]:
    """The columns of the part of a file that a row means: start and end in seconds, and the number of the track.

    Examples:
        >>> part_columns("video")
        ('video_start_s', 'video_stop_s', 'video_stream')
    """
    return f"{prefix}_start_s", f"{prefix}_stop_s", f"{prefix}_stream"


def values_of(rows: pa.Table, name: str) -> list[Any]:
    """The values of a column; None for each row without it."""
    values: list[Any] = rows[name].to_pylist() if name in rows.column_names else [None] * rows.num_rows
    return values


def row_refs(rows: pa.Table) -> Sequence[Ref | None]:
    """The reference of each row; None without."""
    return refs_of(rows) if REF in rows.column_names else [None] * rows.num_rows


def with_values(rows: pa.Table, columns: Mapping[str, tuple[pa.DataType, Sequence[Any]]]) -> pa.Table:
    """The table with other values in columns, each given as its type and its values.

    A column that is the same keeps its place, its type and what is known of it; one that it does not have is added only
    where it has a value.

    Examples:
        >>> table = pa.table({"offset": pa.array([1], pa.int32())})
        >>> with_values(table, {"offset": (pa.float64(), [1.0]), "duration": (pa.float64(), [None])}) is table
        True
    """
    for name, (kind, values) in columns.items():
        place = rows.schema.get_field_index(name)
        if place < 0 and any(value is not None for value in values):
            rows = rows.append_column(name, pa.array(values, kind))
        elif place >= 0 and rows[name].to_pylist() != list(values):
            rows = rows.set_column(place, name, _column(values, kind, rows.schema.field(place).type))
    return rows


def _column(values: Sequence[Any], kind: pa.DataType, before: pa.DataType) -> pa.Array:
    """Values as a column; as text where it was text, as values of several types are read as that."""
    if pa.types.is_string(before):
        return pa.array([None if value is None else str(value) for value in values], before)
    return pa.array(values, kind)
