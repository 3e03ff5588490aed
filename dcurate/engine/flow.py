"""Decide which batch goes where, and when: a state machine without Dask, threads or clocks.

Feed it events (`pulled`, `finished`, `failed`, `delivered`, `set_slots`) and carry out the instructions that `advance`
returns. Four limits hold: the tasks in flight of each operator, the bytes and the number of batches between operators,
and the pace of the consumer. It cannot deadlock: an operator without outputs may always run one task, whatever the
budget.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dcurate.engine.in_flight import InFlightLimit

#: The `OutputRef.task` of a source split, whose `OutputRef.input` is its number.
SOURCE = -1


class OutputRef(NamedTuple):
    """How the engine names a batch: by the task that made it, the input it was made of, and its number among those."""

    task: int
    input: int
    output: int


@dataclass(frozen=True)
class Pull:
    """Take up to ``count`` more splits from the source and answer with `Flow.pulled`."""

    count: int


@dataclass(frozen=True)
class Task:
    """Run one call of an operator, and answer with `Flow.finished` or `Flow.failed`.

    Args:
        id: counts from 0 within a round.
        operator: its number.
        inputs: one batch size of them, or a few.
        deaths: how many worker processes died during earlier attempts.
    """

    id: int
    operator: int
    inputs: tuple[OutputRef, ...]
    deaths: int = 0


@dataclass(frozen=True)
class Cancel:
    """Stop a task: a speculative copy of it was sooner. It counts as over."""

    task: int
    operator: int


@dataclass(frozen=True)
class Emit:
    """Hand a batch to the consumer and answer with `Flow.delivered`."""

    ref: OutputRef


@dataclass(frozen=True)
class Release:
    """Forget batches that nothing needs any more."""

    refs: tuple[OutputRef, ...]


@dataclass(frozen=True)
class SplitFinished:
    """All that came of a source split is written, delivered or dropped."""

    split: int


Instruction = Pull | Task | Cancel | Emit | Release | SplitFinished


@dataclass
class OperatorState:
    """One operator as the flow sees it."""

    batch_size: int = 1
    window: InFlightLimit = field(default_factory=InFlightLimit)
    waiting: deque[OutputRef] = field(default_factory=deque)
    #: Tasks that run, by their ids.
    running: dict[int, Task] = field(default_factory=dict)
    #: Inputs of tasks during which worker processes died, and how many have.
    retrying: deque[tuple[tuple[OutputRef, ...], int]] = field(default_factory=deque)
    #: Tasks that run twice, and their speculative copies: each with the id of the other.
    speculative: dict[int, int] = field(default_factory=dict)
    #: Inputs that it has finished.
    items_done: int = 0
    #: Bytes made by this operator that the next has not yet consumed, and how many batches they are.
    output_bytes: int = 0
    output_items: int = 0
    mean_output_bytes: float = 0.0

    @property
    def items_waiting(self) -> int:
        """Inputs that wait for a task, those to be retried among them."""
        return len(self.waiting) + sum(len(inputs) for inputs, _ in self.retrying)

    @property
    def retries(self) -> bool:
        """Whether a task runs again whose worker died; one does at a time."""
        return any(task.deaths for task in self.running.values())

    @property
    def has_work(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.waiting or self.running or self.retrying)


class Flow:
    """The state of a run.

    Args:
        batch_sizes: of each operator, how many items one call takes.
        budget_bytes: for all that stands between operators and before the consumer, together.
        delivers: whether what the last operator makes goes to a consumer.
        barrier: whether an operator starts only when the one before it has finished everything (batch mode).
    """

    def __init__(
        self, batch_sizes: Sequence[int], budget_bytes: float, delivers: bool = False, barrier: bool = False
    ) -> None:
        self.operators = [OperatorState(size) for size in batch_sizes]
        self.delivers = delivers
        self.barrier = barrier
        self.budget_bytes = budget_bytes
        self._boundaries = max(1, len(self.operators) - (not delivers))
        self.exhausted = False
        self._pulling = False
        #: The split and the bytes of each batch that something needs.
        self._batches: dict[OutputRef, tuple[int, int]] = {}
        self._live: Counter[int] = Counter()
        self._deliveries: deque[OutputRef] = deque()
        self._instructions: list[Instruction] = []
        self._next_task = 0

    # Events

    def set_slots(self, operator: int, slots: int) -> None:
        """Set how many slots an operator has."""
        self.operators[operator].window.slots = slots

    def pulled(self, splits: Sequence[tuple[int, int]], exhausted: bool) -> list[OutputRef]:
        """Add splits of the source, as (number, bytes); ``exhausted`` says that there are no more."""
        self._pulling = False
        self.exhausted = exhausted
        refs = [self._add(OutputRef(SOURCE, split, 0), split, nbytes) for split, nbytes in splits]
        self.operators[0].waiting.extend(refs)
        return refs

    def finished(self, task: int, operator: int, sizes: Sequence[Sequence[int]], seconds: float) -> None:
        """Record a finished task.

        Args:
            task: its id.
            sizes: bytes of the outputs of each input.
            seconds: that it took.
        """
        stage = self.operators[operator]
        done = stage.running.pop(task)
        copy = self._parted(stage, task)
        if copy is not None:
            del stage.running[copy]
            self._instructions.append(Cancel(copy, operator))
        if not done.deaths:
            stage.window.took(seconds, len(done.inputs))
        stage.items_done += len(done.inputs)
        made_bytes = sum(map(sum, sizes))
        stage.mean_output_bytes += (made_bytes - stage.mean_output_bytes) * (0.2 if stage.mean_output_bytes else 1.0)
        last = operator == len(self.operators) - 1
        if not last or self.delivers:
            after = self._deliveries if last else self.operators[operator + 1].waiting
            for place, (ref, outputs) in enumerate(zip(done.inputs, sizes, strict=True)):
                split = self._batches[ref][0]
                for number, nbytes in enumerate(outputs):
                    after.append(self._add(OutputRef(task, place, number), split, nbytes))
                    stage.output_bytes += nbytes
                    stage.output_items += 1
        for ref in done.inputs:
            self._consumed(ref, operator - 1)
        self._instructions.append(Release(done.inputs))

    def failed(self, task: int, operator: int) -> None:
        """Record that the worker of a task died; its inputs are run again, by themselves."""
        stage = self.operators[operator]
        died = stage.running.pop(task)
        if self._parted(stage, task) is None:  # else the other of the two goes on
            stage.retrying.append((died.inputs, died.deaths + 1))

    def is_running(self, task: int, operator: int) -> bool:
        """Whether a task has neither ended nor been cancelled."""
        return task in self.operators[operator].running

    def splits_of(self, task: int, operator: int) -> list[int]:
        """The number of the split that each input of a running task is of."""
        return [self._batches[ref][0] for ref in self.operators[operator].running[task].inputs]

    def may_copy(self, operator: int) -> bool:
        """Whether an operator has only its last tasks left, and slots to spare for copies of them."""
        stage = self.operators[operator]
        idle = not stage.waiting and not stage.retrying and len(stage.running) < stage.window.slots
        return idle and bool(stage.running) and self._upstream_done(operator)

    def copy(self, task: int, operator: int) -> bool:
        """Run a task that takes very long once more, elsewhere; the first of the two to end counts.

        Returns:
            False if it is not the time for that, or has been done.
        """
        stage = self.operators[operator]
        if not self.may_copy(operator) or task in stage.speculative or stage.running[task].deaths:
            return False
        copy = self._start(operator, stage.running[task].inputs)
        stage.speculative |= {task: copy, copy: task}
        return True

    def delivered(self, ref: OutputRef) -> None:
        """Record that the consumer has taken a batch."""
        self._consumed(ref, len(self.operators) - 1)
        self._instructions.append(Release((ref,)))

    # Instructions

    def advance(self) -> list[Instruction]:
        """Return what to do now; nothing means to wait, or that all is `done`."""
        while self._deliveries:
            self._instructions.append(Emit(self._deliveries.popleft()))
        for operator in reversed(range(len(self.operators))):
            self._submit(operator, partial=self._upstream_done(operator))
        self._pull()
        if not self._instructions and not self.done and self._idle():
            self._submit_any()
        instructions, self._instructions = self._instructions, []
        return instructions

    @property
    def operators_running(self) -> int:
        """How many operators have calls under way."""
        return sum(bool(stage.running) for stage in self.operators)

    @property
    def done(self) -> bool:
        """Whether everything that the source has is finished."""
        return self.exhausted and not self._live

    # How

    @staticmethod
    def _parted(stage: OperatorState, task: int) -> int | None:
        """Forget that a task has a copy, or is one; returns the id of the other."""
        other = stage.speculative.pop(task, None)
        if other is not None:
            del stage.speculative[other]
        return other

    def _add(self, ref: OutputRef, split: int, nbytes: int) -> OutputRef:
        self._batches[ref] = (split, nbytes)
        self._live[split] += 1
        return ref

    def _consumed(self, ref: OutputRef, made_by: int) -> None:
        split, nbytes = self._batches.pop(ref)
        if made_by >= 0:
            self.operators[made_by].output_bytes -= nbytes
            self.operators[made_by].output_items -= 1
        self._live[split] -= 1
        if not self._live[split]:
            del self._live[split]
            self._instructions.append(SplitFinished(split))

    def _upstream_done(self, operator: int) -> bool:
        return self.exhausted and not any(stage.has_work for stage in self.operators[:operator])

    def finished_for_good(self, operator: int) -> bool:
        """Whether an operator has nothing to do, now or later."""
        return self._upstream_done(operator) and not self.operators[operator].has_work

    def _idle(self) -> bool:
        return not self._pulling and not any(stage.running for stage in self.operators)

    def _submit(self, operator: int, partial: bool) -> None:
        """Submit what window and budget allow; calls of fewer items than the batch size only if ``partial``."""
        stage = self.operators[operator]
        if self.barrier and operator and not self._upstream_done(operator):
            return
        if stage.retrying and not stage.retries and stage.window.slots:
            self._start(operator, *stage.retrying.popleft())
        if not stage.waiting or len(stage.running) > stage.window.low_water:
            return
        while stage.waiting and len(stage.running) < stage.window.size and self._has_room(operator):
            if len(stage.waiting) < stage.batch_size and not partial:
                return
            self._submit_one(operator)

    def _submit_one(self, operator: int) -> None:
        stage = self.operators[operator]
        share = max(1, len(stage.waiting) // (stage.batch_size * max(1, stage.window.slots)))
        count = stage.batch_size * min(stage.window.group, share)
        self._start(operator, tuple(stage.waiting.popleft() for _ in range(min(count, len(stage.waiting)))))

    def _start(self, operator: int, inputs: tuple[OutputRef, ...], deaths: int = 0) -> int:
        task = Task(self._next_task, operator, inputs, deaths)
        self._next_task += 1
        self.operators[operator].running[task.id] = task
        self._instructions.append(task)
        return task.id

    def _submit_any(self) -> None:
        """Nothing runs and nothing may: let the last operator that has anything take what there is."""
        for operator in reversed(range(len(self.operators))):
            if self.operators[operator].waiting and self.operators[operator].window.slots:
                self._submit_one(operator)
                return

    def _has_room(self, operator: int) -> bool:
        stage = self.operators[operator]
        last = operator == len(self.operators) - 1
        if self.barrier or (last and not self.delivers) or not (stage.output_items or stage.running):
            return True
        if not last and stage.output_items >= self.operators[operator + 1].window.heap:
            return False
        expected = stage.mean_output_bytes * (len(stage.running) + 1)
        # Half of the budget is dealt out to the boundaries, so that none starves; the other half goes where it is used.
        share = self.budget_bytes / 2 / self._boundaries
        used = stage.output_bytes + expected
        if used <= share:
            return True
        over = sum(max(0.0, other.output_bytes - share) for other in self.operators if other is not stage)
        return used - share + over <= self.budget_bytes / 2

    def _pull(self) -> None:
        first = self.operators[0]
        each = first.batch_size * first.window.group
        held = len(first.waiting) + sum(len(task.inputs) for task in first.running.values())
        low = held <= first.window.low_water * each
        if low and first.window.slots and not self.exhausted and not self._pulling:
            self._pulling = True
            self._instructions.append(Pull(first.window.size * each - held))
