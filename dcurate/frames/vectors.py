"""Embeddings: columns of lists of numbers, and matrices with a row for each."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.slot_gpus import slot_has_gpu
from dcurate.errors import DataError, ResourceError
from dcurate.frames.columns import column_of, numbers

Matrix = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_BLOCK = 4096


class Embeddings(NamedTuple):
    """The non-zero embeddings of a table.

    Args:
        vectors: vectors of length one, an array of shape (embeddings, dimensions).
        rows: the number of the row that each belongs to, in order.
    """

    vectors: Matrix
    rows: Ints


def embeddings(table: pa.Table, name: str) -> Embeddings:
    """The embeddings in a column of lists of numbers, normalized to length one.

    Rows without a direction are left out: null, empty, all zeros, or with a null, NaN or infinite number.

    Raises:
        DataError: the column is missing, it holds something else, or its lists are of several lengths.

    Examples:
        >>> table = pa.table({"embeddings": [[3.0, 4.0], None, [0.0, 0.0], [0.0, 2.0]]})
        >>> found = embeddings(table, "embeddings")
        >>> found.vectors.tolist(), found.rows.tolist()
        ([[0.6000000238418579, 0.800000011920929], [0.0, 1.0]], [0, 3])
    """
    column = _lists(column_of(table, name), name)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths)
    sizes = np.unique(lengths[rows])
    if len(sizes) > 1:
        outlier = int(rows[np.argmax(lengths[rows] != lengths[rows[0]])])
        raise DataError(
            f"column {name!r} holds embeddings of {lengths[rows[0]]} numbers (row {rows[0]}) and of {lengths[outlier]} "
            f"(row {outlier}); embed all documents with one model"
        )
    dimensions = int(sizes[0]) if len(sizes) else 0
    plain = column.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), dimensions)
    vectors = np.empty(plain.shape, np.float32)
    usable = np.zeros(len(rows), np.bool_)
    for start in range(0, len(rows), _BLOCK):
        stop = start + _BLOCK
        vectors[start:stop], usable[start:stop] = _scaled(plain[start:stop])
    return Embeddings(vectors if usable.all() else vectors[usable], rows[usable])


def features(table: pa.Table, fields: Sequence[str]) -> list[npt.NDArray[np.float64]]:
    """Columns of numbers, truth values or lists of numbers as matrices of shape (rows, numbers of a row); NaN for null.

    A column of lists without any list has shape (rows, 0).

    Raises:
        DataError: the column is missing, it holds something else, or its lists are of several lengths.

    Examples:
        >>> table = pa.table({"words": [7, None], "embeddings": [[3.0, 4.0], None]})
        >>> [matrix.tolist() for matrix in features(table, ["words", "embeddings"])]
        [[[7.0], [nan]], [[3.0, 4.0], [nan, nan]]]
    """
    matrices = []
    for name in fields:
        column = column_of(table, name)
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            matrices.append(numbers(table, name).astype(np.float64)[:, None])
            continue
        column = _lists(column, name)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        sizes = np.unique(lengths[lengths > 0])
        if len(sizes) > 1:
            raise DataError(f"column {name!r} holds lists of {sizes[0]} numbers and of {sizes[1]}; make all alike")
        matrix = np.full((len(lengths), int(sizes[0]) if len(sizes) else 0), np.nan)
        if len(sizes):
            matrix[lengths > 0] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, matrix.shape[1])
        matrices.append(matrix)
    return matrices


def _lists(column: pa.Array, name: str) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.list_(pa.float32()))
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)) and (
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    ):
        return column
    if pa.types.is_list(kind) and pa.types.is_null(kind.value_type):
        return column.cast(pa.list_(pa.float32()))
    raise DataError(f"column {name!r} holds {kind}, not lists of numbers; name the column that holds the embeddings")


def _scaled(plain: npt.NDArray[Any]) -> tuple[Matrix, npt.NDArray[np.bool_]]:
    """Normalize rows to length one, each independently, and flag the non-zero ones."""
    exact = plain.astype(np.float64)
    largest = np.abs(exact).max(axis=1, keepdims=True, initial=0.0)
    usable = np.isfinite(largest[:, 0]) & (largest[:, 0] > 0)
    exact[~usable] = 1.0
    exact /= np.where(usable[:, None], largest, 1.0)
    exact /= np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    return exact.astype(np.float32), usable


def with_vectors(table: pa.Table, name: str, vectors: npt.NDArray[Any]) -> pa.Table:
    """The table with a column of lists of equal length added: the rows of a matrix, without a copy.

    A column of that name gives way to it.

    Examples:
        >>> table = with_vectors(pa.table({"n": [1, 2]}), "v", np.eye(2, dtype=np.float32))
        >>> vectors_in(table, "v").tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, _column_of(vectors))
    return table.append_column(name, _column_of(vectors))


def table_of_vectors(name: str, vectors: npt.NDArray[Any]) -> pa.Table:
    """A table of one column that holds the rows of a matrix."""
    return pa.table({name: _column_of(vectors)})


def _column_of(vectors: npt.NDArray[Any]) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def vectors_in(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """The matrix of a column made by `with_vectors`, without a copy."""
    column = column_of(table, name)
    return np.asarray(column.flatten().to_numpy()).reshape(len(column), column.type.list_size)


def array_library(gpu: bool) -> Any:
    """NumPy, or CuPy for work on a GPU.

    Raises:
        ResourceError: CuPy is not installed, or the slot was given another GPU than the first of its process.

    Examples:
        >>> array_library(gpu=False).__name__
        'numpy'
    """
    if not gpu:
        return np
    slot_has_gpu()
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise ResourceError(
            "work on a GPU needs CuPy, which is not installed; pip install 'dcurate[cuda12]' or 'dcurate[cuda13]'"
        ) from error


def on_host(array: Any) -> npt.NDArray[Any]:
    """A NumPy or CuPy array as NumPy."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.get())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context in which matrix products use one core, because a slot has no more.

    So they also come out the same wherever they run: how sums are cut may depend on the number of threads.
    """
    with _thread_pools().limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> Any:
    return importlib.import_module("threadpoolctl").ThreadpoolController()
