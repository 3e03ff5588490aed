import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.resources import Resources
from dcurate.errors import ResourceError
from dcurate.execute.balance import Demand, WorkerKind, allot

cpu_workers = st.lists(st.integers(1, 8), min_size=1, max_size=6).map(
    lambda threads: [WorkerKind(f"w{place}", count) for place, count in enumerate(threads)]
)
cpu_demands = st.lists(st.tuples(st.sampled_from([0.5, 1, 2]), st.sampled_from([None, 1, 3])), min_size=1, max_size=5)


@given(workers=cpu_workers, wanted=cpu_demands)
def test_every_operator_gets_slots_or_the_run_is_refused(
    workers: list[WorkerKind], wanted: list[tuple[float, int | None]]
) -> None:
    demands = [Demand(f"op{place}", Resources(cpus=cpus), fixed) for place, (cpus, fixed) in enumerate(wanted)]
    threads = sum(worker.threads for worker in workers)
    if threads < max(demand.resources.cpus for demand in demands):
        with pytest.raises(ResourceError, match="needs 2 CPUs a slot, but the workers have 1 in all"):
            allot(demands, workers)
        return
    allocation = allot(demands, workers)
    for demand in demands:
        slots = sum(held.get(demand.operator, 0) for held in allocation.values())
        assert 1 <= slots <= threads
        assert demand.num_workers is None or slots <= demand.num_workers


def gpus(count: int, threads: int = 1) -> list[WorkerKind]:
    return [WorkerKind(f"g{number}", threads, gpus=1, gpu_memory=80 * 10**9) for number in range(count)]


def test_gpu_operators_share_the_gpus_out_in_turn() -> None:
    demands = [Demand("embed", Resources(gpus=1)), Demand("classify", Resources(gpus=1))]
    assert allot(demands, gpus(4)) == {
        "g0": {"embed": 1},
        "g1": {"classify": 1},
        "g2": {"embed": 1},
        "g3": {"classify": 1},
    }


def test_cpu_operators_stay_off_gpu_workers() -> None:
    workers = [*gpus(1), WorkerKind("c0", 2)]
    demands = [Demand("read", Resources()), Demand("embed", Resources(gpus=1))]
    assert allot(demands, workers) == {"g0": {"embed": 1}, "c0": {"read": 2}}


def test_fractions_and_gpu_memory_are_held_against_the_worker_s_own_card() -> None:
    assert allot([Demand("half", Resources(gpus=0.5))], gpus(1, threads=4)) == {"g0": {"half": 2}}
    assert allot([Demand("big", Resources(gpu_memory_gb=30))], gpus(1, threads=4)) == {"g0": {"big": 2}}


def test_a_gpu_stage_without_gpus_is_refused_before_the_run() -> None:
    with pytest.raises(ResourceError, match="operator 'embed' needs 1 CPU, 1 GPU a slot, but .* of the 0 GPUs"):
        allot([Demand("embed", Resources(gpus=1))], [WorkerKind("c0", 2)])


def test_two_gpu_stages_on_one_gpu_are_refused_before_the_run() -> None:
    demands = [Demand("embed", Resources(gpus=1)), Demand("classify", Resources(gpus=1))]
    with pytest.raises(ResourceError, match="operator 'classify' needs .* nothing is left of the 1 GPU"):
        allot(demands, gpus(1))
