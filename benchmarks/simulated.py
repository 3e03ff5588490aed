"""Jobs that are simulated: operators as they truly are, hosts, and how many splits there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit
from dcurate.engine.allocate.solve import solve


@dataclass(frozen=True)
class SimulatedOperator:
    """An operator as it truly is; its `unit` holds the true seconds an item and items a split.

    Args:
        unit: what it asks for, and the truth about it.
        cv: standard deviation of its durations over their mean.
        setup_s: seconds to set a slot up.
        later_s: seconds an item in the second half of the input, if they differ.
    """

    unit: SchedulingUnit
    cv: float = 0.0
    setup_s: float = 0.0
    later_s: float | None = None


@dataclass(frozen=True)
class SimulatedJob:
    """What is simulated.

    Args:
        stages: in order.
        hosts: the machines.
        splits: of the source.
        counted: whether the driver knows how many splits there are.
        seed: of the durations.
    """

    stages: tuple[SimulatedOperator, ...]
    hosts: tuple[Host, ...]
    splits: int
    counted: bool = False
    seed: int = 0

    def truth(self, second_half: bool = False) -> tuple[SchedulingUnit, ...]:
        """The units as they truly are."""
        if not second_half:
            return tuple(stage.unit for stage in self.stages)
        return tuple(replace(stage.unit, seconds=stage.later_s or stage.unit.seconds) for stage in self.stages)

    def best(self, second_half: bool = False) -> float:
        """The greatest throughput that there can be, in splits a second."""
        solution = solve(self.truth(second_half), self.hosts)
        assert solution is not None, "the job does not fit"
        return solution.throughput

    def in_time(self, scale: float) -> SimulatedJob:
        """The job with all durations and set-ups multiplied."""
        stages = (
            replace(
                stage,
                unit=replace(stage.unit, seconds=scale * stage.unit.seconds),
                setup_s=scale * stage.setup_s,
                later_s=None if stage.later_s is None else scale * stage.later_s,
            )
            for stage in self.stages
        )
        return replace(self, stages=tuple(stages))


def job_of(scenario: Mapping[str, Any], **settings: Any) -> SimulatedJob:
    """A job from a scenario as written in ``scenarios.json``."""
    later = scenario["phases"][1]["seconds_per_task"] if "phases" in scenario else {}
    stages = tuple(
        SimulatedOperator(
            SchedulingUnit(
                *(one["name"], float(one["cpus"]), float(one["gpus"]), one["gpu_memory_gb"] * 1e9),
                *(float(one["seconds_per_task"]), float(one["fanout"])),
            ),
            *(float(one["cv"]), float(one["setup_s"]), later.get(one["name"])),
        )
        for one in scenario["stages"]
    )
    hosts = tuple(
        Host(f"host-{number}", float(one["cpus"]), _gpus(one["gpus"], one["gpu_memory_gb"] * 1e9))
        for number, one in enumerate(scenario["nodes"])
    )
    return SimulatedJob(stages, hosts, **{"splits": scenario["num_tasks"], **settings})


def _gpus(number: int, memory: float) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"gpu{place}", memory) for place in range(number))
