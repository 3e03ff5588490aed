"""Ask a cluster that scales for the workers that suit a run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.allocation import SchedulingUnit, count_slots
from dcurate.engine.allocate.autoscaler import ClusterState, desired_workers, workers_at
from dcurate.engine.allocate.requests import form_pools
from dcurate.engine.constants import check_constants
from dcurate.engine.policies.balancing import measured_pools
from dcurate.engine.policies.view import RunView, Scale, ScaleTo
from dcurate.errors import ResourceError

#: Where Dask scales a cluster, the most workers that it may have are not known: a decision asks for at most this many
#: times the present number.
GROWTH = 2
#: Least seconds between two decisions for each worker, as Prometheus asks, too, where nothing scales the cluster.
WORKER_S = 0.05


@dataclass(frozen=True)
class Autoscaling:
    """Asks for the fewest workers of each kind with which a run is as fast as with all of them.

    Where a cluster does not say which kinds it could start, Dask may scale it nevertheless, by ``adapt`` or an
    autoscaler: then it asks for the fewest workers like the present ones with which the run is as fast as with twice
    as many.

    Args:
        start_s: seconds until a new worker is of use: none is asked for if all is done by then.
        interval_s: the least seconds between two answers, as an answer may take long to compute.
    """

    start_s: float = 30.0
    interval_s: float = 2.0

    _last: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_constants(self)

    def run(self, view: RunView) -> Iterator[Scale | ScaleTo]:
        """Suggest numbers of workers."""
        interval_s = self.interval_s if view.kinds else max(self.interval_s, WORKER_S * len(view.workers))
        if not (view.kinds or view.asked) or (self._last and view.time < self._last[0] + interval_s):
            return
        self._last[:] = [view.time]
        with suppress(ResourceError):  # not even the largest cluster is enough: the run is refused elsewhere
            if view.kinds:
                units, state = self._state(view, view.kinds)
                for kind, number in desired_workers(units, view.kinds, state).items():
                    yield Scale(kind, number)
            elif view.workers:
                kinds = _kinds_here(view)
                units, state = self._state(view, kinds)
                number = sum(desired_workers(units, kinds, state).values())
                # Operators that are not measured yet seem to need few workers.
                yield ScaleTo(number, keeps_present=bool(state.unknown))

    def _state(self, view: RunView, kinds: Mapping[str, Shape]) -> tuple[list[SchedulingUnit], ClusterState]:
        """What is to be done, and the workers that there are."""
        workers = [worker.info for worker in view.workers.values()]
        base = tuple(worker for worker in workers if worker.kind not in kinds)
        numbers = Counter(worker.kind for worker in workers)
        measured = measured_pools(view, workers)
        if measured is None:
            most = workers_at(kinds, {kind: shape.maximum for kind, shape in kinds.items()})
            requests = [operator.request for operator in view.operators.values()]
            units = [pool.unit() for pool in form_pools(requests, [*base, *most], view.sequential)]
            state = ClusterState(numbers, None, self.start_s, base, {unit.name for unit in units})
        else:
            now = measured[1]
            work_left_s = 1 / now.throughput(count_slots(now.current)) if now.work_known and any(now.current) else None
            unknown = {unit.name for unit in now.units if not unit.finished and not unit.known(now.now)}
            units = list(now.solvable)
            state = ClusterState(numbers, work_left_s, self.start_s, base, unknown)
        return units, state


def _kinds_here(view: RunView) -> dict[str, Shape]:
    """The kinds of the present workers, each like its first worker, with twice as many of each."""
    workers = [worker.whole or worker.info for worker in view.workers.values()]
    numbers = Counter(worker.kind for worker in workers)
    return {
        worker.kind: Shape(
            worker.cpus,
            int(bool(worker.gpus)),
            worker.gpus[0][1] if worker.gpus else 0.0,
            worker.threads,
            maximum=GROWTH * numbers[worker.kind],
        )
        for worker in reversed(workers)
    }
