"""What runs leave on a cluster that others go on using: nothing."""

from __future__ import annotations

from typing import Any

import pytest
from distributed import Scheduler, Worker

from dcurate import DaskExecutor, LocalCluster, Pipeline
from dcurate.errors import StageError
from tests.stages import FailOn, Numbers, Sleep


def left_with(dask_scheduler: Scheduler) -> dict[str, Any]:
    """What a scheduler still holds of runs; of slots those on offer, as a worker may tell late of one that ended."""
    slots = {name: by for name, by in dask_scheduler.resources.items() if name.startswith("stage-")}
    return {
        "scalers": list(dask_scheduler.extensions.get("dcurate", {})),
        "plugins": [name for name in dask_scheduler.plugins if "scaler" in name],
        "resources": [name for name, by in slots.items() if any(by.values())],
        "tasks": list(dask_scheduler.tasks),
    }


def news_with(dask_scheduler: Scheduler) -> list[str]:
    """The runs of which a scheduler keeps news."""
    return [name for name in dask_scheduler.get_events() if name.startswith("dcurate-")]


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
    assert left == {"scalers": [], "plugins": [], "resources": [], "tasks": []}


def test_what_a_call_outlasts_its_run_with_is_forgotten_with_the_next(cluster: LocalCluster) -> None:
    before = set(cluster.client.run_on_scheduler(news_with))
    stream = Pipeline("test", stages=[Numbers(9, 1), Sleep(0.5)]).stream(DaskExecutor(cluster=cluster))
    next(stream)
    stream.close()
    list(Pipeline("test", stages=[Numbers(9, 1), Sleep(0.2)]).stream(DaskExecutor(cluster=cluster)))
    assert set(map(tuple, cluster.client.run(offered_by).values())) == {()}
    after = set(cluster.client.run_on_scheduler(news_with))
    assert len(after - before) <= 1  # that of a call which had not ended when its run was over
