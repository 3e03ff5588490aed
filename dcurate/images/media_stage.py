"""A stage that looks at the file of each row, and adds columns of what it finds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.frames.document import DocumentBatch
from dcurate.media.errors import MediaFault
from dcurate.media.refs import NO_REFERENCE, check_has_media, fetched, quarantined


class PictureStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Fetches the file of each row, about 64 MiB at a time, and adds a column for each of `columns`.

    A row whose file cannot be fetched or read goes to quarantine, with the reason.
    """

    #: Whether a row that has no file is kept, with nulls in the columns, instead of going to quarantine.
    keeps_rows_without: ClassVar[bool] = False

    prefix: str
    max_file_bytes: int
    storage_options: Mapping[str, Any] | None

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns that the stage adds, without the prefix, and their types."""

    def files(self, rows: pa.Table) -> Iterator[tuple[int, list[Any]]]:
        """Yield what `look` takes of the file of each row, in runs of rows, each with the number of its first row."""
        yield from fetched(rows, limit=self.max_file_bytes, storage_options=self.storage_options)

    @abstractmethod
    def look(self, files: Sequence[Any]) -> Sequence[Sequence[Any] | MediaFault]:
        """Return the values of the columns for each file, or what is wrong with it; in order."""

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], [self.prefix + name for name in self.columns]

    def check_columns(self, columns: Sequence[str]) -> None:
        super().check_columns(columns)
        check_has_media(columns, self.name)

    def requires(self) -> dict[str, str]:
        return {"PIL": "images", "simplejpeg": "images"}

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        faults: dict[int, MediaFault] = {}
        rows: list[Sequence[Any]] = []
        for start, files in self.files(table):
            good = [data for data in files if not isinstance(data, MediaFault)]
            answers = iter(self.look(good))
            for row, data in enumerate(files, start):
                answer = data if isinstance(data, MediaFault) else next(answers)
                if isinstance(answer, MediaFault) and answer.reason == NO_REFERENCE and self.keeps_rows_without:
                    rows.append([None] * len(self.columns))
                elif isinstance(answer, MediaFault):
                    faults[row] = answer
                else:
                    rows.append(answer)
        kept = quarantined(task, faults, self.name)
        return replace(self._with_columns(kept, rows), found=self.counted(rows))

    def counted(self, rows: Sequence[Sequence[Any]]) -> dict[str, int]:
        """Return what the report counts, by kind.

        Args:
            rows: the values of the columns of each picture.
        """
        return {}

    def _with_columns(self, batch: DocumentBatch, rows: Sequence[Sequence[Any]]) -> DocumentBatch:
        table, values = batch.to_arrow(), list(zip(*rows, strict=True))
        for place, (name, kind) in enumerate(self.columns.items()):
            column = pa.array(values[place] if values else [], kind, from_pandas=True)
            column_name = self.prefix + name
            if column_name in table.column_names:
                table = table.set_column(table.column_names.index(column_name), column_name, column)
            else:
                table = table.append_column(column_name, column)
        return replace(batch.with_data(table), rejections=batch.rejections)
