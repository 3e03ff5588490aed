"""Match columns of files with those of their table: earlier names, ids, and columns that must not be null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from dcurate.frames.schema import nested_fields, with_nested_fields

_ID = b"PARQUET:field_id"


class NamedId(NamedTuple):
    """The id of a field, and those of the fields within it by their names."""

    id: int
    within: Mapping[str, NamedId]


def ids_by_name(fields: Iterable[pa.Field]) -> dict[str, NamedId]:
    """Return the ids that the metadata of fields has.

    Examples:
        >>> ids_by_name([pa.field("a", pa.int8(), metadata={"PARQUET:field_id": "7"})])
        {'a': NamedId(id=7, within={})}
    """
    ids = {}
    for field in fields:
        number = _id_of(field)
        if number is not None:
            ids[field.name] = NamedId(number, ids_by_name(_inner(field.type)))
    return ids


def has_ids(fields: Iterable[pa.Field]) -> bool:
    """Return whether any field, also within others, has an id."""
    return any(_id_of(field) is not None or has_ids(nested_fields(field.type)) for field in fields)


def current_names(stored: Iterable[pa.Field], wanted: pa.Schema, ids: Mapping[str, NamedId]) -> dict[str, pa.Field]:
    """Return columns of a file under the names that a table has for their ids now, by their names in the file.

    Fields within a column that the table no longer has get a name that it cannot have.

    Args:
        stored: columns of the file; with ids in their metadata, or else in ``ids``.
        wanted: columns of the table, with ids.
        ids: ids by the names in the file.

    Examples:
        >>> now = pa.schema([pa.field("b", pa.int8(), metadata={"PARQUET:field_id": "7"})])
        >>> current_names(pa.schema({"a": pa.int8(), "b": pa.int8()}), now, {"a": NamedId(7, {})})
        {'a': pyarrow.Field<b: int8>}
    """
    fields = list(stored)
    known = ids_by_name(fields) if has_ids(fields) else ids
    return {
        field.name: _renamed(field, target, known[field.name])
        for field in fields
        if field.name in known and (target := _by_id(wanted, known[field.name].id)) is not None
    }


def _renamed(field: pa.Field, target: pa.Field, known: NamedId) -> pa.Field:
    inner, targets = _inner(field.type), nested_fields(target.type)
    if not inner or not targets:
        return field.with_name(target.name)
    renamed = []
    for place, child in enumerate(inner):
        number = known.within.get(child.name)
        same = None if number is None else _by_id(targets, number.id)
        gone = child.with_name(f"\1{place}")
        renamed.append(gone if number is None or same is None else _renamed(child, same, number))
    return field.with_name(target.name).with_type(with_nested_fields(field.type, renamed))


def nulls_in_required(values: pa.Array, field: pa.Field) -> str:
    """Return the path of the first field of a column that must not be null and is; empty if there is none.

    Args:
        values: values of the column.
        field: field of the column in the table's schema.

    Examples:
        >>> required = pa.field("a", pa.struct([pa.field("b", pa.int8(), nullable=False)]))
        >>> nulls_in_required(pa.array([None, {"b": None}], required.type), required)
        'a.b'
    """
    if not field.nullable and values.null_count:
        return str(field.name)
    inner = nested_fields(field.type)
    if not inner or not pa.types.is_nested(values.type):
        return ""
    values = values.drop_null() if values.null_count else values
    if pa.types.is_struct(values.type):
        children = dict(zip((child.name for child in values.type), values.flatten(), strict=True))
        nulls = pa.nulls(len(values))
        paths = (nulls_in_required(children.get(child.name, nulls), child) for child in inner)
    elif pa.types.is_map(values.type):
        kept = slice(values.offsets[0].as_py(), values.offsets[-1].as_py()) if len(values) else slice(0, 0)
        pairs = zip((values.keys, values.items), inner, strict=True)
        paths = (nulls_in_required(part[kept], child) for part, child in pairs)
    else:
        paths = (nulls_in_required(values.flatten(), child) for child in inner)
    path = next(filter(None, paths), "")
    return f"{field.name}.{path}" if path else ""


def as_required(schema: pa.Schema, required: pa.Schema) -> pa.Schema:
    """Return a schema whose columns are as nullable as those of the same name in another, also within.

    Examples:
        >>> as_required(pa.schema({"a": pa.int8()}), pa.schema([pa.field("a", pa.int8(), nullable=False)]))
        a: int8 not null
    """
    known = {column.name: column for column in required}
    return pa.schema(
        [_as_required(column, known[column.name]) if column.name in known else column for column in schema]
    )


def _as_required(field: pa.Field, required: pa.Field) -> pa.Field:
    field = field.with_name(required.name).with_nullable(required.nullable)
    required_children = dict(
        zip((child.name for child in _inner(required.type)), nested_fields(required.type), strict=True)
    )
    inner = [
        _as_required(child, required_children[name]) if (name := named.name) in required_children else child
        for child, named in zip(nested_fields(field.type), _inner(field.type), strict=True)
    ]
    return field.with_type(with_nested_fields(field.type, inner)) if inner else field


def _by_id(fields: Iterable[pa.Field], number: int) -> pa.Field | None:
    return next((field for field in fields if _id_of(field) == number), None)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(_ID)
    return None if text is None else int(text)


def _inner(kind: pa.DataType) -> list[pa.Field]:
    """The fields within a type, with the names that Iceberg has for them."""
    inner = nested_fields(kind)
    if pa.types.is_struct(kind):
        return inner
    names = ["key", "value"] if pa.types.is_map(kind) else ["element"] * len(inner)
    return [child.with_name(name) for child, name in zip(inner, names, strict=True)]
