"""The simulation is fair: nothing is lost in it, and what it says of the deciders can be checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scale import at_scale, cluster, in_scenario
from benchmarks.simulated import SimulatedJob, SimulatedOperator, job_of
from benchmarks.simulation import Simulation
from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit, count_slots

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]


def some_job(splits: int = 400, **later: float) -> SimulatedJob:
    stages = (
        SimulatedOperator(SchedulingUnit("read", seconds=0.2, weight=1.0), cv=0.3),
        SimulatedOperator(SchedulingUnit("split", seconds=0.1, weight=1.0)),
        SimulatedOperator(
            SchedulingUnit("score", seconds=0.5, weight=3.0, gpus=0.5), cv=0.3, setup_s=5.0, later_s=later.get("score")
        ),
        SimulatedOperator(SchedulingUnit("write", seconds=0.1, weight=1.5)),
    )
    return SimulatedJob(stages, (Host("a", 24.0, tuple(Gpu(f"g{number}") for number in range(4))),), splits)


def test_every_item_passes_every_operator_once() -> None:
    simulation = Simulation(some_job())
    outcome = simulation.run()
    assert simulation.flow.done
    assert simulation.splits_done == 400
    done = [stage.items_done for stage in simulation.flow.operators]
    assert done == [400, 400, 1200, 600]
    assert outcome.calls <= sum(done)
    assert len(outcome.finished_at) == 100
    assert outcome.finished_at == sorted(outcome.finished_at)


def test_no_more_runs_than_slots_allow() -> None:
    simulation = Simulation(some_job())
    start, busiest = simulation._start, []

    def watched(operator: int) -> None:
        start(operator)
        pool = simulation.pools[operator]
        busiest.append(pool.busy - pool.ready - len(pool.leaving))

    simulation._start = watched  # type: ignore[method-assign]
    simulation.run()
    assert max(busiest) <= 0


def test_the_best_is_never_beaten_and_nearly_reached() -> None:
    outcome = Simulation(some_job(2000)).run()
    assert 0.93 <= outcome.throughput(0.4, 0.9) * 2000 / some_job().best() <= 1.03


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = Simulation(some_job()).run(), Simulation(some_job()).run()
    assert (first.seconds, first.calls, first.changes) == (second.seconds, second.calls, second.changes)


def test_a_drift_changes_the_durations_of_the_second_half() -> None:
    steady, slower = Simulation(some_job()).run(), Simulation(some_job(score=1.5)).run()
    assert slower.seconds > 1.5 * steady.seconds


def test_a_remembered_run_is_right_from_the_first_decision() -> None:
    priors = {stage.unit.name: stage.unit.seconds for stage in some_job().stages}
    cached = Simulation(some_job(), priors).run()
    blind = Simulation(some_job()).run()
    assert cached.right_asked_at == 0
    assert blind.right_asked_at is not None
    assert blind.right_asked_at > 2.0
    assert cached.seconds < blind.seconds


def test_memory_in_flight_does_not_depend_on_the_number_of_splits() -> None:
    few, many = Simulation(some_job(1500)).run(), Simulation(some_job(6000)).run()
    assert many.peak_items <= 1.1 * few.peak_items


def test_slots_that_work_are_those_that_the_decider_is_told_of() -> None:
    simulation = Simulation(cluster(2, 2000))
    simulation.run()
    ready = {name: pool.ready for name, pool in zip(simulation.names, simulation.pools, strict=True) if pool.ready}
    assert count_slots(simulation.held) == ready
    assert not any(pool.leaving for pool in simulation.pools)


def test_figures_of_a_size_are_complete() -> None:
    figures = at_scale(hosts=2, partitions=3000)
    assert figures["steady_share"][0] > 0.9
    assert figures["calls"] <= 5 * 3000
    assert figures["interrupted"] == 0
    assert figures["decision_max_s"] >= figures["decision_mean_s"] > 0


CHEAP = {"name": "read", "seconds_per_task": 0.2, "fanout": 1, "cpus": 1, "gpus": 0, "gpu_memory_gb": 0}
MODEL = {"name": "model", "seconds_per_task": 1.0, "fanout": 2, "cpus": 1, "gpus": 1, "gpu_memory_gb": 40}
SCENARIO = {
    "name": "two",
    "stages": [{**CHEAP, "setup_s": 0, "cv": 0.3}, {**MODEL, "setup_s": 10, "cv": 0.3}],
    "nodes": [{"cpus": 16, "gpus": 4, "gpu_memory_gb": 80}],
    "num_tasks": 400,
}


@pytest.mark.parametrize("counted", [False, True])
def test_a_scenario_is_read_and_run(counted: bool) -> None:
    job = job_of(SCENARIO)
    assert job.best() == 2.0
    figures = in_scenario(SCENARIO, counted)
    assert figures["ideal_makespan_s"] == 200.0
    assert 0.7 < figures["makespan_share"] < 1
    assert figures["right_asked_s"] < 10 + 10
    assert figures["thrown_away"] == 0


def test_the_command_prints_and_writes_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.scale", "--hosts", "1,2", "--partitions", "500", "--json", str(file)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [size["hosts"] for size in json.loads(file.read_text())["sizes"]] == [1, 2]
    assert "steady throughput over best" in ended.stdout
