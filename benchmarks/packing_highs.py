"""The allocator beside HiGHS, an exact solver of mixed-integer programs: throughput and CPU time on the same cases.

``python -m benchmarks.packing_highs --scenarios FILE [--random FILE] [--hosts 10,100,1000] [--json FILE]``. Needs
highspy, which dcurate itself does not. See README.md here.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import highspy

from benchmarks.balance import cases, many_hosts
from benchmarks.measure import called, machine, save, table, versions, whole_sizes_given
from dcurate.engine.allocate.allocation import Host, SchedulingUnit, throughput
from dcurate.engine.allocate.solve import solve

#: Slots are counted as whole if they miss that by this much.
CLOSE = 1e-6


def exact(units: Sequence[SchedulingUnit], hosts: Sequence[Host], limit_s: float) -> dict[str, int] | None:
    """Slots of each unit of the greatest throughput, by a program with integer variables for every host and GPU.

    A GPU is either shared by slots that take fractions of it, or belongs to slots that take whole GPUs.

    Args:
        limit_s: seconds after which the best that was found counts.

    Returns:
        None if no allocation was found.
    """
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    model.setOptionValue("time_limit", limit_s)
    rate = model.addVariable(0, highspy.kHighsInf)
    slots: dict[str, list[Any]] = {unit.name: [] for unit in units}
    for host in hosts:
        for name, variables in _on_host(model, units, host).items():
            slots[name] += variables
    for unit in units:
        if not slots[unit.name]:
            return None
        model.addConstr(sum(slots[unit.name]) - unit.seconds * unit.weight * rate >= 0)
        model.addConstr(sum(slots[unit.name]) >= 1)
    model.maximize(rate)
    if model.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return {name: round(sum(map(model.val, variables)) + CLOSE) for name, variables in slots.items()}


def _on_host(model: Any, units: Sequence[SchedulingUnit], host: Host) -> dict[str, list[Any]]:
    """Variables for the slots of each unit on a host, within its CPUs and GPUs."""
    integer = highspy.HighsVarType.kInteger
    slots: dict[str, list[Any]] = {}
    cpus: list[tuple[float, Any]] = []
    whole: list[tuple[int, Any]] = []
    shared = [model.addVariable(0, 1, type=integer) for _ in host.gpus]
    for first, second in itertools.pairwise(shared):
        model.addConstr(first - second >= 0)  # GPUs of a host are alike
    taken: list[list[tuple[SchedulingUnit, Any]]] = [[] for _ in host.gpus]
    for unit in units:
        if unit.on_gpu and unit.gpus < 1:
            variables = [model.addVariable(0, highspy.kHighsInf, type=integer) for _ in host.gpus]
            for each, variable in zip(taken, variables, strict=True):
                each.append((unit, variable))
        else:
            wide = math.ceil(unit.gpus)
            fits = not wide or (len(host.gpus) >= wide and unit.gpu_memory <= wide * host.gpus[0].memory)
            variables = [model.addVariable(0, highspy.kHighsInf, type=integer)] if fits else []
            whole += [(wide, variable) for variable in variables if wide]
        slots[unit.name] = variables
        cpus += [(unit.cpus, variable) for variable in variables]
    if cpus:
        model.addConstr(sum(share * variable for share, variable in cpus) <= host.cpus)
    for gpu, is_shared, each in zip(host.gpus, shared, taken, strict=True):
        if each:
            model.addConstr(sum(unit.gpus * variable for unit, variable in each) - is_shared <= 0)
            memory = sum(unit.gpu_memory / 1e9 * variable for unit, variable in each)
            model.addConstr(memory - gpu.memory / 1e9 * is_shared <= 0)
    if whole:
        model.addConstr(sum(wide * variable for wide, variable in whole) + sum(shared) <= len(host.gpus))
    return slots


def compared(
    name: str, units: Sequence[SchedulingUnit], hosts: Sequence[Host], optimum: float, limit_s: float
) -> dict[str, Any]:
    """Throughput of both as a share of the best known, and the CPU seconds that each took."""
    began = time.process_time()
    own = solve(units, hosts)
    own_s = time.process_time() - began
    began = time.process_time()
    counts = exact(units, hosts, limit_s)
    highs_s = time.process_time() - began
    found = [own.throughput if own else 0.0, throughput(units, counts) if counts else 0.0]
    best = max([optimum, *found]) or 1.0
    shares = [one / best if best != 1.0 or any(found) else 1.0 for one in found]
    return {
        "name": name,
        "hosts": len(hosts),
        "best": max([optimum, *found]),
        "dcurate": {"share": shares[0], "cpu_s": own_s},
        "highs": {"share": shares[1], "cpu_s": highs_s},
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All comparisons."""
    given = [*cases(options.scenarios), *(cases(options.random) if options.random else [])]
    small = [compared(case.name, case.units, case.hosts, case.optimum, options.limit) for case in given]
    large = []
    for count in map(int, filter(None, options.hosts.split(","))):
        case = many_hosts(count)
        large.append(compared(case.name, case.units, case.hosts, 0.0, options.limit))
    return {
        "machine": machine(),
        "versions": versions("highspy"),
        "limit_s": options.limit,
        "small": small,
        "many_hosts": large,
    }


def rows_of(figures: dict[str, Any]) -> list[list[Any]]:
    """A line for all small cases, and one for each number of hosts."""
    rows = []
    for which in ("dcurate", "highs"):
        shares = [100 * one[which]["share"] for one in figures["small"]]
        seconds = [one[which]["cpu_s"] for one in figures["small"]]
        rows.append(
            [
                f"{len(shares)} scenarios and instances, {which}",
                min(shares),
                statistics.mean(shares),
                statistics.median(seconds),
                max(seconds),
            ]
        )
    for one in figures["many_hosts"]:
        for which in ("dcurate", "highs"):
            share, seconds = 100 * one[which]["share"], one[which]["cpu_s"]
            rows.append([f"{one['name']}, {which}", share, share, seconds, seconds])
    return rows


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=Path, required=True, help="as those of benchmarks.balance")
    parser.add_argument("--random", type=Path, help="more of them")
    parser.add_argument("--hosts", type=whole_sizes_given, default="10,100,1000", help="hosts with 8 GPUs each")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that HiGHS may take for a case")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = run(options)
    header = ["", "least % of best", "mean % of best", "median CPU-s", "most CPU-s"]
    print(table(header, rows_of(figures)))
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
