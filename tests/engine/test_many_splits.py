"""A run takes as long for each split, however many it has finished."""

from __future__ import annotations

import time
from pathlib import Path

from dcurate import InlineExecutor, JsonlWriter, Pipeline
from tests.stages import Numbers


def cpu_seconds(splits: int, output: Path, resume: bool = False) -> float:
    begin = time.process_time()
    pipeline = Pipeline("numbers", stages=[Numbers(splits, 1), JsonlWriter(str(output))])
    report = pipeline.run(InlineExecutor(), observers=[], resume=resume).report
    assert report.stages[-1].rows_out == splits
    return time.process_time() - begin


def test_splits_that_are_finished_cost_later_ones_nothing(tmp_path: Path) -> None:
    cpu_seconds(50, tmp_path / "warm")
    few, many = cpu_seconds(500, tmp_path / "few"), cpu_seconds(2000, tmp_path / "many")
    assert many < 8 * few
    assert cpu_seconds(2000, tmp_path / "many", resume=True) < many
