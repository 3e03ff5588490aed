"""Columns in the names of folders, as Hive writes them: ``year=2024/part-0.parquet``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from types import MappingProxyType
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError

#: What a folder is called whose rows have no value.
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def folder_columns(name: str) -> dict[str, str | None]:
    """Return the columns in the folders of a file's name.

    Examples:
        >>> folder_columns("lang=en/year=2024/part-0.parquet")
        {'lang': 'en', 'year': '2024'}
    """
    pairs = [part.partition("=") for part in name.split("/")[:-1] if "=" in part]
    return {unquote(column): None if value == NULL_FOLDER else unquote(value) for column, _, value in pairs if column}


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


#: Types other than text: each for values that it gives back as they are written.
_TYPES: Mapping[pa.DataType, Callable[[str], bool]] = MappingProxyType(
    {
        pa.int64(): lambda text: _INTEGER.fullmatch(text) is not None,
        pa.date32(): _is_date,
        pa.bool_(): lambda text: text in ("true", "false"),
    }
)


def folder_types(names: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the types of the columns in the folders of all files: whole numbers, dates and booleans, or text.

    A type other than text is for columns of which each value would be written in the same way again, so that ``007``
    stays text.

    Args:
        names: names of the files.

    Examples:
        >>> folder_types(["year=2024/id=07/day=2024-02-29/a.jsonl", "year=9/id=7/day=2023-02-28/a.jsonl"])
        {'year': DataType(int64), 'id': DataType(string), 'day': DataType(date32[day])}
    """
    values: dict[str, set[str | None]] = {}
    for folder in dict.fromkeys(name.rpartition("/")[0] for name in names):
        for column, value in folder_columns(f"{folder}/").items():
            values.setdefault(column, set()).add(value)
    return {column: _type_of(texts - {None}) for column, texts in values.items()}


def _type_of(texts: Iterable[str | None]) -> pa.DataType:
    some = [text for text in texts if text is not None]
    suiting = (kind for kind, suits in _TYPES.items() if some and all(map(suits, some)))
    return next(suiting, pa.string())


def folder_value(column: str, text: str | None, kind: pa.DataType, name: str) -> pa.Scalar:
    """Return the value of a folder in the type of its column.

    Args:
        column: name of the column.
        text: value in the name of the folder; None for null.
        kind: the type.
        name: name of a file in the folder.

    Raises:
        DataError: it is not of this type.
    """
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"the folder of {name} says {column}={text}, which is not {kind}; give the column another type with "
            f"schema={{{column!r}: 'string'}}, or leave the columns of folders out with folder_fields=False"
        ) from error


def with_folder_value(table: pa.Table, column: str, value: pa.Scalar, name: str, *, must_agree: bool) -> pa.Table:
    """Return the rows of a file with the value of its folder where they have none.

    Args:
        table: rows of the file.
        column: name of the column.
        value: value of the folder.
        name: name of the file.
        must_agree: whether other values are refused, as files are left out by the values of their folders.

    Raises:
        DataError: a row has another value, and must not.
    """
    if column not in table.column_names:
        return table.append_column(column, pa.repeat(value, table.num_rows))
    present = table[column]
    kind = present.type.value_type if pa.types.is_dictionary(present.type) else present.type
    if present.null_count == len(present):
        kind = value.type if pa.types.is_null(kind) else kind
    plain, expected = present.cast(kind), None
    try:
        expected = value.cast(kind)
        differs = pc.fill_null(pc.not_equal(plain, expected), False) if value.is_valid else plain.is_valid()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        differs = plain.is_valid()
    if must_agree and pc.any(differs).as_py():
        shown = plain.filter(differs)[0]
        raise DataError(
            f"a row of {name} has {shown.as_py()!r} in column {column!r}, and its folder says {value.as_py()!r}; "
            "with a filter they must agree: rename the folder, or leave the columns of folders out with "
            "folder_fields=False"
        )
    if expected is None or not present.null_count or not value.is_valid:
        return table
    filled = pc.fill_null(plain, expected)
    return table.set_column(table.column_names.index(column), column, filled)
