"""`CheckSchema`: what conforms leaves as it came; what does not is in quarantine with its column and check."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError, read_rejected
from dcurate.core.stage import Stage
from dcurate.datasets import CheckSchema
from dcurate.testing import check_stage

CONTRACT = pa.schema(
    [
        pa.field("id", pa.int8(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("tags", pa.list_(pa.field("item", pa.int16(), nullable=False))),
    ]
)


def checked(rows: pa.Table, schema: Any = CONTRACT) -> DocumentBatch:
    return CheckSchema(schema).process(DocumentBatch(data=rows))


def reasons(batch: DocumentBatch) -> dict[str, int]:
    return {rejection.reason: rejection.rows for rejection in batch.rejections}


@example(numbers=[0, None], tags=[0, 2**15])
@given(st.lists(st.none() | st.integers(-200, 200)), st.lists(st.none() | st.integers(-(2**15) - 9, 2**15 + 9)))
def test_each_row_is_kept_as_it_came_or_rejected_by_the_plain_rule(numbers: list[int | None], tags: list[Any]) -> None:
    lists = [[tag] for tag in tags[: len(numbers)]] + [None] * (len(numbers) - len(tags))
    rows = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": pa.array(["t"] * len(numbers), pa.string()),
            "tags": pa.array(lists, pa.list_(pa.int64())),
            "other": list(range(len(numbers))),
        }
    )
    kept = checked(rows)

    def reason(number: int | None, tag: list[int | None] | None) -> str:
        if number is None:
            return "id: null"
        if not -128 <= number <= 127:
            return "id: not int8"
        if tag is not None and tag[0] is None:
            return "tags: null"
        return "" if tag is None or -(2**15) <= (tag[0] or 0) < 2**15 else f"tags: not {CONTRACT.field('tags').type}"

    wanted = [reason(number, tag) for number, tag in zip(numbers, lists, strict=True)]
    assert kept.to_arrow().equals(rows.filter(pa.array([not text for text in wanted], pa.bool_())))
    assert reasons(kept) == {text: wanted.count(text) for text in set(wanted) if text}
    assert all(rejection.fault for rejection in kept.rejections)
    for rejection in kept.rejections:
        assert rejection.data["other"].to_pylist() == [
            row for row, text in enumerate(wanted) if text == rejection.reason
        ]


@pytest.mark.parametrize(
    ("values", "kind", "rejected"),
    [
        (pa.array(["1", None]), "int64", 1),
        (pa.array([1, 2]), "string", 2),
        (pa.array([1.0, 1.5]), "int64", 1),
        (pa.array([2**53, 2**53 + 1]), "float64", 1),
        (pa.array(["a"], pa.large_string()), "string", 0),
        (pa.array(["a", None]).dictionary_encode(), "string", 0),
        (pa.nulls(3), "int64", 0),
        (pa.array([True]), "int64", 1),
        (pa.array([[1]], pa.list_(pa.int64())), "list<string>", 1),
        (pa.array([{"a": 1}]), "string", 1),
        (pa.array([0.1, 1e300, math.inf, math.nan]), "float32", 1),
        (pa.array([[0.1], [1e9]]), "list<float16>", 1),
        (pa.array([0.5, 0.123]), "decimal128(5, 1)", 1),
        (pa.array([0, 86_400_000_000, 1], pa.timestamp("us")), "date32", 1),
        (pa.array([0], pa.timestamp("us", "UTC")), "timestamp[us]", 1),
        (pa.array([{"a": 1e300, "b": 1}]), pa.struct({"a": pa.float32()}), 1),
    ],
)
def test_a_value_conforms_if_the_type_holds_it(values: pa.Array, kind: Any, rejected: int) -> None:
    made = checked(pa.table({"n": values}), {"n": kind})
    assert sum(reasons(made).values()) == rejected


def test_lines_that_conform_leave_byte_for_byte_and_the_others_are_in_quarantine(tmp_path: Path) -> None:
    lines = ['{"id": 1,   "text": "a"}', '{"id": 300, "text": "b"}', '{"text": "c", "id": null}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    schema = pa.schema([pa.field("id", pa.int8(), nullable=False)])
    stages: list[Stage] = [
        JsonlReader(str(tmp_path / "a.jsonl")),
        CheckSchema(schema),
        JsonlWriter(str(tmp_path / "out")),
    ]
    report = Pipeline("check", stages=stages).run(InlineExecutor(), observers=[]).report
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == [lines[0] + "\n"]
    assert report.stages[1].faulty == {"id: not int8": 1, "id: null": 1}
    quarantined = read_rejected(str(report.quarantine_path))
    assert sorted(quarantined["text"]) == ["b", "c"]


def test_it_is_a_stage_like_others() -> None:
    check_stage(CheckSchema({"n": "int64"}), DocumentBatch(data=pa.table({"n": [1, 2, None]})))


@pytest.mark.parametrize("schema", [3, {}, "int64", pa.schema([]), {"n": "whole number"}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(
        PipelineError, match="is not a schema; give types by name|unknown type 'whole number' of column"
    ):
        CheckSchema(schema)


def test_a_schema_of_pandera_names_the_column_and_the_check() -> None:
    pandera = pytest.importorskip("pandera.pandas")
    columns = {
        "n": pandera.Column(float, pandera.Check.ge(0), nullable=True),
        "text": pandera.Column(str, pandera.Check.str_length(1, 3), required=False),
    }
    rows = pa.table({"n": [1.0, -1.0, None, 2.0], "text": ["a", "b", "c", "long text"]})
    made = checked(rows, pandera.DataFrameSchema(columns))
    assert made.to_arrow().equals(rows.take([0, 2]))
    assert reasons(made) == {"n: greater_than_or_equal_to(0)": 1, "text: str_length(1, 3)": 1}
    assert CheckSchema(pandera.DataFrameSchema(columns)).inputs() == ([], ["n"])

    class Model(pandera.DataFrameModel):  # type: ignore[name-defined]
        n: float = pandera.Field(ge=0, nullable=True)

    assert reasons(checked(rows, Model)) == {"n: greater_than_or_equal_to(0)": 1}
    assert reasons(checked(rows.select(["text"]), Model)) == {"n: column_in_dataframe": 4}


@pytest.mark.parametrize(("dtype", "wanted"), [("int64", [0, 2]), ("Int64", [0, 1, 2]), (None, [0, 1, 2])])
def test_what_conforms_to_a_schema_of_pandera_does_not_depend_on_the_batch(
    dtype: str | None, wanted: list[int]
) -> None:
    pandera = pytest.importorskip("pandera.pandas")
    schema = pandera.DataFrameSchema({"n": pandera.Column(dtype, nullable=True)})
    rows = pa.table({"n": [1, None, 3]})
    assert checked(rows, schema).to_arrow().equals(rows.take(wanted))
    alone = [row for row in range(3) if checked(rows.slice(row, 1), schema).num_items]
    assert alone == wanted


def test_a_schema_of_pandera_that_drops_rows_by_itself_is_refused() -> None:
    pandera = pytest.importorskip("pandera.pandas")
    schema = pandera.DataFrameSchema({"n": pandera.Column(int)}, drop_invalid_rows=True)
    with pytest.raises(PipelineError, match="a schema with drop_invalid_rows=True names no row that it drops"):
        CheckSchema(schema)
