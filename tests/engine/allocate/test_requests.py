"""From demands and announced workers to units and hosts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import ResourceError, Resources
from dcurate.engine.allocate.requests import (
    OperatorRequest,
    SlotPoolSpec,
    WorkerState,
    form_pools,
    hosts_of,
)

GPU0, GPU1 = ("gpu0", 80e9), ("gpu1", 80e9)


def cpus(number: int, host: str = "h") -> list[WorkerState]:
    return [WorkerState(f"{host}-c{place}", host) for place in range(number)]


def names(pools: list[SlotPoolSpec]) -> list[str]:
    return [each.name for each in pools]


def test_light_operators_share_their_slots_and_others_stand_alone() -> None:
    requests = [
        OperatorRequest("read", Resources(), cheap_setup=True),
        OperatorRequest("model", Resources()),
        OperatorRequest("write", Resources(), cheap_setup=True),
    ]
    assert names(form_pools(requests, cpus(4))) == ["model", "read+write"]


def test_a_pinned_operator_does_not_share() -> None:
    requests = [
        OperatorRequest("read", Resources(), cheap_setup=True),
        OperatorRequest("write", Resources(), num_workers=1, cheap_setup=True),
    ]
    assert names(form_pools(requests, cpus(4))) == ["write", "read"]


@pytest.mark.parametrize(("most", "groups"), [(3, ["write", "read"]), (4, ["read+write"]), (1000, ["read+write"])])
def test_a_limit_that_no_cluster_of_this_size_reaches_keeps_nothing_from_sharing(most: int, groups: list[str]) -> None:
    read, write = OperatorRequest("read", Resources(), cheap_setup=True), OperatorRequest("write", Resources())
    limited = [read, OperatorRequest("write", Resources(), max_workers=most, cheap_setup=True)]
    assert names(form_pools(limited, cpus(4))) == groups
    assert names(form_pools([read, write], cpus(4))) == ["write", "read"]


def test_on_a_small_machine_all_cpu_operators_share() -> None:
    requests = [OperatorRequest(name, Resources()) for name in "abcdefgh"]
    (only,) = form_pools(requests, cpus(2))
    assert (only.name, only.unit().cpus) == ("a+b+c+d+e+f+g+h", 0.0)


def test_in_batch_mode_operators_need_not_fit_beside_each_other() -> None:
    requests = [OperatorRequest(name, Resources(gpus=1)) for name in "ab"]
    workers = [*cpus(2), WorkerState("g", "h", 8, 0.0, (GPU0,))]
    assert names(form_pools(requests, workers, sequential=True)) == ["a", "b"]
    with pytest.raises(ResourceError, match="operator 'b' needs"):
        form_pools(requests, workers)


def test_more_cpus_than_there_are_are_refused() -> None:
    with pytest.raises(ResourceError, match="operator 'big' needs 64 CPUs a slot, but the workers have 2 in all"):
        form_pools([OperatorRequest("big", Resources(cpus=64))], cpus(2))


def test_processes_on_one_gpu_are_one_gpu() -> None:
    workers = [WorkerState("a", "h", 4, 0.0, (GPU0, GPU1)), WorkerState("b", "h", 2, 0.0, (GPU0, GPU1)), *cpus(3)]
    (host,) = hosts_of(workers)
    assert [(gpu.name, gpu.max_slots) for gpu in host.gpus] == [("gpu0", 6), ("gpu1", 0)]
    assert (host.cpus, host.max_slots) == (3.0, 3)


def test_where_there_are_gpu_workers_only_cpu_operators_use_their_threads() -> None:
    (host,) = hosts_of([WorkerState("a", "h", 4, 0.0, (GPU0,))])
    assert (host.cpus, host.max_slots) == (4.0, 4)


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([None, 1, 3])), min_size=1),
    st.integers(1, 6),
)
def test_every_operator_is_in_one_group(wanted: list[tuple[bool, float, int | None]], workers: int) -> None:
    requests = [
        OperatorRequest(f"op{place}", Resources(cpus=cpu), num_workers=fixed, cheap_setup=light)
        for place, (light, cpu, fixed) in enumerate(wanted)
    ]
    if max(request.resources.cpus for request in requests) > workers:
        with pytest.raises(ResourceError, match="needs 2 CPUs a slot"):
            form_pools(requests, cpus(workers))
        return
    members = [member.operator for each in form_pools(requests, cpus(workers)) for member in each.members]
    assert sorted(members) == sorted(request.operator for request in requests)


def test_in_a_shared_group_a_pin_still_holds() -> None:
    pinned, wide = OperatorRequest("a", Resources(), num_workers=1), OperatorRequest("b", Resources(cpus=2))
    both = SlotPoolSpec((pinned, wide), 1.0)
    assert (both.slots_of(pinned, 4), both.slots_of(wide, 4)) == (1, 2)


def test_of_what_workers_announce_of_the_memory_of_a_gpu_the_least_counts() -> None:
    announced = {"a": 60e9, "b": 70e9, "c": 0.0}
    workers = [WorkerState(name, "h", 4, 0.0, (("GPU-0", memory),)) for name, memory in announced.items()]
    (host,) = hosts_of(workers)
    assert [gpu.memory for gpu in host.gpus] == [60e9]
