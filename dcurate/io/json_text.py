"""Arrow to JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, time
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.frames.columns import python_values

_CHUNK = 2**20
_COLUMN_CHUNK = 2**14
_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS


def check(table: pa.Table, path: str) -> None:
    """Refuse columns of types that JSON cannot hold.

    Raises:
        DataError: a column of bytes, decimals or the like, also inside lists and structs.
    """
    for column in table.schema:
        if not _has_form(column.type):
            raise DataError(
                f"column {column.name!r} holds {column.type}, which JSON has no form for, so it cannot go to {path!r}; "
                f"leave it out with fields=, turn it into text, or use ParquetWriter"
            )


def _has_form(type_: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_dictionary(type_):
        return _has_form(type_.value_type)
    if is_.is_struct(type_):
        return all(_has_form(child.type) for child in type_)
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_fixed_size_list(type_):
        return _has_form(type_.value_type)
    text = is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_)
    plain = is_.is_null(type_) or is_.is_boolean(type_) or is_.is_integer(type_) or is_.is_floating(type_)
    moment = is_.is_timestamp(type_) or is_.is_date(type_) or is_.is_time(type_)
    return bool(text or plain or moment)


def infinite(table: pa.Table) -> int:
    """Count infinite numbers, which JSON cannot hold: they are written as null.

    Examples:
        >>> infinite(pa.table({"score": [1.0, float("inf"), float("nan")], "pairs": [[1.0], [float("-inf")], None]}))
        2
    """
    floats = (values for column in table.columns for chunk in column.chunks for values in floats_in(chunk))
    return sum(int(pc.sum(pc.is_inf(values)).as_py() or 0) for values in floats)


def floats_in(values: pa.Array) -> Iterator[pa.Array]:
    """The floats that an array is of, or that are within its values: an array of them for each place in its type."""
    if pa.types.is_floating(values.type):
        yield values
    elif pa.types.is_dictionary(values.type) and _has_floats(values.type):
        yield from floats_in(values.dictionary_decode())
    elif _has_floats(values.type):
        children = values.flatten()
        for child in children if pa.types.is_struct(values.type) else [children]:
            yield from floats_in(child)


def _has_floats(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_has_floats(child.type) for child in type_)
    nested = pa.types.is_nested(type_) or pa.types.is_dictionary(type_)
    return _has_floats(type_.value_type) if nested else pa.types.is_floating(type_)


def lines(table: pa.Table, default: Callable[[Any], Any] | None = None) -> Iterator[list[bytes]]:
    """The rows as JSON objects, about a megabyte of them at a time: the memory is used again while it is warm.

    Args:
        table: the rows; texts are valid UTF-8.
        default: what becomes of a value that JSON has no form for; dates and times become ISO 8601.

    Raises:
        DataError: a text is not valid UTF-8, or a date is none of the years 1 to 9999 and there is no `default`.
    """
    names = table.column_names
    if not names:
        yield [b"{}"] * table.num_rows
        return
    least = _COLUMN_CHUNK * len(names)  # of many columns a megabyte is few rows, and each column costs a call
    rows = max(1, table.num_rows * max(_CHUNK, least) // max(table.nbytes, 1))
    fallback = default or moment
    dumps = orjson.dumps
    for batch in table.to_batches(rows):
        try:
            columns = [values_of(column, default) for column in batch.columns]
        except (UnicodeDecodeError, pa.ArrowException) as error:
            raise DataError(f"a text is not valid UTF-8 ({error}); fix it before it is written") from error
        yield [dumps(dict(zip(names, row, strict=True)), fallback, _OPTIONS) for row in zip(*columns, strict=True)]


def values_of(column: pa.Array, default: Callable[[Any], Any] | None = None) -> Any:
    """Return the values of a column as Python objects, texts quickly.

    Raises:
        DataError: a date is none of the years 1 to 9999, and there is no `default` for what JSON has no form for.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.to_numpy(zero_copy_only=False)
    if default is not None:
        return python_values(column)
    try:
        return column.to_pylist()
    except OverflowError as error:
        raise DataError(
            f"a value of {column.type} is outside of the years 1 to 9999, which JSON has no form for; "
            "leave the column out with fields=, turn it into text, or use ParquetWriter"
        ) from error


def moment(value: Any) -> str:
    """Dates and times of kinds that orjson does not know, as ISO 8601."""
    if isinstance(value, date | time):
        return value.isoformat()
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def anything(value: Any) -> str:
    """Any value as text: for rows that are kept for a person to look at."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return moment(value) if isinstance(value, date | time) else str(value)


def joined(rows: list[bytes]) -> bytes:
    """Lines as they are in a file."""
    return b"\n".join([*rows, b""])
