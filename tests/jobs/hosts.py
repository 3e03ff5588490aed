"""A cluster of real processes whose scheduler and workers can be killed and started again."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from distributed import Client

from dcurate import DcurateError
from dcurate.jobs import Job, JobRecord
from tests.conftest import free_port
from tests.forked import FORKS, start_forked

#: A pipeline of rows that each take a moment, as a script.
SCRIPT = """
import time
from dcurate import JsonlReader, JsonlWriter, Pipeline, processing_stage

@processing_stage(name="slow")
def slow(batch):
    print("a line of the stage")
    time.sleep({seconds})
    return batch

def pipeline(input, output, mode="error"):
    return Pipeline("slow", stages=[JsonlReader(input), slow, JsonlWriter(output, mode=mode)])
"""


class Hosts:
    """A scheduler on a fixed port and workers of one thread, each a process."""

    def __init__(self, folder: Path, workers: int, options: tuple[str, ...]) -> None:
        self.folder, self.number, self.options = folder, workers, options
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: BaseProcess
        self.workers: list[BaseProcess] = []

    def start(self) -> None:
        """Start the scheduler and the workers, or those that are gone."""
        here = ["--host", "127.0.0.1", "--no-dashboard"]
        self.scheduler = self._dask("scheduler", *here, "--port", str(self.port), *self.options)
        self.start_workers(self.number)
        with Client(self.address, timeout=120, set_as_default=False) as client:
            if self.number:
                client.wait_for_workers(self.number, timeout=120)

    def start_workers(self, number: int) -> None:
        """Start workers."""
        options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(self.folder)]
        self.workers += [self._dask("worker", self.address, *options) for _ in range(number)]

    def kill_scheduler(self) -> None:
        """Kill the scheduler; its workers end by themselves, as Dask has it."""
        os.kill(self.scheduler.pid or 0, signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """End all processes."""
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.join(10)
        self.workers = []

    def _dask(self, *command: str) -> BaseProcess:
        return start_forked([sys.executable, "-m", "dask", *command], self.folder / f"{command[0]}.log", **FORKS)


@contextmanager
def hosts(folder: Path, workers: int = 2, *options: str) -> Iterator[Hosts]:
    """A cluster that ends with the test, with the drivers of its jobs."""
    cluster = Hosts(folder, workers, options)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start()
        yield cluster


def until(job: Job, holds: Callable[..., object], seconds: float = 120.0) -> JobRecord:
    """Wait until a job stands in a certain way; a scheduler that is away is asked again."""
    end, last = time.monotonic() + seconds, ""
    while time.monotonic() < end:
        try:
            record = job.describe()
            if holds(record):
                return record
            last = repr(record)
        except DcurateError as error:
            last = str(error)
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {last}")


def kill_driver(record: JobRecord, number: int = signal.SIGKILL) -> None:
    """Send a signal to the driver of a job."""
    os.kill(int(record.driver.rpartition(":")[2]), number)
