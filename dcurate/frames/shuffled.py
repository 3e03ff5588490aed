"""Tables for Dask's shuffle between partitions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from dcurate.frames.convert import to_arrow
from dcurate.frames.libraries import pd

_WORD = 4


def to_shuffle(table: pa.Table) -> pd.DataFrame:
    """A pandas frame with Arrow's dtypes; lists of uint32 become bytes, because Dask's P2P shuffle supports no lists.

    Examples:
        >>> lists = pa.array([[1, 2], []], pa.large_list(pa.uint32()))
        >>> to_shuffle(pa.table({"set": lists})).dtypes["set"]
        large_binary[pyarrow]
    """
    for place, column in enumerate(table.schema):
        if pa.types.is_large_list(column.type):
            lists = table.column(place).combine_chunks()
            offsets = lists.offsets.to_numpy()
            bounds, content = (offsets - offsets[0]) * _WORD, lists.flatten().to_numpy()
            data = pa.LargeBinaryArray.from_buffers(
                pa.large_binary(), len(lists), [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(content))]
            )
            table = table.set_column(place, column.name, data)
    return cast(pd.DataFrame, table.to_pandas(types_mapper=pd.ArrowDtype))


def from_shuffle(frame: Any) -> pa.Table:
    """The inverse of `to_shuffle`, without the index.

    Examples:
        >>> lists = pa.array([[1, 2], []], pa.large_list(pa.uint32()))
        >>> from_shuffle(to_shuffle(pa.table({"set": lists})))["set"].to_pylist()
        [[1, 2], []]
    """
    table = to_arrow(frame)
    for place, column in enumerate(table.schema):
        if pa.types.is_large_binary(column.type):
            packed = table.column(place).combine_chunks()
            packed = packed.chunk(0) if isinstance(packed, pa.ChunkedArray) else packed
            _, offsets, data = packed.buffers()
            bounds = np.frombuffer(offsets, np.int64)[packed.offset : packed.offset + len(packed) + 1]
            content = np.frombuffer(data or b"", np.uint32)[bounds[0] // _WORD : bounds[-1] // _WORD]
            lists = pa.LargeListArray.from_arrays(pa.array((bounds - bounds[0]) // _WORD), pa.array(content))
            table = table.set_column(place, column.name, lists)
    return table
