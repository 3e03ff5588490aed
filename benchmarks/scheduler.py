"""What a run costs Dask's scheduler: CPU for each call, delays of its event loop, and memory; beside plain Dask.

``python -m benchmarks.scheduler [--workers 1000] [--slots 10000] [--calls 120000] [--json FILE]``. Scheduler, driver
and dcurate's plugins are the real ones, each in a process; workers only answer. See README.md here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, Future, as_completed

from benchmarks.measure import MB, ROOT, called, job, machine, save, table, versions
from benchmarks.overhead_jobs import Nothing, Partitions
from benchmarks.scheduler_workers import TICK_S, measured
from dcurate import DaskExecutor, DocumentBatch, Pipeline, ProcessingStage

#: The part of the calls that counts: once all slots are in use, and before they run empty.
WINDOW = (0.2, 0.9)

#: What each figure should be at most.
GOALS = {"scheduler_ms_a_call": 0.7}


@dataclass
class Same(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Returns its batch."""

    name: str = "same"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


def pipeline(calls: int, slots: int) -> Pipeline:
    """Three operators with a third of the slots each, so that none is fused with another."""
    share = slots // 3
    return Pipeline(
        "scheduler",
        stages=[
            Partitions(calls // 3).with_(num_workers=share),
            Same().with_(num_workers=share - 1),
            Nothing().with_(num_workers=slots - 2 * share + 1),
        ],
    )


@contextmanager
def cluster(
    workers: int, slots: int, seconds: float, processes: int, preload: Sequence[str] = ()
) -> Iterator[tuple[Client, list[int]]]:
    """Run a scheduler and stand-ins; yield a client, and the process ids of the stand-ins."""
    started: list[subprocess.Popen[str]] = []
    # On a machine that others use, too, heartbeats can be minutes late.
    env = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "warning", "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1 hour"}
    try:
        here = "benchmarks.scheduler_workers"
        command = job(f"{here}:scheduler", preload=list(preload))
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env))
        assert started[0].stdout is not None
        address = started[0].stdout.readline().strip()
        for number in range(processes):
            first, end = (workers * part // processes for part in (number, number + 1))
            about = {"address": address, "first": first, "count": end - first}
            command = job(f"{here}:workers", **about, threads=slots // workers, seconds=seconds, last="nothing")
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True, cwd=ROOT, env=env))
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60 + workers / 5)
            yield client, [process.pid for process in started[1:]]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def with_dcurate(client: Client, calls: int, slots: int) -> None:
    """Run the pipeline."""
    pipeline(calls, slots).run(DaskExecutor(cluster=client))


