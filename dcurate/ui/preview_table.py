"""The first rows of a corpus on a terminal, each value on one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from dcurate.frames.columns import python_rows
from dcurate.runs.preview import Preview
from dcurate.runs.text import many

#: Characters that a column needs at least for rows to be lines of a table; else each row is a list of values.
_LEAST = 12
#: Spaces between two columns.
_GAP = 2
#: Characters of a value that are looked at.
_LONGEST = 2000


class PreviewTable:
    """Types of the columns, and the rows: as a table where its columns fit, else one below the other.

    Args:
        preview: the rows.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch
        >>> preview = Preview(DocumentBatch(data=pd.DataFrame({"text": ["one two"], "n": [1]})), rows_read=1)
        >>> console = Console(width=40)
        >>> with console.capture() as capture:
        ...     console.print(PreviewTable(preview))
        >>> [" ".join(line.split()) for line in capture.get().splitlines() if line.strip() and "─" not in line]
        ['column type', 'text large_string', 'n int64', 'text n', 'one two 1', '1 row, from the first 1 of the input']
    """

    def __init__(self, preview: Preview) -> None:
        self._preview = preview

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the tables, and a line with the number of rows."""
        schema, width = self._preview.schema, options.max_width
        yield _table(["column", "type"], [(_line(column.name), _line(str(column.type))) for column in schema], width)
        rows = python_rows(self._preview.to_arrow())
        yield ""
        if len(schema) * _LEAST <= width:
            yield _table([_line(name) for name in schema.names], [[*map(_value, row.values())] for row in rows], width)
        else:
            for number, row in enumerate(rows, 1):
                pairs = [(_line(name), _value(value)) for name, value in row.items()]
                yield _table([f"row {number}", ""], pairs, width)
                yield ""
        yield Text(f"{many(len(rows), 'row')}, from the first {self._preview.rows_read:,} of the input")
        yield from map(Text, self._preview.notices)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """A table with a line for each row, whose longest columns are cut to the width."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, _GAP, 0, 0), show_edge=False, pad_edge=False)
    lengths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    widths = _widths(lengths, width - (_GAP + 1) * len(columns))
    for name, most in zip(columns, widths, strict=True):
        table.add_column(_cut(name, most), no_wrap=True)
    for row in rows:
        table.add_row(*map(_cut, row, widths))
    return table


def _widths(lengths: Sequence[int], total: int) -> list[int]:
    """Widths of columns: short ones have their lengths, and the others share the remainder.

    Examples:
        >>> _widths([3, 100, 50], 43)
        [3, 20, 20]
    """
    widths = dict.fromkeys(range(len(lengths)), 1)
    for done, column in enumerate(sorted(widths, key=lengths.__getitem__)):
        widths[column] = max(1, min(lengths[column], total // (len(lengths) - done)))
        total -= widths[column]
    return list(widths.values())


def _cut(text: str, width: int) -> Text:
    cell = Text(text)
    cell.truncate(width, overflow="ellipsis")
    return cell


def _value(value: Any) -> str:
    """A value on one line."""
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        value = orjson.dumps(value, default=str).decode()
    return _line(value if isinstance(value, str) else str(value))


def _line(text: str) -> str:
    r"""Text on one line, with signs that control a terminal as escapes.

    Examples:
        >>> print(_line("a\nb\x1b[2J"))
        a\nb\x1b[2J
    """
    start = text[:_LONGEST]
    if start.isprintable():
        return start
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in start)
