"""A run's figures so far, counted from its events."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dcurate.events import (
    CallCopied,
    CallHung,
    Compiled,
    Compiling,
    CompilingLate,
    Decided,
    Event,
    HostSample,
    HostsSampled,
    RunEnded,
    RunStarted,
    RunWaits,
    Sampled,
    SlotsChanged,
    SourceListed,
    SplitDone,
    StageStats,
    TaskDone,
    WorkerLeft,
    WorkerLost,
    WorkerRecycled,
)
from dcurate.runs.labels import operator_labels
from dcurate.runs.snapshot import LATENCY_S, Note, OperatorFigures, RunSnapshot, bucket
from dcurate.runs.text import many
from dcurate.runs.time_left import RunTimeLeft, TimeLeft

#: Number of latest notes to keep.
LATEST = 20


@dataclass
class OperatorCounts:
    """The counts of one operator so far.

    Attributes:
        slots: how many it has, by worker.
        slot_seconds: that slots stood ready until ``since``, over all of them.
    """

    stages: tuple[str, ...] = ()
    phase: int = 0
    owner: str = ""
    label: str = ""
    tasks: int = 0
    seconds: float = 0.0
    slots: dict[str, int] = field(default_factory=dict)
    slot_seconds: float = 0.0
    since: float = 0.0
    setup_seconds: float = 0.0
    running: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    latency: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_S) + 1))

    @property
    def mean_seconds(self) -> float:
        """Seconds per task; 0 before the first one."""
        return self.seconds / self.tasks if self.tasks else 0.0

    @property
    def total_slots(self) -> int:
        """Slots on all workers."""
        return sum(self.slots.values())

    def pass_time(self, now: float) -> None:
        """Count the time that slots have stood ready up to a moment."""
        if self.since:
            self.slot_seconds += self.total_slots * max(0.0, now - self.since)
        self.since = now

    def figures(self, name: str, now: float) -> OperatorFigures:
        """The same as values that stay."""
        return OperatorFigures(
            name=name,
            stages=self.stages,
            phase=self.phase,
            owner=self.owner,
            label=self.label,
            slots=self.total_slots,
            running=self.running,
            waiting=self.waiting,
            waiting_bytes=self.waiting_bytes,
            calls=self.tasks,
            seconds=self.seconds,
            slot_seconds=self.slot_seconds + (self.total_slots * max(0.0, now - self.since) if self.since else 0.0),
            setup_seconds=self.setup_seconds,
            latency=tuple(self.latency),
        )


@dataclass
class RunState:
    """The state of a run so far. Applying an event takes a few microseconds.

    Attributes:
        started: seconds since the epoch; 0 before the run begins; ``phase_started`` is when the present phase did.
        splits: source splits of the present phase, or None until its source is listed.
        splits_before: those that an earlier run had finished.
        splits_done: those that this run has finished; ``splits_finished`` those of all phases.
        rows_in: rows read from the source of the present phase, and ``bytes_in`` their bytes; zero in the rounds of a
            shuffle, which read no documents.
        rows_out: rows that came out of the phase's last stage; none where that is a part of a barrier.
        ended: seconds since the epoch, or None while the run goes on; ``phase_ended`` likewise for the phase.
        error: what ended it early, if something did.
        operators: of the present phase; ``earlier`` are those of phases before it.
        stages: what each stage did, of all phases, in order; parts of a barrier count for it, as in the report.
        owners: whose part other stages of the phase are.
        latest: the last notes on what happened, of ``note_count`` so far.
        first: name of the phase's first stage, and ``last`` of its last.
        output: where the run writes; empty if it writes nothing.
        owner: user and host that asked for the run.
        compiling: what is being compiled, before the first batch.
        waits: why it waits for other runs on the cluster; empty if it does not.
        phases: phases of the run in all, as far as that is known; 0 if it is not.
        compile_s: seconds in which kernels were compiled ahead, of all phases.
        time_left: estimate of the time that the phase will still take, and ``run_left`` that of the run.
    """

    run: str = ""
    pipeline: str = ""
    mode: str = ""
    phase: int = 0
    started: float = 0.0
    phase_started: float = 0.0
    splits: int | None = None
    splits_before: int = 0
    splits_done: int = 0
    splits_finished: int = 0
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    workers_lost: int = 0
    ended: float | None = None
    phase_ended: float | None = None
    error: str = ""
    operators: dict[str, OperatorCounts] = field(default_factory=dict)
    earlier: list[OperatorFigures] = field(default_factory=list)
    stages: dict[str, StageStats] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[HostSample, ...] = ()
    held_bytes: int = 0
    budget_bytes: int = 0
    latest: deque[Note] = field(default_factory=lambda: deque(maxlen=LATEST))
    note_count: int = 0
    first: str = ""
    last: str = ""
    output: str = ""
    owner: str = ""
    compiling: Compiling | None = None
    waits: str = ""
    phases: int = 0
    compile_s: float = 0.0
    time_left: TimeLeft = field(default_factory=TimeLeft)
    run_left: RunTimeLeft = field(default_factory=RunTimeLeft)
    _share: float = 0.0
    _compiles_late: bool = False

    def apply(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case TaskDone():
                self._count_task(event)
            case SplitDone():
                self.splits_done += 1
                self.splits_finished += 1
                self._estimate(event.time)
            case Sampled():
                self._sample(event)
            case HostsSampled():
                self.hosts = event.hosts
            case SlotsChanged():
                self._change_slots(event)
            case SourceListed():
                self.splits, self.splits_before = event.splits, event.finished_before
                self._estimate(event.time)
            case WorkerLost() | WorkerLeft():
                self._lose(event)
            case RunStarted():
                self._begin(event)
            case RunEnded():
                self._end(event)
            case Compiling():
                self.compiling = event
            case RunWaits():
                self._wait(event)
            case _:
                self._note_of(event)

    def _begin(self, event: RunStarted) -> None:
        if event.phase == 0 or event.run != self.run:
            vars(self).update(vars(RunState()))
            self.run, self.pipeline, self.mode, self.started = event.run, event.pipeline, event.mode, event.time
        self.earlier += [counts.figures(name, event.time) for name, counts in self.operators.items()]
        self.phase, self.phase_started, self.phase_ended = event.phase, event.time, None
        self.splits, self.splits_before, self.splits_done = None, 0, 0
        self.time_left = TimeLeft(event.time)
        self.rows_in = self.bytes_in = self.rows_out = self.held_bytes = 0
        self.first, self.last = event.operators[0][0], event.operators[-1][-1]
        self.owners, self.output, self.owner = event.owners, event.output, event.owner
        for name in event.stages or (name for names in event.operators for name in names):
            self.stages.setdefault(name, StageStats(name))
        self.phases = max(event.phases, event.phase + 1)
        labels = operator_labels(event.operators, list(self.stages), self.owners, event.phase)
        self.operators = {
            _operator_name(names): OperatorCounts(names, event.phase, self._owner(names), label)
            for names, label in zip(event.operators, labels, strict=True)
        }

    def _end(self, event: RunEnded) -> None:
        for operator in self.operators.values():
            operator.pass_time(event.time)
            operator.slots.clear()
            operator.running = operator.waiting = operator.waiting_bytes = 0
        self.held_bytes = 0
        self.phase_ended, self.error, self.waits = event.time, event.error, ""
        if not event.error:
            self.run_left.round_ended(event.time, self.elapsed(event.time), self._following)
        self.ended = event.time if event.last else None
        if event.error:
            self._note(Note(event.time, "error", event.error))

    def _count_task(self, event: TaskDone) -> None:
        operator = self._operator(event.operator)
        operator.tasks += 1
        operator.seconds += event.seconds
        operator.latency[bucket(event.seconds)] += 1
        for stats in event.stats:
            owner = None if stats.name in self.stages else self.owners.get(stats.name)
            if owner is not None:
                self.stages[owner].add(stats.part())
            else:
                self.stages.setdefault(stats.name, StageStats(stats.name)).add(stats)
        if event.stats and self.reads and event.stats[0].name == self.first:
            self.rows_in += event.stats[0].rows_in
            self.bytes_in += event.stats[0].bytes_in
        if event.stats and self.writes and event.stats[-1].name == self.last:
            self.rows_out += event.stats[-1].rows_out

    def _sample(self, event: Sampled) -> None:
        self.held_bytes, self.budget_bytes = event.held_bytes, event.budget_bytes
        for sample in event.operators:
            operator = self._operator(sample.operator)
            operator.pass_time(event.time)
            operator.running, operator.waiting = sample.running, sample.waiting
            operator.waiting_bytes = sample.waiting_bytes
            if not operator.slots and sample.slots:  # where no worker ever says what it holds
                operator.slots[""] = sample.slots

    def _change_slots(self, event: SlotsChanged) -> None:
        if self.setting_up:
            self.time_left = TimeLeft(event.time)
        operator = self._operator(event.operator)
        operator.pass_time(event.time)
        operator.slots[event.worker] = event.slots
        operator.setup_seconds = event.setup_seconds or operator.setup_seconds

    def _lose(self, event: WorkerLost | WorkerLeft) -> None:
        for operator in self.operators.values():
            operator.pass_time(event.time)
            operator.slots.pop(event.worker, None)
        worker = f"worker {event.name or event.worker}"
        if isinstance(event, WorkerLeft):
            self._note(Note(event.time, "left", f"{worker} has left"))
            return
        self.workers_lost += 1
        why = f", as {event.reason}" if event.reason else ""
        self._note(Note(event.time, "lost", f"{worker} is gone{why}; what was there is made again"))

    def _wait(self, event: RunWaits) -> None:
        if event.reason and not self.waits:
            self._note(Note(event.time, "waits", f"the run {event.reason}"))
        self.waits = event.reason

    def _note_of(self, event: Event) -> None:
        """Return a note about an event for the report, if any."""
        match event:
            case Compiled():
                self.compiling = None
                self.compile_s += event.seconds
                if self.setting_up:
                    self.time_left = TimeLeft(event.time)
                text = f"compiled {many(event.kernels, 'kernel')} in {event.seconds:.0f} s, once on this machine"
                self._note(Note(event.time, "compiled", text))
            case CompilingLate() if not self._compiles_late:
                self._compiles_late = True
                text = (
                    f"compiling kernels that stages call for the first time, about {max(1, round(event.seconds))} s "
                    "for the first of them, once on a machine"
                )
                self._note(Note(event.time, "compiled", text))
            case Decided() if event.before:
                label = self._label(event.operator)
                reason = event.reason.replace(event.operator, label)
                self._note(Note(event.time, "decision", reason, label, event.before, event.after))
            case WorkerRecycled():
                self._note(
                    Note(event.time, "recycled", f"worker {event.name or event.worker} is restarted: {event.reason}")
                )
            case CallHung():
                self._note(Note(event.time, "hung", f"{event.doing}; its process was ended"))
            case CallCopied():
                usual = f"{event.seconds:.0f} s instead of {event.usual:.2g} s"
                label = self._label(event.operator)
                text = f"a call of {label} takes {usual}; it runs once more elsewhere"
                self._note(Note(event.time, "copied", text, label))

    def _note(self, note: Note) -> None:
        self.latest.append(note)
        self.note_count += 1

    def _owner(self, names: Sequence[str]) -> str:
        """The barrier whose inner round an operator of these stages belongs to; empty if it is given documents."""
        if any(name in self.stages for name in names):
            return ""
        return next((self.owners[name] for name in names if name in self.owners), "")

    def _label(self, operator: str) -> str:
        """What a person is shown as the name of an operator."""
        counts = self.operators.get(operator)
        return counts.label if counts is not None and counts.label else operator

    @property
    def title(self) -> str:
        """What a person is shown as the name of the phase: the stages from its first to its last."""
        first, last = (name if name in self.stages else self.owners.get(name, name) for name in (self.first, self.last))
        return first if first == last else f"{first} to {last}"

    @property
    def round(self) -> str:
        """Which round of how many the phase is; empty if there is one alone."""
        return f"round {self.phase + 1} of {self.phases}" if self.phases > 1 else ""

    def _operator(self, name: str) -> OperatorCounts:
        return self.operators.setdefault(name, OperatorCounts((name,), self.phase))

    def snapshot(self, now: float) -> RunSnapshot:
        """The figures as values that stay."""
        now = self.ended or max(now, self.started)
        return RunSnapshot(
            run=self.run,
            pipeline=self.pipeline,
            mode=self.mode,
            phase=self.phase,
            phases=self.phases,
            started=self.started,
            time=now,
            ended=self.ended,
            error=self.error,
            splits=self.splits,
            splits_before=self.splits_before,
            splits_done=self.splits_done,
            splits_finished=self.splits_finished,
            operators=(*self.earlier, *(counts.figures(name, now) for name, counts in self.operators.items())),
            stages=tuple(stats.copy() for stats in self.stages.values()),
            held_bytes=self.held_bytes,
            budget_bytes=self.budget_bytes,
            hosts=self.hosts,
            workers_lost=self.workers_lost,
            notes=self.note_count,
            latest=tuple(self.latest),
            output=self.output,
            owner=self.owner,
            compile_s=self.compile_s,
            left_s=None if self.phase_ended else self.remaining(now),
            share=self.share,
            run_left_s=None if self.ended else self.run_remaining(now),
        )

    @property
    def reads(self) -> bool:
        """Whether the phase reads documents, not the files of an earlier round."""
        return self.first in self.stages

    @property
    def writes(self) -> bool:
        """Whether the phase writes documents."""
        return self.last in self.stages

    @property
    def inner_of(self) -> str:
        """The barrier whose inner round the phase is, which counts batches; empty if it reads or writes documents."""
        owners = {counts.owner for counts in self.operators.values()}
        return "" if self.reads or self.writes else next(iter(sorted(owners)), "")

    @property
    def setting_up(self) -> bool:
        """Whether nothing can have been done yet, because no slot is ready."""
        begun = self.splits_done or any(operator.tasks or operator.slots for operator in self.operators.values())
        return self.ended is None and not begun

    def elapsed(self, now: float) -> float:
        """Seconds that the present phase has taken, never 0."""
        return max((self.phase_ended or now) - self.phase_started, 1e-6)

    def working(self, now: float) -> float:
        """Seconds of the present phase since its first slot was ready and its kernels were compiled, never 0."""
        return max((self.phase_ended or now) - self.time_left.since, 1e-6)

    def remaining(self, now: float) -> float | None:
        """Seconds that the phase will still take, by `TimeLeft`, or None if that is not known."""
        return self.time_left.seconds(now)

    def run_remaining(self, now: float) -> float | None:
        """Seconds that all rounds of the run will still take, by `RunTimeLeft`, or None if that is not known."""
        return self.run_left.left.seconds(now)

    @property
    def share(self) -> float:
        """Share of the run that is done, from 0 to 1, each round counting alike; it never shrinks.

        Before the first split of a round has ended, what operators have done of it counts.
        """
        within = float(self.phase_ended is not None and not self.error)
        if self.splits:
            within = (self.splits_before + self.splits_done) / self.splits
            if not within:
                done = [min(1.0, operator.tasks / self.splits) for operator in self.operators.values()]
                within = min(sum(done) / max(1, len(done)), 0.99 / self.splits)
        self._share = max(self._share, (self.phase + within) / max(1, self.phases))
        return self._share

    @property
    def _following(self) -> int:
        """How many rounds follow the present one, as far as that is known."""
        return max(0, self.phases - self.phase - 1)

    def _estimate(self, time: float) -> None:
        if self.splits is not None and self.splits_done:
            splits_left = max(self.splits - self.splits_before - self.splits_done, 0)
            self.time_left.split_done(time, self.splits_done, splits_left)
            left = self.time_left.seconds(time) or 0.0
            self.run_left.estimate(time, left, self.elapsed(time) + left, self._following)


def _operator_name(stages: Sequence[str]) -> str:
    """The name that the plan gives to an operator of these stages."""
    return stages[0] if len(stages) == 1 else f"{stages[0]}-{stages[-1]}"
