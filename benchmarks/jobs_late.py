"""A worker that joins a run late, with no compiled kernel on its disk: how soon it is of use, and what that costs.

``python -m benchmarks.jobs_late [--recipe nemo-english] [--repeats 3] [--json FILE]``. Scheduler, the first worker,
which has all kernels, and the late one are real processes. See README.md here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

from benchmarks.measure import ROOT, called, machine, save, scratch_folder, table, versions
from dcurate import AttachedCluster, DaskExecutor, DocumentBatch, Pipeline, ProcessingStage
from dcurate.events import Event, SlotsChanged
from dcurate.recipe import load_recipe

#: Splits of the input; the run is ended once the late worker has done one. Seconds that a split takes at least.
SPLITS, SPLIT_S = 900, 0.5
#: Content of each split: of its 111 documents most are left.
SAMPLE = ROOT / "dcurate" / "bundled" / "sample" / "part-00.jsonl"
#: Seconds after which a late worker counts as one that is of no use.
MOST_S = 300.0


class NotesFirstRows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Notes when a process has its first rows.

    Args:
        folder: where, in a file for each process.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        mark = Path(self.folder, str(os.getpid()))
        if not mark.exists():
            mark.touch()
        time.sleep(SPLIT_S)
        return task


class LateWorker:
    """A worker that is started during a run, and when and after how many seconds of CPU it got how far.

    Args:
        address: address of the scheduler.
        folder: a folder for its files.
        warm: whether it has all kernels on its disk.
    """

    def __init__(self, address: str, folder: Path, warm: bool) -> None:
        self.folder, self.reached = folder, dict[str, tuple[float, float]]()
        environment = {**os.environ, **({} if warm else {"NUMBA_CACHE_DIR": str(folder / "kernels")})}
        with (folder / "worker.log").open("ab") as log:
            command = _worker(address, folder, "late")
            self.begun = time.monotonic()
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def note(self, step: str) -> None:
        """Note that it got so far, if that is new."""
        if step not in self.reached:
            self.reached[step] = (time.monotonic() - self.begun, self._cpu_s())

    def _cpu_s(self) -> float:
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        seconds = 0.0
        for process in family:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                seconds += times.user + times.system
        return seconds

    def processes(self) -> list[int]:
        """Ids of its processes."""
        return [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]

    def compiled(self) -> int:
        """Number of files of compiled code on its disk."""
        return len(list((self.folder / "kernels").rglob("*.nbc")))

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(60)


def _worker(address: str, folder: Path, name: str) -> list[str]:
    options = ["--name", name, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    return [sys.executable, "-m", "dask", "worker", address, *options, "--preload", "dcurate.preload"]


class Slots:
    """Hears of the slots of workers.

    Attributes:
        workers: addresses of those that had one.
    """

    def __init__(self) -> None:
        self.workers: set[str] = set()

    def on_event(self, event: Event) -> None:
        """Take an event of the run."""
        if isinstance(event, SlotsChanged) and event.slots:
            self.workers.add(event.worker)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A scheduler and a worker that has all kernels; gives the address."""
    info = folder / "scheduler.json"
    scheduler = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    scheduler += ["--scheduler-file", str(info), "--preload", "dcurate.preload"]
    processes = []
    with (folder / "cluster.log").open("ab") as log:
        try:
            processes.append(subprocess.Popen(scheduler, stdout=log, stderr=log))
            while not (info.exists() and info.stat().st_size):
                time.sleep(0.02)
            address: str = json.loads(info.read_text())["address"]
            processes.append(subprocess.Popen(_worker(address, folder, "first"), stdout=log, stderr=log))
            with Client(address, timeout=120, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=120)
            yield address
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(60)


def late_worker(recipe: str, folder: Path, warm: bool) -> dict[str, Any]:
    """Run a recipe, have a worker join it, and say how it got on.

    Args:
        recipe: a bundled recipe.
        folder: an empty folder.
        warm: whether the late worker has all kernels on its disk.
    """
    for name in ("in", "marks", "late"):
        (folder / name).mkdir()
    split = folder / "split.jsonl"
    split.write_bytes(SAMPLE.read_bytes())
    for number in range(SPLITS):
        (folder / "in" / f"{number:05}.jsonl").hardlink_to(split)
    settings = {"input": str(folder / "in"), "output": str(folder / "out")}
    stages = list(load_recipe(recipe, settings).pipeline.stages)
    pipeline = Pipeline("late", stages=[*stages[:-1], NotesFirstRows(str(folder / "marks")), stages[-1]])
    with cluster(folder) as address, AttachedCluster(address) as attached:
        slots, late = Slots(), None
        stream = pipeline.stream(DaskExecutor(cluster=attached), observers=[slots])
        try:
            for _ in stream:
                late = late or LateWorker(address, folder / "late", warm)
                known = attached.client.sync(attached.client.scheduler.identity, n_workers=-1)["workers"]
                if len(known) > 1:
                    late.note("joined")
                if len(slots.workers) > 1:
                    late.note("slot")
                if any((folder / "marks" / str(process)).exists() for process in late.processes()):
                    late.note("first row")
                    break
                if time.monotonic() - late.begun > MOST_S:
                    raise TimeoutError(f"the late worker was of no use within {MOST_S:g} s")
        finally:
            stream.close()
            if late is not None:
                late.end()
    assert late is not None
    figures: dict[str, Any] = {"kernels": "on its disk" if warm else f"{late.compiled()} sent"}
    for step, (wall_s, cpu_s) in late.reached.items():
        figures |= {f"{step}_s": round(wall_s, 2), f"{step}_cpu_s": round(cpu_s, 2)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="nemo-english", help="a bundled recipe")
    parser.add_argument("--repeats", type=int, default=3, help="late workers of each sort")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with scratch_folder("late", None) as scratch:
        os.environ["DCURATE_CACHE"] = f"{scratch}/cache"
        for number in range(2 * options.repeats):
            (folder := scratch / str(number)).mkdir()
            rows.append(late_worker(options.recipe, folder, warm=bool(number % 2)))
            print(rows[-1], flush=True)
    print(table(list(rows[0]), [list(row.values()) for row in rows]))
    save(
        options.json,
        {"machine": machine(), "versions": versions("dask", "distributed"), "recipe": options.recipe, "late": rows},
    )


if __name__ == "__main__":
    called(main)
