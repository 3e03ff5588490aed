"""The loop that every executor shares: enact the instructions of the flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dcurate.core.batch import Batch
from dcurate.engine.accounting import RunAccounting
from dcurate.engine.flow import Cancel, Emit, Flow, Instruction, OutputRef, Pull, Release, SplitFinished, Task


@dataclass(frozen=True)
class TaskFinished:
    """A task that ended; ``summary`` is that of its `TaskResult`."""

    task: int
    operator: int
    summary: dict[str, Any]


@dataclass(frozen=True)
class TaskDied:
    """A task whose worker died; it must run again."""

    task: int
    operator: int


class Backend(Protocol):
    """Where tasks run: this process, or a cluster."""

    def submit(self, tasks: Sequence[tuple[Task, list[Batch] | None]]) -> None:
        """Start tasks; those of the first operator come with their splits, others name their inputs."""

    def fetch(self, ref: OutputRef) -> Batch:
        """Return a batch that a task made."""

    def release(self, refs: Sequence[OutputRef]) -> None:
        """Forget batches that nothing needs any more."""

    def cancel(self, task: int) -> None:
        """Forget a task, whether it has ended or not."""

    def wait(self) -> list[TaskFinished | TaskDied]:
        """Block until a task ends or slots change; raises what made a task fail."""


class DriverLoop:
    """Runs a flow to its end.

    Args:
        flow: decides.
        accounting: gives splits and counts what happens.
        backend: runs tasks.
    """

    def __init__(self, flow: Flow, accounting: RunAccounting, backend: Backend) -> None:
        self.flow = flow
        self.accounting = accounting
        self.backend = backend
        #: Splits that no task has consumed yet.
        self._splits: dict[OutputRef, Batch] = {}

    def run(self) -> Iterator[Batch]:
        """Yield the batches for the consumer as they come; return when everything is done."""
        while True:
            self.accounting.sample(self.flow)
            instructions = self.flow.advance()
            if not instructions and self.flow.done:
                return
            tasks = [instruction for instruction in instructions if isinstance(instruction, Task)]
            for instruction in instructions:
                if isinstance(instruction, Emit):
                    yield self.backend.fetch(instruction.ref)
                    self.flow.delivered(instruction.ref)
                else:
                    self._carry_out(instruction)
            if tasks:
                self.backend.submit([(task, self._splits_of(task)) for task in tasks])
            if not instructions:
                for ended in self.backend.wait():
                    if self.flow.is_running(ended.task, ended.operator):  # else a copy of it was sooner
                        self._record(ended)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Pull(count):
                self._pull(count)
            case Cancel(task):
                self.backend.cancel(task)
            case Release(refs):
                self._release(refs)
            case SplitFinished(number):
                self.accounting.split_finished(number)

    def _splits_of(self, task: Task) -> list[Batch] | None:
        """The inputs of a task of the first operator; those of others are where tasks made them."""
        return None if task.operator else [self._splits[ref] for ref in task.inputs]

    def _pull(self, count: int) -> None:
        taken, exhausted = self.accounting.next_splits(count)
        refs = self.flow.pulled([(number, split.nbytes) for number, split in taken], exhausted)
        self._splits.update(zip(refs, (split for _, split in taken), strict=True))

    def _release(self, refs: Sequence[OutputRef]) -> None:
        self.backend.release(refs)
        for ref in refs:
            self._splits.pop(ref, None)

    def _record(self, ended: TaskFinished | TaskDied) -> None:
        """Count a finished task and let the flow know of its outputs, or that it must run again."""
        if isinstance(ended, TaskDied):
            self.accounting.repeats = True
            self.flow.failed(ended.task, ended.operator)
            return
        splits = self.flow.splits_of(ended.task, ended.operator)
        self.flow.finished(ended.task, ended.operator, ended.summary["sizes"], ended.summary["seconds"])
        self.accounting.task_done(ended.operator, ended.summary, splits)
