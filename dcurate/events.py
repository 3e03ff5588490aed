"""The events of a run. Observers receive them; the engine does not know its observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

#: Rows kept as examples for each stage and reason.
EXAMPLES = 5
_OFTEN_EMPTY = ("metrics", "scores", "dropped_labels", "examples", "proof")
#: Fields of `StageStats` that are samples of the rows.
_SAMPLED = ("scores", "dropped_labels", "examples")
#: Label for all labels of a score that are not counted one by one.
OTHER_LABELS = "(other labels)"


def _add_counts(totals: dict[str, Any], counts: Mapping[str, Any]) -> None:
    if not totals:
        totals.update(counts)
        return
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count


@dataclass
class StageStats:
    """Counts of one stage, added up over batches.

    Attributes:
        name: the stage.
        rows_in: rows that it got; ``bytes_in`` their bytes.
        rows_out: rows that it passed on; ``bytes_out`` their bytes.
        dropped: rows taken out by a rule, by reason.
        faulty: rows that could not be processed and went to quarantine, by reason.
        found: what the stage counted in the rows beyond that, by kind.
        seconds: time in the stage's own code, added up over slots.
        metrics: what the stage measured of its own work, by name (see `ProcessingStage._log_metrics`), added up.
        scores: how many rows had which score, by the score's name and its value cut to two significant digits.
        dropped_labels: of scores that are labels, how many of the rows in ``scores`` were taken out, in the same way.
        examples: of rows taken out, by reason: a few, each as plain values such as ``id``, ``score`` and ``excerpt``.
        proof: roots of the rows of one split that the stage took out, by the key of the batch, or wrote, by the file;
            empty without a proof, and where counts of several splits are added up.
        cpu_s: seconds of CPU that its calls took, with their threads and processes.
        gpu_s: seconds of GPU that it held in its calls: ``seconds`` times its GPUs; of one that asks for GPU memory,
            times one.
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
    metrics: dict[str, float] = field(default_factory=dict)
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    dropped_labels: dict[str, dict[str, int]] = field(default_factory=dict)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    proof: dict[str, str] = field(default_factory=dict)

    def add(self, other: StageStats) -> None:
        """Add another's figures to these."""
        self.batches += other.batches
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.seconds += other.seconds
        self.cpu_s += other.cpu_s
        self.gpu_s += other.gpu_s
        self.proof.update(other.proof)
        _add_counts(self.dropped, other.dropped)
        _add_counts(self.faulty, other.faulty)
        _add_counts(self.found, other.found)
        _add_counts(self.metrics, other.metrics)
        for scores, other_scores in ((self.scores, other.scores), (self.dropped_labels, other.dropped_labels)):
            for score, counts in other_scores.items():
                _add_counts(scores.setdefault(score, {}), counts)
        for reason, examples in other.examples.items():
            shown = self.examples.setdefault(reason, [])
            shown.extend(examples[: max(0, EXAMPLES - len(shown))])

    def part(self) -> Self:
        """Return the counts of a stage that is part of another: seconds and findings, not rows."""
        return type(self)("", seconds=self.seconds, found=self.found, cpu_s=self.cpu_s, gpu_s=self.gpu_s)

    def copy(self) -> Self:
        """The same figures, which stay as they are when these go on."""
        fresh = type(self)(self.name)
        fresh.add(self)
        return fresh

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for transport and storage, without empty ones."""
        return {name: value for name, value in vars(self).items() if value != {} or name not in _OFTEN_EMPTY}

    def counts(self) -> dict[str, Any]:
        """Return the counts alone, without scores and examples; kept for each split."""
        return {name: value for name, value in self.to_dict().items() if name not in _SAMPLED}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`."""
        return cls(**values)


