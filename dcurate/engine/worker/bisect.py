"""From a call that failed: which rows are to blame, and what the stage makes of the others.

Nothing here knows how a stage is called. A *piece* says what one call is given; it is the same for the same inputs in
every process, so that a piece that killed one process is known in the next.
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
    """What one call of a stage is given.

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


#: Calls the stage with the batches of a piece: gives its answers, one a batch, or how it failed.
Call: TypeAlias = Callable[[BatchSlice, list[Batch]], Sequence[Any] | Failure]
#: Gives a batch as one that can be cut, where there is a way; else the batch itself.
Divide: TypeAlias = Callable[[BatchSlice, Batch], Batch]


class FailedRows(NamedTuple):
    """Rows on which the stage fails."""

    rows: Batch
    failure: Failure


@dataclass
class Recovered:
    """What became of one batch of a call that failed.

    Attributes:
        answers: of the stage to the parts of the batch that it can take, in order.
        lost: the rows that it cannot take.
    """

    answers: list[Any] = field(default_factory=list)
    lost: list[FailedRows] = field(default_factory=list)

    @property
    def answer(self) -> Any:
        """One answer for all of the batch that could be processed."""
        return joined(self.answers)


class Place(NamedTuple):
    """Where the first failure is: the batch by its number in the call, the row if it is known, and the failure."""

    batch: int
    row: int | None
    failure: Failure


def can_cut(batch: Batch) -> bool:
    """Whether a batch can be processed in parts."""
    return batch.num_items > 1 and batch.rows(0, 1) is not None


def joined(answers: Sequence[Any]) -> Any:
    """One answer for several parts of a batch: None adds nothing, lists are strung together, batches become one.

    Batches that cannot be joined become a list.
    """
    left = [answer for answer in answers if answer is not None]
    if len(left) < 2:
        return left[0] if left else None
    kind = type(left[0])
    if issubclass(kind, Batch) and all(type(answer) is kind for answer in left):
        whole = kind.joined(left)
        if whole is not None:
            whole = copy.copy(whole)
            whole.rejections = tuple(rejection for answer in left for rejection in answer.rejections)
            whole.found = dict(sum((Counter(answer.found) for answer in left), Counter()))
            return whole
    return [each for answer in left for each in (answer if isinstance(answer, list) else [answer])]


def recover(
    call: Call,
    piece: BatchSlice,
    batches: Sequence[Batch],
    failure: Failure,
    divide: Divide = lambda piece, batch: batch,
) -> list[Recovered]:
    """What can be had of a call that failed, for each of its batches.

    Several batches are tried one by one. One batch is cut into parts, and those that fail into smaller parts, until
    the rows that fail stand alone. A batch that cannot be cut is lost whole. Of files that are read, the parts that do
    not fail are read once more, together, so that their rows are as if those that fail were not there.
    """
    if len(batches) == 1:
        return [_Cutting(call, piece, divide(piece, batches[0])).saved(failure)]
    saved = []
    for number, batch in enumerate(batches, piece.first):
        own = piece._replace(first=number, last=number + 1)
        answer = call(own, [batch])
        if isinstance(answer, CallError | Died):
            saved.append(_Cutting(call, own, divide(own, batch)).saved(answer))
        else:
            saved.append(Recovered([answer[0]]))
    return saved


