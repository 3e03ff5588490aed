"""`InterleavedStage`: the base of stages over interleaved documents."""

from __future__ import annotations

from dcurate.core.stage import ProcessingStage
from dcurate.frames.document import DocumentBatch


class InterleavedStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage over documents of texts and images in a row, whose metadata may be in any column."""

    def columns_read(self) -> None:
        """None: columns of metadata belong to samples, whatever their names."""
