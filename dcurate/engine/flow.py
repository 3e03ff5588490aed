"""Which batch goes where, and when: a state machine without Dask, threads or clocks.

Feed it what happened (`pulled`, `finished`, `failed`, `delivered`, `set_slots`) and carry out what `advance` answers.
Four things bound it: the window of each operator, the bytes and the items that stand between operators, and at the
end the consumer. It cannot deadlock: an operator whose output side is empty may always hold one batch, whatever the
budget.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from dcurate.engine.in_flight import InFlightLimit


@dataclass(frozen=True)
class Pull:
    """Take up to ``count`` more splits from the source and answer with `Flow.pulled`."""

    count: int


@dataclass(frozen=True)
class Submit:
    """Run items through an operator in one call (one batch size of them, or a few); answer `finished` or `failed`.

    Args:
        deaths: how many worker processes died during earlier attempts.
    """

    ticket: int
    operator: int
    items: tuple[int, ...]
    deaths: int = 0


@dataclass(frozen=True)
class Cancel:
    """A call is not needed any more: a copy of it was sooner. It counts as over."""

    ticket: int
    operator: int


@dataclass(frozen=True)
class Emit:
    """Hand an item to the consumer and answer with `Flow.delivered`."""

    item: int


@dataclass(frozen=True)
class Release:
    """Nothing needs these items any more."""

    items: tuple[int, ...]


@dataclass(frozen=True)
class SplitFinished:
    """All that came of a source split is written, delivered or dropped."""

    split: int


Instruction = Pull | Submit | Cancel | Emit | Release | SplitFinished


@dataclass
class OperatorState:
    """One operator as the flow sees it."""

    batch_size: int = 1
    window: InFlightLimit = field(default_factory=InFlightLimit)
    waiting: deque[int] = field(default_factory=deque)
    running: dict[int, tuple[int, ...]] = field(default_factory=dict)
    #: Items of calls during which a worker process died, and how many have.
    suspects: deque[tuple[tuple[int, ...], int]] = field(default_factory=deque)
    #: The call of suspects that is running, if one is; and its deaths before.
    tried: dict[int, int] = field(default_factory=dict)
    #: Calls of which a copy runs, and their copies: each with the other.
    copies: dict[int, int] = field(default_factory=dict)
    #: Items that it has finished.
    items_done: int = 0
    #: Bytes made by this operator that the next has not yet consumed, and how many items they are.
    output_bytes: int = 0
    output_items: int = 0
    mean_output_bytes: float = 0.0

    @property
    def items_waiting(self) -> int:
        """Items that wait for a call, suspects among them."""
        return len(self.waiting) + sum(len(items) for items, _ in self.suspects)

    @property
    def has_work(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.waiting or self.running or self.suspects)


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
        self._items: dict[int, tuple[int, int]] = {}
        self._live: Counter[int] = Counter()
        self._deliveries: deque[int] = deque()
        self._instructions: list[Instruction] = []
        self._next_item = 0
        self._next_ticket = 0

    # What happened

    def set_slots(self, operator: int, slots: int) -> None:
        """An operator has so many slots now."""
        self.operators[operator].window.slots = slots

    def pulled(self, splits: Sequence[tuple[int, int]], exhausted: bool) -> list[int]:
        """The source gave splits, as (number, bytes), and has no more if ``exhausted``; returns an item for each."""
        self._pulling = False
        self.exhausted = exhausted
        items = [self._add(split, nbytes) for split, nbytes in splits]
        self.operators[0].waiting.extend(items)
        return items

    def finished(self, ticket: int, operator: int, sizes: Sequence[Sequence[int]], seconds: float) -> list[list[int]]:
        """A call is over: for each of its items the bytes of what was made of it; returns the new items likewise."""
        stage = self.operators[operator]
        inputs = stage.running.pop(ticket)
        copy = self._parted(stage, ticket)
        if copy is not None:
            del stage.running[copy]
            self._instructions.append(Cancel(copy, operator))
        if stage.tried.pop(ticket, 0) == 0:
            stage.window.took(seconds, len(inputs))
        stage.items_done += len(inputs)
        made_bytes = sum(map(sum, sizes))
        stage.mean_output_bytes += (made_bytes - stage.mean_output_bytes) * (0.2 if stage.mean_output_bytes else 1.0)
        last = operator == len(self.operators) - 1
        made: list[list[int]] = []
        for item, outputs in zip(inputs, sizes, strict=True):
            split = self._items[item][0]
            made.append([] if last and not self.delivers else [self._add(split, nbytes) for nbytes in outputs])
            for new in made[-1]:
                (self._deliveries if last else self.operators[operator + 1].waiting).append(new)
                stage.output_bytes += self._items[new][1]
                stage.output_items += 1
        for item in inputs:
            self._consumed(item, operator - 1)
        self._instructions.append(Release(inputs))
        return made

    def failed(self, ticket: int, operator: int) -> None:
        """The worker of a call died; its items are run again, by themselves."""
        stage = self.operators[operator]
        if self._parted(stage, ticket) is not None:
            del stage.running[ticket]  # the other of the two goes on
            return
        stage.suspects.append((stage.running.pop(ticket), stage.tried.pop(ticket, 0) + 1))

    def is_running(self, ticket: int, operator: int) -> bool:
        """Whether a call has neither ended nor been given up."""
        return ticket in self.operators[operator].running

    def may_copy(self, operator: int) -> bool:
        """Whether an operator has only its last calls left, and slots to spare for copies of them."""
        stage = self.operators[operator]
        idle = not stage.waiting and not stage.suspects and len(stage.running) < stage.window.slots
        return idle and bool(stage.running) and self._upstream_done(operator)

    def copy(self, ticket: int, operator: int) -> bool:
        """Run a call that takes very long once more, elsewhere; the first of the two to end counts.

        Returns:
            False if it is not the time for that, or has been done.
        """
        stage = self.operators[operator]
        if not self.may_copy(operator) or ticket in stage.copies or ticket in stage.tried:
            return False
        copy = self._next_ticket
        self._start(operator, stage.running[ticket])
        stage.copies |= {ticket: copy, copy: ticket}
        return True

    def delivered(self, item: int) -> None:
        """The consumer has taken an item."""
        self._consumed(item, len(self.operators) - 1)
        self._instructions.append(Release((item,)))

    # What to do

    def advance(self) -> list[Instruction]:
        """What to do now; empty when there is nothing but waiting, or nothing at all (see `done`)."""
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
    def _parted(stage: OperatorState, ticket: int) -> int | None:
        """Forget that a call has a copy, or is one; which the other is."""
        other = stage.copies.pop(ticket, None)
        if other is not None:
            del stage.copies[other]
        return other

    def _add(self, split: int, nbytes: int) -> int:
        item = self._next_item
        self._next_item += 1
        self._items[item] = (split, nbytes)
        self._live[split] += 1
        return item

    def _consumed(self, item: int, made_by: int) -> None:
        split, nbytes = self._items.pop(item)
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
        if stage.suspects and not stage.tried and stage.window.slots:
            self._start(operator, *stage.suspects.popleft())
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

    def _start(self, operator: int, items: tuple[int, ...], deaths: int = 0) -> None:
        stage = self.operators[operator]
        ticket = self._next_ticket
        self._next_ticket += 1
        stage.running[ticket] = items
        if deaths:
            stage.tried[ticket] = deaths
        self._instructions.append(Submit(ticket, operator, items, deaths))

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
        held = len(first.waiting) + sum(map(len, first.running.values()))
        low = held <= first.window.low_water * each
        if low and first.window.slots and not self.exhausted and not self._pulling:
            self._pulling = True
            self._instructions.append(Pull(first.window.size * each - held))
