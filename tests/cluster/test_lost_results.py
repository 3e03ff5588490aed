"""Dask's report of a finished task that is lost with its inputs is recognised."""

from __future__ import annotations

import time

import pytest
from distributed.scheduler import Scheduler

from dcurate import LocalCluster
from dcurate.cluster.compat import is_lost_result

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
