from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DataError
from dcurate.frames.tokens import Tokens, tokens_of, with_results, with_tokens

ids_of = st.lists(st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=6)


@given(rows=ids_of, kind=st.sampled_from([pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.uint32())]))
def test_tokens_are_read_from_lists_of_any_whole_numbers_and_written_as_int32(
    rows: list[list[int] | None], kind: pa.DataType
) -> None:
    table = pa.table({"input_ids": pa.array([None, [1, 2], *rows], kind)}).slice(2)
    tokens = tokens_of(table, "input_ids")
    assert tokens.lengths.tolist() == [len(row or []) for row in rows]
    again = with_tokens(table, "input_ids", tokens)
    assert again.schema.field("input_ids").type == pa.list_(pa.int32())
    assert again["input_ids"].to_pylist() == [row or [] for row in rows]


def test_rows_of_one_length_may_be_in_fixed_lists() -> None:
    tokens = tokens_of(pa.table({"input_ids": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))}), "input_ids")
    assert tokens.bounds.tolist() == [0, 2, 2, 4]
    assert tokens.ids.tolist() == [1, 2, 3, 4]


def test_a_column_of_nothing_but_nulls_is_rows_without_tokens() -> None:
    assert tokens_of(pa.table({"input_ids": pa.nulls(2)}), "input_ids").lengths.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["a"]), "holds string, not lists of token ids"),
        (pa.array([["a"]]), "not lists of token ids"),
        (pa.array([[1, None]]), "has a null among the token ids of a row"),
        (pa.array([[2**40]]), "holds a number that is not a token id"),
    ],
)
def test_what_is_no_tokens_is_refused(column: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tokens_of(pa.table({"input_ids": column}), "input_ids")


def test_a_column_that_is_not_there_says_what_makes_it() -> None:
    with pytest.raises(DataError, match="no column 'input_ids'; the rows have 'text'; put a Tokenize before"):
        tokens_of(pa.table({"text": ["a"]}), "input_ids")


def test_results_are_numbers_or_vectors_and_one_for_each_row() -> None:
    table = pa.table({"id": [1, 2]})
    assert with_results(table, "id", np.array([3, 4]))["id"].to_pylist() == [3, 4]
    assert with_results(table, "v", np.ones((2, 3), np.float32))["v"].to_pylist() == [[1, 1, 1], [1, 1, 1]]
    with pytest.raises(DataError, match="would have 3 values for 2 rows"):
        with_results(table, "id", np.arange(3))


def test_tokens_know_how_long_their_rows_are() -> None:
    assert Tokens(np.array([0, 2, 5]), np.zeros(5, np.int32)).lengths.tolist() == [2, 3]
