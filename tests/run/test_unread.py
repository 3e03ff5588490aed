"""Splits that cannot be read: what a run says of them, and what a resumed one does."""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dcurate import (
    BatchKey,
    DaskExecutor,
    DocumentBatch,
    FileGroup,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    RunError,
    RunResult,
    SourceStage,
    StageError,
    StageSpec,
)
from dcurate.core.batch import FilePart
from dcurate.core.ledger import check_accounts
from dcurate.core.pipeline import AnyStage
from dcurate.core.stage import BarrierStage, Stage
from tests.deadly import Broken, CountsOnly, DeadlyJsonl, FirstTime
from tests.dying import dying
from tests.engine.test_faults_rows import ids, quarantined
from tests.forked import run_forked
from tests.places import records
from tests.run import curate

pytestmark = pytest.mark.cluster


def write(folder: Path, bad: dict[str, int], text: str = "raise", files: str = "abc", rows: int = 8) -> str:
    folder.mkdir()
    for number, name in enumerate(files):
        first = number * rows
        lines = [
            json.dumps({"id": row, "text": text if bad.get(name) == row - first else f"row {row}"})
            for row in range(first, first + rows)
        ]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return str(folder)


def test_a_split_that_cannot_be_divided_is_named_in_the_report_and_tried_again_by_a_resumed_run(tmp_path: Path) -> None:
    source, mark, output = write(tmp_path / "in", {}), tmp_path / "mark", tmp_path / "out"
    mark.touch()

    def run() -> RunResult:
        reader = Broken(source, mark=str(mark)).with_(ignore_failures=True)
        stages: list[AnyStage] = [reader, JsonlWriter(str(output))]
        return Pipeline("test", stages=stages).run(InlineExecutor(), resume=True, observers=[])

    for before in (0, 2):
        report = run().report
        assert ids(output) == [*range(8), *range(16, 24)]
        assert (report.splits, report.splits_before) == (3, before)
        assert report.quarantine_path == str(records(output) / "quarantine")
        assert [row["file"] for row in quarantined(output)] == ["b.jsonl"]
        (notice,) = report.notices
        assert notice.startswith("1 of 3 splits are not finished")
        assert "(first: 'b.jsonl', ValueError)" in notice
    mark.unlink()
    report = run().report
    assert ids(output) == list(range(24))
    assert (report.splits_before, report.notices, report.quarantine_path) == (2, (), None)
    assert quarantined(output) == []


def test_a_run_that_is_killed_and_resumed_sets_each_line_that_cannot_be_read_aside_once(tmp_path: Path) -> None:
    bad = {"a": 0, "b": 7, "d": 3, "e": 4}
    source, output = write(tmp_path / "in", bad, files="abcdef"), tmp_path / "out"
    command = dying(output, "c*.jsonl", "tests.run.curate", source, output, "inline", "unreadable")
    assert run_forked(command) == -signal.SIGKILL
    assert 0 < len(ids(output)) < 44
    curate.unreadable(source, str(output)).run(InlineExecutor(), resume=True, observers=[])
    lost = {8 * "abcdef".index(name) + row for name, row in bad.items()}
    assert ids(output) == [row for row in range(48) if row not in lost]
    kept = quarantined(output)
    assert sorted((row["file"], row["line"]) for row in kept) == [
        (f"{name}.jsonl", row + 1) for name, row in bad.items()
    ]


def test_a_row_that_failed_in_an_attempt_that_did_not_count_is_not_in_quarantine(tmp_path: Path) -> None:
    source, output = write(tmp_path / "in", {"b": 3}, "!"), tmp_path / "out"
    flaky = FirstTime(str(tmp_path)).with_(name="raises", ignore_failures=True)
    deadly = FirstTime(str(tmp_path), dies=True, text="row 8").with_(name="dies")
    stages: list[AnyStage] = [JsonlReader(source), flaky, deadly, JsonlWriter(str(output))]
    with LocalCluster(n_workers=1, gpus=False) as cluster:
        report = Pipeline("test", stages=stages).run(DaskExecutor(cluster=cluster), observers=[]).report
    assert (tmp_path / "raises").exists()
    assert (tmp_path / "dies").exists()
    assert ids(output) == list(range(24))
    assert (quarantined(output), report.quarantine_path) == ([], None)