def with_plain_dask(client: Client, calls: int, slots: int) -> None:
    """Run the same calls as a loop over `as_completed` does; each slot has a call that runs and one that waits."""
    names = ["partitions-plain", "same-plain", "nothing-plain"]
    splits = iter(range(calls // 3))
    completed = as_completed(loop=client.loop)

    def submit(step: int, numbers: Sequence[int], inputs: Sequence[Any]) -> None:
        if numbers:
            keys = [(names[step], number) for number in numbers]
            completed.update(client.map(_same, inputs, key=keys, pure=False))

    first = list(islice(splits, 2 * slots))
    submit(0, first, first)
    for batch in completed.batches():
        ended: list[list[Future]] = [[future for future in batch if future.key[0] == name] for name in names]
        submit(1, [future.key[1] for future in ended[0]], ended[0])
        submit(2, [future.key[1] for future in ended[1]], ended[1])
        more = list(islice(splits, len(ended[2])))
        submit(0, more, more)


def _same(value: Any) -> Any:
    return value


#: What is measured, and how it runs; the first one is shown first.
WAYS: dict[str, Callable[[Client, int, int], None]] = {"dcurate": with_dcurate, "plain Dask": with_plain_dask}

#: Modules that the scheduler preloads, as docs/howto/cluster says.
PRELOAD = {"dcurate": ["dcurate.preload"], "plain Dask": []}


def figures_of(
    samples: Sequence[Sequence[float]],
    delays: Sequence[float],
    busy: Sequence[float],
    collections: Sequence[tuple[float, int, float]] = (),
    looks: Sequence[tuple[float, bool]] = (),
) -> dict[str, Any]:
    """The figures of the window in which all slots are in use.

    Args:
        samples: as `Meter.samples`.
        delays: as `Meter.delays`.
        busy: as `Meter.busy`.
        collections: as `Meter.collections`.
        looks: as `Meter.looks`.
    """
    total = samples[-1][3]
    inside = [one for one in samples if WINDOW[0] * total <= one[3] <= WINDOW[1] * total]
    if len(inside) < 3:
        sys.exit(f"{total:,.0f} calls took too short a time to measure; give more with --calls")
    (began, cpu, rss, calls, ticks), (ended, cpu_end, rss_end, calls_end, ticks_end) = inside[0], inside[-1]
    done, seconds = calls_end - calls, ended - began
    growth = np.polyfit([one[3] for one in inside], [one[2] for one in inside], 1)[0]
    collected = [one[2] for one in collections if began <= one[0] <= ended]
    own = [one[1] for one in looks if began <= one[0] <= ended]
    ms_a_call = 1e3 * (cpu_end - cpu) / done
    return {
        "calls": total,
        "calls_in_window": done,
        "window_s": seconds,
        "calls_a_second": done / seconds,
        "scheduler_ms_a_call": ms_a_call,
        "own_ms_a_call": ms_a_call * sum(own) / len(own) if own else None,
        "scheduler_busy": (cpu_end - cpu) / seconds,
        "gc_ms_a_call": 1e3 * sum(collected) / done,
        "gc_longest_ms": 1e3 * max(collected, default=0.0),
        "delay": _waits(delays[int(ticks) : int(ticks_end)], seconds),
        "delay_cpu": _waits(busy[int(ticks) : int(ticks_end)], seconds),
        "delay_start": {"longest_ms": 1e3 * max(delays[: int(ticks)]), "longest_cpu_ms": 1e3 * max(busy[: int(ticks)])},
        "rss_mb": rss_end / MB,
        "rss_growth_mb": (rss_end - rss) / MB,
        "rss_growth_mb_a_100k_calls": 1e5 * float(growth) / MB,
    }


def _waits(delays: Sequence[float], seconds: float) -> dict[str, float]:
    """How long a message waits that arrives at any moment: a stop of a second delays all that arrive within it."""
    waits = [left for delay in delays for left in np.arange(delay, 0.0, -TICK_S)]
    waits += [0.0] * max(0, round(seconds / TICK_S) - len(waits))
    p50, p99 = np.quantile(waits, [0.5, 0.99])
    return {"longest_ms": 1e3 * max(delays), "p99_ms": 1e3 * float(p99), "p50_ms": 1e3 * float(p50)}


def run(options: argparse.Namespace, way: str) -> dict[str, Any]:
    """Run the calls once on a cluster of their own, and measure."""
    sizes = options.workers, options.slots, options.seconds, options.processes
    with cluster(*sizes, preload=PRELOAD[way]) as (client, _):
        idle = _idle_share(client, options.idle)
        cpu, began = time.process_time(), time.perf_counter()
        WAYS[way](client, options.calls, options.slots)
        wall, driver = time.perf_counter() - began, time.process_time() - cpu
        found = client.run_on_scheduler(measured)
    figures = figures_of(**found)
    return figures | {"idle_busy": idle, "driver_ms_a_call": 1e3 * driver / figures["calls"], "wall_s": wall}


def _idle_share(client: Client, seconds: float) -> float:
    """The share of a core that the scheduler uses for workers without tasks: for their heartbeats, most of all."""
    before, began = client.run_on_scheduler(time.process_time), time.perf_counter()
    time.sleep(seconds)
    return float(client.run_on_scheduler(time.process_time) - before) / (time.perf_counter() - began)


#: What the table shows: a line, and where the figure is.
SHOWN = {
    "calls": "calls",
    "wall, s": "wall_s",
    "before the first call: scheduler, share of a core": "idle_busy",
    "with all slots in use: calls": "calls_in_window",
    "  calls/s": "calls_a_second",
    "  scheduler, CPU ms a call": "scheduler_ms_a_call",
    "    in dcurate's code, ms a call": "own_ms_a_call",
    "  scheduler, share of a core": "scheduler_busy",
    "    garbage collection, ms a call": "gc_ms_a_call",
    "      the longest, ms": "gc_longest_ms",
    "  event loop late: longest, ms": "delay.longest_ms",
    "  p99, ms": "delay.p99_ms",
    "  median, ms": "delay.p50_ms",
    "  by its own CPU: longest, ms": "delay_cpu.longest_ms",
    "    p99, ms": "delay_cpu.p99_ms",
    "    median, ms": "delay_cpu.p50_ms",
    "  memory: growth in 100,000 calls, MB": "rss_growth_mb_a_100k_calls",
    "    in the end, MB": "rss_mb",
    "until then, event loop late: longest, ms": "delay_start.longest_ms",
    "    by its own CPU, ms": "delay_start.longest_cpu_ms",
    "driver, CPU ms a call": "driver_ms_a_call",
}


def figures_table(found: Mapping[str, Any]) -> str:
    """The figures and the goals."""
    header = f"{found['workers']:,} workers, {found['slots']:,} slots, calls of {found['seconds']:g} s"
    ways = [way for way in WAYS if way in found["figures"]]
    rows = []
    for shown, where in SHOWN.items():
        group, _, name = where.rpartition(".")
        all_figures = [found["figures"][way] for way in ways]
        rows.append([shown, *((one[group] if group else one)[name] for one in all_figures), found["goals"].get(where)])
    return table([header, *ways, "goal"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.scheduler", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=1000, help="stand-ins, each on a host of its own")
    parser.add_argument("--slots", type=int, default=10_000, help="slots on all of them")
    parser.add_argument("--calls", type=int, default=120_000, help="calls of all operators")
    parser.add_argument("--seconds", type=float, default=30.0, help="mean duration of a call, which takes no CPU")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds to watch the scheduler before the first call")
    parser.add_argument("--processes", type=int, default=2, help="processes of stand-ins")
    parser.add_argument("--only", choices=list(WAYS), action="append", help="measure this one only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    if options.slots < max(options.workers, 6) or options.slots % options.workers:
        sys.exit(f"{options.slots} slots on {options.workers} workers: give a multiple of the workers, and 6 or more")
    sizes = {name: getattr(options, name) for name in ("workers", "slots", "calls", "seconds", "processes")}
    about = {"machine": machine(), "versions": versions("dcurate", "dask", "distributed", "numpy")}
    figures = {way: run(options, way) for way in options.only or WAYS}
    found = about | sizes | {"figures": figures, "goals": GOALS}
    print(figures_table(found))
    save(options.json, found)


if __name__ == "__main__":
    called(main)
