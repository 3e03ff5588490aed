"""Solve the allocation: place slots so that source splits are processed as fast as the hosts allow. Pure.

For a throughput T each unit needs at least ``T * seconds * weight`` slots, and at least one. The greatest T is one at
which some unit has exactly what it needs. It is found by bisection, and then step by step beyond what the fast
heuristics reach, see `dcurate.engine.allocate.packer`.

A unit that is pinned per host gets its slots first, the largest such unit first of all, on every host that could hold
them if it were empty otherwise; no other limit counts for it. Where pinned slots leave no capacity for one slot of each
unit, they are reduced, for all pinned units in proportion. A unit of weight 0 gets no slots unless a number of them is
pinned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from dcurate.engine.allocate.allocation import (
    Allocation,
    Host,
    SchedulingUnit,
    SlotLocation,
    Solution,
    count_slots,
    throughput,
)
from dcurate.engine.allocate.incremental_packer import IncrementalPacker
from dcurate.engine.allocate.layouts import align_to_current, drop_surplus, host_classes, load_current, to_allocation
from dcurate.engine.allocate.model import Bin, Bins, Item, Layout, replace_hosts, total_slots
from dcurate.engine.allocate.packer import EFFORT, Packer

#: Numbers of slots within this share of an integer count as that integer.
TOLERANCE = 1e-9

#: Bisections of the range of throughputs, steps upwards from there, and failures in a row that end the search.
BISECTIONS, STEPS, MAX_REFUSALS = 60, 100, 4


def solve(
    units: Sequence[SchedulingUnit], hosts: Sequence[Host], current: Mapping[SlotLocation, int] | None = None
) -> Solution | None:
    """Return the allocation of the greatest throughput, with the fewest slots that give it.

    The result does not depend on the order of units and hosts.

    Args:
        units: with different names.
        hosts: with different names.
        current: current slots. Among allocations with the same throughput one is sought that keeps most of them in
            place, and none is worse than the current one. Unknown locations are ignored.

    Returns:
        None if one slot of each unit does not fit (see `explain_infeasible`).

    Examples:
        >>> from dcurate.engine.allocate.allocation import Gpu
        >>> units = [SchedulingUnit("read", seconds=0.25), SchedulingUnit("embed", gpus=0.5, seconds=1.0)]
        >>> solution = solve(units, [Host("a", cpus=8, gpus=(Gpu("gpu0"), Gpu("gpu1")))])
        >>> solution.counts, solution.throughput
        ({'read': 1, 'embed': 4}, 4.0)
    """
    problem = affordable(units, hosts)
    best = _from_scratch(problem)
    if best is None:
        return None
    if not current:
        return _solution(problem, to_allocation(best.layout, problem.units))
    return _solution(problem, _align(problem, best, current))


def solve_in_place(
    units: Sequence[SchedulingUnit], hosts: Sequence[Host], current: Mapping[SlotLocation, int]
) -> Solution | None:
    """Return the allocation of the greatest throughput that is possible without moving a slot.

    Slots are added where there is capacity. Slots of a unit that has more than it needs are dropped where others need
    their capacity, and only there; but those beyond a pin or limit go in any case.

    Args:
        current: current slots; unknown locations are ignored.

    Returns:
        None if some unit has no slot, and none can be given to it so.
    """
    problem = affordable(units, hosts)
    current_layout = problem.current_layout(current)
    allowed = drop_surplus(problem.bins, current_layout, problem.max_slots)
    if allowed != current_layout:
        current_layout = problem.current_layout(to_allocation(allowed, problem.units))
    incremental = IncrementalPacker(problem.bins, current_layout, EFFORT // 2)
    best = _solve_in_place(problem, incremental, keep_pins=False)
    if best is None and any(unit.fixed for unit in problem.units):
        best = _solve_in_place(problem, incremental, keep_pins=True)
    return None if best is None else _solution(problem, to_allocation(best.layout, problem.units))


def add_slack(
    units: Sequence[SchedulingUnit],
    hosts: Sequence[Host],
    allocation: Mapping[SlotLocation, int],
    slack: float,
    only: Collection[str],
) -> Allocation:
    """Add slots where there is capacity left, so that units that are just fast enough do not delay others.

    The next slot always goes to the unit with the least slack. Nothing is moved or dropped.

    Args:
        slack: units get more only while they are below the throughput of ``allocation`` times this.
        only: names of the units that may get more; pinned units do not.

    Examples:
        >>> units = [SchedulingUnit("read", seconds=1.0), SchedulingUnit("embed", seconds=2.0, max_slots=2)]
        >>> before = {SlotLocation("a", "read"): 1, SlotLocation("a", "embed"): 2}
        >>> add_slack(units, [Host("a", cpus=8)], before, 1.5, ["read", "embed"])[SlotLocation("a", "read")]
        2
    """
    problem = Problem(units, hosts)
    bins, work = problem.bins, problem.work
    before = layout = load_current(bins, problem.units, problem.host_classes, allocation)
    counts = total_slots(layout, len(problem.units))
    enough = slack * problem.reached(counts)
    growing = {
        index
        for index, unit in enumerate(problem.units)
        if unit.name in only and work[index] > 0 and unit.fixed is None and unit.fixed_per_host is None
    }
    layout = dict(layout)
    while growing:
        index = min(growing, key=lambda index: (counts[index] / work[index], index))
        item, max_slots = bins.items[index], problem.max_slots[index]
        able = [one for one in layout if bins.fits(one, item)]
        if not able or counts[index] / work[index] >= enough or counts[index] == max_slots:
            growing.remove(index)
            continue
        one = min(able, key=lambda one: (one.free_gpu, one.cpus, one.host_class.number))
        replace_hosts(layout, one, bins.place(one, item, 1))
        counts[index] += 1
    with_slots = to_allocation(layout, problem.units)
    with_slots.subtract(to_allocation(before, problem.units))
    return Counter(allocation) + with_slots


class _Packed(NamedTuple):
    """Slots of each unit besides those pinned per host, the throughput, and the layout."""

    throughput: float
    need: list[int]
    layout: Layout


def _from_scratch(problem: Problem) -> _Packed | None:
    """The greatest throughput that is found on empty hosts."""
    packer = Packer(problem.bins, problem.start)
    need = problem.need(0.0)
    layout = packer.pack_exhaustively(need)[0] if need is not None else None
    if need is None or layout is None:
        return None
    first = _Packed(problem.reached(problem.counts(need)), need, layout)

    def hard(need: Sequence[int]) -> tuple[Layout | None, bool]:
        packed, certain = packer.pack_exhaustively(need)
        return packed, certain or packer.effort <= 0

    return _maximize(problem, first, packer.pack, hard)


def _solve_in_place(problem: Problem, incremental: IncrementalPacker, keep_pins: bool) -> _Packed | None:
    """The greatest throughput that is found without moving slots.

    Args:
        keep_pins: whether a pinned unit keeps the slots that it has, even if they are fewer than pinned.
    """
    content = [
        pin is not None or (keep_pins and bool(unit.fixed and current_slots))
        for unit, pin, current_slots in zip(problem.units, problem.pinned, incremental.counts, strict=True)
    ]

    def wanted(need: Sequence[int]) -> list[int]:
        units = zip(need, incremental.counts, content, strict=True)
        return [current_slots if is_content else slots for slots, current_slots, is_content in units]

    def hard(need: Sequence[int]) -> tuple[Layout | None, bool]:
        return incremental.grow_to(wanted(need), hard=True), incremental.packer.effort <= 0

    reached = problem.reached(incremental.counts)
    need = problem.need(reached if reached < float("inf") else 0.0)
    layout = incremental.grow_to(wanted(need), hard=True) if need is not None else None
    if need is None or layout is None:
        return None
    first = _Packed(problem.reached(wanted(need)), need, layout)
    return _maximize(problem, first, lambda need: incremental.grow_to(wanted(need)), hard)


def _maximize(
    problem: Problem,
    best: _Packed,
    simple: Callable[[Sequence[int]], Layout | None],
    hard: Callable[[Sequence[int]], tuple[Layout | None, bool]],
) -> _Packed:
    """The greatest throughput from a first answer upwards.

    Args:
        simple: packs slots, if it is easy.
        hard: packs slots, if it can; also returns whether asking for more is pointless if it cannot.
    """
    ceiling = high = problem.bound * (1 + TOLERANCE)
    for _ in range(BISECTIONS):
        above = problem.above(best.throughput)
        if above is None or above >= high:
            break
        middle = max(above, (best.throughput + high) / 2)
        need = problem.need(middle)
        layout = simple(need) if need is not None else None
        if need is None or layout is None:
            high = middle
        else:
            best = _Packed(problem.reached(problem.counts(need)), need, layout)
    refusals, tried, stride = 0, best.throughput, 0.0
    for _ in range(STEPS):
        above = problem.above(tried)
        if above is None or above > ceiling or refusals == MAX_REFUSALS:
            break
        aim = best.throughput + stride
        need = problem.need(aim) if above < aim <= ceiling else None
        if need is None:
            aim, need, stride = above, problem.need(above) or [], 0.0
        layout, pointless = hard(need)
        if layout is not None:
            reached = problem.reached(problem.counts(need))
            stride = 2 * (reached - best.throughput)
            best, tried, refusals = _Packed(reached, need, layout), reached, 0
        elif stride:
            stride = 0.0
        elif pointless:
            break
        else:
            tried, refusals = above, refusals + 1
    return best


def _align(problem: Problem, best: _Packed, current: Mapping[SlotLocation, int]) -> Allocation:
    """The best answer, or the current slots if they are better, so that most of them can stay."""
    units, bins = problem.units, problem.bins
    current_layout = problem.current_layout(current)
    incremental = IncrementalPacker(bins, current_layout, EFFORT // 4)
    elsewhere = align_to_current(units, best.layout, current_layout)
    if any(
        pin not in (None, current_slots) for pin, current_slots in zip(problem.pinned, incremental.counts, strict=True)
    ):
        return elsewhere
    reached, need = problem.reached(incremental.counts), best.need
    if best.throughput * (1 + TOLERANCE) < reached < float("inf"):
        better = problem.need(reached)
        if better is not None and incremental.grow_to(problem.counts(better)) is not None:
            need = better
    wanted = problem.counts(need)
    layout, missing = incremental.closest_to(wanted, hard=True)
    layout = drop_surplus(bins, layout, wanted)
    if not any(missing):
        return to_allocation(layout, units)
    answers = [elsewhere]
    shifted = incremental.relocate(layout, missing, [pin is not None for pin in problem.pinned])
    if shifted is not None:
        answers.append(to_allocation(shifted, units))
    starts = {one.host_class.resources: one.host_class for one in problem.start}
    movable: Layout = {}
    for one, hosts in layout.items():
        free = bins.make(starts[one.host_class.resources], *one.state[1:])
        movable[free] = movable.get(free, 0) + hosts
    repaired = Packer(bins, problem.start, EFFORT // 4).repair(movable, missing, max_missing=64)
    if repaired is not None:
        answers.append(align_to_current(units, repaired, current_layout))
    return max(
        answers, key=lambda allocation: sum(min(slots, allocation[location]) for location, slots in current.items())
    )


def _solution(problem: Problem, allocation: Allocation) -> Solution:
    counts = count_slots(allocation)
    return Solution(allocation, throughput(problem.units, counts), problem.bound)


# The problem


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
        for one, hosts in load_current(self.bins, self.units, self.host_classes, current).items():
            pins, new = self.pins_on(one), one
            for index, unit in enumerate(self.units):
                if unit.fixed_per_host is None:
                    continue
                item, shortage = self.bins.items[index], pins.get(index, 0) - one.slots().get(index, 0)
                for group in one.groups() if shortage < 0 else ():
                    if group.unit == index and shortage < 0:
                        new = self.bins.put(new, item, group.gpus, -min(group.slots, -shortage))
                        shortage += min(group.slots, -shortage)
                if shortage > self.bins.fits(new, item):
                    new = self._without_idle(new)
                if shortage > 0 and (fits := min(shortage, self.bins.fits(new, item))):
                    new = self.bins.place(new, item, fits)
            layout[new] = hosts
        return layout

    def _without_idle(self, one: Bin) -> Bin:
        """Remove slots of units that have nothing to do."""
        for group in one.groups():
            if not self.units[group.unit].weight:
                one = self.bins.put(one, self.bins.items[group.unit], group.gpus, -group.slots)
        return one

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
        (sum(one.cpus * count for one, count in hosts), lambda item: item.cpus),
        (sum(one.free_slots * count for one, count in hosts), lambda item: int(not item.on_gpu)),
        (sum(gpu.share * count for one, count in hosts for gpu in one.gpus), lambda item: item.gpu_total),
        (sum(gpu.free_slots * count for one, count in hosts for gpu in one.gpus), lambda item: int(item.on_gpu)),
        (
            sum(gpu.memory * count for one, count in hosts for gpu in one.gpus),
            lambda item: item.memory * max(item.num_gpus, 1),
        ),
    ]


def _pool_bound(problem: Problem, size: float, taken: Sequence[int]) -> float:
    """The throughput at which a resource is used up, where each unit that is not pinned has at least one slot."""
    rising = []
    for unit, work, max_slots, one in zip(problem.units, problem.work, problem.max_slots, taken, strict=True):
        if unit.fixed is not None or unit.fixed_per_host is not None:
            size -= (max_slots or 0) * one
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
