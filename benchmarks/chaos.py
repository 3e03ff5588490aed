"""A soak under random kills: worker processes, nannies, whole hosts, and all while they start; no row may be lost.

``python -m benchmarks.chaos [--seconds 3600] [--kills 150] [--runs 50] [--seed 0] [--json FILE]``. See README.md here.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos_embedded import HANGS_S, LINGER_S, kills_of_start_up
from benchmarks.measure import machine, save, versions
from dcurate import (
    AttachedCluster,
    DaskExecutor,
    DocumentBatch,
    JsonlReader,
    JsonlWriter,
    Pipeline,
    ProcessingStage,
    WorkerMetadata,
)
from dcurate.core.pipeline import AnyStage
from dcurate.events import Event, TaskDone, WorkerLost

#: Worker processes of each simulated host, and how many hosts.
WORKERS, HOSTS = 2, 2
#: What is killed, and how often of a hundred times.
VICTIMS = {"one worker": 55, "two workers at once": 15, "a whole host": 15, "the nannies of a host": 15}
#: Seconds after which a host that was killed comes back.
BACK_S = 2.0


@dataclass
class Prepare(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes its time in set-up and in each call."""

    setup_s: float = 0.3
    seconds: float = 0.15

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        time.sleep(self.setup_s)

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:
        time.sleep(self.seconds)
        table = task.to_arrow()
        half = table.num_rows // 2
        return [task.with_data(table.slice(0, half)), task.with_data(table.slice(half))]


