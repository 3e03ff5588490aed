"""Restart worker processes: drain them, and restart them; new ones get slots again."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Protocol

from distributed import Scheduler

from dcurate.cluster import compat

#: Seconds between two checks whether a process is drained, and longest wait for its results to be used.
POLL_S, RESULTS_S = 0.05, 10.0
#: Longest time in which results are moved to other workers, and longest duration of the end of a process, in seconds.
MOVE_S, END_S = 120.0, 30.0
#: The scheduler's extension with the processes that are being recycled.
RECYCLING = "dcurate-recycling"


class SlotOwner(Protocol):
    """What the recycler needs of the slot manager of a run."""

    scheduler: Scheduler
    ended: bool

    def operators_on(self, worker: str) -> tuple[str, ...]:
        """Return the names of the operators that have slots on a worker."""

    def is_clear(self, worker: str) -> bool:
        """Return whether all runs have torn down their slots on a worker."""

    def drain(self, worker: str) -> None:
        """Have this run tear down its slots on a worker."""

    def clear(self, worker: str) -> None:
        """Have all runs tear down their slots on a worker."""

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to the driver."""


class Recycler:
    """Restarts the worker processes of a run.

    A process is drained first: it gets no new tasks of any run, its calls end, its slots are torn down, and its results
    are used or moved. Only then is it restarted, so that nothing is lost or run twice. At most one process of an
    operator is recycled at a time.

    Args:
        owner: slot manager of the run.

    Attributes:
        recycled_at: monotonic time at which a process of an operator was last recycled, by operator.
    """

    def __init__(self, owner: SlotOwner) -> None:
        self.owner = owner
        self.recycled_at: dict[str, float] = {}
        #: Processes that are being recycled, and the operators that had slots there.
        self._recycling: dict[str, asyncio.Task[None]] = {}
        self._operators: dict[str, tuple[str, ...]] = {}
        self._not_restartable: set[str] = set()
        self._retiring: set[str] = set()

    def is_recycling(self, worker: str) -> bool:
        """Whether a process is being drained, to be restarted by any run, or to leave."""
        return worker in self._by_any_run or worker in self._retiring

    def retire(self, worker: str) -> None:
        """Drain a process that is about to leave the cluster, and give it no slots."""
        self._retiring.add(worker)
        self.owner.drain(worker)

    def keep(self, worker: str) -> None:
        """Give a process slots again that was about to leave."""
        self._retiring.discard(worker)

    def forget(self, worker: str) -> bool:
        """Forget a worker that is gone; return whether it was being recycled."""
        self._retiring.discard(worker)
        return self._recycling.pop(worker, None) is not None or worker in self._by_any_run

    @property
    def _by_any_run(self) -> set[str]:
        """Addresses of the processes that runs on the scheduler recycle."""
        addresses: set[str] = compat.extensions(self.owner.scheduler).setdefault(RECYCLING, set())
        return addresses

    def start(self, worker: str, reason: str) -> None:
        """Recycle a process, unless that is under way or impossible, or another one of its operators is recycled."""
        if worker not in self.owner.scheduler.workers or worker in self._by_any_run or worker in self._not_restartable:
            return
        operators = self.owner.operators_on(worker)
        busy = {operator for address in self._recycling for operator in self._operators.get(address, ())}
        if not busy & set(operators):
            self.recycled_at = self.recycled_at | dict.fromkeys(operators, time.monotonic())
            self._operators[worker] = operators
            self._by_any_run.add(worker)
            self._recycling[worker] = task = asyncio.ensure_future(self._recycle(worker, reason))
            task.add_done_callback(lambda _: self._by_any_run.discard(worker))

    async def _recycle(self, worker: str, reason: str) -> None:
        owner, scheduler = self.owner, self.owner.scheduler
        state = scheduler.workers[worker]
        if not state.nanny:
            self._not_restartable.add(worker)
            del self._recycling[worker]
            reason = f"{reason}, but it has no nanny that would restart it"
            owner.publish({"kept": worker, "name": str(state.name), "reason": reason})
            return
        owner.publish({"recycled": worker, "name": str(state.name), "reason": reason})
        owner.clear(worker)
        while worker in scheduler.workers and (state.processing or not owner.is_clear(worker)):
            if owner.ended:
                return  # it takes no messages any more, and would not learn that the worker is drained
            await asyncio.sleep(POLL_S)
        end = time.monotonic() + RESULTS_S
        while worker in scheduler.workers and state.has_what and time.monotonic() < end:
            await asyncio.sleep(POLL_S)
        if worker in scheduler.workers and state.has_what:
            with suppress(TimeoutError):  # a process that is stopped sends none; they are made again
                await asyncio.wait_for(compat.move_results_away(scheduler, worker, "recycle"), MOVE_S)
        if worker in scheduler.workers:
            await compat.restart_process(scheduler, worker, END_S, "recycle")
