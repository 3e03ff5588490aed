"""Carries out what the flow says: the loop that every executor shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dcurate.core.batch import Batch
from dcurate.engine.accounting import RunAccounting
from dcurate.engine.flow import Cancel, Emit, Flow, Pull, Release, SplitFinished, Submit


@dataclass(frozen=True)
class Completed:
    """A call is over: what `Outcome.summary` says of it."""

    ticket: int
    operator: int
    summary: dict[str, Any]


@dataclass(frozen=True)
class Died:
    """The worker that ran a call is gone; the call must be made again."""

    ticket: int
    operator: int


class Backend(Protocol):
    """What actually runs batches: this process, or a cluster."""

    def submit(self, calls: Sequence[tuple[Submit, list[Batch] | None]]) -> None:
        """Start calls; those of the first operator come with their splits, later ones name items by number."""

    def made(self, item: int, ticket: int, place: int, child: int) -> None:
        """An item is the ``child``-th batch that the call ``ticket`` made of its ``place``-th input."""

    def fetch(self, item: int) -> Batch:
        """The batch that an item stands for."""

    def release(self, items: Sequence[int]) -> None:
        """Nothing needs these items any more."""

    def give_up(self, ticket: int) -> None:
        """A call is not needed any more, whether it has ended or not."""

    def wait(self) -> list[Completed | Died]:
        """Block until something is done, or slots changed; raises what made a call fail."""


class DriverLoop:
    """Runs a flow to its end.

    Args:
        flow: says what to do.
        books: gives splits and counts what happened.
        hands: do it.
    """

    def __init__(self, flow: Flow, books: RunAccounting, hands: Backend) -> None:
        self.flow = flow
        self.books = books
        self.hands = hands
        self._splits: dict[int, Batch] = {}
        self._split_of: dict[int, int] = {}
        self._inputs: dict[int, tuple[int, ...]] = {}

    def run(self) -> Iterator[Batch]:
        """Yields the batches that go to the consumer as they come; ends when everything is done."""
        while True:
            self.books.sample(self.flow)
            instructions = self.flow.advance()
            if not instructions and self.flow.done:
                return
            calls: list[tuple[Submit, list[Batch] | None]] = []
            for instruction in instructions:
                if isinstance(instruction, Emit):
                    yield self.hands.fetch(instruction.item)
                    self.flow.delivered(instruction.item)
                elif isinstance(instruction, Submit):
                    calls.append((instruction, self._inputs_of(instruction)))
                else:
                    self._carry_out(instruction)
            if calls:
                self.hands.submit(calls)
            if not instructions:
                for ended in self.hands.wait():
                    if self.flow.is_running(ended.ticket, ended.operator):  # else a copy of it was sooner
                        self._take_in(ended)

    def _inputs_of(self, submit: Submit) -> list[Batch] | None:
        self._inputs[submit.ticket] = submit.items
        return None if submit.operator else [self._splits[item] for item in submit.items]

    def _carry_out(self, instruction: Pull | Cancel | Release | SplitFinished) -> None:
        match instruction:
            case Pull(count):
                self._pull(count)
            case Cancel(ticket):
                self._inputs.pop(ticket, None)
                self.hands.give_up(ticket)
            case Release(items):
                self.hands.release(items)
                for item in items:
                    self._splits.pop(item, None)
                    self._split_of.pop(item, None)
            case SplitFinished(number):
                self.books.split_finished(number)

    def _pull(self, count: int) -> None:
        taken, exhausted = self.books.next_splits(count)
        items = self.flow.pulled([(number, split.nbytes) for number, split in taken], exhausted)
        for item, (number, split) in zip(items, taken, strict=True):
            self._splits[item] = split
            self._split_of[item] = number

    def _take_in(self, done: Completed | Died) -> None:
        """Book a finished call and let the flow know what it made; or that it is to be made again."""
        if isinstance(done, Died):
            del self._inputs[done.ticket]
            self.books.repeats = True
            self.flow.failed(done.ticket, done.operator)
            return
        splits = [self._split_of[item] for item in self._inputs.pop(done.ticket)]
        made = self.flow.finished(done.ticket, done.operator, done.summary["sizes"], done.summary["seconds"])
        for place, (split, items) in enumerate(zip(splits, made, strict=True)):
            for child, item in enumerate(items):
                self._split_of[item] = split
                self.hands.made(item, done.ticket, place, child)
        self.books.task_done(done.operator, done.summary, splits)
