"""A resumed run that begins with rows in memory knows them by their content."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dcurate import DataError, DocumentBatch, ExactDuplicates, InlineExecutor, JsonlWriter, Pipeline, ProcessingStage
from dcurate.core.pipeline import AnyStage
from dcurate.core.report import RunReport
from dcurate.io.output import Mode
from tests.run.test_resume import content

FRAMES: dict[str, Callable[[list[str]], Any]] = {
    "Arrow": lambda texts: pa.table({"text": texts}),
    "pandas": lambda texts: pd.DataFrame({"text": texts}),
    "Polars": lambda texts: pl.DataFrame({"text": texts}),
    "values of several types": lambda texts: pd.DataFrame({"text": texts, "any": [1, *texts[1:]]}),
}
DAYS = [["one", "two"], ["three", "four"], ["five", "six"]]


class TextAlone(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Leaves out a column that Arrow has no type for."""

    name = "text_alone"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(task.to_pandas()[["text"]])


def begun_with(batches: Iterable[Any], output: Path, *stages: AnyStage, mode: Mode = "error") -> RunReport:
    """Resume a run that begins with frames, and return its report."""
    pipeline = Pipeline("test", stages=[*stages, JsonlWriter(str(output), fields=["text"], mode=mode)])
    return pipeline.run(InlineExecutor(), initial_tasks=list(batches), resume=True, observers=[]).report


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("barrier", [False, True], ids=["stream", "deduplicated"])
def test_rows_to_begin_with_that_changed_are_done_again(kind: str, barrier: bool, tmp_path: Path) -> None:
    stages: list[AnyStage] = [TextAlone(), ExactDuplicates()] if barrier else [TextAlone()]
    make = FRAMES[kind]
    begun_with(map(make, DAYS), tmp_path / "out", *stages)
    again = begun_with(map(make, DAYS), tmp_path / "out", *stages)
    assert again.splits_before == 3
    changed = [DAYS[0], ["three", "4"], DAYS[2]]
    report = begun_with(map(make, changed), tmp_path / "out", *stages)
    assert report.splits_before == (0 if barrier else 2)
    begun_with(map(make, changed), tmp_path / "fresh", *stages)
    assert content(tmp_path / "out") == content(tmp_path / "fresh")


@pytest.mark.parametrize(
    "other",
    [
        pa.table({"n": pa.array([1, 2], pa.int32())}),
        pa.table({"m": [1, 2]}),
        pa.table({"n": [1, 2], "m": [1, 2]}),
        pa.table({"n": [2, 1]}),
        pa.table({"n": [1, 2, 2]}),
        pa.table({"n": [1, None]}),
        pa.table({"n": pa.array([], pa.int64())}),
    ],
    ids=["type", "name", "column", "order", "rows", "null", "no rows"],
)
def test_each_change_of_a_table_changes_its_version(other: pa.Table) -> None:
    table = pa.table({"n": [1, 2]})
    assert DocumentBatch(data=table).version == DocumentBatch(data=pa.table({"n": [1, 2]})).version
    assert DocumentBatch(data=table).version != DocumentBatch(data=other).version


def test_a_frame_that_is_changed_in_place_between_runs_is_done_again(tmp_path: Path) -> None:
    batch = DocumentBatch(data=pd.DataFrame({"text": ["one", "two"]}))
    begun_with([batch], tmp_path / "out")
    batch.data.loc[0, "text"] = "1"
    assert begun_with([batch], tmp_path / "out").splits_before == 0
    (data,) = content(tmp_path / "out").values()
    assert [json.loads(line)["text"] for line in data.splitlines()] == ["1", "two"]


def test_rows_that_a_finished_run_has_appended_are_neither_replaced_nor_doubled(tmp_path: Path) -> None:
    tables = [pa.table({"text": texts}) for texts in DAYS]
    begun_with(tables, tmp_path / "out", mode="append")
    before = content(tmp_path / "out")
    assert begun_with(tables, tmp_path / "out", mode="append").splits_before == 3
    with pytest.raises(DataError, match="of input that changed since"):
        begun_with([tables[0], pa.table({"text": ["other"]}), tables[2]], tmp_path / "out", mode="append")
    assert content(tmp_path / "out") == before
    begun_with([pa.table({"text": [f"{number}"]}) for number in range(3)], tmp_path / "out", mode="append")
    assert len(content(tmp_path / "out")) == 6
    assert before.items() <= content(tmp_path / "out").items()
