"""A stand-in for cuDF where there is no GPU: rows are Arrow's, and calls must fit the signatures of the real one.

What it shows is which functions dcurate calls, and how; not what cuDF makes of them.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate_testing.gpu_calls import bound

RECORD = json.loads(Path(__file__).with_name("cudf_signatures.json").read_text("utf-8"))
#: The names of the functions that were called.
CALLS: list[str] = []
#: The columns and the number of rows of each copy to the host.
COPIED: list[tuple[tuple[str, ...], int]] = []


def signature_of(name: str) -> inspect.Signature:
    """The recorded signature of a function of cuDF, CuPy or dask-cuda."""
    return bound(RECORD["signatures"][name])


def like(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Refuse a call that the real function of that name would not take."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            signature_of(name).bind(*args, **kwargs)
            CALLS.append(name)
            return function(*args, **kwargs)

        return checked

    return decorate


class Column:
    """A column of strings, or one of offsets, as pylibcudf has them; of a spilled one it has no data."""

    def __init__(self, array: pa.Array, spilled: bool = False) -> None:
        self._array = array.cast(pa.string()) if pa.types.is_large_string(array.type) else array
        self._spilled = spilled

    @like("pylibcudf.Column.type")
    def type(self) -> Any:
        kinds = {pa.string(): "string", pa.int32(): "int32"}
        return SimpleNamespace(id=lambda: kinds.get(self._array.type, "other"))

    @like("pylibcudf.Column.null_count")
    def null_count(self) -> int:
        return int(self._array.null_count)

    @like("pylibcudf.Column.size")
    def size(self) -> int:
        return len(self._array)

    @like("pylibcudf.Column.num_children")
    def num_children(self) -> int:
        return 1 if len(self._array) else 0

    @like("pylibcudf.Column.offset")
    def offset(self) -> int:
        return int(self._array.offset)

    @like("pylibcudf.Column.child")
    def child(self, index: int) -> Column:
        assert index == 0
        return Column(pa.array(np.frombuffer(self._array.buffers()[1], np.int32)), self._spilled)

    @like("pylibcudf.Column.data")
    def data(self) -> Any:
        buffer = None if self._spilled else self._array.buffers()[-1]
        return SimpleNamespace(on_gpu=np.frombuffer(buffer, np.uint8)) if buffer is not None else None


class Series:
    """A column of a frame, which cuDF may have spilled to the host."""

    def __init__(self, array: pa.Array, spilled: bool = False) -> None:
        self._array = array
        self._spilled = spilled

    @property
    def _column(self) -> Series:
        return self

    @contextmanager
    @like("cudf.core.column.column.ColumnBase.access")
    def access(self, *, mode: str, scope: str) -> Iterator[None]:
        assert (mode, scope) == ("read", "external"), "of other scopes a column is back only when its pointer is read"
        self._spilled = False
        yield

    @property
    def dtype(self) -> Any:
        return self._array.type

    @like("cudf.Series.fillna")
    def fillna(self, value: Any) -> Series:
        return Series(self._array.fill_null(value))

    @like("cudf.Series.to_pylibcudf")
    def to_pylibcudf(self) -> tuple[Column, dict[str, Any]]:
        return Column(self._array, self._spilled), {}


class DataFrame:
    """Rows, as cuDF holds them."""

    __module__ = "cudf"

    def __init__(self, table: pa.Table, spilled: bool = False) -> None:
        self._table = table.combine_chunks()
        self._spilled = spilled

    @staticmethod
    @like("cudf.DataFrame.from_arrow")
    def from_arrow(table: pa.Table) -> DataFrame:
        return DataFrame(table)

    @like("cudf.DataFrame.to_arrow")
    def to_arrow(self, preserve_index: bool | None = None) -> pa.Table:
        COPIED.append((tuple(self._table.column_names), self._table.num_rows))
        return self._table

    @like("cudf.DataFrame.to_pandas")
    def to_pandas(self) -> Any:
        return self._table.to_pandas()

    @like("cudf.DataFrame.memory_usage")
    def memory_usage(self, index: bool = True) -> Any:
        return np.array([column.nbytes for column in self._table.columns])

    @like("cudf.DataFrame.take")
    def take(self, indices: Any) -> DataFrame:
        return DataFrame(self._table.take(pa.array(indices)))

    @like("cudf.DataFrame.reset_index")
    def reset_index(self, drop: bool = False) -> DataFrame:
        assert drop
        return self

    @like("cudf.DataFrame.assign")
    def assign(self, **columns: Any) -> DataFrame:
        table = self._table
        for name, column in columns.items():
            table = table.append_column(name, pa.array(column))
        return DataFrame(table)

    @property
    def columns(self) -> list[str]:
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, str):
            return Series(self._table.column(name).combine_chunks(), self._spilled)
        return DataFrame(self._table.select(name))


@like("cudf.concat")
def concat(objs: Any, ignore_index: bool = False) -> DataFrame:
    assert ignore_index
    return DataFrame(pa.concat_tables([one._table for one in objs]))


@like("cudf.read_parquet")
def read_parquet(path: str, columns: Any, row_groups: Any, use_pandas_metadata: bool) -> DataFrame:
    (groups,) = row_groups
    assert not use_pandas_metadata
    return DataFrame(pq.ParquetFile(path).read_row_groups(groups, columns=columns).replace_schema_metadata(None))


def install() -> None:
    """Have ``import cudf`` give the stand-in, and numba's simulator take its arrays for those of a GPU."""
    cudf, pylibcudf = ModuleType("cudf"), ModuleType("pylibcudf")
    vars(cudf).update(DataFrame=DataFrame, Series=Series, concat=concat, read_parquet=read_parquet)
    vars(pylibcudf)["TypeId"] = SimpleNamespace(STRING="string", INT32="int32", INT64="int64")
    sys.modules.update(cudf=cudf, pylibcudf=pylibcudf)
    from numba import cuda  # noqa: PLC0415 - the simulator, which lacks it

    there = cuda.to_device  # what is on the GPU already
    vars(cuda)["as_cuda_array"] = lambda memory: there(memory.on_gpu)
