"""When to change the allocation, and when not to."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dcurate.engine.allocate.allocation import Allocation, Gpu, Host, SchedulingUnit, SlotLocation, count_slots
from dcurate.engine.allocate.capacity import Capacity, place_all
from dcurate.engine.allocate.decide import Decision, decide
from dcurate.engine.allocate.inputs import AllocatorInput, Measured


def host(name: str = "a", cpus: float = 16, gpus: int = 0) -> Host:
    return Host(name, cpus, tuple(Gpu(f"g{number}", 80e9) for number in range(gpus)))


def measured(name: str, seconds: float | None = 1.0, **more: object) -> Measured:
    """A unit that is known well, unless said otherwise."""
    requests: dict[str, Any] = {
        key: more.pop(key)
        for key in ("cpus", "gpus", "gpu_memory", "fixed", "fixed_per_host", "max_slots") & more.keys()
    }
    known: dict[str, Any] = {"samples": 1000, "cv": 0.1, "first_sample_at": 1.0, "setup_s": 0.0, "running": 1}
    if seconds is None:
        known |= {"samples": 0, "cv": 0.5, "first_sample_at": None, "setup_s": None}
    return Measured(SchedulingUnit(name, **requests), seconds, **{**known, **more})


def snapshot(
    hosts: Host | list[Host],
    units: list[Measured],
    ready: Allocation | None = None,
    setting_up: Allocation | None = None,
    now: float = 1000.0,
) -> AllocatorInput:
    hosts = [hosts] if isinstance(hosts, Host) else hosts
    return AllocatorInput(tuple(hosts), tuple(units), ready or Counter(), setting_up or Counter(), now)


def at(where: str = "a", **slots: int) -> Allocation:
    """So many CPU slots of units on a host."""
    return Counter({SlotLocation(where, name): number for name, number in slots.items()})


def reasons(decision: Decision) -> dict[str, str]:
    return {change.unit: change.reason for change in decision.changes}


# Starting blind


def test_a_cold_start_gives_every_unit_one_slot_and_pinned_ones_their_number() -> None:
    units = [measured("read", None), measured("model", None, gpus=1.0), measured("write", None, fixed=3)]
    decision = decide(snapshot(host(gpus=2), units, now=0.0))
    assert count_slots(decision.allocation) == {"read": 1, "model": 1, "write": 3}
    assert reasons(decision)["model"] == "model 0 -> 1 slots: to learn how long it takes"


def test_nothing_grows_while_a_unit_that_may_be_known_soon_is_not() -> None:
    units = [measured("read", 1.0, cached=True), measured("model", None, gpus=1.0, running=1)]
    ready = at(read=1) + Counter({SlotLocation("a", "model", ("g0",)): 1})
    assert decide(snapshot(host(gpus=2), units, ready)).changes == ()
    assert decide(snapshot(host(gpus=2), units, at(read=1), ready - at(read=1))).changes == ()


@pytest.mark.parametrize(
    ("known", "is_known"),
    [
        ({"samples": 3, "first_sample_at": 9.9}, True),
        ({"samples": 2, "first_sample_at": 9.5}, False),
        ({"samples": 1, "first_sample_at": 9.0}, True),
        ({"samples": 1, "first_sample_at": 9.1}, False),
        ({"samples": 0, "first_sample_at": None, "cached": True}, True),
        ({"samples": 0, "first_sample_at": None, "seconds": None, "elapsed": 31.0}, True),
        ({"samples": 0, "first_sample_at": None, "seconds": None, "elapsed": 29.0}, False),
    ],
)
def test_three_samples_are_known_or_one_after_a_second_or_remembered_ones_or_a_long_call(
    known: dict[str, Any], is_known: bool
) -> None:
    unit = replace(measured("read"), **known)
    grown = count_slots(decide(snapshot(host(cpus=4), [unit], at(read=1), now=10.0)).allocation)["read"] > 1
    assert unit.known(10.0) == is_known
    assert grown == is_known


def test_all_grow_to_the_optimum_as_soon_as_all_are_known() -> None:
    units = [measured("read", 0.25, samples=3), measured("score", 1.0, samples=3), measured("write", 0.5, samples=3)]
    decision = decide(snapshot(host(cpus=7), units, at(read=1, score=1, write=1)))
    assert count_slots(decision.allocation) == {"read": 1, "score": 4, "write": 2}
    assert decision.now == 1.0
    assert decision.expected == 4.0
    assert reasons(decision)["score"] == "score 1 -> 4 slots: bottleneck, +3 splits/s"


def test_growth_into_idle_room_does_not_ask_how_sure_the_estimates_are() -> None:
    units = [measured("read", 1.0, samples=3, cv=2.5, setup_s=60.0)]
    assert count_slots(decide(snapshot(host(cpus=4), units, at(read=1))).allocation) == {"read": 4}


def test_a_unit_without_anything_to_do_yet_does_not_hold_up_the_others() -> None:
    units = [measured("read", 1.0), measured("rare", None, running=0)]
    decision = decide(snapshot(host(cpus=8), units, at(read=1, rare=1)))
    assert count_slots(decision.allocation) == {"read": 7, "rare": 1}


def test_remembered_rates_make_the_first_decision_the_last() -> None:
    units = [
        measured("read", 0.25, samples=0, cached=True, first_sample_at=None, setup_s=None),
        measured("score", 1.0, samples=0, cached=True, first_sample_at=None, setup_s=60.0),
    ]
    decision = decide(snapshot(host(cpus=5), units, now=0.0))
    assert count_slots(decision.allocation) == {"read": 1, "score": 4}


# Shifting


def two(read: float, score: float, **more: object) -> list[Measured]:
    return [measured("read", read, setup_s=10.0, **more), measured("score", score, setup_s=10.0, **more)]


def test_slots_go_where_they_are_needed_when_rates_have_changed() -> None:
    decision = decide(snapshot(host(cpus=8), two(1.0, 3.0), at(read=6, score=2)))
    assert count_slots(decision.allocation) == {"read": 2, "score": 6}
    assert reasons(decision)["read"] == "read 6 -> 2 slots: gives capacity to score"


def test_what_tears_slots_down_must_gain_more_than_the_estimates_are_in_doubt() -> None:
    for samples, moved in ((1000, True), (3, False)):
        units = two(1.0, 1.3, samples=samples, cv=1.0)
        assert bool(decide(snapshot(host(cpus=8), units, at(read=4, score=4))).changes) is False
        units = two(1.0, 2.0, samples=samples, cv=1.0)
        assert bool(decide(snapshot(host(cpus=8), units, at(read=4, score=4))).changes) is moved


def test_a_gain_below_two_percent_tears_nothing_down() -> None:
    units = two(1.0, 1.02, samples=10**6)
    assert decide(snapshot(host(cpus=202), units, at(read=101, score=101))).changes == ()
    units = two(1.0, 1.08, samples=10**6)
    assert decide(snapshot(host(cpus=202), units, at(read=101, score=101))).changes != ()


def test_a_move_that_is_not_paid_back_before_the_end_is_not_made() -> None:
    for left, moves in ((6.0, False), (4000.0, True)):
        units = two(1.0, 3.0, left=left)
        assert bool(decide(snapshot(host(cpus=8), units, at(read=6, score=2))).changes) is moves


def test_nor_are_slots_set_up_that_would_be_ready_only_at_the_end() -> None:
    for left, grows in ((20.0, False), (200.0, True)):
        units = [measured("score", 1.0, setup_s=10.0, left=left)]
        assert bool(decide(snapshot(host(cpus=8), units, at(score=2))).changes) is grows


def test_of_a_run_of_unknown_length_as_much_is_expected_as_has_been() -> None:
    units = [replace(one, setup_s=100.0) for one in two(1.0, 1.5)]
    ready = at(read=5, score=5)
    assert decide(snapshot(host(cpus=10), units, ready, now=100.0)).changes == ()
    assert decide(snapshot(host(cpus=10), units, ready, now=2000.0)).changes != ()


def test_slots_that_are_being_set_up_are_left_alone() -> None:
    units = two(1.0, 3.0)
    assert decide(snapshot(host(cpus=8), units, at(read=2, score=2), at(read=4))).changes == ()
    ready = decide(snapshot(host(cpus=8), units, at(read=6, score=2)))
    assert count_slots(ready.allocation) == {"read": 2, "score": 6}


def test_a_bad_placement_is_repaired_when_that_pays() -> None:
    hosts = [host("a", 96, 8), host("b", 96, 8)]
    units = [measured("small", 5.0, gpus=0.5, setup_s=10.0), measured("wide", 10.0, gpus=4.0, cpus=4.0, setup_s=30.0)]
    ready = Counter(
        {
            SlotLocation("a", "small", ("g0",)): 1,
            SlotLocation("b", "small", ("g7",)): 1,
            SlotLocation("a", "wide", ("g4", "g5", "g6", "g7")): 1,
            SlotLocation("b", "wide", ("g0", "g1", "g2", "g3")): 1,
        }
    )
    repaired = decide(snapshot(hosts, units, ready))
    assert count_slots(repaired.allocation) == {"small": 2, "wide": 3}
    assert "1 of them elsewhere, so that others fit" in reasons(repaired)["small"]
    soon_over = [replace(one, left=3.0) for one in units]
    assert decide(snapshot(hosts, soon_over, ready)).changes == ()


# Spare room and the end


def test_idle_room_goes_to_cheap_units_up_to_their_slack_and_to_no_others() -> None:
    units = [
        measured("read", 1.0, cv=0.1),
        measured("parse", 1.0, cv=2.0, samples=10**6),
        measured("load", 1.0, setup_s=20.0),
        measured("model", 0.1, gpus=1.0, setup_s=60.0),
    ]
    ready = at(read=10, parse=10, load=10) + Counter({SlotLocation("a", "model", ("g0",)): 1})
    decision = decide(snapshot(host(cpus=200, gpus=1), units, ready))
    assert count_slots(decision.allocation) == {"read": 13, "parse": 18, "load": 10, "model": 1}
    assert reasons(decision)["read"].endswith("idle capacity, so that uneven durations do not hold others up")


def test_spare_slots_are_the_first_to_go() -> None:
    units = [measured("read", 1.0, cv=0.5, samples=3), measured("model", 1.0, setup_s=20.0, cv=0.5, samples=3)]
    decision = decide(snapshot(host(cpus=16), units, at(read=13, model=3)))
    assert count_slots(decision.allocation) == {"read": 8, "model": 8}


def test_a_unit_without_work_gives_its_slots_to_whoever_can_use_them() -> None:
    units = [measured("read", 1.0, finished=True, left=0.0), measured("score", 1.0, setup_s=1.0, left=400.0)]
    decision = decide(snapshot(host(cpus=8), units, at(read=4, score=4)))
    assert count_slots(decision.allocation) == {"score": 8}
    assert reasons(decision)["read"] == "read 4 -> 0 slots: nothing left to do"
    assert reasons(decision)["score"].startswith("score 4 -> 8 slots: bottleneck of what is left, done in 51 rather")


def test_a_unit_without_work_keeps_slots_that_nobody_can_use() -> None:
    units = [measured("read", 1.0, finished=True, left=0.0), measured("score", 1.0, gpus=1.0, left=400.0)]
    ready = at(read=4) + Counter({SlotLocation("a", "score", ("g0",)): 1})
    assert decide(snapshot(host(cpus=8, gpus=1), units, ready)).changes == ()


def test_slots_follow_the_work_that_is_left() -> None:
    units = [measured("read", 1.0, left=100.0), measured("score", 1.0, left=700.0)]
    assert count_slots(decide(snapshot(host(cpus=8), units, at(read=4, score=4))).allocation) == {"read": 1, "score": 7}


# What can happen to hosts


def test_what_stood_on_a_host_that_is_gone_is_made_up_for() -> None:
    units = [measured("read", 1.0), measured("score", 1.0)]
    decision = decide(snapshot(host("b", 4), units, at("a", read=2, score=1) + at("b", read=2)))
    assert count_slots(decision.allocation) == {"read": 2, "score": 2}
    assert all(place.host == "b" for place in decision.allocation)


def test_a_host_that_has_become_smaller_keeps_dear_slots_and_those_that_are_being_set_up() -> None:
    units = [measured("read", 1.0), measured("model", 8.0, setup_s=60.0)]
    small = snapshot(host(cpus=5), units, at(read=4, model=2), at(model=2))
    assert small.current == at(read=1, model=4)
    assert decide(small).allocation == at(read=1, model=4)


def test_a_unit_for_which_there_is_no_room_is_named() -> None:
    units = [measured("read", 1.0), measured("model", 1.0, gpus=1.0)]
    decision = decide(snapshot(host(gpus=0), units, at(read=1)))
    assert decision.infeasible is not None
    assert "model" in decision.infeasible
    assert decision.allocation[SlotLocation("a", "read")] == 1


def test_pinned_numbers_are_kept() -> None:
    units = [measured("read", 1.0, fixed=2), measured("score", 0.1), measured("each", 0.1, fixed_per_host=1)]
    decision = decide(snapshot([host("a"), host("b")], units, at(read=5, score=1)))
    assert count_slots(decision.allocation)["read"] == 2
    assert all(decision.allocation[SlotLocation(where, "each")] == 1 for where in "ab")
    restore = decide(snapshot([host("a"), host("b")], units, decision.allocation))
    assert restore.changes == ()


# For all snapshots


@st.composite
def snapshots(draw: st.DrawFn) -> AllocatorInput:
    """Any moment of any run: what stands need not be wise, but fits."""
    hosts = [
        host(f"h{number}", draw(st.sampled_from([2, 8, 24])), draw(st.integers(0, 4)))
        for number in range(draw(st.integers(1, 3)))
    ]
    units = []
    for number in range(draw(st.integers(1, 4))):
        known = draw(st.booleans())
        one = measured(
            f"u{number}",
            draw(st.sampled_from([0.01, 0.5, 1.0, 30.0])) if known else None,
            cpus=draw(st.sampled_from([0.5, 1.0, 2.0])),
            gpus=draw(st.sampled_from([0.0, 0.0, 0.25, 1.0, 2.0])),
            fixed=draw(st.sampled_from([None, None, None, 1])),
            max_slots=draw(st.sampled_from([None, None, 3])),
        )
        units.append(
            replace(
                one,
                samples=draw(st.sampled_from([1, 3, 1000])) if known else 0,
                cv=draw(st.sampled_from([0.0, 0.5, 2.5])),
                weight=draw(st.sampled_from([0.0, 0.1, 1.0, 20.0])),
                setup_s=draw(st.sampled_from([None, 0.0, 5.0, 60.0])),
                left=draw(st.sampled_from([None, 0.0, 5.0, 1e6])),
                running=draw(st.integers(0, 1)),
                finished=draw(st.sampled_from([False, False, False, True])),
            )
        )
    capacity = Capacity(hosts, [one.unit for one in units])
    for name in draw(st.lists(st.sampled_from([one.name for one in units]), max_size=30)):
        capacity.add(name)
    setting_up = Counter({place: draw(st.integers(0, slots)) for place, slots in capacity.taken.items()})
    return AllocatorInput(
        tuple(hosts), tuple(units), +(capacity.taken - setting_up), +setting_up, draw(st.sampled_from([1.0, 500.0]))
    )


@settings(max_examples=200, deadline=None)
@given(snapshots())
def test_what_is_decided_fits_and_leaves_alone_what_is_being_set_up(now: AllocatorInput) -> None:
    decision = decide(now)
    units = [one.unit for one in now.units]
    assert place_all(Capacity(now.hosts, units), decision.allocation) == decision.allocation
    counts = count_slots(decision.allocation)
    assert decision.infeasible or now.untouchable or all(counts.get(one.name) for one in now.units if not one.finished)
    assert not now.untouchable - decision.allocation


@st.composite
def full_hosts(draw: st.DrawFn) -> AllocatorInput:
    """A full host with units that are known well: decisions take slots away in two of three, in `snapshots` hardly."""
    slots = {name: draw(st.integers(1, 8)) for name in ("read", "score", "write")[: draw(st.integers(2, 3))]}
    units = [
        measured(name, draw(st.sampled_from([0.1, 0.5, 1.0, 9.0])), setup_s=draw(st.sampled_from([0.0, 5.0])))
        for name in slots
    ]
    return snapshot(host(cpus=sum(slots.values())), units, at("a", **slots))


class AllHeld(AllocatorInput):
    """A moment at which no slot may be taken away, costly or cheap."""

    @property
    def untouchable(self) -> Allocation:
        return self.current


@settings(max_examples=200, deadline=None)
@given(snapshots() | full_hosts())
def test_no_change_takes_an_untouchable_slot(now: AllocatorInput) -> None:
    held = AllHeld(now.hosts, now.units, now.ready, now.setting_up, now.now)
    assert not held.current - decide(held).allocation


class ReadersHeld(AllocatorInput):
    """A moment at which no slot of `read` may be taken away."""

    @property
    def untouchable(self) -> Allocation:
        return Counter({place: slots for place, slots in self.current.items() if place.unit == "read"})


@settings(max_examples=200, deadline=None)
@given(full_hosts())
def test_a_move_among_other_units_takes_no_untouchable_slot(now: AllocatorInput) -> None:
    held = ReadersHeld(now.hosts, now.units, now.ready, now.setting_up, now.now)
    assert not held.untouchable - decide(held).allocation


def test_a_cheap_slot_that_is_not_needed_goes_unless_it_is_untouchable() -> None:
    units = [measured("read", 0.1, setup_s=0.0), measured("a", 1.0, setup_s=5.0), measured("b", 0.25, setup_s=5.0)]
    now = snapshot(host(cpus=5), units, at(read=2, a=1, b=2))
    assert count_slots(decide(now).allocation)["read"] == 1
    held = ReadersHeld(now.hosts, now.units, now.ready, now.setting_up, now.now)
    assert count_slots(decide(held).allocation)["read"] == 2


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_whoever_decides_twice_decides_the_same(now: AllocatorInput) -> None:
    assume(not now.learning)
    first = decide(now)
    ready = first.allocation - now.setting_up
    done = replace(now, ready=ready, setting_up=first.allocation & now.setting_up, now=now.now + 0.1)
    assert decide(done, first).allocation == first.allocation
    assert decide(now).allocation == first.allocation


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_decisions_settle_while_nothing_changes(now: AllocatorInput) -> None:
    assume(not now.learning)
    decisions = [decide(now)]
    for _ in range(6):
        done = decisions[-1].allocation
        under_way = done & now.setting_up
        decisions.append(decide(replace(now, ready=done - under_way, setting_up=under_way)))
    assert decisions[-1].allocation == decisions[-2].allocation


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_reasons_are_given_for_all_that_changes(now: AllocatorInput) -> None:
    decision = decide(now)
    before, after = count_slots(now.current), count_slots(decision.allocation)
    changed = {name for name in {*before, *after} if before.get(name, 0) != after.get(name, 0)}
    assert changed <= {change.unit for change in decision.changes}
    for change in decision.changes:
        assert (change.before, change.after) == (before.get(change.unit, 0), after.get(change.unit, 0))
        assert change.reason.startswith(f"{change.unit} {change.before} -> {change.after} slots: ")


def test_a_moment_like_the_last_is_answered_without_solving_anything() -> None:
    units = [measured("read", 1.0, cv=0.5), measured("score", 1.0, cv=0.5)]
    first = decide(snapshot(host(cpus=9), units, at(read=1, score=1)))
    nearly = [replace(one, seconds=1.005, samples=1010) for one in units]
    restore = decide(snapshot(host(cpus=9), nearly, first.allocation), first)
    assert restore.basis is first.basis
    assert restore.changes == ()
    other = decide(snapshot(host(cpus=9), [units[0], replace(units[1], seconds=3.0)], first.allocation), first)
    assert other.basis is not first.basis


def test_it_looks_again_when_the_first_sample_has_stood_for_a_second() -> None:
    unit = replace(measured("read"), samples=1, first_sample_at=9.8)
    assert decide(snapshot(host(), [unit], at(read=1), now=10.7)).next_check_s == pytest.approx(0.1)
