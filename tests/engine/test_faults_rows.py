"""Rows on which a stage raises, dies or hangs: they are found and kept apart, and no other row is lost."""

import json
from pathlib import Path

import pytest

from dcurate import (
    DaskExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    RunResult,
    StageError,
)
from dcurate.events import CallCopied, CallHung, Event, WorkerLost, WorkerRecycled
from dcurate.policies import Policy, Speculation
from tests.faulty import CrashOn, HangOn, Leak, RaiseOn, StuckOnce
from tests.places import is_data, records

pytestmark = pytest.mark.cluster

BAD = 4711


def write_rows(folder: Path, files: int, rows: int, bad: tuple[int, ...] = (BAD,)) -> str:
    folder.mkdir(exist_ok=True)
    for file in range(files):
        numbers = range(file * rows, (file + 1) * rows)
        lines = [json.dumps({"id": number, "text": f"{number}{'!' if number in bad else ''}"}) for number in numbers]
        (folder / f"part-{file:03}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def ids(folder: Path) -> list[int]:
    """The ids that were written, sorted, with repeats."""
    paths = [path for path in folder.rglob("*.jsonl") if is_data(path)]
    return sorted(json.loads(line)["id"] for path in paths for line in path.read_text().splitlines())


def quarantined(folder: Path) -> list[dict[str, object]]:
    paths = sorted((records(folder) / "quarantine").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


class Heard(list[Event]):
    def on_event(self, event: Event) -> None:
        self.append(event)


def run(
    tmp_path: Path,
    stage: ProcessingStage,
    cluster: LocalCluster,
    observers: tuple[Heard, ...] = (),
    policies: tuple[Policy, ...] = (),
    **config: object,
) -> RunResult:
    stages = [JsonlReader(str(tmp_path / "in")), stage, JsonlWriter(str(tmp_path / "out"))]
    return Pipeline("test", stages=stages).run(DaskExecutor(config, cluster, policies), observers=observers)


def test_one_row_in_ten_thousand_goes_to_quarantine_with_stage_source_and_traceback(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    write_rows(tmp_path / "in", files=10, rows=1000)
    result = run(tmp_path, RaiseOn(), cluster, ignore_failures=True)
    assert ids(tmp_path / "out") == [number for number in range(10_000) if number != BAD]
    (row,) = quarantined(tmp_path / "out")
    assert (row["id"], row["_dcurate_stage"], row["_dcurate_reason"]) == (BAD, "raise_on", "ValueError")
    assert str(row["_dcurate_source"]).endswith("part-004.jsonl")
    assert "cannot take 4711!" in json.dumps(row)
    stats = {one.name: one for one in result.report.stages}["raise_on"]
    assert (stats.rows_in, stats.rows_out, stats.faulty) == (10_000, 9_999, {"ValueError": 1})


def test_without_leave_to_ignore_it_the_run_ends_naming_stage_source_and_row(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    write_rows(tmp_path / "in", files=10, rows=1000)
    with pytest.raises(StageError, match=r"stage 'raise_on' failed on batch '.*part-004.jsonl': ValueError.*row 711"):
        run(tmp_path, RaiseOn(), cluster)


def test_rows_that_crash_the_process_are_found_and_kept_apart(tmp_path: Path) -> None:
    bad = 33, 34, 5
    write_rows(tmp_path / "in", files=6, rows=8, bad=bad)
    heard = Heard()
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        result = run(tmp_path, CrashOn(), cluster, (heard,), ignore_failures=True)
    assert ids(tmp_path / "out") == [number for number in range(48) if number not in bad]
    assert sorted(row["id"] for row in quarantined(tmp_path / "out")) == sorted(bad)  # type: ignore[type-var]
    faulty = {one.name: one.faulty for one in result.report.stages}["crash_on"]
    assert sum(faulty.values()) == len(bad)
    assert any(isinstance(event, WorkerLost) for event in heard)


def test_a_row_that_crashes_the_process_ends_the_run_with_one_sentence_unless_ignored(tmp_path: Path) -> None:
    write_rows(tmp_path / "in", files=6, rows=8, bad=(33,))
    with (
        LocalCluster(n_workers=2, gpus=False) as cluster,
        pytest.raises(StageError, match=r"stage 'crash_on'.*part-004.jsonl.*SIGSEGV"),
    ):
        run(tmp_path, CrashOn(), cluster)


def test_a_row_on_which_a_stage_hangs_is_found_and_kept_apart(tmp_path: Path) -> None:
    write_rows(tmp_path / "in", files=4, rows=2, bad=(5,))
    heard = Heard()
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        run(tmp_path, HangOn().with_(timeout_s=2.0), cluster, (heard,), ignore_failures=True)
    assert ids(tmp_path / "out") == [0, 1, 2, 3, 4, 6, 7]
    assert [row["id"] for row in quarantined(tmp_path / "out")] == [5]
    hung = [event for event in heard if isinstance(event, CallHung)]
    assert hung
    assert "hang_on" in hung[0].doing
    assert "faulty.py" in hung[0].trace


def test_a_call_that_stands_still_in_the_end_is_overtaken_by_a_copy_of_it(tmp_path: Path) -> None:
    write_rows(tmp_path / "in", files=12, rows=10, bad=(95,))
    heard = Heard()
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        result = run(tmp_path, StuckOnce(str(tmp_path)), cluster, (heard,), (Speculation(late_s=2.0),))
    assert (tmp_path / "stuck").exists()
    assert not (tmp_path / "came-back").exists()
    assert ids(tmp_path / "out") == list(range(120))
    (copied,) = [event for event in heard if isinstance(event, CallCopied)]
    assert copied.seconds > 2 > copied.usual
    assert {one.name: one.rows_in for one in result.report.stages}["stuck_once"] == 120


def test_a_stage_that_leaks_is_recycled_before_it_harms(tmp_path: Path) -> None:
    write_rows(tmp_path / "in", files=36, rows=10, bad=())  # 720 MB: more than two processes may keep
    heard = Heard()
    with LocalCluster(n_workers=2, gpus=False, memory_limit=600_000_000) as cluster:
        run(tmp_path, Leak(), cluster, (heard,))
    assert ids(tmp_path / "out") == list(range(360))
    assert any(isinstance(event, WorkerRecycled | WorkerLost) for event in heard)


def test_processes_are_recycled_after_their_lifetime_one_after_the_other(tmp_path: Path) -> None:
    write_rows(tmp_path / "in", files=80, rows=5, bad=())
    heard = Heard()
    lived = Leak(megabytes=0).with_(worker_max_lifetime_m=0.05, worker_restart_interval_m=0.01)
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        run(tmp_path, lived, cluster, (heard,))
    assert ids(tmp_path / "out") == list(range(400))
    recycled = [event for event in heard if isinstance(event, WorkerRecycled)]
    assert recycled
    assert all("it has lived" in event.reason for event in recycled)
    assert not any(isinstance(event, WorkerLost) for event in heard)
