"""A long run: how much driver, scheduler and ledger grow with the tasks, and whether Dask spills.

``python -m benchmarks.jobs_soak [--splits 500000] [--minutes 0] [--times 10] [--json FILE]``. A stage leaks and wears
out, so that its processes are recycled by memory and by age all along. Scheduler, nannies, workers and the driver are
processes. With ``--minutes``, each call rests, so that the run takes at least that long on a machine with other work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client

from benchmarks.measure import MB, called, job, machine, memory_in_use, save, scratch_folder, table, versions
from benchmarks.overhead_jobs import SPLIT_BYTES, FirstRow, MadeTexts, NullWriter, Partitions
from dcurate import AttachedCluster, DaskExecutor, DocumentBatch, Pipeline, ProcessingStage
from dcurate.core.pipeline import AnyStage
from dcurate.events import Event, Sampled, TaskDone, WorkerRecycled

#: Workers of one slot, memory of each, and bytes that each call of a stage leaks.
WORKERS, WORKER_MEMORY, LEAK_BYTES = 2, 400_000_000, 10_000
#: Minutes that a process of the stage lives.
LIFETIME_M = 5.0
#: What is looked at: resident memory, open files and the ledger, and what the scheduler has in use.
_LOOKED_AT = (
    *("driver_mb", "scheduler_mb", "driver_files", "scheduler_files", "ledger_mb"),
    *("scheduler_in_use_mb", "scheduler_in_use_blocks"),
)
#: Seconds between two looks.
LOOK_S = 2.0
#: Share of the looks, from the end, from which growth is computed: caches fill before.
STEADY = 0.6


@dataclass
class Leak(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Forgets to free memory.

    Args:
        rest_s: seconds that each call sleeps.
    """

    rest_s: float = 0.0
    name: str = "leak"

    def __post_init__(self) -> None:
        self.kept: list[bytes] = []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.kept.append(os.urandom(LEAK_BYTES))
        time.sleep(self.rest_s)
        return task


@dataclass
class SoakCounts:
    """Counts calls that ended and worker processes that were recycled, and samples the memory of its own process."""

    calls: int = 0
    recycled: int = 0
    in_use: list[tuple[float, ...]] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        """Take an event of the run."""
        self.calls += isinstance(event, TaskDone)
        self.recycled += isinstance(event, WorkerRecycled)
        if isinstance(event, Sampled):
            self.in_use.append((self.calls, *memory_in_use()))

    def growth(self) -> dict[str, float]:
        """Growth of what is in use for each 100,000 calls, over the last samples."""
        steady = np.array(self.in_use[int(len(self.in_use) * (1 - STEADY)) : -1])
        return {
            name: float(np.polyfit(steady[:, 0], steady[:, column], 1)[0]) * 100_000
            for column, name in enumerate(("driver_in_use_mb", "driver_in_use_blocks"), 1)
        }


