"""Stages that misbehave on purpose, and mark what they are doing so that tests can strike at the right moment."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path

from dcurate import DocumentBatch, FileGroup, JsonlWriter, ProcessingStage, WorkerMetadata


def mark(folder: str, phase: str) -> Path:
    """Say that this process is in a phase."""
    path = Path(folder, f"{phase}-{os.getpid()}")
    path.touch()
    return path


def texts(task: DocumentBatch) -> list[str]:
    return [str(text) for text in task.to_arrow()["text"].to_pylist()]


@dataclass
class Slow(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes its time in set-up and in each call, and says so."""

    folder: str = ""
    setup_s: float = 0.2
    seconds: float = 0.05

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        now = mark(self.folder, "setup")
        time.sleep(self.setup_s)
        now.unlink()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        now = mark(self.folder, "process")
        time.sleep(self.seconds)
        now.unlink()
        return task


@dataclass
class SlowWriter(JsonlWriter):
    """Takes its time before and after it writes, and says so."""

    folder: str = ""

    def process(self, task: DocumentBatch) -> FileGroup:
        now = mark(self.folder, "write")
        time.sleep(0.05)
        files = super().process(task)
        time.sleep(0.05)
        now.unlink()
        return files


@dataclass
class RaiseOn(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises on texts that end in a mark."""

    ending: str = "!"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        for text in texts(task):
            if text.endswith(self.ending):
                raise ValueError(f"cannot take {text}")
        return task


@dataclass
class CrashOn(RaiseOn):
    """Segfaults on texts that end in a mark."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        if any(text.endswith(self.ending) for text in texts(task)):
            ctypes.string_at(0)
        return task


#: The error that every call of this process raises.
_sticky: list[Exception] = []


@dataclass
class PoisonsOn(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises the sticky error whose number a text ends with, and then the same in each call of that process.

    After ``!`` in a text it does so each time; after ``?`` only the first time, as for a fault of the hardware.

    Args:
        errors: to raise; processes load the libraries of these, and of no others.
    """

    folder: str = ""
    errors: tuple[Exception, ...] = ()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        for text in texts(task):
            row, mark, number = text.replace("?", "!").partition("!")
            if mark and ("!" in text or not self._met(row)):
                _sticky.append(self.errors[int(number)])
        if _sticky:
            raise _sticky[0]
        return task

    def _met(self, row: str) -> bool:
        met = Path(self.folder, row)
        there = met.exists()
        met.touch()
        return there


@dataclass
class HangOn(RaiseOn):
    """Never comes back from texts that end in a mark."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        while any(text.endswith(self.ending) for text in texts(task)):
            time.sleep(1)
        return task


@dataclass
class Leak(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Keeps a number of megabytes more with every batch."""

    megabytes: int = 20

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.kept: list[bytes] = []

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.kept.append(os.urandom(1 << 20) * self.megabytes)
        time.sleep(0.1)
        return task


@dataclass
class StuckOnce(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Hangs for ten minutes on a batch with a marked text, but only the first time that it sees it."""

    folder: str = ""
    seconds: float = 0.05

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        if any("!" in text for text in texts(task)) and not Path(self.folder, "stuck").exists():
            Path(self.folder, "stuck").touch()
            time.sleep(600)
            Path(self.folder, "came-back").touch()
        return task
