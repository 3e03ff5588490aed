"""What the diaries of slots come down to: when there were enough slots, how fast it went then, how busy they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scenario import Scenario
from benchmarks.sleeping import DiaryLine, read_diary

#: Share of the optimum's rate at which counts are right.
RIGHT = 0.9

#: Share of the time after which the warm-up is over, whatever the counts.
WARM = 0.4

#: Into how many pieces the course of a run is cut.
PIECES = 20

Window = tuple[float, float]


@dataclass(frozen=True)
class SlotSpan:
    """One slot, from its set-up to its end.

    Args:
        begun: when its set-up began.
        ready: when that ended; None if it never did.
        left: when its tear-down began; None if it never did.
    """

    operator: int
    begun: float
    ready: float | None
    left: float | None
    calls: tuple[DiaryLine, ...]

    def lived(self, window: Window) -> float:
        """Seconds of the window in which it stood ready."""
        return 0.0 if self.ready is None else _overlap((self.ready, self.left or window[1]), window)

    def busy(self, window: Window) -> float:
        """Seconds of the window that it spent in calls."""
        return sum(_overlap((call.begin, call.end), window) for call in self.calls)


def _overlap(one: Window, other: Window) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def read_slots(folder: Path) -> list[SlotSpan]:
    """All slots that wrote a diary."""
    slots = []
    for path in sorted(folder.iterdir()):
        entries = read_diary(path)
        times = {entry.kind: entry for entry in entries if entry.kind != "call"}
        if "begin" in times:
            ready, left = times.get("setup"), times.get("teardown")
            calls = tuple(entry for entry in entries if entry.kind == "call")
            slots.append(
                SlotSpan(
                    int(path.name.partition("-")[0]),
                    times["begin"].begin,
                    ready.end if ready else None,
                    left.begin if left else None,
                    calls,
                )
            )
    return slots


@dataclass(frozen=True)
class Timeline:
    """A run of a scenario.

    Args:
        scale: of time.
        began: when it was asked for.
        splits: how many it had.
        fused: the stages that share slots, where they are not each by itself.
    """

    scenario: Scenario
    scale: float
    slots: tuple[SlotSpan, ...]
    began: float
    splits: int
    fused: tuple[tuple[int, ...], ...] = ()

    @property
    def ended(self) -> float:
        """When the last call ended."""
        return max(call.end for slot in self.slots for call in slot.calls)

    @property
    def places(self) -> range:
        """The places of the operators."""
        return range(len(self.scenario.steps))

    # Slots over time

    def counts(self) -> list[tuple[float, list[int]]]:
        """How many slots of each operator stood ready, from each moment on at which that changed."""
        changes = [(slot.ready, slot.operator, 1) for slot in self.slots if slot.ready is not None]
        changes += [
            (slot.left, slot.operator, -1) for slot in self.slots if slot.ready is not None and slot.left is not None
        ]
        now = [0] * len(self.scenario.steps)
        course = [(self.began, list(now))]
        for moment, operator, change in sorted(changes):
            now[operator] += change
            course.append((moment, list(now)))
        return course

    def counts_at(self, moment: float) -> list[int]:
        return [counts for time, counts in self.counts() if time <= moment][-1]

    def right_from(self, phase: int) -> float | None:
        """When every operator that had work left first had the slots for nearly the optimum of a phase."""
        since, wanted = self.begin_of(phase), RIGHT * self.scenario.phases[phase].rate
        course = [(since, self.counts_at(since))] + [one for one in self.counts() if one[0] > since]
        over = [max((call.end for call in self.calls_of(place)), default=since) for place in self.places]
        drained = self.drained
        for moment, counts in course:
            rates = self.scenario.rate_of(counts, phase)
            if moment <= drained and min(rates[place] for place in self.places if moment <= over[place]) >= wanted:
                return moment
        return None

    # Phases and the steady state

    def begin_of(self, phase: int) -> float:
        """When a phase began, for the operator that limits it."""
        if not phase:
            return self.began
        first = round(self.splits * sum(one.share for one in self.scenario.phases[:phase]))
        calls = self.calls_of(self.binding(phase))
        return min((call.begin for call in calls if call.number >= first), default=self.ended)

    def binding(self, phase: int) -> int:
        """The operator that limits the optimum of a phase."""
        rates = self.scenario.rate_of(self.scenario.phases[phase].counts, phase)
        return rates.index(min(rates))

    def calls_of(self, operator: int) -> list[DiaryLine]:
        calls = [call for slot in self.slots if slot.operator == operator for call in slot.calls]
        return sorted(calls, key=lambda call: call.begin)

    @property
    def drained(self) -> float:
        """When the end began: the operator that limits had only two calls a slot left to begin."""
        phase = len(self.scenario.phases) - 1
        calls, slots = self.calls_of(self.binding(phase)), self.scenario.phases[phase].counts[self.binding(phase)]
        return calls[max(0, len(calls) - 2 * slots - 1)].begin if calls else self.ended

    def steady(self) -> Window | None:
        """The last phase, without its warm-up and without the end; None if nothing is left of it.

        The warm-up ends when counts are right and a batch had time to come through to the last operator, but at the
        latest after `WARM` of the time.
        """
        phase = len(self.scenario.phases) - 1
        begun, right = self.begin_of(phase), self.right_from(phase)
        start = begun + WARM * (self.ended - begun)
        if right is not None:
            start = min(start, right + 2 * self.scale * sum(self.scenario.phases[phase].seconds))
        return (start, self.drained) if self.drained > start else None

    # Figures

    def ratio(self, window: Window, phase: int = -1) -> float:
        """Throughput of the last operator in a window, over the optimum; a call that is half inside counts half."""
        last = len(self.scenario.steps) - 1
        done = sum(
            _overlap((call.begin, call.end), window) / max(call.end - call.begin, 1e-9) for call in self.calls_of(last)
        )
        rate = done / self.scenario.steps[last].fanout / (window[1] - window[0])
        return rate * self.scale / self.scenario.phases[phase].rate

    def work_ratio(self, window: Window) -> float:
        """Work done by the operator that limits, over what it would do at the optimum.

        As it counts seconds and not calls, it says the same as `ratio` without the chance of a few long calls.
        """
        phase = len(self.scenario.phases) - 1
        operator = self.binding(phase)
        step, one = self.scenario.steps[operator], self.scenario.phases[phase]
        busy = sum(slot.busy(window) for slot in self.slots if slot.operator == operator)
        return busy / (window[1] - window[0]) / (one.rate * step.fanout * one.seconds[operator])

    def busy_share(self, window: Window) -> tuple[str, float]:
        """The slowest operator as slots were, and the share of the time that its slots spent in calls.

        Of operators that are equally slow, the busiest. Stages that were fused are one operator.
        """
        length = window[1] - window[0]
        lived, busy = ([0.0] * len(self.scenario.steps) for _ in range(2))
        for slot in self.slots:
            lived[slot.operator] += slot.lived(window)
            busy[slot.operator] += slot.busy(window)
        phase, steps = self.scenario.phases[-1], self.scenario.steps
        rates, shares = {}, {}
        for places in self.fused or [(place,) for place in self.places]:
            if not any(busy[place] for place in places):
                continue  # what had nothing left to do, such as a source that has listed all
            name = "+".join(steps[place].name for place in places)
            slots = sum(lived[place] for place in places) / len(places) / length
            rates[name] = slots / sum(phase.seconds[place] * steps[place].fanout for place in places)
            shares[name] = sum(busy[place] for place in places) / max(slots * length, 1e-9)
        shares = {name: share for name, share in shares.items() if rates[name] <= 1.005 * min(rates.values())}
        name = max(shares, key=lambda one: shares[one])
        return name, shares[name]

    def thrown_away(self) -> list[SlotSpan]:
        """Slots that were torn down before the end began, and those whose set-up never ended."""
        drained = self.drained
        return [
            slot
            for slot in self.slots
            if (slot.left is not None and slot.left < drained) or (slot.ready is None and slot.begun < drained)
        ]

    def overslept(self) -> float:
        """By how much more than they should calls took, as a share; what this machine adds, and no engine can help."""
        calls = [call for slot in self.slots for call in slot.calls]
        return sum(call.end - call.begin for call in calls) / sum(call.work for call in calls) - 1

    @property
    def makespan_ratio(self) -> float:
        """The shortest time that this could take over the time that it took.

        The shortest: the longest set-up, then one batch on its way through, then all splits at the optimum.
        """
        steps = self.scenario.steps
        first = max(step.setup_s for step in steps) + sum(step.seconds for step in steps)
        return self.scale * (first + self.splits * self.scenario.seconds_for_one) / (self.ended - self.began)

    def course(self) -> list[list[float]]:
        """Seconds since the begin and throughput over the first optimum, for each piece of the run."""
        length = (self.ended - self.began) / PIECES
        edges = [self.began + number * length for number in range(PIECES)]
        return [[round(edge - self.began, 2), round(self.ratio((edge, edge + length), 0), 3)] for edge in edges]


def named(scenario: Scenario, counts: Sequence[int]) -> dict[str, int]:
    """Counts by the operators' names."""
    return {step.name: count for step, count in zip(scenario.steps, counts, strict=True)}


def setup_seconds(slots: Iterable[SlotSpan], until: float) -> float:
    """Seconds that set-ups took, of those that did not end, until a moment."""
    return sum((until if slot.ready is None else slot.ready) - slot.begun for slot in slots)
