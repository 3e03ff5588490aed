"""Hosts that are lost during a run, with notice and without: what is finished, by what a clairvoyant plan finishes.

``python -m benchmarks.losses [--hosts 1000] [--lost 0.3] [--json FILE]`` simulates an hour with the real flow, windows,
rates and balancing policy (see `benchmarks.simulation`). Half of the hosts that are lost give 30 s of notice. With
notice, no call begins there any more, calls that take longer are run again elsewhere, and results move. Without, what
ran there and the results that lay there are made again, from the source on.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.measure import called, machine, save, table, versions
from benchmarks.simulated import SimulatedJob, SimulatedOperator
from benchmarks.simulation import Simulation
from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.solve import solve
from dcurate.engine.flow import OutputRef, Task

#: Seconds that are simulated, seconds of notice, and the share of losses that give it.
HOUR_S, NOTICE_S, NOTICED = 3600.0, 30.0, 0.5
#: Seconds after which the hour counts once more, without the start.
WARM_S = 300.0


@dataclass(frozen=True)
class HostLoss:
    """A host that goes: when it is gone, and when it says so."""

    host: str
    gone_s: float
    notice_s: float | None


@dataclass(frozen=True)
class Redo:
    """A result that is made again: by the operators from the first to the one that made it."""

    maker: int
    operator: int
    last: int


@dataclass
class LossCounts:
    """What was lost.

    Attributes:
        calls: calls that were cut off.
        results: results that were made again; ``moved`` those that left a host in time.
    """

    calls: int = 0
    results: int = 0
    moved: int = 0


@dataclass
class _Slots:
    """The slots of an operator by place: idle ones, and how many leave when their call ends."""

    idle: list[SlotLocation] = field(default_factory=list)
    leaving: Counter[SlotLocation] = field(default_factory=Counter)


class LossySimulation(Simulation):
    """Runs a job on hosts of which some are lost.

    Args:
        job: to be run.
        losses: hosts that go.
    """

    def __init__(self, job: SimulatedJob, losses: Iterable[HostLoss]) -> None:
        super().__init__(job)
        self.lost = LossCounts()
        self.slots = [_Slots() for _ in job.stages]
        #: Calls that run, by their task or what they make again: where, and since when.
        self.at: dict[Task | Redo, tuple[SlotLocation, int]] = {}
        #: Where results lie, the operator that made them, and those that are gone by the task that made them.
        self.home: dict[OutputRef, str] = {}
        self.maker: dict[int, int] = {}
        self.missing: dict[int, set[OutputRef]] = {}
        self.blocked: defaultdict[int, list[Task]] = defaultdict(list)
        self.call_number = 0
        self.splits_at: list[tuple[float, int]] = []
        for loss in losses:
            if loss.notice_s is not None:
                self._later(loss.notice_s, "_noticed", loss.host)
            self._later(loss.gone_s, "_gone", loss)

    # Slots with places

    def _ready(self, place: SlotLocation) -> None:
        operator = self.names.index(place.unit)
        if self.setting_up[place]:
            self.slots[operator].idle.append(place)
        super()._ready(place)

    def _start(self, operator: int) -> None:
        pool, slots = self.pools[operator], self.slots[operator]
        while pool.queue and slots.idle:
            task: Task | Redo = pool.queue.popleft()
            if isinstance(task, Redo) and task.maker not in self.missing:
                continue
            absent = next((ref.task for ref in self._inputs(task) if ref in self.missing.get(ref.task, ())), None)
            if absent is not None and isinstance(task, Task):
                self.blocked[absent].append(task)
                continue
            pool.busy += 1
            place = slots.idle.pop()
            self.call_number += 1
            self.at[task] = place, self.call_number
            stage = self.job.stages[operator]
            took = sum(self._draw(stage, ref) for ref in self._inputs(task)) or self._draw(stage, OutputRef(0, 0, 0))
            self._later(took, "_ended_at", task, took, self.call_number)

    @staticmethod
    def _inputs(task: Task | Redo) -> tuple[OutputRef, ...]:
        return task.inputs if isinstance(task, Task) else ()

    def _ended_at(self, task: Task | Redo, took: float, call: int) -> None:
        place, current = self.at.get(task, (None, 0))
        if place is None or current != call:
            return  # its host is gone
        del self.at[task]
        operator = task.operator
        self.pools[operator].busy -= 1
        if isinstance(task, Redo):
            self._made_again(task)
        else:
            refs = self._report(task, took)
            self.home.update(dict.fromkeys(refs, place.host))
            self.maker[task.id] = operator
        slots = self.slots[operator]
        if slots.leaving[place]:
            slots.leaving[place] -= 1
            self.pools[operator].leaving.remove(place)
            self._set_up()
        else:
            slots.idle.append(place)
        self._start(operator)

    def _drop(self, operator: int, place: SlotLocation) -> None:
        for where in (self.waiting, self.setting_up):
            if where[place]:
                where[place] -= 1
                return
        pool, slots = self.pools[operator], self.slots[operator]
        self.held[place] -= 1
        pool.ready -= 1
        self.flow.set_slots(operator, pool.ready)
        if place in slots.idle:
            slots.idle.remove(place)
            self._set_up()
        else:
            slots.leaving[place] += 1
            pool.leaving.append(place)
        self._note()

    # Hosts that go

    def _noticed(self, host: str) -> None:
        self.hosts = tuple(alive for alive in self.hosts if alive.name != host)
        for places in (self.waiting, self.setting_up, self.held):
            for place, slots in list(places.items()):
                if place.host == host:
                    for _ in range(slots):
                        self._drop(self.names.index(place.unit), place)
                    del places[place]
        self.due = self.now

    def _gone(self, loss: HostLoss) -> None:
        self._noticed(loss.host)
        for task in [task for task, (place, _) in self.at.items() if place.host == loss.host]:
            place, _ = self.at.pop(task)
            operator = task.operator
            self.pools[operator].busy -= 1
            self.slots[operator].leaving[place] -= 1
            self.pools[operator].leaving.remove(place)
            self.lost.calls += 1
            if isinstance(task, Redo):
                self.pools[operator].queue.appendleft(task)  # type: ignore[arg-type]
            else:
                self.flow.failed(task.id, operator)
        there = [ref for ref, home in self.home.items() if home == loss.host]
        if loss.notice_s is not None:
            self.lost.moved += len(there)
            other = self.order.choice(self.hosts).name
            self.home.update(dict.fromkeys(there, other))
        else:
            self._lose(there)
        for operator in range(len(self.names)):
            self._start(operator)

    def _lose(self, refs: Iterable[OutputRef]) -> None:
        for ref in refs:
            self.lost.results += 1
            del self.home[ref]
            if ref.task not in self.missing:
                self.missing[ref.task] = set()
                self.pools[0].queue.appendleft(Redo(ref.task, 0, self.maker[ref.task]))  # type: ignore[arg-type]
            self.missing[ref.task].add(ref)

    def _made_again(self, redo: Redo) -> None:
        if redo.maker not in self.missing:
            return
        if redo.operator < redo.last:
            following = replace(redo, operator=redo.operator + 1)
            self.pools[following.operator].queue.appendleft(following)  # type: ignore[arg-type]
            self._start(following.operator)
            return
        host = self.order.choice(self.hosts).name
        self.home.update(dict.fromkeys(self.missing.pop(redo.maker), host))
        for task in self.blocked.pop(redo.maker, ()):
            self.pools[task.operator].queue.appendleft(task)
            self._start(task.operator)

    def _released(self, refs: Iterable[OutputRef]) -> None:
        super()._released(refs := list(refs))
        for ref in refs:
            self.home.pop(ref, None)
            if ref.task in self.missing:  # nobody needs it any more
                self.missing[ref.task].discard(ref)
                if not self.missing[ref.task]:
                    del self.missing[ref.task]

    def _split_done(self) -> None:
        super()._split_done()
        self.splits_at.append((self.now, self.splits_done))


def losses_of(hosts: tuple[Host, ...], share: float, seed: int) -> list[HostLoss]:
    """Choose the hosts that go within the hour, and when."""
    order = random.Random(seed)
    chosen = order.sample(hosts, round(share * len(hosts)))
    moments = [order.uniform(0.0, HOUR_S) for _ in chosen]
    return [
        HostLoss(host.name, gone_s, max(0.0, gone_s - NOTICE_S) if place < NOTICED * len(chosen) else None)
        for place, (host, gone_s) in enumerate(zip(chosen, moments, strict=True))
    ]


def clairvoyant(job: SimulatedJob, losses: Iterable[HostLoss], start: float) -> float:
    """Return the splits that a plan which knows all losses finishes from a moment on, always at the optimum."""
    gone = sorted(loss.gone_s for loss in losses)
    names = [loss.host for loss in sorted(losses, key=lambda loss: loss.gone_s)]
    hosts = list(job.hosts)
    total = 0.0
    for number, (begin, end) in enumerate(pairwise([0.0, *gone, HOUR_S])):
        if number:
            hosts = [host for host in hosts if host.name != names[number - 1]]
        solution = solve(job.truth(), tuple(hosts))
        assert solution is not None
        total += solution.throughput * max(0.0, end - max(begin, start))
    return total


def jobs(hosts: int, seed: int) -> Iterator[tuple[str, SimulatedJob]]:
    """The jobs that are tried: CPUs alone, models on GPUs with a long set-up, and a fan-out."""
    shapes: Mapping[str, tuple[SimulatedOperator, ...]] = {
        "filters, 1:3:2": tuple(
            SimulatedOperator(SchedulingUnit(name, 1.0, 0.0, 0.0, seconds), 0.3, 0.0)
            for name, seconds in (("read", 8.0), ("score", 24.0), ("write", 16.0))
        ),
        "model on GPUs, set-up 60 s": (
            SimulatedOperator(SchedulingUnit("read", 1.0, 0.0, 0.0, 10.0), 0.3, 0.0),
            SimulatedOperator(SchedulingUnit("embed", 1.0, 1.0, 0.0, 15.0), 0.3, 60.0),
            SimulatedOperator(SchedulingUnit("write", 1.0, 0.0, 0.0, 20.0), 0.3, 0.0),
        ),
        "fan-out 1 to 5": (
            SimulatedOperator(SchedulingUnit("cut", 1.0, 0.0, 0.0, 20.0), 0.3, 0.0),
            SimulatedOperator(SchedulingUnit("judge", 1.0, 0.0, 0.0, 20.0, 5.0), 0.6, 5.0),
        ),
    }
    machines = tuple(Host(f"host-{number}", 8.0, (Gpu("gpu0", 80e9),)) for number in range(hosts))
    for name, stages in shapes.items():
        job = SimulatedJob(stages, machines, splits=1, seed=seed)
        yield name, replace(job, splits=round(1.2 * HOUR_S * job.best()))


def figures_of(name: str, job: SimulatedJob, share: float, seed: int) -> dict[str, Any]:
    """Simulate an hour of a job."""
    losses = losses_of(job.hosts, share, seed)
    simulation = LossySimulation(job, losses)
    outcome = simulation.run(until_s=HOUR_S)
    warm = next(count for moment, count in reversed(simulation.splits_at) if moment <= WARM_S)
    done = simulation.splits_done
    return {
        "job": name,
        "seed": seed,
        "hosts": len(job.hosts),
        "hosts_lost": len(losses),
        "splits": done,
        "of_clairvoyant": done / clairvoyant(job, losses, 0.0),
        "of_clairvoyant_warm": (done - warm) / clairvoyant(job, losses, WARM_S),
        "calls": outcome.calls,
        "decision_ms": 1000 * sum(outcome.decisions) / len(outcome.decisions),
        **{f"lost_{key}": value for key, value in vars(simulation.lost).items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.losses", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=1000, metavar="N", help="hosts at the beginning")
    parser.add_argument(
        "--lost", type=float, default=0.3, metavar="SHARE", help="share of them that is lost in the hour"
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="hours of each job, with other losses")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        for name, job in jobs(options.hosts, seed):
            rows.append(figures_of(name, job, options.lost, seed))
            print(rows[-1], flush=True)
    header = ["job", "splits", "% of clairvoyant", "after 5 min", "calls cut off", "results remade", "moved"]
    lines = [
        [row["job"], row["splits"], 100 * row["of_clairvoyant"], 100 * row["of_clairvoyant_warm"], row["lost_calls"],
         row["lost_results"], row["lost_moved"]] for row in rows
    ]  # fmt: skip
    print(table(header, lines))
    save(options.json, {"machine": machine(), "versions": versions("dcurate"), "jobs": rows})


if __name__ == "__main__":
    called(main)
