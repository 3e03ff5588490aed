"""What is free on hosts: never more than there is, and all of it can be had."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.allocate.allocation import Allocation, Gpu, Host, SchedulingUnit, SlotLocation, count_slots
from dcurate.engine.allocate.capacity import Capacity, grow, place_all, surplus_slots

HOST = Host("a", cpus=8, gpus=(Gpu("g0", 80e9), Gpu("g1", 80e9)))

units = st.lists(
    st.builds(
        SchedulingUnit,
        name=st.just("?"),
        cpus=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        gpus=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0, 2.0]),
        gpu_memory=st.sampled_from([0.0, 8e9, 30e9]),
        seconds=st.sampled_from([0.1, 1.0, 7.0]),
        max_slots=st.sampled_from([None, 1, 4]),
    ),
    min_size=1,
    max_size=4,
).map(lambda many: [SchedulingUnit(**{**one.__dict__, "name": f"u{number}"}) for number, one in enumerate(many)])
hosts = st.lists(st.tuples(st.integers(1, 16), st.integers(0, 4), st.integers(1, 20)), min_size=1, max_size=3).map(
    lambda many: [
        Host(f"h{number}", cpus, tuple(Gpu(f"g{gpu}", 80e9, max_slots) for gpu in range(gpus)), max_slots=2 * max_slots)
        for number, (cpus, gpus, max_slots) in enumerate(many)
    ]
)


def fits(hosts: list[Host], units: list[SchedulingUnit], allocation: Allocation) -> bool:
    """Counted anew, from the places alone."""
    by_name = {unit.name: unit for unit in units}
    for host in hosts:
        here = {location: slots for location, slots in allocation.items() if location.host == host.name}
        cpus = sum(by_name[location.unit].cpus * slots for location, slots in here.items())
        max_slots = sum(slots for location, slots in here.items() if not location.gpus)
        if cpus > host.cpus + 1e-6 or max_slots > host.max_slots:
            return False
        for gpu in host.gpus:
            on = {location: slots for location, slots in here.items() if gpu.name in location.gpus}
            share = sum(min(1.0, by_name[location.unit].gpus) * slots for location, slots in on.items())
            memory = sum(
                by_name[location.unit].gpu_memory / len(location.gpus) * slots for location, slots in on.items()
            )
            first = sum(slots for location, slots in on.items() if location.gpus[0] == gpu.name)
            if share > 1 + 1e-6 or memory > gpu.memory * (1 + 1e-6) or first > gpu.max_slots:
                return False
    return True


@given(hosts, units, st.data())
def test_whatever_is_laid_down_fits(hosts: list[Host], units: list[SchedulingUnit], data: st.DataObject) -> None:
    capacity = Capacity(hosts, units)
    for name in data.draw(st.lists(st.sampled_from([unit.name for unit in units]), max_size=40)):
        capacity.add(name)
    assert fits(hosts, units, capacity.taken)
    assert dict(capacity.counts) == count_slots(capacity.taken)


@given(hosts, units)
def test_what_fitted_once_fits_again_whatever_the_order(hosts: list[Host], units: list[SchedulingUnit]) -> None:
    capacity = Capacity(hosts, units)
    full = grow(capacity, units, {unit.name for unit in units})
    restore = place_all(Capacity(hosts, units), dict(reversed(full.items())))
    assert restore == full


@given(hosts, units)
def test_growing_ends_when_the_slowest_cannot_have_more(hosts: list[Host], units: list[SchedulingUnit]) -> None:
    capacity = Capacity(hosts, units)
    full = grow(capacity, units, {unit.name for unit in units})
    assert fits(hosts, units, full)
    slowest = min(units, key=lambda unit: unit.rate(capacity.counts[unit.name]))
    assert not capacity.add(slowest.name)


def test_growing_stops_at_the_slowest_that_may_not_grow() -> None:
    slow, fast = SchedulingUnit("slow", seconds=2.0), SchedulingUnit("fast", seconds=1.0)
    capacity = Capacity([HOST], [slow, fast])
    place_all(capacity, {SlotLocation("a", "slow"): 2, SlotLocation("a", "fast"): 1})
    assert count_slots(grow(capacity, [slow, fast], {"fast"})) == {"slow": 2, "fast": 1}
    assert count_slots(grow(capacity, [slow, fast], {"slow", "fast"})) == {"slow": 5, "fast": 3}


def test_the_first_group_is_kept_before_the_others() -> None:
    capacity = Capacity([HOST], [SchedulingUnit("dear", cpus=4), SchedulingUnit("cheap")])
    kept = place_all(
        capacity, {SlotLocation("a", "dear"): 1}, {SlotLocation("a", "cheap"): 9}, {SlotLocation("a", "dear"): 2}
    )
    assert kept == Counter({SlotLocation("a", "dear"): 1, SlotLocation("a", "cheap"): 4})


def test_places_on_hosts_or_cards_or_of_units_that_are_not_there_take_nothing() -> None:
    capacity = Capacity([HOST], [SchedulingUnit("model", gpus=0.5), SchedulingUnit("read")])
    for location in (
        SlotLocation("b", "read"),
        SlotLocation("a", "score"),
        SlotLocation("a", "model", ("g7",)),
        SlotLocation("a", "model"),
        SlotLocation("a", "read", ("g0",)),
    ):
        assert capacity.take(location) == 0
    assert capacity.taken == Counter()


def test_slots_of_whole_cards_need_empty_ones_of_one_host() -> None:
    capacity = Capacity([HOST], [SchedulingUnit("wide", gpus=2), SchedulingUnit("small", gpus=0.1)])
    assert capacity.add("small")
    assert not capacity.add("wide")
    capacity = Capacity([HOST], [SchedulingUnit("wide", gpus=2), SchedulingUnit("small", gpus=0.1)])
    assert capacity.add("wide")
    assert not capacity.add("small")


def test_a_card_that_is_taken_whole_has_no_room_for_slots_of_memory_only() -> None:
    capacity = Capacity([HOST], [SchedulingUnit("wide", gpus=2), SchedulingUnit("memory", gpu_memory=1e9)])
    assert capacity.add("wide")
    assert not capacity.add("memory")


def test_a_card_of_unknown_memory_is_not_held_to_it() -> None:
    host = Host("a", cpus=8, gpus=(Gpu("g0"),))
    capacity = Capacity([host], [SchedulingUnit("model", gpus=0.25, gpu_memory=50e9)])
    assert [capacity.add("model") for _ in range(5)] == [True, True, True, True, False]


def test_nobody_gets_more_than_is_allowed_or_pinned() -> None:
    capacity = Capacity(
        [HOST],
        [
            SchedulingUnit("most", max_slots=2),
            SchedulingUnit("fixed", fixed=1),
            SchedulingUnit("per host", fixed_per_host=1),
        ],
    )
    assert [capacity.add("most") for _ in range(3)] == [True, True, False]
    assert [capacity.add("fixed") for _ in range(2)] == [True, False]
    assert not capacity.add("per host")
    assert capacity.take(SlotLocation("a", "per host")) == 1


def test_excess_is_what_a_throughput_does_not_need_but_one_slot_is_always_needed_for_work() -> None:
    units = [
        SchedulingUnit("a", seconds=0.5),
        SchedulingUnit("b", seconds=1.0, weight=0.0),
        SchedulingUnit("c", seconds=1.0),
    ]
    allocation = {SlotLocation("h", "a"): 5, SlotLocation("h", "b"): 3, SlotLocation("h", "c"): 4}
    assert surplus_slots(units, allocation, 4.0) == {"a": 3, "b": 3}
    assert surplus_slots(units, allocation, 0.0) == {"a": 4, "b": 3, "c": 3}
    assert surplus_slots(units, allocation, float("inf")) == {"b": 3}
