"""Workers that leave in good order are not lost ones."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from dcurate import Batch, DaskExecutor, DocumentBatch, LocalCluster, Pipeline, ProcessingStage
from dcurate.events import Event, WorkerLeft, WorkerLost
from tests.conftest import scheduler_and_workers, wait_for_workers, workers_of
from tests.forked import forked
from tests.stages import Numbers

pytestmark = pytest.mark.cluster


def retire(client: Client, address: str, _process: int) -> None:
    client.retire_workers([address])


def terminate(_client: Client, _address: str, process: int) -> None:
    os.kill(process, signal.SIGTERM)


def kill(client: Client, address: str, _process: int) -> None:
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)


@dataclass
class Noted(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Appends the number of each call that ends to a file."""

    calls: Path

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(0.05)
        with self.calls.open("a") as file:
            file.writelines(f"{number}\n" for number in numbers(task))
        return task


def numbers(batch: Batch) -> list[int]:
    assert isinstance(batch, DocumentBatch)
    return [int(text) for text in batch.to_arrow()["text"].to_pylist()]


BARE = ("--no-nanny",)


@pytest.mark.parametrize(
    ("end", "options", "lost"),
    [
        (retire, (), False),
        (terminate, (), False),
        (kill, (), True),
        (terminate, BARE, False),
        (terminate, (*BARE, "--preload", "dcurate.preload"), False),
        (kill, BARE, True),
    ],
)
@pytest.mark.timeout(120)
def test_a_worker_that_leaves_in_good_order_is_not_lost(
    end: Callable[[Client, str, int], None], options: tuple[str, ...], lost: bool, tmp_path: Path
) -> None:
    heard: list[Event] = []

    class Hears:
        def on_event(self, event: Event) -> None:
            heard.append(event)

    with scheduler_and_workers(tmp_path) as address:
        worker: list[Any] = [sys.executable, "-m", "dask", "worker", address, "--name", "second"]
        more = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path), *options]
        with (
            forked(*worker, *more, log=tmp_path / "second.log") as second,
            Client(address, set_as_default=False) as client,
        ):
            wait_for_workers(address, 2)
            calls = tmp_path / "calls"
            stages = [Numbers(60, 1), Noted(calls)]
            stream = Pipeline("test", stages=stages).stream(DaskExecutor(cluster=address), observers=[Hears()])
            rows = [number for _ in range(5) for number in numbers(next(stream))]
            assert second.pid is not None
            workers = workers_of(client)
            end(client, next(one for one, about in workers.items() if about["name"] == "second"), second.pid)
            rows += [number for batch in stream for number in numbers(batch)]
            if not lost:
                second.join(30)
                assert second.exitcode == 0
    assert sorted(rows) == list(range(60))
    went = [event for event in heard if isinstance(event, WorkerLost | WorkerLeft)]
    assert [(event.name, isinstance(event, WorkerLost)) for event in went] == [("second", lost)]
    log = (tmp_path / "scheduler.log").read_text()
    assert "workers died" not in log, "Dask's account of tasks that are run again"
    assert set(map(int, calls.read_text().split())) == set(range(60)), "calls end, or are run again"


class Grows(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes more and more memory."""

    name = "grows"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        taken = []
        for _ in range(100):
            taken.append(b"x" * (16 << 20))
            time.sleep(0.1)
        return task


class FirstLost:
    """Notes why the first worker was lost, and ends the run."""

    def __init__(self) -> None:
        self.reason = ""

    def on_event(self, event: Event) -> None:
        if isinstance(event, WorkerLost):
            self.reason = event.reason
            raise KeyboardInterrupt


@pytest.mark.timeout(120)
def test_a_worker_whose_memory_was_full_is_said_to_be_lost_for_that() -> None:
    heard = FirstLost()
    with LocalCluster(n_workers=1, gpus=False, memory_limit=800_000_000) as cluster, pytest.raises(KeyboardInterrupt):
        Pipeline("test", stages=[Numbers(2, 1), Grows()]).run(DaskExecutor(cluster=cluster), observers=[heard])
    assert heard.reason == "its memory of 0.8 GB was nearly full"
