"""Run an operator on batches: return the outputs and a record of what happened."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from dcurate.core.batch import Batch, FileGroup, Rejection
from dcurate.core.cpu_time import CPU_METER
from dcurate.core.ledger import RejectionSink
from dcurate.core.stage import REPLACED, ProcessingStage, SinkStage, SourceStage
from dcurate.engine.worker.calls import Calls
from dcurate.engine.worker.proofs import prove_rows
from dcurate.engine.worker.samples import ScoreSampler
from dcurate.errors import StageError
from dcurate.events import StageStats
from dcurate.frames.convert import as_frame
from dcurate.frames.document import DocumentBatch

AnyStage = ProcessingStage[Any, Any]


@dataclass(frozen=True)
class OperatorSpec:
    """An operator as it is sent to workers.

    Args:
        operator: its name.
        stages: what it runs, in order.
        rejections: where rejected rows are kept, if anywhere.
        keeps_outputs: False for the last operator if its outputs are on disk and only their names matter.
        passes_empty: whether batches without rows go to the next stage; else they end where they lose their rows.
        ignore_failures: whether rows on which a stage fails go to quarantine and the rest is processed; a stage's own
            setting of that name goes first.
        examples: whether a few rejected rows are shown in the report.
        proves: whether the roots of rejected and of written rows are computed.
    """

    operator: str
    stages: tuple[AnyStage, ...]
    rejections: RejectionSink | None = None
    keeps_outputs: bool = True
    passes_empty: bool = False
    ignore_failures: bool = False
    examples: bool = True
    proves: bool = False


@dataclass
class TaskResult:
    """The outcome of a task, per input.

    Attributes:
        outputs: per input, the batches made of it.
        stats: per input, the counts of each stage.
        files: per input, the files written for it.
        sizes: per input, the bytes of each output.
        unread: per input, why a part of it was lost without its rows being known; empty if nothing was.
        quarantined: per input, the names of quarantine files that hold rows of it.
    """

    outputs: list[list[Batch]]
    stats: list[list[StageStats]]
    files: list[list[str]]
    sizes: list[list[int]]
    seconds: float = 0.0
    unread: list[str] = field(default_factory=list)
    quarantined: list[list[str]] = field(default_factory=list)

    def __sizeof__(self) -> int:
        return 1024 + sum(map(sum, self.sizes))

    def summary(self) -> dict[str, Any]:
        """Everything but the batches, as plain values for the client."""
        return {
            "seconds": self.seconds,
            "sizes": self.sizes,
            "files": self.files,
            "unread": self.unread,
            "quarantined": self.quarantined,
            "stats": [[stats.to_dict() for stats in input_stats] for input_stats in self.stats],
        }


@dataclass
class InputState:
    """One input of a task, and its state after the stages so far."""

    key: Any
    batches: list[Batch]
    stats: list[StageStats] = field(default_factory=list)
    unread: str = ""
    quarantined: list[str] = field(default_factory=list)


def run_operator(
    operator_spec: OperatorSpec,
    inputs: Sequence[Batch],
    calls: Calls | None = None,
    sampler: ScoreSampler | None = None,
) -> TaskResult:
    """Run batches through the stages of an operator.

    Args:
        operator_spec: the operator.
        inputs: batches for its first stage.
        calls: calls of a slot's own stages; of those of `operator_spec`, in this process, if not given.
        sampler: collects scores and examples over many tasks; of this task alone if not given.

    Raises:
        StageError: a stage raised, or answered something that is not what a stage may answer.
    """
    begin = time.perf_counter()
    calls = calls or Calls(operator_spec.stages, operator_spec.ignore_failures)
    sampler = sampler or ScoreSampler(operator_spec.examples)
    states = [InputState(batch.key, [batch]) for batch in inputs]
    for number in range(len(calls.stages)):
        _run_stage(_Call(operator_spec, calls, sampler), number, states)
    sampler.add_work(time.perf_counter() - begin)
    files = [_files_of(calls.stages[-1], state.batches) for state in states]
    if not operator_spec.keeps_outputs:
        for state in states:
            state.batches = []
    return TaskResult(
        outputs=[state.batches for state in states],
        stats=[state.stats for state in states],
        files=files,
        sizes=[[batch.nbytes for batch in state.batches] for state in states],
        seconds=time.perf_counter() - begin,
        unread=[state.unread for state in states],
        quarantined=[state.quarantined for state in states],
    )


def _files_of(stage: AnyStage, batches: list[Batch]) -> list[str]:
    if not isinstance(stage, SinkStage):
        return []
    return [path for batch in batches if isinstance(batch, FileGroup) for path in batch.data]


def rejecting(operator: str, stage: AnyStage) -> str:
    """The name under which rows are kept that a stage of an operator rejects."""
    return f"{operator}.{stage.parts[0].name}"


@dataclass(frozen=True)
class _Call:
    """The context of a task besides its inputs."""

    operator_spec: OperatorSpec
    calls: Calls
    sampler: ScoreSampler


def _run_stage(call: _Call, number: int, states: list[InputState]) -> None:
    operator_spec, stage = call.operator_spec, call.calls.stages[number]
    before = [state.batches for state in states]
    begin = time.perf_counter()
    CPU_METER.begin()
    try:
        answers, taken_out = call.calls.process(number, [batch for batches in before for batch in batches])
    finally:
        cpu_s = CPU_METER.end() / max(1, len(states))
    share = (time.perf_counter() - begin) / max(1, len(states))
    logged = stage.take_metrics()
    remaining = enumerate(answers)
    for state, batches in zip(states, before, strict=True):
        results: list[Batch] = []
        rejected: list[Rejection] = []
        for batch in batches:
            place, answer = next(remaining)
            results += _keyed(stage, batch, answer)
            rejected += taken_out.get(place, ())
        rejected += [rejection for result in results for rejection in result.rejections]
        figures = _stats(stage, batches, results, rejected, share)
        figures[0].cpu_s, figures[0].gpu_s = cpu_s, share * _gpus(stage)
        state.stats.extend(figures)
        state.stats[-1].metrics, logged = logged, {}  # of the call as a whole: counted once
        scored = [score for result in results for score in result.scored]
        if operator_spec.proves:
            prove_rows(stage, str(state.key), results, rejected, figures)
        call.sampler.add(state.stats[-len(stage.parts) :], scored, rejected, state.key)
        if rejected and operator_spec.rejections is not None:
            kept = operator_spec.rejections.keep(state.key, rejecting(operator_spec.operator, stage), rejected)
            state.quarantined += [kept] if kept else []
        state.unread = state.unread or next((rejection.reason for rejection in rejected if rejection.uncounted), "")
        for result in results:
            result.rejections, result.found, result.scored = (), {}, ()
        state.batches = [result for result in results if result.num_items or operator_spec.passes_empty]


def _gpus(stage: AnyStage) -> float:
    """The GPUs that a stage holds while it works."""
    return stage.resources.gpus or float(stage.resources.requires_gpu)


def _keyed(stage: AnyStage, parent: Batch, answer: Any) -> list[Batch]:
    """Return the answer as batches with keys: a batch keeps its parent's key, a list is numbered below it."""
    if answer is None:
        return []
    results = answer if isinstance(answer, list) else [answer]
    keyed = []
    for number, result in enumerate(results):
        if not isinstance(result, Batch):
            raise StageError(
                f"stage {stage.name!r} answered a {type(result).__name__}; answer a batch, "
                "such as task.with_data(frame), a list of batches, or None"
            )
        child = copy.copy(result)
        if isinstance(child, DocumentBatch):
            data, child.data = child.data, as_frame(child.data)
            if child.data is None:
                raise StageError(
                    f"stage {stage.name!r} answered a batch whose data is a {type(data).__name__}; give it a "
                    "table or a frame: task.with_data(frame)"
                )
        child.key = parent.key.child(number) if isinstance(answer, list) and parent.key else parent.key
        keyed.append(child)
    return keyed