def drive(address: str, output: str, splits: int, bytes_each: int, rest_s: float) -> dict[str, Any]:
    """Run a pipeline on a cluster: splits of text that leave one row, or splits of one row that leak."""
    stages: list[AnyStage] = [NullWriter(output)]
    if bytes_each:
        stages = [MadeTexts(splits), FirstRow(), *stages]
    else:
        stages = [Partitions(splits), Leak(rest_s).with_(worker_max_lifetime_m=LIFETIME_M), *stages]
    counts, begin = SoakCounts(), time.perf_counter()
    result = Pipeline("soak", stages=stages).run(
        DaskExecutor(cluster=AttachedCluster(address, timeout_s=60)), observers=[counts]
    )
    rows, seconds = result.report.stages[-1].rows_in, time.perf_counter() - begin
    return {
        "rows": rows,
        "calls": counts.calls,
        "recycled": counts.recycled,
        "seconds": seconds,
        "in_use": counts.growth(),
    }


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A scheduler and workers with nannies; its address and process."""
    info = folder / "scheduler.json"
    here = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(info)]
    with ExitStack() as stack, (folder / "dask.log").open("ab") as log:

        def start(*command: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([sys.executable, "-m", "dask", *command], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        scheduler = start("scheduler", *here)
        while not (info.exists() and info.stat().st_size):
            time.sleep(0.05)
        address = json.loads(info.read_text())["address"]
        workers = [
            "--nworkers",
            str(WORKERS),
            "--nthreads",
            "1",
            "--memory-limit",
            str(WORKER_MEMORY),
            "--no-dashboard",
        ]
        start("worker", address, *workers, "--local-directory", str(folder), "--preload", "dcurate.preload")
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(WORKERS, timeout=120)
        yield address, psutil.Process(scheduler.pid)


def observed(folder: Path, splits: int, bytes_each: int, rest_s: float = 0.0) -> dict[str, Any]:
    """Run a pipeline, and look at driver, scheduler, ledger and workers all along."""
    looks: list[tuple[float, ...]] = []
    spilled: float = 0
    with cluster(folder) as (address, scheduler), Client(address, set_as_default=False) as client:
        command = job("benchmarks.jobs_soak:drive", address=address, output=str(folder / "out"), splits=splits,
                      bytes_each=bytes_each, rest_s=rest_s)  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            driver = psutil.Process(process.pid)
            while process.poll() is None:
                time.sleep(LOOK_S)
                with suppress(psutil.NoSuchProcess):
                    looks.append((*_look(driver, scheduler, folder / "out"), *client.run_on_scheduler(memory_in_use)))
                workers = client.scheduler_info(n_workers=-1)["workers"].values()
                spilled = max([spilled, *(sum(_spilled(worker).values()) for worker in workers)])
            outcome = json.loads((process.stdout.read() if process.stdout else "").strip().rpartition("\n")[2])
    steady = np.array(looks[int(len(looks) * (1 - STEADY)) : -1])
    calls_per_s = outcome["calls"] / outcome["seconds"]
    growth = {
        name: float(np.polyfit(steady[:, 0], steady[:, column], 1)[0]) / calls_per_s * 100_000
        for column, name in enumerate(_LOOKED_AT, 1)
    }
    in_use = outcome.pop("in_use")
    return {
        **outcome,
        "growth_per_100000_calls": growth | in_use,
        "peak_driver_mb": max(look[1] for look in looks),
        "peak_scheduler_mb": max(look[2] for look in looks),
        "bytes_through": splits * bytes_each,
        "workers_memory": WORKERS * WORKER_MEMORY,
        "bytes_spilled": spilled,
        "lost": splits - outcome["rows"],
    }


def _look(driver: psutil.Process, scheduler: psutil.Process, output: Path) -> tuple[float, ...]:
    records = output.with_name(f"{output.name}.dcurate")
    ledger = sum(path.stat().st_size for path in records.rglob("*") if path.is_file())
    memory = (driver.memory_info().rss / MB, scheduler.memory_info().rss / MB)
    return time.monotonic(), *memory, driver.num_fds(), scheduler.num_fds(), ledger / MB


def _spilled(worker: dict[str, Any]) -> dict[str, float]:
    return dict(worker["metrics"].get("spilled_bytes", {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=500_000, help="splits of the long run")
    parser.add_argument("--minutes", type=float, default=0.0, help="least length of the long run")
    parser.add_argument("--times", type=float, default=10.0, help="data of the run that may not spill, in memories")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dask", "distributed")}
    with scratch_folder("soak", None) as scratch:
        os.environ["DCURATE_CACHE"] = f"{scratch}/cache"
        rest_s = options.minutes * 60 * WORKERS / options.splits
        for name, splits, bytes_each, rest in (
            ("spill", int(options.times * WORKERS * WORKER_MEMORY / SPLIT_BYTES), SPLIT_BYTES, 0.0),
            ("soak", options.splits, 0, rest_s),
        ):
            (scratch / name).mkdir()
            figures[name] = observed(scratch / name, splits, bytes_each, rest)
            flat = {**figures[name], **figures[name]["growth_per_100000_calls"]}
            print(table([name, ""], [[key, value] for key, value in flat.items() if not isinstance(value, dict)]))
            save(options.json, figures)


if __name__ == "__main__":
    called(main)
