"""The scheduler's part of a cluster that changes: what workers it could have, and how workers leave it."""

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

from dcurate.cluster.compat import cancel_retirement, extensions, handle_rpc, retire, rpc_handler
from dcurate.cluster.worker_shape import Shape

#: The name of the scheduler plugin, and of what it keeps among the scheduler's extensions.
OFFER = "dcurate-offer"
#: The scheduler's handler that says how many workers of each kind the runs want.
WANTED = "dcurate_wanted"
#: An offer that was not made again for so long is taken back, in seconds: its cluster is gone.
STALE_S = 60.0
#: How often it is looked whether a worker that leaves has ended its calls, in seconds.
LOOK_S = 0.1


class Offer(SchedulerPlugin):  # type: ignore[misc]
    """Keeps what workers the cluster could have, passes on how many are wanted, and lets workers go."""

    name = OFFER
    idempotent = True

    async def start(self, scheduler: Scheduler) -> None:
        """Begin on a scheduler (called by Dask)."""
        self.scheduler = scheduler
        self.shapes: dict[str, Shape] = {}
        self.made = time.monotonic()
        self.arrivals: Counter[str] = Counter()
        extensions(scheduler)[OFFER] = self
        handle_rpc(scheduler, "dcurate_offer", self.offer)
        handle_rpc(scheduler, "dcurate_let_go", self.let_go)
        handle_rpc(scheduler, "dcurate_arrivals", self.told_arrivals)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker came (called by Dask)."""
        self.arrivals[str(scheduler.workers[worker].name)] += 1

    async def told_arrivals(self) -> dict[str, int]:
        """How often a worker of each name came."""
        return dict(self.arrivals)

    async def offer(self, shapes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Offer workers of these kinds; how many of each are wanted now, nothing where no run has said."""
        self.shapes = {kind: Shape.from_dict(shape) for kind, shape in shapes.items()}
        self.made = time.monotonic()
        handler = rpc_handler(self.scheduler, WANTED)
        wanted = handler() if handler is not None else {}
        return dict(await wanted if isawaitable(wanted) else wanted)

    async def let_go(self, among: Sequence[tuple[Any, Sequence[Any]]], number: int, patience_s: float) -> list[Any]:
        """Have workers leave: first those that have not come yet, then those with the least to do and to hold.

        A worker that leaves takes no new task; it ends its calls, within the patience, and its results move to others.

        Args:
            among: entries of which some are to go, and the names of the workers of each.
            number: how many entries.
            patience_s: how long calls may go on, in seconds; then they are begun anew elsewhere.

        Returns:
            The entries of which all workers are gone. An entry whose results nobody can take stays.
        """
        here = {entry: [one for name in names for one in self._named(name)] for entry, names in among}
        newest_first = list(here)[::-1]
        chosen = sorted(newest_first, key=lambda entry: _burden(here[entry]))[:number]
        leaving = [worker.address for entry in chosen for worker in here[entry]]
        going = await retire(self.scheduler, leaving, close=False)
        await self._ended(going, patience_s)
        gone = await retire(self.scheduler, going, close=True)
        for address in leaving:
            if address not in gone:
                cancel_retirement(self.scheduler, address)
        left = {address for address in leaving if address in self.scheduler.workers}
        return [entry for entry in chosen if not any(worker.address in left for worker in here[entry])]

    def _named(self, name: Any) -> list[WorkerState]:
        return [worker for worker in self.scheduler.workers.values() if str(worker.name) == str(name)]

    async def _ended(self, addresses: Sequence[str], patience_s: float) -> None:
        """Wait until the workers have told, since now, that none of them is at a call."""
        asked, end = wall_time(), time.monotonic() + patience_s
        begun: set[Any] = set()
        while time.monotonic() < end:
            workers = [self.scheduler.workers[address] for address in addresses if address in self.scheduler.workers]
            begun |= {task for worker in workers for task in worker.executing}
            told = all(worker.last_seen > asked + LOOK_S for worker in workers)
            if told and not any(begun & set(worker.processing) or worker.executing for worker in workers):
                return
            await asyncio.sleep(LOOK_S)


def _burden(workers: Sequence[WorkerState]) -> tuple[int, int, int]:
    return len(workers), sum(len(worker.processing) for worker in workers), sum(worker.nbytes for worker in workers)


def offered(scheduler: Scheduler) -> dict[str, Shape]:
    """What workers a scheduler's cluster could have, by kind; nothing where the cluster does not change."""
    offer = extensions(scheduler).get(OFFER)
    return dict(offer.shapes) if offer is not None and time.monotonic() - offer.made < STALE_S else {}


def offered_to(client: Client) -> dict[str, Shape]:
    """What workers the cluster of a client could have, by kind; nothing where the cluster does not change."""
    shapes = client.run_on_scheduler(_offered_plainly)
    return {kind: Shape.from_dict(shape) for kind, shape in shapes.items()}


def _offered_plainly(dask_scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    return {kind: shape.to_dict() for kind, shape in offered(dask_scheduler).items()}
