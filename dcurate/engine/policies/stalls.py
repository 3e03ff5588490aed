"""End runs that cannot go on. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dcurate.engine.allocate.requests import form_pools
from dcurate.engine.constants import check_constants
from dcurate.engine.policies.view import RunView, Stop
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class StallDetection:
    """Ends a run whose workers are all gone, or full and idle, or in which an operator gets no slot.

    Args:
        stuck_s: if all workers have been paused and idle for this many seconds, none goes on by itself; likewise if
            batches have waited this long for an operator without a slot, and nothing else is under way.
        worker_timeout_s: how long to wait for workers where there are none, or none on which an operator fits, in
            seconds; the executor's setting if not given.
    """

    stuck_s: float = 120.0
    worker_timeout_s: float | None = None

    #: Since when operators without a slot hold up the run.
    _since: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_constants(self)

    def run(self, view: RunView) -> Iterator[Stop]:
        """Suggest to stop, if nothing else can help."""
        timeout_s = self.worker_timeout_s or view.worker_timeout_s
        if view.workerless_s >= timeout_s:
            yield Stop(
                f"the cluster has had no workers that answer for {timeout_s:g} seconds; start some with 'dask "
                "worker' and run again with resume=True, or have runs wait longer with worker_timeout_s"
            )
        workers = view.workers.values()
        if workers and not view.starting and all(self._is_stuck(worker.paused_s, worker.running) for worker in workers):
            fullest = max(workers, key=lambda worker: worker.memory)
            yield Stop(
                f"all workers are paused as their memory is full ({fullest.memory / 1e9:.3g} of "
                f"{fullest.memory_limit / 1e9:.3g} GB), and no call is under way that would empty it; use a smaller "
                "blocksize or batch_size, or fewer workers with more memory, and see that the disk to which they move "
                "results is not full"
            )
        yield from self._without_slots(view, timeout_s)

    def _is_stuck(self, paused_s: float | None, running: int) -> bool:
        return paused_s is not None and paused_s >= self.stuck_s and not running

    def _without_slots(self, view: RunView, timeout_s: float) -> Iterator[Stop]:
        """Stop if the run has waited for an operator that gets no slot for too long."""
        held_up = _held_up(view)
        if not held_up or view.waits:
            self._since.clear()
            return
        if not self._since:
            self._since.append(view.time)
        waited_s = view.time - self._since[0]
        missing = _missing(view)
        if waited_s >= (timeout_s if missing else self.stuck_s):
            why = missing or "workers for it are there, so please report this"
            if any(worker.paused_s is not None for worker in view.workers.values()):
                why = "some workers take no tasks as their memory is full; use a smaller blocksize or batch_size"
            yield Stop(
                f"operator {held_up!r} has had no slot for {waited_s:.0f} seconds, and the run waits for it: {why}; "
                "run again with resume=True to go on (worker_timeout_s says how long to wait for workers)"
            )


def _held_up(view: RunView) -> str:
    """The first operator that has batches waiting and no slot, if nothing else can go on; else an empty text.

    A cluster that starts workers by itself may still do so.
    """
    operators = [operator for operator in view.operators.values() if not operator.finished]
    if view.sequential:
        operators = operators[:1]
    without = [
        operator.name
        for operator in operators
        if (operator.waiting or operator.running) and not operator.wanted and not operator.ready
    ]
    going_on = any(operator.running or operator.setting_up for operator in operators if operator.name not in without)
    coming = (
        view.kinds or view.starting or not view.workers or any(worker.recycling for worker in view.workers.values())
    )
    return without[0] if without and not (going_on or coming) else ""


def _missing(view: RunView) -> str:
    """Why the workers cannot hold a slot of each operator, as a sentence; empty if they can."""
    workers = [worker.info for worker in view.workers.values()]
    requests = [operator.request for operator in view.operators.values() if not operator.finished]
    try:
        form_pools(requests, workers, view.sequential)
    except ResourceError as error:
        return str(error)
    return ""
