"""How slots fill hosts, and how a packing is searched for."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.layouts import (
    align_to_current,
    allocation_on,
    drop_surplus,
    host_classes,
    load_current,
    to_allocation,
)
from dcurate.engine.allocate.model import Bin, Bins, Layout, total_slots, whole
from dcurate.engine.allocate.packer import Packer
from dcurate.engine.allocate.packing_heuristics import HEURISTICS, SubsetSums

GB = 10**9

UNITS = (
    SchedulingUnit("light", 0.25),
    SchedulingUnit("heavy", 3.0),
    SchedulingUnit("tenth", 0.5, 0.1),
    SchedulingUnit("third", 1.0, 1 / 3, 20 * GB),
    SchedulingUnit("half", 1.0, 0.5, 36 * GB),
    SchedulingUnit("memory", 0.0, 0.0, 30 * GB),
    SchedulingUnit("one", 1.0, 1.0),
    SchedulingUnit("pair", 2.0, 2.0, 100 * GB),
)

hosts_of_all_kinds = st.lists(
    st.tuples(st.sampled_from([2.0, 4.0, 8.0]), st.integers(0, 4), st.sampled_from([0.0, 40.0, 80.0])),
    min_size=1,
    max_size=4,
).map(
    lambda shapes: [
        Host(f"h{number}", cpus, tuple(Gpu(f"gpu{gpu}", memory * GB) for gpu in range(gpus)))
        for number, (cpus, gpus, memory) in enumerate(shapes)
    ]
)
counts = st.lists(st.integers(0, 4), min_size=len(UNITS), max_size=len(UNITS))
few = st.lists(st.sampled_from([0, 0, 0, 0, 0, 1, 2]), min_size=len(UNITS), max_size=len(UNITS))
steps = st.lists(st.tuples(st.integers(0, len(UNITS) - 1), st.integers(1, 5)), max_size=8)
laws = settings(max_examples=80, deadline=None)


def empty(bins: Bins, hosts: Sequence[Host]) -> Layout:
    return {bins.empty(host_class): len(host_class.hosts) for host_class in host_classes(hosts)}


def filled(bins: Bins, one: Bin, steps: Sequence[tuple[int, int]]) -> Bin:
    for number, slots in steps:
        item = bins.items[number]
        one = bins.place(one, item, min(slots, bins.fits(one, item)))
    return one


def some_layout(bins: Bins, hosts: Sequence[Host], steps: Sequence[tuple[int, int]]) -> Layout:
    layout: Layout = {}
    for number, (one, count) in enumerate(empty(bins, hosts).items()):
        new = filled(bins, one, steps[number:])
        layout[new] = layout.get(new, 0) + count
    return layout


# Bins


def test_parts_that_are_not_exact_add_up_to_one() -> None:
    assert 10 * whole(0.1) == whole(1.0)
    assert 6 * whole(1 / 6) <= whole(1.0) < 7 * whole(1 / 6)


@laws
@given(hosts_of_all_kinds, steps)
def test_there_is_room_for_just_as_many_slots_as_fit(hosts: list[Host], steps: list[tuple[int, int]]) -> None:
    bins = Bins(UNITS)
    for one in some_layout(bins, hosts, steps):
        for item in bins.items:
            fits = bins.fits(one, item)
            full = bins.place(one, item, fits)
            assert bins.fits(full, item) == 0
            assert full.slots().get(item.unit, 0) == one.slots().get(item.unit, 0) + fits
            assert min(full.cpus, full.free_slots, *(min(gpu[:3]) for gpu in full.gpus), 0) == 0


@laws
@given(hosts_of_all_kinds, steps)
def test_slots_that_are_taken_away_and_put_back_leave_the_same_bin(
    hosts: list[Host], steps: list[tuple[int, int]]
) -> None:
    bins = Bins(UNITS)
    for one in some_layout(bins, hosts, steps):
        for unit, gpus, slots in one.groups():
            item = bins.items[unit]
            without = bins.put(one, item, gpus, -slots)
            assert bins.fits_at(without, item, gpus) >= slots
            assert bins.put(without, item, gpus, slots) is one


def test_slots_are_stacked_on_the_card_that_they_fill_best() -> None:
    bins = Bins(UNITS)
    one = bins.empty(host_classes([Host("h", 8, (Gpu("a"), Gpu("b"), Gpu("c")))])[0])
    half = bins.put(bins.put(one, bins.items[4], (0,)), bins.items[2], (1,))
    assert [gpu.share for gpu in bins.place(half, bins.items[4], 1).gpus] == [0, 900_000, 1_000_000]
    assert [gpu.share for gpu in bins.place(half, bins.items[2], 6).gpus] == [0, 800_000, 1_000_000]


def test_hosts_with_the_same_resources_are_one_model_whatever_their_order() -> None:
    hosts = [
        Host("a", 4, (Gpu("x", 8.0), Gpu("y", 4.0))),
        Host("b", 2),
        Host("c", 4, (Gpu("u", 4.0), Gpu("v", 8.0))),
    ]
    for order in itertools.permutations(hosts):
        assert [each.hosts for each in host_classes(order)] == [[("b", ())], [("a", ("y", "x")), ("c", ("u", "v"))]]


# From places and back


@laws
@given(hosts_of_all_kinds, steps)
def test_what_stands_is_told_as_it_stands(hosts: list[Host], steps: list[tuple[int, int]]) -> None:
    bins = Bins(UNITS)
    allocation = to_allocation(some_layout(bins, hosts, steps), UNITS)
    current_layout = load_current(bins, UNITS, host_classes(hosts), allocation)
    assert to_allocation(current_layout, UNITS) == allocation
    assert align_to_current(UNITS, some_layout(bins, hosts, steps), current_layout) == allocation


def test_hosts_that_are_filled_alike_stand_together_whichever_card_it_is() -> None:
    bins, hosts = Bins(UNITS), [Host(name, 4, (Gpu("0"), Gpu("1"))) for name in "abc"]
    allocation = {SlotLocation("a", "half", ("0",)): 1, SlotLocation("b", "half", ("1",)): 1}
    assert sorted(load_current(bins, UNITS, host_classes(hosts), allocation).values()) == [1, 2]


@laws
@given(hosts_of_all_kinds, steps, counts)
def test_trimming_leaves_just_as_many(hosts: list[Host], steps: list[tuple[int, int]], limits: list[int]) -> None:
    bins = Bins(UNITS)
    layout = some_layout(bins, hosts, steps)
    before, after = total_slots(layout, len(UNITS)), total_slots(drop_surplus(bins, layout, limits), len(UNITS))
    assert after == [min(slots, limit) for slots, limit in zip(before, limits, strict=True)]


def test_trimming_frees_cards_first() -> None:
    bins = Bins(UNITS)
    one = bins.empty(host_classes([Host("h", 8, (Gpu("a"), Gpu("b")))])[0])
    one = bins.put(bins.put(bins.put(one, bins.items[4], (0,)), bins.items[2], (0,)), bins.items[4], (1,))
    (after,) = drop_surplus(bins, {one: 1}, [None, None, None, None, 1, None, None, None])
    assert allocation_on(after, UNITS, "h", ("a", "b")) == Counter(
        {SlotLocation("h", "half", ("a",)): 1, SlotLocation("h", "tenth", ("a",)): 1}
    )


# Searching


@laws
@given(hosts_of_all_kinds, steps, few, st.booleans())
def test_a_packing_has_what_was_asked_and_moves_nothing(
    hosts: list[Host], steps: list[tuple[int, int]], need: list[int], hard: bool
) -> None:
    bins = Bins(UNITS)
    allocation = to_allocation(some_layout(bins, hosts, steps), UNITS)
    start = load_current(bins, UNITS, host_classes(hosts), allocation)
    packer = Packer(bins, start, 3000)
    packed = packer.pack_exhaustively(need)[0] if hard else packer.pack(need)
    assume(packed is not None)
    assert packed is not None
    before, after = total_slots(start, len(UNITS)), total_slots(packed, len(UNITS))
    assert [now - then for now, then in zip(after, before, strict=True)] == need
    assert allocation - to_allocation(packed, UNITS) == Counter()
    assert packer.passes_relaxation(need, start)


@laws
@given(hosts_of_all_kinds, counts)
def test_what_does_not_fit_is_counted(hosts: list[Host], need: list[int]) -> None:
    bins = Bins(UNITS)
    packer = Packer(bins, empty(bins, hosts))
    for layout, missing in packer.closest(need, len(HEURISTICS)):
        assert [
            placed + shortage for placed, shortage in zip(total_slots(layout, len(UNITS)), missing, strict=True)
        ] == need


#: What no greedy way packs.
HARD = pytest.mark.parametrize(
    ("units", "hosts", "need"),
    [
        ([(1, 0.0), (2, 1.0), (3, 0.25), (5, 0.0)], [(8, 1), (8, 2), (12, 2), (4, 1)], [6, 5, 2, 2]),
        ([(3, 0.0), (2, 0.3), (5, 0.0), (2, 0.0)], [(4, 1), (9, 0), (6, 0)], [2, 1, 1, 3]),
        ([(2, 0.7), (5, 0.0)], [(6, 2), (12, 2), (6, 2), (8, 0)], [3, 4]),
    ],
)


def hard(
    units: Sequence[tuple[float, float]], hosts: Sequence[tuple[float, int]], need: Sequence[int]
) -> tuple[Packer, list[int]]:
    bins = Bins([SchedulingUnit(f"u{number}", *unit) for number, unit in enumerate(units)])
    made = [Host(f"h{n}", cpus, tuple(map(Gpu, "abcd"[:gpus]))) for n, (cpus, gpus) in enumerate(hosts)]
    packer = Packer(bins, empty(bins, made))
    assert packer.pack(need, len(HEURISTICS)) is None
    return packer, list(need)


@HARD
def test_backtracking_finds_what_greedy_ways_miss(
    units: list[tuple[float, float]], hosts: list[tuple[float, int]], need: list[int]
) -> None:
    packer, need = hard(units, hosts, need)
    packed, certain = packer.backtrack(need, packer.start, 3000)
    assert packed is not None
    assert certain
    assert total_slots(packed, len(need)) == need


@HARD
def test_repair_finds_what_greedy_ways_miss(
    units: list[tuple[float, float]], hosts: list[tuple[float, int]], need: list[int]
) -> None:
    packer, need = hard(units, hosts, need)
    repaired = [packer.repair(layout, missing) for layout, missing in packer.closest(need, len(HEURISTICS))[:3]]
    packed = next(layout for layout in repaired if layout is not None)
    assert total_slots(packed, len(need)) == need


def test_backtracking_knows_what_cannot_be_packed() -> None:
    bins = Bins([SchedulingUnit("a", 2.0), SchedulingUnit("b", 3.0)])
    packer = Packer(bins, empty(bins, [Host("x", 4.0), Host("y", 4.0)]))
    assert packer.passes_relaxation([1, 2], packer.start)
    assert packer.backtrack([1, 2], packer.start, 100) == (None, True)
    assert packer.backtrack([1, 2], packer.start, 1) == (None, False)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(0, 60))
def test_gaps_are_what_no_sum_of_sizes_fills(sizes: list[int], amount: int) -> None:
    reachable = {0}
    for _ in range(amount):
        reachable |= {each + size for each in reachable for size in sizes if each + size <= amount}
    sums = SubsetSums([1, *sizes], 60, sizes)
    assert sums.remainder(amount) == amount - max(reachable)
