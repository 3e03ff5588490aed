"""Units and hosts as the balancer works on them: what a throughput needs, and what none can exceed. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from dcurate.engine.allocate.allocation import Host, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.current_state import spots, stand, without
from dcurate.engine.allocate.packing import Bin, Bins, Item, Layout, models, total
from dcurate.engine.allocate.search import EFFORT, Packer

#: Slots are counted as whole if they miss that by this share.
CLOSE = 1e-9


class Problem:
    """What is to be packed where, in an order that does not depend on that of units and hosts.

    Attributes:
        units: in this order; ``bins.items`` are theirs.
        start: empty hosts, but for the slots that are pinned to each host.
        pinned: how many these are together; None for units that are not pinned so.
        most: no more slots of each unit than this; None if there is no such limit.
    """

    def __init__(self, units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> None:
        self.units = sorted(units, key=_sort_key)
        self.models = models(hosts)
        self.bins = Bins(self.units)
        self.work = [unit.seconds * unit.weight for unit in self.units]
        self.start: Layout = {}
        for model in self.models:
            self.start[self.with_pins(self.bins.empty(model))] = len(model.members)
        placed = total(self.start, len(self.units))
        pins = [unit.fixed_per_host is not None for unit in self.units]
        self.pinned = [slots if pin else None for slots, pin in zip(placed, pins, strict=True)]
        self.most = [
            pinned if pinned is not None else unit.fixed if unit.fixed is not None else unit.most
            for unit, pinned in zip(self.units, self.pinned, strict=True)
        ]

    def with_pins(self, one: Bin) -> Bin:
        """An empty host with the slots that are pinned to each host and for which it has room."""
        for index, wanted in self.pins_on(one).items():
            one = self.bins.after(one, self.bins.items[index], wanted)
        return one

    def pins_on(self, one: Bin) -> dict[int, int]:
        """Slots by item that are pinned to a host of this model."""
        pins = {}
        empty = self.bins.empty(one.model)
        for unit, item in sorted(zip(self.units, self.bins.items, strict=True), key=lambda pair: _size(pair[0])):
            if unit.fixed_per_host and self.bins.room(empty, item) >= unit.fixed_per_host:
                pins[item.unit] = unit.fixed_per_host
                empty = self.bins.after(empty, item, unit.fixed_per_host)
        return pins

    def standing(self, current: Mapping[SlotLocation, int]) -> Layout:
        """What stands, and of what is pinned to each host so many, as far as there is room beside the rest.

        Slots that have nothing to do go where they are in the way.
        """
        layout: Layout = {}
        for one, hosts in stand(self.bins, self.units, self.models, current).items():
            pins, new = self.pins_on(one), one
            for index, unit in enumerate(self.units):
                if unit.fixed_per_host is None:
                    continue
                item, lack = self.bins.items[index], pins.get(index, 0) - one.slots().get(index, 0)
                for spot in spots(one) if lack < 0 else ():
                    if spot.unit == index and lack < 0:
                        new = without(self.bins, new, spot, min(spot.slots, -lack))
                        lack += min(spot.slots, -lack)
                if lack > self.bins.room(new, item):
                    new = self._without_idle(new)
                if lack > 0 and (fits := min(lack, self.bins.room(new, item))):
                    new = self.bins.after(new, item, fits)
            layout[new] = hosts
        return layout

    def _without_idle(self, one: Bin) -> Bin:
        """Without slots of units that have nothing to do."""
        for spot in spots(one):
            if not self.units[spot.unit].weight:
                one = without(self.bins, one, spot, spot.slots)
        return one

    # What a throughput needs

    def need(self, throughput: float) -> list[int] | None:
        """The slots of each unit beside those on every host; None if limits forbid as many."""
        need = []
        for unit, work, pinned, most in zip(self.units, self.work, self.pinned, self.most, strict=True):
            slots = max(int(unit.weight > 0), -floor(-throughput * work))
            if most is not None and slots > most:
                return None
            need.append(0 if pinned is not None else slots if unit.fixed is None else unit.fixed)
        return need

    @cached_property
    def bound(self) -> float:
        """See the function of this name."""
        layout = {self.bins.empty(model): len(model.members) for model in self.models}
        limits = [most / work for most, work in zip(self.most, self.work, strict=True) if most is not None and work > 0]
        pools = [(size, [taken(item) for item in self.bins.items]) for size, taken in _pools(layout)]
        return min([*limits, *(_pool_bound(self, size, taken) for size, taken in pools)])

    def counts(self, need: Sequence[int]) -> list[int]:
        """With the slots on every host."""
        return [slots if pinned is None else pinned for slots, pinned in zip(need, self.pinned, strict=True)]

    def reached(self, counts: Sequence[int]) -> float:
        """The throughput that so many slots give, within the limits; infinite if nothing has work."""
        rates = (
            min(slots, slots if most is None else most) / work
            for slots, work, most in zip(counts, self.work, self.most, strict=True)
            if work > 0
        )
        return min(rates, default=math.inf)

    def above(self, throughput: float) -> float | None:
        """The next greater throughput at which some unit has exactly what it needs; None if limits forbid it."""
        above = min(((floor(throughput * work) + 1) / work for work in self.work if work > 0), default=None)
        return above if above is not None and self.need(above) is not None else None


def afforded(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> Problem:
    """The problem with as many slots of those that are pinned as leave room for one slot of each unit."""
    problem = Problem(units, hosts)
    most = max((pin or 0 for unit in units for pin in (unit.fixed, unit.fixed_per_host)), default=0)
    if all(with_least(unit) == unit for unit in units) or _fits(problem):
        return problem
    best, low, high = Problem([with_least(unit) for unit in units], hosts), 0, most
    while high - low > 1:
        middle = (low + high) // 2
        problem = Problem([_scaled(unit, middle, most) for unit in units], hosts)
        if _fits(problem):
            best, low = problem, middle
        else:
            high = middle
    return best


def with_least(unit: SchedulingUnit) -> SchedulingUnit:
    """A unit as it is if pinned slots have to give way: with one slot, or none if it has no work on any host."""
    if unit.fixed_per_host:
        return replace(unit, fixed=1 if unit.weight > 0 else None, fixed_per_host=None)
    return replace(unit, fixed=1) if unit.fixed else unit


def _fits(problem: Problem) -> bool:
    need = problem.need(0.0)
    packer = Packer(problem.bins, problem.start, EFFORT // 10)
    return need is not None and packer.pack_hard(need)[0] is not None


def _scaled(unit: SchedulingUnit, part: int, whole: int) -> SchedulingUnit:
    """With a part of the slots that are pinned, but at least one."""

    def scaled(pin: int | None) -> int | None:
        return max(1, pin * part // whole) if pin else pin

    return replace(unit, fixed=scaled(unit.fixed), fixed_per_host=scaled(unit.fixed_per_host))


def floor(slots: float) -> int:
    """The greatest whole number that is not above, or hardly.

    Examples:
        >>> floor(2.9), floor(3 - 1e-12), floor(-2.1)
        (2, 3, -3)
    """
    near = round(slots)
    return near if abs(slots - near) <= CLOSE * max(1.0, abs(slots)) else math.floor(slots)


def _size(unit: SchedulingUnit) -> tuple[object, ...]:
    """Sorts units by what they take, the largest first, whatever their rates."""
    return (not unit.on_gpu, -unit.gpus, -unit.gpu_memory, -unit.cpus, -(unit.fixed_per_host or 0), unit.name)


def _sort_key(unit: SchedulingUnit) -> tuple[object, ...]:
    limits = [-1 if limit is None else limit for limit in (unit.fixed, unit.fixed_per_host, unit.most)]
    work = unit.seconds * unit.weight
    return (unit.on_gpu, unit.gpus, unit.gpu_memory, unit.cpus, work, unit.weight > 0, *limits, unit.name)


def bound(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> float:
    """The throughput that no allocation exceeds: slots may be divided, and there is one pool of each resource.

    Returns:
        Source splits a second; 0 if not even one slot of each unit fits into the pools, infinite if nothing has work.

    Examples:
        >>> units = [SchedulingUnit("read", seconds=0.5), SchedulingUnit("write", seconds=0.25)]
        >>> bound(units, [Host("a", cpus=2), Host("b", cpus=1)])
        4.0
    """
    return afforded(units, hosts).bound


def _pools(layout: Layout) -> list[tuple[int, Callable[[Item], int]]]:
    """How much there is of each resource, and what a slot takes of it."""
    hosts = list(layout.items())
    return [
        (sum(one.cpus * count for one, count in hosts), lambda item: item.cpus),
        (sum(one.seats * count for one, count in hosts), lambda item: int(not item.on_card)),
        (sum(card.share * count for one, count in hosts for card in one.cards), lambda item: item.gpu),
        (sum(card.seats * count for one, count in hosts for card in one.cards), lambda item: int(item.on_card)),
        (
            sum(card.memory * count for one, count in hosts for card in one.cards),
            lambda item: item.memory * max(item.wide, 1),
        ),
    ]


def _pool_bound(problem: Problem, size: float, taken: Sequence[int]) -> float:
    """The throughput at which a resource is used up, where each unit that is not pinned has one slot at least."""
    rising = []
    for unit, work, most, one in zip(problem.units, problem.work, problem.most, taken, strict=True):
        if unit.fixed is not None or unit.fixed_per_host is not None:
            size -= (most or 0) * one
        elif unit.weight > 0:
            size -= one
            rising.append((1 / work if work > 0 else math.inf, one))
    if size < 0:
        return 0.0
    slope = 0.0
    for begin, one in sorted(rising):
        if slope and size / slope <= begin:
            break
        size += one
        slope += one / begin
    return size / slope if slope else math.inf
