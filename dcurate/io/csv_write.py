"""Rows as lines of comma-separated values, which `dcurate.io.csv_rows` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError
from dcurate.io.csv_rows import Dialect

_TEXT = pa.large_string()


def csv_lines(table: pa.Table, dialect: Dialect) -> pa.Array:
    r"""Return the rows as lines, without line ends; a value is quoted where it must be.

    Null is an empty value, and empty text a quoted one.

    Raises:
        DataError: a column of a type that CSV has no form for, or null in the only column.

    Examples:
        >>> csv_lines(pa.table({"id": [1, 2, None], "text": ["a, b", None, "c"]}), Dialect()).to_pylist()
        ['1,"a, b"', '2,', ',c']
    """
    if table.num_columns == 1 and table.column(0).null_count:
        raise DataError(
            f"column {table.column_names[0]!r} is the only one and holds null, which would be a blank line of CSV; "
            "write another column, too, or fill the nulls"
        )
    columns = [_quoted(_as_text(table, name), dialect) for name in table.column_names]
    lines = pc.binary_join_element_wise(
        *columns, pa.scalar(dialect.delimiter, _TEXT), null_handling="replace", null_replacement=""
    )
    return lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines


def csv_header(names: Sequence[str], dialect: Dialect) -> str:
    """Return the line with the names of the columns."""
    row = pa.table([pa.array([name], _TEXT) for name in names], names=[str(place) for place, _ in enumerate(names)])
    return str(csv_lines(row, dialect)[0].as_py())


def _as_text(table: pa.Table, name: str) -> pa.ChunkedArray:
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _has_form(column.type):
        raise DataError(
            f"column {name!r} holds {column.type}, which CSV has no form for; leave it out with fields=, turn it into "
            "text, or use JsonlWriter or ParquetWriter"
        )
    return column.cast(_TEXT)


def _has_form(type_: pa.DataType) -> bool:
    is_ = pa.types
    text = is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_)
    number = is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_)
    moment = is_.is_timestamp(type_) or is_.is_date(type_) or is_.is_time(type_)
    return bool(text or number or moment or is_.is_boolean(type_) or is_.is_null(type_))


def _quoted(texts: pa.ChunkedArray, dialect: Dialect) -> pa.ChunkedArray:
    r"""The values as they are written.

    Quoted are those that are empty, begin or end with a space, or hold a sign of the dialect, a line break or a byte
    order mark, which readers take off the beginning of a file.
    """
    signs = "".join(re.escape(sign) for sign in (dialect.delimiter, dialect.quote, dialect.escape or ""))
    must = pc.match_substring_regex(texts, rf"^$|^\s|\s$|[\r\n\x{{FEFF}}{signs}]")
    inner = texts
    if dialect.escape:
        inner = pc.replace_substring(inner, dialect.escape, dialect.escape * 2)
    inner = pc.replace_substring(inner, dialect.quote, (dialect.escape or dialect.quote) + dialect.quote)
    quote = pa.scalar(dialect.quote, _TEXT)
    return pc.if_else(must, pc.binary_join_element_wise(quote, inner, quote, pa.scalar("", _TEXT)), texts)
