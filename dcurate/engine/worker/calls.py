"""Call the stages of an operator, and handle calls that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

from dcurate.core import gpu_memory
from dcurate.core.batch import Batch, FileGroup, FileRows, Rejection
from dcurate.core.gpu_memory import free_gpu_memory, too_full
from dcurate.core.stage import ProcessingStage, SinkStage, SourceStage, places
from dcurate.engine.worker.bisect import BatchSlice, FailedRows, Recovered, can_split, first_failing, joined, recover
from dcurate.engine.worker.call_guard import FATAL, CallError, Died, Failure, attempt
from dcurate.engine.worker.timeouts import WATCHDOG, end_process
from dcurate.errors import DataError, RunError, StageError
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.frames.line_matching import without_seeing_lines
from dcurate.frames.records import table_of
from dcurate.frames.replaced import keeping_values

AnyStage: TypeAlias = ProcessingStage[Any, Any]
Process: TypeAlias = Callable[[list[Batch]], Sequence[Any]]

#: Extra columns of rows in quarantine: the exception, and its traceback.
ERROR, TRACEBACK = "_dcurate_error", "_dcurate_traceback"

#: `BatchSlice.start` of the call that divides a split.
_DIVIDE_START = -1

#: Exit code of a process that cannot use its GPU any more.
POISONED_EXIT = 70

#: A call that failed in less than this many seconds is searched for the row at fault, for about as long.
QUICK_S = 10.0


class Calls:
    """Calls the stages of one slot in this process.

    How a stage is called is composed once: `process_batch`, in which rows keep values that it makes null
    (`keeping_values`), without lines of rows that it must not see (`without_seeing_lines`). A call of this has its time
    limit (`watched`), and is tried again if it raises (`attempt`).

    Args:
        stages: stages of the operator, set up.
        ignore_failures: whether rows on which a stage fails are rejected and the rest is processed; a stage's own
            setting takes precedence. Writers are exempt: what they cannot write is never left out.
        run: id of a run whose stages' ``timeout_s`` is enforced: a call that takes longer ends this process, and so
            does one that leaves the GPU unusable. None in a process that nobody restarts: calls have no time limit.
    """

    def __init__(self, stages: Sequence[AnyStage], ignore_failures: bool = False, run: str | None = None) -> None:
        self.stages = stages
        self.ignore_failures = ignore_failures
        self.run = run
        self._functions = [_without_lines(stage, _keeping_values(stage)) for stage in stages]

    def process(self, number: int, batches: list[Batch]) -> tuple[list[Any], dict[int, list[Rejection]]]:
        """Process batches by a stage, as many per call as it takes.

        Args:
            number: number of the stage.
            batches: batches in the order of the operator's inputs.

        Returns:
            An answer for each batch, and the rows taken out, by the batch's place.

        Raises:
            StageError: a call failed, and failures are not ignored; or the stage answered what it may not.
            DcurateError: the stage raised one of dcurate's own.
        """
        stage = self.stages[number]
        answers: list[Any] = []
        rejected: dict[int, list[Rejection]] = {}
        for first in range(0, len(batches), stage.batch_size):
            group = batches[first : first + stage.batch_size]
            part = BatchSlice(number, first, first + len(group))
            answer = self.call(part, group)
            if not isinstance(answer, CallError | Died):
                answers.extend(answer)
                continue
            for place, recovered in enumerate(self._recovered(part, group, answer), first):
                answers.append(recovered.answer)
                if recovered.failed:
                    rejected[place] = [rejection(stage, failed) for failed in recovered.failed]
        return answers, rejected

    def call(self, part: BatchSlice, batches: list[Batch], function: Process | None = None) -> Sequence[Any] | Failure:
        """Call a stage, with retries; return one answer per batch, or the failure.

        Args:
            part: the stage, and which of its input the batches are.
            batches: batches to process.
            function: the function to call, if not the stage's ``process_batch``.

        Raises:
            StageError: it gave something else than one answer a batch.
        """
        stage = self.stages[part.stage]
        answers = self._attempted(part, batches, function)
        if isinstance(answers, CallError) and answers.is_gpu_out_of_memory:
            answers = self._with_less_memory(part, batches, function)
        if isinstance(answers, Died):
            return answers
        if isinstance(answers, CallError):
            self.end_if_poisoned(failed_on(stage, batches), answers)
            return answers.detach() if self.ignores(stage) else answers
        if isinstance(answers, list | tuple) and len(answers) == len(batches):
            return answers
        count = len(answers) if isinstance(answers, list | tuple) else f"a {type(answers).__name__}"
        raise StageError(
            f"stage {stage.name!r} was given {len(batches)} batches and process_batch answered {count}; "
            "answer one result per batch, in order (None where nothing is left, a list where there are several)"
        )

    def _attempted(self, part: BatchSlice, batches: list[Batch], function: Process | None) -> Any:
        stage = self.stages[part.stage]
        function = self._functions[part.stage] if function is None else _without_lines(stage, function)
        return attempt(self.watched(part, batches, function), batches, stage.spec.num_run_attempts)

    def _with_less_memory(
        self, part: BatchSlice, batches: list[Batch], function: Process | None
    ) -> Sequence[Any] | Failure:
        """Call a stage again after GPU memory ran out: on halves of the input, or after a wait if it has one row.

        Raises:
            ResourceError: one row is too much, also after waiting for other processes to free memory. No row is at
                fault for the memory of a machine.
        """
        stage = self.stages[part.stage]
        free_gpu_memory()
        halves = [] if function is not None else _halves(stage, part, batches)
        if halves:
            answers: list[Any] = []
            for half, half_batches in halves:
                half_answers = self.call(half, half_batches)
                if isinstance(half_answers, CallError | Died):
                    return half_answers
                answers += half_answers
            return answers if len(batches) > 1 else [joined(answers)]
        for wait in (0.0, *gpu_memory.WAITS_S):
            time.sleep(wait)
            again: Sequence[Any] | CallError = self._attempted(part, batches, function)
            if not isinstance(again, CallError) or not again.is_gpu_out_of_memory:
                return again
            error = again.detach().error
            free_gpu_memory()
        raise too_full(
            error, f"{failed_on(stage, batches)} of {sum(batch.num_items for batch in batches)} rows"
        ) from error

    def end_if_poisoned(self, doing: str, failure: CallError) -> None:
        """End this process if a CUDA error has left the GPU unusable: all later calls would fail, on any rows.

        The batch is made again elsewhere, as after any death of a worker; rows at fault are found in a sandbox.

        Args:
            doing: the beginning of a sentence about the call.

        Raises:
            RunError: nobody restarts this process.
        """
        if failure.poisons:
            self.end_poisoned(f"{doing}: {failure.message}".replace("\n", " "), failure)

    def end_poisoned(self, sentence: str, failure: CallError) -> NoReturn:
        """End this process, with a report for the driver; or the run, if nobody restarts the process."""
        if self.run is None:
            raise RunError(
                f"{sentence}; after this error the process cannot use its GPU, and nothing restarts it; "
                "start the run again with resume=True, on workers with a nanny, which are restarted"
            ) from failure.error
        end_process(self.run, sentence, failure.trace, POISONED_EXIT)

    def watched(self, part: BatchSlice, batches: list[Batch], function: Process) -> Process:
        """Wrap a function of a stage in the stage's time limit, if it has one that is enforced here."""
        stage, run = self.stages[part.stage], self.run
        seconds = stage.spec.timeout_s
        if seconds is None or run is None:
            return function
        doing = f"{failed_on(stage, batches)}: ran longer than timeout_s={seconds:g}"

        def limited(batches: list[Batch]) -> Sequence[Any]:
            with WATCHDOG.limit(run, seconds, doing):
                return function(batches)

        return limited

    def ignores(self, stage: AnyStage) -> bool:
        """Whether rows on which the stage fails are rejected."""
        setting = stage.spec.ignore_failures
        return not isinstance(stage, SinkStage) and (self.ignore_failures if setting is None else setting)

    def _recovered(self, part: BatchSlice, group: list[Batch], failure: Failure) -> list[Recovered]:
        stage = self.stages[part.stage]
        if not self.ignores(stage) or _ends_run(stage, failure):
            raise self._error(part, group, failure)

        def again(part: BatchSlice, batches: list[Batch], function: Process | None = None) -> Sequence[Any] | Failure:
            answer = self.call(part, batches, function)
            if isinstance(answer, CallError | Died) and _ends_run(stage, answer):
                raise answer.as_error(failed_on(stage, batches))
            if function is None:
                _check_rows(stage, batches, answer)
            return answer

        def divide(part: BatchSlice, batch: Batch) -> Batch:
            if not isinstance(stage, SourceStage) or can_split(batch):
                return batch
            answer = again(
                part._replace(start=_DIVIDE_START), [batch], lambda batches: list(map(stage.divided, batches))
            )
            return batch if isinstance(answer, CallError | Died) or not answer[0] else answer[0]

        return recover(again, part, group, failure, divide)

    def _error(self, part: BatchSlice, group: list[Batch], failure: Failure) -> Exception:
        """Return the error that ends the run; it names the batch and row at fault if they are found quickly."""
        stage = self.stages[part.stage]
        looks = not isinstance(stage, SinkStage | SourceStage) and failure.seconds < QUICK_S
        if not looks or (isinstance(failure, CallError) and isinstance(failure.error, FATAL)):
            return failure.as_error(failed_on(stage, group))
        end = time.perf_counter() + QUICK_S
        place = first_failing(self.call, part, group, failure, lambda: time.perf_counter() > end)
        if place is None:
            return failure.as_error(failed_on(stage, group))
        batch = group[place.batch]
        return place.failure.as_error(failed_on(stage, [batch]), "" if place.row is None else row_of(batch, place.row))


