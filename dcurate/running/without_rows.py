"""The columns of a run that leaves no rows: its stages work on a batch without rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcurate.core.stage import BarrierStage, SinkStage, SourceStage, Stage
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.io.no_rows import NewColumns, without_rows
from dcurate.plan.compile import compile_plan
from dcurate.running.executor import Session


def table_without_rows(session: Session, stages: Sequence[Stage], run: str, phase: int) -> Any:
    """Return the table that the stages of a pipeline make of no rows.

    Columns that a stage over all rows adds have the type null.

    Args:
        session: open executor of the run.
        stages: stages of a built pipeline.
        run: id of the run.
        phase: number of its rounds so far.

    Raises:
        DataError: the columns of the input are not known, or a stage gives nothing for a batch without rows.
        DcurateError: a stage fails on such a batch, or the stages cannot run here.
    """
    source, *others = stages
    assert isinstance(source, SourceStage)
    first = without_rows(source)
    if first is None:
        raise DataError("those of the input are not known")
    passed: list[Stage] = [first]
    for stage in others:
        if isinstance(stage, BarrierStage):
            passed.append(NewColumns(tuple(stage.outputs()[1]), name=stage.name))
        elif not isinstance(stage, SinkStage):
            passed.append(stage)
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
    if not tables:
        raise DataError("a stage gives nothing for a batch without rows")
    return tables[0].slice(0, 0)
