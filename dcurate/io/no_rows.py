"""A source of one batch without rows, with the columns of another source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from dcurate.core.batch import BatchKey
from dcurate.core.stage import ProcessingStage, SourceStage
from dcurate.frames.document import DocumentBatch
from dcurate.io.head import FirstRows


@runtime_checkable
class HasSchema(Protocol):
    """A source that knows the types of its columns before it reads rows."""

    def schema_read(self) -> pa.Schema:
        """Return the schema of the rows; without columns if they are not known."""


@dataclass
class NoRows(SourceStage[DocumentBatch, DocumentBatch]):
    """One batch without rows, with the columns of another source.

    Args:
        table: table without rows.
    """

    table: pa.Table
    name: str = "no_rows"

    takes_rows: ClassVar[bool] = True

    def splits(self) -> Iterator[DocumentBatch]:
        yield DocumentBatch(key=BatchKey("no rows"), data=self.table)

    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        return task


@dataclass
class NewColumns(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Columns that a stage over all rows adds, of which only the names are known.

    Args:
        columns: names of the columns.
    """

    columns: tuple[str, ...]
    name: str = "new_columns"

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        for column in self.columns:
            if column not in table.column_names:
                table = table.append_column(column, pa.nulls(table.num_rows))
        return task.with_data(table)


def without_rows(source: SourceStage[Any, Any]) -> NoRows | None:
    """Return a source of the columns of another one, without rows; None if the columns are not known.

    Args:
        source: the other source.

    Raises:
        DataError: it cannot be read.
    """
    if isinstance(source, FirstRows):
        source = source.source
    if isinstance(source, HasSchema):
        schema = source.schema_read()
        return NoRows(schema.empty_table()) if schema.names else None
    split = next(iter(source.splits()), None)
    if split is None:
        return None
    source.setup_on_node()
    source.setup()
    try:
        made = source.process(split)
    finally:
        source.teardown()
    batch = made[0] if isinstance(made, list) and made else made
    return NoRows(batch.to_arrow().slice(0, 0)) if isinstance(batch, DocumentBatch) else None
