"""How well slots are balanced in real Dask processes: throughput, time to the right counts, what it costs.

``python -m benchmarks.streaming --scenarios FILE [--time-scale S] [--only NAME] [--seconds N] [--json FILE]``
runs pipelines of sleeping stages on pretended hosts, each against its known optimum; ``--example``, ``--short``,
``--small`` and ``--peers PYTHON`` run four smaller comparisons. See README.md here.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.hosts import Hosts, busy_cpu, fresh_folder, nothing_remembered
from benchmarks.measure import called, machine, save, versions
from benchmarks.scenario import EXAMPLE, Scenario, least_scale, load
from benchmarks.streaming_peers import compare_peers, speeds
from benchmarks.streaming_short import short_runs
from benchmarks.streaming_small import small
from benchmarks.timeline import SlotSpan, Timeline, named, read_slots, setup_seconds
from dcurate import AttachedCluster, DaskExecutor, DcurateError, Pipeline, ResourceError
from dcurate.events import CallCopied, Decided, Event, WorkerLost, WorkerRecycled
from dcurate.plan.compile import compile_plan

#: What must be reached: by cv, by the bottleneck's slots, by a run whose rates change; and seconds beyond the set-up.
STEADY, STEADY_HEAVY, HEAVY_CV, BUSY, DRIFT, SECONDS = 0.97, 0.95, 0.5, 0.99, 0.90, 10.0

#: A run that takes this many times longer than it should, and a minute more, is given up.
PATIENCE = 4.0


# One run


class DecisionLog:
    """Keeps what the engine says of its decisions."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, CallCopied | Decided | WorkerLost | WorkerRecycled):
            self.events.append(event)


