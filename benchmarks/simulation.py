"""A cluster that is not there: the real flow, windows, rates and balancing policy, driven through made-up time.

Slots are servers with durations drawn from a log-normal distribution; they are set up and drained as on workers. All
calls of a unit wait in one queue, and messages take no time: what is lost here is lost by decisions, not by Dask.
"""

from __future__ import annotations

import gc
import heapq
import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.simulated import SimulatedJob, SimulatedOperator
from dcurate import Resources
from dcurate.engine.allocate.allocation import Allocation, SlotLocation, count_slots, throughput
from dcurate.engine.allocate.decide import Decision
from dcurate.engine.allocate.inputs import AllocatorInput, Measured
from dcurate.engine.allocate.rates import Rate, Ratio, Setup
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec
from dcurate.engine.flow import Flow, OperatorState, OutputRef, Pull, Release, SplitFinished, Task
from dcurate.policies import Balancing

#: Ended calls are reported to the flow, and the decider is asked, at this rhythm; in seconds.
TELL_S, ASK_S = 0.01, 0.25


@dataclass
class Pool:
    """The slots of a unit, and the calls that wait for one."""

    ready: int = 0
    busy: int = 0
    queue: deque[Task] = field(default_factory=deque)
    leaving: deque[SlotLocation] = field(default_factory=deque)


@dataclass
class SimulationResult:
    """What came of a simulation. Times are in simulated seconds."""

    seconds: float = 0.0
    #: Moments at which each hundredth of the splits was finished.
    finished_at: list[float] = field(default_factory=list)
    exhausted_at: float = 0.0
    #: CPU seconds of each decision, but for collections of garbage in it: most of that is the simulation's.
    decisions: list[float] = field(default_factory=list)
    #: Whether each was answered without solving anything.
    quick: list[bool] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    #: When the slots that were ready could do 90 % of the best, and when those that were asked for could.
    right_at: float | None = None
    right_asked_at: float | None = None
    setups: int = 0
    thrown_away: int = 0
    #: By operator: slots that were asked for, and those that went before the source was exhausted.
    asked: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    cheap_dropped: int = 0
    interrupted: int = 0
    peak_items: int = 0
    calls: int = 0
    #: Wall seconds inside the flow.
    advance_s: float = 0.0
    finished_s: float = 0.0
    changes: list[tuple[float, str]] = field(default_factory=list)
    #: Ready slots over time, whenever they changed.
    slots: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    samples: dict[str, Any] = field(default_factory=dict)

    def throughput(self, start: float, end: float) -> float:
        """Splits a second between two shares of the splits, given the number of splits as ``splits``."""
        first, last = (self.finished_at[min(99, int(share * 100))] for share in (start, end))
        return (int(end * 100) - int(start * 100)) / 100 / max(1e-9, last - first)


class _Collections:
    """Counts the seconds that collecting garbage takes for a while."""

    seconds = 0.0
    _began = 0.0

    def __enter__(self) -> _Collections:
        gc.callbacks.append(self._on_collection)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.seconds += time.process_time() - self._began


def inputs_in_flight(operator: OperatorState) -> int:
    """How many inputs the running tasks of an operator have."""
    return sum(len(task.inputs) for task in operator.running.values())


def _pool(stage: SimulatedOperator) -> SlotPoolSpec:
    """What an operator asks for; no other shares its slots."""
    unit = stage.unit
    resources = Resources(unit.cpus, unit.gpus, 0.0 if unit.gpus else unit.gpu_memory / 1e9)
    return SlotPoolSpec((OperatorRequest(unit.name, resources),), unit.cpus)


