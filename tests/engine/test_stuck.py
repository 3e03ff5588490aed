"""Clusters on which a run cannot begin or go on: it ends with one sentence instead of waiting for ever."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from distributed import Client, Worker
from distributed import LocalCluster as DaskCluster

from dcurate import (
    AttachedCluster,
    DaskExecutor,
    DocumentBatch,
    ElasticCluster,
    LocalCluster,
    Pipeline,
    ProcessingStage,
    ResourceError,
    Resources,
    RunError,
    StageError,
)
from dcurate.cluster import Kind, compat
from dcurate.engine.dask.worker_plugin import has_plugin, plugin_on
from dcurate.policies import StallDetection
from tests.stages import Numbers, Sleep

pytestmark = pytest.mark.cluster


def fill(dask_worker: Worker) -> None:
    """Have a worker take its memory for full from now on."""
    dask_worker.memory_manager.memory_pause_fraction = 1e-6


def test_a_run_whose_workers_are_all_full_ends_with_one_sentence() -> None:
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        executor = DaskExecutor(cluster=cluster, policies=[StallDetection(stuck_s=2.0)])
        stream = Pipeline("test", stages=[Numbers(1000, 1), Sleep(0.05)]).stream(executor)
        next(stream)
        cluster.client.run(fill)
        with pytest.raises(ResourceError, match="all workers are paused as their memory is full"):
            list(stream)


def test_a_cluster_without_workers_says_that_some_must_be_there_first() -> None:
    with (
        DaskCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1") as empty,
        Client(empty, set_as_default=False) as client,
    ):
        executor = DaskExecutor({"worker_timeout_s": 1}, cluster=client)
        with pytest.raises(ResourceError, match="no workers, and none came within 1 seconds; start some with 'dask"):
            Pipeline("test", stages=[Numbers(4, 1), Sleep(0.0)]).run(executor)


def test_a_scheduler_that_asks_for_certificates_says_how_to_give_them() -> None:
    with pytest.raises(RunError, match="if it needs certificates, give them: --tls-ca-file"):
        AttachedCluster("tls://127.0.0.1:1").__enter__()


@pytest.mark.timeout(60)
def test_a_run_whose_workers_go_and_do_not_come_back_ends_with_one_sentence() -> None:
    with (
        DaskCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        executor = DaskExecutor({"worker_timeout_s": 2}, cluster=client)
        stream = Pipeline("test", stages=[Numbers(1000, 1), Sleep(0.05)]).stream(executor)
        next(stream)
        cluster.scale(0)
        with pytest.raises(
            ResourceError, match="no workers that answer for 2 seconds; start some with 'dask worker' and run"
        ):
            list(stream)


@pytest.mark.timeout(120)
def test_gpu_stages_have_slots_where_all_processes_are_those_of_gpus() -> None:
    score = Sleep(0.01).with_(name="score", resources=Resources(gpus=1))
    with ElasticCluster({"gpu": Kind.simulated_gpus_here(maximum=2, minimum=2)}) as cluster:
        result = Pipeline("test", stages=[Numbers(40, 1), score]).run(DaskExecutor(cluster=cluster))
    assert result.report.stages[-1].rows_out == 40


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.setattr(compat, "ANSWER_S", 1.0)  # the scheduler is in this process
    with LocalCluster(n_workers=3, gpus=False) as cluster:
        yield cluster


def has_run(dask_worker: Worker) -> tuple[int, bool, list[str]]:
    """The process of a worker, whether it can take part in runs, and the operators that it holds slots of."""
    return os.getpid(), has_plugin(dask_worker), [operator for _, operator in plugin_on(dask_worker).pools]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("before", [True, False], ids=["before a run", "as a run ends"])
def test_a_worker_that_does_not_answer_is_not_waited_for_and_takes_part_when_it_goes_on(
    before: bool, three: LocalCluster
) -> None:
    stopped, *others = sorted(three.client.run(os.getpid).values())
    rows = 0
    if before:
        os.kill(stopped, signal.SIGSTOP)
    for batch in Pipeline("test", stages=[Numbers(12, 5), Sleep(0.01)]).stream(DaskExecutor(cluster=three)):
        rows += batch.num_items
        if rows == 60 and not before:
            os.kill(stopped, signal.SIGSTOP)
    os.kill(stopped, signal.SIGCONT)
    result = Pipeline("test", stages=[Numbers(12, 5), Sleep(0.01)]).run(DaskExecutor(cluster=three))
    assert (rows, result.report.stages[-1].rows_out) == (60, 60)
    assert sorted(three.client.run(has_run).values()) == [(pid, True, []) for pid in sorted([stopped, *others])]


@dataclass
class SlowTeardown(ProcessingStage):
    """Takes longer to tear down than a worker may take to answer, and fails then."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task

    def teardown(self) -> None:
        time.sleep(2.5)
        raise ValueError("not uploaded")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("stopped", [False, True], ids=["all answer", "one does not"])
def test_a_teardown_is_waited_for_and_its_error_known(stopped: bool, three: LocalCluster) -> None:
    processes = sorted(three.client.run(os.getpid).values())
    stage = SlowTeardown().with_(resources=Resources(cpus=1))
    stream = Pipeline("test", stages=[Numbers(40, 5), Sleep(0.01), stage]).stream(DaskExecutor(cluster=three))
    rows = sum(next(stream).num_items for _ in range(40))
    if stopped:
        os.kill(processes[0], signal.SIGSTOP)
    with pytest.raises(StageError, match="the output is complete, but .*not uploaded"):
        next(stream)
    os.kill(processes[0], signal.SIGCONT)
    assert rows == 200
