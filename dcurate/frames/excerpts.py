"""Excerpts of a few rows for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dcurate.frames.columns import python_rows
from dcurate.frames.convert import to_arrow
from dcurate.frames.libraries import pd
from dcurate.rows import has_lines, whole_rows, without_origins

#: Names of id columns; the first that exists counts.
ID_COLUMNS = ("id", "_curator_dedup_id", "doc_id", "document_id", "uuid", "url")
#: Characters of a document that an excerpt shows.
EXCERPT = 200

_TEXT = "text"


def excerpt(text: str, most: int = EXCERPT) -> str:
    r"""The beginning of a text, on one line.

    Examples:
        >>> excerpt("one\n two three", 9)
        'one two …'
    """
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def id_column(names: Sequence[str]) -> str | None:
    """The id column, by name; None if none of `ID_COLUMNS` exists.

    Examples:
        >>> id_column(["text", "url", "id"]), id_column(["text"])
        ('id', None)
    """
    return next(iter(id_columns(names)), None)


def id_columns(names: Sequence[str]) -> list[str]:
    """The columns that usually hold ids, the one to prefer first.

    Examples:
        >>> id_columns(["text", "url", "id"])
        ['id', 'url']
    """
    return [name for name in ID_COLUMNS if name in names]


def excerpts(frame: Any, rows: int, column: str = "") -> list[dict[str, Any]]:
    """The first rows of a frame: each with its id, if it has one, and the beginning of its text.

    Args:
        frame: a frame of any library.
        rows: maximum number.
        column: the one with the text; ``text``, or the first that holds text, where it is not there.

    Examples:
        >>> excerpts(pa.table({"id": [7, 8], "body": ["some words", "more"]}), 1)
        [{'id': '7', 'excerpt': 'some words'}]
    """
    first = _first(frame, rows)
    records = list(whole_rows(first)) if has_lines(first) else python_rows(first)
    columns = records[0] if records else {}
    identity, field = id_column(list(columns)), _text_column(first, columns, column)
    shown: list[dict[str, Any]] = [{} for _ in records]
    for entry, row in zip(shown, records, strict=True):
        if identity is not None:
            entry["id"] = str(row.get(identity))
        if field is not None:
            text = row.get(field)
            entry["excerpt"] = excerpt(text if isinstance(text, str) else "")
    return shown


def _first(frame: Any, rows: int) -> pa.Table:
    if isinstance(frame, pa.Table):
        return without_origins(frame.slice(0, rows))
    return to_arrow(frame.head(rows) if isinstance(frame, pd.DataFrame) else frame.iloc[:rows])


def _text_column(table: pa.Table, row: dict[str, Any], wanted: str) -> str | None:
    """The column of text to show; one of these names may be in the lines alone, as the first row says."""
    text = [
        field.name for field in table.schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    inside = [name for name in (wanted, _TEXT) if name not in table.column_names and isinstance(row.get(name), str)]
    return next((name for name in (wanted, _TEXT, *text) if name in (*text, *inside)), None)
