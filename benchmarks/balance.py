"""How good the balancer's allocations are, from true rates and after a blind start, and how long a decision takes.

``python -m benchmarks.balance --scenarios FILE [--random FILE] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import called, machine, save, table, versions
from dcurate.engine.allocate.allocation import (
    Allocation,
    Gpu,
    Host,
    SchedulingUnit,
    SlotLocation,
    Solution,
    count_slots,
    throughput,
)
from dcurate.engine.allocate.explain import explain_infeasible
from dcurate.engine.allocate.solve import solve, solve_in_place

GB = 1e9


@dataclass(frozen=True)
class BalanceCase:
    """Units, hosts, and the best that can be had of them.

    Args:
        optimum: source splits a second; 0 where not even one slot of each unit fits.
        before: units with other rates whose best allocation stands when this case begins, if it follows on one.
    """

    name: str
    units: tuple[SchedulingUnit, ...]
    hosts: tuple[Host, ...]
    optimum: float
    before: tuple[SchedulingUnit, ...] = ()


# Reading


def cases(file: Path) -> list[BalanceCase]:
    """The scenarios of a file, each phase of one whose rates change for itself."""
    given = json.loads(file.read_text())
    if not (
        isinstance(given, list) and all({"name", "nodes", "stages", "feasible"} <= set(values) for values in given)
    ):
        raise SystemExit(f"{file}: not a list of scenarios, each with name, nodes, stages and feasible")
    return [case for values in given for case in _phases(values)]


def _phases(values: Mapping[str, Any]) -> Iterator[BalanceCase]:
    before: tuple[SchedulingUnit, ...] = ()
    hosts = tuple(_host(number, node) for number, node in enumerate(values["nodes"]))
    phases = values.get("phases", [{"seconds_per_task": {}, "optimum": values["optimum"]}])
    for number, phase in enumerate(phases):
        units = tuple(_unit(stage, phase["seconds_per_task"]) for stage in values["stages"])
        name = values["name"] + (f", phase {number + 1}" if len(phases) > 1 else "")
        yield BalanceCase(name, units, hosts, _optimum(units, phase["optimum"]) if values["feasible"] else 0.0, before)
        before = units


def _unit(stage: Mapping[str, Any], seconds: Mapping[str, float]) -> SchedulingUnit:
    return SchedulingUnit(
        stage["name"],
        cpus=stage["cpus"],
        gpus=stage["gpus"],
        gpu_memory=stage["gpu_memory_gb"] * GB,
        seconds=seconds.get(stage["name"], stage["seconds_per_task"]),
        weight=stage["fanout"],
    )


def _host(number: int, node: Mapping[str, Any]) -> Host:
    gpus = tuple(Gpu(f"gpu{gpu}", node["gpu_memory_gb"] * GB) for gpu in range(node["gpus"]))
    return Host(f"host{number}", node["cpus"], gpus)


def _optimum(units: Sequence[SchedulingUnit], given: Mapping[str, Any]) -> float:
    """That of the slots that the file gives, as it rounds the rate."""
    exact = throughput(units, given["workers"])
    if abs(exact - given["tasks_per_s"]) > 1e-5 * exact:
        raise ValueError(f"slots {given['workers']} give {exact:g} tasks a second, not {given['tasks_per_s']:g}")
    return exact


# Judging


def share(solution: Solution | None, case: BalanceCase) -> float:
    """The throughput of a solution as a share of the optimum; 1 where rightly there is none."""
    if solution is None or case.optimum == 0:
        return float(solution is None and case.optimum == 0)
    return solution.throughput / case.optimum


def blind_starts(case: BalanceCase) -> list[Allocation]:
    """Allocations by one who knows no rates: one slot each; the cluster filled as if all units took the same time."""
    ones = solve([replace(unit, fixed=1) for unit in case.units], case.hosts)
    filled = solve([replace(unit, seconds=1.0, weight=1.0) for unit in case.units], case.hosts)
    before = solve(case.before, case.hosts) if case.before else None
    return [start.allocation for start in (ones, filled, before) if start is not None]


def moved(before: Mapping[SlotLocation, int], after: Allocation) -> int:
    """Slots that stood in one place and now stand in another, apart from those that were only dropped or added."""
    stay: dict[str, int] = {}
    for place, slots in before.items():
        stay[place.unit] = stay.get(place.unit, 0) + min(slots, after[place])
    now = count_slots(after)
    return sum(min(slots, now.get(unit, 0)) - stay[unit] for unit, slots in count_slots(before).items())


def figures_of(case: BalanceCase) -> dict[str, Any]:
    """What the balancer makes of a case.

    After a blind start the better of an allocation that moves nothing and one that may: of both the share of the
    optimum, and slots that were moved, from the worse start.
    """
    fresh = solve(case.units, case.hosts)
    figures: dict[str, Any] = {
        "name": case.name,
        "optimum": case.optimum,
        "true_rates": share(fresh, case),
        "counts": fresh.counts if fresh else {},
        "refusal": explain_infeasible(case.units, case.hosts),
    }
    in_place, repaired, moves = [figures["true_rates"]], [figures["true_rates"]], [0]
    for start in blind_starts(case):
        in_place.append(share(solve_in_place(case.units, case.hosts, start), case))
        restore = solve(case.units, case.hosts, start)
        repaired.append(share(restore, case))
        moves.append(moved(start, restore.allocation) if restore and repaired[-1] > in_place[-1] else 0)
    better = min(map(max, zip(in_place, repaired, strict=True)))
    return figures | {"blind_start": better, "blind_start_unmoved": min(in_place), "moved": max(moves)}


# Many hosts


def many_hosts(count: int, seed: int = 0) -> BalanceCase:
    """Hosts with 8 GPUs and a pipeline of 11 units: on CPUs, on parts of a GPU, on one, two and four."""
    chance = random.Random(seed)
    shapes: list[tuple[str, float, float, float]] = [
        ("read", 1, 0, 0),
        ("decode", 2, 0, 0),
        ("transcode", 6, 0, 0),
        ("clip_embed", 1, 0.25, 6),
        ("aesthetic", 1, 0.1, 2),
        ("safety", 1, 0.1, 2),
        ("caption", 2, 0.5, 36),
        ("ocr", 1, 1, 60),
        ("rewrite", 2, 2, 120),
        ("judge", 4, 4, 280),
        ("write", 0.5, 0, 0),
    ]
    units = tuple(
        SchedulingUnit(name, cpus, gpus, memory * GB, seconds=round(chance.uniform(0.1, 3.0), 3))
        for name, cpus, gpus, memory in shapes
    )
    node = {"cpus": 96, "gpus": 8, "gpu_memory_gb": 80}
    return BalanceCase(f"{count} hosts", units, tuple(_host(number, node) for number in range(count)), 0.0)


def timed(decide: Callable[[], Solution | None], repeat: int) -> tuple[float, Solution]:
    """Median seconds of a decision, and what was decided."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        solution = decide()
        seconds.append(time.perf_counter() - began)
    assert solution is not None
    return statistics.median(seconds), solution


