"""How the engine's deciders scale: decision time, the driver's own time and memory, throughput, in simulated time.

``python -m benchmarks.scale [--hosts 10,100,1000] [--partitions 1000000] [--scenarios FILE] [--json FILE]``. The real
decider, flow, windows and rates run a cluster that is not there (see `benchmarks.simulation`). See README.md here.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any

import psutil

from benchmarks.measure import MB, called, machine, save, table, versions
from benchmarks.simulated import SimulatedJob, SimulatedOperator, job_of
from benchmarks.simulation import Simulation, SimulationResult
from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit

#: Operators of the pipeline that is run at several scales: name, CPUs, GPUs, seconds, cv, setup seconds.
OPERATORS = (
    ("read", 1.0, 0.0, 0.4, 0.5, 0.0),
    ("clean", 1.0, 0.0, 1.2, 1.0, 0.0),
    ("embed", 1.0, 0.25, 0.5, 0.3, 20.0),
    ("classify", 2.0, 1.0, 1.0, 0.5, 60.0),
    ("write", 0.5, 0.0, 0.2, 0.3, 0.0),
)

#: Splits beyond which a smaller cluster is not asked to go, for each host: enough for minutes of steady state.
SPLITS_A_HOST = 3000

#: Scenarios that are simulated where a file of them is given.
SCENARIOS = (
    "rates_drift_midway",
    "heavy_tailed_durations",
    "fast_upstream_robs_slow_starter",
    "model_load_60s_short_job",
)


def cluster(hosts: int, splits: int) -> SimulatedJob:
    """The pipeline on hosts of 96 CPUs and 8 GPUs each."""
    stages = tuple(
        SimulatedOperator(SchedulingUnit(name, cpus=cpus, gpus=gpus, seconds=seconds), cv, setup_s)
        for name, cpus, gpus, seconds, cv, setup_s in OPERATORS
    )
    gpus = tuple(Gpu(f"gpu{number}", 80e9) for number in range(8))
    return SimulatedJob(stages, tuple(Host(f"host-{number}", 96.0, gpus) for number in range(hosts)), splits)


def at_scale(hosts: int, partitions: int) -> dict[str, Any]:
    """One size: what it took to decide and to drive, and what came of it."""
    splits = min(partitions, SPLITS_A_HOST * hosts)
    job = cluster(hosts, splits)
    gc.collect()
    process = psutil.Process()
    before, began = process.memory_info().rss, time.perf_counter()
    simulation = Simulation(job, watch=lambda: process.memory_info().rss)
    outcome = simulation.run()
    solved = [seconds for seconds, quick in zip(outcome.decisions, outcome.quick, strict=True) if not quick]
    return {
        "hosts": hosts,
        "partitions": splits,
        "slots": sum(outcome.slots[-1][1].values()),
        "decisions": len(outcome.decisions),
        "decision_max_s": max(outcome.decisions),
        "decision_mean_s": mean(outcome.decisions),
        "decisions_not_quick": len(solved),
        "decision_not_quick_mean_s": mean(solved),
        "calls": outcome.calls,
        "driver_us_a_call": 1e6 * (outcome.advance_s + outcome.finished_s) / outcome.calls,
        "advance_us_a_call": 1e6 * outcome.advance_s / outcome.calls,
        "finished_us_a_call": 1e6 * outcome.finished_s / outcome.calls,
        "peak_items": outcome.peak_items,
        "rss_growth_mb": (max(outcome.watched) - before) / MB,
        "rss_growth_second_half_mb": (outcome.watched[-1] - outcome.watched[len(outcome.watched) // 2]) / MB,
        "simulated_s": outcome.seconds,
        "wall_s": time.perf_counter() - began,
        **steady(simulation, outcome),
    }


def steady(simulation: Simulation, outcome: SimulationResult) -> dict[str, Any]:
    """Throughput over the best that there can be, and how soon and at what cost it was reached."""
    job = simulation.job
    halves = [((0.2, 0.45), False), ((0.7, 0.9), True)] if simulation.drifts else [((0.5, 0.9), False)]
    shares = [outcome.throughput(*window) * job.splits / job.best(second) for window, second in halves]
    return {
        "best": [job.best(second) for _, second in halves],
        "steady_share": shares,
        "right_asked_s": outcome.right_asked_at,
        "right_ready_s": outcome.right_at,
        "setups": outcome.setups,
        "thrown_away": outcome.thrown_away,
        "interrupted": outcome.interrupted,
    }


def in_scenario(scenario: dict[str, Any], counted: bool) -> dict[str, Any]:
    """One scenario from a cold start."""
    simulation = Simulation(job_of(scenario, counted=counted))
    outcome = simulation.run()
    splits = simulation.job.splits
    halves = [simulation.job.best(second) for second in ((False, True) if simulation.drifts else (False, False))]
    ideal = scenario.get("ideal_makespan_s", splits / 2 * sum(1 / best for best in halves))
    return {
        "name": scenario["name"],
        "counted": counted,
        "makespan_s": outcome.seconds,
        "ideal_makespan_s": ideal,
        "makespan_share": ideal / outcome.seconds,
        "longest_setup_s": max(stage.setup_s for stage in simulation.job.stages),
        **steady(simulation, outcome),
    }


# For a person


def scale_table(sizes: list[dict[str, Any]]) -> str:
    """The figures of all sizes."""
    header = ["hosts of 8 GPUs, 5 operators", *(f"{size['hosts']:,}" for size in sizes)]
    rows = {
        "partitions": "partitions",
        "slots in the end": "slots",
        "decision, longest, CPU s": "decision_max_s",
        "decision, mean, CPU s": "decision_mean_s",
        "of those that solved, mean, s": "decision_not_quick_mean_s",
        "how many solved": "decisions_not_quick",
        "of how many": "decisions",
        "flow, us a call": "driver_us_a_call",
        "  of which advance": "advance_us_a_call",
        "calls": "calls",
        "items in flight, most": "peak_items",
        "memory: growth, MB": "rss_growth_mb",
        "  of it in the second half": "rss_growth_second_half_mb",
        "90 % of the best asked for, s": "right_asked_s",
        "  and ready, s": "right_ready_s",
        "dear slots torn down": "thrown_away",
        "wall, s": "wall_s",
    }
    lines = [[shown, *(size[key] for size in sizes)] for shown, key in rows.items()]
    best = ["best splits/s", *(size["best"][0] for size in sizes)]
    shares = ["steady throughput over best", *(size["steady_share"][0] for size in sizes)]
    return table(header, [*lines[:2], best, shares, *lines[2:]])


def scenario_table(runs: list[dict[str, Any]]) -> str:
    """The figures of all scenarios."""
    header = [
        "cold start",
        "counted",
        "steady / best",
        "asked s",
        "ready s",
        "thrown",
        "makespan s",
        "ideal / makespan",
    ]
    rows = [
        [
            *(one["name"], "yes" if one["counted"] else "no"),
            " ".join(f"{share:.3f}" for share in one["steady_share"]),
            *(one["right_asked_s"], one["right_ready_s"], one["thrown_away"], one["makespan_s"], one["makespan_share"]),
        ]
        for one in runs
    ]
    return table(header, rows) + NOTE


NOTE = (
    "\n(counted: the driver knows the number of splits; asked and ready: when the slots could do 90 % of the best;"
    "\nthrown: slots with a setup of a second or more torn down, at the end too; the ideal has no setups)"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", default="10,100,1000", help="sizes, with commas")
    parser.add_argument("--partitions", type=int, default=1_000_000, help=f"at most; {SPLITS_A_HOST} a host suffice")
    parser.add_argument("--scenarios", type=Path, metavar="FILE", help="a file of scenarios, to simulate some of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate"), "sizes": [], "scenarios": []}
    for hosts in filter(None, options.hosts.split(",")):
        figures["sizes"].append(at_scale(int(hosts), options.partitions))
    if figures["sizes"]:
        print(scale_table(figures["sizes"]), flush=True)
    if options.scenarios:
        known = {one["name"]: one for one in json.loads(options.scenarios.read_text())}
        figures["scenarios"] = [in_scenario(known[name], counted) for name in SCENARIOS for counted in (False, True)]
        print(f"\n{scenario_table(figures['scenarios'])}")
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
