"""Decide how many workers of each kind a run wants from a cluster that scales. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.allocation import Host, SchedulingUnit
from dcurate.engine.allocate.requests import WorkerState, hosts_of
from dcurate.engine.allocate.solve import solve

#: Assumed seconds until a new worker is of use.
START_S = 30.0
#: A fraction of a slot below this does not need another slot.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class ClusterState:
    """The current workers, and the work that is left.

    Args:
        numbers: workers of each kind that exist or were requested.
        work_left_s: seconds that the remaining work takes with these workers; None if unknown.
        start_s: seconds until a new worker is of use.
        base: workers that stay in any case: those of no kind that scales.
        unknown: names of units whose seconds and weight are not known yet.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    work_left_s: float | None = None
    start_s: float = START_S
    base: tuple[WorkerState, ...] = ()
    unknown: Collection[str] = ()


def desired_workers(
    units: Sequence[SchedulingUnit], shapes: Mapping[str, Shape], state: ClusterState = ClusterState()
) -> dict[str, int]:
    """Return the smallest number of workers of each kind that is as fast as the largest allowed cluster.

    While the rate of a unit is unknown, enough for one slot of each unit. Once no new worker could start in time, no
    more than there are, or than one slot of each unit takes. With nothing left to do, or if no number of workers is
    enough for one slot of each unit, the minimum of each kind.

    Kinds that are named first are preferred.

    Args:
        units: those of weight 0 need nothing.
        shapes: the resources of a worker of each kind, and the limits of their number.

    Examples:
        >>> shapes = {"cpu": Shape(maximum=8), "gpu": Shape(cpus=1, gpus=1, gpu_memory=80e9, max_slots=8, maximum=2)}
        >>> desired_workers([SchedulingUnit("read", seconds=1), SchedulingUnit("embed", gpus=1, seconds=2)], shapes)
        {'cpu': 1, 'gpu': 2}
        >>> desired_workers([SchedulingUnit("read", weight=0), SchedulingUnit("embed", gpus=1, weight=0)], shapes)
        {'cpu': 0, 'gpu': 0}
    """
    least = {kind: shape.minimum for kind, shape in shapes.items()}
    most = {kind: shape.maximum for kind, shape in shapes.items()}
    working = [unit for unit in units if unit.weight > 0 or unit.name in state.unknown]
    if not working:
        return least
    if any(unit.name in state.unknown for unit in working):
        return _one_each(working, shapes, state) or least
    best = solve(working, _hosts(shapes, most, state.base))
    if best is None:
        return least
    slots = {unit.name: _needed(unit, best.throughput) for unit in working}
    numbers = _fewest(working, slots, shapes, state) or most
    if state.work_left_s is not None and state.work_left_s <= state.start_s:
        present = {kind: min(number, state.numbers.get(kind, 0)) for kind, number in numbers.items()}
        one_each = _one_each(working, shapes, state) or numbers
        return {kind: max(number, one_each[kind]) for kind, number in present.items()}
    return numbers


def _one_each(
    units: Sequence[SchedulingUnit], shapes: Mapping[str, Shape], state: ClusterState
) -> dict[str, int] | None:
    return _fewest(units, dict.fromkeys((unit.name for unit in units), 1), shapes, state)


def workers_at(shapes: Mapping[str, Shape], numbers: Mapping[str, int]) -> list[WorkerState]:
    """Return the workers of a cluster with these numbers of each kind: a process for each GPU, or one for the CPUs.

    Examples:
        >>> workers_at({"gpu": Shape(cpus=4, gpus=1, gpu_memory=8e9, max_slots=2)}, {"gpu": 1})[0].gpus
        (('gpu-0/0', 8000000000.0),)
    """
    workers = []
    for kind, shape in shapes.items():
        for number in range(numbers.get(kind, 0)):
            name = f"{kind}-{number}"
            gpus = [(f"{name}/{gpu}", shape.gpu_memory) for gpu in range(shape.gpus)]
            for process in range(max(1, shape.gpus)):
                seen = (*gpus[process:], *gpus[:process])
                cpus = float(shape.cpus) if process == 0 else 0.0
                workers.append(
                    WorkerState(f"{name}/{process}", f"+{shape.host or name}", shape.max_slots, cpus, seen, kind)
                )
    return workers


