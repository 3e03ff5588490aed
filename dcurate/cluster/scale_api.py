"""Scheduler plugin of a scalable cluster: which workers it could start, and how workers are retired."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import isawaitable
from typing import Any

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time as wall_time
from distributed.scheduler import WorkerState

from dcurate.cluster.compat import asked_for, cancel_retirement, extensions, handle_rpc, retire, rpc_handler
from dcurate.cluster.worker_shape import Shape

#: The name of the scheduler plugin and extension.
OFFER = "dcurate-offer"
#: The scheduler's handler that returns how many workers of each kind the runs want.
DESIRED_WORKERS = "dcurate_desired_workers"
#: The name under which jobs ask for a worker, beside which their driver runs (`ask_for_workers`).
DRIVERS = "dcurate-jobs"
#: Seconds after which an offer expires that is not renewed: its cluster is gone.
STALE_S = 60.0
#: How often to check whether a retiring worker has ended its calls, in seconds.
LOOK_S = 0.1


class ScaleApi(SchedulerPlugin):  # type: ignore[misc]
    """Stores the shapes of workers that the cluster could start, returns how many are wanted, and retires workers."""

    name = OFFER
    idempotent = True

    async def start(self, scheduler: Scheduler) -> None:
        """Start on a scheduler (called by Dask)."""
        self.scheduler = scheduler
        self.shapes: dict[str, Shape] = {}
        self.made = time.monotonic()
        self.arrivals: Counter[str] = Counter()
        self._last_wanted = ""
        extensions(scheduler)[OFFER] = self
        handle_rpc(scheduler, "dcurate_offer", self.offer)
        handle_rpc(scheduler, "dcurate_retire", self.retire_entries)
        handle_rpc(scheduler, "dcurate_arrivals", self.arrival_counts)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Count the arrival of a worker (called by Dask)."""
        self.arrivals[str(scheduler.workers[worker].name)] += 1

    async def arrival_counts(self) -> dict[str, int]:
        """Return how often a worker of each name joined."""
        return dict(self.arrivals)

    async def offer(self, shapes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Store the shapes of workers that could be started; return how many of each kind runs and jobs want."""
        self.shapes = {kind: Shape.from_dict(shape) for kind, shape in shapes.items()}
        self.made = time.monotonic()
        handler = rpc_handler(self.scheduler, DESIRED_WORKERS)
        wanted = handler() if handler is not None else {}
        numbers = dict(await wanted if isawaitable(wanted) else wanted)
        return numbers | self._for_drivers(numbers)

    def _for_drivers(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return a worker for the drivers of jobs if runs want none: of the kind that they wanted last, or the first.

        A driver starts its run only once it has started itself, beside a worker.
        """
        kinds = [kind for kind, shape in self.shapes.items() if shape.maximum]
        busy = [kind for kind in kinds if wanted.get(kind) or self.shapes[kind].minimum]
        if busy or not kinds:
            self._last_wanted = busy[0] if busy else ""
            return {}
        kind = self._last_wanted if self._last_wanted in kinds else kinds[0]
        return {kind: asked_for(self.scheduler, DRIVERS)}

    async def retire_entries(
        self, among: Sequence[tuple[Any, Sequence[Any]]], number: int, patience_s: float
    ) -> list[Any]:
        """Retire workers: first those that have not joined yet, then those with the fewest tasks and results.

        A retiring worker takes no new task; it ends its calls, within the patience, and its results move to others.

        Args:
            among: entries to choose from, and the names of the workers of each.
            number: how many entries to retire.
            patience_s: how long calls may continue, in seconds; then they are started again elsewhere.

        Returns:
            The entries of which all workers are gone. An entry whose results nobody can take stays.
        """
        here = {entry: [worker for name in names for worker in self._workers_named(name)] for entry, names in among}
        newest_first = list(here)[::-1]
        chosen = sorted(newest_first, key=lambda entry: _load(here[entry]))[:number]
        leaving = [worker.address for entry in chosen for worker in here[entry]]
        going = await retire(self.scheduler, leaving, close=False)
        await self._wait_until_idle(going, patience_s)
        gone = await retire(self.scheduler, going, close=True)
        for address in leaving:
            if address not in gone:
                cancel_retirement(self.scheduler, address)
        remaining = {address for address in leaving if address in self.scheduler.workers}
        return [entry for entry in chosen if not any(worker.address in remaining for worker in here[entry])]

    def _workers_named(self, name: Any) -> list[WorkerState]:
        return [worker for worker in self.scheduler.workers.values() if str(worker.name) == str(name)]

    async def _wait_until_idle(self, addresses: Sequence[str], patience_s: float) -> None:
        """Wait until all workers have reported, since now, that they run no call."""
        asked, end = wall_time(), time.monotonic() + patience_s
        begun: set[Any] = set()
        while time.monotonic() < end:
            workers = [self.scheduler.workers[address] for address in addresses if address in self.scheduler.workers]
            begun |= {task for worker in workers for task in worker.executing}
            reported = all(worker.last_seen > asked + LOOK_S for worker in workers)
            if reported and not any(begun & set(worker.processing) or worker.executing for worker in workers):
                return
            await asyncio.sleep(LOOK_S)


def _load(workers: Sequence[WorkerState]) -> tuple[int, int, int]:
    return len(workers), sum(len(worker.processing) for worker in workers), sum(worker.nbytes for worker in workers)


def offered_shapes(scheduler: Scheduler) -> dict[str, Shape]:
    """Return the shapes of workers that a scheduler's cluster could start, by kind; empty if it does not scale."""
    offer = extensions(scheduler).get(OFFER)
    return dict(offer.shapes) if offer is not None and time.monotonic() - offer.made < STALE_S else {}


def client_offered_shapes(client: Client) -> dict[str, Shape]:
    """Return the shapes of workers that the cluster of a client could start, by kind; empty if it does not scale."""
    shapes = client.run_on_scheduler(_offered_values)
    return {kind: Shape.from_dict(shape) for kind, shape in shapes.items()}


def _offered_values(dask_scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    return {kind: shape.to_dict() for kind, shape in offered_shapes(dask_scheduler).items()}
