"""Restart worker processes that are old or have grown: drain them, restart them, and give them slots again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from distributed import Scheduler

from dcurate.cluster import compat

#: How often to check whether a process is drained, and how long to wait for its results to be used, in seconds.
POLL_S, RESULTS_S = 0.05, 10.0
#: Checks in a row at which a process must be too large, and the least seconds between two restarts for that.
CHECKS, GROWN_S = 4, 10.0
#: How long a process may take to end, in seconds.
END_S = 30.0


class SlotOwner(Protocol):
    """The part of a run's slot manager that the recycler uses."""

    scheduler: Scheduler
    ended: bool

    @property
    def requested(self) -> Mapping[str, Any]:
        """Slots by worker."""

    def operators_on(self, worker: str) -> tuple[str, ...]:
        """Names of the operators that have slots on a worker."""

    def is_draining(self, worker: str) -> bool:
        """Whether slots on a worker are being torn down."""

    def drain(self, worker: str) -> None:
        """Tear down all slots of a worker."""

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to the driver."""


class Recycler:
    """Restarts the worker processes of a run by age (``worker_max_lifetime_m``) and by memory.

    A process is drained first: it gets no new tasks, its calls end, its slots are torn down, and its results are used
    or moved. Only then is it restarted, so that nothing is lost or run twice. At most one process of an operator is
    recycled at a time.

    Args:
        owner: of the slots.
        lifetimes: by operator, the minutes that a process lives, and the minutes between two restarts.
        memory_share: share of its memory limit at which a process is restarted.
    """

    def __init__(self, owner: SlotOwner, lifetimes: Mapping[str, tuple[float, float]], memory_share: float) -> None:
        self.owner = owner
        self.lifetimes = lifetimes
        self.memory_share = memory_share
        self._started: dict[str, float] = {}
        #: Processes that are being recycled, and the operators that had slots there.
        self._recycling: dict[str, asyncio.Task[None]] = {}
        self._operators: dict[str, tuple[str, ...]] = {}
        self._restarted: dict[str, float] = {}
        self._large: dict[str, int] = {}
        self._not_restartable: set[str] = set()

    def add_worker(self, worker: str, now: float) -> None:
        """Count the age of a process from now on."""
        self._started[worker] = now

    def is_recycling(self, worker: str) -> bool:
        """Whether a process is being drained or restarted."""
        return worker in self._recycling

    def forget(self, worker: str) -> bool:
        """Forget a worker that is gone; return whether it was being recycled."""
        self._started.pop(worker, None)
        self._large.pop(worker, None)
        return self._recycling.pop(worker, None) is not None

    def check(self, now: float) -> None:
        """Start to recycle the processes that are due."""
        for worker in list(self.owner.requested):
            operators = self.owner.operators_on(worker)
            state = self.owner.scheduler.workers.get(worker)
            if state is None or not operators or worker in self._recycling or worker in self._not_restartable:
                continue
            reason, interval = self._due(worker, operators, state, now)
            busy = {operator for other in self._recycling for operator in self._operators.get(other, ())}
            rested = all(now - self._restarted.get(operator, -1e9) >= interval for operator in operators)
            if reason and rested and not busy & set(operators):
                self._restarted.update(dict.fromkeys(operators, now))
                self._operators[worker] = operators
                self._recycling[worker] = asyncio.ensure_future(self._recycle(worker, reason))

    def _due(self, worker: str, operators: tuple[str, ...], state: Any, now: float) -> tuple[str, float]:
        """Why a process is due, empty if it is not, and the least seconds since the last restart of its operators."""
        age = (now - self._started.get(worker, now)) / 60
        limits = [self.lifetimes.get(operator, (0.0, 0.0)) for operator in operators]
        lives = [lifetime for lifetime, _ in limits if lifetime]
        if lives and age >= min(lives):
            return f"it has lived {age:.3g} minutes", max(interval for _, interval in limits) * 60
        used, limit = state.metrics.get("memory", 0), state.memory_limit
        large = bool(limit) and used - state.nbytes >= self.memory_share * limit
        self._large[worker] = self._large.get(worker, 0) + 1 if large else 0
        if self._large[worker] >= CHECKS:
            return f"its memory grew to {used / 1e9:.3g} of {limit / 1e9:.3g} GB", GROWN_S
        return "", 0.0

    async def _recycle(self, worker: str, reason: str) -> None:
        owner, scheduler = self.owner, self.owner.scheduler
        state = scheduler.workers[worker]
        if not state.nanny:
            self._not_restartable.add(worker)
            del self._recycling[worker]
            owner.publish({"kept": worker, "reason": f"{reason}, but it has no nanny that would restart it"})
            return
        owner.publish({"recycled": worker, "reason": reason})
        owner.drain(worker)
        while worker in scheduler.workers and (state.processing or owner.is_draining(worker)):
            if owner.ended:
                return  # it takes no messages any more, and would not learn that the worker is drained
            await asyncio.sleep(POLL_S)
        end = time.monotonic() + RESULTS_S
        while worker in scheduler.workers and state.has_what and time.monotonic() < end:
            await asyncio.sleep(POLL_S)
        if worker in scheduler.workers and state.has_what:
            await compat.move_results_away(scheduler, worker, "recycle")
        if worker in scheduler.workers:
            await compat.restart_process(scheduler, worker, END_S, "recycle")
