"""Embeddings in columns, and as matrices."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from dcurate import DataError, ResourceError
from dcurate.frames.vectors import array_library, embeddings, features, one_blas_thread, vectors_in, with_vectors

ROWS = [[3.0, 4.0], [0.0, 2.0], None, [1.0, 0.0]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32()),
        pa.list_(pa.float16()),
        pa.large_list(pa.float64()),
        pa.list_(pa.float32(), 2),
        pa.list_(pa.int8()),
    ],
    ids=str,
)
def test_every_kind_of_list_of_numbers_holds_the_same_embeddings(kind: pa.DataType) -> None:
    column = pa.array(
        [None if row is None else [kind.value_type.to_pandas_dtype()(n) for n in row] for row in ROWS], kind
    )
    found = embeddings(pa.table({"e": column}), "e")
    assert found.rows.tolist() == [0, 1, 3]
    assert found.vectors.tolist() == np.array([[0.6, 0.8], [0, 1], [1, 0]], np.float32).tolist()
    part = embeddings(pa.table({"e": column}).slice(1, 2), "e")
    assert (part.rows.tolist(), part.vectors.tolist()) == ([0], [[0.0, 1.0]])


def test_rows_without_a_direction_are_left_out() -> None:
    rows = [[1.0, 1.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [None, 1.0], [], None, [1e300, 1e300]]
    assert embeddings(pa.table({"e": rows}), "e").rows.tolist() == [0, 7]


@pytest.mark.parametrize("column", [pa.array([None, None]), pa.array([], pa.list_(pa.float32())), pa.array([[], []])])
def test_a_column_without_embeddings_has_none(column: pa.Array) -> None:
    assert len(embeddings(pa.table({"e": column}), "e").rows) == 0


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([[1.0, 2.0], [1.0]], "of 2 numbers .row 0. and of 1 .row 1.; embed all documents with one model"),
        (["text"], "holds string, not lists of numbers"),
        ([["a"]], "not lists of numbers"),
        ([1.0], "not lists of numbers"),
    ],
)
def test_what_is_no_embedding_is_refused_in_a_sentence(column: list[Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        embeddings(pa.table({"e": column}), "e")


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=3, max_size=3), max_size=5),
    st.integers(0, 5),
)
def test_an_embedding_is_scaled_by_itself_beside_any_other(rows: list[list[float]], cut: int) -> None:
    table = pa.table({"e": pa.array(rows, pa.list_(pa.float32()))})
    whole = embeddings(table, "e")
    parts = [embeddings(table.slice(0, cut), "e"), embeddings(table.slice(cut), "e")]
    assert whole.vectors.tobytes() == b"".join(part.vectors.tobytes() for part in parts if len(part.rows))
    lengths = np.linalg.norm(whole.vectors.astype(np.float64), axis=1)
    assert np.allclose(lengths, 1, atol=1e-6)


def test_a_matrix_comes_back_from_a_column_and_from_a_slice_of_it() -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    table = with_vectors(pa.table({"n": range(4)}), "v", matrix)
    assert vectors_in(table, "v").tolist() == matrix.tolist()
    assert vectors_in(table.slice(1, 2), "v").tolist() == matrix[1:3].tolist()


def test_products_of_matrices_take_one_thread_inside_and_as_many_as_before_outside() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed")
def test_work_on_a_gpu_without_cupy_says_what_to_install() -> None:
    with pytest.raises(ResourceError, match=r"needs CuPy, which is not installed; pip install 'dcurate\[cuda12\]'"):
        array_library(gpu=True)


@given(
    st.lists(st.one_of(st.none(), st.lists(st.floats(-9, 9), min_size=2, max_size=2)), max_size=9), st.integers(0, 2)
)
def test_features_are_the_numbers_of_each_row_and_nan_for_null(rows, kind):
    types = [pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)]
    table = pa.table({"n": pa.array([row and 7 for row in rows], pa.int64()), "v": pa.array(rows, types[kind])})
    counts, vectors = features(table.slice(1), ["n", "v"])
    known = [row for row in rows[1:] if row is not None]
    blank = [row is None for row in rows[1:]]
    assert np.isnan(counts[:, 0]).tolist() == blank
    assert vectors.shape == (len(rows[1:]), 2 if known else 0)
    assert vectors[~np.array(blank, bool)].tolist() == (known or [[]] * 0)
    assert np.isnan(vectors[np.array(blank, bool)]).all()