def test_of_files_that_are_grouped_in_another_way_each_line_is_set_aside_once(tmp_path: Path) -> None:
    source, output = write(tmp_path / "in", {"b": 2}, files="abcd"), tmp_path / "out"
    for count in (32, 33):
        reader = DeadlyJsonl(source, files_per_partition=2).with_(ignore_failures=True)
        stages: list[AnyStage] = [reader, JsonlWriter(str(output))]
        Pipeline("test", stages=stages).run(InlineExecutor(), resume=True, observers=[])
        assert ids(output) == [row for row in range(count) if row != 10]
        assert [(row["file"], row["line"]) for row in quarantined(output)] == [("b.jsonl", 3)]
        (tmp_path / "in" / "aa.jsonl").write_text('{"id": 32, "text": "new"}\n')


def test_the_report_names_no_quarantine_that_is_not_there(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {})
    stages: list[AnyStage] = [JsonlReader(source), CountsOnly(), JsonlWriter(str(tmp_path / "out"))]
    report = Pipeline("test", stages=stages).run(InlineExecutor(), observers=[]).report
    assert report.stages[1].faulty == {"odd": 24}
    assert report.quarantine_path is None


@dataclass
class Lost(SourceStage[FileGroup, DocumentBatch]):
    """What a second phase reads: it raises."""

    spec = StageSpec(ignore_failures=True)

    def splits(self) -> Iterator[FileGroup]:
        yield FileGroup(key=BatchKey("staged"), parts=(FilePart("staged"),))

    def process(self, task: FileGroup) -> DocumentBatch:
        raise ValueError("cannot be read")


@dataclass
class Stages(BarrierStage[DocumentBatch]):
    """Writes all rows, and reads them back by a source that raises."""

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        return [JsonlWriter(url, mode="ignore", name="staging")]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        return [Lost()]


def test_what_a_phase_before_has_written_is_never_left_out(tmp_path: Path) -> None:
    stages: list[AnyStage] = [JsonlReader(write(tmp_path / "in", {})), Stages(), JsonlWriter(str(tmp_path / "out"))]
    with pytest.raises(StageError, match="stage 'lost' failed on batch 'staged': ValueError: cannot be read"):
        Pipeline("test", stages=stages).run(InlineExecutor(), observers=[])


def figures(name: str, rows_in: int, rows_out: int, **faulty: int) -> dict[str, object]:
    return {"name": name, "rows_in": rows_in, "rows_out": rows_out, "dropped": {}, "faulty": faulty}


@pytest.mark.parametrize(
    ("stats", "missing"),
    [
        ([figures("a", 5, 5), figures("b", 5, 5)], False),
        ([figures("a", 5, 4, odd=1), figures("b", 4, 9), figures("c", 9, 9)], False),
        ([figures("a", 2, 0, odd=2)], False),
        ([], False),
        ([figures("a", 5, 4)], True),
        ([figures("a", 5, 5)], True),
        ([figures("a", 5, 5), figures("c", 5, 5)], True),
        ([figures("a", 5, 5), figures("b", 5, 3, odd=1), figures("c", 3, 3)], True),
        ([figures("a", 5, 5), figures("b", 4, 4), figures("c", 4, 4)], True),
    ],
)
def test_a_split_of_which_rows_are_missing_is_refused(stats: list[dict[str, object]], missing: bool) -> None:
    stages = ["a", "b", "c"] if any(one["name"] == "c" for one in stats) else ["a", "b"]
    if missing:
        with pytest.raises(RunError, match="so rows are missing; it does not count as finished"):
            check_accounts("x.jsonl", stats, stages)
    else:
        check_accounts("x.jsonl", stats, stages)
