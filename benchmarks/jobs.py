"""Jobs of a cluster: how fast they answer, are followed and stop, and what is left of them under kills.

``python -m benchmarks.jobs [--parts list,follow,stop,kills] [--kills 200] [--seed 0] [--json FILE]``. Scheduler, hosts
with nannies, workers, drivers and clients are real processes. See README.md here.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from distributed import Client

from benchmarks.chaos import ChaosHost, write_input
from benchmarks.jobs_kills import DCURATE, WORK, kills
from benchmarks.measure import called, job, machine, measure, save, scratch_folder, table, versions
from dcurate.jobs import jobs_on
from dcurate.jobs.client import submit_spec
from dcurate.jobs.records import JobSpec

#: Jobs that have ended before `dcurate jobs` is timed.
ENDED = 1000
#: Lines a second that a job prints, and for how many seconds.
LINES_PER_S, FOLLOW_S = 1000, 20
#: How often each answer is timed, and how many jobs are stopped.
REPEATS, STOPS = 5, 10
#: Seconds that a call of the job that is stopped takes: what runs is ended, not waited for.
CALL_S = 0.2

#: A job that prints lines at a steady rate, each with the time at which it was printed.
PRINTS = """
import threading, time
from dcurate import JsonlReader, JsonlWriter, Pipeline, processing_stage

def lines(rate, seconds):
    begin = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        print(f"line {time.time()!r}", flush=True)

@processing_stage(name="wait")
def wait(batch):
    time.sleep(0.5)
    return batch

def pipeline(input, output, rate, seconds):
    threading.Thread(target=lines, args=(rate, seconds), daemon=True).start()
    return Pipeline("prints", stages=[JsonlReader(input), wait, JsonlWriter(output)])
"""


class KillableCluster:
    """A scheduler that keeps its jobs, and hosts of two workers each.

    Args:
        folder: a folder for their files.
        hosts: number of hosts.
    """

    def __init__(self, folder: Path, hosts: int = 2) -> None:
        self.folder, self.port = folder, 0
        self.jobs = folder / "jobs"
        self.start_scheduler()
        self.hosts = [ChaosHost(f"host-{number}", self.address, folder) for number in range(hosts)]

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return f"tcp://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        """Start the scheduler; again at the same port."""
        info = self.folder / "scheduler.json"
        info.unlink(missing_ok=True)
        here = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--scheduler-file", str(info)]
        keeps = ["--preload", "dcurate.preload", "--jobs-folder", str(self.jobs)]
        with (self.folder / "scheduler.log").open("ab") as log:
            command = [sys.executable, "-m", "dask", "scheduler", *here, *keeps]
            self.scheduler = subprocess.Popen(command, stdout=log, stderr=log)
        while not (info.exists() and info.stat().st_size):
            if self.scheduler.poll() is not None:
                raise RuntimeError((self.folder / "scheduler.log").read_text()[-2000:])
            time.sleep(0.02)
        self.port = int(json.loads(info.read_text())["address"].rpartition(":")[2])

    def wait_for_workers(self, number: int) -> None:
        """Wait until workers are there."""
        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=180)

    def end(self) -> None:
        """End all processes."""
        self.scheduler.kill()
        self.scheduler.wait()
        for host in self.hosts:
            host.vanish()


@contextmanager
def cluster(scratch: Path, name: str, prepare: Callable[[Path], None] | None = None) -> Iterator[KillableCluster]:
    """A cluster in a folder of its own, for the time of a ``with`` statement."""
    folder = scratch / name
    folder.mkdir()
    if prepare is not None:
        (folder / "jobs").mkdir()
        prepare(folder / "jobs")
    started = KillableCluster(folder)
    with ExitStack() as stack:
        stack.callback(started.end)
        started.wait_for_workers(4)
        yield started


def script(text: str, **settings: Any) -> JobSpec:
    """A job that runs the function ``pipeline`` of a script."""
    return JobSpec("script", "job.py", text.encode(), "pipeline", settings=settings)


def answers(scratch: Path) -> dict[str, Any]:
    """How long ``dcurate jobs`` takes, as a command and as a call, with many jobs that have ended."""

    def ended_jobs(folder: Path) -> None:
        for number in range(ENDED):
            record = {
                **{"id": f"{number:08x}", "name": f"day-{number}", "owner": "alice@host", "title": "recipe.yaml"},
                **{"state": "done", "submitted": float(number), "started": float(number), "ended": number + 60.0},
                **{"output": f"/data/out/{number}", "exit_code": 0, "progress": "done: 100 of 100 splits"},
            }
            spec = {"form": "recipe", "title": "recipe.yaml", "payload": base64.b64encode(b"stages: []").decode()}
            (folder / f"{number:08x}.json").write_text(json.dumps({"record": record, "spec": spec}))

    with cluster(scratch, "list", ended_jobs) as there:
        command = [str(DCURATE), "jobs", "--scheduler", there.address]
        runs = [measure([*command, *more]) for more in ((), ("--all",)) for _ in range(REPEATS)]
        bare = [measure([sys.executable, "-c", "import distributed.comm"]) for _ in range(REPEATS)]
        calls = measure(job("benchmarks.jobs:listed", address=there.address)).result
    return {
        "ended_jobs": calls["jobs"],
        "call_s": calls["seconds"],
        "command_s": min(run.wall_s for run in runs[:REPEATS]),
        "command_cpu_s": min(run.cpu_s for run in runs[:REPEATS]),
        "command_all_s": min(run.wall_s for run in runs[REPEATS:]),
        "import_of_distributed_cpu_s": min(run.cpu_s for run in bare),
    }


def listed(address: str) -> dict[str, Any]:
    """Call ``jobs_on`` a few times."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        jobs = jobs_on(address)
        seconds.append(time.perf_counter() - begin)
    return {"jobs": len(jobs), "seconds": min(seconds)}


