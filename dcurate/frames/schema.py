"""Column types across many files: one type for all of them, or an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DcurateError, PipelineError, nearest, shown
from dcurate.rows.lines import LineType, as_type, common_type, unmarked

_NAMES = {
    "string": pa.string(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "binary": pa.binary(),
}
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)?\((\d+), ?(-?\d+)\)")
_LIST = re.compile(r"(?P<large>large_)?list<((item|element): ?)?(?P<inner>.+)>")
_MAX_STRING_BYTES = 2**31 - 1
#: How keys of metadata begin that say how a file stores a column; they hold for a column of the same type only.
NOTE = b"dcurate."


class TypeConflict(DcurateError):  # noqa: N818 - a fact that callers turn into a sentence of their own
    """Two files hold the same column in types without a common one."""

    def __init__(self, column: str, here: pa.DataType, before: pa.DataType, origin: str) -> None:
        super().__init__(f"column {column!r} is {here} here but {before} in {origin}")
        self.column, self.here, self.before, self.origin = column, here, before, origin


@dataclass(frozen=True)
class ColumnTypes:
    """The type of every column so far, and the file where it occurred first.

    Examples:
        >>> shape = ColumnTypes().joined(pa.schema({"id": pa.int64()}), "a.jsonl")
        >>> shape.joined(pa.schema({"id": pa.float64(), "text": pa.string()}), "b.jsonl").types
        {'id': DataType(double), 'text': DataType(string)}
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def joined(self, schema: Iterable[pa.Field], origin: str) -> ColumnTypes:
        """The schema extended by these columns.

        Raises:
            TypeConflict: a column has a type here that has none in common with the one seen before.
        """
        types, origins = dict(self.types), dict(self.origins)
        for column in schema:
            before = types.get(column.name)
            common = column.type if before is None else unified(before, column.type)
            if common is None:
                raise TypeConflict(column.name, column.type, before, origins[column.name])
            if before is None or (pa.types.is_null(before) and not pa.types.is_null(common)):
                origins[column.name] = origin
            types[column.name] = common
        return ColumnTypes(types, origins)

    def schema(self, names: Iterable[str] | None = None) -> pa.Schema:
        """An Arrow schema of the columns, or of the named ones, in that order."""
        wanted = self.types if names is None else names
        return pa.schema([pa.field(name, self.types.get(name, pa.null())) for name in wanted])


def declared(types: Mapping[str, Any], what: str) -> dict[str, pa.DataType]:
    """User-supplied Arrow types: names (``"string"``, ``"int64"``, ``"list<string>"``, ...) or Arrow types.

    Examples:
        >>> declared({"id": "string", "at": "timestamp[us, tz=UTC]", "price": "decimal128(10, 2)"}, "schema")
        {'id': DataType(string), 'at': TimestampType(timestamp[us, tz=UTC]), 'price': Decimal128Type(decimal128(10, 2))}

    Raises:
        PipelineError: they are not by name, or one is not a type.
    """
    if isinstance(types, pa.Schema):
        return {column.name: column.type for column in types}
    if not isinstance(types, Mapping):
        raise PipelineError(
            f"{what}={shown(types)} must be types of columns by name, such as {{'id': 'string'}}, or a pyarrow.Schema"
        )
    resolved = {}
    for column, wanted in types.items():
        try:
            is_type = isinstance(wanted, pa.DataType)
            resolved[column] = wanted if is_type else _type_named(wanted)
        except (ValueError, TypeError) as error:
            options = [*_NAMES, "int64", "uint64", "float32", "float64", "timestamp[us]", "timestamp[us, tz=UTC]"]
            raise PipelineError(
                f"{what}: unknown type {wanted!r} of column {column!r}{nearest(str(wanted), options)}"
            ) from error
    return resolved


def _type_named(name: str) -> pa.DataType:
    """The type with this name: as Arrow prints it, or a name of Python for some.

    Raises:
        ValueError: the name is not known.
        TypeError: the name is not text.
    """
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(*match.groups())
    if match := _DECIMAL.fullmatch(name):
        width, precision, scale = match.groups()
        return getattr(pa, f"decimal{width or 128}")(int(precision), int(scale))
    if match := _LIST.fullmatch(name):
        inner = _type_named(match["inner"])
        return pa.large_list(inner) if match["large"] else pa.list_(inner)
    return _NAMES.get(name) or pa.type_for_alias(name)


