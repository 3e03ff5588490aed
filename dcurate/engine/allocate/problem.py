"""The allocation problem: units, hosts and pinned slots, what a throughput needs, and its upper bound. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from dcurate.engine.allocate.allocation import Host, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.layouts import host_classes, load_current
from dcurate.engine.allocate.model import Bin, Bins, Item, Layout, total_slots
from dcurate.engine.allocate.packer import EFFORT, Packer

#: Numbers of slots within this share of an integer count as that integer.
TOLERANCE = 1e-9


class Problem:
    """Units and hosts in an order that does not depend on that of the arguments.

    Attributes:
        units: in this order; ``bins.items`` are theirs.
        start: empty hosts, except for the slots that are pinned per host.
        pinned: how many these are together; None for units that are not pinned per host.
        max_slots: the largest number of slots of each unit; None without a limit.
    """

    def __init__(self, units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> None:
        self.units = sorted(units, key=_unit_order)
        self.host_classes = host_classes(hosts)
        self.bins = Bins(self.units)
        self.work = [unit.seconds * unit.weight for unit in self.units]
        self.start: Layout = {}
        for host_class in self.host_classes:
            self.start[self.with_pins(self.bins.empty(host_class))] = len(host_class.hosts)
        placed = total_slots(self.start, len(self.units))
        pins = [unit.fixed_per_host is not None for unit in self.units]
        self.pinned = [slots if pin else None for slots, pin in zip(placed, pins, strict=True)]
        self.max_slots = [
            pinned if pinned is not None else unit.fixed if unit.fixed is not None else unit.max_slots
            for unit, pinned in zip(self.units, self.pinned, strict=True)
        ]

    def with_pins(self, one: Bin) -> Bin:
        """Add the slots that are pinned per host to an empty host, where they fit."""
        for index, wanted in self.pins_on(one).items():
            one = self.bins.place(one, self.bins.items[index], wanted)
        return one

    def pins_on(self, one: Bin) -> dict[int, int]:
        """Slots by item that are pinned to a host of this class."""
        pins = {}
        empty = self.bins.empty(one.host_class)
        for unit, item in sorted(zip(self.units, self.bins.items, strict=True), key=lambda pair: _size(pair[0])):
            if unit.fixed_per_host and self.bins.fits(empty, item) >= unit.fixed_per_host:
                pins[item.unit] = unit.fixed_per_host
                empty = self.bins.place(empty, item, unit.fixed_per_host)
        return pins

    def current_layout(self, current: Mapping[SlotLocation, int]) -> Layout:
        """Return the current slots, with the slots pinned per host that fit beside the rest.

        Slots that have nothing to do are dropped where they are in the way.
        """
        layout: Layout = {}
        for host_bin, hosts in load_current(self.bins, self.units, self.host_classes, current).items():
            pins, new = self.pins_on(host_bin), host_bin
            for index, unit in enumerate(self.units):
                if unit.fixed_per_host is None:
                    continue
                item, shortage = self.bins.items[index], pins.get(index, 0) - host_bin.slots().get(index, 0)
                for group in host_bin.groups() if shortage < 0 else ():
                    if group.unit == index and shortage < 0:
                        new = self.bins.put(new, item, group.gpus, -min(group.slots, -shortage))
                        shortage += min(group.slots, -shortage)
                if shortage > self.bins.fits(new, item):
                    new = self._without_idle(new)
                if shortage > 0 and (fits := min(shortage, self.bins.fits(new, item))):
                    new = self.bins.place(new, item, fits)
            layout[new] = hosts
        return layout

    def _without_idle(self, host_bin: Bin) -> Bin:
        """Remove slots of units that have nothing to do."""
        for group in host_bin.groups():
            if not self.units[group.unit].weight:
                host_bin = self.bins.put(host_bin, self.bins.items[group.unit], group.gpus, -group.slots)
        return host_bin

    # What a throughput needs

    def need(self, throughput: float) -> list[int] | None:
        """The slots of each unit besides those pinned per host; None if limits forbid as many."""
        need = []
        for unit, work, pinned, max_slots in zip(self.units, self.work, self.pinned, self.max_slots, strict=True):
            slots = max(int(unit.weight > 0), -floor(-throughput * work))
            if max_slots is not None and slots > max_slots:
                return None
            need.append(0 if pinned is not None else slots if unit.fixed is None else unit.fixed)
        return need

    @cached_property
    def bound(self) -> float:
        """See the function of this name."""
        layout = {self.bins.empty(host_class): len(host_class.hosts) for host_class in self.host_classes}
        limits = [
            max_slots / work
            for max_slots, work in zip(self.max_slots, self.work, strict=True)
            if max_slots is not None and work > 0
        ]
        pools = [(size, [taken(item) for item in self.bins.items]) for size, taken in _pools(layout)]
        return min([*limits, *(_pool_bound(self, size, taken) for size, taken in pools)])

    def counts(self, need: Sequence[int]) -> list[int]:
        """Add the slots pinned per host."""
        return [slots if pinned is None else pinned for slots, pinned in zip(need, self.pinned, strict=True)]

    def reached(self, counts: Sequence[int]) -> float:
        """The throughput of these numbers of slots, within the limits; infinite if nothing has work."""
        rates = (
            min(slots, slots if max_slots is None else max_slots) / work
            for slots, work, max_slots in zip(counts, self.work, self.max_slots, strict=True)
            if work > 0
        )
        return min(rates, default=math.inf)

    def above(self, throughput: float) -> float | None:
        """The next greater throughput at which some unit has exactly what it needs; None if limits forbid it."""
        above = min(((floor(throughput * work) + 1) / work for work in self.work if work > 0), default=None)
        return above if above is not None and self.need(above) is not None else None


def affordable(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> Problem:
    """The problem with as many pinned slots as leave capacity for one slot of each unit."""
    problem = Problem(units, hosts)
    max_slots = max((pin or 0 for unit in units for pin in (unit.fixed, unit.fixed_per_host)), default=0)
    if all(minimal(unit) == unit for unit in units) or _fits(problem):
        return problem
    best, low, high = Problem([minimal(unit) for unit in units], hosts), 0, max_slots
    while high - low > 1:
        middle = (low + high) // 2
        problem = Problem([_scaled(unit, middle, max_slots) for unit in units], hosts)
        if _fits(problem):
            best, low = problem, middle
        else:
            high = middle
    return best


def minimal(unit: SchedulingUnit) -> SchedulingUnit:
    """The unit with the fewest pinned slots: one, or none per host if it has no work."""
    if unit.fixed_per_host:
        return replace(unit, fixed=1 if unit.weight > 0 else None, fixed_per_host=None)
    return replace(unit, fixed=1) if unit.fixed else unit


def _fits(problem: Problem) -> bool:
    need = problem.need(0.0)
    packer = Packer(problem.bins, problem.start, EFFORT // 10)
    return need is not None and packer.pack_exhaustively(need)[0] is not None


def _scaled(unit: SchedulingUnit, part: int, largest: int) -> SchedulingUnit:
    """Scale the number of pinned slots, to at least one."""

    def scaled(pin: int | None) -> int | None:
        return max(1, pin * part // largest) if pin else pin

    return replace(unit, fixed=scaled(unit.fixed), fixed_per_host=scaled(unit.fixed_per_host))


def floor(slots: float) -> int:
    """The greatest integer that is not above, within a tolerance.

    Examples:
        >>> floor(2.9), floor(3 - 1e-12), floor(-2.1)
        (2, 3, -3)
    """
    near = round(slots)
    return near if abs(slots - near) <= TOLERANCE * max(1.0, abs(slots)) else math.floor(slots)


def _size(unit: SchedulingUnit) -> tuple[object, ...]:
    """Sort units by the size of a slot, the largest first, regardless of their rates."""
    return (not unit.on_gpu, -unit.gpus, -unit.gpu_memory, -unit.cpus, -(unit.fixed_per_host or 0), unit.name)


def _unit_order(unit: SchedulingUnit) -> tuple[object, ...]:
    limits = [-1 if limit is None else limit for limit in (unit.fixed, unit.fixed_per_host, unit.max_slots)]
    work = unit.seconds * unit.weight
    return (unit.on_gpu, unit.gpus, unit.gpu_memory, unit.cpus, work, unit.weight > 0, *limits, unit.name)


def bound(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> float:
    """An upper bound of the throughput: slots may be divided, and there is one pool of each resource.

    Returns:
        Source splits a second; 0 if not even one slot of each unit fits into the pools, infinite if nothing has work.

    Examples:
        >>> units = [SchedulingUnit("read", seconds=0.5), SchedulingUnit("write", seconds=0.25)]
        >>> bound(units, [Host("a", cpus=2), Host("b", cpus=1)])
        4.0
    """
    return affordable(units, hosts).bound


def _pools(layout: Layout) -> list[tuple[int, Callable[[Item], int]]]:
    """The total of each resource, and what a slot takes of it."""
    hosts = list(layout.items())
    return [
        (sum(host_bin.cpus * count for host_bin, count in hosts), lambda item: item.cpus),
        (sum(host_bin.free_slots * count for host_bin, count in hosts), lambda item: int(not item.on_gpu)),
        (sum(gpu.share * count for host_bin, count in hosts for gpu in host_bin.gpus), lambda item: item.gpu_total),
        (
            sum(gpu.free_slots * count for host_bin, count in hosts for gpu in host_bin.gpus),
            lambda item: int(item.on_gpu),
        ),
        (
            sum(gpu.memory * count for host_bin, count in hosts for gpu in host_bin.gpus),
            lambda item: item.memory * max(item.num_gpus, 1),
        ),
    ]


def _pool_bound(problem: Problem, size: float, taken: Sequence[int]) -> float:
    """The throughput at which a resource is used up, where each unit that is not pinned has at least one slot."""
    rising = []
    for unit, work, max_slots, per_slot in zip(problem.units, problem.work, problem.max_slots, taken, strict=True):
        if unit.fixed is not None or unit.fixed_per_host is not None:
            size -= (max_slots or 0) * per_slot
        elif unit.weight > 0:
            size -= per_slot
            rising.append((1 / work if work > 0 else math.inf, per_slot))
    if size < 0:
        return 0.0
    slope = 0.0
    for begin, per_slot in sorted(rising):
        if slope and size / slope <= begin:
            break
        size += per_slot
        slope += per_slot / begin
    return size / slope if slope else math.inf