def _without_lines(stage: AnyStage, function: Process) -> Process:
    """Return a function of a stage that does not see the lines of rows, unless the stage may."""
    return function if stage.declares_columns else partial(without_seeing_lines, function)


def _keeping_values(stage: AnyStage) -> Process:
    """Return ``process_batch`` of a stage; rows keep values of columns that it makes, where it makes null of them."""
    if isinstance(stage, SinkStage | SourceStage):
        return stage.process_batch
    checked = [part for part in stage.parts if not part.overwrite and "overwrite" not in vars(part)]  # by the engine
    names = [name for part in checked for name in part.new_columns()]
    return partial(keeping_values, names, stage.process_batch) if names else stage.process_batch


def _halves(stage: AnyStage, part: BatchSlice, batches: list[Batch]) -> list[tuple[BatchSlice, list[Batch]]]:
    """Split the input of a call in two; return nothing where it cannot be split, or a writer would write it twice."""
    if len(batches) > 1 and not isinstance(stage, SinkStage | SourceStage):
        middle = len(batches) // 2
        seam = part.first + middle
        return [(part._replace(last=seam), batches[:middle]), (part._replace(first=seam), batches[middle:])]
    batch = batches[0]
    if isinstance(stage, SinkStage | SourceStage) or not can_split(batch):
        return []
    bounds = (0, batch.num_items // 2, batch.num_items)
    parts = [(low, high, batch.rows(low, high)) for low, high in pairwise(bounds)]
    return [
        (part._replace(start=part.start + low, stop=part.start + high), [rows])
        for low, high, rows in parts
        if rows is not None
    ]


def _check_rows(stage: AnyStage, batches: list[Batch], answers: Sequence[Any] | Failure) -> None:
    """Refuse more rows from a part of a split than it has: a reader that ignored `rows` would duplicate rows."""
    for batch, answer in zip(batches, () if isinstance(answers, CallError | Died) else answers, strict=False):
        made = [result for result in (answer if isinstance(answer, list) else [answer]) if isinstance(result, Batch)]
        rows = sum(result.num_items + sum(rejection.rows for rejection in result.rejections) for result in made)
        if isinstance(batch, FileRows) and rows > batch.num_items:
            raise StageError(
                f"{failed_on(stage, [batch])}: process() made {rows} rows of a part of {batch.num_items}; read the "
                "`rows` of each part only, or have divided() answer None"
            )


def _ends_run(stage: AnyStage, failure: Failure) -> bool:
    """Whether a failure is of the run as a whole, or of input that cannot be read, and so no row's fault."""
    if isinstance(failure, Died):
        return False
    return isinstance(failure.error, FATAL) or (isinstance(stage, SourceStage) and isinstance(failure.error, DataError))


def failed_on(stage: AnyStage, batches: Sequence[Batch]) -> str:
    """The beginning of a sentence about a failed call."""
    keys = ", ".join(repr(str(batch.key)) for batch in batches[:3])
    return f"stage {stage.name!r} failed on batch {keys}" + (" and others" if len(batches) > 3 else "")


def row_of(batch: Batch, row: int) -> str:
    """A row of a batch, in words."""
    return f"row {row} of batch {str(batch.key)!r}, counted from 0"


def is_divisible(stage: AnyStage, batches: Sequence[Batch]) -> bool:
    """Whether a stage can be given a part of these batches; a writer would write each part over the other."""
    return not isinstance(stage, SinkStage) and (len(batches) > 1 or can_split(batches[0]))


def rejection(stage: AnyStage, failed: FailedRows) -> Rejection:
    """Build the rejection of rows on which a stage fails, with the exception and its traceback.

    For input that is not rows yet, such as lines that cannot be read, quarantine holds its location.
    """
    rows, failure = failed
    count = rows.num_items
    if isinstance(rows, DocumentBatch):
        data = _table(rows)
    else:
        records = stage.unread(rows) if isinstance(stage, SourceStage) else places(rows)
        data = table_of(records)
        if isinstance(rows, FileRows):
            count = max(1, sum(record.get("rows") or 0 for record in records))
    return Rejection(
        stage=_part_at_fault(stage, failed),
        reason=failure.reason,
        rows=count,
        nbytes=rows.nbytes,
        data=_with_error(data, failure),
        fault=True,
        uncounted=_is_uncounted(stage, rows),
    )


def _is_uncounted(stage: AnyStage, rows: Batch) -> bool:
    """Whether nobody knows how many rows would have come of these: of files, or of what a source of a user lists."""
    if isinstance(rows, FileGroup):
        return not isinstance(rows, FileRows)
    return isinstance(stage, SourceStage) and not isinstance(rows, DocumentBatch)


def _part_at_fault(stage: AnyStage, failed: FailedRows) -> str:
    """Return which of the merged stages raises on the rows; the first, if that is not found."""
    parts, batches = stage.parts, [failed.rows]
    if isinstance(failed.failure, CallError):
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
