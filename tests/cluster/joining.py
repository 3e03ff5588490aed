"""A run that a worker joins, for tests of which workers take part."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from dcurate import DaskExecutor, DocumentBatch, JsonlReader, JsonlWriter, Pipeline, ProcessingStage
from dcurate.events import Event, SlotsChanged

#: Files of the input, each a split with a row.
FILES = 12


class WaitForFile(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Waits with each batch but the first until a file exists, for a minute at most."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, task: DocumentBatch) -> DocumentBatch:
        first, decided = Path(self.folder, "first"), Path(self.folder, "decided")
        limit = time.monotonic() + 60
        while first.exists() and not decided.exists() and time.monotonic() < limit:
            time.sleep(0.1)
        first.touch()
        return task


class Joined(logging.Handler):
    """Hears which workers take part and which do not, and makes a file once that of one that joins is decided.

    Args:
        folder: where the file is made.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.slots: list[str] = []
        self.notices: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "takes no part" in record.getMessage():
            self.notices.append(record.getMessage())
            (self.folder / "decided").touch()

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotsChanged) and event.slots and event.worker not in self.slots:
            self.slots.append(event.worker)
            if len(self.slots) > 1:
                (self.folder / "decided").touch()


def run_that_is_joined(
    address: str,
    source: Path,
    output: Path,
    joining: AbstractContextManager[Any],
    stages: Sequence[ProcessingStage[Any, Any]] = (),
) -> Joined:
    """Run a pipeline on a worker, and have another one join once the first batch is done; return what was heard.

    Args:
        address: address of a scheduler with one worker.
        source: folder of the input.
        output: folder of the output; files beside it steer the run.
        joining: starts the other worker.
        stages: more stages.
    """
    for number in range(FILES):
        (source / f"{number:02}.jsonl").write_text(f'{{"text": "{number}"}}\n')
    heard = Joined(output.parent)
    reader, writer = JsonlReader(str(source), files_per_partition=1), JsonlWriter(str(output))
    pipeline = Pipeline("p", stages=[reader, WaitForFile(str(output.parent)), *stages, writer])
    log = logging.getLogger("dcurate")
    log.addHandler(heard)
    try:
        stream = pipeline.stream(DaskExecutor(cluster=address), observers=[heard])
        next(stream)
        with joining:
            list(stream)
    finally:
        log.removeHandler(heard)
    return heard
