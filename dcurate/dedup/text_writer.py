"""Writes rows, and beside them what is found in their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dcurate.core.batch import FileGroup
from dcurate.dedup.near import texts_of
from dcurate.frames.convert import is_cudf
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn
from dcurate.kernels.cuda import CudaColumn
from dcurate.shuffle.spill import SpillWriter


@dataclass
class TextWriter(SpillWriter):
    """Base of writers that read the texts of each batch; texts of a cuDF batch are read where they are, on their GPU.

    Args:
        text_field: the column with the texts.
    """

    text_field: str = "text"

    def process(self, task: DocumentBatch) -> FileGroup:
        self._frame = task.data if is_cudf(task.data) else None
        try:
            return super().process(task)
        finally:
            self._frame = None

    def texts(self, table: Any) -> TextColumn | CudaColumn:
        """The texts of the rows that are being written, on a GPU if one is requested."""
        return texts_of(table if self._frame is None else self._frame, self.text_field, self.resources.requires_gpu)
