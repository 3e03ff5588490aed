"""Estimates of what a run takes: ranges that hold, from a sample that follows from the input."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from dcurate import (
    DataError,
    DocumentBatch,
    ExactDuplicates,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ScoreFilter,
)
from dcurate.cli import cli
from dcurate.estimates import WINDOW_BYTES, SplitSample
from dcurate.runs.estimate import Range
from dcurate.text import WordCountFilter


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCURATE_CACHE", str(tmp_path / "cache"))


def write_uneven(folder: Path, files: int, seed: int) -> str:
    """Write files from one row to thousands, in which another share of rows is short in each."""
    chance = random.Random(seed)
    folder.mkdir()
    for number in range(files):
        short, rows = chance.betavariate(2, 3), int(min(6_000, 5 * chance.paretovariate(0.7)))
        with open(folder / f"{number:03}.jsonl", "w") as file:
            for row in range(rows):
                words = 2 if chance.random() < short else chance.randrange(20, 60)
                file.write(json.dumps({"id": f"{number}-{row}", "text": "word " * words}) + "\n")
    return str(folder)


def pipeline(source: str, output: Path, **settings: Any) -> Pipeline:
    stages: list[Any] = [JsonlReader(source, files_per_partition=1), ScoreFilter(WordCountFilter(min_words=10))]
    return Pipeline("uneven", stages=[*stages, JsonlWriter(str(output), **settings)])


@pytest.mark.parametrize("seed", range(4))
def test_the_range_holds_the_truth_on_uneven_files(tmp_path: Path, seed: int) -> None:
    source = write_uneven(tmp_path / "in", 120, seed)
    work = pipeline(source, tmp_path / "out")
    estimate = work.estimate(max_splits=40)
    assert not (tmp_path / "out").exists()
    report = work.run(InlineExecutor(), observers=[]).report
    assert 8 <= estimate.sampled < estimate.splits == report.splits
    assert estimate.bytes_read == report.bytes_read
    for name in ("rows_in", "rows_out", "bytes_written"):
        expected = getattr(estimate, name)
        assert expected.low < expected.value < expected.high < 5 * expected.value
    assert report.stages[0].rows_in in estimate.rows_in
    assert report.stages[-1].rows_out in estimate.rows_out
    assert report.bytes_written in estimate.bytes_written
    (notice,) = [notice for notice in report.notices if notice.startswith("the estimate from")]
    assert f"documents out {report.stages[-1].rows_out:,}, estimated " in notice


def test_a_sample_of_all_is_exact(tmp_path: Path) -> None:
    source = write_uneven(tmp_path / "in", 6, 1)
    work = pipeline(source, tmp_path / "out")
    estimate = work.estimate()
    report = work.run(InlineExecutor(), observers=[]).report
    for name, value in (("rows_in", report.stages[0].rows_in), ("rows_out", report.stages[-1].rows_out)):
        assert getattr(estimate, name) == Range(value, value, value)


def test_the_sample_is_the_same_each_time_and_for_any_order(tmp_path: Path) -> None:
    source = write_uneven(tmp_path / "in", 60, 2)
    work = pipeline(source, tmp_path / "out")
    first, second = work.estimate(max_splits=20), work.estimate(max_splits=20)
    for name in ("key", "sampled", "rows_in", "rows_out", "bytes_written"):
        assert getattr(first, name) == getattr(second, name)
    reader: Any = work.build()[0]
    splits = list(reader.splits())
    shuffled = random.Random(1).sample(splits, len(splits))
    takes = [[str(unit.key) for unit in SplitSample(reader, listed, 60.0, 20).units()] for listed in (splits, shuffled)]
    assert takes[0] == takes[1]


def test_of_a_large_file_some_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"text": "word " * (row % 40)}) + "\n" for row in range(100_000))
    )
    work = pipeline(str(tmp_path / "in.jsonl"), tmp_path / "out")
    reader: Any = work.build()[0]
    units: list[Any] = list(SplitSample(reader, list(reader.splits()), 60.0, 20).units())
    warm, unit = units
    assert 0.5 * WINDOW_BYTES < sum(len(str(row)) for row in reader.process(unit).to_pandas().text) < 1.5 * WINDOW_BYTES
    assert str(warm.key) != str(unit.key)
    estimate = work.estimate()
    assert estimate.rows_in.value == pytest.approx(100_000, rel=0.1)
    assert 100_000 in estimate.rows_in


@dataclass
class Slow(ProcessingStage[DocumentBatch, DocumentBatch]):
    name: str = "slow"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(0.2)
        return task


def test_the_sample_ends_when_its_time_is_up(tmp_path: Path) -> None:
    batches = [DocumentBatch(data=pd.DataFrame({"text": ["a"]})) for _ in range(200)]
    estimate = Pipeline("slow", stages=[Slow()]).estimate(initial_tasks=batches, max_s=0.5, slots=10)
    assert 8 <= estimate.sampled < 60
    assert 200 in estimate.rows_out
    assert estimate.seconds.low < 200 * 0.2 / 10 < estimate.seconds.high
    assert estimate.call_s.value >= 0.2


def test_a_barrier_is_refused_with_what_to_do(tmp_path: Path) -> None:
    source = write_uneven(tmp_path / "in", 3, 1)
    work = Pipeline("dedup", stages=[JsonlReader(source), ExactDuplicates(), JsonlWriter(str(tmp_path / "out"))])
    with pytest.raises(PipelineError, match="needs all rows .* estimate the stages before it"):
        work.estimate()


@pytest.mark.parametrize(
    "settings", [{"slots": 0}, {"slots": True}, {"max_s": -1}, {"max_s": float("nan")}, {"max_splits": 0}]
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    work = pipeline(write_uneven(tmp_path / "in", 1, 1), tmp_path / "out")
    with pytest.raises(PipelineError, match=f"{next(iter(settings))}=.* above zero"):
        work.estimate(**settings)
    with pytest.raises(DataError, match="nothing at"):
        pipeline(str(tmp_path / "none"), tmp_path / "out").estimate()


def test_a_broken_cache_is_no_estimate(tmp_path: Path) -> None:
    work = pipeline(write_uneven(tmp_path / "in", 3, 1), tmp_path / "out")
    work.estimate()
    for content in ("", "[]", '{"x": 1}', "\\0"):
        (tmp_path / "cache/estimates.json").write_text(content)
        report = work.run(InlineExecutor(), observers=[], resume=True).report
        assert not any("estimate" in notice for notice in report.notices)


def recipe(tmp_path: Path, source: str) -> str:
    (tmp_path / "recipe.yaml").write_text(
        f"executor: {{cpu_hour_price: 0.05}}\nstages:\n"
        f"  - JsonlReader: {{file_paths: {source}, files_per_partition: 1}}\n"
        f"  - JsonlWriter: {{path: {tmp_path}/out}}\n"
    )
    return str(tmp_path / "recipe.yaml")


def test_plan_shows_the_estimate_and_warns_of_splits_that_a_scheduler_cannot_bear(tmp_path: Path) -> None:
    path = recipe(tmp_path, write_uneven(tmp_path / "in", 120, 3))
    answer = CliRunner().invoke(cli, ["plan", path, "--estimate", "--slots", "120"])
    assert answer.exit_code == 0, answer.output
    for name in ("documents in: ", "documents out: ", "written: ", "CPU: ", "time on 120 slots: ", "cost: "):
        assert name in answer.output
    assert "a scheduler handles" not in answer.output
    answer = CliRunner().invoke(cli, ["plan", path, "--slots", "100"])
    assert "a scheduler handles about 700 calls a second, so of 100 slots only about" in answer.output
    assert "estimate from" not in answer.output
    assert not (tmp_path / "out").exists()


def test_the_warning_follows_from_slots_and_seconds_of_a_call(tmp_path: Path) -> None:
    estimate = pipeline(write_uneven(tmp_path / "in", 5, 3), tmp_path / "out").estimate()

    def warned(slots: int, call_s: float, splits: int = 10**6) -> bool:
        call = Range(call_s, call_s, call_s)
        return bool(replace(estimate, splits=splits, slots=slots, call_s=call).overload())

    assert [warned(1000, call_s) for call_s in (0.0, 1.4, 1.5)] == [True, True, False]
    assert [warned(32_000, call_s) for call_s in (45.0, 46.0)] == [True, False]
    assert not warned(1000, 0.1, splits=900)


def test_estimates_are_kept_for_the_pipeline_and_input_alone(tmp_path: Path) -> None:
    source = write_uneven(tmp_path / "in", 5, 3)
    pipeline(source, tmp_path / "out").estimate()
    other = Pipeline("other", stages=[JsonlReader(source, files_per_partition=1), JsonlWriter(str(tmp_path / "other"))])
    assert not any("estimate" in notice for notice in other.run(InlineExecutor(), observers=[]).report.notices)
