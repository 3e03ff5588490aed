"""Content hashes of texts, as an Arrow column."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.frames.text import text_column

#: Width of a content hash in bytes: among a billion texts, two different ones share a hash with a chance of 10**-21.
WIDTH = 16


def with_hashes(table: pa.Table, text_field: str, hash_field: str) -> pa.Table:
    """The table with a column of 128-bit BLAKE2b hashes of its texts; a null text hashes like an empty one.

    Raises:
        DataError: there is no such column, or it does not hold text.
    """
    texts = text_column(table, text_field)
    data = memoryview(texts.data)  # type: ignore[arg-type]  # an array is a buffer; the stubs do not say so
    bounds = texts.offsets.tolist()
    digests = b"".join(
        hashlib.blake2b(data[start:stop], digest_size=WIDTH).digest() for start, stop in pairwise(bounds)
    )
    hashes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(WIDTH), len(texts), [None, pa.py_buffer(digests)])
    return table.append_column(hash_field, hashes)


def hashes_of(table: pa.Table, hash_field: str) -> npt.NDArray[np.uint64]:
    """The hashes of a table as an array of shape (rows, 2)."""
    column = table.column(hash_field).combine_chunks()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [
        np.frombuffer(chunk.buffers()[1], np.uint64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
        for chunk in chunks
        if len(chunk)
    ]
    return np.concatenate(parts).reshape(-1, 2) if parts else np.zeros((0, 2), np.uint64)


def repeats(hashes: Iterable[npt.NDArray[np.uint64]]) -> list[npt.NDArray[np.bool_]]:
    """For each array of hashes, which rows repeat a row that comes before them in it or in an earlier array.

    Examples:
        >>> first, second = np.array([[1, 1], [2, 2], [1, 1]], np.uint64), np.array([[2, 2], [3, 3]], np.uint64)
        >>> [rows.tolist() for rows in repeats([first, second])]
        [[False, False, True], [True, False]]
    """
    arrays = list(hashes)
    if not arrays:
        return []
    every = np.concatenate(arrays)
    order = np.lexsort((every[:, 1], every[:, 0]))
    ordered = every[order]
    same = np.zeros(len(every), np.bool_)
    same[order[1:]] = (ordered[1:] == ordered[:-1]).all(axis=1)
    return np.split(same, np.cumsum([len(array) for array in arrays])[:-1])
