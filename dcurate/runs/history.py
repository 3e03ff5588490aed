"""The history of a run: its present state, its state over time, and notes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from dcurate.events import Event, HostsSampled, RunEnded, Sampled
from dcurate.runs.snapshot import Note, OperatorFigures, RunSnapshot
from dcurate.runs.state import RunState

#: Points in time that are kept at most; then every second one goes, and they are taken half as often.
POINTS = 400
#: Notes that are kept of a run at most, and those that a snapshot has of the latest.
NOTES, LATEST = 1000, 20


@dataclass(frozen=True)
class Point:
    """A past moment of a run. Attributes have the meaning of those of `RunSnapshot`.

    Attributes:
        cpu: CPUs in use by workers.
        memory: bytes of all workers, of at most ``memory_limit``.
        gpu_memory: bytes in use on all GPUs, of ``gpu_memory_total``.
        gpu_busy: share of the time that the GPUs were busy, their mean.
        operators: without ``latency`` and ``stages``.
    """

    time: float
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    splits_done: int = 0
    held_bytes: int = 0
    cpu: float = 0.0
    memory: int = 0
    memory_limit: int = 0
    gpu_memory: int = 0
    gpu_memory_total: int = 0
    gpu_busy: float = 0.0
    operators: tuple[OperatorFigures, ...] = ()

    @classmethod
    def of(cls, snapshot: RunSnapshot) -> Self:
        """Keep the small part of a snapshot."""
        gpus = [gpu for host in snapshot.hosts for gpu in host.gpus]
        return cls(
            time=snapshot.time,
            rows_in=snapshot.rows_in,
            bytes_in=snapshot.bytes_in,
            rows_out=snapshot.rows_out,
            splits_done=snapshot.splits_done,
            held_bytes=snapshot.held_bytes,
            cpu=sum(host.cpu for host in snapshot.hosts),
            memory=sum(host.memory for host in snapshot.hosts),
            memory_limit=sum(host.memory_limit for host in snapshot.hosts),
            gpu_memory=sum(gpu.memory for gpu in gpus),
            gpu_memory_total=sum(gpu.memory_total for gpu in gpus),
            gpu_busy=sum(gpu.busy for gpu in gpus) / len(gpus) if gpus else 0.0,
            operators=tuple(replace(operator, stages=(), latency=()) for operator in snapshot.operators),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {**vars(self), "operators": [_operator_dict(operator) for operator in self.operators]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`, after JSON too."""
        operators = (OperatorFigures(**{"stages": (), "latency": (), **operator}) for operator in values["operators"])
        return cls(**{**values, "operators": tuple(operators)})


def _operator_dict(operator: OperatorFigures) -> dict[str, Any]:
    return {name: value for name, value in vars(operator).items() if value or name == "name"} | {
        "phase": operator.phase
    }


class History:
    """Keeps the present state of a run, and thinned out its past. It observes a run, or is given snapshots to `take`.

    Its size does not grow with the length of the run. It may be asked from any thread.

    Args:
        interval_s: least seconds between two points; it doubles each time that there are too many of them.

    Examples:
        >>> from dcurate.events import RunEnded, RunStarted
        >>> history = History()
        >>> history.on_event(RunStarted(0.0, "7f3a", "demo", "inline", (("read", "write"),)))
        >>> history.on_event(RunEnded(2.0, ""))
        >>> history.snapshot().elapsed, [point.time for point in history.points]
        (2.0, [2.0])
    """

    def __init__(self, interval_s: float = 0.5) -> None:
        self.interval_s = interval_s
        self.points: list[Point] = []
        self.notes: list[Note] = []
        self._state = RunState()
        self._taken: RunSnapshot | None = None
        self._lock = threading.Lock()

    def on_event(self, event: Event) -> None:
        """Take an event into account."""
        with self._lock:
            before = self._state.note_count
            self._state.apply(event)
            new = self._state.note_count - before
            self._keep_notes(list(self._state.latest)[-new:] if new else [])
            last = isinstance(event, RunEnded)
            if last or (isinstance(event, Sampled | HostsSampled) and self._is_due(event.time)):
                self._keep_point(self._state.snapshot(event.time))

    def take(self, snapshot: RunSnapshot) -> None:
        """Take a snapshot into account that another process made; one that is older than the present is left out."""
        with self._lock:
            before = self._taken
            if before is not None and snapshot.time < before.time:
                return
            new = min(snapshot.notes - (before.notes if before else 0), len(snapshot.latest))
            self._keep_notes(snapshot.latest[len(snapshot.latest) - new :])
            self._taken = snapshot
            if snapshot.ended is not None or self._is_due(snapshot.time):
                self._keep_point(snapshot)

    def snapshot(self, now: float | None = None) -> RunSnapshot:
        """The run at this moment; at its end, once it has ended."""
        with self._lock:
            return self._taken or self._state.snapshot(time.time() if now is None else now)

    def _keep_notes(self, notes: Any) -> None:
        self.notes.extend(notes[: max(0, NOTES - len(self.notes))])

    def _is_due(self, now: float) -> bool:
        return not self.points or now - self.points[-1].time >= self.interval_s

    def _keep_point(self, snapshot: RunSnapshot) -> None:
        if len(self.points) >= POINTS:
            del self.points[1::2]
            apart = (self.points[-1].time - self.points[0].time) / len(self.points)
            self.interval_s = max(2 * self.interval_s, apart)
        self.points.append(Point.of(snapshot))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        present = self.snapshot().to_dict()
        with self._lock:
            return {
                "present": present,
                "interval_s": self.interval_s,
                "points": [point.to_dict() for point in self.points],
                "notes": [dict(vars(note)) for note in self.notes],
            }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`, after JSON too."""
        history = cls(values["interval_s"])
        history._taken = RunSnapshot.from_dict(values["present"])
        history.points = [Point.from_dict(point) for point in values["points"]]
        history.notes = [Note(**note) for note in values["notes"]]
        return history
