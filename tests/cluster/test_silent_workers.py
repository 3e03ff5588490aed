"""A worker that never answers, as its process is stopped: what waits for it says so, and ends or goes on."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from distributed import Client

from dcurate import DaskExecutor, FuzzyDuplicates, JsonlReader, JsonlWriter, Pipeline, ResourceError, submit
from dcurate.cluster import compat
from dcurate.events import Event, TaskDone
from tests.conftest import forked, scheduler_and_workers, wait_for_workers

pytestmark = pytest.mark.cluster

FILES = 30


@contextmanager
def workers_without_nanny(folder: Path, number: int = 1) -> Iterator[tuple[str, int]]:
    """A scheduler with workers: its address, and the process of a worker, which goes on at the end."""
    with scheduler_and_workers(folder, "--no-nanny") as address, ExitStack() as stack:
        for worker_number in range(1, number):
            worker = [
                sys.executable,
                "-m",
                "dask",
                "worker",
                address,
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
            ]
            stack.enter_context(forked(*worker, log=folder / f"worker_{worker_number}.log"))
        wait_for_workers(address, number)
        with Client(address, set_as_default=False) as client:
            process = min(client.run(os.getpid).values())
        try:
            yield address, process
        finally:
            os.kill(process, signal.SIGCONT)


def pipeline(folder: Path) -> Pipeline:
    (folder / "in").mkdir()
    for number in range(FILES):
        (folder / "in" / f"{number:02}.jsonl").write_text(f'{{"text": "{number}"}}\n')
    reader, writer = JsonlReader(str(folder / "in"), files_per_partition=1), JsonlWriter(str(folder / "out"))
    return Pipeline("silent", stages=[reader, writer])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for answers of workers than a busy one may need."""
    monkeypatch.setattr(compat, "ANSWER_S", 1.0)
    monkeypatch.setattr(compat, "_LOOK_S", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_run_whose_only_worker_never_answered_says_so_and_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers_without_nanny(tmp_path) as (address, process), caplog.at_level(logging.WARNING, "dcurate"):
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(ResourceError, match=r"^worker 'tcp://.*' does not answer, and none .* within 2 seconds"):
            pipeline(tmp_path).run(DaskExecutor({"worker_timeout_s": 2}, cluster=address), observers=[])
    [notice] = [record.getMessage() for record in caplog.records if "does not answer" in record.getMessage()]
    assert notice.endswith("does not answer; the run waits up to 2 seconds for one that does")


class StopsAtFirstTask:
    """Stops a process when a run has done its first task."""

    def __init__(self, process: int) -> None:
        self.process = process

    def on_event(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            os.kill(self.process, signal.SIGSTOP)


@pytest.mark.usefixtures("impatient")
def test_a_run_whose_only_worker_falls_silent_says_so_and_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers_without_nanny(tmp_path) as (address, process), caplog.at_level(logging.WARNING, "dcurate"):
        executor, began = DaskExecutor({"worker_timeout_s": 1}, cluster=address), time.monotonic()
        with pytest.raises(ResourceError, match="had no workers that answer for 1 seconds"):
            pipeline(tmp_path).run(executor, observers=[StopsAtFirstTask(process)])
        assert time.monotonic() - began < 300  # it has 600 to tear its slots down
    assert any("has sent nothing for 30 seconds" in record.getMessage() for record in caplog.records)


def test_a_job_whose_only_worker_is_silent_waits_with_the_reason_and_goes_on(tmp_path: Path) -> None:
    with workers_without_nanny(tmp_path) as (address, process):
        os.kill(process, signal.SIGSTOP)
        job, end = submit(pipeline(tmp_path), address), time.monotonic() + 60
        while "have sent nothing" not in job.describe().why and time.monotonic() < end:
            time.sleep(0.2)
        waiting = job.describe()
        os.kill(process, signal.SIGCONT)
        record = job.wait(120)
    assert waiting.state == "waiting"
    assert waiting.why == "the workers of the cluster have sent nothing for 15 s; their logs may say why"
    assert record.state == "done", record
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == FILES


@pytest.mark.usefixtures("impatient")
def test_a_stream_whose_batches_are_on_a_stopped_worker_ends(tmp_path: Path) -> None:
    silent = pipeline(tmp_path)
    with workers_without_nanny(tmp_path) as (address, process):
        stream = Pipeline("stream", stages=silent.stages[:1]).stream(
            DaskExecutor({"worker_timeout_s": 1}, cluster=address)
        )
        next(stream)
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(ResourceError, match="had no workers that answer for 1 seconds"):
            list(stream)


def test_a_run_ends_whole_when_one_of_its_workers_falls_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "10s")
    reader, writer = pipeline(tmp_path).stages
    stages = [reader, FuzzyDuplicates(), writer]
    with workers_without_nanny(tmp_path, 3) as (address, process):
        result = Pipeline("silent", stages=stages).run(
            DaskExecutor(cluster=address), observers=[StopsAtFirstTask(process)]
        )
    assert result.report.stages[-1].rows_out == FILES
