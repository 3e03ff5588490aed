"""Several runs on one cluster of real processes: what each gets of it, and that none harms another."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dcurate import AttachedCluster, DaskExecutor, DcurateError, Pipeline, ResourceError, Resources
from dcurate.core.pipeline import AnyStage
from dcurate.events import Event, RunWaits, Sampled, SlotsChanged
from tests.cluster.test_worker_info import scheduler
from tests.conftest import wait_until
from tests.forked import forked
from tests.stages import CallTimes, DieOnce, FailOn, Loads, Numbers, Sleep

pytestmark = pytest.mark.cluster

CPUS = 4


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler, four CPU workers of one thread, and a worker on a simulated GPU of 80 GB."""
    folder = tmp_path_factory.mktemp("shared")
    preload = ["--preload", "dcurate.preload"]
    gpu = ["--simulate-gpus", "0", "--simulated-gpu-memory-gb", "80", "--kind", "gpu"]
    with ExitStack() as stack:
        where = stack.enter_context(scheduler(folder))
        options = [where, "--no-dashboard", "--local-directory", str(folder)]
        dask = [sys.executable, "-m", "dask", "worker", *options]
        commands = [
            [*dask, "--nworkers", str(CPUS), "--nthreads", "1", *preload, "--kind", "cpu"],
            [*dask, "--nworkers", "1", "--nthreads", "4", *preload, *gpu],
        ]
        for number, command in enumerate(commands):
            stack.enter_context(forked(*command, log=folder / f"{number}.log"))
        with AttachedCluster(where, timeout_s=180) as cluster:
            cluster.client.wait_for_workers(CPUS + 1, timeout=180)
        yield where


class Watch:
    """What a run says of its slots, its memory and why it waits."""

    def __init__(self) -> None:
        self.slots: dict[tuple[str, str], int] = {}
        self.most: Counter[str] = Counter()
        self.waited: list[str] = []
        self.budgets: list[int] = []
        self.ready = threading.Event()

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotsChanged):
            self.slots[event.operator, event.worker] = event.slots
            self.most[event.operator] = max(self.most[event.operator], event.total)
            self.ready.set()
        elif isinstance(event, RunWaits):
            self.waited.append(event.reason)
        elif isinstance(event, Sampled):
            self.budgets.append(event.budget_bytes)


