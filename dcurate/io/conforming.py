"""Hold the values of rows against the fields of a schema of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dcurate.frames.schema import declared, nested_fields
from dcurate.io.lakehouse.fields import nulls_in_required

_NULL = "null"


def schema_fields(schema: Any, what: str) -> list[pa.Field]:
    """Return the fields of a schema; none if it is no schema.

    Args:
        schema: schema of Arrow, or types by name.
        what: what names it in messages.

    Raises:
        PipelineError: an unknown type.
    """
    if isinstance(schema, pa.Schema):
        return list(schema)
    if not isinstance(schema, Mapping):
        return []
    return [pa.field(name, kind) for name, kind in declared(schema, what).items()]


def failing_rows(table: pa.Table, fields: Sequence[pa.Field]) -> dict[int, str]:
    """Return the rows that do not conform to a schema, each with the first column and check that it fails.

    Args:
        table: rows, with all columns of the schema.
        fields: fields of the schema.

    Examples:
        >>> failing_rows(pa.table({"n": [1, None, 300]}), [pa.field("n", pa.int8(), nullable=False)])
        {1: 'n: null', 2: 'n: not int8'}
    """
    reasons: dict[int, str] = {}
    for field in fields:
        for row, problem in _failing(table[field.name], field, 0):
            reasons.setdefault(row, f"{field.name}: {problem}")
    return reasons


def _failing(values: pa.ChunkedArray, field: pa.Field, first: int) -> Iterator[tuple[int, str]]:
    """The numbers of the values that do not conform to a field, each with the problem; found by halving."""
    problem = _problem(values, field)
    if not problem:
        return
    if len(values) == 1:
        yield first, problem
        return
    half = len(values) // 2
    yield from _failing(values.slice(0, half), field, first)
    yield from _failing(values.slice(half), field, first + half)


def _problem(values: pa.ChunkedArray, field: pa.Field) -> str:
    """What is wrong with one of the values; empty if nothing is."""
    if any(nulls_in_required(chunk, field) for chunk in values.chunks):
        return _NULL
    if values.null_count == len(values):
        return ""
    if not _is_alike(values.type, field.type):
        return f"not {field.type}"
    try:
        values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return f"not {field.type}"
    return ""


def _is_alike(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether types are of the same kind, also within nested types.

    Examples:
        >>> _is_alike(pa.int64(), pa.float32()), _is_alike(pa.string(), pa.int64())
        (True, False)
        >>> _is_alike(pa.list_(pa.int8()), pa.list_(pa.int64())), _is_alike(pa.list_(pa.string()), pa.list_(pa.int64()))
        (True, False)
    """
    is_ = pa.types
    if is_.is_dictionary(kind) or is_.is_dictionary(wanted):
        return _is_alike(_plain(kind), _plain(wanted))
    if is_.is_null(kind) or kind == wanted:
        return True
    inner, wanted_inner = nested_fields(kind), nested_fields(wanted)
    if inner or wanted_inner:
        names = {field.name: field.type for field in inner}
        if is_.is_struct(kind) and is_.is_struct(wanted):
            return all(field.name in names and _is_alike(names[field.name], field.type) for field in wanted_inner)
        alike = len(inner) == len(wanted_inner) and is_.is_map(kind) == is_.is_map(wanted)
        structs = is_.is_struct(kind) or is_.is_struct(wanted)
        pairs = zip(inner, wanted_inner, strict=False)
        return alike and not structs and all(_is_alike(field.type, target.type) for field, target in pairs)
    return _group(kind) == _group(wanted) != ""


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _group(kind: pa.DataType) -> str:
    is_ = pa.types
    groups = {
        "number": is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind),
        "text": is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind),
        "bytes": is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind),
        "moment": is_.is_timestamp(kind) or is_.is_date(kind),
        "time": is_.is_time(kind),
    }
    return next((name for name, is_one in groups.items() if is_one), "")
