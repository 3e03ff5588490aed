"""The rows that a person's stage sees, with the very values of their lines of JSON, and the rows that it returns.

A column of Arrow has one type. Objects with different keys become one type with all keys, and values without a common
type become text. Where rows have such values, their lines hold them as they are: a person's stage is given those, and
what it returns is written into the lines of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dcurate.frames.convert import arrow_column, to_arrow, to_python
from dcurate.frames.line_matching import source_rows
from dcurate.io import json_write
from dcurate.io.json_parse import DEEPEST
from dcurate.kernels.json_rows import ABSENT, ESCAPED_TEXT, NULL, TEXT, scan
from dcurate.rows.lines import LINE, is_as_read, lines_of, with_lines, with_lines_at, without_lines


def seen(table: pa.Table) -> pd.DataFrame:
    r"""Return the rows as a pandas frame, nested values and those of mixed types as their lines have them.

    Examples:
        >>> rows = pa.table({"tag": ["1", "a"], "meta": [{"a": 1, "b": None}, {"a": None, "b": 2}]})
        >>> lines = [b'{"tag": 1, "meta": {"a": 1}}\n', b'{"tag": "a", "meta": {"b": 2}}\n']
        >>> seen(with_lines(rows, pa.array(lines, pa.large_binary()), rows.column_names)).to_dict("records")
        [{'tag': 1, 'meta': {'a': 1}}, {'tag': 'a', 'meta': {'b': 2}}]
    """
    exact = dict(_in_lines(table))
    plain = without_lines(table)
    frame = to_python(plain.drop_columns(list(exact)))
    for place, name in enumerate(plain.column_names):
        if name in exact:
            held = np.empty(plain.num_rows, object)
            held[:] = exact[name]
            frame.insert(place, name, held)
    return frame


def _in_lines(table: pa.Table) -> Iterator[tuple[str, list[Any]]]:
    """The values of columns that the lines hold otherwise than the table."""
    if LINE not in table.column_names:
        return
    fields = [field for field in table.schema if field.name != LINE and is_as_read(field)]
    names = [field.name for field in fields if has_objects(field.type) or _is_text(field.type)]
    lines = lines_of(table)
    if not names or lines is None:
        return
    data = lines[1]
    rows = scan(data, names, DEEPEST)
    for key, name in enumerate(names):
        kinds = rows.kinds[:, key]
        non_text = (kinds != ABSENT) & (kinds != NULL)
        is_text = _is_text(table.schema.field(name).type)
        non_text &= (kinds != TEXT) & (kinds != ESCAPED_TEXT) if is_text else True
        if non_text.any():
            values = table.column(name).to_pylist() if is_text else [None] * table.num_rows
            for row in np.flatnonzero(non_text).tolist():
                values[row] = json_write.parsed(data[rows.value_starts[row, key] : rows.value_stops[row, key]])
            yield name, values


def returned(frame: pd.DataFrame, types: pa.Schema | None, source: pa.Table | None) -> Any:
    """Return the rows of a frame for the engine: the frame itself, or an Arrow table with the lines of its rows.

    Args:
        frame: frame that a person's stage returned.
        types: the types of the columns before.
        source: the rows that the stage was given, with their lines; None if they had none.

    Raises:
        DataError: a column holds values that neither Arrow nor JSON has a form for.
    """
    exact: dict[str, list[Any]] = {}
    plain = frame.copy(deep=False)
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        made = arrow_column(column) if column.dtype == object else None
        if column.dtype == object and (has_objects(made.type) if made is not None else all(map(_has_form, column))):
            exact[str(name)] = values = [None if _is_missing(value) else value for value in column]
            if made is None:
                made = pa.chunked_array([pa.array([_as_text(value) for value in values], pa.string())])
        if made is not None:
            plain.isetitem(place, pd.arrays.ArrowExtensionArray(made))
    has_lines = source is not None and LINE in source.column_names
    if not exact and not has_lines:
        return frame
    table = to_arrow(plain, types)
    rows = source_rows(frame, table, source) if has_lines and len(frame) else None
    if rows is not None:
        table = with_lines_at(table, source, rows)
    return with_exact_lines(table, exact) if exact and len(frame) else table


def with_exact_lines(table: pa.Table, columns: dict[str, list[Any]]) -> pa.Table:
    """The rows with lines that hold these values of columns."""
    if LINE not in table.column_names or table.column(LINE).null_count:
        lines = [line + b"\n" for some in json_write.JsonForm(json_write.anything).lines(table) for line in some]
        plain = without_lines(table)
        table = with_lines(plain, pa.array(lines, pa.large_binary()), plain.column_names)
    return json_write.with_values(table, columns)


def _has_form(value: Any) -> bool:
    """Whether JSON has a form for a value."""
    return isinstance(value, str | int | float | dict | list | tuple | np.ndarray | np.number | np.bool_) or (
        _is_missing(value)
    )


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and isnan(value))


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_write.text(value)


def has_objects(kind: pa.DataType) -> bool:
    """Whether values of a type are objects, or lists of them."""
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return True
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and has_objects(kind.value_type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
