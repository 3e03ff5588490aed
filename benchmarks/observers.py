"""What watching a run costs: scores, examples, history, messages to the scheduler, metrics, report and page.

``python -m benchmarks.observers --input DIR [--times N] [--rounds N] [--json FILE]``. The filters of
``benchmarks.filters`` run in one cluster, in turn as they are and with all of this switched off, and CPU-seconds of
driver and workers are compared. Beside it the time inside each part is measured, in one process. See README.md here.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.filters import multiplied, pipeline_of, plain_copies
from benchmarks.measure import machine, save, table, versions
from dcurate import DaskExecutor, InlineExecutor, LocalCluster
from dcurate.run import Executor
from dcurate.ui.publisher import SnapshotPublisher

#: What is switched off, on workers and on the driver, by module and attribute.
ON_WORKERS = (
    ("dcurate.engine.worker.samples", "ScoreSampler", "add"),
    ("dcurate.text.filter_run", "FilterRun", "record_scores"),
)
ON_DRIVER = (("dcurate.runs.history", "History", "on_event"), ("dcurate.run", "_Run", "_record"))


def _nothing(*_: Any, **__: Any) -> None:
    """What stands in for a part that is switched off."""


def _places(parts: tuple[tuple[str, str, str], ...]) -> list[tuple[Any, str]]:
    return [(getattr(__import__(module, fromlist=["_"]), owner), name) for module, owner, name in parts]


def switch(on: bool) -> None:
    """Switch off what workers do for reports, or on again; runs on a worker."""
    for owner, name in _places(ON_WORKERS):
        kept = f"_kept_{name}"
        if not on and kept not in vars(owner):
            setattr(owner, kept, getattr(owner, name))
            setattr(owner, name, _nothing)
        elif on and kept in vars(owner):
            setattr(owner, name, getattr(owner, kept))
            delattr(owner, kept)


@contextmanager
def unwatched(cluster: LocalCluster) -> Iterator[None]:
    """No part of it runs, on the driver nor on workers."""
    cluster.client.run(switch, False)
    with ExitStack() as stack:
        for owner, name in _places(ON_DRIVER):
            stack.enter_context(patch.object(owner, name, _nothing))
        for name in ("__enter__", "__exit__"):
            stack.enter_context(patch.object(SnapshotPublisher, name, _nothing))
        yield
    cluster.client.run(switch, True)


def cpu_of_run(executor: Executor, source: Path, output: Path) -> float:
    """CPU-seconds of this process in a run."""
    begin = time.process_time()
    pipeline_of(str(source), str(output), None).run(executor, observers=[])
    return time.process_time() - begin


def in_turn(source: Path, rounds: int, workers: int, scratch: Path) -> dict[str, Any]:
    """CPU-seconds with and without, in turn; the first round only warms up."""
    found: dict[str, list[float]] = {"watched": [], "unwatched": []}
    with LocalCluster(n_workers=workers, gpus=False, dashboard=True) as cluster:
        executor = DaskExecutor(cluster=cluster)

        def once(number: int) -> float:
            before = sum(cluster.client.run(time.process_time).values())
            driver = cpu_of_run(executor, source, scratch / f"out-{number}")
            return driver + sum(cluster.client.run(time.process_time).values()) - before

        for number in range(2 * (rounds + 1)):
            watched = number % 4 in (0, 3)  # watched, not, not, watched: a drift falls on both alike
            with ExitStack() as stack:
                if not watched:
                    stack.enter_context(unwatched(cluster))
                seconds = once(number)
            if number > 1:
                found["watched" if watched else "unwatched"].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    share = medians["watched"] / medians["unwatched"] - 1
    return {"cpu_s": medians, "overhead": share, "runs": found}


#: Parts whose own time is measured, by name.
PARTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "scores and examples": ON_WORKERS,
    "history": (("dcurate.runs.history", "History", "on_event"),),
    "report, history and page as files": (("dcurate.run", "_Run", "_record"),),
}


def by_part(source: Path, scratch: Path) -> dict[str, Any]:
    """CPU-seconds inside each part, in a run in this process, and of the run as a whole."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                spent[name] += time.thread_time() - begin

        return called

    with ExitStack() as stack:
        for name, parts in PARTS.items():
            for owner, method in _places(parts):
                stack.enter_context(patch.object(owner, method, timed(name, getattr(owner, method))))
        total = cpu_of_run(InlineExecutor(), source, scratch / "inline")
    return {"cpu_s": total, "parts": spent, "share": sum(spent.values()) / total}


def shown(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    turn, parts = figures["in_turn"], figures["by_part"]
    rows = [[name, seconds] for name, seconds in turn["cpu_s"].items()]
    whole = parts["cpu_s"]
    inner = [[name, 1000 * spent, f"{100 * spent / whole:.3f} %"] for name, spent in parts["parts"].items()]
    inner.append(["all of these", 1000 * sum(parts["parts"].values()), f"{100 * parts['share']:.3f} %"])
    return "\n".join(
        [
            table([f"{figures['mb']:.0f} MB through {figures['filters']} filters", "CPU s, median"], rows),
            f"watched costs {100 * turn['overhead']:+.2f} % of CPU (differences below the spread of runs mean nothing)",
            table(["in one process", "CPU ms", f"of {whole:.1f} s"], inner),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.observers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", required=True, metavar="DIR", help="JSONL files")
    parser.add_argument("--times", type=int, default=4, help="so many times the input")
    parser.add_argument("--rounds", "--repeat", dest="rounds", type=int, default=5, help="runs of each kind")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dcurate-observers-") as name:
        scratch = Path(name)
        data = multiplied(plain_copies(options.input, scratch / "plain"), options.times, scratch / "in")
        by_part(data.folder, scratch / "warm")
        figures = {
            "machine": machine(),
            "versions": versions("dcurate", "dask", "distributed", "numpy", "pandas", "pyarrow"),
            "mb": data.mb,
            "filters": len(pipeline_of(str(data.folder), str(scratch / "unused"), None).stages) - 2,
            "by_part": by_part(data.folder, scratch),
            "in_turn": in_turn(data.folder, options.rounds, options.workers, scratch),
        }
    print(shown(figures))
    save(options.json, figures)


if __name__ == "__main__":
    main()
