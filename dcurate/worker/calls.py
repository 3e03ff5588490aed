"""How the stages of an operator are called, and what becomes of calls that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dcurate.core.batch import Batch, Rejection
from dcurate.core.stage import ProcessingStage, SinkStage, SourceStage
from dcurate.errors import DataError, StageError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.worker.deadline import WATCHDOG
from dcurate.worker.guard import PASSING, Died, Failure, Raised, tried
from dcurate.worker.halving import Lost, Piece, Saved, can_cut, first_failing, rescued

AnyStage: TypeAlias = ProcessingStage[Any, Any]
Process: TypeAlias = Callable[[list[Batch]], Sequence[Any]]

#: What a row in quarantine says besides: what was raised, and where.
ERROR, TRACEBACK = "_dcurate_error", "_dcurate_traceback"

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
            answer = self.call(stage, Piece(number, first, first + len(group)), group)
            if not isinstance(answer, Raised | Died):
                answers.extend(answer)
                continue
            for place, saved in enumerate(self._rescued(number, stage, first, group, answer), first):
                answers.append(saved.answer)
                if saved.lost:
                    taken_out[place] = [rejection(stage, lost) for lost in saved.lost]
        return answers, taken_out

    def call(self, stage: AnyStage, piece: Piece, batches: list[Batch]) -> Sequence[Any] | Failure:
        """Call a stage, as often as it may be tried; gives its answers, one a batch, or how it failed.

        Raises:
            StageError: it gave something else than one answer a batch.
        """
        answers = tried(self.watched(stage, piece, batches), batches, stage.spec.num_run_attempts)
        if isinstance(answers, Raised):
            return answers.settle() if self.ignores(stage) else answers
        if isinstance(answers, list | tuple) and len(answers) == len(batches):
            return answers
        count = len(answers) if isinstance(answers, list | tuple) else f"a {type(answers).__name__}"
        raise StageError(
            f"stage {stage.name!r} was given {len(batches)} batches and process_batch answered {count}; "
            "answer one result per batch, in order (None where nothing is left, a list where there are several)"
        )

    def watched(self, stage: AnyStage, piece: Piece, batches: list[Batch]) -> Process:
        """The stage's ``process_batch``, under its time limit where it has one that is held here."""
        seconds, run = stage.spec.timeout_s, self.run
        if seconds is None or run is None:
            return stage.process_batch
        doing = f"{failed_on(stage, batches)}: ran longer than timeout_s={seconds:g}"

        def limited(batches: list[Batch]) -> Sequence[Any]:
            with WATCHDOG.limit(run, seconds, doing):
                return stage.process_batch(batches)

        return limited

    def ignores(self, stage: AnyStage) -> bool:
        """Whether rows on which the stage fails are taken out."""
        own = stage.spec.ignore_failures
        return not isinstance(stage, SinkStage) and (self.ignore_failures if own is None else own)

    def _rescued(self, number: int, stage: AnyStage, first: int, group: list[Batch], failure: Failure) -> list[Saved]:
        piece = Piece(number, first, first + len(group))
        if not self.ignores(stage) or _ends_run(stage, failure):
            raise self._error(stage, piece, group, failure)

        def again(piece: Piece, batches: list[Batch]) -> Sequence[Any] | Failure:
            answer = self.call(stage, piece, batches)
            if isinstance(answer, Raised | Died) and _ends_run(stage, answer):
                raise answer.as_error(failed_on(stage, batches))
            return answer

        return rescued(again, piece, group, failure)

    def _error(self, stage: AnyStage, piece: Piece, group: list[Batch], failure: Failure) -> Exception:
        """The error that ends the run; says which batch of several and which row is to blame, if that is soon found."""
        looks = not isinstance(stage, SinkStage | SourceStage) and failure.seconds < QUICK_S
        if not looks or (isinstance(failure, Raised) and isinstance(failure.error, PASSING)):
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


def _ends_run(stage: AnyStage, failure: Failure) -> bool:
    """Whether a failure is of a kind that is no row's fault: of the run as a whole, or of input that cannot be read."""
    if isinstance(failure, Died):
        return False
    return isinstance(failure.error, PASSING) or (
        isinstance(stage, SourceStage) and isinstance(failure.error, DataError)
    )


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


def rejection(stage: AnyStage, lost: Lost) -> Rejection:
    """Rows on which a stage fails, as they go to quarantine: with what was raised and the traceback."""
    rows, failure = lost
    return Rejection(
        stage=_part_at_fault(stage, lost),
        reason=failure.reason,
        rows=rows.num_items,
        nbytes=rows.nbytes,
        data=_frame(rows, failure) if isinstance(rows, DocumentBatch) else None,
        fault=True,
    )


def _part_at_fault(stage: AnyStage, lost: Lost) -> str:
    """Which of the stages that were merged into one raises on the rows; the first, where that is not found."""
    parts, batches = stage.parts, [lost.rows]
    if isinstance(lost.failure, Raised):
        for part in parts if len(parts) > 1 else ():
            answers = tried(part.process_batch, batches)
            if isinstance(answers, Raised):
                return str(part.name)
            if not isinstance(answers[0], Batch):
                break
            batches = [answers[0]]
    return str(parts[0].name)


def _frame(rows: DocumentBatch, failure: Failure) -> Any:
    try:
        table = rows.to_arrow()
    except DataError:  # values that Arrow has no type for, perhaps the very reason: kept as they print
        table = rows.with_data(rows.to_pandas().astype(str)).to_arrow()
    for name, text in ((ERROR, failure.message), (TRACEBACK, failure.trace)):
        table = with_column(table, name, [text.encode(errors="backslashreplace").decode()] * table.num_rows)
    return table
