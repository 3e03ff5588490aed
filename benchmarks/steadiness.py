"""How many set-ups are thrown away: slots that are set up and then dropped, though the work did not change.

``python -m benchmarks.steadiness --scenarios FILE [--seeds 4] [--time-scale 0.18] [--json FILE]`` runs each scenario
with the real flow, rates and balancing policy in simulated time (see `benchmarks.simulation`), once for each seed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.measure import called, machine, save, table, versions
from benchmarks.simulated import job_of
from benchmarks.simulation import Simulation
from dcurate.engine.allocate.solve import solve

#: Seconds that a scenario runs at its optimum, unscaled; one whose rates change has the splits that it says.
STEADY_S = 400


def one_run(scenario: dict[str, Any], seed: int, scale: float) -> dict[str, Any]:
    """Run a scenario from a cold start, and count its slots.

    Of the slots that were dropped, those are *needed elsewhere* by which the optimum itself falls when rates change.
    Slots that go after the source is exhausted are not counted: there is nothing left to do for them.
    """
    splits = scenario["num_tasks"]
    if "phases" not in scenario:
        splits = min(splits, round(STEADY_S * scenario["optimum"]["tasks_per_s"]))
    simulation = Simulation(job_of(scenario, seed=seed, splits=splits).in_time(scale))
    outcome, job = simulation.run(), simulation.job
    before, after = (solve(job.truth(second), job.hosts) for second in (False, True))
    assert before is not None
    assert after is not None
    fallen = {name: max(0, slots - after.counts[name]) for name, slots in before.counts.items()}
    needed = {name: min(slots, fallen[name] if simulation.drifts else 0) for name, slots in outcome.dropped.items()}
    return {
        "seed": seed,
        "set_ups": outcome.asked.total(),
        "thrown_away": outcome.dropped.total() - sum(needed.values()),
        "needed_elsewhere": sum(needed.values()),
        "thrown_away_of": {
            name: slots - needed[name] for name, slots in outcome.dropped.items() if slots > needed[name]
        },
        "right_s": outcome.right_at,
        "makespan_s": outcome.seconds,
    }


def figures_of(scenario: dict[str, Any], seeds: int, scale: float) -> dict[str, Any]:
    """Run a scenario with each seed."""
    runs = [one_run(scenario, seed, scale) for seed in range(seeds)]
    sums = {name: sum(run[name] for run in runs) for name in ("set_ups", "thrown_away", "needed_elsewhere")}
    slowest = max((run["right_s"] for run in runs), key=lambda seconds: float("inf") if seconds is None else seconds)
    return sums | {
        "name": scenario["name"],
        "share": sums["thrown_away"] / sums["set_ups"],
        "right_s": slowest,
        "allowed_s": 10 + scale * max(stage["setup_s"] for stage in scenario["stages"]),
        "makespan_s": sum(run["makespan_s"] for run in runs) / seeds,
        "runs": runs,
    }


def text(rows: list[dict[str, Any]]) -> str:
    """The figures for a person."""
    header = ["scenario", "set-ups", "thrown away", "%", "needed elsewhere", "right after s", "allowed s", "makespan s"]
    lines = [
        [
            *(row["name"], row["set_ups"], row["thrown_away"], 100 * row["share"], row["needed_elsewhere"]),
            *(row["right_s"], row["allowed_s"], row["makespan_s"]),
        ]
        for row in rows
    ]
    return table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.steadiness", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", type=Path, required=True, metavar="FILE", help="scenarios as JSON")
    parser.add_argument("--seeds", type=int, default=4, metavar="N", help="runs of each, with other durations of calls")
    parser.add_argument("--time-scale", type=float, default=0.18, metavar="S", help="by which all times are multiplied")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    listed = [one for one in json.loads(options.scenarios.read_text()) if one["feasible"]]
    rows = [figures_of(one, options.seeds, options.time_scale) for one in listed]
    print(text(rows))
    about = {"machine": machine(), "versions": versions("dcurate"), "time_scale": options.time_scale}
    save(options.json, about | {"scenarios": rows})


if __name__ == "__main__":
    called(main)