def _stats(
    stage: AnyStage, batches: list[Batch], results: list[Batch], rejections: list[Rejection], seconds: float
) -> list[StageStats]:
    """Count what the stage did to one input; of a merged stage, what each of its parts did."""
    rows_out, bytes_out = sum(r.num_items for r in results), sum(r.nbytes for r in results)
    rows_in, bytes_in = sum(b.num_items for b in batches), sum(b.nbytes for b in batches)
    if isinstance(stage, SourceStage):
        rows_in = rows_out + sum(rejection.rows for rejection in rejections)
        bytes_in = sum(part.nbytes for b in batches if isinstance(b, FileGroup) for part in b.parts) or bytes_in
    if isinstance(stage, SinkStage):
        rows_out = rows_in - sum(rejection.rows for rejection in rejections)
        bytes_out = sum(part.size for r in results if isinstance(r, FileGroup) for part in r.parts)
    figures = []
    for part in stage.parts:
        mine = [rejection for rejection in rejections if rejection.stage == part.name or len(stage.parts) == 1]
        stats = StageStats(part.name, len(batches), rows_in, rows_in, bytes_in, bytes_in, seconds)
        for rejection in mine:
            counts = stats.faulty if rejection.fault else stats.dropped
            counts[rejection.reason] = counts.get(rejection.reason, 0) + rejection.rows
        stats.rows_out -= sum(rejection.rows for rejection in mine)
        # What rejections weigh is known apart from the batch: no bytes are left where no rows are.
        stats.bytes_out = max(0, bytes_in - sum(rejection.nbytes for rejection in mine)) if stats.rows_out else 0
        figures.append(stats)
        rows_in, bytes_in, seconds = stats.rows_out, stats.bytes_out, 0.0
    last = figures[-1]
    if last.rows_out > rows_out and not isinstance(stage, SourceStage):
        last.dropped[last.name] = last.dropped.get(last.name, 0) + last.rows_out - rows_out
    last.rows_out, last.bytes_out = rows_out, bytes_out
    for kind, count in chain.from_iterable(result.found.items() for result in results):
        column = kind[len(REPLACED) + 1 : -1] if kind.startswith(REPLACED) else None
        makers = (stats for part, stats in zip(stage.parts, figures, strict=True) if column in part.outputs()[1])
        counts = next(makers, last).found
        counts[kind] = counts.get(kind, 0) + count
    return figures
