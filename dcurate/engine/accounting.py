"""The specification of a round, and the accounting of a run."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from dcurate.core.batch import Batch
from dcurate.core.disk_map import DiskMap, decode_names, encode_names
from dcurate.core.disk_queue import DiskQueue
from dcurate.core.kernels import Kernels
from dcurate.core.ledger import Ledger, RejectionSink, SplitRecord, check_accounts
from dcurate.core.owner import present_owner
from dcurate.core.report import RunReport
from dcurate.core.stage import SkippedInput, SourceStage
from dcurate.engine.flow import Flow
from dcurate.engine.worker.operator_task import OperatorSpec, rejecting
from dcurate.errors import PipelineError
from dcurate.events import (
    Compiled,
    Event,
    Observer,
    OperatorSample,
    RunEnded,
    RunStarted,
    Sampled,
    SourceListed,
    SplitDone,
    StageStats,
    TaskDone,
)
from dcurate.plan.operators import Plan
from dcurate.redaction import without_secrets

#: Seconds between two samples of a run's state.
SAMPLE_S = 0.5

#: Seconds in which splits are listed ahead at each sample: a small share of the time of the loop.
LISTING_S = 0.025


@dataclass
class Round:
    """A plan with everything that running it needs.

    Args:
        pipeline: its name.
        splits: the source splits, listed lazily.
        delivers: whether the outputs of the last operator are emitted batch by batch.
        by_need: whether no split is listed before it is needed, as which one is next depends on the time.
        ledger: knows what earlier runs finished, and records what this one does.
        rejections: where rows that stages reject are kept.
        observers: receive events.
        ignore_failures: whether rows on which a stage fails go to quarantine and the run goes on.
        examples: whether excerpts of a few dropped rows are kept for the report.
        proves: whether the roots of rejected and of written rows are computed.
        passes_empty: whether batches without rows go to the next stage.
        run: id of the run that it is the whole or a ``phase`` of; ``last`` says whether no other phase follows.
        kernels: what the stages of the run compile.
        unread: splits that do not count as finished and are not tried again: why, and the files written for each.
        stages: names of the run's stages, ``owners`` whose part others are, ``output``, ``phases`` and ``inputs``, all
            as in `RunStarted`.
    """

    pipeline: str
    plan: Plan
    splits: Iterator[Batch]
    delivers: bool = False
    by_need: bool = False
    ledger: Ledger | None = None
    rejections: RejectionSink | None = None
    observers: Sequence[Observer] = ()
    ignore_failures: bool = False
    examples: bool = True
    proves: bool = False
    passes_empty: bool = False
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    phase: int = 0
    last: bool = True
    kernels: Sequence[Kernels] = ()
    unread: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    phases: int = 0
    inputs: tuple[str, ...] = ()

    @property
    def run_key(self) -> str:
        """The name of the round on a cluster: its run and phase."""
        return f"{self.run}-{self.phase}"

    def operators(self) -> list[str]:
        """Return the names under which `RejectionSink.keep` is given rows."""
        return [
            rejecting(operator.name, stage) for operator in self.plan.operators for stage in operator.processing_stages
        ]

    def operator_specs(self) -> list[OperatorSpec]:
        """Return the operators as they are sent to workers."""
        operators = self.plan.operators
        keeps = [True] * (len(operators) - 1) + [self.delivers]
        return [
            OperatorSpec(
                operator.name,
                operator.processing_stages,
                self.rejections,
                keep,
                passes_empty=self.passes_empty,
                ignore_failures=self.ignore_failures,
                examples=self.examples,
                proves=self.proves,
            )
            for operator, keep in zip(operators, keeps, strict=True)
        ]


@dataclass
class _Open:
    """A split that is not finished."""

    key: str
    version: str
    stats: dict[str, StageStats] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    unread: str = ""


class _Outcome(NamedTuple):
    """What became of a split.

    Args:
        finished: whether all of it is written, emitted or dropped.
        earlier: whether an earlier run finished it.
        files: the files written for it.
    """

    finished: bool = False
    earlier: bool = False
    files: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return b"%d%d" % (self.finished, self.earlier) + encode_names(self.files)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(data[:1] == b"1", data[1:2] == b"1", decode_names(data[2:]))


class RunAccounting:
    """Counts what happens in a run: for its report, its ledger and its observers.

    Args:
        job: the round that is run.
        mode: ``streaming``, ``batch`` or ``inline``.

    Attributes:
        unread: by split key, why the split does not count as finished: a file of it could not be read.
        repeats: whether tasks were run again because workers died.
        quarantined: names of the files in quarantine that this run wrote.
    """

    def __init__(self, job: Round, mode: str) -> None:
        self.job = job
        self.mode = mode
        self.started = time.time()
        self.workers = 0
        self.splits = 0
        self.splits_before = 0
        self.unread: dict[str, str] = {}
        self.repeats = False
        self.quarantined: set[str] = set()
        self._splits = DiskMap(_Outcome.encode, _Outcome.decode)  # by key, in the order of the source
        self._files = 0
        self._inputs = self._outputs = 0
        self.error = ""
        self._output = without_secrets(job.plan.sink.output_path) if job.plan.sink else None
        self._seconds: float | None = None
        self._compile_seconds = 0.0
        self._totals = {part.name: StageStats(part.name) for part in job.plan.parts}
        self._open: dict[int, _Open] = {}
        self._ahead = DiskQueue[tuple[int, Batch]]()
        self._exhausted = False
        self._number = 0
        operators = tuple(tuple(part.name for part in operator.parts) for operator in job.plan.operators)
        self._sampled = 0.0
        about = (job.phase, job.stages, dict(job.owners), job.output, job.phases, present_owner().person, job.inputs)
        self.emit(RunStarted(time.time(), job.run, job.pipeline, mode, operators, *about))

    def emit(self, event: Event) -> None:
        """Send an event to the observers."""
        if isinstance(event, Compiled):
            self._compile_seconds += event.seconds
        for observer in self.job.observers:
            observer.on_event(event)

    def sample(self, flow: Flow) -> None:
        """Emit a sample of the run's state, list splits ahead and flush the ledger, unless that was done recently."""
        now = time.monotonic()
        if now - self._sampled < SAMPLE_S:
            return
        self._sampled = now
        if self.job.ledger is not None:
            self.job.ledger.flush_due()
        self._list_ahead(now + LISTING_S)
        if not self.job.observers:
            return
        made = [0, *(stage.output_bytes for stage in flow.operators)]
        samples = [
            OperatorSample(operator.name, stage.limit.slots, len(stage.running), stage.items_waiting, nbytes)
            for operator, stage, nbytes in zip(self.job.plan.operators, flow.operators, made, strict=False)
        ]
        self.emit(Sampled(time.time(), tuple(samples), sum(made), int(flow.budget_bytes)))

    def next_splits(self, count: int) -> tuple[list[tuple[int, Batch]], bool]:
        """Return up to ``count`` numbered splits that no earlier run has finished, and whether the source is exhausted.

        Raises:
            PipelineError: two splits of the source have one key.
        """
        while len(self._ahead) < count and not self._exhausted:
            self._list_next()
        taken = [self._ahead.popleft() for _ in range(min(count, len(self._ahead)))]
        for number, split in taken:
            self._open[number] = _Open(str(split.key), split.version)
        return taken, self._exhausted and not self._ahead

    def first_split(self) -> Batch | None:
        """Return the first split that no earlier run has finished; None if there is none."""
        while not self._ahead and not self._exhausted:
            self._list_next()
        return self._ahead.first[1] if self._ahead else None

    def _list_ahead(self, until: float) -> None:
        """List splits until a moment of the monotonic clock, so that the run knows early how many there are."""
        source = self.job.plan.parts[0]
        if isinstance(source, SourceStage) and source.lists_ahead and not self.job.by_need:
            while not self._exhausted and time.monotonic() < until:
                self._list_next()

    def _list_next(self) -> None:
        """List one more split, and count it as done if an earlier run has finished it."""
        split = next(self.job.splits, None)
        if split is None:
            self._exhausted = True
            source = self.job.plan.parts[0]
            skipped = source.skipped() if isinstance(source, SourceStage) else SkippedInput()
            amounts = (skipped.files, skipped.nbytes, skipped.all_files, skipped.all_bytes)
            self.emit(SourceListed(time.time(), self.splits, self.splits_before, *amounts))
            return
        key = str(split.key)
        if split.key is None or not self._splits.add(key, _Outcome()):
            raise PipelineError(f"the source gave two splits under the key {key!r}; give every split a key of its own")
        self.splits += 1
        version = split.version
        self._inputs ^= _digest(key, version)
        record = self.job.ledger.finished(key, version) if self.job.ledger is not None else None
        if record is None and key in self.job.unread:
            self.unread[key], files = self.job.unread[key]
            self._splits.put(key, _Outcome(finished=True, files=files))
            self._files += len(files)
            return
        if record is None:
            self._ahead.append((self._number, split))
            self._number += 1
            return
        self.splits_before += 1
        self._count([StageStats.from_dict(stats) for stats in record.stats])
        files = tuple(f"{self._output}/{name}" for name in record.files)
        self._record_output(key, _Outcome(finished=True, earlier=True, files=files), record.stats[-1:])

    def task_done(self, operator: int, summary: Mapping[str, Any], splits: Sequence[int]) -> None:
        """Count a finished task: ``summary`` is that of its `TaskResult`, ``splits`` the split number of each input."""
        name = self.job.plan.operators[operator].name
        for place, (number, input_stats) in enumerate(zip(splits, summary["stats"], strict=True)):
            split = self._open[number]
            split.files.extend(summary["files"][place])
            split.unread = split.unread or summary["unread"][place]
            self.quarantined.update(summary["quarantined"][place])
            stats = [StageStats.from_dict(values) for values in input_stats]
            for stage in stats:
                split.stats.setdefault(stage.name, StageStats(stage.name)).add(stage)
                stage.proof = {}  # it is of the split alone
            self.emit(TaskDone(time.time(), name, split.key, tuple(stats), summary["seconds"] / len(splits)))

    def split_finished(self, number: int) -> None:
        """Record a split of which everything is written, emitted or dropped."""
        entry = self._open.pop(number)
        self._count(entry.stats.values())
        files = tuple(sorted(entry.files))
        counts = tuple(stats.counts() for stats in entry.stats.values())
        self._record_output(entry.key, _Outcome(finished=True, files=files), counts[-1:])
        if entry.unread:
            self.unread[entry.key] = entry.unread
        check_accounts(entry.key, counts, [part.name for part in self.job.plan.parts])
        if self.job.ledger is not None and not entry.unread:
            self.job.ledger.record(SplitRecord(entry.key, entry.version, files, counts))
        self.emit(SplitDone(time.time(), entry.key, files))

    def _record_output(self, key: str, outcome: _Outcome, last: Sequence[Mapping[str, Any]]) -> None:
        """Record what became of a split, and the counts of the last stage that it came to."""
        self._splits.put(key, outcome)
        self._files += len(outcome.files)
        names = (name.rpartition("/")[2] for name in outcome.files)
        self._outputs ^= _digest(key, *names, *(f"{stats['name']} {stats['rows_out']}" for stats in last))

    def _count(self, stats: Iterable[StageStats]) -> None:
        for stage in stats:
            self._totals.setdefault(stage.name, StageStats(stage.name)).add(replace(stage, proof={}))

    def close(self, error: str = "") -> None:
        """End the run, with or without an error, and flush the ledger."""
        self._seconds = time.time() - self.started
        self.error = error
        if self.job.ledger is not None:
            self.job.ledger.flush()
        self.emit(RunEnded(time.time(), error, self.job.last or bool(error)))

    def left_unread(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the splits that do not count as finished: why, and the files written for each."""
        return {split: (reason, self._splits[split].files) for split, reason in self.unread.items()}

    def files_of_unread(self) -> set[str]:
        """Return the files written for splits that do not count as finished."""
        return {file for _, files in self.left_unread().values() for file in files}

    def lost(self) -> set[str]:
        """Return the splits that do not count as finished, and of which nothing was written."""
        return {split for split, (_, files) in self.left_unread().items() if not files}

    def begun_here(self, split: str) -> bool:
        """Return whether the input has a split that no earlier run had finished."""
        outcome = self._splits.get(split)
        return outcome is not None and not outcome.earlier

    def in_order(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return each finished split and its files, in the order of the source."""
        return [(split, outcome.files) for split, outcome in self._splits.items() if outcome.finished]

    def _notices(self) -> Iterator[str]:
        """Yield notices of work that was or must be repeated."""
        if self.unread:
            split, reason = next(iter(self.unread.items()))
            yield (
                f"{len(self.unread):,} of {self.splits:,} splits are not finished, as files of them could not be read "
                f"and have an unknown number of rows (first: {split!r}, {reason}); quarantine says where, and "
                "resume=True tries them again"
            )
        ledger = self.job.ledger
        if ledger is not None and ledger.skipped:
            yield (
                f"{ledger.skipped:,} of the files that say what earlier runs had finished could not be read; "
                "the splits in them were done again"
            )

    def report(self) -> RunReport:
        """Return the report of the run, so far or at its end."""
        return RunReport(
            run=self.job.run,
            pipeline=self.job.pipeline,
            mode=self.mode,
            started=self.started,
            seconds=time.time() - self.started if self._seconds is None else self._seconds,
            stages=tuple(self._totals.values()),
            splits=self.splits,
            splits_before=self.splits_before,
            workers=self.workers,
            output_path=self._output,
            files=self._files,
            inputs_digest=f"{self._inputs:016x}",
            outputs_digest=f"{self._outputs:016x}",
            error=self.error,
            notices=tuple(self._notices()),
            compile_seconds=self._compile_seconds,
        )


def _digest(*words: str) -> int:
    """Hash words to an integer, so that the XOR of such integers identifies a set in any order."""
    return int.from_bytes(hashlib.blake2b("\n".join(words).encode(errors="surrogatepass"), digest_size=8).digest())
