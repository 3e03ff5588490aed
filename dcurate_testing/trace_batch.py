"""Trace a small run on Dask: the functions that a batch comes to, in order, by where they run.

``python -m dcurate_testing.trace_batch`` prints them; ``docs/life-of-a-batch.md`` names the most important.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from distributed import Scheduler

from dcurate import DaskExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline, ScoreFilter
from dcurate.text import WordCountFilter

#: Packages whose functions are traced.
TRACED = ("dcurate.core", "dcurate.engine", "dcurate.io")


class Trace:
    """The public functions that were called since `start`, each at its first call."""

    def __init__(self) -> None:
        self.called: dict[str, None] = {}

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call, as `sys.setprofile` wants it."""
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
        if event == "call" and module.startswith(TRACED) and not (name.startswith("_") or "._" in name or "<" in name):
            self.called.setdefault(f"{module}:{name}")

    def start(self, new_threads: bool) -> None:
        """Trace this thread, and those that start later if `new_threads`."""
        if new_threads:
            threading.setprofile(self.note)
        sys.setprofile(self.note)

    def stop(self) -> list[str]:
        """End the trace of this thread and of those to come; return the functions."""
        threading.setprofile(None)
        sys.setprofile(None)
        return list(self.called)


#: The trace of a worker, or of the scheduler, which is in the driver's process, but in other threads.
_REMOTE = Trace()


def _start(dask_scheduler: Scheduler | None = None) -> None:
    _REMOTE.start(new_threads=True)


def _stop(dask_scheduler: Scheduler | None = None) -> list[str]:
    return _REMOTE.stop()


def trace(folder: Path) -> dict[str, list[str]]:
    """Run a pipeline of two operators on one worker.

    Args:
        folder: an empty folder for its input and output.

    Returns:
        The names of functions as ``module:function``, under ``Driver``, ``Scheduler`` and ``Worker``.
    """
    (folder / "in.jsonl").write_text('{"text": "one two three"}\n')
    stages: list[Any] = [
        JsonlReader(str(folder / "in.jsonl")),
        ScoreFilter(WordCountFilter(min_words=1)),
        JsonlWriter(str(folder / "out")).with_(batch_size=2),
    ]
    driver = Trace()
    with LocalCluster(n_workers=1) as cluster:
        cluster.client.run(_start)
        cluster.client.run_on_scheduler(_start)
        driver.start(new_threads=False)
        try:
            Pipeline("life", stages=stages).run(DaskExecutor(cluster=cluster), observers=[])
        finally:
            called = driver.stop()
            scheduler = cluster.client.run_on_scheduler(_stop)
        (worker,) = cluster.client.run(_stop).values()
    return {"Driver": called, "Scheduler": scheduler, "Worker": worker}


if __name__ == "__main__":
    # By the name of the module, so that the functions for the worker are not pickled with a trace of their own.
    run = import_module("dcurate_testing.trace_batch").trace
    with tempfile.TemporaryDirectory() as name:
        json.dump(run(Path(name)), sys.stdout, indent=1)
