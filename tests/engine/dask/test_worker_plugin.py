"""Slots in a Dask worker: none outlives its run, and the tasks of a withdrawn one run once."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Worker

from dcurate import DaskExecutor, LocalCluster, Pipeline
from dcurate.cluster import compat
from dcurate.engine.dask.worker_plugin import plugin_on
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.engine.worker.timeouts import acquire_host_folder
from tests.conftest import workers_of
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


async def blocked(dask_worker: Worker, run: str, payload: bytes) -> list[str]:
    """Errors that are sent when the mark of `setup_on_node` cannot be made."""
    plugin, sent = plugin_on(dask_worker), []
    folder = acquire_host_folder(run)
    (folder / "append.lock").mkdir()
    send, plugin.send = plugin.send, sent.append
    try:
        plugin.set_slots(run, "append", 1, payload, ())
        await asyncio.gather(*plugin.background)
    finally:
        plugin.send = send
        await plugin.release_run(run)
    return [one["event"]["error"] for one in sent]


def test_a_temporary_directory_that_cannot_be_used_ends_the_run_with_a_sentence(cluster: LocalCluster) -> None:
    Pipeline("before", stages=[Numbers(), Append("x")]).run(DaskExecutor(cluster=cluster))
    worker = next(iter(workers_of(cluster.client)))
    payload = pickled(OperatorSpec("append", (Append("x"),)))
    errors = cluster.client.run(blocked, run="blocked", payload=payload, workers=[worker])[worker]
    assert len(errors) == 1
    assert f"worker {worker} cannot set up operator 'append': [Errno 21]" in errors[0]
    assert "name another one with TMPDIR" in errors[0]


async def withdraw(dask_worker: Worker, name: str, number: int, go: Path) -> list[Any]:
    """Take the tasks from a worker that wait for a resource, and give their slot time to begin one of them.

    Begins when the worker has that number of calls of `touch`; `go` lets the one that runs end.
    """
    while sum(str(key).startswith("touch-") for key in dask_worker.state.tasks) < number:
        await asyncio.sleep(0.01)
    keys = compat.cancel_queued(dask_worker, name, "test")
    go.touch()
    while compat.used_resources(dask_worker):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    return keys


def touch(folder: Path, go: Path, number: int) -> int:
    """Leave one file for each time that it is called, and end when it may, or after a minute."""
    (folder / f"{number}-{time.monotonic_ns()}").touch()
    end = time.monotonic() + 60
    while not go.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return number


def test_tasks_taken_from_a_worker_do_not_begin_there(cluster: LocalCluster, tmp_path: Path) -> None:
    worker = next(iter(workers_of(cluster.client)))
    cluster.client.run(lambda dask_worker: compat.offer_resource(dask_worker, "seat", 1), workers=[worker])
    cluster.client.run_on_scheduler(lambda dask_scheduler: compat.set_resource(dask_scheduler, worker, "seat", 1))
    begun, go = tmp_path / "begun", tmp_path / "go"
    begun.mkdir()
    futures = cluster.client.map(partial(touch, begun, go), range(5), resources={"seat": 1}, pure=False)
    try:
        while not any(begun.iterdir()):
            time.sleep(0.01)
        other = cluster.client.submit(touch, tmp_path, go, 9, workers=[worker], pure=False)  # it needs no resource
        futures.append(other)
        keys = cluster.client.run(withdraw, name="seat", number=6, go=go, workers=[worker])[worker]
        assert len(list(begun.iterdir())) == 1
        assert len(keys) == 4
        cluster.client.run_on_scheduler(
            lambda dask_scheduler: compat.reassign_tasks(dask_scheduler, worker, keys, "test")
        )
        assert cluster.client.gather(futures) == [*range(5), 9]
        assert len(list(begun.iterdir())) == 5
    finally:
        go.touch()
        cluster.client.cancel(futures)
        cluster.client.run(lambda dask_worker: compat.drop_resource(dask_worker, "seat"), workers=[worker])
        cluster.client.run_on_scheduler(lambda dask_scheduler: compat.forget_resources(dask_scheduler, ["seat"]))
