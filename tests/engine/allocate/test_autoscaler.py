"""How many workers of each kind are wanted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from dcurate.cluster import Shape
from dcurate.engine.allocate.allocation import SchedulingUnit, Solution
from dcurate.engine.allocate.autoscaler import ClusterState, desired_workers, workers_at
from dcurate.engine.allocate.requests import WorkerState, hosts_of
from dcurate.engine.allocate.solve import solve

CPU = Shape(cpus=1, max_slots=1, maximum=16)
GPU = Shape(cpus=1, gpus=1, gpu_memory=80e9, max_slots=8, maximum=4)

times = st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0])
cpu_units = st.lists(st.builds(SchedulingUnit, st.just(""), seconds=times, weight=times), max_size=3)
gpu_units = st.lists(
    st.builds(
        SchedulingUnit,
        st.just(""),
        cpus=st.just(0.0),
        gpus=st.sampled_from([0.25, 0.5, 1.0]),
        seconds=times,
        weight=times,
    ),
    max_size=2,
)
units = st.tuples(cpu_units, gpu_units).map(
    lambda both: [replace(unit, name=f"unit-{number}") for number, unit in enumerate(both[0] + both[1])]
)


@st.composite
def two_kinds(draw: st.DrawFn) -> dict[str, Shape]:
    cores = draw(st.integers(1, 4))
    most, more = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    return {
        "cpu": Shape(cpus=cores, max_slots=cores, maximum=most, minimum=draw(st.integers(0, most))),
        "gpu": replace(GPU, gpus=draw(st.integers(1, 2)), maximum=more, minimum=draw(st.integers(0, more))),
    }


def at(units: list[SchedulingUnit], shapes: dict[str, Shape], numbers: dict[str, int]) -> Solution | None:
    """The best allocation with so many workers."""
    return solve(units, hosts_of(workers_at(shapes, numbers))) if any(numbers.values()) else None


def most_of(shapes: dict[str, Shape]) -> dict[str, int]:
    return {kind: shape.maximum for kind, shape in shapes.items()}


@given(units, two_kinds(), st.booleans())
def test_no_fewer_than_the_minimum_and_no_more_than_the_maximum_are_wanted(
    units: list[SchedulingUnit], shapes: dict[str, Shape], known: bool
) -> None:
    standing = ClusterState(unknown=() if known else [unit.name for unit in units])
    numbers = desired_workers(units, shapes, standing)
    assert all(shape.clamped(numbers[kind]) == numbers[kind] for kind, shape in shapes.items())


@given(units, two_kinds())
def test_the_workers_wanted_are_as_fast_as_all_that_there_may_be(
    units: list[SchedulingUnit], shapes: dict[str, Shape]
) -> None:
    best = at(units, shapes, most_of(shapes))
    assume(units and best is not None)
    assert best is not None
    found = at(units, shapes, desired_workers(units, shapes))
    assert found is not None
    assert found.throughput >= best.throughput * (1 - 1e-6)


@given(st.lists(times, min_size=1, max_size=4), st.integers(1, 16), st.integers(0, 3))
def test_no_worker_could_be_spared(seconds: list[float], most: int, least: int) -> None:
    units = [SchedulingUnit(f"unit-{number}", seconds=each) for number, each in enumerate(seconds)]
    shapes = {"cpu": replace(CPU, maximum=max(most, least), minimum=least)}
    best = at(units, shapes, most_of(shapes))
    number = desired_workers(units, shapes)["cpu"]
    assume(best is not None and number > least)
    assert best is not None
    fewer = at(units, shapes, {"cpu": number - 1})
    assert fewer is None or fewer.throughput < best.throughput * (1 - 1e-6)


@given(units, two_kinds())
def test_with_nothing_left_to_do_the_minimum_is_wanted(units: list[SchedulingUnit], shapes: dict[str, Shape]) -> None:
    idle = [replace(unit, weight=0.0) for unit in units]
    assert desired_workers(idle, shapes) == {kind: shape.minimum for kind, shape in shapes.items()}


@given(units, two_kinds())
def test_while_a_rate_is_unknown_one_slot_of_each_has_its_place(
    units: list[SchedulingUnit], shapes: dict[str, Shape]
) -> None:
    assume(units and at(units, shapes, most_of(shapes)) is not None)
    numbers = desired_workers(units, shapes, ClusterState(unknown=[units[0].name]))
    assert at([replace(unit, fixed=1) for unit in units], shapes, numbers) is not None
    assert all(numbers[kind] <= max(shape.minimum, len(units)) for kind, shape in shapes.items())


@given(units, two_kinds(), st.integers(0, 5), st.integers(0, 5))
def test_a_tail_asks_for_no_more_than_there_is_or_one_slot_of_each_takes(
    units: list[SchedulingUnit], shapes: dict[str, Shape], cpus: int, gpus: int
) -> None:
    assume(units)
    now = {"cpu": cpus, "gpu": gpus}
    one_each = desired_workers(units, shapes, ClusterState(unknown=[unit.name for unit in units]))
    full = desired_workers(units, shapes)
    tail = desired_workers(units, shapes, ClusterState(now, work_left_s=5.0, start_s=30.0))
    assert all(tail[kind] <= max(now[kind], one_each[kind]) for kind in shapes)
    assert all(tail[kind] <= max(full[kind], one_each[kind]) for kind in shapes)
    assert desired_workers(units, shapes, ClusterState(now, work_left_s=31.0, start_s=30.0)) == full


def test_each_kind_is_wanted_as_far_as_the_others_can_follow() -> None:
    read, embed = SchedulingUnit("read", seconds=1.0), SchedulingUnit("embed", cpus=1, gpus=0.5, seconds=4.0)
    assert desired_workers([read, embed], {"cpu": CPU, "gpu": replace(GPU, cpus=2)}) == {"cpu": 2, "gpu": 4}
    assert desired_workers([read, embed], {"cpu": replace(CPU, maximum=1), "gpu": replace(GPU, cpus=2)}) == {
        "cpu": 1,
        "gpu": 2,
    }


def test_of_kinds_that_would_both_do_the_first_is_wanted() -> None:
    embed = [SchedulingUnit("embed", cpus=0, gpus=1, gpu_memory=0, seconds=1.0, max_slots=2)]
    assert desired_workers(embed, {"small": GPU, "large": GPU}) == {"small": 2, "large": 0}
    assert desired_workers(embed, {"large": GPU, "small": GPU}) == {"large": 2, "small": 0}


def test_a_kind_with_larger_cards_is_wanted_where_only_its_cards_do() -> None:
    embed = [SchedulingUnit("embed", cpus=0, gpu_memory=100e9, seconds=1.0)]
    shapes = {"small": GPU, "large": replace(GPU, gpu_memory=140e9, maximum=3)}
    assert desired_workers(embed, shapes) == {"small": 0, "large": 3}


def test_workers_that_stay_anyway_are_counted_on() -> None:
    read = [SchedulingUnit("read", seconds=1.0, max_slots=6)]
    base = tuple(WorkerState(f"w{number}", "h") for number in range(4))
    assert desired_workers(read, {"cpu": CPU}) == {"cpu": 6}
    assert desired_workers(read, {"cpu": CPU}, ClusterState(base=base)) == {"cpu": 2}


def test_workers_of_one_host_bring_cores_for_the_gpus_of_another_kind() -> None:
    embed = [SchedulingUnit("embed", cpus=2, gpus=1, seconds=1.0)]
    shapes = {"cpu": replace(CPU, host="here"), "gpu": replace(GPU, cpus=0, host="here")}
    assert desired_workers(embed, shapes) == {"cpu": 8, "gpu": 4}
    apart = {kind: replace(shape, host="") for kind, shape in shapes.items()}
    assert desired_workers(embed, apart) == {"cpu": 0, "gpu": 0}


def test_where_there_are_gpu_workers_only_cpu_slots_stand_there() -> None:
    both = [SchedulingUnit("read", seconds=1.0, max_slots=4), SchedulingUnit("embed", cpus=0, gpus=1, seconds=1.0)]
    assert desired_workers(both, {"gpu": GPU}) == {"gpu": 4}


def test_jobs_of_several_gpus_have_a_process_for_each() -> None:
    job = replace(GPU, gpus=2, cpus=8, max_slots=4)
    workers = workers_at({"gpu": job}, {"gpu": 2})
    assert [(worker.host, worker.gpus[0][0], worker.cpus) for worker in workers] == [
        ("+gpu-0", "gpu-0/0", 8.0),
        ("+gpu-0", "gpu-0/1", 0.0),
        ("+gpu-1", "gpu-1/0", 8.0),
        ("+gpu-1", "gpu-1/1", 0.0),
    ]
    assert desired_workers([SchedulingUnit("tensor", cpus=1, gpus=2, max_slots=2)], {"gpu": job}) == {"gpu": 2}
