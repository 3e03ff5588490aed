"""Stages that fail as those do that use a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcurate import DocumentBatch, ProcessingStage, WorkerMetadata
from tests.faulty import texts
from tests.gpu_errors import OUT_OF_MEMORY, POISON


@dataclass
class PoisonsSetup(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Its set-up raises a sticky error."""

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        raise POISON[0]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


@dataclass
class NeedsGpuMemory(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Raises the out-of-memory error whose number the texts end with for more than ``room`` rows.

    Of a batch with ``?`` in a text no row fits, for the first calls: another process holds the memory.
    """

    room: int = 3
    calls: int = 6
    folder: str = ""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        first = texts(task)[0]
        error = OUT_OF_MEMORY[int(first.replace("?", "!").partition("!")[2])]
        if task.num_items > self.room:
            raise error
        if "?" in first:
            held = len(list(Path(self.folder).glob("call-*")))
            if held < self.calls:
                Path(self.folder, f"call-{held}").touch()
                raise error
        return task


@dataclass
class LoadsLate(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Its set-up finds the memory of the GPU full, the first times."""

    folder: str
    times: int

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        calls = len(list(Path(self.folder).iterdir()))
        if calls < self.times:
            Path(self.folder, f"setup-{calls}").touch()
            raise OUT_OF_MEMORY[3]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task
