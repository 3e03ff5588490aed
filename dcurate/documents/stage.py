"""What stages share that make rows of text of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.spec import StageSpec
from dcurate.documents.losses import remarks_on_losses
from dcurate.media.refs import BYTES
from dcurate.media.stage import FileStage


@dataclass
class FileExtract(FileStage):
    """A stage that makes text of documents, which a child process reads."""

    spec = StageSpec(ignore_failures=True)
    recycle_items: ClassVar[int] = 1000

    def dropped_columns(self) -> list[str]:
        return [BYTES]

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return a sentence about the parts of documents that are not in their text."""
        return [*super().remarks(found), *remarks_on_losses(self.name, found)]

    def _dropped(self, rows: pa.Table, reason: str) -> list[Rejection]:
        """The rejection of rows in whose files there is nothing to read; none if there are no rows."""
        return [Rejection(self.name, reason, rows.num_rows, rows.nbytes, rows)] if rows.num_rows else []
