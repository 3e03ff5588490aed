"""A pipeline that is watched, and a real Prometheus that watches it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcurate import AttachedCluster, DaskExecutor, DocumentBatch, Pipeline, ProcessingStage
from dcurate.core.report import RunReport
from tests.conftest import free_port, skip_outside_ci, wait_for, wait_for_workers, wait_until
from tests.forked import forked
from tests.stages import FailOn, KeepEvery, Numbers, Sleep


def tool(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``; where it is not installed the test is skipped, in CI it fails."""
    return shutil.which(name) or skip_outside_ci(f"{name} is not installed: apt-get install prometheus")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@dataclass
class CountTokens(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Logs three tokens for each document."""

    name: str = "count_tokens"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self._log_metrics({"tokens": 3 * task.num_items, "lookups": 1})
        return task


@dataclass(frozen=True)
class Watch:
    """Prometheus, and what it watches."""

    prometheus: str
    dashboard: str
    scheduler: str
    folder: Path

    def ask(self, path: str, **parameters: object) -> Any:
        """What Prometheus' API answers."""
        answer = json.loads(get(f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        assert answer["status"] == "success"
        return answer["data"]

    def values(self, query: str) -> dict[tuple[str, ...], float]:
        """What a query gives now: figures by the values of their labels, in the order of the labels' names."""
        # After a scrape that was too slow, on a busy machine say, there are no figures until the next one.
        wait_until(lambda: not self.ask("query", query="up == 0")["result"], "whatever is there is scraped")
        return {
            tuple(value for _, value in sorted(one["metric"].items())): float(one["value"][1])
            for one in self.ask("query", query=query)["result"]
        }

    def value(self, query: str) -> float | None:
        return next(iter(self.values(query).values()), None)

    def run(self, name: str, splits: int = 60) -> RunReport:
        """Run a pipeline in which each kind of thing happens that there are metrics of; the scheduler is told."""
        stages = [
            Numbers(splits, rows=40),
            FailOn(text="7").with_(name="parse"),
            KeepEvery(2, 0),
            CountTokens(),
            Sleep(0.06).with_(name="slow", num_workers=1),
        ]
        with AttachedCluster(self.scheduler) as cluster:
            report = Pipeline(name, stages=stages).run(DaskExecutor({"ignore_failures": True}, cluster)).report
        ended = f'dcurate_runs_ended_total{{outcome="finished",pipeline="{name}"}}'
        wait_until(lambda: ended in get(f"{self.dashboard}/metrics"), "the run's end on the scheduler's /metrics")
        return report


def finished(*command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """A command that has ended, well or not."""
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=240, check=False)


def monitor(*arguments: str) -> str:
    """What ``dcurate monitor`` does and says, in a process of its own."""
    done = finished(sys.executable, "-c", MONITOR, *arguments)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


MONITOR = """
import sys
from pathlib import Path
from dcurate.ui.monitor.config import Watched
from dcurate.ui.monitor.processes import down, up

what, folder, *more = sys.argv[1:]
lines = up(Watched(more[0], int(more[1]), 1), Path(folder), int(more[2])) if what == "up" else down(Path(folder))
print("\\n".join(lines))
"""


#: Options of schedulers and workers: this machine alone can reach them, their pages are on free ports.
LOCAL = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


@contextmanager
def worker_of(scheduler: str, folder: Path, *options: str) -> Iterator[None]:
    """A ``dask worker`` of one thread for a scheduler."""
    worker = [sys.executable, "-m", "dask", "worker", scheduler, *LOCAL, "--nthreads", "1", *options]
    with forked(*worker, "--local-directory", str(folder), log=folder / "worker.log"):
        yield


@contextmanager
def scheduler_with_pages(folder: Path, workers: int = 2) -> Iterator[Mapping[str, str]]:
    """A ``dask scheduler`` with its dashboard and a ``dask worker``; gives their addresses."""
    info = folder / "scheduler.json"
    options = [*LOCAL, "--port", "0", "--scheduler-file", str(info), "--preload", "dcurate.preload"]
    with forked(sys.executable, "-m", "dask", "scheduler", *options, log=folder / "scheduler.log"):
        wait_for(info)
        told = json.loads(info.read_text())
        with worker_of(told["address"], folder, "--nworkers", str(workers)):
            wait_for_workers(told["address"], workers)
            dashboard = f"http://127.0.0.1:{told['services']['dashboard']}"
            yield {"scheduler": told["address"], "dashboard": dashboard}


@contextmanager
def watched(folder: Path) -> Iterator[Watch]:
    """A cluster of processes that Prometheus watches, as ``dcurate monitor up`` starts it."""
    tool("prometheus")
    port = free_port()
    with scheduler_with_pages(folder) as at:
        monitor("up", str(folder / "monitor"), at["dashboard"], str(port), str(free_port()))
        try:
            yield Watch(f"http://127.0.0.1:{port}", at["dashboard"], at["scheduler"], folder / "monitor")
        finally:
            monitor("down", str(folder / "monitor"))
