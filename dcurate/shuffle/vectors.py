"""Files of vectors: a float32 matrix, row after row and nothing else, so that any of its rows can be read alone."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dcurate.fs.errors import storage_errors
from dcurate.fs.paths import open_store

Matrix = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

SUFFIX = ".vectors"
_KIND = np.dtype("<f4")
#: Rows further apart than this are read one by one.
_GAP_BYTES = 2**17


def write_vectors(file: BinaryIO, vectors: Matrix) -> None:
    """Write the rows of a matrix."""
    file.write(np.ascontiguousarray(vectors, _KIND).reshape(-1).view(np.uint8).data)


def read_vectors(address: str, options: dict[str, Any], dimensions: int, start: int, stop: int) -> Matrix:
    """The rows of a file from ``start`` up to ``stop``.

    Raises:
        DataError: the file cannot be read.
    """
    store, path = open_store(address, options)
    width = dimensions * _KIND.itemsize
    with storage_errors("read", address):
        data: bytes = store.cat_file(path, start=start * width, end=stop * width)
    return np.frombuffer(data, _KIND).reshape(stop - start, dimensions)


def read_vector_rows(address: str, options: dict[str, Any], dimensions: int, rows: Ints) -> Matrix:
    """Some rows of a file.

    Args:
        rows: their numbers, in order.

    Raises:
        DataError: the file cannot be read.
    """
    vectors = np.empty((len(rows), dimensions), np.float32)
    gaps = np.flatnonzero(np.diff(rows) * dimensions * _KIND.itemsize > _GAP_BYTES) + 1
    for places in np.split(np.arange(len(rows)), gaps):
        if len(places):
            first, last = int(rows[places[0]]), int(rows[places[-1]])
            vectors[places] = read_vectors(address, options, dimensions, first, last + 1)[rows[places] - first]
    return vectors
