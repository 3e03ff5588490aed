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

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
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
from dcurate.engine.allocate.layouts import align_to_current, drop_surplus, load_current, to_allocation
from dcurate.engine.allocate.model import Layout, replace_hosts, total_slots
from dcurate.engine.allocate.packer import EFFORT, Packer
from dcurate.engine.allocate.problem import TOLERANCE, Problem, affordable

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
        able = [host_bin for host_bin in layout if bins.fits(host_bin, item)]
        if not able or counts[index] / work[index] >= enough or counts[index] == max_slots:
            growing.remove(index)
            continue
        host_bin = min(able, key=lambda host_bin: (host_bin.free_gpu, host_bin.cpus, host_bin.host_class.number))
        replace_hosts(layout, host_bin, bins.place(host_bin, item, 1))
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
    starts = {host_bin.host_class.resources: host_bin.host_class for host_bin in problem.start}
    movable: Layout = {}
    for host_bin, hosts in layout.items():
        free = bins.make(starts[host_bin.host_class.resources], *host_bin.state[1:])
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
