"""The state of a run at one moment, from which every display, page and metric is made."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dcurate.events import HostSample, StageStats

#: Upper bounds, in seconds, of the buckets that calls are counted in by how long they took; longer ones have one more.
LATENCY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0)


def bucket(seconds: float) -> int:
    """The bucket of `LATENCY_S` that a duration falls into.

    Examples:
        >>> bucket(0.01), bucket(0.02), bucket(10_000)
        (0, 1, 15)
    """
    return bisect_left(LATENCY_S, seconds)


@dataclass(frozen=True)
class OperatorFigures:
    """The state of one operator: slots, queue, and counts since the run began.

    Attributes:
        name: of the operator; ``stages`` are the names of the stages that it runs.
        phase: number of the part of the run that it belongs to: each barrier begins another.
        slots: copies that are set up now.
        running: calls under way, in a slot or on the way to one.
        waiting: batches made for it that no call has taken; ``waiting_bytes`` those of all that it is not done with.
        calls: finished, in batches.
        seconds: in its stages' code, over all slots.
        slot_seconds: that slots stood ready, over all slots, as far as was sampled: the rest of them was idle.
        setup_seconds: that its latest slot took to be set up.
        owner: the barrier whose inner round it belongs to; empty if documents go through it.
        latency: how many batches took how long, by the buckets of `LATENCY_S`.
        label: what a person is shown as its name; empty if that is ``name``.
    """

    name: str
    stages: tuple[str, ...]
    phase: int = 0
    slots: int = 0
    running: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    calls: int = 0
    seconds: float = 0.0
    slot_seconds: float = 0.0
    setup_seconds: float = 0.0
    latency: tuple[int, ...] = (0,) * (len(LATENCY_S) + 1)
    owner: str = ""
    label: str = ""

    @property
    def title(self) -> str:
        """What a person is shown as its name."""
        return self.label or self.name

    @property
    def busy(self) -> float | None:
        """Share of the slots' time that was spent in the stages' code since the run began; None before there is any."""
        return min(1.0, self.seconds / self.slot_seconds) if self.slot_seconds else None

    def busy_since(self, earlier: OperatorFigures) -> float | None:
        """The same, since an earlier moment."""
        slot_seconds = self.slot_seconds - earlier.slot_seconds
        return min(1.0, (self.seconds - earlier.seconds) / slot_seconds) if slot_seconds > 0 else None


def rate_span(operators: Sequence[OperatorFigures], least: float) -> float:
    """The seconds over which to take a rate: calls count when they end, so it spans two of the longest at least.

    Args:
        operators: operators of all phases; those of the latest phase count.

    Examples:
        >>> rate_span((OperatorFigures("read", (), calls=3, seconds=90.0),), 10.0)
        60.0
    """
    phase = max((operator.phase for operator in operators), default=0)
    means = (operator.seconds / operator.calls for operator in operators if operator.calls and operator.phase == phase)
    return max(least, 2 * max(means, default=0))


def kept_share(stages: Sequence[StageStats]) -> float | None:
    """The share of documents that a run keeps, while some are still between its stages; None before any was read.

    It is the product of what the stages let through: a document between two of them is neither kept nor dropped.

    Examples:
        >>> kept_share([StageStats("read", rows_in=80, rows_out=80), StageStats("score", rows_in=40, rows_out=20)])
        0.5
    """
    if not stages or not stages[0].rows_in:
        return None
    return math.prod(stage.rows_out / stage.rows_in for stage in stages if stage.rows_in)


@dataclass(frozen=True)
class Note:
    """Something that happened and that a person may want to know, in words.

    Attributes:
        time: seconds since the epoch.
        kind: ``"decision"``, ``"lost"``, ``"left"``, ``"recycled"``, ``"hung"``, ``"copied"``, ``"waits"``,
            ``"compiled"`` or ``"error"``.
        operator: the one that it is about, if it is about one.
        before: slots before a decision, and ``after`` it.
    """

    time: float
    kind: str
    text: str
    operator: str = ""
    before: int = 0
    after: int = 0


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one moment.

    All counts are since the run began (what an earlier run of it had finished is in ``splits_before`` alone), so the
    rate of anything is the difference of two snapshots over the difference of their times.

    Attributes:
        run: its id; all phases of a run have one id.
        phase: how many barriers are behind it.
        phases: parts of the run in all, as far as that is known; 0 if it is not.
        started: seconds since the epoch, as are ``time``, the moment, and ``ended``, None while the run goes on.
        error: what ended it early, if something did.
        splits: source splits of the phase in all, or None until the source is listed.
        splits_before: those that an earlier run had finished; ``splits_done`` those that this one has.
        splits_finished: those that this one has finished in all phases.
        operators: of all phases so far, in order.
        stages: what each stage did to documents, in the order of the pipeline. Rounds of a shuffle are no stages:
            as in the report, only their seconds and what they found count, for the shuffle.
        held_bytes: of batches between operators now, of at most ``budget_bytes``.
        hosts: machines that workers run on, as last reported.
        workers_lost: worker processes that died.
        notes: how many there have been; ``latest`` are the last of them.
        output: where it writes, without secrets; empty if it writes nothing.
        owner: user and host that asked for it, as ``alice@host``.
        compile_s: seconds in which kernels were compiled ahead.
        left_s: seconds that the phase will still take, by `dcurate.runs.time_left.TimeLeft`; None if not known.
        share: share of the run that is done, from 0 to 1; it never shrinks.
        run_left_s: seconds that the run will still take; None if not known.

    Examples:
        >>> one = RunSnapshot(
        ...     "7f3a", "demo", "streaming", started=0.0, time=2.0, stages=(StageStats("read", rows_in=8),)
        ... )
        >>> RunSnapshot.from_dict(one.to_dict()) == one, one.rows_in
        (True, 8)
    """

    run: str
    pipeline: str
    mode: str
    phase: int = 0
    phases: int = 0
    started: float = 0.0
    time: float = 0.0
    ended: float | None = None
    error: str = ""
    splits: int | None = None
    splits_before: int = 0
    splits_done: int = 0
    splits_finished: int = 0
    operators: tuple[OperatorFigures, ...] = ()
    stages: tuple[StageStats, ...] = ()
    held_bytes: int = 0
    budget_bytes: int = 0
    hosts: tuple[HostSample, ...] = ()
    workers_lost: int = 0
    notes: int = 0
    latest: tuple[Note, ...] = ()
    output: str = ""
    owner: str = ""
    compile_s: float = 0.0
    left_s: float | None = None
    share: float = 0.0
    run_left_s: float | None = None

    @property
    def rows_in(self) -> int:
        """Rows read from the source."""
        return self.stages[0].rows_in if self.stages else 0

    @property
    def bytes_in(self) -> int:
        """Bytes of the input that they came from."""
        return self.stages[0].bytes_in if self.stages else 0

    @property
    def rows_out(self) -> int:
        """Rows that came out of the last stage."""
        return self.stages[-1].rows_out if self.stages else 0

    @property
    def kept(self) -> float | None:
        """The share of documents kept so far, as `kept_share` has it; None before any was written.

        At the end it is the exact share, unless the run stopped early. Of stages that make several documents of one it
        may be more than 1.
        """
        finished = self.ended is not None and not self.error
        if not self.rows_in or not (self.rows_out or finished):
            return None
        return self.rows_out / self.rows_in if finished else kept_share(self.stages)

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken, never 0."""
        return max((self.ended or self.time) - self.started, 1e-6)

    @property
    def working(self) -> float:
        """The same without those in which kernels were compiled ahead: rates of the whole run are over these."""
        return max(self.elapsed - self.compile_s, 1e-6)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        values = dict(vars(self))
        for name in ("operators", "stages", "hosts", "latest"):
            values[name] = [
                record.to_dict() if isinstance(record, StageStats | HostSample) else vars(record)
                for record in values[name]
            ]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`, after JSON too."""
        operators = tuple(
            OperatorFigures(**{**operator, "stages": tuple(operator["stages"]), "latency": tuple(operator["latency"])})
            for operator in values["operators"]
        )
        more = {
            "operators": operators,
            "stages": tuple(map(StageStats.from_dict, values["stages"])),
            "hosts": tuple(map(HostSample.from_dict, values["hosts"])),
            "latest": tuple(Note(**note) for note in values["latest"]),
        }
        return cls(**{**values, **more})
