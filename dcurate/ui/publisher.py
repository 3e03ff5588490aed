"""Publishes the state of a run to its scheduler, for pages and metrics."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from distributed import Client, Scheduler
from distributed.protocol.pickle import dumps

from dcurate.cluster.compat import add_worker_plugin, send_to_scheduler
from dcurate.events import HostSample
from dcurate.runs.history import History
from dcurate.ui.metrics.worker_metrics import WorkerMetrics
from dcurate.ui.scheduler_store import SNAPSHOT, SchedulerStore

#: Seconds between two messages.
INTERVAL_S = 0.5


async def _install_metrics(dask_scheduler: Scheduler, plugin: bytes) -> None:
    """Install the metrics on the workers that can load them; for `Client.run_on_scheduler`."""
    await add_worker_plugin(dask_scheduler, WorkerMetrics.name, plugin)


class SnapshotPublisher:
    """Sends the scheduler a snapshot about twice a second while a ``with`` statement lasts, and one at its end.

    Args:
        client: connected to the scheduler.
        history: history of the run.
    """

    def __init__(self, client: Client, history: History) -> None:
        self.client = client
        self.history = history
        self._hosts: tuple[HostSample, ...] = ()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._publish_often, name="dcurate-publisher", daemon=True)

    def __enter__(self) -> Self:
        self.client.register_plugin(SchedulerStore())
        self.client.run_on_scheduler(_install_metrics, plugin=dumps(WorkerMetrics()))
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._publish()

    def _publish_often(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self._publish()

    def _publish(self) -> None:
        snapshot = self.history.snapshot()
        if snapshot.run and self.client.status == "running":
            # Like Client.log_event, without waiting for an answer, and the scheduler keeps no copy.
            lean = {**snapshot.to_dict(), "stages": [stage.counts() for stage in snapshot.stages]}
            if snapshot.hosts is self._hosts:
                del lean["hosts"]  # a thousand of them would cost more than the rest of the run
            self._hosts = snapshot.hosts
            send_to_scheduler(self.client, {"op": SNAPSHOT, "snapshot": lean})
