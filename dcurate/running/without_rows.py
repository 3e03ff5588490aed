"""The columns of a run that leaves no rows: its stages work on a batch without rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.core.batch import BatchKey
from dcurate.core.stage import BarrierStage, ProcessingStage, SinkStage, SourceStage, Stage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.frames.document import DocumentBatch
from dcurate.io.source import FileReader
from dcurate.plan.compile import compile_plan
from dcurate.running.executor import Session


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


def table_without_rows(session: Session, stages: Sequence[Stage], run: str, phase: int) -> pa.Table | None:
    """Return what the stages of a pipeline make of no rows; None if the columns of its input are not known.

    Columns that a stage over all rows adds have the type null.

    Args:
        session: open executor of the run.
        stages: stages of a built pipeline.
        run: id of the run.
        phase: number of its rounds so far.

    Raises:
        DcurateError: a stage fails on a batch without rows, or the stages cannot run here.
    """
    source, *others = stages
    assert isinstance(source, SourceStage)
    rows = _input_without_rows(source)
    if rows is None:
        return None
    passed: list[Stage] = [NoRows(rows)]
    for stage in others:
        if isinstance(stage, BarrierStage):
            passed.append(NewColumns(tuple(stage.outputs()[1]), name=stage.name))
        elif not isinstance(stage, SinkStage):
            passed.append(stage)
    first = passed[0]
    assert isinstance(first, NoRows)
    job = Round(
        "no rows",
        compile_plan(passed),
        first.splits(),
        delivers=True,
        examples=False,
        passes_empty=True,
        run=run,
        phase=phase,
    )
    made = list(session.execute(job, RunAccounting(job, "inline")))
    tables = [batch.to_arrow() for batch in made if isinstance(batch, DocumentBatch)]
    return tables[0].slice(0, 0) if tables else None


def _input_without_rows(source: SourceStage[Any, Any]) -> pa.Table | None:
    """The columns of a source without any row; None if they are not known."""
    if isinstance(source, FileReader):
        schema = source.schema_read()
        return schema.empty_table() if schema.names else None
    split = next(iter(source.splits()), None)
    made = None if split is None else source.process(split)
    batch = made[0] if isinstance(made, list) and made else made
    return batch.to_arrow().slice(0, 0) if isinstance(batch, DocumentBatch) else None
