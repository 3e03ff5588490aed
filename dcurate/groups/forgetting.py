"""Have an index of seen documents forget some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import orjson

from dcurate.errors import DataError
from dcurate.frames.columns import optional_values
from dcurate.fs.stores import Directory
from dcurate.groups.index import INDEX
from dcurate.groups.pairs import ROW
from dcurate.shuffle.chunks import read_chunks, read_index
from dcurate.shuffle.forgetting import write_blanked, write_without_rows
from dcurate.shuffle.spill import ID, ROWS

_ROWS_OF = f"/{ROWS}"


def index_files(directory: Directory) -> list[str] | None:
    """Return the files of documents of an index; None if the directory is none.

    Raises:
        DataError: it is damaged.
    """
    data = directory.read(INDEX)
    if data is None:
        return None
    try:
        generations = orjson.loads(data)["generations"].items()
        return [f"{name}/{file}" for name, files in generations for file, _ in files]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{directory.path(INDEX)!r} is damaged; put it back from a copy") from error


def ids_in_index(directory: Directory, name: str) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the ids of documents in a file of an index, and the number of the first of them, some at a time.

    Raises:
        DataError: the file cannot be read.
    """
    index = read_index(directory, name)
    for chunk in range(len(index.bounds) - 1):
        start, stop = index.bounds[chunk : chunk + 2].tolist()
        for table in read_chunks(directory.path(name), dict(directory.options), start, stop, [ID]):
            yield int(index.rows[chunk]), optional_values(table, ID)


def write_forgotten(directory: Directory, name: str, rows: Collection[int], staged: Directory) -> tuple[list[str], int]:
    """Write a file of an index again without what it knows of some documents, and the files of keys beside it.

    The other documents keep their numbers.

    Args:
        name: file of documents, of `index_files`.
        rows: numbers of the documents.

    Returns:
        The names of the files, and their bytes.

    Raises:
        DataError: a file cannot be read, or not written.
    """
    gone = np.array(sorted(rows), np.int64)
    nbytes = write_blanked(directory, name, gone, staged)
    generation, _, file = name.partition(_ROWS_OF)
    beside = [other for other in directory.files(generation) if other.endswith(f"/{file}") and other != name]
    return [name, *beside], nbytes + sum(write_without_rows(directory, other, ROW, gone, staged) for other in beside)
