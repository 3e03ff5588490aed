"""Rows of a table by its partitions, and the values of a partition in the metadata of its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson
import pyarrow as pa

from dcurate.errors import DataError, listed
from dcurate.rows import columns_listed

#: Key of the metadata of a file with the values of the partition that it is of.
_PARTITION = b"partition-dcurate"
#: The longest value of a column to partition by: Parquet files have no statistics of much longer ones.
_PARTITION_BYTES = 1_024
#: Names of types by those that Arrow prints, where these differ.
_ALIASES = {"date32[day]": "date32"}


@dataclass(frozen=True)
class TablePartitions:
    """Splits rows by the values of columns.

    Args:
        stage: name of the writer, for errors.
        columns: the columns; none where the table has no partitions.
        in_files: whether the files have these columns; else their values are in the metadata of each file.
    """

    stage: str
    columns: tuple[str, ...]
    in_files: bool

    def split(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows of each partition, in the order in which its first row comes.

        Raises:
            DataError: the columns cannot be partitioned by.
        """
        names = list(self.columns)
        if not names:
            yield rows
            return
        self.check(rows.schema)
        place = "\1place"
        keys = rows.select(names).append_column(place, pa.array(range(rows.num_rows), pa.int64()))
        groups = keys.group_by(names, use_threads=False).aggregate([(place, "list")])
        for places in groups[f"{place}_list"].to_pylist():
            yield rows.take(pa.array(sorted(places)))

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that are missing or all, or whose values have no one text in both formats.

        Raises:
            DataError: there are some.
        """
        missing = [name for name in self.columns if name not in schema.names]
        if missing or len(self.columns) == len(schema):
            raise DataError(
                f"{self.stage}: partition_cols {listed(self.columns)} must be some of the columns, and not all: "
                f"{columns_listed(schema.names)}"
            )
        is_ = pa.types
        for name in self.columns:
            kind = schema.field(name).type
            plain = is_.is_string(kind) or is_.is_integer(kind) or is_.is_date32(kind) or is_.is_boolean(kind)
            if not plain and not is_.is_null(kind):
                raise DataError(
                    f"{self.stage}: column {name!r} of partition_cols holds {kind}; partition by columns of text, "
                    "whole numbers, dates or booleans"
                )

    def in_file(self, rows: pa.Table) -> pa.Table:
        """Return the rows of a partition as its file has them: values that it does not have are in its metadata.

        Raises:
            DataError: a value cannot be that of a partition.
        """
        values = {name: rows[name][:1].cast(pa.string())[0].as_py() for name in self.columns}
        long = [name for name, value in values.items() if len((value or "").encode()) > _PARTITION_BYTES]
        if long:
            raise DataError(
                f"{self.stage}: a value of column {long[0]!r} has more than {_PARTITION_BYTES:,} bytes, too long for "
                "the name of a partition; partition by other columns"
            )
        if not self.columns or self.in_files:
            return rows
        empty = [name for name, value in values.items() if value == ""]
        if empty:
            raise DataError(
                f"{self.stage}: a value of column {empty[0]!r} is an empty text, which Delta Lake reads as null in a "
                "partition; replace it, or partition by other columns"
            )
        kinds = {column.name: str(column.type) for column in rows.schema}
        note = orjson.dumps({"columns": kinds, "values": values})
        return rows.drop_columns(list(self.columns)).replace_schema_metadata({_PARTITION: note})

    def of_file(self, schema: pa.Schema) -> tuple[pa.Schema, Mapping[str, str | None]]:
        """Return the schema of a file with the columns of its partition, and the values that its metadata has.

        Args:
            schema: the schema as the file has it.
        """
        if not self.columns or self.in_files:
            return schema, {}
        about = orjson.loads(schema.metadata[_PARTITION])
        fields = [
            pa.field(name, pa.type_for_alias(_ALIASES.get(kind, kind)))
            if name in about["values"]
            else schema.field(name)
            for name, kind in about["columns"].items()
        ]
        return pa.schema(fields), about["values"]

    def with_columns(self, rows: pa.Table, values: Mapping[str, str | None], schema: pa.Schema) -> pa.Table:
        """Return the rows of a file with the columns of its partition.

        Args:
            rows: the rows as the file has them.
            values: values of the partition.
            schema: a schema that has the types of these columns.
        """
        for column in self.columns:
            if column not in rows.column_names:
                array = pa.array([values[column]], pa.string()).cast(schema.field(column).type)
                rows = rows.append_column(column, array.take(pa.repeat(0, rows.num_rows)))
        return rows
