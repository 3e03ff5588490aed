"""Where each row was read, in columns that only stages of dcurate see: the file, and the number of the row in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: The columns: a file, or a part of one, as splits are named; and the number of the row there, from 0.
FILE, ROW = "_dcurate_file", "_dcurate_row"
#: A third one, which a mixture adds: how often it had the row before.
EPOCH = "_dcurate_epoch"
#: All of them. A stage that names them among its optional inputs is given rows that have them, where readers can say.
ORIGINS = (FILE, ROW, EPOCH)

Place = tuple[str, npt.NDArray[np.int64]]


def with_origins(table: pa.Table, places: Sequence[Place]) -> pa.Table:
    """The table with both columns.

    Args:
        places: files, and the numbers of their rows, in the order of the table.

    Examples:
        >>> table = with_origins(pa.table({"n": [1, 2]}), [("a.jsonl", np.array([3])), ("b.jsonl", np.array([0]))])
        >>> table[FILE].to_pylist(), table[ROW].to_pylist()
        (['a.jsonl', 'b.jsonl'], [3, 0])
    """
    files = [pa.repeat(pa.scalar(name, pa.string()), len(rows)) for name, rows in places]
    numbers = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in places)])
    table = table.append_column(FILE, pa.chunked_array(files, pa.string()).combine_chunks())
    return table.append_column(ROW, pa.array(numbers))


def with_epochs(table: pa.Table, epochs: npt.NDArray[np.integer[Any]]) -> pa.Table:
    """The table with a column of how often a mixture had each row before."""
    return table.append_column(EPOCH, pa.array(epochs.astype(np.int32)))


class Origins(NamedTuple):
    """Where rows were read; None for what they do not say.

    Args:
        files: name of the file of each row; may be null.
        numbers: its number in the file, from 0.
        epochs: how often a mixture had it before.
    """

    files: list[str | None] | None
    numbers: npt.NDArray[np.int64] | None
    epochs: npt.NDArray[np.int64] | None


def origins_of(table: pa.Table) -> Origins:
    """Where the rows of a table were read, as far as they say so.

    Examples:
        >>> origins_of(with_origins(pa.table({"n": [1]}), [("a.jsonl", np.array([3]))]))
        Origins(files=['a.jsonl'], numbers=array([3]), epochs=None)
    """
    numbers = [table[name].to_numpy() if name in table.column_names else None for name in (ROW, EPOCH)]
    return Origins(table[FILE].to_pylist() if FILE in table.column_names else None, *numbers)


def without_origins(table: Any) -> Any:
    """The table without them.

    Examples:
        >>> without_origins(with_origins(pa.table({"n": [1]}), [("a", np.array([0]))])).column_names
        ['n']
    """
    return table.drop_columns([name for name in ORIGINS if name in table.column_names])


def numbers_of(lines: bytes, rows: int, bad: Sequence[int], first: int) -> npt.NDArray[np.int64]:
    r"""The numbers of lines that are rows.

    Args:
        lines: in which blank ones may be.
        rows: how many are rows.
        bad: the numbers of lines that could not be read, counted in these lines from 0.
        first: number of the first line.

    Examples:
        >>> numbers_of(b"{}\n\n{\n{}\n", 2, [2], 10).tolist()
        [10, 13]
    """
    count = lines_in(lines)
    numbers = np.arange(count)
    if rows + len(bad) != count:
        numbers = np.array([at for at, line in enumerate(lines.split(b"\n")) if line.strip()], np.int64)
    numbers = np.setdiff1d(numbers, bad)
    return (numbers if len(numbers) == rows else np.arange(rows)) + first


def lines_in(lines: bytes) -> int:
    """The number of lines, with one that does not end."""
    return lines.count(b"\n") + (not lines.endswith(b"\n") and bool(lines))
