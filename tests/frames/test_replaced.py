"""Values of columns that a stage makes anew."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import Batch, DataError, DocumentBatch
from dcurate.core.batch import DeferredRows, Rejection
from dcurate.frames.columns import with_values
from dcurate.frames.replaced import keeping_values

KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
TEXTS = st.lists(st.tuples(*[st.none() | st.sampled_from(["a", "b"])] * 2), min_size=1, max_size=9)


def array(values: list[str | None], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind.value_type if pa.types.is_dictionary(kind) else kind).cast(kind)


def stage(new: pa.Array) -> Any:
    """A function of a stage that makes the column ``tag``, and drops the last row."""

    def process(batches: list[Batch]) -> list[Batch]:
        [batch] = batches
        assert isinstance(batch, DocumentBatch)
        table = with_values(batch.to_arrow(), "tag", pa.table({"new": new}), "new")
        kept = batch.with_data(table.slice(0, table.num_rows - 1))
        gone = batch.to_arrow().slice(table.num_rows - 1)
        kept.rejections = (Rejection("tag", "last", 1, 1, DeferredRows(lambda most: gone)),)
        return [kept]

    return process


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("other", KINDS, ids=str)
@given(TEXTS)
def test_a_row_has_the_new_value_or_else_the_one_that_it_had(kind: Any, other: Any, pairs: Any) -> None:
    old, new = [before for before, _ in pairs], [after for _, after in pairs]
    rows = pa.table({"tag": array(old, kind), "n": range(len(pairs))})
    [made] = keeping_values(["tag"], stage(array(new, other)), [DocumentBatch(data=rows)])
    values = [after if after is not None else before for before, after in pairs]
    assert made.to_arrow()["tag"].to_pylist() == values[:-1]
    assert made.to_arrow()["n"].to_pylist() == list(range(len(pairs)))[:-1]
    [rejection] = made.rejections
    assert rejection.data.to_pylist() == rows.slice(len(pairs) - 1).to_pylist()
    assert dict(made.found) == ({"replaced 'tag'": sum(value is not None for value in old)} if any(old) else {})


@pytest.mark.parametrize("frame", [pd.DataFrame({"tag": ["x", None], "n": [1, 2]})])
def test_rows_of_pandas_keep_values_too(frame: pd.DataFrame) -> None:
    def process(batches: list[Any]) -> list[Any]:
        return [batch.with_data(batch.to_pandas().assign(tag=[None, "new"])) for batch in batches]

    [made] = keeping_values(["tag"], process, [DocumentBatch(data=frame)])
    assert made.to_pandas()[["tag", "n"]].to_dict("list") == {"tag": ["x", "new"], "n": [1, 2]}


def test_a_batch_that_becomes_several_counts_its_rows_once() -> None:
    def process(batches: list[Any]) -> list[Any]:
        rows = batches[0].to_arrow()
        return [[batches[0].with_data(rows.append_column("tag", pa.array(["new"]))) for _ in range(3)]]

    [parts] = keeping_values(["tag"], process, [DocumentBatch(data=pa.table({"tag": ["x"]}))])
    assert [dict(part.found) for part in parts] == [{"replaced 'tag'": 1}, {}, {}]
    assert [part.to_arrow().to_pylist() for part in parts] == [[{"tag": "new"}]] * 3


def test_a_column_of_nulls_is_no_loss() -> None:
    rows = DocumentBatch(data=pa.table({"tag": pa.nulls(2, pa.int64()), "n": [1, 2]}))

    def process(batches: list[Any]) -> list[Any]:
        assert batches == [rows]
        return batches

    assert keeping_values(["tag"], process, [rows]) == [rows]


def test_a_value_that_cannot_be_kept_is_an_error() -> None:
    rows = DocumentBatch(data=pa.table({"tag": [[1]], "n": [1]}))

    def process(batches: list[Any]) -> list[Any]:
        table = batches[0].to_arrow()
        return [batches[0].with_data(table.append_column("tag", pa.array([None], pa.string())))]

    with pytest.raises(DataError, match="column 'tag' holds list<.*> and the stage makes string of it, with no value"):
        keeping_values(["tag"], process, [rows])
