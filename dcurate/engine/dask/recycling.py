"""Worker processes that have lived or grown long enough are emptied, restarted and filled again, one at a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from dcurate.cluster import compat

if TYPE_CHECKING:
    from dcurate.engine.dask.scheduler_plugin import SlotManager

#: How often to look whether a process is empty, and how long to wait for what it stores to be used, in seconds.
LOOK_S, STORED_S = 0.05, 10.0
#: Looks in a row at which a process must be too large, and the least seconds between two restarts for that.
LOOKS, GROWN_S = 4, 10.0
#: How long a process may take to end, in seconds.
END_S = 30.0


class Recycler:
    """Restarts worker processes for a scaler: by age (``worker_max_lifetime_m``) and by memory.

    A process is first emptied: no new tasks, its calls end, its slots are torn down, and what it stores is used or
    moved. Only then it is restarted, so that nothing is lost or run twice. At most one process of an operator is
    recycled at a time.

    Args:
        scaler: of one run.
    """

    def __init__(self, scaler: SlotManager) -> None:
        self.scaler = scaler
        self.born: dict[str, float] = {}
        self.under_way: dict[str, asyncio.Task[None]] = {}
        self._restarted: dict[str, float] = {}
        self._large: dict[str, int] = {}
        self._fixed: set[str] = set()

    def forget(self, worker: str) -> bool:
        """A worker is gone; whether it was being recycled."""
        self.born.pop(worker, None)
        self._large.pop(worker, None)
        return self.under_way.pop(worker, None) is not None

    def look(self, now: float) -> None:
        """Begin to recycle what is due."""
        for worker, seats in list(self.scaler.asked.items()):
            state = self.scaler.scheduler.workers.get(worker)
            if state is None or not seats or worker in self.under_way or worker in self._fixed:
                continue
            reason, interval = self._due(worker, state, now)
            busy = {one for other in self.under_way for one in self.scaler.asked_before.get(other, ())}
            rested = all(now - self._restarted.get(one, -1e9) >= interval for one in seats)
            if reason and rested and not busy & set(seats):
                self._restarted.update(dict.fromkeys(seats, now))
                self.scaler.asked_before[worker] = tuple(seats)
                self.under_way[worker] = asyncio.ensure_future(self._recycle(worker, reason))

    def _due(self, worker: str, state: Any, now: float) -> tuple[str, float]:
        """Why a process should be recycled, if it should, and the least time since the last of its operators."""
        age = (now - self.born.get(worker, now)) / 60
        limits = [self.scaler.orders.lifetimes.get(one, (0.0, 0.0)) for one in self.scaler.asked[worker]]
        lives = [lifetime for lifetime, _ in limits if lifetime]
        if lives and age >= min(lives):
            return f"it has lived {age:.3g} minutes", max(interval for _, interval in limits) * 60
        used, limit = state.metrics.get("memory", 0), state.memory_limit
        large = bool(limit) and used - state.nbytes >= self.scaler.orders.recycle_share * limit
        self._large[worker] = self._large.get(worker, 0) + 1 if large else 0
        if self._large[worker] >= LOOKS:
            return f"its memory grew to {used / 1e9:.3g} of {limit / 1e9:.3g} GB", GROWN_S
        return "", 0.0

    async def _recycle(self, worker: str, reason: str) -> None:
        scaler, scheduler = self.scaler, self.scaler.scheduler
        state = scheduler.workers[worker]
        if not state.nanny:
            self._fixed.add(worker)
            del self.under_way[worker]
            scaler.tell({"kept": worker, "reason": f"{reason}, but it has no nanny that would restart it"})
            return
        scaler.tell({"recycled": worker, "reason": reason})
        scaler.empty(worker)
        while worker in scheduler.workers and (state.processing or any(one[0] == worker for one in scaler.leaving)):
            if scaler.is_over:
                return  # it takes no news any more, and so would not hear that the worker is empty
            await asyncio.sleep(LOOK_S)
        end = time.monotonic() + STORED_S
        while worker in scheduler.workers and state.has_what and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
        if worker in scheduler.workers and state.has_what:
            await compat.move_results_away(scheduler, worker, "recycle")
        if worker in scheduler.workers:
            await compat.restart_process(scheduler, worker, END_S, "recycle")
