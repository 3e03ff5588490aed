"""Histories of the runs on a scheduler, for its pages and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dcurate.cluster.compat import handle_stream, plugin_of
from dcurate.runs.history import History
from dcurate.runs.snapshot import RunSnapshot
from dcurate.ui import dashboard
from dcurate.ui.metrics import run_metrics

#: Number of runs whose histories are kept, the newest.
RUNS = 20
#: The error of a run whose driver was killed, or lost its connection.
DRIVER_GONE = "the driver is gone; start the run again with resume=True to go on"
#: The plugin's name on the scheduler, and the name of the messages that it handles.
PLUGIN, SNAPSHOT = "dcurate-hub", "dcurate-snapshot"


class SchedulerStore(SchedulerPlugin):
    """Store snapshots that drivers send, and serve them on the page ``/curation`` and in ``/metrics``.

    The first run on a cluster starts it; ``dask scheduler --preload dcurate.preload`` does so at once.

    Attributes:
        runs: histories by the id of the run, the newest last; also of runs that have ended.
        leaving: callbacks for each history before it is dropped.
    """

    name = PLUGIN
    idempotent = True

    def __init__(self) -> None:
        self.runs: dict[str, History] = {}
        #: The Dask client of the driver of each run.
        self._clients: dict[str, str] = {}
        self.leaving: list[Callable[[History], object]] = []

    async def start(self, scheduler: Scheduler) -> None:
        """Start on a scheduler (called by Dask)."""
        handle_stream(scheduler, SNAPSHOT, self.take)
        dashboard.serve(scheduler, self)
        run_metrics.publish(scheduler, self)

    def take(self, snapshot: dict[str, Any], client: str = "", **_: Any) -> None:
        """Store a snapshot of a run; where it has no ``hosts``, they are those of the snapshot before."""
        self._clients[snapshot["run"]] = client
        history = self.runs.setdefault(snapshot["run"], History())
        present = RunSnapshot.from_dict({"hosts": (), **snapshot})
        history.take(present if "hosts" in snapshot else replace(present, hosts=history.snapshot().hosts))
        while len(self.runs) > RUNS:
            run = next(iter(self.runs))
            oldest = self.runs.pop(run)
            self._clients.pop(run, None)
            for callback in self.leaving:
                callback(oldest)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End the runs of a driver that is gone and did not report their end (called by Dask)."""
        for run in [run for run, of in self._clients.items() if of == client]:
            del self._clients[run]
            last = self.runs[run].snapshot()
            if last.ended is None:
                now = max(time.time(), last.time)
                self.runs[run].take(replace(last, time=now, ended=now, error=DRIVER_GONE))


def store_of(scheduler: Scheduler) -> SchedulerStore | None:
    """The store of a scheduler, if it has one."""
    return cast("SchedulerStore | None", plugin_of(scheduler, PLUGIN))
