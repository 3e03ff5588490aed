"""The balancer: which slots stand where, so that source splits go through as fast as the hosts allow. Pure.

For a throughput T each unit needs at least ``T * seconds * weight`` slots, and one in any case. The greatest T is one
at which some unit has exactly what it needs. It is sought by halving, and then step by step beyond what the simple ways
of packing reach, see `dcurate.engine.allocate.search`.

A unit that is pinned to so many slots on each host gets them first, the largest such unit first of all, on every host
that could hold them if nothing but these stood there; no other limit counts for it. Where pinned slots leave no room
for one slot of each unit there are fewer of them, of all pinned units in proportion. A unit of weight 0 gets no slots
unless a number of them is pinned.
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
from dcurate.engine.allocate.current_state import as_model, relaid, resources, stand, trimmed
from dcurate.engine.allocate.diagnostics import shortfall
from dcurate.engine.allocate.incremental import IncrementalPacker
from dcurate.engine.allocate.packing import Layout, exchange, to_allocation, total
from dcurate.engine.allocate.problem import CLOSE, Problem, afforded, bound
from dcurate.engine.allocate.search import EFFORT, Packer

__all__ = ["bound", "shortfall", "solve", "solve_in_place", "spread_spare"]

#: Halvings of the range of throughputs, steps upwards from there, and refusals in a row after which the search ends.
HALVINGS, STEPS, REFUSALS = 60, 100, 4


def solve(
    units: Sequence[SchedulingUnit], hosts: Sequence[Host], current: Mapping[SlotLocation, int] | None = None
) -> Solution | None:
    """The allocation of the greatest throughput, with the fewest slots that give it.

    The same units and hosts in another order give the same throughput.

    Args:
        units: with different names.
        hosts: with different names.
        current: what stands now. Of allocations with the same throughput one is sought that leaves most of it in
            place, and none is worse than what stands. Places that are not there (any more) do not count.

    Returns:
        None if one slot of each unit does not fit (see `shortfall`).

    Examples:
        >>> from dcurate.engine.allocate.allocation import Card
        >>> units = [SchedulingUnit("read", seconds=0.25), SchedulingUnit("embed", gpus=0.5, seconds=1.0)]
        >>> solution = solve(units, [Host("a", cpus=8, cards=(Card("gpu0"), Card("gpu1")))])
        >>> solution.counts, solution.throughput
        ({'read': 1, 'embed': 4}, 4.0)
    """
    problem = afforded(units, hosts)
    best = _from_scratch(problem)
    if best is None:
        return None
    if not current:
        return _solution(problem, to_allocation(best.layout, problem.units))
    return _solution(problem, _laid_over(problem, best, current))


def solve_in_place(
    units: Sequence[SchedulingUnit], hosts: Sequence[Host], current: Mapping[SlotLocation, int]
) -> Solution | None:
    """The allocation of the greatest throughput that can be had without moving a slot.

    Slots are added where there is room. Slots of a unit that has more than it needs are dropped where others need
    their room, and only there; but those beyond what is pinned, or beyond the most that is allowed, go in any case.

    Args:
        current: what stands now; places that are not there (any more) do not count.

    Returns:
        None if some unit has no slot, and none can be given to it so.
    """
    problem = afforded(units, hosts)
    standing = problem.standing(current)
    allowed = trimmed(problem.bins, standing, problem.most)
    if allowed != standing:
        standing = problem.standing(to_allocation(allowed, problem.units))
    keeper = IncrementalPacker(problem.bins, standing, EFFORT // 2)
    best = _grown(problem, keeper, keep_pins=False)
    if best is None and any(unit.fixed for unit in problem.units):
        best = _grown(problem, keeper, keep_pins=True)
    return None if best is None else _solution(problem, to_allocation(best.layout, problem.units))


def spread_spare(
    units: Sequence[SchedulingUnit],
    hosts: Sequence[Host],
    places: Mapping[SlotLocation, int],
    slack: float,
    only: Collection[str],
) -> Allocation:
    """Add slots where there is room left, so that units that are just fast enough do not hold up others.

    The next slot always goes to the unit that has the least to spare. Nothing is moved or dropped.

    Args:
        slack: units get more only while they are below the throughput of ``places`` times this.
        only: names of the units that may get more; those that are pinned do not.

    Examples:
        >>> units = [SchedulingUnit("read", seconds=1.0), SchedulingUnit("embed", seconds=2.0, most=2)]
        >>> before = {SlotLocation("a", "read"): 1, SlotLocation("a", "embed"): 2}
        >>> spread_spare(units, [Host("a", cpus=8)], before, 1.5, ["read", "embed"])[SlotLocation("a", "read")]
        2
    """
    problem = Problem(units, hosts)
    bins, work = problem.bins, problem.work
    before = layout = stand(bins, problem.units, problem.models, places)
    counts = total(layout, len(problem.units))
    enough = slack * problem.reached(counts)
    growing = {
        index
        for index, unit in enumerate(problem.units)
        if unit.name in only and work[index] > 0 and unit.fixed is None and unit.fixed_per_host is None
    }
    layout = dict(layout)
    while growing:
        index = min(growing, key=lambda index: (counts[index] / work[index], index))
        item, most = bins.items[index], problem.most[index]
        able = [one for one in layout if bins.room(one, item)]
        if not able or counts[index] / work[index] >= enough or counts[index] == most:
            growing.remove(index)
            continue
        one = min(able, key=lambda one: (one.load, one.cpus, one.model.number))
        exchange(layout, one, bins.after(one, item, 1))
        counts[index] += 1
    added = to_allocation(layout, problem.units)
    added.subtract(to_allocation(before, problem.units))
    return Counter(places) + added


class _Answer(NamedTuple):
    """Slots of each unit beside those on every host, the throughput, and where they stand."""

    throughput: float
    need: list[int]
    layout: Layout


def _from_scratch(problem: Problem) -> _Answer | None:
    """The greatest throughput that is found on empty hosts."""
    packer = Packer(problem.bins, problem.start)
    need = problem.need(0.0)
    layout = packer.pack_hard(need)[0] if need is not None else None
    if need is None or layout is None:
        return None
    first = _Answer(problem.reached(problem.counts(need)), need, layout)

    def hard(need: Sequence[int]) -> tuple[Layout | None, bool]:
        packed, certain = packer.pack_hard(need)
        return packed, certain or packer.effort <= 0

    return _greatest(problem, first, packer.pack, hard)


def _grown(problem: Problem, keeper: IncrementalPacker, keep_pins: bool) -> _Answer | None:
    """The greatest throughput that is found without moving what stands.

    Args:
        keep_pins: whether a pinned unit that has slots is content with them, even if they are fewer than pinned.
    """
    content = [
        pin is not None or (keep_pins and bool(unit.fixed and stands))
        for unit, pin, stands in zip(problem.units, problem.pinned, keeper.counts, strict=True)
    ]

    def wanted(need: Sequence[int]) -> list[int]:
        units = zip(need, keeper.counts, content, strict=True)
        return [stands if is_content else slots for slots, stands, is_content in units]

    def hard(need: Sequence[int]) -> tuple[Layout | None, bool]:
        return keeper.grown(wanted(need), hard=True), keeper.packer.effort <= 0

    reached = problem.reached(keeper.counts)
    need = problem.need(reached if reached < float("inf") else 0.0)
    layout = keeper.grown(wanted(need), hard=True) if need is not None else None
    if need is None or layout is None:
        return None
    first = _Answer(problem.reached(wanted(need)), need, layout)
    return _greatest(problem, first, lambda need: keeper.grown(wanted(need)), hard)


def _greatest(
    problem: Problem,
    best: _Answer,
    simple: Callable[[Sequence[int]], Layout | None],
    hard: Callable[[Sequence[int]], tuple[Layout | None, bool]],
) -> _Answer:
    """The greatest throughput from an answer upwards.

    Args:
        simple: packs slots, if it is easy.
        hard: packs slots, if it can; and says whether there is no point in asking for more if it cannot.
    """
    ceiling = high = problem.bound * (1 + CLOSE)
    for _ in range(HALVINGS):
        above = problem.above(best.throughput)
        if above is None or above >= high:
            break
        middle = max(above, (best.throughput + high) / 2)
        need = problem.need(middle)
        layout = simple(need) if need is not None else None
        if need is None or layout is None:
            high = middle
        else:
            best = _Answer(problem.reached(problem.counts(need)), need, layout)
    refusals, tried, stride = 0, best.throughput, 0.0
    for _ in range(STEPS):
        above = problem.above(tried)
        if above is None or above > ceiling or refusals == REFUSALS:
            break
        aim = best.throughput + stride
        need = problem.need(aim) if above < aim <= ceiling else None
        if need is None:
            aim, need, stride = above, problem.need(above) or [], 0.0
        layout, pointless = hard(need)
        if layout is not None:
            reached = problem.reached(problem.counts(need))
            stride = 2 * (reached - best.throughput)
            best, tried, refusals = _Answer(reached, need, layout), reached, 0
        elif stride:
            stride = 0.0
        elif pointless:
            break
        else:
            tried, refusals = above, refusals + 1
    return best


def _laid_over(problem: Problem, best: _Answer, current: Mapping[SlotLocation, int]) -> Allocation:
    """The best answer, or what stands if that is better, so that most of what stands can stay."""
    units, bins = problem.units, problem.bins
    standing = problem.standing(current)
    keeper = IncrementalPacker(bins, standing, EFFORT // 4)
    elsewhere = relaid(bins, units, best.layout, standing)
    if any(pin not in (None, stands) for pin, stands in zip(problem.pinned, keeper.counts, strict=True)):
        return elsewhere
    reached, need = problem.reached(keeper.counts), best.need
    if best.throughput * (1 + CLOSE) < reached < float("inf"):
        better = problem.need(reached)
        if better is not None and keeper.grown(problem.counts(better)) is not None:
            need = better
    wanted = problem.counts(need)
    layout, missing = keeper.nearest(wanted, hard=True)
    layout = trimmed(bins, layout, wanted)
    if not any(missing):
        return to_allocation(layout, units)
    answers = [elsewhere]
    shifted = keeper.moved(layout, missing, [pin is not None for pin in problem.pinned])
    if shifted is not None:
        answers.append(to_allocation(shifted, units))
    starts = {resources(one.model): one.model for one in problem.start}
    movable: Layout = {}
    for one, hosts in layout.items():
        free = as_model(bins, one, starts[resources(one.model)])
        movable[free] = movable.get(free, 0) + hosts
    repaired = Packer(bins, problem.start, EFFORT // 4).repair(movable, missing, most=64)
    if repaired is not None:
        answers.append(relaid(bins, units, repaired, standing))
    return max(answers, key=lambda places: sum(min(slots, places[place]) for place, slots in current.items()))


def _solution(problem: Problem, places: Allocation) -> Solution:
    counts = count_slots(places)
    return Solution(places, throughput(problem.units, counts), problem.bound)
