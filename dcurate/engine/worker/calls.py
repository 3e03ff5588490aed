"""How the stages of an operator are called, and what becomes of calls that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dcurate.core.batch import Batch, FileGroup, FileRows, Rejection
from dcurate.core.stage import ProcessingStage, SinkStage, SourceStage, places
from dcurate.engine.worker.bisect import BatchSlice, FailedRows, Recovered, can_cut, first_failing, recover
from dcurate.engine.worker.call_guard import FATAL, CallError, Died, Failure, attempt
from dcurate.engine.worker.timeouts import WATCHDOG
from dcurate.errors import DataError, StageError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.records import table_of

AnyStage: TypeAlias = ProcessingStage[Any, Any]
Process: TypeAlias = Callable[[list[Batch]], Sequence[Any]]

#: What a row in quarantine says besides: what was raised, and where.
ERROR, TRACEBACK = "_dcurate_error", "_dcurate_traceback"

#: The first row of the piece that represents dividing a split.
_DIVIDING = -1

#: A call that failed sooner, in seconds, is looked into for the row at fault, for about as long.
QUICK_S = 10.0


class Calls:
    """Calls stages in this process.

    Args:
        ignore_failures: whether rows on which a stage fails are taken out and the rest is processed; a stage's own
            setting goes first. Writers are not concerned: what they cannot write is never left out.
        run: id of a run whose stages' ``timeout_s`` are to be held: a call that takes longer ends this process. None
            in a process that nobody restarts: there a call may take as long as it will.
    """

    def __init__(self, ignore_failures: bool = False, run: str | None = None) -> None:
        self.ignore_failures = ignore_failures
        self.run = run

    def process(
        self, number: int, stage: AnyStage, batches: list[Batch]
    ) -> tuple[list[Any], dict[int, list[Rejection]]]:
        """Everything that the stage makes of batches, as many in a call as it takes.

        Args:
            number: the stage's number in its operator.

        Returns:
            An answer for each batch, and the rows taken out, by the batch's place.

        Raises:
            StageError: a call failed, and failures are not ignored; or the stage answered what it may not.
            DcurateError: the stage raised one of dcurate's own.
        """
        answers: list[Any] = []
        taken_out: dict[int, list[Rejection]] = {}
        for first in range(0, len(batches), stage.batch_size):
            group = batches[first : first + stage.batch_size]
            answer = self.call(stage, BatchSlice(number, first, first + len(group)), group)
            if not isinstance(answer, CallError | Died):
                answers.extend(answer)
                continue
            for place, saved in enumerate(self._rescued(number, stage, first, group, answer), first):
                answers.append(saved.answer)
                if saved.lost:
                    taken_out[place] = [rejection(stage, lost) for lost in saved.lost]
        return answers, taken_out

    def call(
        self, stage: AnyStage, piece: BatchSlice, batches: list[Batch], process: Process | None = None
    ) -> Sequence[Any] | Failure:
        """Call a stage, as often as it may be tried; gives its answers, one a batch, or how it failed.

        Args:
            process: what to call, if not the stage's ``process_batch``.

        Raises:
            StageError: it gave something else than one answer a batch.
        """
        watched = self.watched(stage, piece, batches, process or stage.process_batch)
        answers = attempt(watched, batches, stage.spec.num_run_attempts)
        if isinstance(answers, CallError):
            return answers.settle() if self.ignores(stage) else answers
        if isinstance(answers, list | tuple) and len(answers) == len(batches):
            return answers
        count = len(answers) if isinstance(answers, list | tuple) else f"a {type(answers).__name__}"
        raise StageError(
            f"stage {stage.name!r} was given {len(batches)} batches and process_batch answered {count}; "
            "answer one result per batch, in order (None where nothing is left, a list where there are several)"
        )

    def watched(self, stage: AnyStage, piece: BatchSlice, batches: list[Batch], process: Process) -> Process:
        """A function of the stage, under the stage's time limit where it has one that is held here."""
        seconds, run = stage.spec.timeout_s, self.run
        if seconds is None or run is None:
            return process
        doing = f"{failed_on(stage, batches)}: ran longer than timeout_s={seconds:g}"

        def limited(batches: list[Batch]) -> Sequence[Any]:
            with WATCHDOG.limit(run, seconds, doing):
                return process(batches)

        return limited

    def ignores(self, stage: AnyStage) -> bool:
        """Whether rows on which the stage fails are taken out."""
        own = stage.spec.ignore_failures
        return not isinstance(stage, SinkStage) and (self.ignore_failures if own is None else own)

    def _rescued(
        self, number: int, stage: AnyStage, first: int, group: list[Batch], failure: Failure
    ) -> list[Recovered]:
        piece = BatchSlice(number, first, first + len(group))
        if not self.ignores(stage) or _ends_run(stage, failure):
            raise self._error(stage, piece, group, failure)

        def again(piece: BatchSlice, batches: list[Batch], process: Process | None = None) -> Sequence[Any] | Failure:
            answer = self.call(stage, piece, batches, process)
            if isinstance(answer, CallError | Died) and _ends_run(stage, answer):
                raise answer.as_error(failed_on(stage, batches))
            if process is None:
                _check_rows(stage, batches, answer)
            return answer

        def divide(piece: BatchSlice, batch: Batch) -> Batch:
            if not isinstance(stage, SourceStage) or can_cut(batch):
                return batch
            answer = again(piece._replace(start=_DIVIDING), [batch], lambda batches: list(map(stage.divided, batches)))
            return batch if isinstance(answer, CallError | Died) or not answer[0] else answer[0]

        return recover(again, piece, group, failure, divide)

    def _error(self, stage: AnyStage, piece: BatchSlice, group: list[Batch], failure: Failure) -> Exception:
        """The error that ends the run; says which batch of several and which row is to blame, if that is soon found."""
        looks = not isinstance(stage, SinkStage | SourceStage) and failure.seconds < QUICK_S
        if not looks or (isinstance(failure, CallError) and isinstance(failure.error, FATAL)):
            return failure.as_error(failed_on(stage, group))
        end = time.perf_counter() + QUICK_S
        place = first_failing(
            lambda piece, batches: self.call(stage, piece, batches),
            piece,
            group,
            failure,
            lambda: time.perf_counter() > end,
        )
        if place is None:
            return failure.as_error(failed_on(stage, group))
        batch = group[place.batch]
        return place.failure.as_error(failed_on(stage, [batch]), "" if place.row is None else row_of(batch, place.row))