def follow(scratch: Path) -> dict[str, Any]:
    """How long a line takes from the print of a driver to ``dcurate logs -f``."""
    with cluster(scratch, "follow") as there:
        write_input(scratch / "lines", 4 * (FOLLOW_S + 10), 1)
        settings = {"input": str(scratch / "lines"), "output": str(scratch / "lines-out")}
        target = submit_spec(script(PRINTS, **settings, rate=LINES_PER_S, seconds=FOLLOW_S), there.address, "prints")
        command = [str(DCURATE), "logs", "-f", target.id, "--scheduler", there.address, "--json"]
        delays = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            for line in follower.stdout or ():
                word, _, moment = json.loads(line)["text"].partition(" ")
                if word == "line":
                    delays.append(time.time() - float(moment))
        target.wait(120)
    cuts = statistics.quantiles(delays, n=100)
    return {
        **{"lines": len(delays), "printed": LINES_PER_S * FOLLOW_S, "lines_per_s": LINES_PER_S},
        **{"median_s": cuts[49], "p99_s": cuts[98], "largest_s": max(delays)},
    }


def slots_of_runs(dask_scheduler: Any) -> int:
    """Slots that runs have on a scheduler."""
    runs = dask_scheduler.extensions.get("dcurate", {}).values()
    return sum(sum(record.ready.values()) for run in runs for record in run.workers.values())


def tasks_of_runs(dask_scheduler: Any) -> int:
    """Tasks on a scheduler."""
    return len(dask_scheduler.tasks)


def stops(scratch: Path, draw: random.Random) -> dict[str, Any]:
    """Seconds from ``stop`` until the cluster has no slot and no task of the job, and the job has ended."""
    freed, ended = [], []
    with cluster(scratch, "stop") as there, Client(there.address, set_as_default=False) as client:
        write_input(scratch / "stopped", 400, 4)
        for number in range(STOPS):
            settings = {"input": str(scratch / "stopped"), "output": str(scratch / f"stopped-{number}")}
            target = submit_spec(script(WORK, **settings, seconds=CALL_S), there.address, f"stop-{number}")
            until(lambda: client.run_on_scheduler(slots_of_runs) >= 4, 120.0)
            time.sleep(draw.uniform(0.2, 2.0))
            begin = time.monotonic()
            target.stop()
            until(lambda: not client.run_on_scheduler(slots_of_runs), 60.0)
            freed.append(time.monotonic() - begin)
            target.wait(60)
            ended.append(time.monotonic() - begin)
            until(lambda: not client.run_on_scheduler(tasks_of_runs), 60.0)
    return {
        **{"jobs": STOPS, "median_s": statistics.median(freed), "largest_s": max(freed)},
        **{"ended_median_s": statistics.median(ended), "ended_largest_s": max(ended)},
    }


def until(holds: Callable[[], Any], seconds: float) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not in time.
    """
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="list,follow,stop,kills", help="what to measure, with commas between")
    parser.add_argument("--kills", type=int, default=200, help="how much is killed")
    parser.add_argument("--seed", type=int, default=0, help="of what is killed and stopped, and when")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "list": answers,
        "follow": follow,
        "stop": lambda scratch: stops(scratch, random.Random(options.seed)),
        "kills": lambda scratch: kills(cluster, scratch, options.kills, options.seed),
    }
    asked = options.parts.split(",")
    unknown = set(asked) - set(parts)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; parts are {', '.join(parts)}")
    figures: dict[str, Any] = {"machine": machine(), "versions": versions("dask", "distributed")}
    with scratch_folder("jobs", None) as scratch:
        os.environ["DCURATE_CACHE"] = f"{scratch}/cache"
        for name in asked:
            figures[name] = parts[name](scratch)
            rows = [[key, value] for key, value in figures[name].items() if not isinstance(value, (dict, list))]
            print(table([name, ""], rows), flush=True)
            save(options.json, figures)


if __name__ == "__main__":
    called(main)
