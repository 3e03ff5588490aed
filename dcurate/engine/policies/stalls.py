"""End runs that cannot go on. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dcurate.engine.policies.view import RunView, Stop


@dataclass(frozen=True)
class StallDetection:
    """Ends a run whose workers are all gone, or full and idle.

    Args:
        stuck_s: if all workers have been paused and idle for this many seconds, none goes on by itself.
        worker_timeout_s: how long to wait for workers where there are none, in seconds.
    """

    stuck_s: float = 120.0
    worker_timeout_s: float = 600.0

    def run(self, view: RunView) -> Iterator[Stop]:
        """Suggest to stop, if nothing else can help."""
        if view.workerless_s >= self.worker_timeout_s:
            yield Stop(
                f"the cluster has had no workers for {self.worker_timeout_s:g} seconds; start some with 'dask "
                "worker' and run again with resume=True, or have runs wait longer with worker_timeout_s"
            )
        workers = view.workers.values()
        if workers and not view.starting and all(self._is_stuck(one.paused_s, one.running) for one in workers):
            fullest = max(workers, key=lambda one: one.memory)
            yield Stop(
                f"all workers are paused as their memory is full ({fullest.memory / 1e9:.3g} of "
                f"{fullest.memory_limit / 1e9:.3g} GB), and no call is under way that would empty it; use a smaller "
                "blocksize or batch_size, or fewer workers with more memory, and see that the disk to which they move "
                "results is not full"
            )

    def _is_stuck(self, paused_s: float | None, running: int) -> bool:
        return paused_s is not None and paused_s >= self.stuck_s and not running
