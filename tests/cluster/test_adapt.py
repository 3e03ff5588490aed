"""Clusters that Dask itself scales: a run gets the workers that it can use, and gives them back."""

from __future__ import annotations

import pytest
from distributed import LocalCluster as DaskCluster

from dcurate import DaskExecutor, Pipeline
from dcurate.events import Event, SlotsChanged
from tests.conftest import wait_until
from tests.stages import Numbers, Sleep

pytestmark = pytest.mark.cluster


class Workers:
    """Notes the workers that had slots."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotsChanged):
            self.seen.add(event.worker)


@pytest.mark.timeout(180)
def test_a_run_scales_a_cluster_up_that_dask_adapts_and_down_again() -> None:
    workers = Workers()
    with DaskCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs=50
    ) as cluster:
        cluster.adapt(minimum=1, maximum=3, interval="200ms", wait_count=3)
        stages = [Numbers(200, 1), Sleep(0.2)]
        result = Pipeline("test", stages=stages).run(DaskExecutor(cluster=cluster), observers=[workers])
        wait_until(lambda: len(cluster.scheduler.workers) == 1)
    assert result.report.stages[-1].rows_out == 200
    assert len(workers.seen) == 3


@pytest.mark.timeout(180)
@pytest.mark.parametrize("by_address", [False, True])
def test_a_run_begins_on_a_cluster_that_dask_scales_from_none(by_address: bool) -> None:
    with DaskCluster(
        n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs=50
    ) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=10)
        executor = DaskExecutor(cluster=cluster.scheduler_address if by_address else cluster)
        result = Pipeline("test", stages=[Numbers(60, 1), Sleep(0.1)]).run(executor, observers=[])
        wait_until(lambda: not cluster.scheduler.workers)
    assert result.report.stages[-1].rows_out == 60
