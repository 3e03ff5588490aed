"""Functions that drivers and clusters call on the scheduler: install the worker plugin, end a run, count workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from distributed import Scheduler

from dcurate.cluster import compat
from dcurate.cluster.scale_api import offered_shapes
from dcurate.engine.dask.account import forget
from dcurate.engine.dask.output import end_relay
from dcurate.engine.dask.worker_plugin import PLUGIN, belongs_to, topic

#: The scheduler's extension with an event per run that is set when the driver has sent its last message.
RUN_ENDED = "dcurate-run-ended"
#: How long to wait for that, in seconds.
RUN_ENDED_S = 10.0


async def install_worker_plugin(dask_scheduler: Scheduler, plugin: bytes, name: str = PLUGIN) -> bool:
    """Install a pickled plugin on all workers, `DcurateWorkerPlugin` or another; return False if that was done before.

    Like `Client.register_plugin`, except that it is no error if a worker dies meanwhile or cannot load the plugin.
    """
    return await compat.add_worker_plugin(dask_scheduler, name, plugin)


async def remove_worker_plugin(dask_scheduler: Scheduler, name: str) -> None:
    """Remove a plugin that `install_worker_plugin` has installed; for `Client.run_on_scheduler`."""
    await compat.remove_worker_plugin(dask_scheduler, name)


def driver_done(ended_events: Mapping[str, asyncio.Event], run: str, **_: Any) -> None:
    """Note that the driver of a run has sent its last message, so that all of its tasks are known."""
    if run in ended_events:
        ended_events[run].set()


async def forget_run(dask_scheduler: Scheduler, run: str, client: str) -> None:
    """Release what is left of an ended run, tasks and events; for `Client.run_on_scheduler`.

    The driver has cancelled the tasks, but some may be wanted for as long as an error's traceback holds their futures,
    and some may still be under way: this call overtakes what travels on the driver's stream.
    """
    ended_events = compat.extensions(dask_scheduler).get(RUN_ENDED, {})
    if run in ended_events:
        with suppress(TimeoutError):
            await asyncio.wait_for(ended_events[run].wait(), RUN_ENDED_S)
        ended_events.pop(run, None)
    forget(dask_scheduler, run)
    end_relay(dask_scheduler, run)
    compat.forget_topic(dask_scheduler, topic(run), client)
    keys = [key for key in dask_scheduler.tasks if isinstance(key, tuple) and belongs_to(run, key[0])]
    compat.release_keys(dask_scheduler, keys, client, "over")
    # Last, as the scheduler notes the name of each resource that a task needs when it looks for a worker.
    names = compat.resource_names(dask_scheduler)
    compat.forget_resources(
        dask_scheduler, (name for name in names if name.startswith("stage-") and belongs_to(run, name))
    )


async def total_desired_workers(scheduler: Scheduler, **_: Any) -> dict[str, int]:
    """Return how many workers of each kind the runs on a scheduler want together."""
    shapes = offered_shapes(scheduler)
    total: Counter[str] = Counter()
    for manager in list(compat.extensions(scheduler)["dcurate"].values()):
        total.update(await manager.desired_workers() if shapes else {})
    return dict(total)