class Simulation:
    """Runs a job.

    Args:
        job: to be run.
        priors: remembered seconds of units, by name.
        watch: is called now and then; what it answers is kept as ``watched``.
    """

    def __init__(
        self, job: SimulatedJob, priors: Mapping[str, float] | None = None, watch: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.job = job
        self.order = random.Random(job.seed)
        self.flow = Flow([1] * len(job.stages), budget_bytes=1e12)
        self.names = [stage.unit.name for stage in job.stages]
        self.stage_of = {stage.unit.name: stage for stage in job.stages}
        self.rates = [Rate((priors or {}).get(name)) for name in self.names]
        self.ratios = [Ratio() for _ in job.stages]
        self.shifts = [(0, 0.0) for _ in job.stages]
        self.setups = [Setup() for _ in job.stages]
        self.first: dict[int, float] = {}
        self.pools = [Pool() for _ in job.stages]
        self.held: Allocation = Counter()
        self.setting_up: Allocation = Counter()
        self.waiting: Allocation = Counter()
        self.events: list[tuple[float, int, tuple[Any, ...]]] = []
        self.now, self.number, self.pulled, self.splits_done = 0.0, 0, 0, 0
        self.owed = [0.0] * len(job.stages)
        self.origin: dict[OutputRef, int] = {}
        self.drifts = any(stage.later_s is not None for stage in job.stages)
        self.out = SimulationResult()
        self.balancing = Balancing()
        self.hosts = job.hosts
        self.specs = [_pool(stage) for stage in job.stages]
        self.last: Decision | None = None
        self.due = 0.0
        self.best = job.best()
        self.watch = watch

    def run(self, until_s: float = math.inf) -> SimulationResult:
        """From the first decision to the last split, or to a moment.

        Args:
            until_s: moment to stop at, in simulated seconds.
        """
        self._decide()
        self._obey()
        while not self.flow.done and self.now < until_s:
            if not self.events:
                raise RuntimeError(f"nothing happens any more after {self.now:.0f} s")
            until = self.events[0][0] + TELL_S
            while self.events and self.events[0][0] <= until:
                self.now, _, event = heapq.heappop(self.events)
                getattr(self, event[0])(*event[1:])
            self.now = max(self.now, until)
            self._obey()
            if self.now >= self.due:
                self._decide()
                self._obey()
        self.out.seconds = self.now
        self.out.samples = {
            name: [rate.seconds, rate.samples, rate.changes] for name, rate in zip(self.names, self.rates, strict=True)
        }
        return self.out

    # Events

    def _later(self, seconds: float, *event: Any) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, event))

    def _ended(self, task: Task, took: float) -> None:
        operator = task.operator
        pool = self.pools[operator]
        pool.busy -= 1
        self._report(task, took)
        if pool.leaving:
            self._left(operator)
        self._start(operator)

    def _report(self, task: Task, took: float) -> list[OutputRef]:
        """Report the end of a task, and return what it made."""
        operator = task.operator
        sizes = [[1] * self._made(operator) for _ in task.inputs]
        began = time.perf_counter()
        self.flow.finished(task.id, operator, sizes, took)
        self.out.finished_s += time.perf_counter() - began
        if self.drifts:
            for place, (ref, outputs) in enumerate(zip(task.inputs, sizes, strict=True)):
                made = [OutputRef(task.id, place, number) for number in range(len(outputs))]
                self.origin.update(dict.fromkeys(made, self.origin[ref]))
        self.rates[operator].record(took, len(task.inputs), self.pools[operator].ready)
        self.ratios[operator].record(len(task.inputs), sum(map(len, sizes)))
        self.first.setdefault(operator, self.now)
        self.out.calls += 1
        return [
            OutputRef(task.id, place, number) for place, outputs in enumerate(sizes) for number in range(len(outputs))
        ]

    def _made(self, operator: int) -> int:
        """How many items come of one: a whole number that is right on average."""
        if operator + 1 == len(self.names):
            return 0
        ratio = self.job.stages[operator + 1].unit.weight / self.job.stages[operator].unit.weight
        if ratio == 1:
            return 1
        self.owed[operator] += ratio
        made = int(self.owed[operator] + 1e-9)
        self.owed[operator] -= made
        return made

    def _ready(self, place: SlotLocation) -> None:
        if not self.setting_up[place]:
            return
        self.setting_up[place] -= 1
        self.held[place] += 1
        operator = self.names.index(place.unit)
        self.setups[operator].record(self.stage_of[place.unit].setup_s)
        self.pools[operator].ready += 1
        self.flow.set_slots(operator, self.pools[operator].ready)
        self._start(operator)
        self._note()

    def _start(self, operator: int) -> None:
        pool, stage = self.pools[operator], self.job.stages[operator]
        while pool.queue and pool.busy < pool.ready + len(pool.leaving):
            task = pool.queue.popleft()
            pool.busy += 1
            took = sum(self._draw(stage, ref) for ref in task.inputs)
            self._later(took, "_ended", task, took)

    def _draw(self, stage: SimulatedOperator, ref: OutputRef) -> float:
        mean = stage.unit.seconds
        if stage.later_s is not None and self.origin[ref] * 2 >= self.job.splits:
            mean = stage.later_s
        if not stage.cv:
            return mean
        variance = math.log(1 + stage.cv**2)
        return mean * math.exp(self.order.gauss(-variance / 2, math.sqrt(variance)))

    # What the flow wants

    def _obey(self) -> None:
        while True:
            began = time.perf_counter()
            instructions = self.flow.advance()
            self.out.advance_s += time.perf_counter() - began
            if not instructions:
                break
            for one in instructions:
                if isinstance(one, Task):
                    self.pools[one.operator].queue.append(one)
                elif isinstance(one, Pull):
                    self._pull(one.count)
                elif isinstance(one, SplitFinished):
                    self._split_done()
                elif isinstance(one, Release):
                    self._released(one.refs)
            for operator in range(len(self.names)):
                self._start(operator)
        self.out.peak_items = max(self.out.peak_items, len(self.flow._batches))

    def _released(self, refs: Iterable[OutputRef]) -> None:
        for ref in refs:
            self.origin.pop(ref, None)

    def _pull(self, count: int) -> None:
        count = min(count, self.job.splits - self.pulled)
        numbers = range(self.pulled, self.pulled + count)
        self.pulled += count
        items = self.flow.pulled([(number, 1) for number in numbers], self.pulled == self.job.splits)
        if self.drifts:
            self.origin.update(zip(items, numbers, strict=True))
        if self.pulled == self.job.splits:
            self.out.exhausted_at = self.now

    def _split_done(self) -> None:
        self.splits_done += 1
        while (
            len(self.out.finished_at) < 100
            and self.splits_done >= (len(self.out.finished_at) + 1) * self.job.splits / 100
        ):
            self.out.finished_at.append(self.now)

    # What the decider wants

    def snapshot(self) -> AllocatorInput:
        """The run as the decider sees it."""
        weights = [1.0]
        for ratio in self.ratios[:-1]:
            weights.append(weights[-1] * ratio.value)
        backlog = [stage.items_waiting + inputs_in_flight(stage) for stage in self.flow.operators]
        units = []
        for number, stage in enumerate(self.job.stages):
            left = (self.job.splits - self.pulled) * weights[number]
            for above in range(number + 1):
                left += backlog[above] * (weights[number] / weights[above] if weights[above] else 0.0)
            running = inputs_in_flight(self.flow.operators[number])
            rate = self.rates[number]
            units.append(
                Measured(
                    unit=stage.unit,
                    seconds=rate.seconds,
                    samples=rate.samples,
                    cv=rate.cv,
                    wobble=rate.wobble,
                    shifted_at=self._shifted_at(number),
                    cached=rate.cached,
                    first_sample_at=self.first.get(number),
                    weight=weights[number],
                    left=left if self.job.counted or self.flow.exhausted else None,
                    setup_s=self.setups[number].seconds,
                    waiting=self.flow.operators[number].items_waiting,
                    running=running,
                    finished=self.flow.is_finished(number),
                )
            )
        under_way = self.setting_up + self.waiting
        return AllocatorInput(self.hosts, tuple(units), +self.held, +under_way, self.now)

    def _shifted_at(self, number: int) -> float | None:
        """When the rate of an operator last changed for good."""
        shifts = self.rates[number].shifts
        if shifts > self.shifts[number][0]:
            self.shifts[number] = (shifts, self.now)
        return self.shifts[number][1] if shifts else None

    def _decide(self) -> None:
        snapshot = self.snapshot()
        with _Collections() as collections:
            began = time.process_time()
            decision = self.balancing.allocate(self.specs, snapshot)
            self.out.decisions.append(time.process_time() - began - collections.seconds)
        self.out.quick.append(self.last is not None and decision.basis is self.last.basis)
        self.out.watched.append(self.watch())
        self.last = decision
        self.due = self.now + ASK_S
        if not self.events:
            self._later(decision.next_check_s, "_nothing")
        if decision.changes:
            self.out.changes += [(self.now, change.reason) for change in decision.changes]
            self._enact(+(snapshot.ready + snapshot.setting_up), decision.allocation)
        if self.out.right_asked_at is None and self._could(decision.allocation) >= 0.9 * self.best:
            self.out.right_asked_at = self.now

    def _nothing(self) -> None:
        """Time passes."""

    def _enact(self, stood: Allocation, target: Allocation) -> None:
        for place, slots in (stood - target).items():
            operator, cheap = self.names.index(place.unit), self.stage_of[place.unit].setup_s < 1
            self.out.dropped[place.unit] += 0 if self.flow.exhausted else slots
            for _ in range(slots):
                if cheap:
                    self.out.cheap_dropped += 1
                else:
                    self.out.thrown_away += 1
                self._drop(operator, place)
        for place, slots in (target - stood).items():
            self.waiting[place] += slots
            self.out.setups += slots
            self.out.asked[place.unit] += slots
        self._set_up()

    def _drop(self, operator: int, place: SlotLocation) -> None:
        for where in (self.waiting, self.setting_up):
            if where[place]:
                where[place] -= 1
                self.out.interrupted += where is self.setting_up and self.stage_of[place.unit].setup_s >= 1
                return
        pool = self.pools[operator]
        self.held[place] -= 1
        pool.ready -= 1
        self.flow.set_slots(operator, pool.ready)
        pool.leaving.append(place)
        if pool.busy <= pool.ready + len(pool.leaving) - 1:
            self._left(operator)
        self._note()

    def _left(self, operator: int) -> None:
        self.pools[operator].leaving.popleft()
        self._set_up()

    def _set_up(self) -> None:
        """Begin on the slots that wait for free resources: a host on which slots still drain has none."""
        if not self.waiting:
            return
        draining = {place.host for pool in self.pools for place in pool.leaving}
        for place, slots in list(self.waiting.items()):
            if place.host not in draining:
                del self.waiting[place]
                self.setting_up[place] += slots
                for _ in range(slots):
                    self._later(self.stage_of[place.unit].setup_s, "_ready", place)

    # What is written down

    def _could(self, allocation: Mapping[SlotLocation, int]) -> float:
        return throughput(self.job.truth(self.drifts and self.pulled * 2 > self.job.splits), count_slots(allocation))

    def _note(self) -> None:
        counts = {name: pool.ready for name, pool in zip(self.names, self.pools, strict=True)}
        if self.out.slots and self.out.slots[-1][0] == self.now:
            self.out.slots.pop()
        self.out.slots.append((self.now, counts))
        if self.out.right_at is None and throughput(self.job.truth(), counts) >= 0.9 * self.best:
            self.out.right_at = self.now
