"""The page, the metrics and the views of a run with rounds say the same of it as its report."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from dcurate import (
    DaskExecutor,
    FuzzyDuplicates,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    RunResult,
    ScoreFilter,
)
from dcurate.core.pipeline import AnyStage
from dcurate.text import WordCountFilter
from dcurate.ui import Progress
from dcurate.ui.dashboard.tables import dropped
from dcurate.ui.dashboard.view_model import view
from dcurate.ui.scheduler_store import store_of
from tests.ui.watched import get

pytestmark = pytest.mark.cluster

#: Documents; every sixth is too short, and every fifth of the rest nearly the same as the first.
DOCUMENTS = 120

FIGURES = {
    "dcurate_stage_input_rows_total": "rows_in",
    "dcurate_stage_output_rows_total": "rows_out",
    "dcurate_stage_batches_total": "batches",
}


def document(number: int) -> str:
    if number % 6 == 0:
        return "too short"
    words = [f"word{0 if number % 5 == 0 else number}x{place}" for place in range(60)]
    return " ".join([*words, f"end{number}"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "in").mkdir()
    for part in range(4):
        rows = [{"id": number, "text": document(number)} for number in range(part, DOCUMENTS, 4)]
        (folder / "in" / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def lines() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def watched(folder: Path, lines: io.StringIO) -> tuple[RunResult, str, RunResult]:
    """A run, the scheduler's metrics after it, and the run as the scheduler knows it."""
    short = ScoreFilter(WordCountFilter(min_words=5))
    stages: list[AnyStage] = [
        JsonlReader(str(folder / "in")),
        short,
        FuzzyDuplicates(),
        JsonlWriter(str(folder / "out")),
    ]
    with LocalCluster(n_workers=1, gpus=False, dashboard=True) as cluster:
        observers = [Progress(Console(file=lines), interval_s=0.2)]
        result = Pipeline("rounds", stages=stages).run(DaskExecutor(cluster=cluster), observers=observers)
        assert cluster.dashboard_link is not None
        told = get(cluster.dashboard_link.replace("/curation", "/metrics"))
        store = store_of(cluster.client.cluster.scheduler)
        assert store is not None
        shown = RunResult(tuple(result), result.report, store.runs[result.report.run])
    return result, told, shown


def test_prometheus_is_given_the_rows_of_the_report(watched: tuple[RunResult, str, RunResult]) -> None:
    result, text, _ = watched
    told = {
        (sample.name, sample.labels.get("stage", ""), sample.labels.get("reason", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("pipeline") == "rounds"
    }
    report = result.report
    for name, attribute in FIGURES.items():
        said = {stage: value for (family, stage, _), value in told.items() if family == name}
        assert said == {stage.name: getattr(stage, attribute) for stage in report.stages}
    drops = {
        (stage, why): value for (family, stage, why), value in told.items() if family == "dcurate_stage_drops_total"
    }
    assert drops == {(stage.name, why): rows for stage in report.stages for why, rows in stage.dropped.items()}
    assert sum(drops.values()) == DOCUMENTS - report.stages[-1].rows_out > DOCUMENTS / 6
    assert told["dcurate_input_rows_total", "", ""] == DOCUMENTS
    inner = {stage: value for (family, stage, _), value in told.items() if family == "dcurate_inner_batches_total"}
    calls = sum(one.calls for one in result.history.snapshot().operators if one.owner)
    assert inner == {next(one.name for one in report.stages if "duplicates" in one.name): calls}
    assert calls > 0


def test_the_page_is_given_the_rows_of_the_report(watched: tuple[RunResult, str, RunResult]) -> None:
    result, _, there = watched
    report = result.report
    for history in (result.history, there.history):
        seen = view(history)
        assert (seen.now.rows_in, seen.now.rows_out) == (DOCUMENTS, report.stages[-1].rows_out)
        assert [(one.name, one.rows_in, one.dropped) for one in seen.now.stages] == [
            (one.name, one.rows_in, one.dropped) for one in report.stages
        ]
        assert seen.kept == report.stages[-1].rows_out / DOCUMENTS
        said = dropped(seen)["dropped"]
        assert all(f"<td>{rows}</td>" in said for one in report.stages for rows in one.dropped.values())
        inner = [one for one in seen.operators if one.rows is None]
        assert inner
        assert all(one.figures.owner == report.stages[2].name for one in inner)
        assert seen.now.output == report.output_path
        assert all(one.figures.calls for one in inner)


def test_lines_of_progress_tell_of_documents_alone(
    watched: tuple[RunResult, str, RunResult], lines: io.StringIO
) -> None:
    report = watched[0].report
    ends = [line for line in lines.getvalue().splitlines() if " done | " in line]
    assert f"| {DOCUMENTS} rows in |" in ends[0]
    assert f"| {report.stages[-1].rows_out} out |" in ends[-1]
    assert len(ends) > 2
    assert not any("rows" in line for line in ends[1:-1])
