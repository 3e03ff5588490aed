"""Types of the columns that are written to a table: those of the table, or ones that hold all values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dcurate.errors import DataError, listed
from dcurate.frames.schema import ColumnTypes, TypeConflict, fitted
from dcurate.io.lakehouse.lance import LanceTable
from dcurate.io.lakehouse.table import DataFile, LakeTable, as_stored


@dataclass(frozen=True)
class TableTypes:
    """Gives rows the types of a table.

    Args:
        stage: name of the writer, for errors.
        path: path of the table, for errors.
        table: the table.
        known: the schema that rows must fit; None where the types follow from the rows.
        declared: types that the user gave, by column.
    """

    stage: str
    path: str
    table: LakeTable
    known: pa.Schema | None
    declared: Mapping[str, pa.DataType]

    def stored(self, rows: pa.Table) -> pa.Table:
        """Return rows in types that the format has; those of the table, if it is known.

        Raises:
            DataError: rows have a column or values that the table cannot hold.
        """
        known = {column.name: column.type for column in self.known or ()}
        extra = [name for name in rows.column_names if self.known is not None and name not in known]
        if extra:
            raise DataError(
                f"{self.stage}: table {self.path!r} has no column {listed(extra)}; add it to the table first, or "
                "leave it out with fields="
            )
        for column in rows.schema if known else ():
            problem = _what_is_lost(column.type, known[column.name])
            if problem:
                raise DataError(
                    f"{self.stage}: column {column.name!r} is {column.type} in the rows, and {known[column.name]} in "
                    f"table {self.path!r}, which has {problem}; "
                    "change the table first, or the rows"
                )
        kinds = known or {column.name: column.type for column in rows.schema} | {
            name: kind for name, kind in self.declared.items() if name in rows.column_names
        }
        return self.cast(rows, pa.schema([(name, self._kind(name, kind)) for name, kind in kinds.items()]))

    def cast(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return rows in the types of a schema.

        Raises:
            DataError: a value does not fit.
        """
        try:
            return fitted(rows, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{self.stage}: rows do not fit the types of table {self.path!r}: {error}; give other types with "
                "schema="
            ) from error

    def joined(self, files: Sequence[DataFile], exists: bool) -> pa.Schema:
        """Return the schema of the table with files.

        Args:
            files: the files.
            exists: whether there is a table.

        Raises:
            DataError: columns of two files have types that do not go together.
        """
        if self.known is not None:
            return self.known
        shape = ColumnTypes({name: self._kind(name, kind) for name, kind in self.declared.items()})
        for file in files:
            try:
                shape = shape.joined(file.schema, file.name)
            except TypeConflict as conflict:
                raise DataError(
                    f"column {conflict.column!r} is {conflict.here} in {file.name} but {conflict.before} in "
                    f"{conflict.origin or 'schema='}; give the type with schema={{{conflict.column!r}: 'string'}}, "
                    "and run again without resume=True"
                ) from conflict
        if not files and exists:
            return self.table.schema()
        kinds = {name: as_stored(self.table, kind) for name, kind in shape.types.items()}
        return pa.schema(list(kinds.items()))

    def fits(self, file: DataFile, wanted: pa.Schema) -> bool:
        """Whether the columns of a file have the types of a schema."""
        if isinstance(self.table, LanceTable):
            # Numbers of columns are those of the table only in fragments that were written for it.
            numbered = self.known is None or file.note["mode"] == "append"
            return numbered and list(zip(file.schema.names, file.schema.types, strict=True)) == list(
                zip(wanted.names, wanted.types, strict=True)
            )
        return all(
            field.name in wanted.names
            and as_stored(self.table, wanted.field(field.name).type) == as_stored(self.table, field.type, final=False)
            for field in file.schema
        )

    def _kind(self, name: str, kind: pa.DataType) -> pa.DataType:
        # What is null stays without a type until those of other files are known.
        stored = as_stored(self.table, kind, final=False)
        if stored is None:
            raise DataError(
                f"{self.stage}: {self.table.title} has no type for column {name!r}, which is {kind}; give it another "
                f"with schema={{{name!r}: 'string'}}, or leave it out with fields="
            )
        return stored


def _what_is_lost(kind: pa.DataType, wanted: pa.DataType) -> str:
    """What a type has, also within nested types, that the other has not; empty if there is nothing.

    Examples:
        >>> _what_is_lost(pa.struct({"a": pa.int8(), "b": pa.int8()}), pa.struct({"a": pa.int8()}))
        "no field 'b'"
    """
    is_ = pa.types
    text = is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind)
    if text and (is_.is_integer(wanted) or is_.is_floating(wanted) or is_.is_decimal(wanted) or is_.is_boolean(wanted)):
        return "no text"  # "007" would become 7
    if is_.is_timestamp(kind) and is_.is_timestamp(wanted) and (kind.tz is None) is not (wanted.tz is None):
        return "no time zone" if wanted.tz is None else "a time zone and not times without one"
    if is_.is_struct(kind) and is_.is_struct(wanted):
        wanted_types = {child.name: child.type for child in wanted}
        extra = [child.name for child in kind if child.name not in wanted_types]
        inner = [_what_is_lost(child.type, wanted_types[child.name]) for child in kind if child.name in wanted_types]
        return f"no field {listed(extra)}" if extra else next(filter(None, inner), "")
    if is_.is_map(kind) and is_.is_map(wanted):
        return _what_is_lost(kind.key_type, wanted.key_type) or _what_is_lost(kind.item_type, wanted.item_type)
    lists = is_.is_nested(kind) and is_.is_nested(wanted) and kind.num_fields == wanted.num_fields == 1
    return _what_is_lost(kind.field(0).type, wanted.field(0).type) if lists else ""
