"""Half of the workers leave with notice in the middle of a run: nothing that was finished is made again."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, JsonlReader, JsonlWriter, Pipeline, ProcessingStage
from dcurate.core.pipeline import AnyStage
from dcurate.events import Event, WorkerLeft, WorkerLost
from tests.conftest import scheduler_and_workers, wait_for_workers, workers_of
from tests.forked import forked

pytestmark = pytest.mark.cluster

SPLITS = 60


@dataclass
class Noted(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Notes each call that ends in a file, with its process."""

    calls: str
    seconds: float
    name: str = "noted"

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        assert task.key is not None
        with open(f"{self.calls}-{self.name}", "a") as file:
            file.write(f"{task.key.split} {os.getpid()}\n")
        return task


def stages(source: Path, calls: Path, output: Path, slower: float = 1) -> list[AnyStage]:
    """Two operators, so that results wait on workers between them."""
    return [
        JsonlReader(str(source), files_per_partition=1),
        Noted(str(calls), 0.15 * slower, "first"),
        Noted(str(calls), 0.2 * slower, "second").with_(batch_size=2),
        JsonlWriter(str(output)),
    ]


class Went:
    """Counts what ended, and acts when some splits are finished."""

    def __init__(self, act: Callable[[], object], after: int) -> None:
        self.act, self.after, self.done = act, after, 0
        self.heard: list[Event] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, WorkerLost | WorkerLeft):
            self.heard.append(event)
        if type(event).__name__ == "SplitDone":
            self.done += 1
            if self.done == self.after:
                self.act()


@contextmanager
def four_workers(folder: Path, *options: str) -> Iterator[tuple[str, list[Any]]]:
    with scheduler_and_workers(folder, "--nworkers", "2") as address, ExitStack() as stack:
        common = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder), *options]
        leaving = [
            stack.enter_context(
                forked(
                    sys.executable,
                    *("-m", "dask", "worker", address, "--name", name, *common),
                    log=folder / f"{name}.log",
                )
            )
            for name in ("third", "fourth")
        ]
        wait_for_workers(address, 4)
        yield address, leaving


def retire(client: Client, leaving: list[Any]) -> None:
    addresses = [address for address, about in workers_of(client).items() if about["name"] in ("third", "fourth")]
    client.retire_workers(addresses)


def terminate(_client: Client, leaving: list[Any]) -> None:
    for process in leaving:
        os.kill(process.pid, signal.SIGTERM)


def nothing(_client: Client, leaving: list[Any]) -> None:
    """Their lifetime ends."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(SPLITS):
        (folder / f"{number:02}.jsonl").write_text(json.dumps({"text": f"row {number}" * 50}) + "\n")
    return folder


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("end", "options", "slower"),
    [
        (retire, (), 1),
        (retire, ("--no-nanny",), 1),
        (terminate, (), 1),
        (terminate, ("--no-nanny",), 1),
        (nothing, ("--no-nanny", "--lifetime", "12s"), 5),  # a run that is longer than their lifetime
    ],
    ids=["retire", "retire-bare", "sigterm", "sigterm-bare", "lifetime"],
)
def test_half_of_the_workers_leave_and_nothing_finished_is_made_again(
    end: Callable[[Client, list[Any]], None], options: tuple[str, ...], slower: float, source: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    with four_workers(tmp_path, *options) as (address, leaving), Client(address, set_as_default=False) as client:
        went = Went(lambda: end(client, leaving), 10)
        Pipeline("drained", stages=stages(source, calls, tmp_path / "out", slower)).run(
            DaskExecutor(cluster=address), observers=[went]
        )
        for process in leaving:
            process.join(60)
            assert process.exitcode == 0
    Pipeline("drained", stages=stages(source, tmp_path / "plain", tmp_path / "expected", 0)).run(InlineExecutor())
    written, expected = (
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.jsonl")} for name in ("out", "expected")
    )
    assert written == expected
    made = {
        name: Counter(line.split()[0] for line in Path(f"{calls}-{name}").read_text().splitlines())
        for name in ("first", "second")
    }
    assert {name: max(counts.values()) for name, counts in made.items()} == {"first": 1, "second": 1}
    assert sorted(event.name for event in went.heard if isinstance(event, WorkerLeft)) == ["fourth", "third"]
    assert not [event for event in went.heard if isinstance(event, WorkerLost)]
    assert "workers died" not in (tmp_path / "scheduler.log").read_text()
