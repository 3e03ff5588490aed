"""Kills of whatever a job depends on, in every state of a job, and whether its output is that of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos import write_input
from dcurate.errors import DcurateError
from dcurate.jobs import Job, JobRecord

#: The command line of this environment.
DCURATE = Path(sys.executable).with_name("dcurate")
#: What is killed, and how often of a hundred times.
VICTIMS = {"client": 10, "driver": 30, "host of the driver": 15, "scheduler": 10, "nannies": 10, "workers": 25}
#: States of a job in which something is killed: how long after a change of its state, in seconds, at most.
LATER_S = {"waiting": 0.2, "starting": 2.0, "running": 3.0, "stopping": 0.5}
#: Seconds without an end of a job, after the last kill, after which it hangs.
HANGS_S = 240.0
#: Seconds after which a client that ended without a job there is started again; share of jobs stopped and resumed.
AGAIN_S, SHARE_STOPPED = 20.0, 0.2
#: Kills for each job, at most: a job fails when five drivers in a row end without a finished split.
KILLS_PER_JOB = 4
#: Splits of a job, and rows of each.
SPLITS, ROWS = 24, 2

#: A job whose splits take some time.
WORK = """
import time
from dcurate import JsonlReader, JsonlWriter, Pipeline, processing_stage

def pipeline(input, output, seconds=0.25):
    def work(batch):
        time.sleep(seconds)
        return batch
    stages = [JsonlReader(input), processing_stage(name="work")(work), JsonlWriter(output)]
    return Pipeline("work", stages=stages)