class GivenUpError(Exception):
    """A run took far too long."""


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise GivenUpError(f"given up after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class StreamingRun:
    """What is left of a run.

    Args:
        error: why it ended early; empty if it did not.
        refused: whether nothing had been set up by then.
        wall_s: from the call to its return.
        cpu_s: of the driver, the scheduler and the hosts.
        machine_cpu_s: of everything on this machine meanwhile.
    """

    timeline: Timeline
    heard: DecisionLog
    error: str
    refused: bool
    wall_s: float
    cpu_s: tuple[float, float, float]
    machine_cpu_s: float


def run(scenario: Scenario, scale: float, splits: int, num_workers: int | None = None) -> StreamingRun:
    """Run a scenario on hosts of its own, within `nothing_remembered`.

    Args:
        num_workers: slots of each operator, where they are to be pinned.
    """
    expected = scale * (splits * scenario.seconds_for_one + max(step.setup_s for step in scenario.steps))
    heard, error = DecisionLog(), ""
    with fresh_folder() as folder:
        pipeline = scenario.pipeline(splits, scale, str(folder), num_workers)
        with ExitStack() as stack:
            hosts = stack.enter_context(Hosts(scenario.host_specs(), scenario.modules))
            cluster = stack.enter_context(AttachedCluster(hosts.address))
            executor = DaskExecutor({"memory_share": scenario.memory_share()}, cluster)
            cpu, everything = _cpu(hosts), busy_cpu()
            began = time.monotonic()
            try:
                with _patience(PATIENCE * expected * (len(scenario.steps) if num_workers else 1) + 60):
                    pipeline.run(executor, observers=[heard])
            except (DcurateError, GivenUpError) as failure:
                error = f"{type(failure).__name__}: {failure}"
                refused = isinstance(failure, ResourceError)
            wall = time.monotonic() - began
            cpu = [after - before for after, before in zip(_cpu(hosts), cpu, strict=True)]
            everything = busy_cpu() - everything
        slots = tuple(read_slots(folder))
    timeline = Timeline(scenario, scale, slots, began, splits, _fused(pipeline))
    parts = cpu[0], cpu[1], sum(cpu[2:])
    return StreamingRun(timeline, heard, error, bool(error) and refused and not slots, wall, parts, everything)


def timeline_of(scenario: Scenario, splits: int, num_workers: int | None = None) -> Timeline:
    """Run a scenario in real time to its end.

    Raises:
        RuntimeError: The run failed.
    """
    streaming_run = run(scenario, 1.0, splits, num_workers)
    if streaming_run.error:
        raise RuntimeError(streaming_run.error)
    return streaming_run.timeline


def _fused(pipeline: Pipeline) -> tuple[tuple[int, ...], ...]:
    """The places of the stages of each operator."""
    places = iter(range(len(pipeline.stages)))
    return tuple(tuple(islice(places, len(one.parts))) for one in compile_plan(pipeline.stages).operators)


def _cpu(hosts: Hosts) -> list[float]:
    return [time.process_time(), *hosts.cpu_seconds()]


# Figures of a run


def judge(scenario: Scenario, one: StreamingRun) -> dict[str, Any]:
    """The figures of a run, and which of them fall short."""
    calls = sum(len(slot.calls) for slot in one.timeline.slots)
    figures: dict[str, Any] = {"name": scenario.name, "time_scale": round(one.timeline.scale, 4)}
    if not scenario.phases:
        return figures | {"refused": one.error if one.refused else "", "short": [] if one.refused else ["refused"]}
    if one.error or not calls:
        return figures | {"error": one.error or "no call was made", "short": ["run"]}
    figures |= _speed(one.timeline) | _counts(one.timeline) | _costs(one, calls)
    figures["decisions"] = [
        {name: value for name, value in vars(event).items() if name != "time"} | {"event": type(event).__name__}
        for event in one.heard.events
    ]
    return figures | {"short": _short(scenario, figures)}


def _speed(timeline: Timeline) -> dict[str, Any]:
    steady = timeline.steady()
    figures: dict[str, Any] = {
        "splits": timeline.splits,
        "makespan_ratio": round(timeline.makespan_ratio, 4),
        "steady_ratio": None,
        "bottleneck_busy_share": None,
    }
    if steady:
        name, share = timeline.busy_share(steady)
        figures |= {
            "steady_ratio": round(timeline.ratio(steady), 4),
            "steady_work_ratio": round(timeline.work_ratio(steady), 4),
            "bottleneck": name,
            "bottleneck_busy_share": round(share, 4),
            "steady_from_s": round(steady[0] - timeline.began, 2),
            "steady_to_s": round(steady[1] - timeline.began, 2),
            "counts_when_steady": named(timeline.scenario, timeline.counts_at(steady[1])),
        }
    return figures | {"run_s": round(timeline.ended - timeline.began, 2), "course": timeline.course()}


def _counts(timeline: Timeline) -> dict[str, Any]:
    scenario = timeline.scenario
    thrown = timeline.thrown_away()
    figures: dict[str, Any] = {
        "seconds_to_right_counts": _seconds_to_right(timeline, 0),
        "allowed_seconds": round(max(step.setup_s for step in scenario.steps) * timeline.scale + SECONDS, 2),
        "optimum": [named(scenario, phase.counts) for phase in scenario.phases],
        "setups": sum(slot.ready is not None for slot in timeline.slots),
        "setups_thrown_away": len(thrown),
        "setups_thrown_away_by_operator": named(scenario, _by_operator(scenario, thrown)),
        "setup_seconds_thrown_away": round(setup_seconds(thrown, timeline.ended), 2),
        "counts": [[round(moment - timeline.began, 2), counts] for moment, counts in timeline.counts()],
    }
    if len(scenario.phases) > 1:
        figures["seconds_to_right_counts_again"] = _seconds_to_right(timeline, len(scenario.phases) - 1)
    return figures


def _seconds_to_right(timeline: Timeline, phase: int) -> float | None:
    right = timeline.right_from(phase)
    return None if right is None else round(right - timeline.begin_of(phase), 2)


def _by_operator(scenario: Scenario, slots: Sequence[SlotSpan]) -> list[int]:
    return [sum(slot.operator == place for slot in slots) for place in range(len(scenario.steps))]


def _costs(one: StreamingRun, calls: int) -> dict[str, Any]:
    cpus, cpu = (os.cpu_count() or 1) * one.wall_s, sum(one.cpu_s)
    parts = zip(("driver", "scheduler", "hosts"), one.cpu_s, strict=True)
    return {
        "calls": calls,
        "overslept": round(one.timeline.overslept(), 4),
        "cpu_ms_per_call": round(1000 * cpu / calls, 3),
        "cpu_ms_per_call_of": {name: round(1000 * seconds / calls, 3) for name, seconds in parts},
        "cpu_share_of_machine": round(cpu / cpus, 3),
        "cpu_share_of_others": round(max(0.0, one.machine_cpu_s - cpu) / cpus, 3),
    }


def _short(scenario: Scenario, figures: dict[str, Any]) -> list[str]:
    """The figures that do not reach what they must."""
    least = STEADY_HEAVY if max(step.cv for step in scenario.steps) > HEAVY_CV else STEADY
    short = []
    if len(scenario.phases) > 1:
        short += ["makespan_ratio"] if figures["makespan_ratio"] < DRIFT else []
    elif (figures["steady_ratio"] or 0.0) < least:
        short.append("steady_ratio")
    seconds = figures["seconds_to_right_counts"]
    if seconds is None or seconds > figures["allowed_seconds"]:
        short.append("seconds_to_right_counts")
    if (figures["bottleneck_busy_share"] or 0.0) < BUSY:
        short.append("bottleneck_busy_share")
    return short


def line_of(figures: dict[str, Any]) -> str:
    """A run on a line or two, for a person."""
    head = f"{figures['name']} (time scale {figures['time_scale']:g}):"
    if "refused" in figures:
        return f"{head} {'refused: ' + figures['refused'] if figures['refused'] else 'NOT REFUSED'}"
    if "error" in figures:
        return f"{head} FAILED: {figures['error']}"
    parts = [
        f"steady {_percent(figures['steady_ratio'])} (work {_percent(figures.get('steady_work_ratio'))})",
        f"right counts {_seconds(figures['seconds_to_right_counts'])} of {figures['allowed_seconds']:g} s",
        f"{figures.get('bottleneck', '?')} busy {_percent(figures['bottleneck_busy_share'])}",
        f"{figures['setups_thrown_away']} of {figures['setups']} set-ups thrown away",
        f"makespan {_percent(figures['makespan_ratio'])}",
        f"{figures['cpu_ms_per_call']:.2f} ms of CPU a call "
        f"({', '.join(f'{name} {ms:.1f}' for name, ms in figures['cpu_ms_per_call_of'].items())})",
        f"{figures['cpu_share_of_machine']:.0%} of the machine "
        f"(others {figures['cpu_share_of_others']:.0%}), calls {figures['overslept']:.1%} too long",
    ]
    if "seconds_to_right_counts_again" in figures:
        parts.insert(2, f"again {_seconds(figures['seconds_to_right_counts_again'])} s after the change")
    short = f"\n    SHORT: {', '.join(figures['short'])}" if figures["short"] else ""
    return f"{head} " + ", ".join(parts) + short


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f}"


