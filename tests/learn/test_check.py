"""Labels that cannot be learnt from are left out, each with its reason."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError, DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, PipelineError
from dcurate.datasets import JoinTable
from dcurate.learn import CheckLabels, LabelSchema

Row = dict[str, Any]
SCHEMA = LabelSchema.of(
    {
        "labels": {
            "quality": {"type": "scale", "description": "d", "min": 1, "max": 3},
            "kind": {"type": "enumeration", "description": "d", "values": ["a", "b"]},
        }
    }
)


def checked(folder: Path, rows: list[Row], files: int = 1) -> tuple[list[Row], dict[str, int], list[Row]]:
    """What is kept; the numbers of others by reason; and the rows in quarantine."""
    source = folder / "in"
    source.mkdir(parents=True)
    for number in range(files):
        (source / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[number::files]))
    stages: list[Any] = [JsonlReader(str(source)), CheckLabels(SCHEMA), JsonlWriter(str(folder / "out"))]
    report = Pipeline("check", stages=stages).run(InlineExecutor(), observers=[]).report
    reasons: dict[str, int] = {}
    for stage in report.stages:
        for reason, count in [*stage.dropped.items(), *stage.faulty.items()]:
            reasons[reason] = reasons.get(reason, 0) + count
    kept = [
        json.loads(line) for path in sorted((folder / "out").glob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    aside = [
        json.loads(line)
        for path in (folder / "out.dcurate").rglob("quarantine/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return kept, reasons, aside


def test_each_wrong_label_has_its_reason(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"text": "good", "quality": 3, "kind": "a", "id": 1},
        {"text": "good", "quality": 3, "kind": "a", "id": 2},
        {"text": "torn", "quality": 1, "kind": "a", "id": 3},
        {"text": "torn", "quality": 2, "kind": "a", "id": 4},
        {"text": "odd", "quality": 7, "kind": "a", "id": 5},
        {"text": "odd too", "quality": 1, "kind": "c", "id": 6},
        {"text": "...", "quality": 1, "kind": "a", "id": 7},
        {"text": "partly", "quality": None, "kind": "b", "id": 8},
    ]
    kept, reasons, aside = checked(tmp_path, rows)
    assert sorted(row["id"] for row in kept) == [1, 8]
    assert reasons == {
        "text labelled again": 1,
        "contradictory labels": 2,
        "label outside the schema": 2,
        "no words": 1,
    }
    assert {row["id"]: row["_dcurate_error"] for row in aside} == {
        5: "label 'quality' is 7, not a whole number from 1 to 3",
        6: "label 'kind' is 'c', not one of 'a', 'b'",
    }


LABELS = st.tuples(
    st.sampled_from(["t1", "t2", "t3", "?"]), st.sampled_from([1, 2, 9, None]), st.sampled_from(["a", "x"])
)


@settings(max_examples=15, deadline=None)
@given(st.lists(LABELS, min_size=1, max_size=12), st.integers(1, 3))
def test_what_is_kept_is_one_row_of_each_text_without_contradiction_and_no_row_is_lost(
    tmp_path_factory: pytest.TempPathFactory, labels: list[tuple[str, int | None, str]], files: int
) -> None:
    rows = [{"text": text, "quality": quality, "kind": kind} for text, quality, kind in labels]
    valid = [row for row in rows if row["text"] != "?" and row["quality"] != 9 and row["kind"] != "x"]
    by_text: dict[str, set[Any]] = {}
    for row in valid:
        by_text.setdefault(str(row["text"]), set()).add((row["quality"], row["kind"]))
    expected = {(text, *pairs.pop()) for text, pairs in by_text.items() if len(pairs) == 1}
    kept, reasons, _ = checked(tmp_path_factory.mktemp("check"), rows, files)
    assert {(row["text"], row["quality"], row["kind"]) for row in kept} == expected
    assert len(kept) + sum(reasons.values()) == len(rows)
    assert len(kept) == len(expected)


def test_a_label_that_the_rows_do_not_have_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises((DataError, PipelineError), match="'kind'"):
        checked(tmp_path, [{"text": "t", "quality": 1}])
    with pytest.raises(PipelineError, match="must be a LabelSchema"):
        CheckLabels(3)  # type: ignore[arg-type]


def test_time_grows_with_the_number_of_labels_even_if_all_are_of_one_text(tmp_path: Path) -> None:
    def seconds(count: int, texts: int) -> float:
        table = pa.table(
            {
                "text": [f"text {number % texts}" for number in range(count)],
                "quality": [number % 3 + 1 for number in range(count)],
                "kind": ["a"] * count,
            }
        )
        start = time.process_time()
        batch = [DocumentBatch(data=table)]
        stages: list[Any] = [CheckLabels(SCHEMA), JsonlWriter(str(tmp_path / f"{count}-{texts}"), mode="overwrite")]
        Pipeline("check", stages=stages).run(InlineExecutor(), initial_tasks=batch, observers=[])
        return time.process_time() - start

    seconds(1000, 10)
    for texts in (1, 10**9):
        assert seconds(200_000, texts) < 25 * max(0.05, min(seconds(20_000, texts) for _ in range(2)))


def test_a_check_may_follow_a_join(tmp_path: Path) -> None:
    documents, annotations = tmp_path / "documents.jsonl", tmp_path / "annotations.jsonl"
    documents.write_text('{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n{"id": 3, "text": "one"}\n')
    annotations.write_text("".join(f'{{"id": {n}, "quality": {n}, "kind": "a"}}\n' for n in (1, 2, 3)))
    join = JoinTable(JsonlReader(str(documents)), JsonlReader(str(annotations)), "id", ["quality", "kind"])
    result = Pipeline("join", stages=[join, CheckLabels(SCHEMA)]).run(InlineExecutor(), observers=[])
    rows = [row for batch in result for row in batch.to_arrow().to_pylist()]  # type: ignore[attr-defined]
    assert rows == [{"id": 2, "text": "two", "quality": 2, "kind": "a"}]
