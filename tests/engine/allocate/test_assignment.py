"""From places on hosts to slots in processes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.resources import Resources
from dcurate.engine.allocate.allocation import Allocation, SlotLocation
from dcurate.engine.allocate.assignment import Assignment, SlotClaim, assign_slots
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec, WorkerState

CARD = ("gpu0", 80e9)


def alone(*names: str) -> list[SlotPoolSpec]:
    return [SlotPoolSpec((OperatorRequest(name, Resources()),), 1.0) for name in names]


def totals(seating: Assignment) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seats in seating.values():
        for operator, hold in seats.items():
            counts[operator] += hold.slots
    return counts


workers = st.lists(st.tuples(st.sampled_from("hg"), st.integers(1, 3)), min_size=1, max_size=8).map(
    lambda made: [WorkerState(f"w{place}", host, threads) for place, (host, threads) in enumerate(made)]
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[WorkerState], Allocation, Assignment]:
    views = draw(workers)
    places: Allocation = Counter()
    for host in "hg":
        free = sum(view.threads for view in views if view.host == host)
        for unit in "abc":
            slots = draw(st.integers(0, free))
            free -= slots
            places[SlotLocation(host, unit)] += slots
    held: Assignment = {}
    for view in views:
        unit = draw(st.sampled_from(["a", "b", "c", ""]))
        if unit:
            held[view.address] = {unit: SlotClaim(draw(st.integers(1, view.threads)))}
    return views, places, held


@given(situations())
def test_every_slot_has_a_seat_on_its_host_and_no_process_is_overfull(
    situation: tuple[list[WorkerState], Allocation, Assignment],
) -> None:
    views, places, held = situation
    seating = assign_slots(alone("a", "b", "c"), views, places, held)
    by_host: Counter[tuple[str, str]] = Counter()
    for view in views:
        seats = seating.get(view.address, {})
        assert sum(hold.slots for hold in seats.values()) <= view.threads
        for operator, hold in seats.items():
            by_host[view.host, operator] += hold.slots
    assert by_host == Counter({(place.host, place.unit): slots for place, slots in places.items() if slots})


@given(situations())
def test_what_is_seated_as_wanted_stays_where_it_is(
    situation: tuple[list[WorkerState], Allocation, Assignment],
) -> None:
    views, places, held = situation
    groups = alone("a", "b", "c")
    seating = assign_slots(groups, views, places, held)
    assert assign_slots(groups, views, places, seating) == seating


def test_one_thread_processes_hold_one_group() -> None:
    views = [WorkerState(f"w{place}", "h") for place in range(4)]
    seating = assign_slots(alone("a", "b"), views, Counter({SlotLocation("h", "a"): 3, SlotLocation("h", "b"): 1}), {})
    assert all(len(seats) == 1 for seats in seating.values())


def test_all_operators_of_a_shared_group_stand_in_each_of_its_processes() -> None:
    both = SlotPoolSpec(
        (OperatorRequest("read", Resources()), OperatorRequest("write", Resources(), num_workers=1)), 1.0
    )
    views = [WorkerState("w0", "h"), WorkerState("w1", "h")]
    seating = assign_slots([both], views, Counter({SlotLocation("h", both.name): 2}), {})
    assert totals(seating) == {"read": 2, "write": 1}


def test_a_slot_stands_in_a_process_of_its_card() -> None:
    views = [WorkerState("c", "h"), WorkerState("g", "h", 8, 0.0, (CARD,))]
    groups = [SlotPoolSpec((OperatorRequest("embed", Resources(gpus=0.5)),), 1.0), *alone("read")]
    seating = assign_slots(
        groups, views, Counter({SlotLocation("h", "embed", ("gpu0",)): 2, SlotLocation("h", "read"): 1}), {}
    )
    assert seating == {"g": {"embed": SlotClaim(2, ("gpu0",))}, "c": {"read": SlotClaim(1)}}


def test_a_process_that_must_change_cards_is_seated_anew() -> None:
    two = (("gpu0", 80e9), ("gpu1", 80e9))
    views = [WorkerState("g0", "h", 8, 0.0, two), WorkerState("g1", "h", 8, 0.0, two[::-1])]
    groups = [SlotPoolSpec((OperatorRequest("big", Resources(gpus=2)),), 1.0)]
    seating = assign_slots(
        groups,
        views,
        Counter({SlotLocation("h", "big", ("gpu0", "gpu1")): 1}),
        {"g1": {"big": SlotClaim(1, ("gpu1",))}},
    )
    assert seating == {"g0": {"big": SlotClaim(1, ("gpu0", "gpu1"))}}
