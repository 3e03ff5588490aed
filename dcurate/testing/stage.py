"""Check that a custom stage satisfies what the engine relies on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NoReturn
from uuid import uuid4

import cloudpickle

from dcurate.cluster.local import LocalCluster
from dcurate.core.batch import Batch, BatchKey
from dcurate.core.fingerprint import fingerprint
from dcurate.core.stage import BarrierStage, CompositeStage, ProcessingStage, SinkStage, SourceStage
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.engine.inline import InlineExecutor
from dcurate.engine.serialization import pickled
from dcurate.engine.worker.operator_task import OperatorSpec
from dcurate.engine.worker.slots import Slot, forget_host_setup, opened
from dcurate.errors import DcurateError, PipelineError, StageError, nearest
from dcurate.frames.document import DocumentBatch
from dcurate.run import Executor, Pipeline

AnyStage = ProcessingStage[Any, Any]

_RUN = "check-stage"


def run_stage(stage: AnyStage, batch: DocumentBatch) -> list[DocumentBatch]:
    """Run a stage on a batch as a slot does: copy it, set it up, call it once and tear it down.

    Args:
        stage: the stage; it stays as it is.
        batch: rows that it can work on.

    Returns:
        The batches that it makes, in order; none where nothing is left.

    Raises:
        StageError: the stage raised, cannot be pickled, or answered something else than batches.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["two words", "one"]}))
        >>> [made] = run_stage(ScoreFilter(WordCountFilter(min_words=2)), batch)
        >>> made.to_pandas().text.tolist()
        ['two words']
    """
    return _in_one_slot(stage, [[batch]])[0][0]


def check_stage(
    stage: AnyStage, batch: DocumentBatch, *, executor: Executor | None = None, skip: Collection[str] = ()
) -> None:
    """Hold a stage against everything that the engine relies on; call it in a test of your own.

    The laws, each by the name that ``skip`` takes:

    * ``travels``: the stage can be pickled, and its settings are the same after the journey.
    * ``repeats``: the same batch gives the same rows, in one slot and in another.
    * ``keeps_input``: the batch that it was given is as it was.
    * ``columns``: it needs no column but those of ``inputs()``, if it names any and ``columns_read()`` does not say, by
      None, that it may look at others, such as places of files; it adds those of ``outputs()`` and no others.
    * ``no_rows``: a batch without rows makes no rows and no error.
    * ``nulls``: a text that is missing, in a column that it reads, is no error.
    * ``frames``: it takes rows that pandas holds and rows that Arrow holds, and makes as many of either.
    * ``together``: several batches in one call give what each gives alone, in order.
    * ``cluster``: it gives the same rows in worker processes as here.

    Args:
        stage: a stage that takes rows and gives rows.
        batch: a few rows that it can work on, at least two, the like of those that it will see.
        executor: where ``cluster`` runs; by default two worker processes, started and ended for this call. To check
            many stages, give one that is open.
        skip: names of laws that are not to hold for this stage; say in your test why.

    Raises:
        AssertionError: a law does not hold; says what came, and what would do.
        StageError: the stage fails on the batch as it is.
        PipelineError: a source, a sink, a composite or a stage that needs all rows; a batch with fewer than two rows,
            or without a column that the stage reads; or ``skip`` names a law that there is not.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"text": ["two words", "one"]}))
        >>> check_stage(ScoreFilter(WordCountFilter(min_words=2)), batch, skip=["cluster"])
    """
    _refuse(stage, batch, skip)
    trial = _Trial(stage, replace(batch, key=batch.key or BatchKey(_RUN)), executor)
    for name, law in LAWS.items():
        if name not in skip:
            law(trial)


def _refuse(stage: AnyStage, batch: DocumentBatch, skip: Collection[str]) -> None:
    for name in skip:
        if name not in LAWS:
            raise PipelineError(f"check_stage knows no law {name!r}{nearest(name, LAWS)}")
    if isinstance(stage, CompositeStage):
        raise PipelineError(f"stage {stage.name!r} is a composite; check each of the stages that decompose() gives")
    if isinstance(stage, SourceStage | SinkStage | BarrierStage):
        raise PipelineError(f"stage {stage.name!r} does not make rows of a batch of rows alone; test it in a pipeline")
    if batch.num_items < 2:
        raise PipelineError(f"check_stage needs two rows or more, and the batch has {batch.num_items}")
    missing = [column for column in stage.inputs()[1] if column not in batch.get_columns()]
    if missing:
        raise PipelineError(
            f"stage {stage.name!r} reads {missing}, which the batch does not have; add them to the batch"
        )


@dataclass(frozen=True)
class _Trial:
    """A stage, the rows to try it on, and where a cluster is."""

    stage: AnyStage
    batch: DocumentBatch
    executor: Executor | None

    @property
    def first_half(self) -> DocumentBatch:
        half = self.batch.rows(0, self.batch.num_items // 2)
        half.key = BatchKey(_RUN, (1,))
        return half

    def made_of(self, batch: DocumentBatch, advice: str) -> list[DocumentBatch]:
        """Return the results of the stage for a batch on which it must not fail."""
        try:
            return run_stage(self.stage, batch)
        except DcurateError as error:
            self.broken(f"{error}; {advice}", error)

    def same(self, first: Sequence[str], second: Sequence[str], problem: str, advice: str) -> None:
        """Compare two lists of rows that must be the same."""
        for number, (first_row, second_row) in enumerate(zip_longest(first, second)):
            if first_row != second_row:
                self.broken(
                    f"{problem}: row {number} is {first_row or 'missing'} and then {second_row or 'missing'}; {advice}"
                )

    def broken(self, why: str, cause: Exception | None = None) -> NoReturn:
        raise AssertionError(f"stage {self.stage.name!r}: {why}") from cause


def _in_one_slot(stage: AnyStage, calls: Sequence[Sequence[DocumentBatch]]) -> list[list[list[DocumentBatch]]]:
    """Return the results of one slot of the stage, for each call and each of its batches."""
    operator_spec = OperatorSpec(stage.name, (stage,), passes_empty=True)
    run = uuid4().hex  # its own, for tests may run side by side
    try:
        with opened(Slot(run, pickled(operator_spec), "check")) as slot:
            return [[list(map(_documents, made)) for made in slot.work(call).outputs] for call in calls]
    finally:
        forget_host_setup(run)


def _documents(batch: Batch) -> DocumentBatch:
    if not isinstance(batch, DocumentBatch):
        raise StageError(
            f"the stage made a {type(batch).__name__}; checks are for stages that make rows (DocumentBatch)"
        )
    return batch


def _rows(batches: Sequence[DocumentBatch]) -> list[str]:
    """The rows of batches, each as text, so that one that is not a number equals itself."""
    return [repr(row) for batch in batches for row in batch.to_arrow().to_pylist()]


def _travels(trial: _Trial) -> None:
    stage = trial.stage
    try:
        travelled = cloudpickle.loads(pickled(OperatorSpec(stage.name, (stage,)))).stages[0]
    except DcurateError as error:
        trial.broken(str(error), error)
    if fingerprint([travelled]) != fingerprint([stage]):
        trial.broken(
            "its settings are others after pickling, so a resumed run would be refused; make in setup() what is not a "
            "setting, or leave it out in settings()"
        )


def _repeats(trial: _Trial) -> None:
    advice = (
        "let the answer depend on the batch and the settings alone: seed what is random, keep nothing between calls"
    )
    (first,), (second,) = _in_one_slot(trial.stage, [[trial.batch], [trial.batch]])
    third = run_stage(trial.stage, trial.batch)
    trial.same(_rows(first), _rows(second), "the same batch twice gives other rows", advice)
    trial.same(_rows(first), _rows(third), "another slot gives other rows", advice)


def _keeps_input(trial: _Trial) -> None:
    for held in (trial.batch, trial.batch.with_data(trial.batch.to_pandas())):
        before = copy.deepcopy(held)
        run_stage(trial.stage, held)
        problem = "it changes the batch that it was given"
        trial.same([str(before.get_columns())], [str(held.get_columns())], problem, "work on a copy: task.to_pandas()")
        trial.same(_rows([before]), _rows([held]), problem, "work on a copy: task.to_pandas()")


def _columns(trial: _Trial) -> None:
    reads, adds = trial.stage.inputs()[1], trial.stage.outputs()[1]
    batch = trial.batch
    if reads and trial.stage.columns_read() is not None:
        batch = batch.with_data(batch.to_arrow().select(reads))
    for made in trial.made_of(batch, f"name every column that it needs in inputs(), which names {reads}"):
        before, after = batch.get_columns(), made.get_columns()
        if missing := [column for column in adds if column not in after]:
            trial.broken(
                f"outputs() names {missing}, but the rows that it makes have only {after}; add or do not name them"
            )
        if unsaid := [column for column in after if column not in before and column not in adds]:
            trial.broken(
                f"it adds {unsaid}, which outputs() does not name, so a stage that reads them is refused; name them"
            )


def _no_rows(trial: _Trial) -> None:
    made = trial.made_of(trial.batch.rows(0, 0), "give back a batch without rows, or None")
    if rows := _rows(made):
        trial.broken(f"it makes {len(rows)} rows of a batch without rows; give back a batch without rows, or None")


def _nulls(trial: _Trial) -> None:
    table = trial.batch.to_arrow()
    reads = trial.stage.inputs()[1] or table.column_names
    places = [None, *range(1, table.num_rows)]
    for number, column in enumerate(table.schema):
        if column.name in reads and str(column.type) in ("string", "large_string"):
            holed = table.set_column(number, column, table.column(number).take(places))
            advice = f"a value of column {column.name!r} may be missing, which pandas shows as NaN; fillna('') helps"
            trial.made_of(trial.batch.with_data(holed), advice)


def _frames(trial: _Trial) -> None:
    advice = "take rows with to_pandas() or to_arrow(), not from task.data, whose kind is the reader's choice"
    counts = [
        len(_rows(trial.made_of(trial.batch.with_data(data), advice)))
        for data in (trial.batch.to_arrow(), trial.batch.to_pandas())
    ]
    if counts[0] != counts[1]:
        trial.broken(f"it makes {counts[0]} rows where Arrow holds them and {counts[1]} where pandas does; {advice}")


def _together(trial: _Trial) -> None:
    pair = [trial.batch, trial.first_half]
    alone = [_in_one_slot(trial.stage, [[batch]])[0][0] for batch in pair]
    try:
        joint = _in_one_slot(trial.stage.with_(batch_size=2), [pair])[0]
    except DcurateError as error:
        trial.broken(str(error), error)
    for separate, combined in zip(alone, joint, strict=True):
        problem = "two batches in one call give other rows than each alone"
        trial.same(_rows(separate), _rows(combined), problem, "answer one result per batch in process_batch, in order")


def _cluster(trial: _Trial) -> None:
    pipeline, batches = Pipeline(_RUN, stages=[trial.stage]), [trial.batch, trial.first_half]
    executor = trial.executor or DaskExecutor(cluster=LocalCluster(n_workers=2))
    local = pipeline.run(InlineExecutor(), initial_tasks=batches, observers=[])
    try:
        remote = pipeline.run(executor, initial_tasks=batches, observers=[])
    except DcurateError as error:
        trial.broken(f"it runs here and not in worker processes: {error}", error)
    problem = "worker processes make other rows than this one"
    advice = (
        "let the answer depend on the batch and the settings alone: not on hash(), time, or what this process holds"
    )
    trial.same(_rows(list(map(_documents, local))), _rows(list(map(_documents, remote))), problem, advice)


#: What the engine relies on, by name, from cheap to dear.
LAWS: dict[str, Callable[[_Trial], None]] = {
    "travels": _travels,
    "repeats": _repeats,
    "keeps_input": _keeps_input,
    "columns": _columns,
    "no_rows": _no_rows,
    "nulls": _nulls,
    "frames": _frames,
    "together": _together,
    "cluster": _cluster,
}
