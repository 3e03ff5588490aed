"""Processes killed with SIGKILL at the worst moments: every row is there in the end, once."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from distributed import Client

from dcurate import (
    AttachedCluster,
    DaskExecutor,
    DocumentBatch,
    JsonlReader,
    LocalCluster,
    Pipeline,
    RunError,
    StageError,
)
from dcurate.core.pipeline import AnyStage
from dcurate.events import Event, SlotsChanged
from tests.conftest import ROOT, process, scheduler_and_workers
from tests.engine.test_faults_rows import Heard, ids, write_rows
from tests.engine.worker.failing import EndsInSetUp
from tests.faulty import Slow, SlowWriter
from tests.forked import forked
from tests.stages import Numbers

pytestmark = pytest.mark.cluster

ROWS = 240


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def slow_pipeline(tmp_path: Path, marks: Path, files: int = 24) -> Pipeline:
    source = write_rows(tmp_path / "in", files=files, rows=ROWS // files, bad=())
    stages: list[AnyStage] = [
        JsonlReader(source),
        Slow(str(marks), setup_s=0.2, seconds=0.1).with_(batch_size=2),
        SlowWriter(str(tmp_path / "out"), folder=str(marks)),
    ]
    return Pipeline("kills", stages=stages)


class Killer(threading.Thread):
    """Kills processes that are in a phase, so many times, so many at once, for so many seconds at most."""

    def __init__(self, marks: Path, phase: str, times: int, at_once: int = 1, seconds: float = 60) -> None:
        super().__init__(daemon=True)
        self.marks, self.phase, self.times, self.at_once, self.seconds = marks, phase, times, at_once, seconds
        self.killed: list[int] = []

    def run(self) -> None:
        end = time.monotonic() + self.seconds
        while len(self.killed) < self.times and time.monotonic() < end:
            phase = "*" if self.phase == "any" else self.phase
            pids = {int(path.name.split("-")[1]) for path in self.marks.glob(f"{phase}-*")} - set(self.killed)
            if len(pids) >= self.at_once:
                for pid in sorted(pids)[: self.at_once]:
                    self.kill(pid)
                time.sleep(0.5)
            time.sleep(0.005)

    def kill(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.killed.append(pid)
        for path in self.marks.glob(f"*-{pid}"):
            path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("phase", "times", "at_once"), [("setup", 1, 1), ("process", 2, 1), ("write", 2, 1), ("any", 2, 2)]
)
def test_workers_killed_in_any_phase_cost_no_row(
    phase: str, times: int, at_once: int, tmp_path: Path, marks: Path
) -> None:
    killer, heard = Killer(marks, phase, times, at_once), Heard()
    with LocalCluster(n_workers=3, gpus=False) as cluster:
        killer.start()
        slow_pipeline(tmp_path, marks).run(DaskExecutor(cluster=cluster), observers=[heard])
    killer.join(70)
    assert len(killer.killed) >= times
    assert ids(tmp_path / "out") == list(range(ROWS))
    assert sum(type(event).__name__ == "WorkerLost" for event in heard) >= 1


class KillsInTurn(Heard):
    """Kills each of two workers as soon as both have a slot of the last operator, and no other operator has one."""

    def __init__(self, workers: Mapping[str, int]) -> None:
        super().__init__()
        self.workers, self.killed = dict(workers), 0
        self._slots: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if isinstance(event, SlotsChanged):
            self._slots[event.operator] = event.total
        if self.workers and [slots for _, slots in sorted(self._slots.items())] == [0, 2]:
            _, pid = self.workers.popitem()
            self._slots.clear()
            os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_lost_results_of_an_operator_that_has_ended_are_made_again(mode: str, tmp_path: Path, marks: Path) -> None:
    """The reader has read all, and has no slot any more, when the workers die that hold what it has read."""
    stages: list[AnyStage] = [
        JsonlReader(write_rows(tmp_path / "in", files=48, rows=ROWS // 48, bad=())),
        Slow(str(marks), seconds=0.5).with_(batch_size=2),  # another number of batches: an operator of its own
    ]
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        killing = KillsInTurn(cluster.client.run(os.getpid))
        executor = DaskExecutor({"execution_mode": mode}, cluster)
        result = Pipeline("kills", stages=stages).run(executor, observers=[killing])
    assert not killing.workers
    numbers: list[int] = []
    for batch in result:
        assert isinstance(batch, DocumentBatch)
        numbers += batch.to_arrow()["id"].to_pylist()
    assert sorted(numbers) == list(range(ROWS))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_a_set_up_that_always_ends_its_process_ends_the_run(how: str, tmp_path: Path) -> None:
    stages = [Numbers(2, 2), EndsInSetUp(how, str(tmp_path))]
    sentence = "^operator '.*ends_in_set_up': worker processes end while they set it up, 4 times in a row on host "
    with (
        LocalCluster(n_workers=2, gpus=False) as cluster,
        pytest.raises(StageError, match=sentence),
    ):
        Pipeline("test", stages=stages).run(DaskExecutor(cluster=cluster))


def test_a_set_up_that_ends_its_process_a_few_times_is_tried_again(tmp_path: Path) -> None:
    stages = [Numbers(2, 2), EndsInSetUp("exit", str(tmp_path), times=3)]
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        result = Pipeline("test", stages=stages).run(DaskExecutor(cluster=cluster))
    assert result.report.stages[-1].rows_out == 4


def worker_of_host(address: str, host: str, folder: Path, *more: str, workers: int = 2) -> list[str]:
    options = ["--nworkers", str(workers), "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    preload = ["--preload", "dcurate.preload", *more, "--host-name", host]
    return [sys.executable, "-m", "dask", "worker", address, *options, *preload]


def test_a_host_that_vanishes_costs_no_row(tmp_path: Path, marks: Path) -> None:
    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address, ExitStack() as stack:
        other = stack.enter_context(forked(*worker_of_host(address, "other", tmp_path), log=tmp_path / "other.log"))
        cluster = AttachedCluster(address)
        with cluster:
            cluster.client.wait_for_workers(3, timeout=120)
            stream = slow_pipeline(tmp_path, marks).stream(DaskExecutor(cluster=cluster))
            next(stream)
            family = [*psutil.Process(other.pid).children(recursive=True), psutil.Process(other.pid)]
            for one in reversed(family):
                one.kill()
            list(stream)
    assert ids(tmp_path / "out") == list(range(ROWS))


DRIVER = """
import sys
from pathlib import Path
from dcurate import AttachedCluster, DaskExecutor
from tests.engine.test_kills import slow_pipeline
if __name__ == "__main__":
    folder = Path(sys.argv[2])
    slow_pipeline(folder, folder / "marks").run(DaskExecutor(cluster=AttachedCluster(sys.argv[1])), resume=True)