class ChaosHost:
    """A simulated host: a ``dask worker`` with nannies, in a group of its own."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.address, self.folder = name, address, folder
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        command = [sys.executable, "-m", "dask", "worker", self.address, "--nworkers", str(WORKERS), "--nthreads", "1"]
        command += ["--no-dashboard", "--local-directory", str(self.folder), "--preload", "dcurate.preload"]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen([*command, "--host-name", self.name], stdout=log, stderr=log)

    def keep(self) -> None:
        """Start it again if it ended by itself, as a ``dask worker`` does whose worker was killed while it started."""
        if self.process.poll() is not None:
            self.start()

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, without the nannies."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        return []

    def lose_nannies(self) -> int:
        """Kill the nannies alone; how many of their workers are still there some time later, and killed then."""
        orphans = self.workers()
        self.process.kill()
        self.process.wait()
        left = psutil.wait_procs(orphans, timeout=LINGER_S)[1]
        for worker in left:
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        return len(left)

    def vanish(self) -> None:
        """Kill nannies and workers."""
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self.process.wait()


@dataclass
class CallCounter:
    """Counts the calls of all runs that ended, and the workers that were lost."""

    calls: int = 0
    lost: int = 0

    def on_event(self, event: Event) -> None:
        self.calls += isinstance(event, TaskDone)
        self.lost += isinstance(event, WorkerLost)


@dataclass
class Killer(threading.Thread):
    """Kills something now and then until it is stopped, when a call has ended since the last time.

    On a machine that has much else to do workers may take longer to start than it pauses; no run would end.
    """

    hosts: list[ChaosHost]
    pause_s: float
    draw: random.Random
    heard: CallCounter
    killed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.left_over = 0

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        calls = -1
        while not self.over.wait(self.draw.uniform(0.5, 1.5) * self.pause_s):
            for host in self.hosts:
                host.keep()
            if self.heard.calls == calls:
                continue
            calls = self.heard.calls
            (victim,) = self.draw.choices(list(VICTIMS), list(VICTIMS.values()))
            if victim in ("a whole host", "the nannies of a host"):
                host = self.draw.choice(self.hosts)
                if victim == "a whole host":
                    host.vanish()
                else:
                    self.left_over += host.lose_nannies()
                self.killed[victim] += 1
                self.over.wait(BACK_S)
                host.start()
                continue
            alive = [worker for host in self.hosts for worker in host.workers()]
            number = 1 if victim == "one worker" else 2
            if len(alive) >= number:
                for worker in self.draw.sample(alive, number):
                    with suppress(ProcessLookupError):
                        os.kill(worker.pid, signal.SIGKILL)
                self.killed[victim] += 1


def write_input(folder: Path, files: int, rows: int) -> None:
    folder.mkdir()
    for number in range(files):
        lines = [json.dumps({"id": row, "text": f"row {row}"}) for row in range(number * rows, (number + 1) * rows)]
        (folder / f"part-{number:04}.jsonl").write_text("\n".join(lines) + "\n")


def one_round(address: str, source: Path, output: Path, rows: int, heard: CallCounter) -> dict[str, Any]:
    """Run the pipeline once and count its rows."""
    lost, begin = heard.lost, time.monotonic()
    stages: list[AnyStage] = [JsonlReader(str(source)), Prepare().with_(batch_size=2), JsonlWriter(str(output))]
    executor = DaskExecutor(cluster=AttachedCluster(address, timeout_s=60))
    result = Pipeline("chaos", stages=stages).run(executor, observers=[heard])
    found = Counter(
        json.loads(line)["id"]
        for path in output.rglob("*.jsonl")
        if ".dcurate" not in str(path)
        for line in path.read_text().splitlines()
    )
    return {
        "rows": rows,
        "lost": rows - len(found),
        "doubled": sum(times - 1 for times in found.values()),
        "counted_otherwise": rows - result.report.stages[-1].rows_out,
        "workers_lost": heard.lost - lost,
        "seconds": round(time.monotonic() - begin, 1),
    }


def soak(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Rounds of the pipeline until enough has been killed, or the time is over."""
    info = scratch / "scheduler.json"
    command = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with ExitStack() as stack, (scratch / "scheduler.log").open("ab") as log:
        scheduler = stack.enter_context(
            subprocess.Popen([*command, "--scheduler-file", str(info)], stdout=log, stderr=log)
        )
        stack.callback(scheduler.terminate)
        while not (info.exists() and info.stat().st_size):
            time.sleep(0.05)
        address = json.loads(info.read_text())["address"]
        hosts = [ChaosHost(f"host-{number}", address, scratch) for number in range(HOSTS)]
        for host in hosts:
            stack.callback(host.vanish)
        source = scratch / "input"
        write_input(source, options.files, options.rows // options.files)
        heard = CallCounter()
        killer = Killer(hosts, options.pause, random.Random(options.seed), heard)
        begin, rounds = time.monotonic(), []
        killer.start()
        while time.monotonic() - begin < options.seconds and sum(killer.killed.values()) < options.kills:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            rounds.append(one_round(address, source, scratch / f"output-{len(rounds)}", options.rows, heard))
            faulthandler.cancel_dump_traceback_later()
            print(f"round {len(rounds)}: {rounds[-1]}, kills so far: {dict(killer.killed)}", flush=True)
        killer.over.set()
        killer.join()
    sums = {name: sum(one[name] for one in rounds) for name in ("rows", "lost", "doubled", "workers_lost")}
    seconds = round(time.monotonic() - begin, 1)
    counts = {"kills": dict(killer.killed), "rounds": len(rounds), "left_over": killer.left_over}
    return {"seconds": seconds, **counts, **sums, "every_round": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long on a cluster, at most")
    parser.add_argument(
        "--pause", type=float, default=4.0, help="seconds between two kills there, at least, on average"
    )
    parser.add_argument("--kills", type=int, default=150, help="how many kills on a cluster")
    parser.add_argument(
        "--runs", type=int, default=50, help="how many runs with workers of their own, with a kill each"
    )
    parser.add_argument("--files", type=int, default=200, help="input files of a round")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a round")
    parser.add_argument("--seed", type=int, default=0, help="of what is killed and when")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    options.rows -= options.rows % options.files
    with tempfile.TemporaryDirectory(prefix="dcurate-chaos-") as scratch:
        os.environ["DCURATE_CACHE"] = f"{scratch}/cache"
        figures = {"machine": machine(), "versions": versions("dask", "distributed")}
        figures["cluster"] = cluster = soak(options, Path(scratch))
        figures["start_up"] = start_up = kills_of_start_up(Path(scratch), options.runs, options.seed)
    kills = sum(cluster["kills"].values()) + sum(start_up["kills"].values())
    wrong = {
        name: cluster.get(name, 0) + start_up.get(name, 0)
        for name in ("lost", "doubled", "hung", "left_over", "said_more")
    }
    print(
        f"{kills} kills: {cluster['kills']} on a cluster, {cluster['workers_lost']} workers lost while a run went on; "
        f"{start_up['kills']} of runs with workers of their own; {start_up['ended_well']} of these {start_up['runs']} "
        f"ended well and {start_up['ended_with_a_sentence']} with a sentence.\nRows lost: {wrong['lost']}, doubled: "
        f"{wrong['doubled']}; runs that hung: {wrong['hung']}, that said more than a sentence: {wrong['said_more']}; "
        f"processes left over: {wrong['left_over']}"
    )
    save(Path(options.json) if options.json else None, figures)
    sys.exit(1 if any(wrong.values()) else 0)


if __name__ == "__main__":
    main()
