"""Stages that fail on rows that say so; in a module of their own, light for the processes that load it."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa

from dcurate import (
    Batch,
    BatchKey,
    DataError,
    DocumentBatch,
    FileGroup,
    ProcessingStage,
    ResourceError,
    SinkStage,
    SourceStage,
    WorkerMetadata,
)


def batch(*texts: str, split: str = "a.jsonl") -> DocumentBatch:
    return DocumentBatch(key=BatchKey(split), data=pa.table({"text": list(texts)}))


def texts_of(task: DocumentBatch) -> list[str]:
    return list(task.to_arrow()["text"].to_pylist())


def _hold_the_lock() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def _take_memory() -> None:
    bytearray(16 << 30)


#: What a text makes a stage do.
MISCHIEF: dict[str, Callable[[], object]] = {
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(4),
    "sleep": lambda: time.sleep(600),
    "lock": _hold_the_lock,
    "memory": _take_memory,
}


@dataclass
class Poisoned(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Adds a mark to every text, unless one makes it raise or die. The answer has one of several forms.

    Args:
        form: ``"batch"``; ``"some"`` drops texts that begin with "d", for a reason, and answers None where nothing
            is left; ``"list"`` makes a batch of every text; ``"pandas"`` answers what pandas holds.
        always: what it does whatever the texts say.
    """

    form: str = "batch"
    always: str = ""

    def process(self, task: DocumentBatch) -> DocumentBatch | list[DocumentBatch] | None:
        texts = texts_of(task)
        for text in [self.always, *texts]:
            kind = text.partition(" ")[0]
            if kind in MISCHIEF:
                MISCHIEF[kind]()
            if kind == "poison":
                raise ValueError(f"cannot take {text}")
        marked = task.with_data(pa.table({"text": [text + "!" for text in texts]}))
        if self.form == "list":
            return [marked.rows(row, row + 1) for row in range(marked.num_items)]
        if self.form == "pandas":
            return task.with_data(pd.DataFrame({"text": [text + "!" for text in texts]}))
        if self.form == "some":
            left = marked.keep(np.array([not text.startswith("d") for text in texts]), self.name, "begins with d")
            return left if left.num_items or left.rejections else None
        return marked


@dataclass
class Raises(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises what it was given, the first times that it is called; counts its calls."""

    error: Exception
    times: int = 1_000_000
    folder: str = ""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        calls = len(list(Path(self.folder).glob("call-*"))) if self.folder else 0
        if self.folder:
            Path(self.folder, f"call-{calls}").touch()
        if calls < self.times:
            raise self.error
        return task


class Unsendable(Exception):
    """Cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


@dataclass
class RaisesUnsendable(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises what cannot be pickled, with a text of some length."""

    length: int = 1

    def process(self, task: DocumentBatch) -> DocumentBatch:
        raise Unsendable("x" * self.length)


@dataclass
class EndsInSetUp(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Ends its process as it is set up, the first times.

    Args:
        how: a text of `MISCHIEF`.
        folder: where each time is noted.
    """

    how: str = "exit"
    folder: str = ""
    times: int = 1_000_000

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if len(list(Path(self.folder).iterdir())) < self.times:
            Path(self.folder, str(time.monotonic_ns())).touch()
            MISCHIEF[self.how]()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


class LoadsBadly:
    """Raises as it is unpickled in a worker's process."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return _loaded_badly, (os.getpid(),)


def _loaded_badly(pid: int) -> LoadsBadly:
    if os.getpid() != pid:
        raise ValueError("cannot be loaded here")
    return LoadsBadly()


@dataclass
class Holds(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Holds a value."""

    value: object = None

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


@dataclass
class Broken(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Uses a GPU that is broken."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")


@dataclass
class FailsLate(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Gives its work to a GPU and does not wait: what fails there is raised by the next call, or by whoever waits."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        LateGpu.synchronize()
        LateGpu.failed = any("!" in text for text in texts_of(task))
        sys.modules["torch"] = SimpleNamespace(cuda=LateGpu)  # type: ignore[assignment]
        return task


class LateGpu:
    """What ``torch.cuda`` is, of a GPU that may have failed."""

    failed = False

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def synchronize() -> None:
        if LateGpu.failed:
            raise RuntimeError("CUDA error: unspecified launch failure")


@dataclass
class NeedsRoom(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Runs out of memory when it is given more than so many rows."""

    room: int = 4

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if task.num_items > self.room:
            raise MemoryError
        return task


@dataclass
class Sets(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Its set-up raises the first times; writes down every call."""

    folder: str
    times: int = 1
    hook: str = "setup"
    permanent: bool = False
    kills: bool = False

    def note(self, what: str) -> None:
        Path(self.folder, f"{time.monotonic_ns()}-{what}").touch()

    def notes(self) -> list[str]:
        return [path.name.partition("-")[2] for path in sorted(Path(self.folder).iterdir())]

    def _hook(self, name: str) -> None:
        before = self.notes().count(name)
        self.note(name)
        if name == self.hook and self.kills:
            os._exit(5)
        if name == self.hook and before < self.times:
            raise ResourceError("no such card") if self.permanent else OSError("connection lost")

    def setup_on_node(self) -> None:  # type: ignore[override]
        self._hook("node")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self._hook("setup")

    def teardown(self) -> None:
        self._hook("teardown")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


@dataclass
class Unreadable(SourceStage[DocumentBatch, DocumentBatch]):
    """A source that raises on every split."""

    error: Exception

    def splits(self):
        yield batch("x")

    def process(self, task: DocumentBatch) -> DocumentBatch:
        raise self.error


@dataclass(kw_only=True)
class Clip(Batch):
    """A batch that cannot be cut."""

    text: str = "good"

    @property
    def num_items(self) -> int:
        return 5

    @property
    def nbytes(self) -> int:
        return 50

    def get_columns(self) -> list[str]:
        return []


@dataclass
class Plays(ProcessingStage[Clip, Clip]):
    """A stage for clips."""

    def process(self, task: Clip) -> Clip:
        if task.text in MISCHIEF:
            MISCHIEF[task.text]()
        return task


@dataclass
class Mark(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Says in which process it is, in a file before a text is looked at and in the text after it."""

    folder: str

    def process(self, task: DocumentBatch) -> DocumentBatch:
        Path(self.folder, str(os.getpid())).touch()
        sys.stdout.write(sys.stdin.read() + "to standard output\n")
        return task.with_data(pa.table({"text": [str(os.getpid())] * task.num_items}))


@dataclass
class Limited(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Says how many bytes of data its process may have, -1 for any number."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task.with_data(pa.table({"text": [str(resource.getrlimit(resource.RLIMIT_DATA)[0])]}))


@dataclass
class FullDisk(SinkStage[DocumentBatch]):
    """A writer that cannot write."""

    error: Exception

    @property
    def output_path(self) -> str:
        return "nowhere"

    def prepare(self, resume: bool) -> None:
        raise DataError("cannot")

    def process(self, task: DocumentBatch) -> FileGroup:
        for text in texts_of(task):
            if text in MISCHIEF:
                MISCHIEF[text]()
        raise self.error


@dataclass
class Both(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Two stages merged into one."""

    first: ProcessingStage[DocumentBatch, DocumentBatch]
    second: ProcessingStage[DocumentBatch, DocumentBatch]

    @property
    def parts(self) -> tuple[ProcessingStage[DocumentBatch, DocumentBatch], ...]:
        return self.first, self.second

    def process(self, task: DocumentBatch) -> DocumentBatch | list[DocumentBatch] | None:
        made = self.first.process(task)
        assert isinstance(made, DocumentBatch)
        return self.second.process(made)
