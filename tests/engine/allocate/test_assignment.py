"""From places on hosts to slots in processes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.resources import Resources
from dcurate.engine.allocate.allocation import Place, Places
from dcurate.engine.allocate.assignment import Hold, Seating, seat
from dcurate.engine.allocate.requests import Demand, Group, WorkerView

CARD = ("gpu0", 80e9)


def alone(*names: str) -> list[Group]:
    return [Group((Demand(name, Resources()),), 1.0) for name in names]


def totals(seating: Seating) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seats in seating.values():
        for operator, hold in seats.items():
            counts[operator] += hold.slots
    return counts


workers = st.lists(st.tuples(st.sampled_from("hg"), st.integers(1, 3)), min_size=1, max_size=8).map(
    lambda made: [WorkerView(f"w{place}", host, threads) for place, (host, threads) in enumerate(made)]
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[WorkerView], Places, Seating]:
    views = draw(workers)
    places: Places = Counter()
    for host in "hg":
        free = sum(view.threads for view in views if view.host == host)
        for unit in "abc":
            slots = draw(st.integers(0, free))
            free -= slots
            places[Place(host, unit)] += slots
    held: Seating = {}
    for view in views:
        unit = draw(st.sampled_from(["a", "b", "c", ""]))
        if unit:
            held[view.address] = {unit: Hold(draw(st.integers(1, view.threads)))}
    return views, places, held


@given(situations())
def test_every_slot_has_a_seat_on_its_host_and_no_process_is_overfull(
    situation: tuple[list[WorkerView], Places, Seating],
) -> None:
    views, places, held = situation
    seating = seat(alone("a", "b", "c"), views, places, held)
    by_host: Counter[tuple[str, str]] = Counter()
    for view in views:
        seats = seating.get(view.address, {})
        assert sum(hold.slots for hold in seats.values()) <= view.threads
        for operator, hold in seats.items():
            by_host[view.host, operator] += hold.slots
    assert by_host == Counter({(place.host, place.unit): slots for place, slots in places.items() if slots})


@given(situations())
def test_what_is_seated_as_wanted_stays_where_it_is(situation: tuple[list[WorkerView], Places, Seating]) -> None:
    views, places, held = situation
    groups = alone("a", "b", "c")
    seating = seat(groups, views, places, held)
    assert seat(groups, views, places, seating) == seating


def test_one_thread_processes_hold_one_group() -> None:
    views = [WorkerView(f"w{place}", "h") for place in range(4)]
    seating = seat(alone("a", "b"), views, Counter({Place("h", "a"): 3, Place("h", "b"): 1}), {})
    assert all(len(seats) == 1 for seats in seating.values())


def test_all_operators_of_a_shared_group_stand_in_each_of_its_processes() -> None:
    both = Group((Demand("read", Resources()), Demand("write", Resources(), num_workers=1)), 1.0)
    views = [WorkerView("w0", "h"), WorkerView("w1", "h")]
    seating = seat([both], views, Counter({Place("h", both.name): 2}), {})
    assert totals(seating) == {"read": 2, "write": 1}


def test_a_slot_stands_in_a_process_of_its_card() -> None:
    views = [WorkerView("c", "h"), WorkerView("g", "h", 8, 0.0, (CARD,))]
    groups = [Group((Demand("embed", Resources(gpus=0.5)),), 1.0), *alone("read")]
    seating = seat(groups, views, Counter({Place("h", "embed", ("gpu0",)): 2, Place("h", "read"): 1}), {})
    assert seating == {"g": {"embed": Hold(2, ("gpu0",))}, "c": {"read": Hold(1)}}


def test_a_process_that_must_change_cards_is_seated_anew() -> None:
    two = (("gpu0", 80e9), ("gpu1", 80e9))
    views = [WorkerView("g0", "h", 8, 0.0, two), WorkerView("g1", "h", 8, 0.0, two[::-1])]
    groups = [Group((Demand("big", Resources(gpus=2)),), 1.0)]
    seating = seat(
        groups, views, Counter({Place("h", "big", ("gpu0", "gpu1")): 1}), {"g1": {"big": Hold(1, ("gpu1",))}}
    )
    assert seating == {"g0": {"big": Hold(1, ("gpu0", "gpu1"))}}
