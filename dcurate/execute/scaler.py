"""The scheduler's part: it knows which worker should hold which slots, and has them made."""

from __future__ import annotations

import time
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dcurate.errors import ResourceError
from dcurate.execute.balance import Demand, WorkerKind, allot
from dcurate.worker.plugin import resource, topic

#: The Dask resource by which a worker says that it has GPUs (LocalCUDACluster's workers are started with it).
GPU = "GPU"


def worker_kinds(resources: dict[str, tuple[int, dict[str, float]]]) -> list[WorkerKind]:
    """What workers there are, from address to (threads, Dask resources)."""
    return [
        WorkerKind(address, threads, gpus=int(offered.get(GPU, 0)), gpu_memory=int(offered.get("GPU_MEMORY", 0)))
        for address, (threads, offered) in resources.items()
    ]


class Scaler(SchedulerPlugin):
    """Holds the truth about one run's slots, asks `balance` what it should be, and has workers make it so.

    Args:
        run: id of the run.
        demands: what each operator asks for.
        payloads: each operator's pickled program, by name.
        client: id of the Dask client that is told the news.
    """

    def __init__(self, run: str, demands: list[Demand], payloads: dict[str, bytes], client: str) -> None:
        self.name = f"dcurate-scaler-{run}"
        self.run = run
        self.demands = demands
        self.payloads = payloads
        self.client = client
        self.asked: dict[str, dict[str, int]] = {}

    async def start(self, scheduler: Scheduler) -> None:
        """Begin on a scheduler (called by Dask): ask every worker for its slots."""
        self.scheduler = scheduler
        scheduler.extensions.setdefault("dcurate", {})[self.run] = self
        scheduler.stream_handlers["dcurate-ready"] = lambda **news: _on_ready(scheduler, **news)
        scheduler.subscribe_topic(
            topic(self.run), self.client
        )  # the client's own request may come after the first news
        for worker in list(scheduler.workers):
            self._assign(worker)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker joined, or came back after it died (called by Dask)."""
        self._assign(worker)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """A worker is gone (called by Dask); its tasks go elsewhere by Dask's own rules."""
        if self.asked.pop(worker, None) is not None:
            scheduler.log_event(topic(self.run), {"lost": worker})

    async def close(self) -> None:
        """The scheduler closes (called by Dask)."""
        self.scheduler.extensions.get("dcurate", {}).pop(self.run, None)

    def ready(self, worker: str, operator: str, slots: int, setup_seconds: float) -> None:
        """A worker has set slots up: tell the driver, offer them, and wake the tasks that waited for them."""
        state = self.scheduler.workers.get(worker)
        if state is None:
            return
        news = {"ready": operator, "worker": worker, "slots": slots, "setup_seconds": setup_seconds}
        self.scheduler.log_event(topic(self.run), news)
        self.scheduler.add_resources(worker, {resource(self.run, operator): slots})
        woken = self.scheduler.bulk_schedule_unrunnable_after_adding_worker(state)
        self.scheduler.transitions(woken, stimulus_id=f"dcurate-ready-{time.time()}")

    def _assign(self, worker: str) -> None:
        kinds = worker_kinds({w.address: (w.nthreads, dict(w.resources)) for w in self.scheduler.workers.values()})
        try:
            wanted = allot(self.demands, kinds).get(worker, {})
        except ResourceError as error:
            self.scheduler.log_event(topic(self.run), {"failed": "", "error": str(error)})
            return
        self.asked[worker] = wanted
        for operator, slots in wanted.items():
            order = {"run": self.run, "operator": operator, "slots": slots, "payload": self.payloads[operator]}
            self.scheduler.worker_send(worker, {"op": "dcurate-assign", **order})


def _on_ready(scheduler: Scheduler, worker: str, run: str, **news: Any) -> None:
    scaler = scheduler.extensions.get("dcurate", {}).get(run)
    if scaler is not None:
        scaler.ready(worker, **news)
