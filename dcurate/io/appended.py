"""Columns of the files that an output has, to which a run appends others."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.errors import DataError
from dcurate.frames.schema import ColumnTypes, TypeConflict, without
from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store
from dcurate.fs.stores import Directory


def types_in(directory: Directory, names: Sequence[str]) -> ColumnTypes:
    """Return the types of the columns in the first and the last of some Parquet files of a directory.

    Raises:
        DataError: one cannot be read from the store.
    """
    types = ColumnTypes()
    for name in dict.fromkeys([*names[:1], *names[-1:]]):
        store, path = open_store(directory.path(name), directory.options)
        with storage_errors("read", directory.path(name)):
            try:
                with store.open(path, "rb") as file:
                    types = types.joined(_plain(pq.read_schema(file)), name)
            except (pa.ArrowInvalid, TypeConflict):  # who reads the output is shown both
                continue
    return types


def check_appended(types: ColumnTypes, rows: pa.Schema, writer: str) -> None:
    """Refuse rows that could not be read together with those that an output has.

    Raises:
        DataError: a column has a type that has none in common with that in the files.
    """
    try:
        types.joined(_plain(rows), "")
    except TypeConflict as conflict:
        raise DataError(
            f"{writer}: column {conflict.column!r} is {conflict.here} in the rows, but {conflict.before} in "
            f"{conflict.origin!r} of the output; give the column that type, as the reader does with "
            f"schema={{{conflict.column!r}: {str(conflict.before)!r}}}, or write into another folder"
        ) from conflict


def _plain(schema: pa.Schema) -> list[pa.Field]:
    """The columns as readers take them, without encodings."""
    return [pa.field(column.name, without(column.type, "encoding")) for column in schema]