def unified(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The common type of both without loss of kind, or None if there is none.

    Examples:
        >>> unified(pa.int64(), pa.float64()), unified(pa.null(), pa.string()), unified(pa.int64(), pa.string())
        (DataType(double), DataType(string), None)
    """
    is_ = pa.types
    if left == right or is_.is_null(right):
        return left
    if is_.is_null(left):
        return right
    lines = common_type(left, right)
    if lines is not None:
        return lines
    if is_.is_integer(left) and is_.is_integer(right):
        return _common_integer(left, right)
    if _is_number(left) and _is_number(right):
        return pa.float64()
    if _is_text(left) and _is_text(right):
        return pa.large_string()
    if is_.is_timestamp(left) and is_.is_timestamp(right) and left.tz == right.tz:
        return max(left, right, key=lambda type_: ["s", "ms", "us", "ns"].index(type_.unit))
    if is_.is_map(left) and is_.is_map(right):
        key, item = unified(left.key_type, right.key_type), unified(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if is_.is_struct(left) and is_.is_struct(right):
        return _common_struct(left, right)
    if _is_list(left) and _is_list(right):
        inner = unified(left.value_type, right.value_type)
        large = is_.is_large_list(left) or is_.is_large_list(right)
        return None if inner is None else (pa.large_list(inner) if large else pa.list_(inner))
    return None


def _common_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    width = max(left.bit_width, right.bit_width)
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return left if left.bit_width == width else right
    return pa.uint64() if pa.uint64() in (left, right) else pa.int64()


def _common_struct(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    types = {child.name: child.type for child in left}
    for child in right:
        common = unified(types[child.name], child.type) if child.name in types else child.type
        if common is None:
            return None
        types[child.name] = common
    return pa.struct(list(types.items()))


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def without(type_: pa.DataType, kind: str) -> pa.DataType:
    """Return a type without what its kind names, also in nested types.

    Args:
        type_: type of a column.
        kind: ``"temporal"`` for dates and times, which become text; ``"encoding"`` for dictionaries and views, which
            become plain values; ``"view"`` for views alone; ``"order"`` for the order of dictionaries.

    Examples:
        >>> without(pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string())), "encoding")
        MapType(map<string, string>)
    """
    is_ = pa.types
    if kind == "temporal" and is_.is_temporal(type_):
        return pa.string()
    if kind == "order" and is_.is_dictionary(type_):
        return pa.dictionary(type_.index_type, type_.value_type)
    if kind == "encoding" and is_.is_dictionary(type_):
        return without(type_.value_type, kind)
    if kind in ("encoding", "view") and (is_.is_string_view(type_) or is_.is_binary_view(type_)):
        return pa.string() if is_.is_string_view(type_) else pa.binary()
    inner = nested_fields(type_)
    changed = [child.with_type(without(child.type, kind)) for child in inner]
    return with_nested_fields(type_, changed) if changed != inner else type_


def nested_fields(type_: pa.DataType) -> list[pa.Field]:
    """Return the fields within a type: none if it is not nested.

    Examples:
        >>> nested_fields(pa.map_(pa.string(), pa.int8()))
        [pyarrow.Field<key: string not null>, pyarrow.Field<value: int8>]
    """
    is_ = pa.types
    if is_.is_struct(type_):
        return list(type_)
    if is_.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.value_field] if _is_list(type_) or is_.is_fixed_size_list(type_) else []


def with_nested_fields(type_: pa.DataType, inner: list[pa.Field]) -> pa.DataType:
    """Return a nested type with other fields inside.

    Examples:
        >>> with_nested_fields(pa.struct({"a": pa.int8()}), [pa.field("b", pa.int8())])
        StructType(struct<b: int8>)
    """
    is_ = pa.types
    if is_.is_struct(type_):
        return pa.struct(inner)
    if is_.is_map(type_):
        return pa.map_(*inner, keys_sorted=type_.keys_sorted)
    if is_.is_fixed_size_list(type_):
        return pa.list_(*inner, type_.list_size)
    return pa.large_list(*inner) if is_.is_large_list(type_) else pa.list_(*inner)


def without_null(schema: pa.Schema) -> pa.Schema:
    """The columns whose type is completely known; a null type anywhere inside means that it is not."""
    return pa.schema([column for column in schema if not _holds_null(column.type)])


def _holds_null(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_holds_null(child.type) for child in type_)
    return _holds_null(type_.value_type) if _is_list(type_) else bool(pa.types.is_null(type_))


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly these columns, in this order, of these types and with this metadata; absent ones are null.

    Lists, structs and maps become text as JSON, as JSON Lines are read where a column is text.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its new type; the column is named.

    Examples:
        >>> fitted(pa.table({"meta": [{"a": [1, None]}, None]}), pa.schema({"meta": pa.string()}))["meta"].to_pylist()
        ['{"a":[1,null]}', None]
    """
    if table.schema.equals(schema, check_metadata=True):
        return table
    columns = []
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    if len(by_name) < table.num_columns:
        raise pa.ArrowInvalid(f"duplicate column names in {table.column_names}")
    for column in schema:
        values = by_name.get(column.name)
        if values is None:
            columns.append(pa.nulls(table.num_rows, column.type))
        elif values.type == column.type:
            columns.append(values)
        elif isinstance(column.type, LineType):
            columns.append(as_type(values, column.type))
        elif pa.types.is_nested(values.type) and _is_text(column.type):
            columns.append(pa.chunked_array([_as_json(values, column)]))
        else:
            try:
                made = pc.cast(values, options=pc.CastOptions(column.type, allow_float_truncate=True))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise pa.ArrowInvalid(
                    f"column {column.name!r} is {values.type}, and cannot be {column.type} ({error})"
                ) from error
            if any(map(_loses, values.chunks, made.chunks)):
                raise pa.ArrowInvalid(
                    f"column {column.name!r} is {values.type}, and would lose values as {column.type}"
                )
            columns.append(made)
    return pa.Table.from_arrays(columns, schema=schema)


