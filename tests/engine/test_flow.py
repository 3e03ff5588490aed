"""The state machine alone: no Dask, no time; Hypothesis plays the cluster."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.engine.flow import (
    SLOTS_PER_RETRY,
    SOURCE,
    Cancel,
    Emit,
    Flow,
    OutputRef,
    Pull,
    Release,
    SplitFinished,
    Task,
)

#: The only split of a small test.
SPLIT = OutputRef(SOURCE, 0, 0)


@dataclass
class World:
    """Answers a flow's instructions in random order and keeps score."""

    flow: Flow
    splits: int
    fans: list[list[int]]
    order: random.Random
    pulled: int = 0
    running: list[Task] = field(default_factory=list)
    origin: dict[OutputRef, tuple[int, ...]] = field(default_factory=dict)
    processed: Counter[tuple[int, tuple[int, ...]]] = field(default_factory=Counter)
    delivered: list[tuple[int, ...]] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    released: set[OutputRef] = field(default_factory=set)
    impatience: float = 0.0
    copied: int = 0
    peak_bytes: int = 0
    peak_calls: int = 0

    def play(self) -> None:
        for _ in range(20_000):
            instructions = self.flow.advance()
            if not instructions and self.flow.done:
                return
            for instruction in instructions:
                self.obey(instruction)
            held = sum(stage.output_bytes for stage in self.flow.operators)
            self.peak_bytes = max(self.peak_bytes, held)
            self.peak_calls = max(self.peak_calls, len(self.running))
            if not instructions:
                assert self.running, "the flow waits, but nothing runs: a deadlock"
                late = self.order.choice(self.running)
                if self.order.random() < self.impatience and self.flow.speculate(late.id, late.operator):
                    self.copied += 1
                    continue
                self.finish(self.running.pop(self.order.randrange(len(self.running))))
        raise AssertionError("the flow does not end")

    def obey(self, instruction: object) -> None:
        match instruction:
            case Pull(count):
                taken = min(count, self.splits - self.pulled)
                numbers = range(self.pulled, self.pulled + taken)
                self.pulled += taken
                items = self.flow.pulled([(number, 10) for number in numbers], self.pulled == self.splits)
                for item, number in zip(items, numbers, strict=True):
                    self.origin[item] = (number,)
            case Task():
                self.running.append(instruction)
            case Cancel(cancelled):
                assert not self.flow.is_running(cancelled, instruction.operator)
                self.running = [task for task in self.running if task.id != cancelled]
            case Emit(item):
                self.delivered.append(self.origin[item])
                self.flow.delivered(item)
            case Release(items):
                assert not self.released & set(items), "released twice"
                self.released |= set(items)
            case SplitFinished(split):
                self.finished.append(split)

    def finish(self, task: Task) -> None:
        sizes = []
        for item in task.inputs:
            self.processed[task.operator, self.origin[item]] += 1
            children = self.fans[task.operator][sum(self.origin[item]) % len(self.fans[task.operator])]
            sizes.append([100] * children)
        seconds = self.order.choice([0.001, 0.1, 3.0])
        self.flow.finished(task.id, task.operator, sizes, seconds)
        if task.operator < len(self.flow.operators) - 1 or self.flow.delivers:
            for place, (item, made) in enumerate(zip(task.inputs, sizes, strict=True)):
                for number in range(len(made)):
                    self.origin[OutputRef(task.id, place, number)] = (*self.origin[item], number)


worlds = {
    "splits": st.integers(0, 30),
    "operators": st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(0, 3), min_size=1, max_size=4)),
        min_size=1,
        max_size=4,
    ),
    "budget": st.sampled_from([0, 1, 150, 1000, 10**9]),
    "delivers": st.booleans(),
    "barrier": st.booleans(),
    "seed": st.integers(0, 2**16),
}


def play(
    splits: int, operators: list[tuple[int, int, list[int]]], budget: int, delivers: bool, barrier: bool, seed: int
) -> World:
    flow = Flow([size for size, _, _ in operators], budget, delivers, barrier)
    for number, (_, slots, _) in enumerate(operators):
        flow.set_slots(number, slots)
    world = World(flow, splits, [fan for _, _, fan in operators], random.Random(seed))
    world.play()
    return world


@settings(max_examples=400, deadline=None)
@given(**worlds)
def test_every_run_ends_and_loses_nothing(**setting: object) -> None:
    world = play(**setting)  # type: ignore[arg-type]
    assert sorted(world.finished) == list(range(world.splits))
    assert set(world.processed.values()) <= {1}
    assert sum(1 for operator, _ in world.processed if operator == 0) == world.splits
    assert world.released == set(world.origin)


def test_copies_of_late_calls_change_nothing() -> None:
    copied = 0
    for seed in range(60):
        worlds_of_two = []
        for impatience in (0.0, 0.9):
            flow = Flow([1, 2], 10**9, delivers=True)
            flow.set_slots(0, 3)
            flow.set_slots(1, 4)
            world = World(flow, 9, [[2, 1], [1]], random.Random(seed), impatience=impatience)
            world.play()
            worlds_of_two.append(world)
        patient, impatient = worlds_of_two
        assert patient.processed == impatient.processed
        assert sorted(patient.delivered) == sorted(impatient.delivered)
        assert sorted(impatient.finished) == list(range(9))
        copied += impatient.copied
    assert copied > 60


