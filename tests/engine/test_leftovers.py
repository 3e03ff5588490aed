"""What runs leave on a cluster that others go on using: nothing."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from distributed import Scheduler, Worker, scheduler

from dcurate import DaskExecutor, LocalCluster, Pipeline, StageError
from dcurate.engine.dask import scheduler_calls
from dcurate.engine.dask.worker_plugin import plugin_on
from dcurate.events import Event, RunStarted
from tests.stages import FailOn, Numbers, Sleep

pytestmark = pytest.mark.cluster


def left_with(dask_scheduler: Scheduler) -> dict[str, Any]:
    """What a scheduler still holds of runs."""
    return {
        "scalers": list(dask_scheduler.extensions.get("dcurate", {})),
        "plugins": [name for name in dask_scheduler.plugins if "slot-manager" in name],
        "resources": [name for name in dask_scheduler.resources if name.startswith("stage-")],
        "tasks": list(dask_scheduler.tasks),
        "filters": logging.getLogger("distributed.scheduler").filters,
    }


def news_with(dask_scheduler: Scheduler) -> list[str]:
    """The runs of which a scheduler keeps news, or a place for news."""
    return [name for name in dask_scheduler._broker._topics if name.startswith("dcurate-")]


def say_late(dask_worker: Worker, run: str) -> None:
    """Have a worker say of a run that is over what it says of one that goes on."""
    slots = plugin_on(dask_worker)
    slots._emit(run, {"task": 0})
    slots._report_slots(run, "sleep", 1, offered=1, queued=[], blocks=False)


class Tags(list[str]):
    """Hears how the phases of a run are called on a cluster."""

    def on_event(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.append(f"{event.run}-{event.phase}")


def offered_by(dask_worker: Worker) -> list[str]:
    """The slots that a worker still counts."""
    return [name for name in dask_worker.state.total_resources if name.startswith("stage-")]


@pytest.mark.parametrize("ends", ["well", "with an error", "half taken"])
def test_a_run_that_is_over_leaves_nothing_with_the_scheduler(ends: str, cluster: LocalCluster) -> None:
    stages = [Numbers(6, 5), Sleep(0.01).with_(batch_size=2), FailOn("7" if ends == "with an error" else "none")]
    stream = Pipeline("test", stages=stages).stream(DaskExecutor(cluster=cluster))
    match ends:
        case "well":
            assert sum(batch.num_items for batch in stream) == 30
        case "with an error":
            with pytest.raises(StageError, match="cannot take 7"):
                list(stream)
        case _:
            next(stream)
            stream.close()
    left = cluster.client.run_on_scheduler(left_with)
    assert left == {"scalers": [], "plugins": [], "resources": [], "tasks": [], "filters": []}
    assert cluster.client.run_on_scheduler(news_with) == []


def test_a_call_that_reaches_the_scheduler_when_its_run_is_over_leaves_nothing(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed = scheduler._materialize_graph
    stream = Pipeline("test", stages=[Numbers(50, 1), Sleep(0.01)]).stream(DaskExecutor(cluster=cluster))
    next(stream)
    monkeypatch.setattr(scheduler, "_materialize_graph", lambda **graph: time.sleep(0.3) or slowed(**graph))
    next(stream)
    stream.close()
    time.sleep(1)
    left = cluster.client.run_on_scheduler(left_with)
    assert left == {"scalers": [], "plugins": [], "resources": [], "tasks": [], "filters": []}


def test_the_scheduler_takes_no_late_news_of_a_run_that_is_over(cluster: LocalCluster) -> None:
    tags = Tags()
    Pipeline("test", stages=[Numbers(2, 1), Sleep(0.0)]).run(DaskExecutor(cluster=cluster), observers=[tags])
    before = cluster.client.run_on_scheduler(news_with)
    for tag in tags:
        cluster.client.run(say_late, run=tag)
    list(Pipeline("test", stages=[Numbers(2, 1), Sleep(0.0)]).stream(DaskExecutor(cluster=cluster)))  # it has come now
    assert len(tags) == 1
    assert cluster.client.run_on_scheduler(news_with) == before
    assert cluster.client.run_on_scheduler(left_with)["resources"] == []


def test_what_a_call_outlasts_its_run_with_is_forgotten_with_the_next(cluster: LocalCluster) -> None:
    before = set(cluster.client.run_on_scheduler(news_with))
    stream = Pipeline("test", stages=[Numbers(9, 1), Sleep(0.5)]).stream(DaskExecutor(cluster=cluster))
    next(stream)
    stream.close()
    list(Pipeline("test", stages=[Numbers(9, 1), Sleep(0.2)]).stream(DaskExecutor(cluster=cluster)))
    assert set(map(tuple, cluster.client.run(offered_by).values())) == {()}
    after = set(cluster.client.run_on_scheduler(news_with))
    assert after == before


@pytest.mark.timeout(60)
def test_a_run_ends_when_its_driver_has_said_all_and_not_when_time_is_up(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_calls, "RUN_ENDED_S", 3600.0)  # the scheduler is in this process
    for _ in range(5):
        result = Pipeline("test", stages=[Numbers(2, 5)]).run(DaskExecutor(cluster=cluster), observers=[])
        assert result.report.stages[-1].rows_out == 10
