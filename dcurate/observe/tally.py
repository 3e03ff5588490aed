"""A run's figures so far, counted from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dcurate.core.events import (
    CallCopied,
    CallHung,
    Decided,
    Event,
    RunEnded,
    RunStarted,
    SlotsChanged,
    SourceListed,
    SplitDone,
    TaskDone,
    WorkerLost,
    WorkerRecycled,
)


@dataclass
class OperatorTally:
    """What one operator has done so far.

    Attributes:
        slots: how many it has, by worker.
    """

    tasks: int = 0
    seconds: float = 0.0
    slots: dict[str, int] = field(default_factory=dict)

    @property
    def mean_seconds(self) -> float:
        """Seconds per task; 0 before the first one."""
        return self.seconds / self.tasks if self.tasks else 0.0


@dataclass
class Tally:
    """What a run has done so far. Counting an event takes a microsecond or two.

    Attributes:
        started: seconds since the epoch; 0 before the run begins.
        splits: source splits in all, or None until the source is listed.
        splits_before: those that an earlier run had finished.
        splits_done: those that this run has finished.
        rows_in: rows read from the source, and ``bytes_in`` their bytes.
        rows_out: rows that came out of the last stage.
        ended: seconds since the epoch, or None while the run goes on.
        error: what ended it early, if something did.
        first: name of the first stage, and ``last`` of the last.
    """

    pipeline: str = ""
    mode: str = ""
    started: float = 0.0
    splits: int | None = None
    splits_before: int = 0
    splits_done: int = 0
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    workers_lost: int = 0
    ended: float | None = None
    error: str = ""
    operators: dict[str, OperatorTally] = field(default_factory=dict)
    #: What was decided about slots after the first of them stood, in words, the latest last.
    decisions: list[str] = field(default_factory=list)
    first: str = ""
    last: str = ""

    def count(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case TaskDone():
                self._count_task(event)
            case SplitDone():
                self.splits_done += 1
            case SlotsChanged():
                self._operator(event.operator).slots[event.worker] = event.slots
            case Decided() if event.before:
                self.decisions.append(event.reason)
            case WorkerRecycled():
                self.decisions.append(f"worker {event.worker} is restarted: {event.reason}")
            case CallHung():
                self.decisions.append(f"{event.doing} took too long; its process was ended")
            case CallCopied():
                usual = f"{event.seconds:.0f} s instead of {event.usual:.2g} s"
                self.decisions.append(f"a call of {event.operator} takes {usual}; it runs once more elsewhere")
            case SourceListed():
                self.splits, self.splits_before = event.splits, event.finished_before
            case WorkerLost():
                self.workers_lost += 1
                for operator in self.operators.values():
                    operator.slots.pop(event.worker, None)
            case RunStarted():
                self.pipeline, self.mode, self.started = event.pipeline, event.mode, event.time
                self.first, self.last = event.operators[0][0], event.operators[-1][-1]
                self.operators = {_operator_name(stages): OperatorTally() for stages in event.operators}
            case RunEnded():
                self.ended, self.error = event.time, event.error

    def _count_task(self, event: TaskDone) -> None:
        operator = self._operator(event.operator)
        operator.tasks += 1
        operator.seconds += event.seconds
        if event.stats and event.stats[0].name == self.first:
            self.rows_in += event.stats[0].rows_in
            self.bytes_in += event.stats[0].bytes_in
        if event.stats and event.stats[-1].name == self.last:
            self.rows_out += event.stats[-1].rows_out

    def _operator(self, name: str) -> OperatorTally:
        return self.operators.setdefault(name, OperatorTally())

    @property
    def setting_up(self) -> bool:
        """Whether nothing can have been done yet, because no slot is ready."""
        begun = self.splits_done or any(operator.tasks or operator.slots for operator in self.operators.values())
        return self.ended is None and not begun

    def elapsed(self, now: float) -> float:
        """Seconds that the run has taken, never 0."""
        return max((self.ended or now) - self.started, 1e-6)

    def remaining(self, now: float) -> float | None:
        """Seconds that the run will still take at its mean speed so far, or None if that is not known."""
        if self.splits is None or not self.splits_done:
            return None
        left = max(self.splits - self.splits_before - self.splits_done, 0)
        return self.elapsed(now) / self.splits_done * left


def _operator_name(stages: Sequence[str]) -> str:
    """The name that the plan gives to an operator of these stages."""
    return stages[0] if len(stages) == 1 else f"{stages[0]}-{stages[-1]}"
