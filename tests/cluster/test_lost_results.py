"""Finished tasks whose results are lost: Dask's report of one is recognised, and one that fails again is retried."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest
from distributed.scheduler import Scheduler

from dcurate import DaskExecutor, DocumentBatch, LocalCluster, Pipeline, ProcessingStage
from dcurate.cluster.compat import is_lost_result
from tests.stages import Numbers

pytestmark = pytest.mark.cluster


def test_a_finished_task_that_dask_lets_fail_is_a_lost_result_and_an_error_of_a_task_is_not(
    cluster: LocalCluster,
) -> None:
    done = cluster.client.submit(len, "abc", pure=False)
    failed = cluster.client.submit(ord, "", pure=False)
    assert done.result(timeout=60) == 3
    assert failed.exception(timeout=60)

    def lose(dask_scheduler: Scheduler) -> None:
        dask_scheduler.transitions({done.key: "erred"}, stimulus_id="test")

    cluster.client.run_on_scheduler(lose)
    end = time.monotonic() + 30
    while done.status == "finished" and time.monotonic() < end:  # the report of it is on its way
        time.sleep(0.01)
    assert is_lost_result(done.exception(timeout=30))
    assert not is_lost_result(failed.exception(timeout=30))


@dataclass
class Naps(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes three seconds for each call of two batches."""

    name: str = "naps"
    batch_size: int = 2

    def process_batch(self, tasks: list[DocumentBatch]) -> list[DocumentBatch]:
        time.sleep(3.0)
        return tasks

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def fail_an_input(dask_scheduler: Scheduler) -> bool:
    """Let an input of a queued task fail, and then take up the task again, as Dask does if another input is retried."""
    tasks = dask_scheduler.tasks
    sent = sorted(key for key, one in tasks.items() if str(key).startswith("('naps-") and one.state == "processing")
    if len(sent) < 2 or not tasks[sent[-1]].dependencies:
        return False
    last = sent[-1]  # it waits behind another one, which has just begun
    dask_scheduler.transitions({next(iter(tasks[last].dependencies)).key: "erred"}, stimulus_id="test")
    for state in ("released", "waiting"):
        dask_scheduler.transitions({last: state}, stimulus_id="test")
    return bool(tasks[last].waiting_on)


@pytest.mark.timeout(60)
def test_an_input_that_failed_again_is_retried_while_a_task_waits_for_it(cluster: LocalCluster) -> None:
    failed: list[bool] = []

    def fail() -> None:
        end = time.monotonic() + 30
        while not any(failed) and time.monotonic() < end:
            failed.append(cluster.client.run_on_scheduler(fail_an_input))
            time.sleep(0.05)

    thread = threading.Thread(target=fail)
    thread.start()
    stages = [Numbers(6, 1), Naps().with_(num_workers=1)]
    batches = list(Pipeline("lost", stages=stages).run(DaskExecutor(cluster=cluster)))
    thread.join()
    assert any(failed)
    assert len(batches) == 6
