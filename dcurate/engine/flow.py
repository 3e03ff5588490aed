"""Decide which batch goes where, and when: a state machine without Dask, threads or clocks.

Feed it events (`pulled`, `finished`, `failed`, `delivered`, `set_slots`) and carry out the instructions that `advance`
returns. Four limits hold: the tasks in flight of each operator, the bytes and the number of batches between operators,
and the pace of the consumer. It cannot deadlock: an operator without outputs may always run one task, beyond any
budget.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

#: The `OutputRef.task` of a source split, whose `OutputRef.input` is its number.
SOURCE = -1

#: Seconds of work that should be queued at a slot: enough to hide the way to the scheduler and back.
AHEAD_S = 0.5
#: Tasks in flight per slot, at least and at most.
MIN_PER_SLOT, MAX_PER_SLOT = 2, 128
#: Number of tasks that the mean covers. With fewer, the limit would jump where durations vary, and a slot that has
#: ended its tasks would wait until those of slots in long tasks have shrunk to the smaller limit.
MEAN_OVER = 64
#: Tasks that end within this many seconds are replaced together.
GATHER_S = 0.03
#: Inputs that may wait before an operator: seconds of its work, at least and at most per slot, and at most in all.
WAIT_S, MIN_QUEUE_PER_SLOT, MAX_QUEUE_PER_SLOT, MAX_QUEUE = 4.0, 64, 2048, 20_000
#: Inputs that take less than this many seconds together share a task, up to this many: a task costs Dask milliseconds.
SHORT_S, MAX_BATCH = 0.05, 16

#: Slots for each task that runs again after its worker died: if it kills workers, it kills few; if a host was lost, its
#: tasks do not wait for each other.
SLOTS_PER_RETRY = 16


class OutputRef(NamedTuple):
    """The engine's name of a batch: the task that made it, the input it was made of, and its number among those."""

    task: int
    input: int
    output: int


@dataclass(frozen=True)
class Pull:
    """Take up to ``count`` more splits from the source and answer with `Flow.pulled`."""

    count: int