def decision_times(count: int, repeat: int) -> dict[str, Any]:
    """Seconds of a decision for many hosts: empty ones, and ones that stand as was right before rates drifted."""
    case = many_hosts(count)
    seconds, solution = timed(lambda: solve(case.units, case.hosts), repeat)
    drifted = [replace(unit, seconds=unit.seconds * (0.8 + 0.04 * number)) for number, unit in enumerate(case.units)]
    again_s, restore = timed(lambda: solve(drifted, case.hosts, solution.allocation), repeat)
    place_s, in_place = timed(lambda: solve_in_place(drifted, case.hosts, solution.allocation), repeat)
    return {
        "hosts": count,
        "units": len(case.units),
        "slots": solution.allocation.total(),
        "seconds": seconds,
        "share_of_bound": solution.throughput / solution.bound,
        "after_drift": {"seconds": again_s, "moved": moved(solution.allocation, restore.allocation)},
        "after_drift_in_place": {"seconds": place_s, "share": in_place.throughput / restore.throughput},
    }


# All of it


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The figures that were asked for; each is printed when it is known."""
    scenarios = [figures_of(case) for case in cases(options.scenarios)]
    print(_table("scenario", scenarios))
    for one in scenarios:
        if one["refusal"]:
            print(f"{one['name']}: {one['refusal']}")
    others = [figures_of(case) for case in cases(options.random)] if options.random else []
    if others:
        print("\n" + _table("random instance", others))
    times = decision_times(options.hosts, options.repeat)
    summary = {
        "true_rates_min": min(one["true_rates"] for one in scenarios),
        "blind_start_min": min(one["blind_start"] for one in scenarios),
        "random_mean": statistics.mean(one["true_rates"] for one in others) if others else None,
        "random_min": min(one["true_rates"] for one in others) if others else None,
        "random_blind_start_min": min(one["blind_start"] for one in others) if others else None,
        f"decision_seconds_{options.hosts}_hosts": times["seconds"],
    }
    print("\n" + table(["summary", "figure"], [[name.replace("_", " "), value] for name, value in summary.items()]))
    drift, place = times["after_drift"], times["after_drift_in_place"]
    rows = [
        ["empty hosts", times["seconds"], None, times["share_of_bound"]],
        ["after rates drifted", drift["seconds"], drift["moved"], None],
        ["the same, nothing moved", place["seconds"], 0, None],
    ]
    header = f"a decision for {times['hosts']:,} hosts, {times['slots']:,} slots"
    print("\n" + table([header, "s", "moved", "of fluid bound"], rows))
    about = {"machine": machine(), "versions": versions("dcurate")}
    return about | {"summary": summary, "many_hosts": times, "scenarios": scenarios, "random": others}


def _table(what: str, cases: Sequence[Mapping[str, Any]]) -> str:
    names = ("true_rates", "blind_start", "blind_start_unmoved")
    rows = [[one["name"], one["optimum"], *(100 * one[name] for name in names), one["moved"]] for one in cases]
    header = [what, "optimum/s", "true rates %", "blind start %", "nothing moved %", "slots moved"]
    return table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.balance", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", type=Path, required=True, metavar="FILE", help="JSON: stages, nodes, optimum")
    parser.add_argument("--random", type=Path, metavar="FILE", help="more of the same, of which the mean counts")
    parser.add_argument("--hosts", type=int, default=1000, help="hosts of the decision that is timed")
    parser.add_argument("--repeat", type=int, default=5, help="decisions of which the median counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    save(options.json, run(options))


if __name__ == "__main__":
    called(main)
