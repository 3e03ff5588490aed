"""Tables of records: from user-supplied dictionaries to columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dcurate.errors import DataError

_WRONG = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeEncodeError, OverflowError)


def table_of(records: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> pa.Table:
    """A table with one row per record; missing values are null.

    Args:
        columns: columns that come first, and always exist; text, if all values are null.

    Raises:
        DataError: a column holds values that no one type can hold, or text that is not Unicode.

    Examples:
        >>> table_of([{"id": 1}, {"id": 2, "text": "b"}], ["text"]).to_pydict()
        {'text': [None, 'b'], 'id': [1, 2]}
    """
    names = dict.fromkeys(columns)
    for record in records:
        names.update(dict.fromkeys(record))
    return pa.table({name: _column(name, [record.get(name) for record in records]) for name in names})


def with_bytes(table: pa.Table, name: str, content: Sequence[bytes | None]) -> pa.Table:
    """The table with a column of bytes added, or replaced.

    Examples:
        >>> with_bytes(pa.table({"url": ["u"]}), "page", [b"<p>"])["page"].to_pylist()
        [b'<p>']
    """
    column = pa.array(content, pa.large_binary())
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def fits_column(value: Any) -> bool:
    """Whether a table can hold a value: not text with a lone surrogate, for example.

    Examples:
        >>> fits_column("text"), fits_column(chr(0xD800))
        (True, False)
    """
    try:
        pa.array([value])
    except _WRONG:
        return False
    return True


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        column = pa.array(values)
    except _WRONG as error:
        raise DataError(f"records do not make one column {name!r}: {error}; give it values of one type") from error
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column
