"""Hold the values of rows against the fields of a schema of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.frames.schema import declared, nested_fields
from dcurate.io.lakehouse.fields import nulls_in_required

_NULL = "null"
#: Types of pandas that hold null, by types of Arrow.
_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def schema_fields(schema: Any, what: str) -> list[pa.Field]:
    """Return the fields of a schema; none if it is not a schema.

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


def frame_for(table: pa.Table, dtypes: Mapping[str, Any]) -> tuple[pd.DataFrame, dict[int, str]]:
    """Return rows as pandas has them, the same for rows of one batch or of several: null makes no number a float.

    Args:
        table: rows.
        dtypes: wanted types of columns by name, of NumPy or pandas.

    Returns:
        The frame, whose index has the numbers of the rows; and, by their numbers, the rows that are not in it, as a
        column of whole numbers or booleans is null in them and its type knows no null.

    Examples:
        >>> frame, nulls = frame_for(pa.table({"n": [1, None]}), {"n": np.dtype("int64")})
        >>> frame.n.tolist(), frame.n.dtype.name, nulls
        ([1], 'int64', {1: 'n'})
        >>> frame_for(pa.table({"n": [1, None]}), {"n": pd.Int64Dtype()})[0].n.dtype.name
        'Int64'
    """
    nulls: dict[int, str] = {}
    nullable = []
    for name, dtype in dtypes.items():
        if name in table.column_names and table[name].type in _NULLABLE:
            if isinstance(dtype, np.dtype):
                rows = np.flatnonzero(table[name].is_null().to_numpy())
                nulls = dict.fromkeys(rows.tolist(), name) | nulls
            else:
                nullable.append(name)
    kept = np.setdiff1d(np.arange(table.num_rows), list(nulls))
    table = table.take(kept) if nulls else table
    frame = table.to_pandas()
    for name in nullable:
        frame[name] = table[name].to_pandas(types_mapper=_NULLABLE.get)
    return frame.set_index(kept), nulls


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
    if nested_fields(values.type):
        values = values.take(np.arange(len(values)))  # Arrow also casts what is nested in rows outside of a slice
    try:
        held = all(map(_holds, values.chunks, values.cast(field.type).chunks))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        held = False
    return "" if held else f"not {field.type}"


def _holds(values: pa.Array, made: pa.Array) -> bool:
    """Whether values that were cast are the same still; floats may be rounded, but not to infinity.

    Examples:
        >>> infinite = pa.array([float("inf")], pa.float32())
        >>> _holds(pa.array([0.1]), pa.array([0.1], pa.float32())), _holds(pa.array([1e300]), infinite)
        (True, False)
        >>> date = pa.array([0], pa.timestamp("us"))
        >>> _holds(date, date.cast(pa.date32()))
        True
    """
    kind, is_ = made.type, pa.types
    if is_.is_dictionary(values.type) or is_.is_dictionary(kind):
        plain = (column.dictionary_decode() if is_.is_dictionary(column.type) else column for column in (values, made))
        return _holds(*plain)
    if is_.is_null(values.type) or values.type == kind:
        return True
    if is_.is_struct(kind):
        pairs = ((values.field(field.name), made.field(field.name)) for field in kind)
        return all(_holds(before, after) for before, after in pairs)
    if is_.is_map(kind):
        return _holds(values.keys, made.keys) and _holds(values.items, made.items)
    if nested_fields(kind):
        return _holds(values.flatten(), made.flatten())
    if is_.is_floating(kind) and is_.is_floating(values.type):
        overflowed = pc.and_(pc.is_inf(made.cast(pa.float64())), pc.is_finite(values.cast(pa.float64())))
        return not pc.any(overflowed).as_py()
    return bool(made.cast(values.type, safe=False).equals(values))


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
        "moment": is_.is_timestamp(kind) and kind.tz is not None,
        "local time": (is_.is_timestamp(kind) and kind.tz is None) or is_.is_date(kind),
        "time": is_.is_time(kind),
    }
    return next((name for name, is_one in groups.items() if is_one), "")
