"""Policies as pure functions of a view."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dcurate import Resources
from dcurate.cluster import Shape
from dcurate.engine.allocate.assignment import SlotClaim
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState
from dcurate.engine.dask.scheduler_plugin import wanted_workers
from dcurate.engine.policies.runner import PolicyRunner
from dcurate.engine.policies.view import Allocate, ScaleTo, Speculate, TaskView
from dcurate.policies import (
    Autoscaling,
    Balancing,
    OperatorView,
    Recycle,
    Recycling,
    RunView,
    Scale,
    SetSlots,
    Speculation,
    StallDetection,
    WorkerView,
)

LIMIT = 1_000_000


def operator(name: str = "read", **more: object) -> OperatorView:
    return replace(OperatorView(name, OperatorRequest(name, Resources())), **more)  # type: ignore[arg-type]


def worker(number: int = 0, **more: object) -> WorkerView:
    info = WorkerState(f"w{number}", "h", threads=4, cpus=4.0)
    return replace(WorkerView(info, {"read": SlotClaim(1)}, memory_limit=LIMIT), **more)  # type: ignore[arg-type]


def view(*workers: WorkerView, operators: tuple[OperatorView, ...] = (operator(),), **more: object) -> RunView:
    by_name, by_address = {one.name: one for one in operators}, {one.address: one for one in workers}
    return replace(RunView(100.0, operators=by_name, workers=by_address), **more)  # type: ignore[arg-type]


# Recycling


def test_an_old_process_is_recycled_unless_one_of_its_operator_was_a_short_time_ago() -> None:
    aged = operator(lifetime_m=1.0, restart_interval_m=0.5)
    (due,) = Recycling().run(view(worker(age_s=61.0), operators=(aged,)))
    assert due == Recycle("w0", "it has lived 1.02 minutes")
    assert not list(Recycling().run(view(worker(age_s=59.0), operators=(aged,))))
    for seconds, rested in ((29.0, False), (31.0, True)):
        one = replace(aged, recycled_s=seconds)
        assert bool(list(Recycling().run(view(worker(age_s=61.0), operators=(one,))))) is rested
    assert not list(Recycling().run(view(worker(age_s=61.0, recycling=True), operators=(aged,))))
    assert not list(Recycling().run(view(worker(age_s=61.0, claims={}), operators=(aged,))))


def test_a_process_that_stays_large_is_recycled_and_one_that_was_for_a_moment_is_not() -> None:
    large, small = 750_000, 700_000
    assert list(Recycling().run(view(worker(grown=(large,) * 4))))
    assert not list(Recycling().run(view(worker(grown=(large,) * 3))))
    assert not list(Recycling().run(view(worker(grown=(large, small, large, large)))))
    assert list(Recycling(checks=2).run(view(worker(grown=(large, small, large, large)))))
    assert list(Recycling(memory_share=0.7).run(view(worker(grown=(small,) * 4))))
    assert not list(Recycling().run(view(worker(grown=(large,) * 4, memory_limit=0))))


# Stalls


def test_a_run_is_stopped_when_all_workers_are_paused_and_idle() -> None:
    stuck, policy = worker(0, paused_s=121.0, memory=LIMIT), StallDetection()
    assert "(0.001 of 0.001 GB)" in next(policy.run(view(stuck))).error
    assert not list(policy.run(view(stuck, worker(1))))
    assert not list(policy.run(view(stuck, worker(1, paused_s=121.0, running=1))))
    assert not list(policy.run(view(stuck, worker(1, paused_s=119.0))))
    assert not list(policy.run(view(stuck, starting=1)))
    assert not list(policy.run(view()))


def test_a_run_is_stopped_when_there_have_been_no_workers_for_long() -> None:
    assert "no workers that answer for 600 seconds" in next(StallDetection().run(view(workerless_s=600.0))).error
    assert not list(StallDetection().run(view(workerless_s=599.0)))


WAITS = operator("read", waiting=3, wanted=0)


@pytest.mark.parametrize(
    ("more", "after_s"),
    [
        ({}, 120.0),
        ({"operators": (WAITS, operator("model", running=0, wanted=1, ready=1))}, 120.0),
        ({"operators": (operator("done", finished=True, wanted=0), WAITS), "sequential": True}, 120.0),
        ({"operators": (WAITS, operator("model", running=1, wanted=1, ready=1))}, None),
        ({"operators": (WAITS, operator("model", wanted=2, ready=1))}, None),
        ({"operators": (replace(WAITS, wanted=1),)}, None),
        ({"operators": (replace(WAITS, finished=True),)}, None),
        ({"operators": (replace(WAITS, waiting=0),)}, None),
        ({"operators": (operator("first", wanted=1, ready=1), WAITS), "sequential": True}, None),
        ({"starting": 1}, None),
        ({"kinds": {"gpu": Shape(gpus=1)}}, None),
        ({"operators": (replace(WAITS, request=OperatorRequest("read", Resources(gpus=1))),)}, 600.0),
    ],
)
def test_a_run_is_stopped_when_all_waits_for_an_operator_that_gets_no_slot(
    more: dict[str, Any], after_s: float | None
) -> None:
    policy, run = StallDetection(), view(worker(claims={}), **{"operators": (WAITS,)} | more)
    times = [100.0, 219.0, 220.0, 699.0, 700.0, 5000.0]
    stops = [time for time in times if list(policy.run(replace(run, time=time)))]
    assert stops == ([time for time in times if time - 100.0 >= after_s] if after_s else [])
    list(policy.run(view(worker(claims={}))))  # it goes on: what was waited before does not count
    assert not list(policy.run(replace(run, time=6000.0)))


@pytest.mark.parametrize(
    ("one", "request_", "why"),
    [
        (worker(claims={}), OperatorRequest("read", Resources()), "workers for it are there, so please report this"),
        (
            worker(claims={}),
            OperatorRequest("read", Resources(gpus=1)),
            "needs 1 GPU a slot, but the workers have none",
        ),
        (
            worker(claims={}, paused_s=1.0),
            OperatorRequest("read", Resources()),
            "as their memory is full; use a smaller",
        ),
    ],
)
def test_why_an_operator_has_no_slot_is_said(one: WorkerView, request_: OperatorRequest, why: str) -> None:
    policy, run = StallDetection(), view(one, worker(1, claims={}), operators=(replace(WAITS, request=request_),))
    list(policy.run(run))
    (stop,) = policy.run(replace(run, time=700.0))
    assert stop.error.startswith("operator 'read' has had no slot for 600 seconds, and the run waits for it: ")
    assert why in stop.error


# Speculation


def test_a_task_is_late_more_easily_where_durations_are_even() -> None:
    tasks = [TaskView(0, "read", 20.0, 6.0, 0.0), TaskView(1, "read", 20.0, 6.0, 0.5), TaskView(2, "read", 4.9, 0.1, 0)]
    assert list(Speculation().run(RunView(0.0, tasks=tuple(tasks)))) == [Speculate(0, "it takes 20 s and not 6")]
    assert len(list(Speculation(late_cv=0.0).run(RunView(0.0, tasks=tuple(tasks))))) == 2
    assert [one.task for one in Speculation(late_s=1.0).run(RunView(0.0, tasks=tuple(tasks)))] == [0, 2]


# Balancing


KNOWN = {"samples": 100, "cv": 0.1, "first_sample_at": 1.0, "setup_s": 5.0, "running": 1}
TWO = (operator("read", seconds=1.0, **KNOWN), operator("score", seconds=3.0, **KNOWN))


def slots(policy: Balancing, run: RunView) -> dict[str, int]:
    (found,) = [one for one in policy.run(run) if isinstance(one, Allocate)]
    claims = found.assignment["w0"]
    return {name: claim.slots for name, claim in claims.items()}


def test_slots_follow_rates_and_those_that_a_policy_sets() -> None:
    one = worker(claims={"read": SlotClaim(1), "score": SlotClaim(1)}, ready={"read": 1, "score": 1})
    run = view(one, operators=TWO)
    assert slots(Balancing(), run) == {"read": 1, "score": 3}
    assert slots(Balancing(), replace(run, pinned={"score": 1})) == {"read": 1, "score": 1}
    assert slots(Balancing(), replace(run, pinned={"score": 2})) == {"read": 1, "score": 2}
    grown = view(replace(one, claims={"read": SlotClaim(1), "score": SlotClaim(3)}), operators=TWO)
    assert slots(Balancing(), replace(grown, pinned={"score": 1}))["score"] == 1
    full = view(replace(one, claims={"read": SlotClaim(1), "score": SlotClaim(2)}), operators=TWO)
    for each in (run, full):  # as many as there is room for
        assert slots(Balancing(), replace(each, pinned={"score": 1000})) == {"read": 1, "score": 3}


def test_nothing_is_decided_again_while_nothing_happens() -> None:
    one = worker(claims={"read": SlotClaim(1), "score": SlotClaim(1)}, ready={"read": 1, "score": 1})
    policy, run = Balancing(), view(one, operators=TWO)
    assert len(list(policy.run(run))) == 2
    assert len(list(policy.run(replace(run, changed=False)))) == 1
    assert len(list(policy.run(replace(run, changed=False, pinned={"read": 1})))) == 2
    assert len(list(policy.run(replace(run, changed=False, pinned={"read": 1}, time=200.0)))) == 2


def test_a_worker_that_is_paused_for_long_gets_no_slots() -> None:
    run = view(worker(0, claims={}), worker(1, claims={}, paused_s=11.0))
    (found,) = [one for one in Balancing().run(run) if isinstance(one, Allocate)]
    assert set(found.assignment) == {"w0"}
    (found,) = [one for one in Balancing(pause_s=20.0).run(run) if isinstance(one, Allocate)]
    assert len(found.assignment) in (1, 2)


def test_slots_of_measured_operators_are_set_up_while_the_last_one_still_is() -> None:
    gpu, gpus = Resources(cpus=1, gpus=1), tuple((f"g{number}", 0.0) for number in range(8))
    asked = {name: OperatorRequest(name, gpu) for name in ("score", "embed", "model")}
    ready = {
        name: operator(name, request=asked[name], seconds=seconds, **KNOWN)
        for name, seconds in (("score", 4.0), ("embed", 1.0))
    }
    operators = (*ready.values(), operator("model", request=asked["model"]))
    hosts = [WorkerState(f"w{number}", "h", threads=1, cpus=8.0, gpus=gpus[number:]) for number in range(8)]
    workers = [WorkerView(info, {}) for info in hosts]
    for number, name in enumerate(asked):
        claims = {name: SlotClaim(1, (f"g{number}",))}
        workers[number] = replace(workers[number], claims=claims, ready={name: 1} if name in ready else {})
    policy, run = Balancing(), view(*workers, operators=operators)
    first, later = (
        next(one for one in policy.run(replace(run, time=time)) if isinstance(one, Allocate))
        for time in (100.0, 100.0 + 1.25 * KNOWN["setup_s"])
    )
    assert not first.changes
    assert [change.reason for change in later.changes] == [
        "score 1 -> 2 slots: needed beside model, which is still being set up",
        "model 1 -> 5 slots: idle GPUs, and it takes longest to set up",
    ]
    assert [change.after for change in later.changes] == [
        sum(claims[name].slots for claims in later.assignment.values() if name in claims) for name in ("score", "model")
    ]


def test_slots_that_a_paused_worker_loses_are_explained() -> None:
    claims = {"read": SlotClaim(1), "score": SlotClaim(1)}
    full = replace(worker(0, claims=claims, ready={"read": 1, "score": 1}), info=WorkerState("w0", "h", 2, cpus=2.0))
    paused = worker(1, claims={"score": SlotClaim(1)}, ready={"score": 1}, paused_s=11.0)
    (found,) = [one for one in Balancing().run(view(full, paused, operators=TWO)) if isinstance(one, Allocate)]
    assert set(found.assignment) == {"w0"}
    assert [change.reason for change in found.changes] == ["score 2 -> 1 slots: a worker that is paused keeps none"]


@pytest.mark.parametrize("shares", [False, True], ids=["alone", "with another in its slots"])
def test_an_operator_whose_first_call_takes_long_is_given_slots_before_it_ends(shares: bool) -> None:
    slow = operator("score", running=1, elapsed_s=40.0, setup_s=0.0, ready=1, wanted=1)
    fast = operator("read", seconds=20.0, **KNOWN | {"setup_s": 0.0})
    if shares:
        light = {"request": OperatorRequest("score", Resources(), cheap_setup=True)}
        others = operator(
            "write", request=OperatorRequest("write", Resources(), cheap_setup=True), seconds=1.0, **KNOWN
        )
        operators: tuple[OperatorView, ...] = (fast, replace(slow, **light), others)  # type: ignore[arg-type]
    else:
        operators = (fast, slow)
    claims = {one.name: SlotClaim(1) for one in operators}
    one = worker(claims=claims, ready=dict.fromkeys(claims, 1))
    one = replace(one, info=replace(one.info, threads=6, cpus=6.0))
    run = view(one, operators=operators)
    assert slots(Balancing(), run) == {name: 2 if name == "read" else 4 for name in claims}
    early = replace(run, operators={**run.operators, "score": replace(run.operators["score"], elapsed_s=29.0)})
    assert slots(Balancing(), early)["read"] == 1


@pytest.mark.parametrize("finished", [True, False])
def test_a_gpu_operator_takes_threads_of_its_process_from_a_cpu_operator_that_fills_it(finished: bool) -> None:
    reader = operator("a_reader", finished=finished, seconds=1.0, **KNOWN | {"running": int(not finished)})
    model = operator("model", request=OperatorRequest("model", Resources(gpus=1)), waiting=5)
    workers = [
        WorkerView(
            WorkerState(f"g{number}", "h", 2, 2.0, ((f"gpu{number}", 0.0),), "gpu"),
            {"a_reader": SlotClaim(2)},
            {"a_reader": 2},
        )
        for number in range(2)
    ]
    (found,) = [one for one in Balancing().run(view(*workers, operators=(reader, model))) if isinstance(one, Allocate)]
    held = [claims["model"] for claims in found.assignment.values() if "model" in claims]
    assert held
    assert all(sum(claim.slots for claim in claims.values()) <= 2 for claims in found.assignment.values())


# Autoscaling


def test_runs_that_are_not_measured_keep_the_workers_of_a_cluster_and_do_not_multiply_them() -> None:
    scheduler = SimpleNamespace(workers=dict.fromkeys("abcd"))

    def wanted(*asked: ScaleTo) -> int:
        runs = {
            str(number): SimpleNamespace(wanted_workers=lambda each=each: each) for number, each in enumerate(asked)
        }
        return wanted_workers(scheduler, runs)  # type: ignore[arg-type]

    new = ScaleTo(1, keeps_present=True)
    assert (wanted(), wanted(new), wanted(new, new), wanted(new, ScaleTo(6))) == (0, 4, 4, 7)
    assert wanted(ScaleTo(1), ScaleTo(1)) == 2


def test_a_cluster_is_asked_for_the_workers_that_a_run_needs_and_not_again_at_once() -> None:
    kinds = {"cpu": Shape(cpus=1, max_slots=1, maximum=8)}
    policy, run = Autoscaling(), view(operators=TWO, kinds=kinds)
    assert list(policy.run(run)) == [Scale("cpu", 2)]
    assert not list(policy.run(run))
    assert list(policy.run(replace(run, time=102.0)))
    assert not list(Autoscaling().run(replace(run, kinds={})))


def test_a_cluster_that_dask_scales_is_asked_for_as_many_workers_as_make_a_run_faster() -> None:
    def asked(operators: tuple[OperatorView, ...], workers: int, **more: object) -> int:
        claims = {one.name: SlotClaim(1) for one in operators}
        here = [
            WorkerView(WorkerState(f"w{number}", f"h{number}"), claims if not number else {})
            for number in range(workers)
        ]
        (found,) = Autoscaling().run(view(*here, operators=operators, asked=True, **more))
        assert isinstance(found, ScaleTo)
        assert found.keeps_present == any(not one.samples and not one.finished for one in operators)
        return found.workers

    slow, capped = TWO[1], replace(TWO[1], request=OperatorRequest("score", Resources(), max_workers=1))
    new = operator("score", request=capped.request, running=1)
    assert [asked((slow,), number) for number in (1, 2, 5)] == [2, 4, 10]
    assert [asked((capped,), number) for number in (1, 2, 5)] == [1, 1, 1]
    assert [asked((new,), number) for number in (1, 5)] == [1, 1]
    done = replace(slow, finished=True, running=0)
    assert asked((done,), 3, exhausted=True) == 0
    last = replace(slow, waiting=2, running=1)
    assert asked((last,), 3, exhausted=True) == 3  # a new worker would come too late
    assert asked((replace(slow, waiting=2000),), 3, exhausted=True) == 6
    assert not list(Autoscaling().run(view(operators=(slow,), asked=True)))
    assert not list(Autoscaling().run(view(worker(), operators=(slow,))))


# All together


class Two:
    def run(self, _view: RunView) -> list[SetSlots]:
        return [SetSlots("read", 2), SetSlots("read", 3)]


class Nothing:
    def run(self, _view: RunView) -> None:
        """Forget to yield."""


def test_what_policies_suggest_first_counts_and_a_built_in_one_can_be_replaced() -> None:
    other = Recycling(checks=1)
    runner = PolicyRunner([Two(), Nothing(), other], [Recycling(), StallDetection()])  # type: ignore[list-item]
    assert runner.built_in == [other, StallDetection()]
    outcome = runner.run(view(worker(grown=(LIMIT,))))
    assert outcome.slots["read"] == SetSlots("read", 2, "policy Two suggests it")
    assert set(outcome.recycle) == {"w0"}
    assert not outcome.error


def test_an_error_of_a_built_in_policy_asks_to_be_reported() -> None:
    class Broken:
        def run(self, _view: RunView) -> list[SetSlots]:
            raise ValueError("no")

    outcome = PolicyRunner([], [Broken()]).run(view())  # type: ignore[list-item]
    assert outcome.error == "policy Broken failed: ValueError: no; please report this"
