"""The benchmark of balancing measures what it says: its stages, its pretended hosts, its figures, and whole runs."""

from __future__ import annotations

import doctest
import importlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hosts import HostSpec
from benchmarks.scenario import EXAMPLE, Phase, Scenario, Step
from benchmarks.sleeping import BLOCK, CallDurations, DiaryLine, children
from benchmarks.streaming import DecisionLog, GivenUpError, StreamingRun, judge, run
from benchmarks.streaming_peers import speeds
from benchmarks.timeline import SlotSpan, Timeline
from dcurate.cluster.nannies import GPU_PROCESSES
from dcurate.events import CallCopied

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]

MODULES = ("hosts", "sleeping", "scenario", "timeline", "streaming", "streaming_small", "streaming_peers")


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_the_benchmarks_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"benchmarks.{module}")).failed == 0


# Stages


@given(seconds=st.floats(0.001, 100), cv=st.sampled_from([0.0, 0.05, 0.5, 1.5, 2.5]), block=st.integers(0, 1000))
def test_durations_have_the_mean_and_the_spread_in_every_block(seconds: float, cv: float, block: int) -> None:
    pace = CallDurations((seconds,), cv, "stage")
    taken = [pace.of(number, 0) for number in range(block * BLOCK, (block + 1) * BLOCK)]
    assert fmean(taken) == pytest.approx(seconds)
    assert pstdev(taken) == pytest.approx(cv * seconds, abs=1e-6 * seconds)


def test_durations_come_in_another_order_for_another_stage() -> None:
    one, other = ([CallDurations((1.0,), 0.5, name).of(number, 0) for number in range(BLOCK)] for name in ("a", "b"))
    assert one != other
    assert sorted(one) == sorted(other)


@given(numerator=st.integers(1, 40), denominator=st.integers(1, 40), count=st.integers(0, 200))
def test_fan_out_makes_every_number_once_and_as_many_as_it_says(numerator: int, denominator: int, count: int) -> None:
    ratio = Fraction(numerator, denominator)
    made = [child for number in range(count * denominator) for child in children(number, ratio)]
    assert made == list(range(count * numerator))


# Hosts


@given(cpus=st.integers(1, 256), cpu_workers=st.integers(1, 64), gpus=st.integers(0, 8))
def test_infos_of_the_workers_of_a_host_add_up_to_the_host(cpus: int, cpu_workers: int, gpus: int) -> None:
    infos = [info for _, _, info in HostSpec("h", cpus, cpu_workers, gpus, 80e9).worker_infos()]
    assert sum(one.cpus for one in infos) == cpus
    assert {one.host for one in infos} == {"h"}
    owned = [one.gpus[0].name for one in infos if one.gpus]
    assert (len(set(owned)), len(owned)) == (gpus, GPU_PROCESSES * gpus)


def test_a_host_has_a_seat_for_every_slot_of_the_optimum() -> None:
    steps = (Step("a", 1.0, cpus=0.5), Step("b", 1.0, cpus=0.5))
    many = Scenario("s", steps, ((40, 0, 0.0),), (Phase(1.0, (1.0, 1.0), (40, 40), 40.0),))
    assert many.host_specs()[0].cpu_workers == 80
    assert EXAMPLE.host_specs() == [HostSpec("host-0", 16, 1, 7, 80e9)]


# Figures

TWO = Scenario(
    "two",
    (Step("read", 1.0), Step("embed", 2.0, setup_s=3.0)),
    (),
    (Phase(1.0, (1.0, 2.0), (1, 2), 1.0),),
)


def _slot(operator: int, begun: float, ready: float, begins: list[float], length: float, **more: Any) -> SlotSpan:
    calls = tuple(DiaryLine("call", number, begin, begin + length, length) for number, begin in enumerate(begins))
    return SlotSpan(operator, begun, ready, more.get("left"), calls)


def _two(*more: SlotSpan) -> Timeline:
    """One slot that reads from second 0 to 20, two that embed from 4 and from 5 on, without a break, to second 24."""
    read = _slot(0, 0.0, 0.0, [float(begin) for begin in range(20)], 1.0)
    one = _slot(1, 1.0, 4.0, [float(begin) for begin in range(4, 24, 2)], 2.0)
    other = _slot(1, 2.0, 5.0, [float(begin) for begin in range(5, 25, 2)], 2.0)
    return Timeline(TWO, 1.0, (read, one, other, *more), 0.0, 20)


