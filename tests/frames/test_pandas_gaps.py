"""Whole numbers with gaps on their way through pandas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dcurate import DocumentBatch

LARGE = 2**53 + 1  # the first whole number that a float cannot hold


@pytest.mark.parametrize(
    "values",
    [
        pa.array([LARGE, None]),
        pa.array([2**64 - 1, None], pa.uint64()),
        pa.array([None, None], pa.int64()),
        pa.array([[LARGE, None], None]),
        pa.array([{"id": LARGE}, None]),
        pa.array([[{"id": LARGE}, {"id": None}], []]),
    ],
    ids=["int64", "uint64", "all null", "list", "struct", "list of structs"],
)
def test_whole_numbers_with_gaps_come_back_from_pandas_as_they_went(values: pa.Array) -> None:
    batch = DocumentBatch(data=pa.table({"text": ["one", "two"], "n": values}))
    frame = batch.to_pandas()
    back = batch.with_data(frame.assign(text=frame.text.str.upper())).to_arrow()
    assert back.column("n").combine_chunks() == values
    assert back.schema.field("n").type == values.type


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()])
def test_narrow_whole_numbers_with_gaps_keep_their_width(kind: Any) -> None:
    batch = DocumentBatch(data=pa.table({"n": pa.array([1, None], kind)}))
    assert batch.with_data(batch.to_pandas()).to_arrow().schema.field("n").type == kind


def test_whole_numbers_without_gaps_are_ordinary_in_pandas() -> None:
    batch = DocumentBatch(data=pa.table({"n": [1, 2], "x": [0.5, None]}))
    assert batch.to_pandas().dtypes.astype(str).tolist() == ["int64", "float64"]


def test_rows_are_chosen_by_a_number_with_gaps_as_ever() -> None:
    frame = DocumentBatch(data=pa.table({"n": [1, None, 3]})).to_pandas()
    assert frame[frame.n > 1].n.tolist() == [3]
