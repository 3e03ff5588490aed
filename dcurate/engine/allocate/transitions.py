"""Evaluate the change from one allocation to another, and explain it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import inf

from dcurate.engine.allocate.allocation import Allocation, count_slots
from dcurate.engine.allocate.inputs import AllocatorInput, Measured

#: A preempting change must gain at least this share.
LEAST_GAIN = 0.02


@dataclass(frozen=True)
class Change:
    """More or fewer slots of a unit, or the same number elsewhere, and why."""

    unit: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True)
class AllocationChange:
    """The change from the current allocation to another.

    Args:
        snapshot: of the run.
        after: number of slots of each unit at each location.
    """

    snapshot: AllocatorInput
    after: Allocation

    @cached_property
    def counts(self) -> dict[str, int]:
        """Slots of each unit after the change."""
        return self.snapshot.counts if self.after is self.snapshot.current else count_slots(self.after)

    @cached_property
    def throughput(self) -> float:
        """After the change."""
        return self.snapshot.throughput(self.counts)

    @cached_property
    def kept(self) -> Allocation:
        """The slots that stay."""
        return self.snapshot.current & self.after

    @cached_property
    def kept_counts(self) -> Counter[str]:
        """Slots of each unit that stay."""
        return Counter(count_slots(self.kept))

    @cached_property
    def dropped(self) -> Counter[str]:
        """Slots that are torn down, by unit."""
        return Counter(self.snapshot.counts) - self.kept_counts

    @cached_property
    def gained(self) -> Counter[str]:
        """Slots that are set up, by unit."""
        return Counter(self.counts) - self.kept_counts

    @cached_property
    def preempting(self) -> bool:
        """Whether it tears down slots that may be missed: costly ones, or cheap ones of a unit with little slack."""
        units = {unit.name: unit for unit in self.snapshot.working}
        enough = self.throughput * (1 + max(LEAST_GAIN, self.uncertainty))
        return any(
            not self.snapshot.cheap(name) or units[name].rate(self.counts.get(name, 0)) < enough
            for name in self.dropped
            if name in units
        )

    @cached_property
    def drain_s(self) -> float:
        """Seconds for which leaving slots are missed: they end their calls before others can start."""
        by_name = self.snapshot.by_name
        calls = (by_name[name].estimate * (1 + by_name[name].cv) for name in self.dropped if self.gained)
        return max(calls, default=0.0) / 2

    @cached_property
    def soon(self) -> dict[str, int]:
        """Slots that work as soon as there is capacity: those that stay, and new ones that are cheap."""
        new = {name: slots for name, slots in self.gained.items() if self.snapshot.cheap(name)}
        return self.kept_counts + Counter(new)

    @cached_property
    def setup_s(self) -> float:
        """Seconds to set up the other slots that are needed."""
        return max(
            (
                self.snapshot.by_name[unit.name].setup
                for unit in self.snapshot.working
                if self.gained[unit.name] and unit.rate(self.soon.get(unit.name, 0)) < self.throughput
            ),
            default=0.0,
        )

    @property
    def done_in(self) -> float:
        """Seconds until the change is complete."""
        return self.drain_s + self.setup_s

    @cached_property
    def meanwhile(self) -> float:
        """Mean throughput until then."""
        if not self.done_in:
            return self.throughput
        throughput = self.snapshot.throughput
        work = self.drain_s * throughput(self.kept_counts) + self.setup_s * throughput(self.soon)
        return work / self.done_in

    def seconds_for(self, work: float) -> float:
        """Seconds from now until an amount of work is done."""
        first = self.meanwhile * self.done_in
        if first >= work:
            return work / self.meanwhile if self.meanwhile > 0 else 0.0
        return self.done_in + ((work - first) / self.throughput if self.throughput > 0 else inf)

    def paid_back_in(self, base: AllocationChange) -> float:
        """Seconds until it has done as much as another change that is complete at once."""
        gain = self.throughput - base.throughput
        return self.done_in * (self.throughput - self.meanwhile) / gain if gain > 0 else inf

    @cached_property
    def uncertainty(self) -> float:
        """Relative standard error of the gain: of the slowest unit without the change, and of what it tears down."""
        by_name, current = self.snapshot.by_name, self.snapshot.counts
        slowest = min(self.snapshot.working, key=lambda unit: unit.rate(current.get(unit.name, 0)), default=None)
        lost = [self.snapshot.error(name) for name in self.dropped if not by_name[name].finished]
        needed = self.snapshot.error(slowest.name) if slowest else 0.0
        return float((needed**2 + max(lost, default=0.0) ** 2) ** 0.5)


def explain(move: AllocationChange, spare: Allocation) -> tuple[Change, ...]:
    """The changes of a move, each with a sentence why.

    Args:
        spare: slots that were added to it beyond need.
    """
    beyond = count_slots(spare)
    before, after = move.snapshot.counts, Counter(move.counts) + Counter(beyond)
    changes = []
    for each in move.snapshot.units:
        name = each.name
        if before.get(name, 0) != after.get(name, 0) or move.dropped[name]:
            why = _why(move, each, beyond.get(name, 0))
            sentence = f"{name} {before.get(name, 0)} -> {after.get(name, 0)} slots: {why}"
            changes.append(Change(name, before.get(name, 0), after.get(name, 0), sentence))
    return tuple(changes)


def _why(move: AllocationChange, each: Measured, beyond: int) -> str:
    snapshot, counts = move.snapshot, move.counts
    slots_before = snapshot.counts
    before, after = slots_before.get(each.name, 0), counts.get(each.name, 0)
    if after < before:
        if each.finished:
            return "nothing left to do"
        takers = [name for name in move.gained if name != each.name and not snapshot.cheap(name)]
        takers = takers or [name for name in move.gained if name != each.name]
        return f"gives room to {' and '.join(takers[:3])}" if takers else "its host has less room"
    if after == before and move.dropped[each.name]:
        return f"{move.dropped[each.name]} of them elsewhere, so that others fit"
    if after == before and beyond:
        return "idle room, so that uneven durations do not hold others up"
    if not before and not each.known(snapshot.now):
        return "to learn how long it takes"
    was, will = snapshot.splits_a_second(slots_before), snapshot.splits_a_second(counts)
    stay = AllocationChange(snapshot, snapshot.current)
    slowest = [unit.name for unit in snapshot.working if unit.rate(before) <= stay.throughput * 1.001]
    if was == 0 or will in (was, inf) or each.name not in slowest:
        return f"to keep up with {_number(will)} splits/s" if will not in (0, inf) else "wanted so many"
    if snapshot.work_known:
        return f"bottleneck of what is left, done in {_seconds(move)} rather than {_seconds(stay)} s"
    why = f"bottleneck, +{_number(will - was)} splits/s"
    paid = move.paid_back_in(stay)
    return why if each.cheap or paid == inf else f"{why}, setup {each.setup:.0f} s paid back in {paid:.0f} s"


def _seconds(move: AllocationChange) -> str:
    return f"{move.seconds_for(1.0):,.0f}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