def test_counts_are_right_when_the_last_slot_that_is_needed_is_ready() -> None:
    assert _two().counts() == [(0.0, [0, 0]), (0.0, [1, 0]), (4.0, [1, 1]), (5.0, [1, 2])]
    assert _two().right_from(0) == 5.0


#: The same, with a source that is quick.
EMBEDS = replace(TWO, phases=(Phase(1.0, (0.5, 2.0), (1, 2), 1.0),))


def test_an_operator_that_has_done_all_its_work_needs_no_slots() -> None:
    early = _slot(0, 0.0, 0.0, [float(begin) for begin in range(4)], 1.0, left=4.5)
    late = [_slot(1, 1.0, ready, [float(begin) for begin in range(10, 24, 2)], 2.0) for ready in (4.0, 9.0)]
    timeline = Timeline(EMBEDS, 1.0, (early, *late), 0.0, 20)
    assert timeline.right_from(0) == 9.0
    assert timeline.busy_share((10.0, 20.0)) == ("embed", 1.0)


def test_counts_that_are_right_only_while_the_last_batches_leave_are_never_right() -> None:
    reads = _slot(0, 0.0, 0.0, [0.0, 1.0], 1.0)
    embeds = [_slot(1, 1.0, ready, begins, 2.0) for ready, begins in ((2.0, [2.0, 4.0, 6.0, 8.0]), (9.0, [9.0]))]
    assert Timeline(EMBEDS, 1.0, (reads, *embeds), 0.0, 2).right_from(0) is None


def test_slots_without_a_pause_at_the_right_counts_give_the_optimum_and_are_always_busy() -> None:
    window = (6.0, 20.0)
    assert _two().ratio(window) == pytest.approx(1.0)
    assert _two().work_ratio(window) == pytest.approx(1.0)
    assert _two().busy_share(window) == ("read", 1.0)
    assert _two().overslept() == pytest.approx(0.0)


def test_a_slot_that_pauses_between_calls_is_busy_for_less_of_the_time() -> None:
    pauses = _slot(1, 0.0, 0.0, [0.0, 4.0, 8.0, 12.0], 2.0)
    timeline = Timeline(TWO, 1.0, (_slot(0, 0.0, 0.0, [float(begin) for begin in range(16)], 1.0), pauses), 0.0, 16)
    assert timeline.busy_share((0.0, 16.0)) == ("embed", 0.5)
    assert timeline.ratio((0.0, 16.0)) == pytest.approx(0.25)
    assert timeline.right_from(0) is None


def test_twice_the_time_scale_means_half_the_rate_that_is_asked_for() -> None:
    slow = Timeline(TWO, 2.0, _two().slots, 0.0, 20)
    assert slow.ratio((6.0, 20.0)) == pytest.approx(2.0)


def test_the_shortest_makespan_is_setup_one_passage_and_the_splits_at_the_optimum() -> None:
    assert _two().ended == 25.0
    assert _two().makespan_ratio == pytest.approx((3.0 + 3.0 + 20.0) / 25.0)


def test_a_set_up_is_thrown_away_if_its_slot_goes_before_the_end_begins_or_it_never_ends() -> None:
    early = _slot(1, 0.0, 3.0, [], 2.0, left=8.0)
    late = _slot(1, 0.0, 3.0, [], 2.0, left=24.5)
    cut = SlotSpan(1, 6.0, None, None, ())
    assert _two(early, late, cut).thrown_away() == [early, cut]
    assert _two().thrown_away() == []


def test_a_phase_begins_when_the_operator_that_limits_it_gets_there() -> None:
    phases = (Phase(0.5, (1.0, 2.0), (1, 2), 1.0), Phase(0.5, (1.0, 4.0), (1, 4), 1.0))
    drift = Scenario("drift", TWO.steps, (), phases)
    calls = tuple(DiaryLine("call", number, number + 30.0, number + 31.0, 1.0) for number in range(20))
    timeline = Timeline(drift, 1.0, (SlotSpan(0, 0.0, 0.0, None, calls),), 0.0, 20)
    assert timeline.begin_of(0) == 0.0
    assert timeline.begin_of(1) == 40.0