@dataclass(frozen=True)
class Event:
    """An event for observers; ``time`` is in seconds since the epoch."""

    time: float


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins, or its next round: its id, its mode, its operators as lists of stage names.

    Attributes:
        run: the same for all rounds of a run.
        phase: number of the round; each barrier begins another one.
        stages: of the whole pipeline, as a person wrote them; if empty, those of the operators.
        owners: the barrier that other stages of the round belong to, by name. Their rows are no documents; as in the
            report, only their seconds and findings count, for the barrier.
        output: where the run writes, without secrets; empty if it writes nothing.
        phases: the number of rounds of the run, as far as that is known; 0 if it is not.
        owner: user and host that asked for the run, as ``alice@host``.
        inputs: addresses of the files and folders that the run reads, without secrets.
    """

    run: str
    pipeline: str
    mode: str
    operators: tuple[tuple[str, ...], ...]
    phase: int = 0
    stages: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    phases: int = 0
    owner: str = ""
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceListed(Event):
    """The source is known to the end: how many splits it has, and how many an earlier run had finished.

    Attributes:
        splits: number of splits; ``finished_before`` of them an earlier run had finished.
        skipped_files: number of files that are not read, as none of their rows can match the ``filter`` of the reader;
            ``skipped_bytes`` is their size, and ``all_files`` and ``all_bytes`` are what there is with them. All are 0
            for a reader without a filter.
    """

    splits: int
    finished_before: int
    skipped_files: int = 0
    skipped_bytes: int = 0
    all_files: int = 0
    all_bytes: int = 0


@dataclass(frozen=True)
class InputsRead(Event):
    """The first round has read all of its input, which is known with its versions now.

    Attributes:
        files: number of input files; ``nbytes`` is their size.
        digest: SHA-256 of the list of the files with their sizes and versions; empty if the input is not files.
        tables: tables that were read: format and version by address.
        columns: types of the columns of the input by name, as far as they are known.
        output_columns: names of the columns that the run writes; none where they are not known.
    """

    files: int
    nbytes: int
    digest: str
    tables: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    output_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlotsChanged(Event):
    """A worker process has another number of slots of an operator now, all set up.

    Attributes:
        operator: the operator.
        worker: address of the process.
        slots: slots in the process; ``total`` those in all processes.
        setup_seconds: seconds that the last setup took.
    """

    operator: str
    worker: str
    slots: int
    total: int
    setup_seconds: float


@dataclass(frozen=True)
class Decided(Event):
    """The balancer changes how many slots an operator (or several that share theirs) is to have, and says why.

    Attributes:
        operator: the operator, or several joined by ``+``.
        before: slots until now.
        after: slots from now on.
        reason: why, in words.
    """

    operator: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True)
class RunWaits(Event):
    """A run waits for other runs on the cluster, or goes on.

    Attributes:
        reason: what it waits for, and who holds that; empty if it goes on.
    """

    reason: str


@dataclass(frozen=True)
class WorkerLost(Event):
    """A worker process is gone; its results are computed again elsewhere.

    Attributes:
        worker: its address; ``name`` is the cluster's name of it, if known.
        reason: likely cause, such as memory that was nearly full; empty if not known.
    """

    worker: str
    name: str = ""
    reason: str = ""


@dataclass(frozen=True)
class WorkerLeft(Event):
    """A worker process has left in good order: it was retired, or got a signal to end.

    Its results were moved to other workers; those that were not are computed again.

    Attributes:
        worker: its address; ``name`` is the cluster's name of it, if known.
    """

    worker: str
    name: str = ""


@dataclass(frozen=True)
class WorkerRecycled(Event):
    """A worker process is emptied and restarted, or cannot be; ``reason`` says why.

    Attributes:
        worker: its address; ``name`` is the cluster's name of it, if known.
    """

    worker: str
    reason: str
    name: str = ""


@dataclass(frozen=True)
class CallHung(Event):
    """A call ended its process: it took longer than ``timeout_s``, or a CUDA error left the GPU unusable.

    ``doing`` names stage, batch and cause; ``trace`` says where it stood.
    """

    doing: str
    trace: str


@dataclass(frozen=True)
class CallCopied(Event):
    """One of an operator's last calls takes far longer than others, and runs once more elsewhere.

    Attributes:
        operator: the operator.
        seconds: seconds that the call has taken so far.
        usual: seconds of its other calls.
    """

    operator: str
    seconds: float
    usual: float


@dataclass(frozen=True)
class TaskDone(Event):
    """An operator has processed a batch (or a few, where its batch size is above one).

    Attributes:
        operator: the operator.
        split: key of the source split that the batch is of.
        stats: counts of each of its stages.
        seconds: seconds that the call took; of a call for several splits, an equal part.
    """

    operator: str
    split: str
    stats: tuple[StageStats, ...]
    seconds: float


@dataclass(frozen=True)
class SplitDone(Event):
    """Everything that came of a source split is written or dropped.

    Attributes:
        split: key of the split.
        files: paths of the files written for it.
    """

    split: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class OperatorSample:
    """The state of an operator.

    Attributes:
        operator: the operator.
        slots: slots that are set up.
        running: calls under way, in a slot or on the way to one.
        waiting: batches that no call has taken; ``waiting_bytes`` those of all batches that it has yet to be done with.
    """

    operator: str
    slots: int
    running: int
    waiting: int
    waiting_bytes: int


@dataclass(frozen=True)
class Sampled(Event):
    """The state of the run, about twice a second.

    Attributes:
        held_bytes: of batches between operators, of at most ``budget_bytes``.
    """

    operators: tuple[OperatorSample, ...]
    held_bytes: int
    budget_bytes: int


@dataclass(frozen=True)
class GpuSample:
    """A GPU as NVML reports it.

    Attributes:
        name: index or UUID.
        memory: bytes in use, of ``memory_total``.
        busy: share of the time that it was busy, 0 to 1.
    """

    name: str
    memory: int
    memory_total: int
    busy: float


@dataclass(frozen=True)
class HostSample:
    """A machine, or part of one, that workers run on.

    Attributes:
        host: name of the machine.
        workers: processes; ``threads`` of all of them.
        cpu: CPUs that they used of late.
        memory: bytes of all of them, of at most ``memory_limit``; ``spilled`` bytes of data on disk.
        gpus: its GPUs.
    """

    host: str
    workers: int
    threads: int
    cpu: float
    memory: int
    memory_limit: int
    spilled: int = 0
    gpus: tuple[GpuSample, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {**vars(self), "gpus": [dict(vars(gpu)) for gpu in self.gpus]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The opposite of `to_dict`."""
        return cls(**{**values, "gpus": tuple(GpuSample(**gpu) for gpu in values.get("gpus", ()))})


@dataclass(frozen=True)
class HostsSampled(Event):
    """The state of the machines of a cluster, every few seconds.

    Attributes:
        hosts: the machines.
    """

    hosts: tuple[HostSample, ...]


@dataclass(frozen=True)
class Compiling(Event):
    """Kernels are compiled before the first batch.

    Attributes:
        kernels: kernels that are left.
        seconds: seconds that these take, roughly.
    """

    kernels: int
    seconds: float


@dataclass(frozen=True)
class CompilingLate(Event):
    """A stage compiles kernels at their first call: how many, and about how many seconds that takes."""

    kernels: int
    seconds: float


@dataclass(frozen=True)
class Compiled(Event):
    """All kernels that a run could name beforehand are compiled: how many, and the seconds that it took."""

    kernels: int
    seconds: float


@dataclass(frozen=True)
class RunEnded(Event):
    """The run is over, or a round of it; ``error`` is empty if it finished.

    Attributes:
        last: whether no round follows.
    """

    error: str
    last: bool = True


class Observer(Protocol):
    """Receives the events of a run. It must be quick and must not raise."""

    def on_event(self, event: Event) -> None:
        """Handle an event."""
