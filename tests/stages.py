"""Small stages that tests put together; in a module, so that worker processes can load them."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dcurate import BatchKey, DocumentBatch, NodeInfo, ProcessingStage, SourceStage, WorkerMetadata
from dcurate.core.stage import Spec
from dcurate_testing.stages import Sleep  # noqa: F401 - it belongs to the stages here


@dataclass
class Numbers(SourceStage[DocumentBatch, DocumentBatch]):
    """Splits of consecutive numbers as texts."""

    splits_: int = 4
    rows: int = 5
    name: str = "numbers"

    def splits(self) -> Iterator[DocumentBatch]:
        for split in range(self.splits_):
            yield DocumentBatch(key=BatchKey(f"split-{split:04}"), data=pa.table({"start": [split * self.rows]}))

    def columns(self) -> list[str]:
        return ["text"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        start = task.to_arrow()["start"][0].as_py()
        return DocumentBatch(data=pa.table({"text": [str(number) for number in range(start, start + self.rows)]}))


@dataclass
class Append(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds a letter to every text."""

    letter: str = "a"

    def inputs(self) -> Spec:
        return [], ["text"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        texts = [text + self.letter for text in task.to_arrow()["text"].to_pylist()]
        return task.with_data(pa.table({"text": texts}))


@dataclass
class KeepEvery(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps texts whose length leaves a rest; None where nothing is left."""

    modulo: int = 2
    rest: int = 0

    def process(self, task: DocumentBatch) -> DocumentBatch | None:
        texts = [text for text in task.to_arrow()["text"].to_pylist() if len(text) % self.modulo == self.rest]
        return task.with_data(pa.table({"text": texts})) if texts else None


@dataclass
class OneByOne(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Makes a batch of every row."""

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:
        return [task.with_data(task.to_arrow().slice(row, 1)) for row in range(task.num_items)]


@dataclass
class FailOn(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises on one text."""

    text: str = "7"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if self.text in task.to_arrow()["text"].to_pylist():
            raise ValueError(f"cannot take {self.text}")
        return task


@dataclass
class DieOnce(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Kills its process at one text, the first time that it comes."""

    folder: str = ""
    text: str = "7"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        mark = Path(self.folder, "died")
        if self.text in task.to_arrow()["text"].to_pylist() and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return task


@dataclass
class Diary(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Writes down when its set-up and tear-down are called."""

    folder: str = ""

    def note(self, what: str) -> None:
        Path(self.folder, f"{what}-{os.getpid()}-{time.monotonic_ns()}").touch()

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        self.note("node")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.note("setup")
        self.ready = True

    def process(self, task: DocumentBatch) -> DocumentBatch:
        assert self.ready
        return task

    def teardown(self) -> None:
        assert self.ready
        self.note("teardown")


@dataclass
class NotesCalls(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sleeps, and writes to a folder when each call began and ended, and in which process."""

    folder: str
    seconds: float
    name: str = "notes"
    batch_size: int = 2

    def process(self, task: DocumentBatch) -> DocumentBatch:
        began = time.monotonic()
        time.sleep(self.seconds)
        content = json.dumps([began, time.monotonic(), os.getpid()])
        Path(self.folder, uuid.uuid4().hex).write_text(content, "utf-8")
        return task


@dataclass
class Loads(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sleeps; each of its slots notes in a file of a folder when it was loaded, and when it was gone.

    Args:
        folder: for the notes.
        label: of the notes.
        seconds: of a call.
        setup_s: seconds of a set-up.
    """

    folder: str
    label: str
    seconds: float
    setup_s: float = 0.0
    name: str = "loads"

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.note = Path(self.folder, f"{self.label}-{os.getpid()}-{uuid.uuid4().hex}")
        self.note.write_text(f"{time.monotonic()}\n", "utf-8")
        time.sleep(self.setup_s)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        return task

    def teardown(self) -> None:
        with self.note.open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic()}\n")


@dataclass
class CallTimes(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Sleeps, and writes a line of when each call began and ended to a file of its process."""

    folder: str
    label: str
    seconds: float
    name: str = "timed"
    batch_size: int = 1

    def process(self, task: DocumentBatch) -> DocumentBatch:
        began = time.monotonic()
        time.sleep(self.seconds)
        with Path(self.folder, f"{self.label}-{os.getpid()}").open("a", encoding="utf-8") as file:
            file.write(f"{began} {time.monotonic()}\n")
        return task
