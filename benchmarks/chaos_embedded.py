"""Runs with workers of their own whose processes are killed at random moments from the start on; each must end.

``python -m benchmarks.chaos_embedded [--runs 50] [--seed 0] [--json FILE]``; a part of ``benchmarks.chaos``, too.
See README.md here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import le
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure import ROOT, machine, save, versions
from dcurate import (
    DaskExecutor,
    DcurateError,
    DocumentBatch,
    ExactDuplicates,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    ProcessingStage,
)
from dcurate.core.pipeline import AnyStage

#: What is killed, in turn. The scheduler and the nannies of such a run are threads of the driver.
VICTIMS = ("one worker", "all workers", "the resource tracker", "the fork server", "all but the driver")
#: The last moment of a kill, in seconds after the start of the driver.
LAST_S = 10.0
#: A run that takes longer than this, in seconds, counts as one that hangs.
HANGS_S = 600.0
#: Seconds that processes may outlive their driver.
LINGER_S = 15.0
#: An environment variable by which the processes of a run are known.
MARK = "DCURATE_CHAOS_RUN"
ROWS, FILES, WORKERS = 2_000, 20, 2


@dataclass
class Wait(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes its time."""

    seconds: float = 0.4

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        return task


def drive(source: str, output: str) -> None:
    """Run the pipeline, going on with what an earlier run left; what ends it is said as the command says it."""
    stages: list[AnyStage] = [JsonlReader(source), Wait(), ExactDuplicates(), JsonlWriter(output)]
    try:
        Pipeline("kills", stages=stages).run(
            DaskExecutor(cluster=LocalCluster(n_workers=WORKERS)), resume=True, observers=[]
        )
    except DcurateError as error:
        sys.exit(f"error: {type(error).__name__}: {error}")


@dataclass
class Blow:
    """What is killed, and when.

    Args:
        victim: one of `VICTIMS`.
        due: whether to kill now, given the seconds since the start of the driver.
        draw: chooses among several.
        again: whether to kill for as long as the run lasts, not once.
    """

    victim: str
    due: Callable[[float], bool]
    draw: random.Random = field(default_factory=lambda: random.Random(0))
    again: bool = False


def processes_of(mark: str) -> list[psutil.Process]:
    """All processes of a run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def choose(victim: str, driver: int, mark: str, draw: random.Random) -> list[psutil.Process]:
    """The processes to kill; none where there are none of that sort yet."""
    workers, tracker, server = [], [], []
    for process in processes_of(mark):
        with suppress(psutil.Error):
            if process.pid != driver:
                if process.ppid() != driver:
                    workers.append(process)
                else:
                    (server if "forkserver" in " ".join(process.cmdline()) else tracker).append(process)
    match victim:
        case "one worker":
            return draw.sample(workers, min(1, len(workers)))
        case "all workers":
            return workers
        case "the resource tracker":
            return tracker
        case "the fork server":
            return server
        case _:
            return [*workers, *tracker, *server]


def kill(processes: list[psutil.Process]) -> int:
    """Kill processes; how many there were."""
    killed = 0
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            killed += 1
    return killed


def one_run(source: Path, output: Path, blow: Blow | None = None) -> dict[str, Any]:
    """Start a driver, kill as asked, and say how it ended."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "benchmarks.chaos_embedded", "--drive", str(source), str(output)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, MARK: mark, "PYTHONPATH": path}
    begin, killed, at = time.monotonic(), 0, 0.0
    with tempfile.TemporaryFile("w+") as said:
        driver = subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=ROOT)
        while driver.poll() is None and time.monotonic() - begin < HANGS_S:
            if blow and (blow.again or not killed) and blow.due(time.monotonic() - begin):
                killed += kill(choose(blow.victim, driver.pid, mark, blow.draw))
                at = at or (time.monotonic() - begin if killed else 0.0)
            time.sleep(0.02)
        hung = driver.poll() is None
        driver.kill()
        driver.wait()
        seconds = time.monotonic() - begin
        left = psutil.wait_procs(processes_of(mark), timeout=LINGER_S)[1]
        kill(left)
        said.seek(0)
        words = said.read().splitlines()
    return {
        "victim": blow.victim if blow else "",
        "killed": killed,
        "at_s": round(at, 2),
        "seconds": round(seconds, 1),
        "exit_code": driver.returncode,
        "hung": hung,
        "left_over": len(left),
        "said": words,
    }


def rows_of(output: Path) -> Counter[int]:
    """How often each row is in the output."""
    return Counter(
        json.loads(line)["id"]
        for path in output.rglob("*.jsonl")
        if ".dcurate" not in str(path)
        for line in path.read_text().splitlines()
    )


def write_input(folder: Path) -> None:
    folder.mkdir()
    each = ROWS // FILES
    for number in range(FILES):
        lines = [json.dumps({"id": row, "text": f"row {row}"}) for row in range(number * each, (number + 1) * each)]
        (folder / f"part-{number:03}.jsonl").write_text("\n".join(lines) + "\n")


def fits(run: dict[str, Any]) -> bool:
    """Whether a run ended well without a word, or with exit code 1 and one sentence."""
    ended = not run["hung"] and not run["left_over"]
    if run["exit_code"] == 0:
        return ended and not run["said"]
    return ended and run["exit_code"] == 1 and len(run["said"]) == 1 and run["said"][0].startswith("error: ")


def kills_of_start_up(scratch: Path, runs: int, seed: int) -> dict[str, Any]:
    """Runs with a kill each; resume those that did not end well, and count all rows."""
    source, draw = scratch / "input-embedded", random.Random(seed)
    write_input(source)
    every: list[dict[str, Any]] = []
    for number in range(runs):
        output = scratch / f"embedded-{number}"
        moment = draw.uniform(0.0, LAST_S)
        run = one_run(source, output, Blow(VICTIMS[number % len(VICTIMS)], partial(le, moment), draw))
        run["fits"] = fits(run)
        if run["exit_code"]:
            again = one_run(source, output)
            run["resumed"] = again["exit_code"]
        found = rows_of(output)
        run["lost"] = ROWS - len(found)
        run["doubled"] = sum(times - 1 for times in found.values())
        every.append(run)
        print(f"run {number + 1}: {run}", flush=True)
    return {
        "runs": runs,
        "kills": dict(Counter(run["victim"] for run in every if run["killed"])),
        "ended_well": sum(run["exit_code"] == 0 for run in every),
        "ended_with_a_sentence": sum(run["exit_code"] == 1 and run["fits"] for run in every),
        "hung": sum(run["hung"] for run in every),
        "said_more": sum(not run["fits"] for run in every),
        "left_over": sum(run["left_over"] for run in every),
        "lost": sum(run["lost"] for run in every),
        "doubled": sum(run["doubled"] for run in every),
        "every_run": every,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50, help="how many runs, with a kill each")
    parser.add_argument("--seed", type=int, default=0, help="of when is killed")
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument("--drive", nargs=2, metavar=("SOURCE", "OUTPUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(*options.drive)
        return
    with tempfile.TemporaryDirectory(prefix="dcurate-chaos-") as scratch:
        os.environ["DCURATE_CACHE"] = f"{scratch}/cache"
        found = kills_of_start_up(Path(scratch), options.runs, options.seed)
    figures = {"machine": machine(), "versions": versions("dask", "distributed"), **found}
    print({name: value for name, value in found.items() if name != "every_run"})
    save(Path(options.json) if options.json else None, figures)
    sys.exit(1 if found["hung"] or found["lost"] or found["doubled"] or found["said_more"] else 0)


if __name__ == "__main__":
    main()