def _hosts(shapes: Mapping[str, Shape], numbers: Mapping[str, int], base: Sequence[WorkerState]) -> list[Host]:
    """Return the hosts of such a cluster. Where CPU workers can start, GPU workers do not replace them."""
    # A process without threads or cores adds no capacity, but makes GPU workers serve GPU operators only.
    some = [] if all(shape.gpus for shape in shapes.values()) else [WorkerState("", "+", threads=0, cpus=0.0)]
    return hosts_of([*base, *workers_at(shapes, numbers), *some])


def _needed(unit: SchedulingUnit, throughput: float) -> int:
    """Slots with which a unit reaches a throughput."""
    slots = throughput * unit.seconds * unit.weight
    return max(1, math.ceil(slots * (1 - TOLERANCE))) if math.isfinite(slots) else 1


def _fewest(
    units: Sequence[SchedulingUnit], slots: Mapping[str, int], shapes: Mapping[str, Shape], state: ClusterState
) -> dict[str, int] | None:
    """Return the fewest workers with capacity for these numbers of slots; None if no number has."""
    pinned = [_pinned(unit, slots[unit.name]) for unit in units]
    numbers = {kind: shape.maximum for kind, shape in shapes.items()}
    if not _fits(pinned, slots, _hosts(shapes, numbers, state.base)):
        return None
    last_first = list(shapes)[::-1]
    # GPU workers first: those that stay may bring CPU cores along.
    for kind in sorted(last_first, key=lambda kind: not shapes[kind].gpus):
        low, high = _at_least(kind, pinned, shapes, numbers, state.base), numbers[kind]
        middle, step = low, 1
        while low < high:
            if _fits(pinned, slots, _hosts(shapes, {**numbers, kind: middle}, state.base)):
                high, step = middle, 0
            else:
                low, step = middle + 1, 2 * step
            # First a little above the least that there must be, which mostly is enough; then by halves.
            middle = min(low + step - 1, high - 1) if step else (low + high) // 2
        numbers[kind] = high
    return numbers


def _at_least(
    kind: str,
    units: Sequence[SchedulingUnit],
    shapes: Mapping[str, Shape],
    numbers: Mapping[str, int],
    base: Sequence[WorkerState],
) -> int:
    """A lower bound of the workers of a kind, counting each resource as one pool."""
    slots = {unit.name: unit.fixed or 0 for unit in units}
    other_hosts = _hosts(shapes, {**numbers, kind: 0}, base)
    worker_host = _hosts({kind: shapes[kind]}, {kind: 1}, ())[0]
    shortages = [
        (
            sum(unit.cpus * slots[unit.name] for unit in units) - sum(host.cpus for host in other_hosts),
            worker_host.cpus,
        ),
        (
            sum(slots[unit.name] for unit in units if not unit.on_gpu) - sum(host.max_slots for host in other_hosts),
            worker_host.max_slots,
        ),
        (
            sum(unit.gpus * slots[unit.name] for unit in units) - sum(len(host.gpus) for host in other_hosts),
            len(worker_host.gpus),
        ),
    ]
    needed = [math.ceil(shortage / brings - TOLERANCE) for shortage, brings in shortages if brings]
    return min(numbers[kind], shapes[kind].clamped(max([0, *needed])))


def _pinned(unit: SchedulingUnit, slots: int) -> SchedulingUnit:
    """The unit with exactly this number of slots, unless the user pinned it."""
    if unit.fixed is not None or unit.fixed_per_host is not None:
        return unit
    return replace(unit, fixed=slots, max_slots=None)


def _fits(units: Sequence[SchedulingUnit], slots: Mapping[str, int], allocation: Sequence[Host]) -> bool:
    solution = solve(units, allocation)
    if solution is None:
        return False
    counts = solution.counts
    return all(counts.get(unit.name, 0) >= slots[unit.name] for unit in units)