def _check_rows(stage: AnyStage, batches: list[Batch], answers: Sequence[Any] | Failure) -> None:
    """Refuse more rows of a part of a split than it has: a reader that read all of the split would double rows."""
    for batch, answer in zip(batches, () if isinstance(answers, CallError | Died) else answers, strict=False):
        made = [one for one in (answer if isinstance(answer, list) else [answer]) if isinstance(one, Batch)]
        rows = sum(one.num_items + sum(rejection.rows for rejection in one.rejections) for one in made)
        if isinstance(batch, FileRows) and rows > batch.num_items:
            raise StageError(
                f"{failed_on(stage, [batch])}: process() made {rows} rows of a part of {batch.num_items}; read the "
                "`rows` of each part only, or have divided() answer None"
            )


def _ends_run(stage: AnyStage, failure: Failure) -> bool:
    """Whether a failure is of a kind that is no row's fault: of the run as a whole, or of input that cannot be read."""
    if isinstance(failure, Died):
        return False
    return isinstance(failure.error, FATAL) or (isinstance(stage, SourceStage) and isinstance(failure.error, DataError))


def failed_on(stage: AnyStage, batches: Sequence[Batch]) -> str:
    """The beginning of a sentence on a call that failed."""
    keys = ", ".join(repr(str(batch.key)) for batch in batches[:3])
    return f"stage {stage.name!r} failed on batch {keys}" + (" and others" if len(batches) > 3 else "")


def row_of(batch: Batch, row: int) -> str:
    """A row of a batch, in words."""
    return f"row {row} of batch {str(batch.key)!r}, counted from 0"


def can_part(stage: AnyStage, batches: Sequence[Batch]) -> bool:
    """Whether a stage can be given less than these batches; a writer would write each part over the other."""
    return not isinstance(stage, SinkStage) and (len(batches) > 1 or can_cut(batches[0]))


def rejection(stage: AnyStage, lost: FailedRows) -> Rejection:
    """Rows on which a stage fails, as they go to quarantine: with what was raised and the traceback.

    Of what are no rows yet, such as lines that cannot be read, quarantine holds where they are.
    """
    rows, failure = lost
    count = rows.num_items
    if isinstance(rows, DocumentBatch):
        data = _table(rows)
    else:
        records = stage.unread(rows) if isinstance(stage, SourceStage) else places(rows)
        data = table_of(records)
        if isinstance(rows, FileRows):
            count = max(1, sum(record.get("rows") or 0 for record in records))
    return Rejection(
        stage=_part_at_fault(stage, lost),
        reason=failure.reason,
        rows=count,
        nbytes=rows.nbytes,
        data=_with_error(data, failure),
        fault=True,
        uncounted=isinstance(rows, FileGroup) and not isinstance(rows, FileRows),
    )


def _part_at_fault(stage: AnyStage, lost: FailedRows) -> str:
    """Which of the stages that were merged into one raises on the rows; the first, where that is not found."""
    parts, batches = stage.parts, [lost.rows]
    if isinstance(lost.failure, CallError):
        for part in parts if len(parts) > 1 else ():
            answers = attempt(part.process_batch, batches)
            if isinstance(answers, CallError):
                return str(part.name)
            if not isinstance(answers[0], Batch):
                break
            batches = [answers[0]]
    return str(parts[0].name)


def _table(rows: DocumentBatch) -> Any:
    try:
        return rows.to_arrow()
    except DataError:  # values that Arrow has no type for, perhaps the very reason: kept as they print
        return rows.with_data(rows.to_pandas().astype(str)).to_arrow()


def _with_error(table: Any, failure: Failure) -> Any:
    for name, text in ((ERROR, failure.message), (TRACEBACK, failure.trace)):
        table = with_column(table, name, [text.encode(errors="backslashreplace").decode()] * table.num_rows)
    return table
