"""What the decider looks at: a run at one moment, in plain values. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt

from dcurate.engine.allocate.allocation import Allocation, Host, SchedulingUnit, count_slots
from dcurate.engine.allocate.capacity import Capacity, keep
from dcurate.engine.allocate.rates import PRIOR_WEIGHT

#: A unit is known by so many samples, or by one so many seconds after it came.
ENOUGH, SOON_S = 3, 1.0
#: A call that has run for so many seconds without end says that its unit is at least as slow as that.
LONG_S = 30.0
#: Slots that are set up faster than this many seconds are cheap: they come and go without regret.
CHEAP_S = 1.0
#: What a setup is taken to last where none was seen, in seconds.
UNSEEN_SETUP_S = 5.0
#: A run of which nobody knows how long it will last is taken to last as long as it has, and at least so many seconds.
LEAST_AHEAD_S = 60.0


@dataclass(frozen=True)
class Measured:
    """A unit and what is known of it.

    Args:
        unit: what it asks for; its ``seconds`` and ``weight`` are not looked at.
        seconds: that a slot spends on an item; None if not known.
        samples: calls that this rests on.
        cv: their standard deviation over the mean.
        remembered: whether earlier runs count among them.
        first_sample_at: when the first call ended, on the clock of `AllocatorInput.now`.
        weight: items for each source split.
        left: items that it has still to do, those that wait or will come counted; None if not known.
        setup_s: seconds that a slot is set up; None if not known.
        waiting: items that wait for it.
        running: items of calls under way.
        elapsed: seconds that the oldest of these calls has run.
        finished: whether it has nothing to do, now or later.
    """

    unit: SchedulingUnit
    seconds: float | None = None
    samples: int = 0
    cv: float = 0.5
    remembered: bool = False
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
        """Of the unit."""
        return self.unit.name

    def known(self, now: float) -> bool:
        """Whether there is an estimate to build on."""
        if self.seconds is None:
            return self.elapsed >= LONG_S
        waited = self.first_sample_at is not None and now - self.first_sample_at >= SOON_S
        return self.remembered or self.samples >= ENOUGH or (self.samples > 0 and waited)

    @property
    def estimate(self) -> float:
        """Seconds an item, at least as many as a first call has run so far; 0 if not known."""
        return self.seconds if self.seconds is not None else self.elapsed

    @property
    def setup(self) -> float:
        """Seconds to set a slot up, guessed if not known."""
        return UNSEEN_SETUP_S if self.setup_s is None else self.setup_s

    @property
    def cheap(self) -> bool:
        """Whether its slots come and go without regret."""
        return self.setup_s is not None and self.setup_s < CHEAP_S


@dataclass(frozen=True)
class AllocatorInput:
    """A run at one moment.

    Args:
        hosts: that can be counted on; one with a paused worker is smaller, one that is gone is missing.
        units: all of them, with what is known.
        held: slots that are ready. Those on their way out are not counted, nor is what they take.
        setting_up: slots that are being set up, which are never taken away before they are ready.
        now: seconds on a clock that only goes forward.
        began: when the run did, on the same clock.
    """

    hosts: tuple[Host, ...]
    units: tuple[Measured, ...]
    held: Allocation
    setting_up: Allocation
    now: float
    began: float = 0.0

    @cached_property
    def by_name(self) -> dict[str, Measured]:
        """The units by name."""
        return {each.name: each for each in self.units}

    @cached_property
    def learning(self) -> bool:
        """Whether a unit that could be known soon is not: then nobody can say what a fair share is."""
        return any(
            not (each.finished or each.known(self.now) or (self._ready.get(each.name, 0) and not each.running))
            for each in self.units
        )

    @cached_property
    def work_known(self) -> bool:
        """Whether it is known of every unit how much it has still to do."""
        return all(each.finished or each.left is not None for each in self.units)

    @cached_property
    def solvable(self) -> tuple[SchedulingUnit, ...]:
        """The units as the solver takes them: one that is not known takes no time, one without work has no pins.

        If the work left is known, weights are items left, and throughput is shares of that work a second.
        """
        return tuple(self._solvable(each) for each in self.units)

    def _solvable(self, each: Measured) -> SchedulingUnit:
        weight = each.left if self.work_known else each.weight
        if each.finished:
            return replace(each.unit, weight=0.0, seconds=each.estimate, fixed=None, fixed_per_host=None)
        if not each.known(self.now) or not weight:
            return replace(each.unit, weight=1.0, seconds=0.0)
        return replace(each.unit, weight=weight, seconds=each.estimate)

    @cached_property
    def working(self) -> tuple[SchedulingUnit, ...]:
        """Those of them that still have work."""
        return tuple(unit for unit, each in zip(self.solvable, self.units, strict=True) if not each.finished)

    def cheap(self, name: str) -> bool:
        """Whether the slots of a unit come and go without regret, or are not needed any more."""
        each = self.by_name.get(name)
        return each is None or each.finished or each.cheap

    @cached_property
    def _ready(self) -> dict[str, int]:
        return count_slots(self.held)

    def error(self, name: str) -> float:
        """Relative standard error of a unit's estimate, and what the calls that still run in its slots may add."""
        each = self.by_name[name]
        weight = each.samples + PRIOR_WEIGHT * each.remembered
        running = max(0, self._ready.get(name, 0) - 1)
        return each.cv * sqrt(1 / weight + (each.cv * running / weight) ** 2) if weight else 1.0

    @cached_property
    def asked(self) -> Allocation:
        """All slots that stand or are being set up."""
        return self.held + self.setting_up

    @cached_property
    def current(self) -> Allocation:
        """Those of them that the hosts have room for: of others than cheap ones first those that are being set up."""
        there = {host.name for host in self.hosts}
        every = Counter({place: slots for place, slots in self.asked.items() if place.host in there})
        if keep(Capacity(self.hosts, (each.unit for each in self.units)), every) == every:
            return every
        room = Capacity(self.hosts, (each.unit for each in self.units))
        return keep(room, self._dear(self.setting_up), self._dear(every), every)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Slots of each unit that stand."""
        return count_slots(self.current)

    @cached_property
    def untouchable(self) -> Allocation:
        """Slots that are being set up, of which the work would be lost; and their neighbours at the same place."""
        under_way = self._dear(self.setting_up)
        return Counter({place: slots for place, slots in self.current.items() if under_way[place]})

    def _dear(self, places: Allocation) -> Allocation:
        return Counter({place: slots for place, slots in places.items() if not self.cheap(place.unit)})

    @cached_property
    def dear(self) -> Allocation:
        """Slots that took long to set up."""
        return self._dear(self.current)

    @property
    def ahead_s(self) -> float:
        """Seconds that the run is taken to last from now if the work left is not known."""
        return max(LEAST_AHEAD_S, self.now - self.began)

    def throughput(self, counts: dict[str, int]) -> float:
        """What so many slots can do; nothing if a unit that has work has no slot."""
        if any(not counts.get(unit.name) for unit in self.working):
            return 0.0
        return min((unit.rate(counts[unit.name]) for unit in self.working), default=inf)

    def splits_a_second(self, counts: dict[str, int]) -> float:
        """Source splits a second that so many slots can follow, of the units that are known; infinite if none is."""
        rates = (
            counts.get(each.name, 0) / (each.estimate * each.weight)
            for each in self.units
            if not each.finished and each.estimate * each.weight > 0
        )
        return min(rates, default=inf)