"""


def test_a_driver_that_dies_leaves_its_cluster_clean_and_another_goes_on(tmp_path: Path, marks: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    with scheduler_and_workers(tmp_path, "--nworkers", "2") as address:
        command = [sys.executable, str(tmp_path / "driver.py"), address, str(tmp_path)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, env=env, cwd=ROOT) as driver:
            while not list((tmp_path / "out").glob("*.jsonl")):
                assert driver.poll() is None
                time.sleep(0.02)
            driver.kill()
        with AttachedCluster(address) as cluster:
            end = time.monotonic() + 120
            while held := cluster.client.run(lambda dask_worker: len(dask_worker.plugins["dcurate"].pools)):
                if not any(held.values()):
                    break
                assert time.monotonic() < end, f"slots of a run whose driver died are still held: {held}"
                time.sleep(0.1)
            tasks = cluster.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            news = cluster.client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler._broker._topics))
        assert tasks == 0
        assert not [topic for topic in news if topic.startswith("dcurate-")]
        assert 0 < len(ids(tmp_path / "out")) < ROWS
        slow_pipeline(tmp_path, marks).run(DaskExecutor(cluster=AttachedCluster(address)), resume=True)
    assert ids(tmp_path / "out") == list(range(ROWS))


def test_a_scheduler_that_is_restarted_ends_the_run_and_a_resume_goes_on(tmp_path: Path, marks: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with scheduler_and_workers(tmp_path / "first", "--nworkers", "1") as address:
        with Client(address, set_as_default=False) as client:
            scheduler = client.run_on_scheduler(os.getpid)
        stream = slow_pipeline(tmp_path, marks).stream(DaskExecutor(cluster=AttachedCluster(address)))
        next(stream)
        os.kill(scheduler, signal.SIGKILL)
        with pytest.raises(RunError, match="scheduler .* start the run again with resume=True to go on"):
            list(stream)
    with scheduler_and_workers(tmp_path / "second", "--nworkers", "1") as address:
        slow_pipeline(tmp_path, marks).run(DaskExecutor(cluster=AttachedCluster(address)), resume=True)
    assert ids(tmp_path / "out") == list(range(ROWS))


SKEW = """
import time
true_time = time.time
time.time = lambda: true_time() - 86_400.0
"""


def test_a_host_whose_clock_is_a_day_slow_takes_part(tmp_path: Path, marks: Path) -> None:
    (tmp_path / "skew").mkdir()
    (tmp_path / "skew" / "sitecustomize.py").write_text(SKEW)
    heard = Heard()
    with scheduler_and_workers(tmp_path, "--nworkers", "1") as address, ExitStack() as stack:
        path = f"{tmp_path / 'skew'}:{ROOT}"
        command = worker_of_host(address, "skewed", tmp_path, workers=1)
        stack.enter_context(process(*command, log=tmp_path / "skewed.log", PYTHONPATH=path))
        with AttachedCluster(address) as cluster:
            cluster.client.wait_for_workers(2, timeout=120)
            slow_pipeline(tmp_path, marks).run(DaskExecutor(cluster=cluster), observers=[heard])
            clocks = cluster.client.run(time.time)
    assert max(clocks.values()) - min(clocks.values()) > 80_000
    assert ids(tmp_path / "out") == list(range(ROWS))
    workers = {event.worker for event in heard if type(event).__name__ == "SlotsChanged"}  # type: ignore[attr-defined]
    assert len(workers) == 2
