"""Ask a cluster that scales for the workers that suit a run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from dcurate.engine.allocate.allocation import SchedulingUnit, count_slots
from dcurate.engine.allocate.autoscaler import ClusterState, desired_workers, workers_at
from dcurate.engine.allocate.requests import form_pools
from dcurate.engine.policies.balancing import measured_pools
from dcurate.engine.policies.view import RunView, Scale
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class Autoscaling:
    """Asks for the fewest workers of each kind with which a run is as fast as with all of them.

    Args:
        start_s: seconds until a new worker is of use: none is asked for if all is done by then.
        interval_s: the least seconds between two answers, as an answer may take long to compute.
    """

    start_s: float = 30.0
    interval_s: float = 2.0
    _last: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def run(self, view: RunView) -> Iterator[Scale]:
        """Suggest numbers of workers."""
        if not view.kinds or (self._last and view.time < self._last[0] + self.interval_s):
            return
        self._last[:] = [view.time]
        with suppress(ResourceError):  # not even the largest cluster is enough: the run is refused elsewhere
            units, state = self._state(view)
            for kind, number in desired_workers(units, view.kinds, state).items():
                yield Scale(kind, number)

    def _state(self, view: RunView) -> tuple[list[SchedulingUnit], ClusterState]:
        """What is to be done, and the workers that there are."""
        workers = [worker.info for worker in view.workers.values()]
        base = tuple(worker for worker in workers if worker.kind not in view.kinds)
        numbers = Counter(worker.kind for worker in workers)
        found = measured_pools(view, workers)
        if found is None:
            most = workers_at(view.kinds, {kind: shape.maximum for kind, shape in view.kinds.items()})
            requests = [operator.request for operator in view.operators.values()]
            units = [pool.unit() for pool in form_pools(requests, [*base, *most], view.sequential)]
            state = ClusterState(numbers, None, self.start_s, base, {unit.name for unit in units})
        else:
            now = found[1]
            left = 1 / now.throughput(count_slots(now.current)) if now.work_known and any(now.current) else None
            unknown = {unit.name for unit in now.units if not unit.finished and not unit.known(now.now)}
            units = list(now.solvable)
            state = ClusterState(numbers, left, self.start_s, base, unknown)
        return units, state
