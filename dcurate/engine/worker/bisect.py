"""Recover a failed call: find the rows at fault, and process the others.

Nothing here knows how a stage is called. A `BatchSlice` describes the input of one call; it is the same for the same
inputs in every process, so that a slice that killed one process is known in the next.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from dcurate.core.batch import Batch, FileRows
from dcurate.engine.worker.call_guard import CallError, Died, Failure


class BatchSlice(NamedTuple):
    """The input of one call of a stage.

    Args:
        stage: number of the stage in its operator.
        first: number of the first batch, among all those that the stage is to process, in order.
        last: one past the number of the last.
        start: first row, where it is a part of one batch.
        stop: one past the last row; None where batches are given whole.
    """

    stage: int
    first: int
    last: int
    start: int = 0
    stop: int | None = None


#: Calls the stage with the batches of a slice: returns one answer per batch, or the failure.
Call: TypeAlias = Callable[[BatchSlice, list[Batch]], Sequence[Any] | Failure]
#: Returns a batch in a form that can be split, if there is one; else the batch itself.
Divide: TypeAlias = Callable[[BatchSlice, Batch], Batch]


class FailedRows(NamedTuple):
    """Rows on which the stage fails."""

    rows: Batch
    failure: Failure


@dataclass
class Recovered:
    """The outcome of one batch of a failed call.

    Attributes:
        answers: answers of the stage to the slices of the batch that it accepts, in order.
        failed: the rows on which it fails.
    """

    answers: list[Any] = field(default_factory=list)
    failed: list[FailedRows] = field(default_factory=list)

    @property
    def answer(self) -> Any:
        """One answer for all rows of the batch that could be processed."""
        return joined(self.answers)


class FirstFailure(NamedTuple):
    """The first failure: its batch by number in the call, its row if that is known, and the failure itself."""

    batch: int
    row: int | None
    failure: Failure


def can_split(batch: Batch) -> bool:
    """Whether a batch can be processed in parts."""
    return batch.num_items > 1 and batch.rows(0, 1) is not None


def joined(answers: Sequence[Any]) -> Any:
    """Join the answers for several parts of a batch: None adds nothing, lists are concatenated, batches are joined.

    Batches that cannot be joined become a list.
    """
    present = [answer for answer in answers if answer is not None]
    if len(present) < 2:
        return present[0] if present else None
    kind = type(present[0])
    if issubclass(kind, Batch) and all(type(answer) is kind for answer in present):
        batch = kind.joined(present)
        if batch is not None:
            batch = copy.copy(batch)
            batch.rejections = tuple(rejection for answer in present for rejection in answer.rejections)
            batch.found = dict(sum((Counter(answer.found) for answer in present), Counter()))
            return batch
    return [result for answer in present for result in (answer if isinstance(answer, list) else [answer])]


def recover(
    call: Call,
    part: BatchSlice,
    batches: Sequence[Batch],
    failure: Failure,
    divide: Divide = lambda part, batch: batch,
) -> list[Recovered]:
    """Recover a failed call: return the outcome of each of its batches.

    Several batches are tried one by one. One batch is split, and parts that fail are split again, down to single rows.
    A batch that cannot be split fails as a whole. When files are read, the parts that pass are read once more together,
    so that their rows are as if the failed rows did not exist.
    """
    if len(batches) == 1:
        return [_Bisection(call, part, divide(part, batches[0])).recovered(failure)]
    recovered = []
    for number, batch in enumerate(batches, part.first):
        batch_slice = part._replace(first=number, last=number + 1)
        answer = call(batch_slice, [batch])
        if isinstance(answer, CallError | Died):
            recovered.append(_Bisection(call, batch_slice, divide(batch_slice, batch)).recovered(answer))
        else:
            recovered.append(Recovered([answer[0]]))
    return recovered


@dataclass
class _Bisection:
    """One batch on which a stage fails."""

    call: Call
    part: BatchSlice
    batch: Batch
    found: Recovered = field(default_factory=Recovered)
    passed: list[tuple[int, int]] = field(default_factory=list)

    def recovered(self, failure: Failure) -> Recovered:
        if failure.whole or not can_split(self.batch):
            self.found.failed.append(FailedRows(self.batch, failure))
        else:
            self._bisect(0, self.batch.num_items, failure)
            if isinstance(self.batch, FileRows):
                self._read_passed()
        return self.found

    def _bisect(self, start: int, stop: int, failure: Failure) -> None:
        """Process rows that fail together in parts.

        When all parts but the last passed, the last must fail: it is split without being tried.
        """
        well = True
        for low, high in self._bounds(start, stop, failure.fan_out):
            if well and high == stop and high - low > 1:
                self._bisect(low, high, failure)
                return
            rows = self._rows(low, high)
            answer = self.call(self.part._replace(start=low, stop=high), [rows])
            if not isinstance(answer, CallError | Died):
                self.passed.append((low, high))
                if not isinstance(self.batch, FileRows):
                    self.found.answers.append(answer[0])
                continue
            well = False
            if answer.whole or high - low == 1:
                self.found.failed.append(FailedRows(rows, answer))
            else:
                self._bisect(low, high, answer)

    def _read_passed(self) -> None:
        """Read the rows that pass in one call; if that fails, in the parts in which they passed."""
        if not self.passed:
            return
        rows = FileRows.joined([self._rows(*span) for span in self.passed])
        together = self.part._replace(start=0, stop=self.batch.num_items)
        answer = self.call(together, [rows]) if self.found.failed else None
        if answer is not None and not isinstance(answer, CallError | Died):
            self.found.answers = [answer[0]]
            return
        for low, high in self.passed:
            rows = self._rows(low, high)
            answer = self.call(self.part._replace(start=low, stop=high), [rows])
            if isinstance(answer, CallError | Died):
                self.found.failed.append(FailedRows(rows, answer))
            else:
                self.found.answers.append(answer[0])

    def _rows(self, low: int, high: int) -> Any:
        rows = self.batch.rows(low, high)
        assert rows is not None, "a batch that can be cut can be cut everywhere"
        return rows

    def _bounds(self, start: int, stop: int, fan_out: int) -> list[tuple[int, int]]:
        """Split a range: between files first, if it spans several."""
        seams = self.batch.seams if isinstance(self.batch, FileRows) else ()
        inner = [start, *(seam for seam in seams if start < seam < stop), stop]
        return (
            [(inner[low], inner[high]) for low, high in bounds(0, len(inner) - 1, fan_out)]
            if len(inner) > 2
            else (bounds(start, stop, fan_out))
        )


def bounds(start: int, stop: int, fan_out: int) -> list[tuple[int, int]]:
    """Split a range into a number of parts of about equal size, or into single members if there are fewer.

    Examples:
        >>> bounds(0, 10, 2), bounds(3, 5, 16)
        ([(0, 5), (5, 10)], [(3, 4), (4, 5)])
    """
    fan_out = min(fan_out, stop - start)
    return list(pairwise(start + (stop - start) * number // fan_out for number in range(fan_out + 1)))


def first_failing(
    call: Call, part: BatchSlice, batches: Sequence[Batch], failure: Failure, give_up: Callable[[], bool]
) -> FirstFailure | None:
    """Find the first batch of a failed call, and its first row, on which the stage fails in the same way by itself.

    Args:
        give_up: whether to stop the search.
    """
    if len(batches) == 1:
        return FirstFailure(0, _first_row(call, part, batches[0], failure, give_up), failure)
    for number, batch in enumerate(batches):
        batch_slice = part._replace(first=part.first + number, last=part.first + number + 1)
        if give_up():
            return None
        answer = call(batch_slice, [batch])
        if isinstance(answer, CallError | Died) and failure.like(answer):
            return FirstFailure(number, _first_row(call, batch_slice, batch, answer, give_up), answer)
    return None


def _first_row(call: Call, part: BatchSlice, batch: Batch, failure: Failure, give_up: Callable[[], bool]) -> int | None:
    if not can_split(batch):
        return 0 if batch.num_items == 1 and batch.rows(0, 1) is not None else None
    start, stop = 0, batch.num_items

    def fails(low: int, high: int) -> bool:
        rows = batch.rows(low, high)
        return rows is not None and failure.like(call(part._replace(start=low, stop=high), [rows]))

    sure = False
    while stop - start > 1:
        *parts, last = bounds(start, stop, failure.fan_out)
        for low, high in parts:
            if give_up():
                return None
            sure = fails(low, high)
            if sure:
                start, stop = low, high
                break
        else:
            start, stop = last
    return start if sure or fails(start, stop) else None
