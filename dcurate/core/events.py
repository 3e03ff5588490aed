"""What happened in a run, as values; observers are given them and the engine knows nothing of observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self


@dataclass
class StageStats:
    """What one stage did to rows, added up over batches.

    Attributes:
        dropped: rows taken out by a rule, by reason.
        faulty: rows that could not be processed and went to quarantine, by reason.
        found: what the stage counted in the rows beyond that, by kind.
        seconds: time in the stage's own code, added up over slots.
    """

    name: str
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    dropped: dict[str, int] = field(default_factory=dict)
    faulty: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)

    def add(self, other: StageStats) -> None:
        """Add another's figures to these."""
        for number in ("batches", "rows_in", "rows_out", "bytes_in", "bytes_out", "seconds"):
            setattr(self, number, getattr(self, number) + getattr(other, number))
        for name in ("dropped", "faulty", "found"):
            mine = getattr(self, name)
            for reason, count in getattr(other, name).items():
                mine[reason] = mine.get(reason, 0) + count

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they travel and are stored."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`."""
        return cls(**values)


@dataclass(frozen=True)
class Event:
    """Anything that an observer may be told. ``time`` is in seconds since the epoch."""

    time: float


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins: its id, how it is carried out, its operators as lists of stage names."""

    run: str
    pipeline: str
    mode: str
    operators: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SourceListed(Event):
    """The source is known to the end: how many splits it has, and how many an earlier run had finished."""

    splits: int
    finished_before: int


@dataclass(frozen=True)
class SlotsChanged(Event):
    """A worker process holds so many slots of an operator now, all set up; ``total`` counts those of all processes."""

    operator: str
    worker: str
    slots: int
    total: int
    setup_seconds: float


@dataclass(frozen=True)
class Decided(Event):
    """The balancer changes how many slots an operator (or several that share theirs) is to have, and says why."""

    operator: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True)
class WorkerLost(Event):
    """A worker process is gone; what it held is made again elsewhere."""

    worker: str


@dataclass(frozen=True)
class WorkerRecycled(Event):
    """A worker process is emptied and restarted, or cannot be; ``reason`` says why."""

    worker: str
    reason: str


@dataclass(frozen=True)
class CallHung(Event):
    """A call took longer than its stage's ``timeout_s`` and its process was ended; ``trace`` says where it stood."""

    doing: str
    trace: str


@dataclass(frozen=True)
class CallCopied(Event):
    """One of an operator's last calls takes far longer than others do, in seconds, and runs once more elsewhere."""

    operator: str
    seconds: float
    usual: float


@dataclass(frozen=True)
class TaskDone(Event):
    """An operator has processed a batch (or a few, where its batch size is above one)."""

    operator: str
    split: str
    stats: tuple[StageStats, ...]
    seconds: float


@dataclass(frozen=True)
class SplitDone(Event):
    """Everything that came of a source split is written or dropped."""

    split: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class RunEnded(Event):
    """The run is over; ``error`` is empty if it finished."""

    error: str


class Observer(Protocol):
    """Something that is told what happens. It must be quick and must not raise."""

    def on_event(self, event: Event) -> None:
        """Take note of an event."""