def test_a_call_whose_copy_runs_may_die_and_loses_nothing() -> None:
    flow = Flow([1], 10**9)
    flow.set_slots(0, 2)
    assert flow.advance() == [Pull(4)]
    flow.pulled([(0, 1)], exhausted=True)
    assert flow.advance() == [Task(0, 0, (SPLIT,))]
    assert flow.speculate(0, 0)
    assert not flow.speculate(0, 0)
    assert flow.advance() == [Task(1, 0, (SPLIT,))]
    flow.failed(0, 0)
    assert flow.advance() == []
    flow.finished(1, 0, [[]], 1.0)
    assert set(flow.advance()) == {SplitFinished(0), Release((SPLIT,))}
    assert flow.done


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100), st.integers(1, 120), st.randoms(use_true_random=False))
def test_tasks_of_dead_workers_run_again_a_few_at_a_time(slots: int, splits: int, order: random.Random) -> None:
    flow = Flow([1], 10**9)
    flow.set_slots(0, slots)
    at_once = max(1, slots // SLOTS_PER_RETRY)
    running: dict[int, Task] = {}
    flow.advance()
    flow.pulled([(number, 1) for number in range(splits)], exhausted=True)
    most = 0
    while not flow.done:
        running |= {task.id: task for task in flow.advance() if isinstance(task, Task)}
        retried = sum(task.deaths > 0 for task in running.values())
        most = max(most, retried)
        assert retried == flow.operators[0].retries <= at_once
        task = running.pop(order.choice([*running]))
        if task.deaths < 2 and order.random() < 0.8:
            flow.failed(task.id, 0)
        else:
            flow.finished(task.id, 0, [[] for _ in task.inputs], 1.0)
    assert flow.operators[0].retries == 0
    if splits > 100 and slots > 64:
        assert most == at_once


@settings(max_examples=150, deadline=None)
@given(**worlds)
def test_any_order_of_completion_gives_the_same_items(**setting: object) -> None:
    first = play(**setting)  # type: ignore[arg-type]
    second = play(**{**setting, "seed": setting["seed"] + 1})  # type: ignore[operator, arg-type]
    assert first.processed == second.processed
    assert sorted(first.delivered) == sorted(second.delivered)


@settings(max_examples=100, deadline=None)
@given(**{**worlds, "delivers": st.just(False), "barrier": st.just(True)})
def test_in_batch_mode_an_operator_waits_for_the_one_before(**setting: object) -> None:
    operators = setting["operators"]
    flow = Flow([size for size, _, _ in operators], 0, barrier=True)  # type: ignore[attr-defined]
    for number, (_, slots, _) in enumerate(operators):  # type: ignore[arg-type]
        flow.set_slots(number, slots)
    world = World(flow, setting["splits"], [fan for _, _, fan in operators], random.Random(0))  # type: ignore[arg-type, attr-defined]
    seen = []
    obey = world.obey

    def watch(instruction: object) -> None:
        if isinstance(instruction, Task):
            seen.append(instruction.operator)
        obey(instruction)

    world.obey = watch  # type: ignore[method-assign]
    world.play()
    assert seen == sorted(seen)


@pytest.mark.parametrize("splits", [100, 1000])
def test_bytes_between_operators_do_not_grow_with_the_input(splits: int) -> None:
    flow = Flow([1, 1], budget_bytes=5_000)
    flow.set_slots(0, 8)
    flow.set_slots(1, 1)
    world = World(flow, splits, [[1], [0]], random.Random(1))
    world.play()
    assert world.peak_bytes <= 5_000


def test_a_source_is_not_read_ahead_of_the_slots() -> None:
    flow = Flow([1], budget_bytes=10**9)
    flow.set_slots(0, 2)
    assert flow.advance() == [Pull(4)]


def test_a_call_of_several_batches_waits_until_it_is_full_or_no_more_can_come() -> None:
    flow = Flow([3], budget_bytes=10**9)
    flow.set_slots(0, 1)
    (pull,) = flow.advance()
    assert pull == Pull(6)
    flow.pulled([(0, 1), (1, 1)], exhausted=False)
    assert not any(isinstance(one, Task) for one in flow.advance())
    flow.pulled([(2, 1), (3, 1)], exhausted=True)
    assert [[ref.input for ref in one.inputs] for one in flow.advance() if isinstance(one, Task)] == [[0, 1, 2], [3]]


def calls_after(seconds: float, waiting: int, slots: int) -> list[int]:
    """Items in each call that follows one call of so many seconds."""
    flow = Flow([1], budget_bytes=10**9)
    flow.set_slots(0, slots)
    flow.advance()
    flow.pulled([(0, 1)], exhausted=False)
    (task,) = [one for one in flow.advance() if isinstance(one, Task)]
    flow.finished(task.id, 0, [[]], seconds)
    flow.advance()
    flow.pulled([(number, 1) for number in range(1, waiting + 1)], exhausted=True)
    return [len(one.inputs) for one in flow.advance() if isinstance(one, Task)]


def test_tiny_items_share_a_task_and_long_ones_do_not() -> None:
    assert calls_after(0.001, waiting=64, slots=1) == [16, 16, 16, 16]
    assert calls_after(10.0, waiting=2, slots=1) == [1, 1]


def test_tiny_items_are_still_spread_over_the_slots() -> None:
    assert max(calls_after(0.001, waiting=8, slots=4)) <= 2
