"""Write files of chunks again without some of their rows, or with nothing in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.frames.columns import numbers
from dcurate.fs.stores import Directory
from dcurate.shuffle.chunks import read_chunks, read_index, write_chunks

Ints = npt.NDArray[np.int64]


def write_blanked(folder: Directory, name: str, rows: Ints, staged: Directory) -> int:
    """Write a file again with nulls in all columns of some rows, so that the others keep their numbers.

    Args:
        rows: numbers of the rows, from 0.

    Returns:
        The bytes that were written.

    Raises:
        DataError: it cannot be read, or not written.
    """

    def blanked(table: pa.Table, first: int) -> pa.Table:
        gone = pa.array(np.isin(np.arange(first, first + table.num_rows), rows))
        columns = [pc.if_else(gone, pa.scalar(None, column.type), column) for column in table.columns]
        return pa.table(columns, schema=table.schema)

    return _rewritten(folder, name, staged, blanked)


def write_without_rows(folder: Directory, name: str, by: str, rows: Ints, staged: Directory) -> int:
    """Write a file again without the entries of some rows; its chunks stay the same ranges of keys.

    Args:
        by: column with the row of each entry; its highest bit does not count.
        rows: numbers of the rows.

    Returns:
        The bytes that were written.

    Raises:
        DataError: it cannot be read, or not written.
    """

    def filtered(table: pa.Table, _: int) -> pa.Table:
        kept = ~np.isin(numbers(table, by).astype(np.int64) % 2**31, rows)
        return table.filter(pa.array(kept))

    return _rewritten(folder, name, staged, filtered)


def _rewritten(folder: Directory, name: str, staged: Directory, change: Callable[[pa.Table, int], pa.Table]) -> int:
    index = read_index(folder, name)

    def tables() -> Iterator[pa.Table]:
        for chunk in range(len(index.bounds) - 1):
            start, stop = index.bounds[chunk : chunk + 2].tolist()
            read = read_chunks(folder.path(name), dict(folder.options), start, stop) if stop > start else []
            yield change(read[0], int(index.rows[chunk])) if read else pa.table({})

    with staged.writing(name) as file:
        write_chunks(file, tables(), True, **index.notes)
        return file.tell()
