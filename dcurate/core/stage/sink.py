"""`SinkStage`: writes to a directory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from dcurate.core.batch import FileGroup
from dcurate.core.stage.processing import ProcessingStage, X
from dcurate.core.stage.tables import TableAt


class SinkStage(ProcessingStage[X, FileGroup]):
    """A stage that writes files named after the key of the batch, and returns their names."""

    @property
    @abstractmethod
    def output_path(self) -> str:
        """The directory that it writes to; run records and quarantine are beside it, in ``<path>.dcurate``."""

    storage_options: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Refuse, before workers are started, a directory that a new run must not touch; nothing is written.

        Raises:
            DataError: the directory holds what the stage must not touch.
        """

    @abstractmethod
    def prepare(self, resume: bool) -> None:
        """Check and make ready the directory; called on the driver once, before anything is written.

        Raises:
            DataError: the directory holds what the stage must not touch, or cannot be written.
        """

    def complete(self, written: Sequence[str]) -> None:
        """Called on the driver once, when every split is written and before the run counts as finished.

        Override it to write what says which files there are: an index, or the commit of a table. It may be called
        again by a run that is resumed.

        Args:
            written: the addresses of the files of all splits, in the order of the source.

        Raises:
            DataError: it cannot be written.
        """

    def table_written(self) -> TableAt | None:
        """Return the table that was written, with its newest version; None for a writer of files.

        Raises:
            DataError: it cannot be opened.
        """
        return None
