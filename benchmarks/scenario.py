"""Scenarios as values: operators, hosts and the optimum, read from JSON; and what it takes to run one in less time.

Times are scaled: every duration and every set-up by the same factor, so that the right counts stay the same.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

from benchmarks.hosts import WORKER_MEMORY, HostSpec
from benchmarks.sleeping import CallDurations, OperatorWork, Sleeping, SleepingSource
from dcurate import Pipeline, Resources

#: What the engine costs: CPU seconds of driver, scheduler and worker for each call, the harness's own included, and the
#: share of the machine that this may take before it, and not the allocation, decides the throughput.
CALL_CPU_S, CPU_SHARE = 0.0025, 0.25

#: Seconds from the end of a call to the begin of the next one in its slot, and the share of the optimum that these gaps
#: may cost where operators are fully busy. A model's call takes a second, so scaled times must not become so short
#: that gaps matter which in truth do not.
GAP_S, GAP_SHARE = 0.001, 0.01

#: Bytes of all that one operator makes of one split, so that there is something for back-pressure to hold back.
SPLIT_BYTES = 4096


@dataclass(frozen=True)
class Step:
    """An operator of a scenario.

    Args:
        seconds: for a task, on average.
        fanout: tasks for each task of the source.
        gpu_memory_gb: counted only where ``gpus`` is 0, as a stage may ask for one of them.
        cv: standard deviation of the duration by its mean.
    """

    name: str
    seconds: float
    fanout: float = 1.0
    cpus: float = 1.0
    gpus: float = 0.0
    gpu_memory_gb: float = 0.0
    setup_s: float = 0.0
    cv: float = 0.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        known = {name: value for name, value in values.items() if name != "seconds_per_task"}
        return cls(seconds=values["seconds_per_task"], **known)

    @property
    def resources(self) -> Resources:
        return Resources(self.cpus, self.gpus, 0.0 if self.gpus else self.gpu_memory_gb)

    @property
    def on_gpu(self) -> bool:
        return self.resources.requires_gpu


@dataclass(frozen=True)
class Phase:
    """A part of the input: its share of the splits, each operator's seconds for a task, and the optimum for it.

    Args:
        counts: slots of each operator at the optimum.
        rate: source tasks a second at the optimum, unscaled.
    """

    share: float
    seconds: tuple[float, ...]
    counts: tuple[int, ...]
    rate: float


@dataclass(frozen=True)
class Scenario:
    """A pipeline, the hosts that it runs on, and the best that can be had of them.

    Args:
        hosts: (CPUs, GPUs, GB of each GPU) of each.
        phases: one, unless rates change midway; none for what cannot run.
        splits: least number of source tasks of a run: where rates change, as many as the scenario says, for what a
            change costs is a share of the whole.
    """

    name: str
    steps: tuple[Step, ...]
    hosts: tuple[tuple[int, int, float], ...]
    phases: tuple[Phase, ...]
    splits: int = 8

    #: Modules that the stages need, which hosts import first.
    modules: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        steps = tuple(map(Step.from_dict, values["stages"]))
        whole = {"tasks": 1, "seconds_per_task": {}, "optimum": values["optimum"]}
        listed = values.get("phases", [whole]) if values["feasible"] else []
        tasks = sum(phase["tasks"] for phase in listed)
        phases = tuple(
            Phase(
                phase["tasks"] / tasks,
                tuple(phase["seconds_per_task"].get(step.name, step.seconds) for step in steps),
                tuple(phase["optimum"]["workers"][step.name] for step in steps),
                phase["optimum"]["tasks_per_s"],
            )
            for phase in listed
        )
        hosts = tuple((node["cpus"], node["gpus"], node["gpu_memory_gb"]) for node in values["nodes"])
        return cls(values["name"], steps, hosts, phases, tasks if len(phases) > 1 else 8)

    @property
    def seconds_for_one(self) -> float:
        """Seconds that the optimum takes for one split on average, unscaled."""
        return sum(phase.share / phase.rate for phase in self.phases)

    def rate_of(self, counts: Sequence[float], phase: int = 0) -> list[float]:
        """Source tasks a second that so many slots of each operator can follow, unscaled.

        Examples:
            >>> steps = (Step("a", 0.5), Step("b", 2.0, fanout=3))
            >>> Scenario("s", steps, (), (Phase(1.0, (0.5, 2.0), (1, 6), 1.0),)).rate_of([1, 6])
            [2.0, 1.0]
        """
        seconds = self.phases[phase].seconds
        return [count / (each * step.fanout) for count, each, step in zip(counts, seconds, self.steps, strict=True)]

    @property
    def ahead(self) -> int:
        """Splits of which the batches may stand between two operators: a few for each slot, as memory allows in truth.

        Without a bound the source would be far ahead at the end of a short run, and nothing would be steady.
        """
        slots = [
            count / step.fanout for phase in self.phases for count, step in zip(phase.counts, self.steps, strict=True)
        ]
        return 32 + math.ceil(8 * max(slots, default=1.0))

    def memory_share(self) -> float:
        """The executor's setting by which no more stands between operators."""
        workers = sum(spec.workers for spec in self.host_specs())
        return SPLIT_BYTES * self.ahead * max(1, len(self.steps) - 1) / (workers * WORKER_MEMORY)

    def host_specs(self) -> list[HostSpec]:
        """Hosts with as many CPU workers as any sensible allocation has CPU slots."""
        on_cpus = [place for place, step in enumerate(self.steps) if not step.on_gpu]
        most = [max((phase.counts[place] for phase in self.phases), default=1) for place in on_cpus]
        least = min((self.steps[place].cpus for place in on_cpus), default=1.0)
        cpu_workers = math.ceil((1.5 * sum(most) + 4 * len(on_cpus)) / len(self.hosts))
        return [
            HostSpec(f"host-{number}", cpus, max(1, min(cpu_workers, int(cpus / least))), gpus, gigabytes * 1e9)
            for number, (cpus, gpus, gigabytes) in enumerate(self.hosts)
        ]

    def pipeline(self, splits: int, scale: float, folder: str, num_workers: int | None = None) -> Pipeline:
        """The scenario as a pipeline of so many splits.

        Args:
            folder: for the diaries.
            num_workers: slots of each operator, where they are to be pinned.
        """
        begins, done = [], 0.0
        for phase in self.phases[:-1]:
            done += phase.share
            begins.append(round(splits * done))
        fanouts = [Fraction(step.fanout).limit_denominator(1000) for step in self.steps]
        stages: list[SleepingSource | Sleeping] = []
        for place, step in enumerate(self.steps):
            seconds = tuple(phase.seconds[place] * scale for phase in self.phases) or (step.seconds * scale,)
            ratio = fanouts[place + 1] / fanouts[place] if place + 1 < len(fanouts) else Fraction(0)
            pace = CallDurations(seconds, step.cv, f"{self.name}/{step.name}", tuple(begins))
            load = int(SPLIT_BYTES / fanouts[place + 1]) if ratio else 0
            work = OperatorWork(place, pace, ratio, load, step.setup_s * scale, folder)
            plain = Sleeping(work, step.name, step.resources)
            stages.append(plain if place else SleepingSource(work, splits, step.name, step.resources))
        return Pipeline(self.name, stages=[stage.with_(num_workers=num_workers) for stage in stages])