"""


def kills(
    cluster: Callable[[Path, str], AbstractContextManager[Any]], scratch: Path, wanted: int, seed: int
) -> dict[str, Any]:
    """Kill until enough has been killed; every job's files are compared with those of one that nobody disturbs.

    Args:
        cluster: makes a cluster in a folder, under a name.
        scratch: a folder.
        wanted: number of kills.
        seed: of what is killed and when.
    """
    draw, killed, states = random.Random(seed), Counter[str](), Counter[str]()
    wrong: list[dict[str, Any]] = []
    jobs, again, longest = 0, 0, 0.0
    source = scratch / "source"
    write_input(source, SPLITS, ROWS)
    (scratch / "work.py").write_text(WORK)
    with cluster(scratch, "kills") as there:
        expected = _files(_finished(there, source, scratch / "expected"))
        while killed.total() < wanted:
            disturbed = DisturbedJob(there, jobs := jobs + 1, draw)
            outcome = disturbed.run()
            killed.update(disturbed.killed)
            states.update(disturbed.states)
            outcome["equal"] = _files(disturbed.output) == expected
            again += outcome["submitted"] - 1
            longest = max(longest, outcome["seconds"])
            if outcome["state"] != "done" or not outcome["equal"]:
                wrong.append({"job": disturbed.name, **outcome})
            print(f"job {jobs}: {outcome}, kills so far: {dict(killed)}", flush=True)
    return {
        **{"kills": killed.total(), "of": dict(killed), "in_state": dict(states), "jobs": jobs},
        **{"submitted_again": again, "hung": sum(one["state"] == "hung" for one in wrong)},
        **{"not_equal": sum(not one["equal"] for one in wrong), "longest_s": round(longest, 1), "wrong": wrong},
    }


def _submit(there: Any, source: Path, output: Path, name: str) -> subprocess.Popen[bytes]:
    """Submit a job by the command line, as a client that follows it."""
    script = output.parent / "work.py"
    command = [str(DCURATE), "submit", f"{script}:pipeline", "--scheduler", there.address]
    command += ["--name", name, "--input", str(source), "--output", str(output), "-f"]
    with (there.folder / "client.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _finished(there: Any, source: Path, output: Path) -> Path:
    """Run a job that nobody disturbs."""
    _submit(there, source, output, "expected").wait(HANGS_S)
    return output


def _files(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(output.glob("*.jsonl"))}


class DisturbedJob:
    """A job around which things are killed until it ends.

    Args:
        there: the cluster.
        number: number of the job.
        draw: what is killed, and when.
    """

    def __init__(self, there: Any, number: int, draw: random.Random) -> None:
        self.there, self.draw, self.name = there, draw, f"job-{number}"
        self.source, self.output = there.folder.parent / "source", there.folder.parent / f"output-{number}"
        self.target = Job(there.address, self.name)
        self.killed, self.states = Counter[str](), Counter[str]()
        self.submitted = 0
        self.stop_at = draw.uniform(1.0, 6.0) if draw.random() < SHARE_STOPPED else None

    def run(self) -> dict[str, Any]:
        """Run it to its end, or until it hangs."""
        self.submit()
        begin, state, due = time.monotonic(), "", 0.0
        while True:
            for host in self.there.hosts:
                host.keep()
            record = _record(self.target)
            if record is None:
                self.submit_again()
            elif record.state == "stopped":
                self.stop_at = None
                with suppress(DcurateError):
                    self.target.resume()
            elif not record.is_live or time.monotonic() - self.last > HANGS_S:
                with suppress(subprocess.TimeoutExpired):
                    self.client.wait(20)
                self.client.kill()
                return {
                    **{"state": "hung" if record.is_live else record.state, "why": record.why},
                    **{"kills": self.killed.total(), "attempts": record.attempt, "submitted": self.submitted},
                    "seconds": round(time.monotonic() - begin, 1),
                }
            else:
                if record.state != state:
                    state, due = record.state, time.monotonic() + self.draw.uniform(0.0, LATER_S[record.state])
                if self.stop_at is not None and time.monotonic() - begin > self.stop_at:
                    with suppress(DcurateError):
                        self.target.stop()
                if self.killed.total() < KILLS_PER_JOB and time.monotonic() >= due:
                    self.kill(record)
                    due = time.monotonic() + self.draw.uniform(0.5, 4.0)
            time.sleep(0.03)

    def submit(self) -> None:
        """Submit it by the command line, with a client that follows it."""
        self.client, self.last = _submit(self.there, self.source, self.output, self.name), time.monotonic()
        self.submitted += 1

    def submit_again(self) -> None:
        """Do what a person does whose client ended before the job was there."""
        if self.client.poll() is not None and time.monotonic() - self.last > AGAIN_S:
            self.submit()

    def kill(self, record: JobRecord) -> None:
        """Kill something, if it is there."""
        (victim,) = self.draw.choices(list(VICTIMS), list(VICTIMS.values()))
        if _kill(self.there, victim, record, self.client, self.draw):
            self.killed[victim] += 1
            self.states[record.state] += 1
            self.last = time.monotonic()


def _record(target: Job) -> JobRecord | None:
    try:
        return target.describe()
    except DcurateError:
        return None


def _kill(there: Any, victim: str, record: JobRecord, client: subprocess.Popen[bytes], draw: random.Random) -> bool:
    """Kill something; whether it was there."""
    pid = int(record.driver.rpartition(":")[2] or 0)
    if victim == "client":
        if client.poll() is not None:
            return False
        client.kill()
        client.wait()
    elif victim == "driver":
        if not pid or not psutil.pid_exists(pid):
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    elif victim == "host of the driver":
        with suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)
        host = draw.choice(there.hosts)
        host.vanish()
        host.start()
    elif victim == "scheduler":
        there.scheduler.kill()
        there.scheduler.wait()
        there.start_scheduler()
        for host in there.hosts:
            host.keep()
    elif victim == "nannies":
        host = draw.choice(there.hosts)
        host.lose_nannies()
        host.start()
    else:
        alive = [worker for host in there.hosts for worker in host.workers()]
        if not alive:
            return False
        for worker in draw.sample(alive, min(len(alive), draw.choice([1, 1, 2]))):
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
    return True
