"""Running a pipeline that downloads, and what it left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dcurate import InlineExecutor, JsonlWriter, Pipeline, RunResult
from dcurate.run import Executor


def run(stage: Any, folder: Path, executor: Executor | None = None, **settings: Any) -> RunResult:
    """Run a source into JSON Lines."""
    pipeline = Pipeline("download", stages=[stage, JsonlWriter(str(folder / "out"))])
    return pipeline.run(executor or InlineExecutor(), **settings)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows written, file by file."""
    return [row for path in sorted((folder / "out").glob("*.jsonl")) for row in _lines(path)]


def quarantined(folder: Path) -> list[dict[str, Any]]:
    """What is in quarantine."""
    found = sorted((folder / "out.dcurate" / "quarantine").rglob("*.jsonl*"))
    return [row for path in found for row in _lines(path)]


def counts(result: RunResult) -> dict[str, int]:
    """How many were dropped or lost, by reason."""
    return {reason: number for one in result.report.stages for reason, number in {**one.dropped, **one.faulty}.items()}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