@dataclass(frozen=True)
class Task:
    """Run one task of an operator, and answer with `Flow.finished` or `Flow.failed`.

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
    """Stop a task whose speculative copy ended first. It counts as ended."""

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
    """Everything that came of a source split is written, emitted or dropped."""

    split: int


Instruction = Pull | Task | Cancel | Emit | Release | SplitFinished


@dataclass
class InFlightLimit:
    """Limits the tasks in flight of an operator: enough to keep its slots busy, and no more.

    Two per slot for long tasks; more for short ones, so that slots never wait for the driver and many tasks travel in
    one message. Very short inputs share a task.

    Examples:
        >>> limit = InFlightLimit(slots=4)
        >>> limit.size, limit.batch_per_task
        (8, 1)
        >>> for _ in range(50): limit.record(0.01)
        >>> limit.size, limit.batch_per_task
        (44, 5)
    """

    slots: int = 0
    mean_s: float = 0.0
    most: int = MAX_PER_SLOT
    _taken: int = 0
    _mean_square: float = 0.0

    def record(self, seconds: float, items: int = 1) -> None:
        """Learn from a task of a number of items that took some seconds in its slot."""
        self._taken += 1
        per_item, weight = seconds / items, 1 / min(self._taken, MEAN_OVER)
        self.mean_s += (per_item - self.mean_s) * weight
        self._mean_square += (per_item**2 - self._mean_square) * weight

    @property
    def batch_per_task(self) -> int:
        """Calls that share a task."""
        return max(1, min(MAX_BATCH, int(SHORT_S / max(self.mean_s, 1e-6)))) if self.mean_s else 1

    @property
    def size(self) -> int:
        """Tasks that may be in flight."""
        if not self.mean_s:
            return self.slots * min(self.most, MIN_PER_SLOT)
        # Where durations vary, what waits may be short, however long the mean.
        uneven = 1 + sqrt(max(0.0, self._mean_square - self.mean_s**2)) / self.mean_s
        wanted = 1 + AHEAD_S * uneven / max(self.mean_s * self.batch_per_task, 1e-6)
        return int(self.slots * min(self.most, max(MIN_PER_SLOT, wanted)))

    @property
    def max_queue(self) -> int:
        """Inputs that may wait before the operator, so that its slots stay busy while the rates of others vary."""
        per_slot = WAIT_S / self.mean_s if self.mean_s else MIN_QUEUE_PER_SLOT
        wanted = int(max(1, self.slots) * min(MAX_QUEUE_PER_SLOT, max(MIN_QUEUE_PER_SLOT, per_slot)))
        return max(min(wanted, MAX_QUEUE), 2 * self.size * self.batch_per_task)

    @property
    def refill_threshold(self) -> int:
        """Refill when no more than this many tasks are in flight, so that short tasks are submitted in groups.

        A group is what ends within `GATHER_S`. Waiting for more would leave slots idle where durations vary: one slot
        may run through all of its tasks while the others are in long ones.
        """
        ending = self.slots * GATHER_S / (self.mean_s * self.batch_per_task) if self.mean_s else 1.0
        size = self.size
        return size - max(1, int(min(size // 4, ending)))


@dataclass
class OperatorState:
    """The state of one operator in the flow."""

    batch_size: int = 1
    limit: InFlightLimit = field(default_factory=InFlightLimit)
    waiting: deque[OutputRef] = field(default_factory=deque)
    #: Tasks that run, by their ids.
    running: dict[int, Task] = field(default_factory=dict)
    #: Running tasks whose worker died before.
    retries: int = 0
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
        """Inputs that wait for a task, including those to be retried."""
        return len(self.waiting) + sum(len(inputs) for inputs, _ in self.retrying)

    @property
    def may_retry(self) -> bool:
        """Whether one more task may run again whose worker died: few do at a time, as they may kill another one."""
        return self.retries < max(1, self.limit.slots // SLOTS_PER_RETRY) and self.limit.slots > 0

    @property
    def has_work(self) -> bool:
        """Whether any input waits or runs."""
        return bool(self.waiting or self.running or self.retrying)


class Flow:
    """The state of a run.

    Args:
        batch_sizes: number of items that one call takes, for each operator.
        budget_bytes: for all batches between operators and before the consumer, together.
        delivers: whether the outputs of the last operator go to a consumer.
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
        self.operators[operator].limit.slots = slots

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
            seconds: duration of the task.
        """
        state = self.operators[operator]
        done = state.running.pop(task)
        state.retries -= done.deaths > 0
        copy = self._unpair(state, task)
        if copy is not None:
            del state.running[copy]
            self._instructions.append(Cancel(copy, operator))
        if not done.deaths:
            state.limit.record(seconds, len(done.inputs))
        state.items_done += len(done.inputs)
        made_bytes = sum(map(sum, sizes))
        state.mean_output_bytes += (made_bytes - state.mean_output_bytes) * (0.2 if state.mean_output_bytes else 1.0)
        last = operator == len(self.operators) - 1
        if not last or self.delivers:
            after = self._deliveries if last else self.operators[operator + 1].waiting
            for place, (ref, outputs) in enumerate(zip(done.inputs, sizes, strict=True)):
                split = self._batches[ref][0]
                for number, nbytes in enumerate(outputs):
                    after.append(self._add(OutputRef(task, place, number), split, nbytes))
                    state.output_bytes += nbytes
                    state.output_items += 1
        for ref in done.inputs:
            self._consumed(ref, operator - 1)
        self._instructions.append(Release(done.inputs))

    def failed(self, task: int, operator: int) -> None:
        """Record that the worker of a task died; its inputs run again, by themselves."""
        state = self.operators[operator]
        died = state.running.pop(task)
        state.retries -= died.deaths > 0
        if self._unpair(state, task) is None:  # else the other of the two goes on
            state.retrying.append((died.inputs, died.deaths + 1))

    def is_running(self, task: int, operator: int) -> bool:
        """Whether a task has neither ended nor been cancelled."""
        return task in self.operators[operator].running

    def splits_of(self, task: int, operator: int) -> list[int]:
        """Return the split number of each input of a running task."""
        return [self._batches[ref][0] for ref in self.operators[operator].running[task].inputs]

    def may_speculate(self, operator: int) -> bool:
        """Whether an operator has only its last tasks left, and idle slots for copies of them."""
        state = self.operators[operator]
        idle = not state.waiting and not state.retrying and len(state.running) < state.limit.slots
        return idle and bool(state.running) and self._upstream_done(operator)

    def speculate(self, task: int, operator: int) -> bool:
        """Run a late task once more elsewhere; the first of the two to end counts.

        Returns:
            False if it is not the time for that, or has been done.
        """
        state = self.operators[operator]
        if not self.may_speculate(operator) or task in state.speculative or state.running[task].deaths:
            return False
        copy = self._start(operator, state.running[task].inputs)
        state.speculative |= {task: copy, copy: task}
        return True

    def delivered(self, ref: OutputRef) -> None:
        """Record that the consumer has taken a batch."""
        self._consumed(ref, len(self.operators) - 1)
        self._instructions.append(Release((ref,)))

    # Instructions

    def advance(self) -> list[Instruction]:
        """Return the instructions to carry out now; empty means to wait, or that all is `done`."""
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
        """Number of operators that have running tasks."""
        return sum(bool(state.running) for state in self.operators)

    @property
    def done(self) -> bool:
        """Whether everything in the source is finished."""
        return self.exhausted and not self._live

    # How

    @staticmethod
    def _unpair(state: OperatorState, task: int) -> int | None:
        """Forget that a task is, or has, a speculative copy; return the id of the other."""
        counterpart = state.speculative.pop(task, None)
        if counterpart is not None:
            del state.speculative[counterpart]
        return counterpart

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
        return self.exhausted and not any(state.has_work for state in self.operators[:operator])

    def is_finished(self, operator: int) -> bool:
        """Whether an operator has nothing to do, now or later."""
        return self._upstream_done(operator) and not self.operators[operator].has_work

    def _idle(self) -> bool:
        return not self._pulling and not any(state.running for state in self.operators)

    def _submit(self, operator: int, partial: bool) -> None:
        """Submit what limit and budget allow; tasks of fewer inputs than the batch size only if ``partial``."""
        state = self.operators[operator]
        if self.barrier and operator and not self._upstream_done(operator):
            return
        while state.retrying and state.may_retry:
            self._start(operator, *state.retrying.popleft())
        if not state.waiting or len(state.running) > state.limit.refill_threshold:
            return
        size = state.limit.size
        while state.waiting and len(state.running) < size and self._within_budget(operator):
            if len(state.waiting) < state.batch_size and not partial:
                return
            self._submit_one(operator)

    def _submit_one(self, operator: int) -> None:
        state = self.operators[operator]
        share = max(1, len(state.waiting) // (state.batch_size * max(1, state.limit.slots)))
        count = state.batch_size * min(state.limit.batch_per_task, share)
        self._start(operator, tuple(state.waiting.popleft() for _ in range(min(count, len(state.waiting)))))

    def _start(self, operator: int, inputs: tuple[OutputRef, ...], deaths: int = 0) -> int:
        task = Task(self._next_task, operator, inputs, deaths)
        self._next_task += 1
        self.operators[operator].running[task.id] = task
        self.operators[operator].retries += deaths > 0
        self._instructions.append(task)
        return task.id

    def _submit_any(self) -> None:
        """Break a deadlock: let the last operator that has any input take what there is."""
        for operator in reversed(range(len(self.operators))):
            if self.operators[operator].waiting and self.operators[operator].limit.slots:
                self._submit_one(operator)
                return

    def _within_budget(self, operator: int) -> bool:
        state = self.operators[operator]
        last = operator == len(self.operators) - 1
        if self.barrier or (last and not self.delivers) or not (state.output_items or state.running):
            return True
        if not last and state.output_items >= self.operators[operator + 1].limit.max_queue:
            return False
        expected = state.mean_output_bytes * (len(state.running) + 1)
        # Half of the budget is dealt out to the boundaries, so that none starves; the other half goes where it is used.
        share = self.budget_bytes / 2 / self._boundaries
        used = state.output_bytes + expected
        if used <= share:
            return True
        over = sum(
            max(0.0, other_state.output_bytes - share) for other_state in self.operators if other_state is not state
        )
        return used - share + over <= self.budget_bytes / 2

    def _pull(self) -> None:
        first = self.operators[0]
        per_task = first.batch_size * first.limit.batch_per_task
        held = len(first.waiting) + sum(len(task.inputs) for task in first.running.values())
        low = held <= first.limit.refill_threshold * per_task
        if low and first.limit.slots and not self.exhausted and not self._pulling:
            self._pulling = True
            self._instructions.append(Pull(first.limit.size * per_task - held))
