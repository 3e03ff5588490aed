"""How many workers of each kind the flow wants, of a cluster that could have more or fewer. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.allocation import Host, SchedulingUnit
from dcurate.engine.allocate.requests import WorkerState, hosts_of
from dcurate.engine.allocate.solve import solve

#: How long a worker takes to come and be of use, in seconds, where nothing better is known.
START_S = 30.0
#: Slots that a fraction of this asks for beyond a whole number are not needed.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class ClusterState:
    """What there is now, and what is left to do.

    Args:
        numbers: workers of each kind that there are, or that were asked for.
        work_left_s: how long what is left would take with these workers, in seconds; None where it is not known.
        start_s: how long a worker takes to come and be of use, in seconds.
        base: workers that stay whatever is wanted: those of no kind that can come and go.
        unknown: names of units whose seconds and weight mean nothing yet.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    work_left_s: float | None = None
    start_s: float = START_S
    base: tuple[WorkerState, ...] = ()
    unknown: Collection[str] = ()


def desired_workers(
    units: Sequence[SchedulingUnit], shapes: Mapping[str, Shape], standing: ClusterState = ClusterState()
) -> dict[str, int]:
    """How many workers of each kind the flow wants: the fewest that are as fast as all that there may be.

    While the rate of a unit is not known, enough for one slot of each unit. Once no worker that is asked for could
    come in time, no more than there are, or than one slot of each unit takes. With nothing left to do, or if no
    number of workers is enough for one slot of each unit, the minimum of each kind.

    Where workers of several kinds would do, those of the kinds named first are wanted.

    Args:
        units: what is given slots; those of weight 0 want nothing.
        shapes: what workers of each kind bring, and how many there may be.

    Examples:
        >>> shapes = {"cpu": Shape(maximum=8), "gpu": Shape(cpus=1, cards=1, card_memory=80e9, seats=8, maximum=2)}
        >>> desired_workers([SchedulingUnit("read", seconds=1), SchedulingUnit("embed", gpus=1, seconds=2)], shapes)
        {'cpu': 1, 'gpu': 2}
        >>> desired_workers([SchedulingUnit("read", weight=0), SchedulingUnit("embed", gpus=1, weight=0)], shapes)
        {'cpu': 0, 'gpu': 0}
    """
    least = {kind: shape.minimum for kind, shape in shapes.items()}
    most = {kind: shape.maximum for kind, shape in shapes.items()}
    working = [unit for unit in units if unit.weight > 0 or unit.name in standing.unknown]
    if not working:
        return least
    if any(unit.name in standing.unknown for unit in working):
        return _one_each(working, shapes, standing) or least
    best = solve(working, _hosts(shapes, most, standing.base))
    if best is None:
        return least
    slots = {unit.name: _needed(unit, best.throughput) for unit in working}
    numbers = _fewest(working, slots, shapes, standing) or most
    if standing.work_left_s is not None and standing.work_left_s <= standing.start_s:
        there = {kind: min(number, standing.numbers.get(kind, 0)) for kind, number in numbers.items()}
        one_each = _one_each(working, shapes, standing) or numbers
        return {kind: max(number, one_each[kind]) for kind, number in there.items()}
    return numbers


def _one_each(
    units: Sequence[SchedulingUnit], shapes: Mapping[str, Shape], standing: ClusterState
) -> dict[str, int] | None:
    return _fewest(units, dict.fromkeys((unit.name for unit in units), 1), shapes, standing)


def workers_at(shapes: Mapping[str, Shape], numbers: Mapping[str, int]) -> list[WorkerState]:
    """The workers that there would be with so many of each kind: a process for each GPU, or one for the CPUs.

    Examples:
        >>> workers_at({"gpu": Shape(cpus=4, cards=1, card_memory=8e9, seats=2)}, {"gpu": 1})[0].cards
        (('gpu-0/0', 8000000000.0),)
    """
    found = []
    for kind, shape in shapes.items():
        for number in range(numbers.get(kind, 0)):
            name = f"{kind}-{number}"
            cards = [(f"{name}/{card}", shape.card_memory) for card in range(shape.cards)]
            for own in range(max(1, shape.cards)):
                seen = (*cards[own:], *cards[:own])
                cpus = float(shape.cpus) if own == 0 else 0.0
                found.append(WorkerState(f"{name}/{own}", f"+{shape.host or name}", shape.seats, cpus, seen, kind))
    return found


def _hosts(shapes: Mapping[str, Shape], numbers: Mapping[str, int], base: Sequence[WorkerState]) -> list[Host]:
    """The hosts that there would be. Where CPU workers can come, GPU workers do not stand in for them."""
    # A process without threads or cores gives no room; that it is there tells GPU workers from CPU workers.
    some = [] if all(shape.cards for shape in shapes.values()) else [WorkerState("", "+", threads=0, cpus=0.0)]
    return hosts_of([*base, *workers_at(shapes, numbers), *some])


def _needed(unit: SchedulingUnit, throughput: float) -> int:
    """Slots with which a unit follows the flow."""
    slots = throughput * unit.seconds * unit.weight
    return max(1, math.ceil(slots * (1 - TOLERANCE))) if math.isfinite(slots) else 1


def _fewest(
    units: Sequence[SchedulingUnit], slots: Mapping[str, int], shapes: Mapping[str, Shape], standing: ClusterState
) -> dict[str, int] | None:
    """The fewest workers that have room for so many slots of each unit; None if no number has."""
    pinned = [_pinned(unit, slots[unit.name]) for unit in units]
    numbers = {kind: shape.maximum for kind, shape in shapes.items()}
    if not _room(pinned, slots, _hosts(shapes, numbers, standing.base)):
        return None
    last_first = list(shapes)[::-1]
    # GPU workers first: those that stay may bring CPU cores along.
    for kind in sorted(last_first, key=lambda kind: not shapes[kind].cards):
        low, high = _at_least(kind, pinned, shapes, numbers, standing.base), numbers[kind]
        middle, step = low, 1
        while low < high:
            if _room(pinned, slots, _hosts(shapes, {**numbers, kind: middle}, standing.base)):
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
    """A number of workers of a kind below which there cannot be room, counting each resource as one pool."""
    slots = {unit.name: unit.fixed or 0 for unit in units}
    rest = _hosts(shapes, {**numbers, kind: 0}, base)
    one = _hosts({kind: shapes[kind]}, {kind: 1}, ())[0]
    lacking = [
        (sum(unit.cpus * slots[unit.name] for unit in units) - sum(host.cpus for host in rest), one.cpus),
        (sum(slots[unit.name] for unit in units if not unit.on_gpu) - sum(host.seats for host in rest), one.seats),
        (sum(unit.gpus * slots[unit.name] for unit in units) - sum(len(host.cards) for host in rest), len(one.cards)),
    ]
    needed = [math.ceil(lack / brings - TOLERANCE) for lack, brings in lacking if brings]
    return min(numbers[kind], shapes[kind].clamped(max([0, *needed])))


def _pinned(unit: SchedulingUnit, slots: int) -> SchedulingUnit:
    """The unit, with just so many slots, if a person did not say how many."""
    if unit.fixed is not None or unit.fixed_per_host is not None:
        return unit
    return replace(unit, fixed=slots, most=None)


def _room(units: Sequence[SchedulingUnit], slots: Mapping[str, int], places: Sequence[Host]) -> bool:
    solution = solve(units, places)
    if solution is None:
        return False
    counts = solution.counts
    return all(counts.get(unit.name, 0) >= slots[unit.name] for unit in units)
