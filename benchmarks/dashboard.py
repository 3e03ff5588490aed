"""What an open dashboard page costs the scheduler: CPU and bytes for each update, beside Dask's own status page.

    python -m benchmarks.dashboard --json benchmarks/results/dashboard.json

Runs are made up (`dcurate_testing.dashboard_runs`) and so are the workers that a real scheduler knows. Each update
follows a second of the run, and of new figures of every worker, and is counted until its messages are made as the
browser gets them. Nothing is sent over a network. CPU is that of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.protocol import Protocol
from distributed import Scheduler
from distributed.dashboard.scheduler import status_doc

from benchmarks.measure import machine, save, table, versions
from dcurate.runs.history import History
from dcurate.ui.dashboard.pages import UPDATE_MS, Page
from dcurate.ui.scheduler_store import RUNS
from dcurate_testing.dashboard_runs import Shape, at, history, made_up_worker

#: Runs by what they are called.
SHAPES = {
    "3 operators, 2 workers": Shape(operators=3, hosts=1, workers=2),
    "8 operators, 64 workers": Shape(operators=8, stages=3, hosts=4, workers=64),
    "20 operators in 1 phase, 200 workers": Shape(operators=20, stages=2, hosts=25, workers=200, gpus=2),
    "20 operators in 5 phases, 200 workers": Shape(operators=20, stages=2, phases=5, hosts=25, workers=200, gpus=2),
}
#: CPU milliseconds that an update may take.
LIMIT_MS = 200.0


@dataclass
class Cost:
    """What was measured of a page."""

    open_ms: float
    open_bytes: int
    per_second_ms: list[float] = field(default_factory=list)
    update_ms: list[float] = field(default_factory=list)
    update_bytes: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Medians, the worst, and what a page costs for each second that it is open."""
        return {
            "open_ms": round(self.open_ms, 1),
            "open_kb": round(self.open_bytes / 1000, 1),
            "update_ms": round(statistics.median(self.update_ms), 2),
            "worst_update_ms": round(max(self.update_ms), 2),
            "update_kb": round(statistics.median(self.update_bytes) / 1000, 2),
            "worst_update_kb": round(max(self.update_bytes) / 1000, 1),
            "cpu_ms_per_s_open": round(statistics.median(self.per_second_ms), 1),
        }


@dataclass
class RecordedRuns:
    """The newest run goes on; the others have ended."""

    runs: dict[str, History]


#: What keeps a page up to date, and how often it is called, in milliseconds.
Callbacks = list[tuple[Callable[[], object], int]]


class GoingRun:
    """A run that goes on and a scheduler with its workers, a second at a time."""

    def __init__(self, shape: Shape, scheduler: Scheduler, begun_s: float) -> None:
        self.shape, self.scheduler = shape, scheduler
        self.started = time.time() - begun_s
        self.seconds = begun_s
        ended = {
            f"run-{number}": history(f"run-{number}", Shape(seconds=60), self.started) for number in range(RUNS - 1)
        }
        self.store = RecordedRuns({**ended, "7f3a": history("7f3a", shape, self.started, until=begun_s)})
        self.workers = [made_up_worker(scheduler, shape, number) for number in range(shape.workers)]

    def pass_a_second(self) -> None:
        """The run and its workers go on."""
        for _ in range(2):
            self.seconds += 0.5
            self.store.runs["7f3a"].take(at("7f3a", self.shape, self.started, self.seconds))
        for number, worker in enumerate(self.workers):
            worker.metrics["memory"] = int(2e9 + 1e9 * math.sin(self.seconds / 3 + number))
            worker.metrics["cpu"] = 50 + 50 * math.sin(self.seconds / 5 + number)


def ours(stage: GoingRun, updates: int) -> Cost:
    """The cost of the page /curation."""

    def open_page(document: Document) -> Callbacks:
        page = Page(document, stage.scheduler, stage.store)
        page.open()
        return [(page.update, UPDATE_MS)]

    return measured(open_page, stage, updates)


def dasks(stage: GoingRun, updates: int) -> Cost:
    """The cost of Dask's page /status; an update is one of each of its parts."""

    def open_page(document: Document) -> Callbacks:
        status_doc(stage.scheduler, {"prefix": "/", "pages": [], "plots": [], "jupyter": False}, document)
        return [(one.callback, one.period) for one in document.session_callbacks]  # type: ignore[attr-defined]

    return measured(open_page, stage, updates)


def measured(open_page: Callable[[Document], Callbacks], stage: GoingRun, updates: int) -> Cost:
    """What it costs to open a page, and to keep it up to date."""
    document, protocol, sent = Document(), Protocol(), [0]

    def send(event: Any) -> None:
        message = protocol.create("PATCH-DOC", [event])
        sent[0] += len(message.content_json.encode()) + sum(len(one.to_bytes()) for one in message.buffers)

    begun = time.process_time()
    callbacks = open_page(document)
    opened = protocol.create("PULL-DOC-REPLY", "0", document)  # type: ignore[call-overload]
    size = len(opened.content_json.encode())
    cost = Cost(1000 * (time.process_time() - begun), size)
    document.on_change(send)
    gc.collect()
    for _ in range(updates):
        stage.pass_a_second()
        sent[0] = 0
        spent = []
        for callback, period in callbacks:
            begun = time.process_time()
            callback()
            spent.append((1000 * (time.process_time() - begun), period))
        cost.update_ms.append(sum(each for each, _ in spent))
        cost.per_second_ms.append(sum(1000 / period * each for each, period in spent))
        cost.update_bytes.append(sent[0])
    return cost


async def costs(updates: int, begun_s: float) -> dict[str, dict[str, dict[str, float]]]:
    """What both pages cost for each shape."""
    found = {}
    for name, shape in SHAPES.items():
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0") as scheduler:
            length = Shape(**{**vars(shape), "seconds": 2 * (begun_s + 2 * updates)})
            stage = GoingRun(length, scheduler, begun_s)
            found[name] = {"curation": ours(stage, updates).figures(), "status": dasks(stage, updates).figures()}
            scheduler.workers.clear()
            scheduler.running.clear()
    return found


def report(figures: dict[str, dict[str, dict[str, float]]]) -> str:
    """The figures as a table."""
    columns = (
        "open_ms",
        "open_kb",
        "update_ms",
        "worst_update_ms",
        "update_kb",
        "worst_update_kb",
        "cpu_ms_per_s_open",
    )
    header: Sequence[str] = ("run", "page", *(name.replace("_", " ") for name in columns))
    rows = [
        (name, f"/{page}", *(cost[column] for column in columns))
        for name, pages in figures.items()
        for page, cost in pages.items()
    ]
    worst = max(pages["curation"]["worst_update_ms"] for pages in figures.values())
    verdict = f"worst update of /curation: {worst:.0f} ms of CPU; the limit is {LIMIT_MS:.0f} ms"
    return f"{table(header, rows)}\n\n{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=240, help="of each page; the first points are thinned meanwhile")
    parser.add_argument(
        "--begun", type=float, default=150.0, help="seconds that the run goes on when the page is opened"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    figures = asyncio.run(costs(options.updates, options.begun))
    print(report(figures))
    save(
        options.json,
        {"limit_ms": LIMIT_MS, "updates": options.updates, "pages": figures, "machine": machine()}
        | {"versions": versions("dcurate", "bokeh", "distributed")},
    )


if __name__ == "__main__":
    main()
