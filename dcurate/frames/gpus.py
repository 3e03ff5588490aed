"""The texts of a batch on a GPU, in the layout of CUDA kernels. Untested on a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dcurate.errors import DataError
from dcurate.frames.convert import cudf, is_cudf, stacked, to_arrow
from dcurate.frames.text import text_column
from dcurate.kernels.cuda import CudaColumn, on_gpu, on_host
from dcurate.rows import columns_listed


def texts_on_gpu(frame: Any, name: str) -> CudaColumn:
    """The layout of a text column on a GPU: without a copy of the text for a cuDF frame, with one for others.

    A null text is an empty one. Offsets are on the host, too: eight bytes a row.

    Raises:
        DataError: the column does not exist, or does not hold text.
    """
    return _of_cudf(frame, name) if is_cudf(frame) else on_gpu(*text_column(to_arrow(frame), name))


def has_nulls_on_gpu(frame: Any, name: str) -> bool:
    """Whether a column of a cuDF frame is there and holds nulls."""
    return name in map(str, frame.columns) and bool(frame[name].to_pylibcudf()[0].null_count())


def decode(parts: Sequence[tuple[str, Sequence[str], Sequence[int]]]) -> Any:
    """Row groups of local Parquet files as one cuDF frame, decoded on the GPU.

    Args:
        parts: for each file its path, the columns to read, in this order, and the numbers of the row groups.

    Raises:
        ResourceError: cuDF is not installed or finds no GPU.
    """
    read = cudf().read_parquet
    frames = [
        read(path, columns=list(columns), row_groups=[list(groups)], use_pandas_metadata=False)[list(columns)]
        for path, columns, groups in parts
    ]
    return stacked(frames)


def _on_gpu(series: Any) -> Any:
    """Return the libcudf column of a cuDF column, without a copy; brought back to the GPU if cuDF has spilled it.

    A column that came from another process has not been on this GPU yet.
    """
    column, _ = series.to_pylibcudf()
    if _is_spilled(column):
        # cuDF itself has no other way to bring it back in place. It cannot spill the column again.
        with series._column.access(mode="read", scope="external"):
            column, _ = series.to_pylibcudf()
    return column


def _is_spilled(column: Any) -> bool:
    """Whether a part of a column is not on the GPU; of spilled ones cuDF gives none."""
    parts = [column, *(column.child(number) for number in range(column.num_children()))]
    return any(part.size() and part.data() is None for part in parts)


def _of_cudf(frame: Any, name: str) -> CudaColumn:
    """The same for a libcudf string column: its bytes, and a child of offsets, int32 or int64."""
    names = [str(column) for column in frame.columns]
    if name not in names:
        raise DataError(f"no column {name!r}; the rows have {columns_listed(names)}")
    types = importlib.import_module("pylibcudf").TypeId
    series = frame[name]
    column = _on_gpu(series)
    if column.type().id() != types.STRING:
        raise DataError(f"column {name!r} holds {series.dtype}, not text; name the column that holds the text")
    if column.null_count():
        column = _on_gpu(series.fillna(""))
    if not column.size() or not column.num_children():
        return on_gpu(np.zeros(column.size() + 1, np.int64), np.zeros(0, np.uint8))
    child = column.child(0)
    offsets = on_host(child.data(), np.int64 if child.type().id() == types.INT64 else np.int32)
    first = child.offset() + column.offset()
    bounds = offsets[first : first + column.size() + 1].astype(np.int64)
    return on_gpu(bounds, column.data() if bounds[-1] else np.zeros(0, np.uint8))
