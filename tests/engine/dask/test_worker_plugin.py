"""Slots in a Dask worker: those of a run that is over are gone, and none comes late."""

from __future__ import annotations

import asyncio

import pytest
from distributed import Worker

from dcurate import DaskExecutor, LocalCluster, Pipeline
from dcurate.engine.dask.worker_plugin import plugin_on
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec
from tests.stages import Append, Numbers

pytestmark = pytest.mark.cluster


async def held_after(dask_worker: Worker, run: str, payload: bytes) -> list[int]:
    """Slots of a run when it has one, when it is dismissed, and when one is asked for after that."""
    plugin, counts = plugin_on(dask_worker), []
    for over in (False, True, False):
        if over:
            await plugin.release_run(run)
        else:
            plugin.set_slots(run, "append", 1, payload, ())
            await asyncio.gather(*plugin.background)
        counts.append(sum(pool.count for (name, _), pool in plugin.pools.items() if name == run))
    return counts


def test_a_slot_that_is_asked_for_after_its_run_is_over_is_not_set_up(cluster: LocalCluster) -> None:
    Pipeline("before", stages=[Numbers(), Append("x")]).run(DaskExecutor(cluster=cluster))
    payload = pickled(OperatorSpec("append", (Append("x"),)))
    counts = cluster.client.run(held_after, run="late", payload=payload)
    assert list(counts.values()) == [[1, 0, 0]] * 2
