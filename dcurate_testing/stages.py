"""Stages that both tests and benchmarks run."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dcurate import DocumentBatch, ProcessingStage


@dataclass
class Sleep(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes its time."""

    seconds: float = 0.05

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        return task