def _judged(scenario: Scenario, error: str, refused: bool) -> dict[str, Any]:
    return judge(
        scenario,
        StreamingRun(Timeline(scenario, 1.0, (), 0.0, 8), DecisionLog(), error, refused, 1.0, (0.1, 0.1, 0.1), 0.4),
    )


def test_what_cannot_run_must_be_refused_and_what_can_must_run() -> None:
    impossible = Scenario("impossible", (Step("a", 1.0, gpus=2),), ((1, 1, 80.0),), ())
    assert _judged(impossible, "ResourceError: no", True)["short"] == []
    assert _judged(impossible, "", False)["short"] == ["refused"]
    assert _judged(TWO, f"{GivenUpError.__name__}: given up", False)["short"] == ["run"]


def test_speed_is_near_from_the_second_on_in_which_tasks_come_fast_enough() -> None:
    slow, fast = [float(number) for number in range(10)], [10.0 + number / 4 for number in range(80)]
    figures = speeds(-1.0, 0.0, fast + slow, 4.0)
    assert figures["tasks"] == 90
    assert figures["mean_per_s"] == pytest.approx(90 / 29.75, abs=1e-3)
    assert figures["mean_per_s_with_start"] == pytest.approx(90 / 30.75, abs=1e-3)
    assert figures["seconds_to_90"] == pytest.approx(9.0 + 1.0, abs=1.0)


# Whole runs


def test_a_run_on_pretended_hosts_does_every_task_once_and_takes_as_long_as_the_scenario_says() -> None:
    steps = (Step("read", 0.02), Step("split", 0.02, fanout=3, cv=0.3), Step("embed", 0.04, fanout=1.5, gpus=0.5))
    scenario = Scenario(
        "small", steps, ((4, 1, 80.0), (4, 1, 80.0)), (Phase(1.0, (0.02, 0.02, 0.04), (1, 2, 3), 33.0),)
    )
    one = run(scenario, 0.5, 40)
    assert one.error == ""
    done = Counter((slot.operator, call.number) for slot in one.timeline.slots for call in slot.calls)
    assert set(done) == {(place, number) for place, count in enumerate((40, 120, 60)) for number in range(count)}
    # A call that the machine held up for seconds is run again elsewhere; no other call runs twice.
    copies = sum(isinstance(event, CallCopied) for event in one.heard.events)
    assert done.total() <= 220 + copies
    least = [(call.end - call.begin) - call.work for slot in one.timeline.slots for call in slot.calls]
    assert min(least) > -1e-3
    figures = judge(scenario, one)
    assert figures["calls"] == done.total()
    assert figures["cpu_ms_per_call"] > 0


def test_the_benchmark_writes_the_figures_that_it_promises(tmp_path: Path) -> None:
    one = {"seconds_per_task": 0.2, "fanout": 1, "cpus": 1, "gpus": 1, "gpu_memory_gb": 0, "setup_s": 0, "cv": 0}
    runs = {
        "name": "runs",
        "stages": [one | {"name": "a"}, one | {"name": "b"}],
        "nodes": [{"cpus": 4, "gpus": 2, "gpu_memory_gb": 80}],
        "optimum": {"workers": {"a": 1, "b": 1}, "tasks_per_s": 5.0},
        "feasible": True,
    }
    refused = runs | {"name": "refused", "nodes": [{"cpus": 4, "gpus": 1, "gpu_memory_gb": 80}], "feasible": False}
    (tmp_path / "scenarios.json").write_text(json.dumps([runs, refused]))
    file = tmp_path / "figures.json"
    options = ("--scenarios", tmp_path / "scenarios.json", "--time-scale", "0.2", "--seconds", "3", "--json", file)
    command = [sys.executable, "-m", "benchmarks.streaming", *map(str, options)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(file.read_text())
    assert figures["time_scale"] == 0.2
    ran, not_run = figures["scenarios"]
    assert {"name", "steady_ratio", "seconds_to_right_counts", "allowed_seconds", "makespan_ratio"} <= set(ran)
    assert {"bottleneck_busy_share", "setups_thrown_away", "cpu_ms_per_call"} <= set(ran)
    assert ran["seconds_to_right_counts"] is not None
    assert "ResourceError" in not_run["refused"]
    assert "refused: ResourceError" in ended.stdout