# What can be asked for


def scenarios(listed: Sequence[Scenario], asked: float, seconds: float) -> dict[str, Any]:
    """Run scenarios one after the other.

    Args:
        asked: time scale; a scenario that needs a larger one gets that.
        seconds: how long a run should take in its steady state.
    """
    rows = []
    for scenario in listed:
        least, why = least_scale(scenario)
        scale = max(asked, least)
        if scale > asked:
            print(f"{scenario.name}: time scale {scale:.3g} and not {asked:g}, for {why}", flush=True)
        per_split = scale * scenario.seconds_for_one
        setup = scale * max(step.setup_s for step in scenario.steps)
        splits = max(scenario.splits, round((seconds + setup) / per_split)) if per_split else scenario.splits
        with nothing_remembered():
            rows.append(judge(scenario, run(scenario, scale, splits)))
        print(line_of(rows[-1]), flush=True)
    good = sum(not row["short"] for row in rows)
    print(f"\n{good} of {len(rows)} scenarios reach everything that they must")
    return {"scenarios": rows, "time_scale": asked}


def example(seconds: float) -> dict[str, Any]:
    """The seeds' example in real time: balanced by the run, and with one worker a stage."""
    figures = {}
    for name, pinned in (("balanced", None), ("one_worker_each", 1)):
        rate = 1.0 if pinned else EXAMPLE.phases[0].rate
        with nothing_remembered():
            timeline = timeline_of(EXAMPLE, round(seconds * rate), pinned)
        first = min(call.begin for call in timeline.calls_of(0))
        last = [call.end for call in timeline.calls_of(len(EXAMPLE.steps) - 1)]
        figures[name] = speeds(timeline.began, first, last, rate)
        if not pinned:
            figures[name] |= {"steady_per_s": round(4 * timeline.ratio(timeline.steady() or (first, last[-1])), 3)}
            figures[name] |= {key: value for key, value in _counts(timeline).items() if key != "counts"}
        print(f"{name}: {figures[name]}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.streaming", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", type=Path, metavar="FILE", help="scenarios as JSON")
    parser.add_argument("--time-scale", type=float, default=0.1, metavar="S", help="by which all times are multiplied")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the scenarios or short runs only these")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of a run in its steady state")
    parser.add_argument("--example", action="store_true", help="stages of 4, 1 and 2 tasks a second on 7 GPUs")
    parser.add_argument("--short", action="store_true", help="six short runs, cold and with remembered rates")
    parser.add_argument(
        "--small", action="store_true", help="8 CPU stages that cannot be fused on this machine's cores"
    )
    parser.add_argument(
        "--peers", metavar="PYTHON", help="Python with Ray Data and Xenna: the example on them and here"
    )
    parser.add_argument("--tasks", type=int, default=400, help="of the comparison with peers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dcurate", "dask", "distributed")}
    if options.scenarios:
        there = load(options.scenarios)
        if strange := sorted(set(options.only or ()) - {one.name for one in there}):
            raise SystemExit(f"{options.scenarios}: holds no scenario {strange[0]!r}; leave out --only for all")
        listed = [one for one in there if not options.only or one.name in options.only]
        figures |= scenarios(listed, options.time_scale, options.seconds)
    if options.example:
        figures["example"] = example(options.seconds)
    if options.short:
        figures["short"] = short_runs(timeline_of, options.seconds, options.only or ())
    if options.small:
        figures["small"] = small(options.seconds)
        for name, one in figures["small"].items():
            print(f"8 CPU stages, {name}: {one}", flush=True)
    if options.peers:
        with nothing_remembered():
            ours = timeline_of(EXAMPLE, options.tasks)
        figures["peers"] = compare_peers(options.peers, ours, options.tasks)
    save(options.json, figures)


if __name__ == "__main__":
    called(main)