def _as_json(values: pa.ChunkedArray, column: pa.Field) -> pa.Array:
    try:
        texts = [None if value is None else orjson.dumps(value).decode() for value in values.to_pylist()]
    except (TypeError, ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(f"column {column.name!r} is {values.type}, and cannot be text ({error})") from error
    return pa.array(texts, column.type)


def _loses(values: pa.Array, made: pa.Array) -> bool:
    """Whether a cast that Arrow makes in silence lost values: parts of numbers, NaN, the time of a day, or its date.

    Whole numbers that became floats may have lost digits.
    """
    kind, wanted, is_ = values.type, made.type, pa.types
    if kind == wanted or values.null_count == len(values):
        return False
    if is_.is_floating(kind) and is_.is_floating(wanted):
        return bool(pc.any(pc.and_(pc.is_inf(made), pc.is_finite(values))).as_py())
    if _is_number(kind) and is_.is_boolean(wanted):
        return not pc.all(pc.equal(made.cast(kind), values)).as_py()
    if is_.is_floating(kind) and is_.is_integer(wanted):
        try:
            values.cast(wanted)
        except pa.ArrowInvalid:
            return True
    if is_.is_timestamp(kind) and (is_.is_date(wanted) or is_.is_time(wanted)):
        moments = values if kind.tz is None else pc.local_timestamp(values)
        return is_.is_time(wanted) or not pc.all(pc.equal(made.cast(moments.type), moments)).as_py()
    if is_.is_map(kind) and is_.is_map(wanted):
        return _loses(values.keys, made.keys) or _loses(values.items, made.items)
    if is_.is_struct(kind) and is_.is_struct(wanted):
        inner = dict(zip((child.name for child in wanted), made.flatten(), strict=True))
        pairs = zip((child.name for child in kind), values.flatten(), strict=True)
        return any(_loses(child, inner[name]) for name, child in pairs if name in inner)
    lists = is_.is_nested(kind) and is_.is_nested(wanted) and not (is_.is_map(kind) or is_.is_map(wanted))
    return lists and _loses(values.flatten(), made.flatten())


def combined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate tables to one of the columns and types of a schema, each column in one chunk; absent ones are null.

    Metadata, of columns and of the whole, is kept where all tables that have the column agree on it; a column is
    nullable if it is in one of them, or if one does not have it.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its new type.

    Examples:
        >>> first, second = (pa.table({"n": [1]}, metadata={"by": name, "licence": "CC0"}) for name in ("A", "B"))
        >>> combined([first, second], first.schema).schema.metadata
        {b'licence': b'CC0'}
    """
    schemas = [table.schema for table in tables]
    common = pa.schema([_common_field(column, schemas) for column in schema])
    common = common.with_metadata(_agreed([table_schema.metadata for table_schema in schemas]))
    return one_chunk([fitted(table, common) for table in tables])


def _common_field(column: pa.Field, schemas: Sequence[pa.Schema]) -> pa.Field:
    matches = [schema.field(column.name) for schema in schemas if column.name in schema.names]
    agreed = _agreed([match.metadata for match in matches]) or {}
    if any(match.type != column.type for match in matches):
        agreed = {key: value for key, value in agreed.items() if not key.startswith(NOTE)}
    nullable = len(matches) < len(schemas) or any(match.nullable for match in matches)
    common = column.with_nullable(nullable).with_metadata(agreed or None)
    return common if len(matches) == len(schemas) else unmarked(common)  # a table may have dropped it


def without_notes(table: pa.Table) -> pa.Table:
    """The table without metadata that begins with `NOTE`: in a file that was read, anybody may have written it."""

    def own(pairs: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
        return {key: value for key, value in (pairs or {}).items() if not key.startswith(NOTE)} or None

    fields = [column.with_metadata(own(column.metadata)) for column in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, own(table.schema.metadata)))


def _agreed(all_pairs: Sequence[Mapping[bytes, bytes] | None]) -> dict[bytes, bytes] | None:
    """Return the pairs that are the same in all of the mappings."""
    first, *remaining = [pairs or {} for pairs in all_pairs] or [{}]
    return {key: value for key, value in first.items() if all(pairs.get(key) == value for pairs in remaining)} or None


@dataclass(frozen=True)
class _Retyped:
    """The buffers of an array under another type of the same layout; `pa.Array.view` refuses nulls below nulls."""

    values: pa.Array
    kind: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.kind.__arrow_c_schema__(), self.values.__arrow_c_array__()[1]


def with_fields(table: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the same values as other fields, which differ in names, nullability and metadata only, also within.

    Examples:
        >>> table = pa.table({"a": [{"b": 1}]})
        >>> with_fields(table, [pa.field("c", pa.struct({"d": pa.int64()}))]).to_pylist()
        [{'c': {'d': 1}}]
    """
    columns = [
        pa.chunked_array([pa.array(_Retyped(chunk, field.type)) for chunk in values.chunks], field.type)
        for values, field in zip(table.columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def with_fields_of(table: pa.Table, before: pa.Schema) -> pa.Table:
    """The table with the metadata of an earlier schema, and with its fields for columns of the same name and type."""
    if not table.num_columns:  # a table made of none has no rows
        return table
    fields = []
    for column, values in zip(table.schema, table.columns, strict=True):
        places = before.get_all_field_indices(column.name)
        was = unmarked(before.field(places[0])) if len(places) == 1 else column
        fields.append(was.with_nullable(was.nullable or values.null_count > 0) if was.type == column.type else column)
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, before.metadata))


def one_chunk(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables of one schema, each column in one chunk; texts of 2 GiB and more become large strings."""
    table = pa.concat_tables(tables)
    for place, column in enumerate(table.schema):
        narrow = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
        if narrow is not None and table.column(place).nbytes > _MAX_STRING_BYTES:
            table = table.set_column(place, column.with_type(narrow), table.column(place).cast(narrow))
    return table.combine_chunks() if any(column.num_chunks > 1 for column in table.columns) else table