def least_scale(scenario: Scenario) -> tuple[float, str]:
    """The smallest time scale at which the allocation decides, and not the engine's overhead; and what asks for it.

    Examples:
        >>> one = Scenario("s", (Step("a", 0.25),), (), (Phase(1.0, (0.25,), (1,), 4.0),))
        >>> scale, why = least_scale(one)
        >>> round(scale, 2), why
        (0.4, 'gaps between calls of a')
    """
    asked = [(0.0, "nothing")]
    for number, phase in enumerate(scenario.phases):
        calls = phase.rate * sum(step.fanout for step in scenario.steps)
        asked.append((calls * CALL_CPU_S / (CPU_SHARE * (os.cpu_count() or 1)), f"{calls:.0f} calls a second"))
        rates = scenario.rate_of(phase.counts, number)
        for step, seconds, rate in zip(scenario.steps, phase.seconds, rates, strict=True):
            slack = rate / ((1 - GAP_SHARE) * phase.rate) - 1
            asked.append((GAP_S / (seconds * slack), f"gaps between calls of {step.name}"))
    return max(asked)


def load(path: Path) -> list[Scenario]:
    """The scenarios of a file."""
    given = json.loads(path.read_text())
    if not (
        isinstance(given, list) and all({"name", "nodes", "stages", "feasible"} <= set(values) for values in given)
    ):
        raise SystemExit(f"{path}: not a list of scenarios, each with name, nodes, stages and feasible")
    return [Scenario.from_dict(values) for values in given]


#: The example of NeMo Curator's documentation: 4, 1 and 2 tasks a second, 7 GPUs.
EXAMPLE = Scenario(
    "example_4_1_2",
    (Step("stage_1", 0.25, gpus=1), Step("stage_2", 1.0, gpus=1), Step("stage_3", 0.5, gpus=1)),
    ((16, 7, 80),),
    (Phase(1.0, (0.25, 1.0, 0.5), (1, 4, 2), 4.0),),
)
