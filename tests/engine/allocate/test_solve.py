"""The balancer: optimal on small problems, and lawful on all."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dcurate.engine.allocate.allocation import (
    UNLIMITED,
    Allocation,
    Gpu,
    Host,
    SchedulingUnit,
    SlotLocation,
    count_slots,
    throughput,
)
from dcurate.engine.allocate.explain import explain_infeasible
from dcurate.engine.allocate.problem import bound
from dcurate.engine.allocate.solve import add_slack, solve, solve_in_place

GB = 1e9

#: Of what adds up in floats.
NEAR = 1e-6


def gpus(count: int, memory_gb: float = 0.0, max_slots: int = UNLIMITED) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"gpu{number}", memory_gb * GB, max_slots) for number in range(count))


def faults(units: Sequence[SchedulingUnit], hosts: Sequence[Host], allocation: Mapping[SlotLocation, int]) -> list[str]:
    """What is wrong with an allocation, counted slot by slot."""
    units_of, host_of = {unit.name: unit for unit in units}, {host.name: host for host in hosts}
    cpus: dict[str, float] = defaultdict(float)
    max_slots: Counter[object] = Counter()
    share: dict[object, float] = defaultdict(float)
    memory: dict[object, float] = defaultdict(float)
    on_card: Counter[object] = Counter()
    alone = []
    wrong = []
    for place, slots in allocation.items():
        unit = units_of[place.unit]
        cards = [(place.host, gpu) for gpu in place.gpus]
        if len(set(cards)) != (max(1, math.ceil(unit.gpus)) if unit.on_gpu else 0) or slots < 1:
            wrong.append(f"{slots} slots at {place}")
        cpus[place.host] += slots * unit.cpus
        max_slots[cards[0] if cards else place.host] += slots
        for gpu in cards:
            share[gpu] += slots * (1 if unit.gpus >= 1 else unit.gpus)
            memory[gpu] += slots * unit.gpu_memory / len(cards)
            on_card[gpu] += slots
            alone += [gpu] if unit.gpus >= 1 else []
    for name, host in host_of.items():
        wrong += [f"CPUs of {name}"] if cpus[name] > host.cpus + NEAR * sum(allocation.values()) else []
        wrong += [f"slots of {name}"] if max_slots[name] > host.max_slots else []
        for each in host.gpus:
            key = (name, each.name)
            wrong += [f"share of {key}"] if share[key] > 1 + NEAR * on_card[key] else []
            wrong += [f"memory of {key}"] if each.memory and memory[key] > each.memory + on_card[key] else []
            wrong += [f"slots of {key}"] if max_slots[key] > each.max_slots else []
    known = {(host.name, gpu.name) for host in hosts for gpu in host.gpus}
    wrong += [f"{gpu} is not there" for gpu in set(share) - known]
    wrong += [f"{host} is not there" for host in set(cpus) - set(host_of)]
    return wrong + [f"{gpu} is not whole" for gpu in alone if on_card[gpu] > 1]


def stays(before: Mapping[SlotLocation, int], after: Mapping[SlotLocation, int], unit: str) -> int:
    """Slots of a unit that are where they were."""
    return sum(min(slots, after.get(place, 0)) for place, slots in before.items() if place.unit == unit)


def moved(before: Mapping[SlotLocation, int], after: Allocation) -> int:
    """Slots that are somewhere else than before."""
    now = count_slots(after)
    return sum(min(n, now.get(unit, 0)) - stays(before, after, unit) for unit, n in count_slots(before).items())


# Problems of all kinds

times = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.7, 1.0, 1.7, 2.0, 3.5])

units_of_all_kinds = st.builds(
    lambda cpus, gpu, seconds, weight: SchedulingUnit("", cpus, *gpu, seconds, weight),  # type: ignore[call-arg]
    cpus=st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0]),
    gpu=st.sampled_from(
        [(0.0, 0.0)] * 6
        + [(0.1, 0.0), (0.25, 6 * GB), (0.3, 0.0), (0.4, 30 * GB), (0.5, 36 * GB), (0.7, 0.0), (0.0, 20 * GB)]
        + [(1.0, 0.0), (1.0, 70 * GB), (2.0, 0.0), (2.0, 150 * GB)]
    ),
    seconds=times,
    weight=st.sampled_from([0.0, 0.5, 1.0, 1.0, 1.0, 4.0]),
)
pinned_units = st.builds(
    lambda unit, fixed, per_host, max_slots: replace(unit, fixed=fixed, fixed_per_host=per_host, max_slots=max_slots),
    units_of_all_kinds,
    *(st.sampled_from([None] * 8 + [1, 2, 3]) for _ in range(3)),
)
some_hosts = st.builds(
    lambda cpus, cards, memory, max_slots, on_card: Host("", cpus, gpus(cards, memory, on_card), max_slots),
    cpus=st.sampled_from([1.0, 2.0, 4.0, 6.0]),
    cards=st.integers(0, 3),
    memory=st.sampled_from([0.0, 40.0, 80.0]),
    max_slots=st.sampled_from([2, 5, UNLIMITED]),
    on_card=st.sampled_from([1, 3, UNLIMITED]),
)


def named_units(kind: st.SearchStrategy[SchedulingUnit], most: int) -> st.SearchStrategy[list[SchedulingUnit]]:
    return st.lists(kind, min_size=1, max_size=most).map(
        lambda units: [replace(unit, name=f"u{number}") for number, unit in enumerate(units)]
    )


def named_hosts(most: int) -> st.SearchStrategy[list[Host]]:
    return st.lists(some_hosts, min_size=1, max_size=most).map(
        lambda hosts: [replace(host, name=f"h{number}") for number, host in enumerate(hosts)]
    )


some_units = named_units(pinned_units, 5)
laws = settings(max_examples=60, deadline=None)


def other_rates(units: Sequence[SchedulingUnit], seconds: Sequence[float]) -> list[SchedulingUnit]:
    return [replace(unit, seconds=seconds[number % len(seconds)]) for number, unit in enumerate(units)]


# What is optimal


def packs(units: Sequence[SchedulingUnit], hosts: Sequence[Host], need: Sequence[int]) -> bool:
    """Whether slots fit, found by trying every way to place them one by one. GPU slots are at most two cards wide."""
    line = [unit for unit, slots in zip(units, need, strict=True) for _ in range(slots)]
    line.sort(key=lambda unit: (-unit.gpus, -unit.gpu_memory, -unit.cpus, unit.name))
    start = tuple(
        (
            round(host.cpus * 4),
            host.max_slots,
            tuple((100, gpu.memory or math.inf, gpu.max_slots, 0) for gpu in host.gpus),
        )
        for host in hosts
    )

    @cache
    def fits(number: int, state: tuple[tuple[int, int, tuple[tuple[float, ...], ...]], ...]) -> bool:
        if number == len(line):
            return True
        unit, wide = line[number], math.ceil(line[number].gpus) if line[number].gpus >= 1 else 0
        for place, (cpus, max_slots, cards) in enumerate(state):
            left = cpus - round(unit.cpus * 4)
            options = []
            if left >= 0 and not unit.on_gpu and max_slots:
                options = [(max_slots - 1, cards)]
            elif left >= 0 and wide:
                free = [n for n, gpu in enumerate(cards) if not gpu[3] and gpu[1] * wide >= unit.gpu_memory]
                for first in free:
                    for pair in [(first,)] if wide == 1 else [(first, other) for other in free if other != first]:
                        if cards[first][2]:
                            gone = tuple((0, 0, 0, 1) if n in pair else gpu for n, gpu in enumerate(cards))
                            options.append((max_slots, gone))
            elif left >= 0 and unit.on_gpu:
                for n, (share, memory, free_seats, _) in enumerate(cards):
                    rest = (share - round(unit.gpus * 100), memory - unit.gpu_memory, free_seats - 1, 1)
                    if min(rest) >= 0:
                        options.append((max_slots, (*cards[:n], rest, *cards[n + 1 :])))
            for seats_left, cards_left in dict.fromkeys((s, tuple(sorted(c))) for s, c in options):
                new = (*state[:place], (left, seats_left, cards_left), *state[place + 1 :])
                if fits(number + 1, tuple(sorted(new))):
                    return True
        return False

    return fits(0, tuple(sorted(start)))


def best_throughput(units: Sequence[SchedulingUnit], hosts: Sequence[Host], fits: Callable[..., bool]) -> float | None:
    """The greatest throughput of which the least slots fit, going up candidate by candidate."""

    def need(rate: float) -> list[int]:
        return [max(int(unit.weight > 0), math.ceil(round(rate * unit.seconds * unit.weight, 9))) for unit in units]

    if not fits(units, hosts, need(0.0)):
        return None
    if not any(unit.weight for unit in units):
        return math.inf
    best = 0.0
    while True:
        works = [(unit.seconds * unit.weight) for unit in units if unit.weight]
        above = min((math.floor(round(best * work, 9)) + 1) / work for work in works)
        if not fits(units, hosts, need(above)):
            return best
        best = above


@settings(max_examples=120, deadline=None)
@given(named_units(units_of_all_kinds, 3), named_hosts(2))
def test_small_problems_are_solved_to_the_optimum(units: list[SchedulingUnit], hosts: list[Host]) -> None:
    assume(all(unit.cpus or unit.gpus for unit in units))
    hosts = [replace(host, gpus=host.gpus[:2] if len(hosts) > 1 else host.gpus) for host in hosts]
    solution, best = solve(units, hosts), best_throughput(units, hosts, packs)
    assert (solution is None) == (best is None)
    assert solution is None or solution.throughput == pytest.approx(best)


@pytest.mark.parametrize(
    ("units", "hosts", "counts"),
    [
        pytest.param(
            [SchedulingUnit(name, gpus=1, seconds=s) for name, s in (("a", 0.25), ("b", 1.0), ("c", 0.5))],
            [Host("h", 16, gpus(7))],
            {"a": 1, "b": 4, "c": 2},
            id="three stages on seven GPUs",
        ),
        pytest.param(
            [
                SchedulingUnit("demux", seconds=0.5),
                SchedulingUnit("transcode", 6, seconds=6.0),
                SchedulingUnit("infer", 3, 1, seconds=1.0),
                SchedulingUnit("write", 0.5, seconds=0.25),
            ],
            [Host("h", 64, gpus(8))],
            {"demux": 1, "transcode": 9, "infer": 2, "write": 1},
            id="GPUs must idle where CPUs are short",
        ),
        pytest.param(
            [
                SchedulingUnit("transcode", 5, seconds=4.0),
                SchedulingUnit("detect", 1, 0.25, 10 * GB, seconds=6.0),
                SchedulingUnit("embed", 1, 0.1, 8 * GB, seconds=5.0),
                SchedulingUnit("caption", 4, 4, 280 * GB, seconds=9.0),
                SchedulingUnit("encode", 1, 1, 20 * GB, seconds=2.4),
            ],
            [Host(f"big{n}", 96, gpus(8, 80)) for n in range(3)] + [Host(f"small{n}", 48, gpus(4, 80)) for n in (0, 1)],
            {"transcode": 4, "detect": 5, "embed": 4, "caption": 7, "encode": 2},
            id="four GPUs of one host stay free for a wide slot",
        ),
        pytest.param(
            [SchedulingUnit("a", 1, 0.3, seconds=4.0), SchedulingUnit("b", 1, 0.2, seconds=4.0)],
            [Host("h", 16, gpus(2))],
            {"a": 4, "b": 4},
            id="two of 0.3 and two of 0.2 fill a card, three of 0.3 do not",
        ),
        pytest.param(
            [
                SchedulingUnit("a", 3, seconds=48.0),
                SchedulingUnit("b", 2, seconds=14.0),
                SchedulingUnit("c", 4, 2, seconds=0.5),
            ],
            [Host(f"{n}", cpus, gpus(cards)) for n, (cpus, cards) in enumerate([(16, 0), (64, 8), (8, 1)] * 2)],
            {"a": 48, "b": 14, "c": 1},
            id="every core of six hosts is used",
        ),
        pytest.param(
            [SchedulingUnit("clips", seconds=0.5, weight=20.0), SchedulingUnit("write", seconds=1.0)],
            [Host("h", 11)],
            {"clips": 10, "write": 1},
            id="what comes of one split counts, not one item",
        ),
    ],
)
def test_known_problems_have_their_known_optimum(
    units: list[SchedulingUnit], hosts: list[Host], counts: dict[str, int]
) -> None:
    solution = solve(units, hosts)
    assert solution is not None
    assert solution.counts == counts
    assert faults(units, hosts, solution.allocation) == []


# Laws


def greedy(units: Sequence[SchedulingUnit], hosts: Sequence[Host]) -> float:
    """What one reaches who gives a slot to the slowest unit, wherever it fits first, until that fails."""
    allocation: Allocation = Counter()

    def place(unit: SchedulingUnit) -> bool:
        for host in hosts:
            wide = math.ceil(unit.gpus) if unit.gpus >= 1 else 1
            names = [gpu.name for gpu in host.gpus]
            options = [tuple(names[n : n + wide]) for n in range(len(names) - wide + 1)] if unit.on_gpu else [()]
            for cards in options:
                new = allocation + Counter({SlotLocation(host.name, unit.name, cards): 1})
                if not faults(units, hosts, new):
                    allocation.update({SlotLocation(host.name, unit.name, cards): 1})
                    return True
        return False

    if not all(place(unit) for unit in units if unit.weight):
        return 0.0
    for _ in range(60):
        slowest = min(units, key=lambda unit: unit.rate(count_slots(allocation).get(unit.name, 0)))
        if not place(slowest):
            break
    return throughput(units, count_slots(allocation))


@laws
@given(named_units(units_of_all_kinds, 5), named_hosts(4))
def test_no_simple_greedy_way_reaches_more(units: list[SchedulingUnit], hosts: list[Host]) -> None:
    solution, reached = solve(units, hosts), greedy(units, hosts)
    assert reached <= (solution.throughput if solution else 0.0) * (1 + NEAR) or not any(u.weight for u in units)


@laws
@given(some_units, named_hosts(4))
def test_every_solution_packs_and_keeps_to_limits(units: list[SchedulingUnit], hosts: list[Host]) -> None:
    solution = solve(units, hosts)
    assume(solution is not None)
    assert solution is not None
    assert faults(units, hosts, solution.allocation) == []
    assert solution.throughput == throughput(units, solution.counts) <= bound(units, hosts) * (1 + NEAR)
    for unit in units:
        slots = solution.counts.get(unit.name, 0)
        by_host: Counter[str] = Counter()
        for place, here in solution.allocation.items():
            by_host[place.host] += here if place.unit == unit.name else 0
        if unit.fixed_per_host is not None:
            assert max(by_host.values(), default=0) <= unit.fixed_per_host
        elif unit.fixed is not None:
            assert 1 <= slots <= unit.fixed
        else:
            assert slots <= (unit.max_slots or slots)
            assert (slots > 0) == (unit.weight > 0)


@laws
@given(some_units, named_hosts(4))
def test_there_are_no_more_slots_than_the_throughput_needs(units: list[SchedulingUnit], hosts: list[Host]) -> None:
    solution = solve(units, hosts)
    assume(solution is not None)
    assert solution is not None
    for unit in units:
        fewer = {**solution.counts, unit.name: solution.counts.get(unit.name, 0) - 1}
        if unit.fixed is None and unit.fixed_per_host is None and fewer[unit.name] > 0:
            assert throughput(units, fewer) < solution.throughput


@laws
@given(some_units, named_hosts(4), st.randoms(use_true_random=False))
def test_the_order_of_units_and_hosts_does_not_matter(
    units: list[SchedulingUnit], hosts: list[Host], chance: object
) -> None:
    before = solve(units, hosts)
    units, hosts = list(units), list(hosts)
    chance.shuffle(units)  # type: ignore[attr-defined]
    chance.shuffle(hosts)  # type: ignore[attr-defined]
    after = solve(units, hosts)
    assert (before and before.throughput) == (after and after.throughput)


@laws
@given(some_units, named_hosts(4))
def test_a_solution_that_stands_is_left_as_it_is(units: list[SchedulingUnit], hosts: list[Host]) -> None:
    solution = solve(units, hosts)
    assume(solution is not None)
    assert solution is not None
    restore = solve(units, hosts, solution.allocation)
    assert restore is not None
    assert restore.allocation == solution.allocation
    in_place = solve_in_place(units, hosts, solution.allocation)
    assert in_place is not None
    assert in_place.throughput >= solution.throughput
    assert solution.allocation - in_place.allocation == Counter()


@laws
@given(some_units, named_hosts(4), st.lists(times, min_size=2, max_size=5))
def test_after_other_rates_the_optimum_is_reached_from_what_stands(
    units: list[SchedulingUnit], hosts: list[Host], seconds: list[float]
) -> None:
    stands = solve(other_rates(units, seconds), hosts)
    fresh = solve(units, hosts)
    assume(stands is not None and fresh is not None)
    assert stands is not None
    assert fresh is not None
    after = solve(units, hosts, stands.allocation)
    assert after is not None
    assert faults(units, hosts, after.allocation) == []
    assert after.throughput >= max(fresh.throughput, throughput(units, stands.counts)) * (1 - NEAR)


@laws
@given(some_units, named_hosts(4), st.lists(times, min_size=2, max_size=5))
def test_in_place_nothing_moves_and_only_what_is_in_the_way_goes(
    units: list[SchedulingUnit], hosts: list[Host], seconds: list[float]
) -> None:
    stands = solve(other_rates(units, seconds), hosts)
    assume(stands is not None)
    assert stands is not None
    filled = add_slack(units, hosts, stands.allocation, 3.0, [unit.name for unit in units])
    after = solve_in_place(units, hosts, filled)
    assert after is not None
    assert faults(units, hosts, after.allocation) == []
    assert after.throughput >= throughput(units, count_slots(filled)) * (1 - NEAR)
    assert moved(filled, after.allocation) == 0
    for place in filled - after.allocation:
        assert faults(units, hosts, after.allocation + Counter({place: 1}))


@laws
@given(some_units, named_hosts(4), st.lists(st.booleans(), min_size=5, max_size=5), st.sampled_from([1.0, 1.3, 4.0]))
def test_spare_room_goes_to_those_named_up_to_the_slack(
    units: list[SchedulingUnit], hosts: list[Host], chosen: list[bool], slack: float
) -> None:
    solution = solve(units, hosts)
    assume(solution is not None and math.isfinite(solution.throughput))
    assert solution is not None
    only = [unit.name for unit, named in zip(units, chosen, strict=False) if named]
    after = add_slack(units, hosts, solution.allocation, slack, only)
    assert faults(units, hosts, after) == []
    assert solution.allocation - after == Counter()
    enough = solution.throughput * slack
    for unit in units:
        slots, before = count_slots(after).get(unit.name, 0), solution.counts.get(unit.name, 0)
        assert slots == before or unit.name in only
        assert slots == before or unit.rate(slots - 1) < enough * (1 + NEAR)
        assert slots == before or slots <= (unit.max_slots or slots)


@laws
@given(some_units, named_hosts(3))
def test_a_shortfall_is_told_exactly_where_there_is_no_solution(units: list[SchedulingUnit], hosts: list[Host]) -> None:
    lack = explain_infeasible(units, hosts)
    assert (lack is None) == (solve(units, hosts) is not None)
    assert lack is None or any(lack.startswith(f"operator '{unit.name}' ") for unit in units)


# What counts


def slots(
    units: Sequence[SchedulingUnit], hosts: Sequence[Host], current: Mapping[SlotLocation, int] | None = None
) -> dict[str, int]:
    solution = solve(units, hosts, current)
    assert solution is not None
    assert faults(units, hosts, solution.allocation) == []
    return solution.counts


def test_ten_tenths_and_three_thirds_fit_one_card() -> None:
    assert slots([SchedulingUnit("a", 0.1, 0.1)], [Host("h", 1, gpus(1))]) == {"a": 10}
    assert slots([SchedulingUnit("a", 1 / 3, 1 / 3)], [Host("h", 1, gpus(1))]) == {"a": 3}


def test_memory_binds_where_it_is_known() -> None:
    unit = SchedulingUnit("a", 0, 0.25, 30 * GB)
    assert slots([unit], [Host("h", 8, gpus(1, 80))]) == {"a": 2}
    assert slots([unit], [Host("h", 8, gpus(1))]) == {"a": 4}


def test_a_slot_may_take_memory_only_but_no_part_of_a_card_that_is_taken_whole() -> None:
    hosts = [Host("h", 16, gpus(2, 80))]
    assert slots([SchedulingUnit("a", 0, 0, 20 * GB)], hosts) == {"a": 8}
    assert slots([SchedulingUnit("a", 0, 0, 20 * GB), SchedulingUnit("b", 0, 1, 10 * GB, seconds=0.1)], hosts) == {
        "a": 4,
        "b": 1,
    }


def test_a_wide_slot_takes_cards_of_one_host_and_spreads_its_memory() -> None:
    unit = SchedulingUnit("a", 1, 2, 150 * GB)
    assert slots([unit], [Host("h", 8, gpus(5, 80)), Host("g", 8, gpus(1, 80))]) == {"a": 2}
    assert explain_infeasible([unit], [Host("h", 8, gpus(5, 70))])


def test_a_wide_slot_needs_one_seat_on_the_first_of_its_cards() -> None:
    cards = (Gpu("a", max_slots=0), Gpu("b", max_slots=1), Gpu("c", max_slots=0))
    solution = solve([SchedulingUnit("u", 1, 2)], [Host("h", 8, cards)])
    assert solution is not None
    assert [place.gpus[0] for place in solution.allocation] == ["b"]


def test_seats_limit_what_processes_can_run() -> None:
    assert slots([SchedulingUnit("a", 0.5)], [Host("h", 8, max_slots=3)]) == {"a": 3}
    assert slots([SchedulingUnit("a", 0, 0.1)], [Host("h", 8, gpus(2, max_slots=3), max_slots=0)]) == {"a": 6}


def test_slots_without_cpus_are_limited_by_seats_alone() -> None:
    assert slots([SchedulingUnit("a", 0), SchedulingUnit("b", 0, seconds=3.0)], [Host("h", 2, max_slots=8)]) == {
        "a": 2,
        "b": 6,
    }


def test_a_unit_that_has_nothing_left_to_do_gives_its_slots_up() -> None:
    units = [SchedulingUnit("done", weight=0.0), SchedulingUnit("busy")]
    before = {SlotLocation("h", "done"): 2, SlotLocation("h", "busy"): 2}
    assert slots(units, [Host("h", 4)], before) == {"busy": 4}
    in_place = solve_in_place(units, [Host("h", 4)], before)
    assert in_place is not None
    assert in_place.counts == {"busy": 4}


def test_pinned_slots_come_first_on_every_host_that_can_hold_them() -> None:
    units = [SchedulingUnit("pinned", 2, fixed_per_host=2, seconds=0.1), SchedulingUnit("other")]
    solution = solve(units, [Host("a", 8), Host("b", 4), Host("c", 3)])
    assert solution is not None
    assert {place.host: slots for place, slots in solution.allocation.items() if place.unit == "pinned"} == {
        "a": 2,
        "b": 2,
    }
    assert solution.counts["other"] == 7


def test_of_pinned_slots_there_are_as_many_as_leave_room_for_one_of_each() -> None:
    hosts = [Host("h", 4)]
    assert slots([SchedulingUnit("pinned", fixed=9)], hosts) == {"pinned": 4}
    assert slots([SchedulingUnit("pinned", fixed=9), SchedulingUnit("other")], hosts) == {"pinned": 3, "other": 1}
    assert slots([SchedulingUnit("pinned", fixed_per_host=8), SchedulingUnit("other")], hosts) == {
        "pinned": 3,
        "other": 1,
    }
    assert slots([SchedulingUnit("six", fixed=6), SchedulingUnit("two", fixed=2)], hosts) == {"six": 3, "two": 1}


def test_pinned_slots_that_cannot_be_added_in_place_are_done_without() -> None:
    units = [SchedulingUnit("wide", gpus=2, fixed=2), SchedulingUnit("half", gpus=0.5, fixed=2)]
    hosts = [Host("a", 8, gpus(2)), Host("b", 8, gpus(2)), Host("c", 8, gpus(1))]
    before = {
        SlotLocation("a", "wide", ("gpu0", "gpu1")): 1,
        SlotLocation("b", "half", ("gpu0",)): 1,
        SlotLocation("c", "half", ("gpu0",)): 1,
    }
    assert slots(units, hosts, before) == {"wide": 2, "half": 2}
    in_place = solve_in_place(units, hosts, before)
    assert in_place is not None
    assert in_place.allocation == before


def test_limits_bound_the_throughput() -> None:
    assert slots([SchedulingUnit("a", max_slots=2), SchedulingUnit("b", seconds=2.0)], [Host("h", 32)]) == {
        "a": 2,
        "b": 4,
    }
    assert slots([SchedulingUnit("a", fixed=3), SchedulingUnit("b", seconds=2.0)], [Host("h", 32)]) == {"a": 3, "b": 6}
    assert bound([SchedulingUnit("a", max_slots=2), SchedulingUnit("b", seconds=2.0)], [Host("h", 32)]) == 2.0


def test_nothing_to_do_has_no_limit() -> None:
    solution = solve([SchedulingUnit("a", weight=0.0, fixed=2)], [Host("h", 4)])
    assert solution is not None
    assert (solution.counts, solution.throughput, solution.bound) == ({"a": 2}, math.inf, math.inf)
    assert solve([], []) is not None


# From what stands


def test_places_that_are_gone_do_not_count() -> None:
    units = [SchedulingUnit("a", gpus=1), SchedulingUnit("b")]
    gone = {
        SlotLocation("lost", "a", ("gpu0",)): 1,
        SlotLocation("h", "a", ("gpu7",)): 1,
        SlotLocation("h", "a"): 3,
        SlotLocation("h", "unknown"): 4,
        SlotLocation("h", "b"): 99,
        SlotLocation("h", "b", ("gpu0",)): 1,
    }
    solution = solve(units, [Host("h", 4, gpus(2))], gone)
    in_place = solve_in_place(units, [Host("h", 4, gpus(2))], gone)
    assert solution is not None
    assert solution.counts == {"a": 2, "b": 2}
    assert in_place is not None
    assert faults(units, [Host("h", 4, gpus(2))], in_place.allocation) == []


def test_an_answer_is_laid_over_equal_hosts_and_cards_as_they_stand() -> None:
    hosts = [Host(name, 4, gpus(4)) for name in "abcd"]
    units = [
        SchedulingUnit("wide", 1, 2, seconds=3.0),
        SchedulingUnit("half", 0.5, 0.5, seconds=3.0),
        SchedulingUnit("read", seconds=0.5),
    ]
    solution = solve(units, hosts)
    assert solution is not None
    name = {"a": "c", "b": "a", "c": "d", "d": "b", "gpu0": "gpu3", "gpu1": "gpu0", "gpu2": "gpu1", "gpu3": "gpu2"}
    elsewhere = {
        SlotLocation(name[place.host], place.unit, tuple(name[gpu] for gpu in place.gpus)): slots
        for place, slots in solution.allocation.items()
    }
    after = solve(units, hosts, elsewhere)
    assert after is not None
    assert after.allocation == elsewhere


def test_one_slot_moves_where_that_is_enough() -> None:
    hosts = [Host("a", 8, gpus(2)), Host("b", 8, gpus(2))]
    units = [SchedulingUnit("wide", 1, 2, seconds=1.0), SchedulingUnit("half", 1, 0.5, seconds=0.5)]
    before = {SlotLocation("a", "half", ("gpu0",)): 1, SlotLocation("b", "half", ("gpu0",)): 1}
    units[1] = replace(units[1], seconds=2.0)
    after = solve(units, hosts, before)
    assert after is not None
    assert after.counts == {"wide": 1, "half": 2}
    assert moved(before, after.allocation) == 1
    in_place = solve_in_place(units, hosts, before)
    assert in_place is not None
    assert in_place.throughput < after.throughput


def test_of_what_is_not_needed_that_goes_which_makes_room() -> None:
    units = [SchedulingUnit("much", 0, 0.5, seconds=0.1), SchedulingUnit("kept", 0, 0.5), SchedulingUnit("wide", 0, 2)]
    cards = ("gpu0", "gpu1", "gpu2", "gpu3")
    before = Counter({SlotLocation("h", "much", (gpu,)): 1 for gpu in cards})
    before += Counter({SlotLocation("h", "kept", (gpu,)): 1 for gpu in cards[:2]})
    after = solve_in_place(units, [Host("h", 1, gpus(4))], before)
    assert after is not None
    assert after.counts == {"much": 2, "kept": 2, "wide": 1}
    assert moved(before, after.allocation) == 0


def test_many_hosts_that_are_alike_are_solved_close_to_the_bound() -> None:
    units = [
        SchedulingUnit("read", seconds=0.3),
        SchedulingUnit("embed", 1, 0.25, 6 * GB, seconds=0.5),
        SchedulingUnit("caption", 2, 0.5, 36 * GB, seconds=2.0),
        SchedulingUnit("judge", 4, 4, 280 * GB, seconds=2.2),
    ]
    hosts = [Host(f"h{number}", 64, gpus(8, 80)) for number in range(200)]
    solution = solve(units, hosts)
    assert solution is not None
    assert solution.throughput > 0.995 * solution.bound
    assert faults(units, hosts, solution.allocation) == []
    restore = solve(units, hosts, solution.allocation)
    assert restore is not None
    assert restore.allocation == solution.allocation


# What is lacking


@pytest.mark.parametrize(
    ("units", "hosts", "sentence"),
    [
        (
            [
                SchedulingUnit("a", 1, 1, 40 * GB),
                SchedulingUnit("b", 1, 2, 150 * GB),
                SchedulingUnit("c", 1, 0.5, 20 * GB),
            ],
            [Host("x", 16, gpus(2, 80)), Host("y", 16, gpus(1, 80))],
            "operator 'c' needs 0.5 GPU a slot, but after one slot of each of the others nothing is left of the 3 GPUs "
            "of the workers; use fewer or smaller GPU stages, execution_mode='batch', or a cluster with more GPUs",
        ),
        (
            [SchedulingUnit("a", gpus=4)],
            [Host("x", 16, gpus(2))],
            "needs 4 GPUs of one host a slot, but no host has more than 2;",
        ),
        ([SchedulingUnit("a", gpus=0.5)], [Host("x", 16)], "needs 0.5 GPU a slot, but the workers have none;"),
        (
            [SchedulingUnit("a", gpus=0.6), SchedulingUnit("b", gpus=0.6)],
            [Host("x", 16, gpus(1))],
            "no more than 0.4 of one is left of the 1 GPU of the workers;",
        ),
        (
            [SchedulingUnit("a", gpus=2), SchedulingUnit("b", gpus=2)],
            [Host("x", 16, gpus(3))],
            "no host has more than 1 free of the 3 GPUs of the workers;",
        ),
        (
            [SchedulingUnit("a", gpu_memory=60 * GB), SchedulingUnit("b", gpu_memory=40 * GB)],
            [Host("x", 16, gpus(1, 80))],
            "'b' needs 40 GB of GPU memory a slot, but after one slot of each of the others no GPU has more than 20 GB "
            "left;",
        ),
        (
            [SchedulingUnit("a", gpus=2, gpu_memory=200 * GB)],
            [Host("x", 16, gpus(2, 80))],
            "needs 200 GB of GPU memory on 2 GPUs of one host a slot, but no GPU has more than 80 GB;",
        ),
        (
            [SchedulingUnit("a", 12, 0.5), SchedulingUnit("b", 12, 0.5)],
            [Host("x", 16, gpus(1))],
            "needs 12 CPUs a slot, but after one slot of each of the others no host with free GPU capacity has more "
            "than 4 CPUs left;",
        ),
        (
            [SchedulingUnit("a"), SchedulingUnit("b")],
            [Host("x", 1)],
            "after one slot of each of the others no CPU is left on any host;",
        ),
        ([SchedulingUnit("a", 4)], [Host("x", 2)], "needs 4 CPUs a slot, but no host has more than 2 CPUs;"),
        (
            [SchedulingUnit("a"), SchedulingUnit("b")],
            [Host("x", 4, max_slots=1)],
            "needs a thread of a worker process a slot, but after one",
        ),
        (
            [SchedulingUnit("a", gpus=0.1), SchedulingUnit("b", gpus=0.1)],
            [Host("x", 4, gpus(1, max_slots=1))],
            "needs a thread of a worker process on its GPU a slot, but after one slot of each of the others none is "
            "left on a GPU with enough free capacity;",
        ),
        ([SchedulingUnit("a", max_slots=0)], [Host("x", 8)], "'a' is limited to no slot at all"),
        ([SchedulingUnit("a")], [], "needs 1 CPU a slot, but the cluster has no workers; start some"),
    ],
)
def test_what_is_lacking_is_named(units: list[SchedulingUnit], hosts: list[Host], sentence: str) -> None:
    lack = explain_infeasible(units, hosts)
    assert lack is not None
    assert sentence in lack
    assert solve(units, hosts) is None
