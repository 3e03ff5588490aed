"""The input of `decide`: a run at one moment, and what a change of its slots would do to it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt

from dcurate.engine.allocate.allocation import Allocation, Host, SchedulingUnit, count_slots
from dcurate.engine.allocate.capacity import Capacity, place_all
from dcurate.engine.allocate.rates import PRIOR_WEIGHT

#: A unit is known after this many samples, or this many seconds after its first.
MIN_SAMPLES, SOON_S = 3, 1.0
#: A call that has run for this many seconds shows that its unit is at least as slow.
LONG_S = 30.0
#: Slots that are set up faster than this, in seconds, are cheap: starting and stopping them costs nothing.
CHEAP_S = 1.0
#: A preempting change must gain at least this share.
LEAST_GAIN = 0.02
#: Assumed seconds of a setup where none was measured.
UNSEEN_SETUP_S = 5.0
#: A run of unknown length is assumed to last as long as it has so far, and at least this many seconds.
LEAST_AHEAD_S = 60.0


@dataclass(frozen=True)
class Measured:
    """A unit and its measurements.

    Args:
        unit: what it asks for; its ``seconds`` and ``weight`` are ignored.
        seconds: per item and slot; None if unknown.
        samples: number of calls.
        cv: coefficient of variation of their durations.
        wobble: relative standard error from disturbances that come and go.
        shifted_at: when ``seconds`` last changed for good, on the clock of `AllocatorInput.now`; None if never.
        cached: whether earlier runs count among them.
        first_sample_at: when the first call ended, on the clock of `AllocatorInput.now`.
        weight: items per source split.
        left: items that it has still to do, including those that wait or will come; None if unknown.
        setup_s: seconds to set a slot up; None if unknown.
        waiting: items that wait for it.
        running: items of running calls.
        elapsed: seconds that the oldest of these calls has run.
        finished: whether it has nothing to do, now or later.
    """

    unit: SchedulingUnit
    seconds: float | None = None
    samples: int = 0
    cv: float = 0.5
    wobble: float = 0.0
    shifted_at: float | None = None
    cached: bool = False
    first_sample_at: float | None = None
    weight: float = 1.0
    left: float | None = None
    setup_s: float | None = None
    waiting: int = 0
    running: int = 0
    elapsed: float = 0.0
    finished: bool = False

    @property
    def name(self) -> str:
        """The name of the unit."""
        return self.unit.name

    def known(self, now: float) -> bool:
        """Whether there is an estimate to rely on."""
        if self.seconds is None:
            return self.elapsed >= LONG_S
        waited = self.first_sample_at is not None and now - self.first_sample_at >= SOON_S
        return self.cached or self.samples >= MIN_SAMPLES or (self.samples > 0 and waited)

    @property
    def estimate(self) -> float:
        """Seconds per item, at least as many as a first call has run so far; 0 if unknown."""
        return self.seconds if self.seconds is not None else self.elapsed

    @property
    def setup(self) -> float:
        """Seconds to set a slot up, guessed if unknown."""
        return UNSEEN_SETUP_S if self.setup_s is None else self.setup_s

    @property
    def cheap(self) -> bool:
        """Whether starting and stopping its slots costs nothing."""
        return self.setup_s is not None and self.setup_s < CHEAP_S


@dataclass(frozen=True)
class AllocatorInput:
    """A run at one moment.

    Args:
        hosts: available hosts; one with a paused worker is smaller.
        units: all of them, with their measurements.
        ready: slots that are ready. Those that are being torn down are not counted, nor are their resources.
        setting_up: slots that are being set up, which are never taken away before they are ready.
        now: seconds on a monotonic clock.
        started: when the run started, on the same clock.
    """

    hosts: tuple[Host, ...]
    units: tuple[Measured, ...]
    ready: Allocation
    setting_up: Allocation
    now: float
    started: float = 0.0

    @cached_property
    def by_name(self) -> dict[str, Measured]:
        """The units by name."""
        return {measured.name: measured for measured in self.units}

    @cached_property
    def learning(self) -> bool:
        """Whether a unit that could be known soon is not: then no fair share can be computed."""
        return any(
            not (
                measured.finished
                or measured.known(self.now)
                or (self._ready_counts.get(measured.name, 0) and not measured.running)
            )
            for measured in self.units
        )

    @cached_property
    def work_known(self) -> bool:
        """Whether the remaining work of every unit is known."""
        return all(measured.finished or measured.left is not None for measured in self.units)

    @cached_property
    def solvable(self) -> tuple[SchedulingUnit, ...]:
        """The units for the solver: one that is unknown takes no time, one without work has no pins.

        If the remaining work is known, weights are items left, and throughput is shares of that work per second.
        """
        return tuple(self._solvable(measured) for measured in self.units)

    def _solvable(self, measured: Measured) -> SchedulingUnit:
        weight = measured.left if self.work_known else measured.weight
        if measured.finished:
            return replace(measured.unit, weight=0.0, seconds=measured.estimate, fixed=None, fixed_per_host=None)
        if not measured.known(self.now) or not weight:
            return replace(measured.unit, weight=1.0, seconds=0.0)
        return replace(measured.unit, weight=weight, seconds=measured.estimate)

    @cached_property
    def working(self) -> tuple[SchedulingUnit, ...]:
        """The units that still have work, for the solver."""
        return tuple(unit for unit, measured in zip(self.solvable, self.units, strict=True) if not measured.finished)

    def cheap(self, name: str) -> bool:
        """Whether slots of a unit can be stopped without regret, or are not needed any more."""
        measured = self.by_name.get(name)
        return measured is None or measured.finished or measured.cheap

    @cached_property
    def _ready_counts(self) -> dict[str, int]:
        return count_slots(self.ready)

    def error(self, name: str) -> float:
        """Relative standard error of a unit's estimate, including what its running calls may add."""
        measured = self.by_name[name]
        weight = measured.samples + PRIOR_WEIGHT * measured.cached
        running = max(0, self._ready_counts.get(name, 0) - 1)
        return (
            2 * measured.wobble + measured.cv * sqrt(1 / weight + (measured.cv * running / weight) ** 2)
            if weight
            else 1.0
        )

    @cached_property
    def requested(self) -> Allocation:
        """All slots that are ready or being set up."""
        return self.ready + self.setting_up

    @cached_property
    def current(self) -> Allocation:
        """Those of them that fit on the hosts: of costly slots first those that are being set up."""
        host_names = {host.name for host in self.hosts}
        every = Counter({location: slots for location, slots in self.requested.items() if location.host in host_names})
        if place_all(Capacity(self.hosts, (measured.unit for measured in self.units)), every) == every:
            return every
        capacity = Capacity(self.hosts, (measured.unit for measured in self.units))
        return place_all(capacity, self._costly(self.setting_up), self._costly(every), every)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Current slots of each unit."""
        return count_slots(self.current)

    @cached_property
    def untouchable(self) -> Allocation:
        """Slots that no change takes away: costly ones that are being set up, and others at the same location."""
        under_way = self._costly(self.setting_up)
        return Counter({location: slots for location, slots in self.current.items() if under_way[location]})

    def _costly(self, allocation: Allocation) -> Allocation:
        return Counter({location: slots for location, slots in allocation.items() if not self.cheap(location.unit)})

    @cached_property
    def costly(self) -> Allocation:
        """Slots that took long to set up."""
        return self._costly(self.current)

    @property
    def ahead_s(self) -> float:
        """Assumed seconds until the end of the run if the remaining work is unknown."""
        return max(LEAST_AHEAD_S, self.now - self.started)

    def throughput(self, counts: dict[str, int]) -> float:
        """Throughput of these numbers of slots; 0 if a unit with work has no slot."""
        if any(not counts.get(unit.name) for unit in self.working):
            return 0.0
        return min((unit.rate(counts[unit.name]) for unit in self.working), default=inf)

    def splits_a_second(self, counts: dict[str, int]) -> float:
        """Source splits per second for these numbers of slots, of the known units; infinite if none is known."""
        rates = (
            counts.get(measured.name, 0) / (measured.estimate * measured.weight)
            for measured in self.units
            if not measured.finished and measured.estimate * measured.weight > 0
        )
        return min(rates, default=inf)


@dataclass(frozen=True)
class AllocationChange:
    """The change from the current allocation to another.

    Args:
        snapshot: snapshot of the run.
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
