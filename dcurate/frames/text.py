"""The Arrow layout of a text column: offsets and UTF-8 bytes, as the kernels read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.errors import DataError, listed


class TextColumn(NamedTuple):
    """Texts as kernels see them: text ``i`` is ``data[offsets[i]:offsets[i + 1]]``, UTF-8.

    ``offsets`` is int64 of length rows + 1 and need not begin at 0; ``data`` is uint8. A null text is an empty one.
    """

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def text_column(table: pa.Table, name: str) -> TextColumn:
    """The layout of one text column, without copying the text.

    Raises:
        DataError: there is no such column, or it does not hold text.
    """
    if name not in table.column_names:
        raise DataError(f"no column {name!r}; the rows have {listed(table.column_names)}")
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], pa.large_string())
    if pa.types.is_null(column.type):
        return TextColumn(np.zeros(len(column) + 1, np.int64), np.zeros(0, np.uint8))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise DataError(f"column {name!r} holds {column.type}, not text; name the column that holds the text")
    if column.null_count:
        column = pc.fill_null(column, "")
    _, offsets, data = column.buffers()
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    bounds = (
        np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
        if offsets
        else np.zeros(1, width)
    )
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return TextColumn(bounds.astype(np.int64), bytes_)


def from_text(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    """An Arrow text array of a layout that a kernel made; ``offsets`` begin at 0."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
