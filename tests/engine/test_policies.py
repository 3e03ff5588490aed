"""Policies of a user change what a real run does, and a bad one ends it with a sentence."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dcurate import DaskExecutor, LocalCluster, Pipeline, PipelineError, RunError, WorkerMetadata
from dcurate.engine.allocate import inputs
from dcurate.engine.dask import scheduler_plugin
from dcurate.events import Decided, Event, SlotsChanged, TaskDone, WorkerRecycled
from dcurate.policies import Notice, Recycle, RunView, SetSlots, Stop, Suggestion
from tests.stages import NotesCalls, Numbers, Sleep

pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class Pin:
    """Gives an operator some slots while another has batches to do."""

    operator: str
    slots: int
    other: str

    def run(self, view: RunView) -> Iterator[Suggestion]:
        if not view.operators[self.other].finished:
            yield SetSlots(self.operator, self.slots, f"{self.other} goes first")


@dataclass(frozen=True)
class RecycleAfter:
    """Restarts workers that have slots, or slots of one operator, after some seconds."""

    seconds: float
    operator: str | None = None

    def run(self, view: RunView) -> Iterator[Suggestion]:
        for worker in view.workers.values():
            if worker.age_s >= self.seconds and (self.operator in worker.slots if self.operator else worker.slots):
                yield Recycle(worker.address, "it is time")


@dataclass(frozen=True)
class StopWhenLong:
    """Ends the run when a call has taken some seconds and no call has ended."""

    operator: str
    seconds: float

    def run(self, view: RunView) -> Iterator[Suggestion]:
        one = view.operators[self.operator]
        if one.elapsed_s >= self.seconds and one.seconds is None and not one.samples:
            yield Stop(f"a call of {one.running} batches is long")


@dataclass(frozen=True)
class Bad:
    """Yields what makes no sense, and raises or stops as it is set up to."""

    how: str = ""
    given: Any = None

    def run(self, view: RunView) -> Iterator[Suggestion]:
        match self.how:
            case "raise":
                raise KeyError("nothing")
            case "stop":
                yield Stop("that is enough")
            case "hang":
                time.sleep(20)
            case "for ever":
                while True:
                    yield Notice("again")
        yield SetSlots("sloww", 2)
        yield SetSlots("slow", 1000)
        yield SetSlots("slow", 0)
        yield Recycle("tcp://nowhere")
        yield 3  # type: ignore[misc]


@dataclass
class Heard:
    """Events of a run."""

    events: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def most(self, operator: str) -> int:
        """The most slots that an operator ever had."""
        return max(one.total for one in self.events if isinstance(one, SlotsChanged) and one.operator == operator)


def run(cluster: LocalCluster, *policies: Any, splits: int = 60, seconds: float = 0.1) -> Heard:
    """Run a source that is quick and an operator that is slow."""
    heard, slow = Heard(), Sleep(seconds).with_(name="slow", batch_size=2)
    executor = DaskExecutor(cluster=cluster, policies=policies)
    batches = list(Pipeline("test", stages=[Numbers(splits, 1), slow]).run(executor, observers=[heard]))
    assert len(batches) == splits
    return heard


@pytest.fixture(scope="module")
def four() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=4, gpus=False) as cluster:
        yield cluster


def test_a_policy_pins_the_slots_of_an_operator(four: LocalCluster) -> None:
    assert run(four).most("slow") > 1
    pinned = run(four, Pin("slow", 1, other="slow"), splits=20)
    assert pinned.most("slow") == 1
    decided = [one for one in pinned.events if isinstance(one, Decided) and one.operator == "slow"]
    assert {one.after for one in decided} == {1}
    assert "slow 0 -> 1 slots: slow goes first" in [one.reason for one in decided]


def test_a_policy_recycles_workers(four: LocalCluster) -> None:
    heard = run(four, RecycleAfter(0.5), splits=100)
    recycled = [one for one in heard.events if isinstance(one, WorkerRecycled)]
    assert {one.reason for one in recycled} == {"it is time"}
    assert all(one.name.startswith("cpu-") for one in recycled)


@pytest.mark.parametrize("limit", ["max_workers_per_stage", "num_workers"])
def test_a_slot_of_a_limited_stage_that_moves_never_works_in_two_processes(
    four: LocalCluster, tmp_path: Path, limit: str
) -> None:
    slow = NotesCalls(str(tmp_path), 0.3).with_(num_workers=1 if limit == "num_workers" else None)
    settings = {limit: 1} if limit == "max_workers_per_stage" else {}
    executor = DaskExecutor(settings, four, policies=[RecycleAfter(3.0, "notes")])
    Pipeline("test", stages=[Numbers(24, 1), slow]).run(executor, observers=[])
    calls = sorted(json.loads(path.read_text()) for path in tmp_path.iterdir())
    assert len(calls) == 24
    assert len({process for _, _, process in calls}) > 1
    assert all(end <= start for (_, end, _), (start, _, _) in pairwise(calls))


def test_a_policy_sees_how_long_a_first_call_has_taken_for_each_batch(four: LocalCluster) -> None:
    with pytest.raises(RunError, match="a call of [24] batches is long"):
        run(four, Pin("slow", 1, other="slow"), StopWhenLong("slow", 0.5), splits=4, seconds=8.0)


class Loads(Sleep):
    """Is not set up for free, so that it gets no idle slots before it is measured."""

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        time.sleep(0.1)


def test_a_long_first_call_does_not_hold_operators_at_their_fewest_slots(
    four: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "LONG_S", 0.5)  # the scheduler is in this process
    heard = Heard()
    slow, first = Loads(5.0).with_(name="slow", batch_size=2), Loads(0.01).with_(name="first", batch_size=2)
    stages = [Numbers(6, 1), first, slow]
    list(Pipeline("test", stages=stages).run(DaskExecutor(cluster=four), observers=[heard]))
    ended = next(n for n, event in enumerate(heard.events) if isinstance(event, TaskDone) and event.operator == "slow")
    before = Heard(heard.events[:ended])
    assert before.most("slow") > 1


def test_suggestions_that_make_no_sense_are_ignored_with_a_notice_each(
    four: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dcurate"):
        run(four, Bad())
    said = [record.getMessage() for record in caplog.records if record.name == "dcurate.engine"]
    assert said[0] == "policy Bad: operator 'sloww' does not exist; did you mean 'slow'? SetSlots is ignored"
    assert "policy Bad: 0 slots are not a whole number, at least 1. SetSlots is ignored" in said
    assert "policy Bad: worker 'tcp://nowhere' does not exist. Recycle is ignored" in said
    assert "policy Bad: a policy yields SetSlots, Recycle, Scale, Stop, Notice or LookAgain. int is ignored" in said
    assert len(said) == len(set(said)) == 4


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("raise", "policy Bad failed: KeyError: 'nothing'; correct it, or run without it"),
        ("stop", "that is enough"),
        ("hang", "policy Bad has not ended after 1 seconds"),
        ("for ever", "policy Bad yields more than 100[0-9] suggestions at a time"),
    ],
)
@pytest.mark.timeout(60)
def test_a_policy_that_fails_or_stops_or_does_not_end_ends_the_run(
    four: LocalCluster, how: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_plugin, "POLICIES_S", 1)  # the scheduler is in this process
    with pytest.raises(RunError, match=sentence):
        run(four, Bad(how), splits=1000)


def test_what_is_not_a_policy_is_refused(four: LocalCluster) -> None:
    with pytest.raises(PipelineError, match=r"policies holds the class Bad; pass an instance of it: Bad\(\.\.\.\)"):
        DaskExecutor(policies=[Bad])  # type: ignore[list-item]
    with pytest.raises(PipelineError, match="policies holds 3, which is not a policy: it has no method run"):
        DaskExecutor(policies=[3])  # type: ignore[list-item]
    with pytest.raises(PipelineError, match="is not a list of policies"):
        DaskExecutor(policies=Bad())  # type: ignore[arg-type]
    with pytest.raises(
        PipelineError, match=r"policy Bad cannot be sent to the scheduler: its attribute 'given' \(lock"
    ):
        run(four, Bad(given=threading.Lock()))