class Run(threading.Thread):
    """A run of a client of its own.

    Attributes:
        seconds: that it took, once it has ended.
        error: what ended it early.
    """

    def __init__(self, address: str, name: str, splits: int, *stages: AnyStage, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.address, self.settings, self.watch = address, settings, Watch()
        self.pipeline = Pipeline(name, stages=[Numbers(splits, 1), *stages])
        self.rows: list[str] = []
        self.seconds = 0.0
        self.error: DcurateError | None = None

    def run(self) -> None:
        begin = time.monotonic()
        with AttachedCluster(self.address, timeout_s=120) as cluster:
            try:
                for batch in self.pipeline.run(DaskExecutor(self.settings, cluster), observers=[self.watch]):
                    self.rows += batch.to_arrow()["text"].to_pylist()  # type: ignore[attr-defined]
            except DcurateError as error:
                self.error = error
        self.seconds = time.monotonic() - begin

    def ended(self) -> Run:
        self.join(180)
        assert not self.is_alive()
        return self

    def right(self, splits: int) -> None:
        """Check that it has ended well, with all rows once."""
        assert self.ended().error is None
        assert sorted(self.rows) == sorted(map(str, range(splits)))


def started(run: Run) -> Run:
    """Start a run, and wait until it has a slot."""
    run.start()
    wait_until(lambda: run.watch.ready.is_set() or not run.is_alive())
    return run


def calls(folder: Path, label: str) -> list[tuple[float, float]]:
    """When each call of the runs of a label began and ended."""
    lines = [line for path in folder.glob(f"{label}*") for line in path.read_text("utf-8").splitlines()]
    return [(float(begin), float(end)) for begin, _, end in (line.partition(" ") for line in lines)]


def seconds_within(times: list[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(last, end) - max(first, begin)) for first, last in times)


def shared_time(folder: Path, *labels: str) -> list[float]:
    """Slot-seconds of each label while all had some call; the first 2 s do not count."""
    every = [calls(folder, label) for label in labels]
    begin = max(min(first for first, _ in times) for times in every) + 2.0
    end = min(max(first for first, _ in times) for times in every)
    return [seconds_within(times, begin, end) for times in every]


def timed(folder: Path, label: str, seconds: float) -> CallTimes:
    return CallTimes(str(folder), label, seconds).with_(name=f"timed_{label}")


def test_a_small_run_beside_a_deep_one_has_half(address: str, tmp_path: Path) -> None:
    chain = [  # operators of their own, as they ask for different CPUs
        timed(tmp_path, f"deep{place}", 0.6).with_(resources=Resources(cpus=0.9 - place / 10)) for place in range(3)
    ]
    deep = started(Run(address, "deep", 60, *chain))
    wait_until(lambda: len(calls(tmp_path, "deep2")) > 2)  # its last operators have work, which went first before
    small = started(Run(address, "small", 30, timed(tmp_path, "small", 0.4)))
    small.right(30)
    deep.right(60)
    of_small, of_deep = shared_time(tmp_path, "small", "deep")
    assert 0.25 <= of_small / (of_small + of_deep) <= 0.65
    assert small.seconds < 0.6 * deep.seconds


def test_share_gives_a_run_more(address: str, tmp_path: Path) -> None:
    runs = [
        started(Run(address, name, splits, timed(tmp_path, name, 0.25), share=share))
        for name, splits, share in (("large", 120, 3), ("little", 40, 1.0))
    ]
    for run, splits in zip(runs, (120, 40), strict=True):
        run.right(splits)
    large, little = shared_time(tmp_path, "large", "little")
    assert large / little == pytest.approx(3.0, rel=0.35)


def test_a_run_of_higher_priority_goes_first_and_the_other_says_that_it_waits(address: str, tmp_path: Path) -> None:
    low = started(Run(address, "low", 60, timed(tmp_path, "low", 0.3)))
    high = started(Run(address, "high", 60, timed(tmp_path, "high", 0.3), priority=5))
    high.right(60)
    low.right(60)
    of_high, of_low = shared_time(tmp_path, "high", "low")
    assert of_low <= 0.2 * of_high
    assert any("waits for a CPU: run high of " in why and f" holds {CPUS} of {CPUS}" in why for why in low.watch.waited)
    assert low.watch.waited[-1] == ""


def test_max_cpus_and_max_gpus_hold_and_what_cannot_fit_is_refused(address: str, tmp_path: Path) -> None:
    capped = Run(address, "capped", 24, timed(tmp_path, "capped", 0.2), max_cpus=2)
    capped.start()
    capped.right(24)
    times = calls(tmp_path, "capped")
    assert max(sum(begin <= moment < end for begin, end in times) for moment, _ in times) == 2
    wide = Run(address, "wide", 4, Sleep(0.1).with_(name="wide", resources=Resources(cpus=3)), max_cpus=2)
    pair = [
        Sleep(0.1).with_(name=name, resources=Resources(cpus=0, gpus=gpus)) for name, gpus in (("a", 0.5), ("b", 0.4))
    ]
    narrow = Run(address, "narrow", 4, *pair, max_gpus=1)
    for run in (wide, narrow):
        run.start()
        run.ended()
    assert isinstance(wide.error, ResourceError)
    assert "with max_cpus=2, operator 'wide' needs 3 CPUs a slot" in str(wide.error)
    narrow.right(4)


def test_two_models_that_do_not_fit_are_never_on_a_gpu_together(address: str, tmp_path: Path) -> None:
    sizes = {"first": 60.0, "second": 60.0, "third": 20.0}

    def model(label: str, size: float) -> Run:
        loads = Loads(str(tmp_path), label, 0.2, 0.5)
        resources = Resources(cpus=0, gpu_memory_gb=size)
        return Run(address, label, 40, loads.with_(name=f"loads_{label}", resources=resources))

    runs = [model(label, size) for label, size in sizes.items()]
    started(runs[0])
    runs[2].start()
    runs[1].start()
    wait_until(lambda: any(runs[1].watch.waited) or not runs[1].is_alive())
    for run in runs:
        run.right(40)
    assert any("waits for a GPU: run first of " in why and " of 1" in why for why in runs[1].watch.waited)
    held: list[tuple[float, float]] = []
    for label, size in sizes.items():
        for note in tmp_path.glob(f"{label}-*"):
            begin, end = map(float, note.read_text("utf-8").split())
            held += [(begin, size), (end, -size)]
    now = most = 0.0
    for _, change in sorted(held):
        now += change
        most = max(most, now)
    assert now == 0.0
    assert 60.0 < most <= 80.0


def test_queues_of_all_runs_take_no_more_memory_than_those_of_one(address: str, tmp_path: Path) -> None:
    alone = started(Run(address, "alone", 4, Sleep(0.1)))
    alone.right(4)
    runs = [
        started(Run(address, f"run{share}", splits, Sleep(0.1), share=share)) for share, splits in ((3, 400), (1, 40))
    ]
    runs[1].right(40)
    runs[0].right(400)
    whole = max(alone.watch.budgets)
    least = [min(run.watch.budgets) for run in runs]
    assert least == [pytest.approx(0.75 * whole, rel=0.01), pytest.approx(0.25 * whole, rel=0.01)]


@pytest.mark.parametrize("harm", ["raises", "dies"])
def test_a_run_that_fails_or_loses_workers_leaves_the_other_its_rows_and_slots(
    address: str, tmp_path: Path, harm: str
) -> None:
    good = started(Run(address, "good", 60, timed(tmp_path, "good", 0.2)))
    stage = FailOn(text="3") if harm == "raises" else DieOnce(str(tmp_path), text="3")
    bad = started(Run(address, "bad", 20, Sleep(0.2), stage.with_(name="bad")))
    bad.ended()
    assert (bad.error is not None) == (harm == "raises")
    good.right(60)
    if harm == "dies":
        bad.right(20)
    with AttachedCluster(address) as cluster:
        cluster.client.wait_for_workers(CPUS + 1, timeout=60)
    after = Run(address, "after", 40, timed(tmp_path, "after", 0.3))
    after.start()
    after.right(40)
    times = calls(tmp_path, "after")
    assert max(sum(begin <= moment < end for begin, end in times) for moment, _ in times) == CPUS
