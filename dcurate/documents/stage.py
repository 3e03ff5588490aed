"""What stages share that read the files of rows in a child process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.spec import StageSpec
from dcurate.core.stage import ProcessingStage, WorkerMetadata
from dcurate.documents.losses import remarks_on_losses
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.frames.hidden import columns_listed
from dcurate.io.partition import parse_bytes
from dcurate.media.errors import MediaFault
from dcurate.media.refs import BYTES, REF, fetched, has_media
from dcurate.media.sandbox import ChildAnswer, Sandbox

#: Files after which the child process is replaced.
RECYCLE_ITEMS = 1000


class FileExtract(ProcessingStage[DocumentBatch, DocumentBatch]):
    """A stage whose rows are files, which a child process reads; subclasses make rows of the answers."""

    largest_file: int | str
    storage_options: dict[str, Any] | None

    spec = StageSpec(ignore_failures=True)
    uses_only_named_columns: ClassVar[bool] = False
    #: The stage that reads such files, for the message about rows without them.
    _reader: ClassVar[str] = "MediaReader"
    _sandbox: Sandbox | None = None

    @abstractmethod
    def _new_sandbox(self) -> Sandbox:
        """The child process, which starts with the first file."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        settings = {name: value for name, value in super().settings().items() if not name.startswith("_")}
        settings.pop("storage_options", None)
        return settings

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.teardown()
        self._sandbox = self._new_sandbox()

    def teardown(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _answers(self, task: DocumentBatch) -> list[ChildAnswer | MediaFault]:
        """What the child process says of the file of each row.

        Raises:
            PipelineError: the rows have no files.
        """
        table = DocumentBatch.given(task).to_arrow()
        if not has_media(table):
            raise PipelineError(
                f"{self.name}: the rows have no column {REF!r} or {BYTES!r}, but {columns_listed(table.column_names)}; "
                f"read the files with {self._reader}"
            )
        return list(self._read(table))

    def _read(self, table: pa.Table) -> Iterator[ChildAnswer | MediaFault]:
        if self._sandbox is None:
            self.setup()
        assert self._sandbox is not None
        options = self.storage_options or {}
        for _, files in fetched(table, limit=parse_bytes(self.largest_file), storage_options=options):
            answers = iter(self._sandbox.map([data for data in files if isinstance(data, bytes)]))
            for data in files:
                yield data if isinstance(data, MediaFault) else next(answers)

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        """Return a sentence about the parts of documents that are not in their text."""
        return [*super().remarks(found), *remarks_on_losses(self.name, found)]

    def _dropped(self, rows: pa.Table, reason: str) -> list[Rejection]:
        """The rejection of rows in whose files there is nothing to read; none if there are no rows."""
        return [Rejection(self.name, reason, rows.num_rows, rows.nbytes, rows)] if rows.num_rows else []