@dataclass
class _Cutting:
    """One batch on which a stage fails."""

    call: Call
    piece: BatchSlice
    batch: Batch
    found: Recovered = field(default_factory=Recovered)
    good: list[tuple[int, int]] = field(default_factory=list)

    def saved(self, failure: Failure) -> Recovered:
        if failure.whole or not can_cut(self.batch):
            self.found.lost.append(FailedRows(self.batch, failure))
        else:
            self._cut(0, self.batch.num_items, failure)
            if isinstance(self.batch, FileRows):
                self._read_good()
        return self.found

    def _cut(self, start: int, stop: int, failure: Failure) -> None:
        """Process rows that fail together in parts.

        When all parts but the last went well, the last must be the one that fails: it is cut without being tried.
        """
        well = True
        for low, high in self._bounds(start, stop, failure.ways):
            if well and high == stop and high - low > 1:
                self._cut(low, high, failure)
                return
            rows = self._rows(low, high)
            answer = self.call(self.piece._replace(start=low, stop=high), [rows])
            if not isinstance(answer, CallError | Died):
                self.good.append((low, high))
                if not isinstance(self.batch, FileRows):
                    self.found.answers.append(answer[0])
                continue
            well = False
            if answer.whole or high - low == 1:
                self.found.lost.append(FailedRows(rows, answer))
            else:
                self._cut(low, high, answer)

    def _read_good(self) -> None:
        """Read the rows that do not fail, in one call; in parts, as they were found, if that fails."""
        if not self.good:
            return
        rows = FileRows.joined([self._rows(*each) for each in self.good])
        together = self.piece._replace(start=0, stop=self.batch.num_items)
        answer = self.call(together, [rows]) if self.found.lost else None
        if answer is not None and not isinstance(answer, CallError | Died):
            self.found.answers = [answer[0]]
            return
        for low, high in self.good:
            rows = self._rows(low, high)
            answer = self.call(self.piece._replace(start=low, stop=high), [rows])
            if isinstance(answer, CallError | Died):
                self.found.lost.append(FailedRows(rows, answer))
            else:
                self.found.answers.append(answer[0])

    def _rows(self, low: int, high: int) -> Any:
        rows = self.batch.rows(low, high)
        assert rows is not None, "a batch that can be cut can be cut everywhere"
        return rows

    def _bounds(self, start: int, stop: int, ways: int) -> list[tuple[int, int]]:
        """Parts of a range: of several files, or parts of them, these first."""
        seams = self.batch.seams if isinstance(self.batch, FileRows) else ()
        inner = [start, *(seam for seam in seams if start < seam < stop), stop]
        return (
            [(inner[low], inner[high]) for low, high in bounds(0, len(inner) - 1, ways)]
            if len(inner) > 2
            else (bounds(start, stop, ways))
        )


def bounds(start: int, stop: int, ways: int) -> list[tuple[int, int]]:
    """A range cut into so many parts of about the same size, or as many as it has members.

    Examples:
        >>> bounds(0, 10, 2), bounds(3, 5, 16)
        ([(0, 5), (5, 10)], [(3, 4), (4, 5)])
    """
    ways = min(ways, stop - start)
    return list(pairwise(start + (stop - start) * number // ways for number in range(ways + 1)))


def first_failing(
    call: Call, piece: BatchSlice, batches: Sequence[Batch], failure: Failure, give_up: Callable[[], bool]
) -> Place | None:
    """The first batch of a call that failed, and the first row of it, on which the stage fails alone in the same way.

    Args:
        give_up: whether to look no further.
    """
    if len(batches) == 1:
        return Place(0, _first_row(call, piece, batches[0], failure, give_up), failure)
    for number, batch in enumerate(batches):
        own = piece._replace(first=piece.first + number, last=piece.first + number + 1)
        if give_up():
            return None
        answer = call(own, [batch])
        if isinstance(answer, CallError | Died) and failure.like(answer):
            return Place(number, _first_row(call, own, batch, answer, give_up), answer)
    return None


def _first_row(
    call: Call, piece: BatchSlice, batch: Batch, failure: Failure, give_up: Callable[[], bool]
) -> int | None:
    if not can_cut(batch):
        return 0 if batch.num_items == 1 and batch.rows(0, 1) is not None else None
    start, stop = 0, batch.num_items

    def fails(low: int, high: int) -> bool:
        rows = batch.rows(low, high)
        return rows is not None and failure.like(call(piece._replace(start=low, stop=high), [rows]))

    sure = False
    while stop - start > 1:
        *parts, last = bounds(start, stop, failure.ways)
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
