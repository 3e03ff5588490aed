"""Rows cut out of batches, and batches joined."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import BatchKey, DataError, DocumentBatch
from dcurate.core.batch import Rejection

KEY = BatchKey("a.jsonl", (3,))
FRAMES = [pa.table, pd.DataFrame]


def batch(data: Any) -> DocumentBatch:
    return DocumentBatch(key=KEY, data=data, dataset_name="mine", rejections=(Rejection("s", "r", 1, 1),))


@given(frame=st.sampled_from(FRAMES), count=st.integers(1, 20), cuts=st.lists(st.integers(0, 20)))
def test_a_batch_cut_anywhere_and_joined_is_the_batch(frame: Any, count: int, cuts: list[int]) -> None:
    whole = batch(frame({"text": [f"text {n}" for n in range(count)], "n": list(range(count))}))
    marks = sorted({0, count, *(cut for cut in cuts if cut < count)})
    parts = [whole.rows(start, stop) for start, stop in pairwise(marks)]
    joined = DocumentBatch.joined(parts)
    assert joined is not None
    assert type(joined.data) is type(whole.data)
    assert joined.to_arrow().equals(whole.to_arrow())
    assert {(part.key, part.dataset_name, part.rejections) for part in [*parts, joined]} == {(KEY, "mine", ())}


def test_rows_of_pandas_are_numbered_afresh_so_that_columns_align() -> None:
    part = batch(pd.DataFrame({"text": ["a", "b", "c"]})).rows(1, 3)
    assert part.data.assign(more=pd.Series([1, 2]))["more"].tolist() == [1, 2]


@pytest.mark.parametrize("first", FRAMES)
@pytest.mark.parametrize("second", FRAMES)
def test_parts_may_be_held_by_different_libraries_and_types_widen(first: Any, second: Any) -> None:
    joined = DocumentBatch.joined([batch(first({"n": [1]})), batch(second({"n": [0.5], "more": ["x"]}))])
    assert joined is not None
    table = joined.to_arrow()
    assert (table["n"].to_pylist(), table["more"].to_pylist()) == ([1.0, 0.5], [None, "x"])
    assert table["n"].num_chunks == 1


def test_a_part_without_rows_has_no_say_in_the_types() -> None:
    joined = DocumentBatch.joined([batch(pa.table({"n": pa.array([], pa.null())})), batch(pa.table({"n": [1]}))])
    assert joined is not None
    assert joined.to_arrow().schema.field("n").type == pa.int64()


def test_what_no_column_can_hold_together_is_not_joined() -> None:
    assert DocumentBatch.joined([batch(pa.table({"n": [1]})), batch(pa.table({"n": ["x"]}))]) is None
    assert DocumentBatch.joined([]) is None


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None]),
        pa.array([b"ab", None], pa.binary(2)),
        pa.array([b"ab", None], pa.large_binary()),
        pa.array([Decimal("1.5"), None], pa.decimal128(12, 4)),
        pa.array([Decimal("1.5"), None], pa.decimal256(50, 4)),
        pa.array([0, None], pa.date64()),
        pa.array([None, None], pa.date32()),
        pa.array([1, None], pa.time32("s")),
        pa.array([1, None], pa.time64("ns")),
        pa.array([[1], None], pa.list_(pa.int8())),
        pa.array([["a"], None], pa.large_list(pa.string())),
        pa.array([[1, 2], None], pa.list_(pa.float32(), 2)),
        pa.array([{"a": 1}, None], pa.struct({"a": pa.int16(), "b": pa.string()})),
        pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)
def test_a_column_that_goes_through_pandas_unchanged_comes_back_in_its_type(values: pa.Array) -> None:
    before = DocumentBatch(data=pa.table({"text": ["a", "b"], "column": values}))
    after = before.with_data(before.to_pandas().assign(more=1)).with_data(before.to_pandas().iloc[::-1])
    column = after.to_arrow()["column"]
    assert (column.type, column.to_pylist()) == (values.type, values.to_pylist()[::-1])


def test_a_column_that_pandas_changed_has_its_new_type() -> None:
    before = DocumentBatch(data=pa.table({"n": pa.array([Decimal("1.5")], pa.decimal128(5, 2)), "l": [[1]]}))
    after = before.with_data(before.to_pandas().assign(n=1.5, l=["text"])).to_arrow()
    assert [str(kind) for kind in after.schema.types] == ["double", "large_string"]


def test_a_column_that_arrow_has_no_type_for_is_named() -> None:
    for values in ([1, "a"], [1j, 2j], pd.arrays.SparseArray([0, 1])):
        with pytest.raises(DataError, match=r"column 'odd' .* holds values without a common Arrow type.*drop"):
            DocumentBatch(data=pd.DataFrame({"text": ["a", "b"], "odd": values})).to_arrow()
