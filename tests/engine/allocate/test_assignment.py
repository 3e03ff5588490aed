"""From places on hosts to slots in processes."""

from collections import Counter

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from dcurate import ResourceError, Resources
from dcurate.engine.allocate.allocation import Allocation, SlotLocation
from dcurate.engine.allocate.assignment import Assignment, SlotClaim, assign_slots
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec, WorkerState, form_pools, hosts_of
from dcurate.engine.allocate.solve import solve

GPU = ("gpu0", 80e9)


def alone(*names: str) -> list[SlotPoolSpec]:
    return [SlotPoolSpec((OperatorRequest(name, Resources()),), 1.0) for name in names]


def totals(assignment: Assignment) -> Counter[str]:
    counts: Counter[str] = Counter()
    for claims in assignment.values():
        for operator, claim in claims.items():
            counts[operator] += claim.slots
    return counts


worker_lists = st.lists(st.tuples(st.sampled_from("hg"), st.integers(1, 3)), min_size=1, max_size=8).map(
    lambda made: [WorkerState(f"w{place}", host, threads) for place, (host, threads) in enumerate(made)]
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[WorkerState], Allocation, Assignment]:
    workers = draw(worker_lists)
    allocation: Allocation = Counter()
    for host in "hg":
        free = sum(worker.threads for worker in workers if worker.host == host)
        for unit in "abc":
            slots = draw(st.integers(0, free))
            free -= slots
            allocation[SlotLocation(host, unit)] += slots
    current: Assignment = {}
    for worker in workers:
        unit = draw(st.sampled_from(["a", "b", "c", ""]))
        if unit:
            current[worker.address] = {unit: SlotClaim(draw(st.integers(1, worker.threads)))}
    return workers, allocation, current


@given(situations())
def test_every_slot_has_a_seat_on_its_host_and_no_process_is_overfull(
    situation: tuple[list[WorkerState], Allocation, Assignment],
) -> None:
    workers, allocation, current = situation
    assignment = assign_slots(alone("a", "b", "c"), workers, allocation, current)
    by_host: Counter[tuple[str, str]] = Counter()
    for worker in workers:
        claims = assignment.get(worker.address, {})
        assert sum(claim.slots for claim in claims.values()) <= worker.threads
        for operator, claim in claims.items():
            by_host[worker.host, operator] += claim.slots
    assert by_host == Counter({(place.host, place.unit): slots for place, slots in allocation.items() if slots})


@given(situations())
def test_what_is_seated_as_wanted_stays_where_it_is(
    situation: tuple[list[WorkerState], Allocation, Assignment],
) -> None:
    workers, allocation, current = situation
    pools = alone("a", "b", "c")
    assignment = assign_slots(pools, workers, allocation, current)
    assert assign_slots(pools, workers, allocation, assignment) == assignment


def test_one_thread_processes_hold_one_group() -> None:
    workers = [WorkerState(f"w{place}", "h") for place in range(4)]
    assignment = assign_slots(
        alone("a", "b"), workers, Counter({SlotLocation("h", "a"): 3, SlotLocation("h", "b"): 1}), {}
    )
    assert all(len(claims) == 1 for claims in assignment.values())


def test_all_operators_of_a_shared_group_stand_in_each_of_its_processes() -> None:
    both = SlotPoolSpec(
        (OperatorRequest("read", Resources()), OperatorRequest("write", Resources(), num_workers=1)), 1.0
    )
    workers = [WorkerState("w0", "h"), WorkerState("w1", "h")]
    assignment = assign_slots([both], workers, Counter({SlotLocation("h", both.name): 2}), {})
    assert totals(assignment) == {"read": 2, "write": 1}


def test_a_slot_stands_in_a_process_of_its_gpu() -> None:
    workers = [WorkerState("c", "h"), WorkerState("g", "h", 8, 0.0, (GPU,))]
    pools = [SlotPoolSpec((OperatorRequest("embed", Resources(gpus=0.5)),), 1.0), *alone("read")]
    assignment = assign_slots(
        pools, workers, Counter({SlotLocation("h", "embed", ("gpu0",)): 2, SlotLocation("h", "read"): 1}), {}
    )
    assert assignment == {"g": {"embed": SlotClaim(2, ("gpu0",))}, "c": {"read": SlotClaim(1)}}


def test_a_process_that_must_change_gpus_is_seated_anew() -> None:
    two = (("gpu0", 80e9), ("gpu1", 80e9))
    workers = [WorkerState("g0", "h", 8, 0.0, two), WorkerState("g1", "h", 8, 0.0, two[::-1])]
    pools = [SlotPoolSpec((OperatorRequest("big", Resources(gpus=2)),), 1.0)]
    assignment = assign_slots(
        pools,
        workers,
        Counter({SlotLocation("h", "big", ("gpu0", "gpu1")): 1}),
        {"g1": {"big": SlotClaim(1, ("gpu1",))}},
    )
    assert assignment == {"g0": {"big": SlotClaim(1, ("gpu0", "gpu1"))}}


@st.composite
def clusters(draw: st.DrawFn) -> list[WorkerState]:
    """Hosts with processes that have GPUs, or none, or of both kinds; a GPU has one process or several."""
    workers: list[WorkerState] = []
    kinds = draw(st.sampled_from(["cpu", "gpu", "both"]))
    for host in "hi"[: draw(st.integers(1, 2))]:
        gpus = [(f"{host}{number}", draw(st.sampled_from([0.0, 8e9]))) for number in range(draw(st.integers(1, 3)))]
        for number in range(len(gpus) if kinds != "cpu" else 0):
            seen = (*gpus[number:], *gpus[:number])
            for process in range(draw(st.integers(1, 2))):
                name, threads = f"{host}-gpu{number}-{process}", draw(st.integers(1, 4))
                workers.append(WorkerState(name, host, threads, draw(st.sampled_from([0.0, 1.0, 8.0])), seen, "gpu"))
        for number in range(draw(st.integers(1, 3)) if kinds != "gpu" else 0):
            workers.append(WorkerState(f"{host}-cpu{number}", host, draw(st.integers(1, 3))))
    return draw(st.permutations(workers))


requests = st.lists(
    st.builds(Resources, cpus=st.sampled_from([0.25, 1.0, 2.0]), gpus=st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 2.0]))
    | st.builds(Resources, gpu_memory_gb=st.just(3.0)),
    min_size=1,
    max_size=4,
)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[OperatorRequest], list[WorkerState], Assignment]:
    """Operators whose order by name is any, workers, and slots that they have from before, which may be in the way."""
    names = draw(st.permutations("abcd"))
    operators = [
        OperatorRequest(name, one, cheap_setup=draw(st.booleans()))
        for name, one in zip(names, draw(requests), strict=False)
    ]
    workers = draw(clusters())
    current: Assignment = {}
    for worker in workers:
        request = draw(st.sampled_from([None, *operators]))
        if request is not None:
            gpus = tuple(name for name, _ in worker.gpus[:1]) if request.resources.requires_gpu else ()
            current[worker.address] = {request.operator: SlotClaim(draw(st.integers(1, worker.threads)), gpus)}
    return operators, workers, current


@given(workloads(), st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0]), min_size=4, max_size=4))
def test_every_slot_that_the_solver_allocates_is_assigned(
    workload: tuple[list[OperatorRequest], list[WorkerState], Assignment], seconds: list[float]
) -> None:
    operators, workers, current = workload
    try:
        pools = form_pools(operators, workers)
    except ResourceError:
        reject()
    solution = solve(
        [pool.unit(one, 1.0) for pool, one in zip(pools, seconds, strict=False)],
        hosts_of(workers),
        Counter({SlotLocation("h", pools[0].name): 1}),
    )
    assert solution is not None
    assignment = assign_slots(pools, workers, solution.allocation, current)
    threads = {worker.address: worker.threads for worker in workers}
    for address, claims in assignment.items():
        widest = {
            pool.name: max(claims[one.operator].slots if one.operator in claims else 0 for one in pool.members)
            for pool in pools
        }
        assert sum(widest.values()) <= threads[address]
    wanted: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for place, slots in solution.allocation.items():
        wanted[place.unit, place.gpus] += slots
    for pool in pools:
        for member in pool.members:
            got: Counter[tuple[str, ...]] = Counter()
            for claims in assignment.values():
                if member.operator in claims:
                    got[claims[member.operator].gpus] += claims[member.operator].slots
            total = sum(slots for (name, _), slots in wanted.items() if name == pool.name)
            assert sum(got.values()) == pool.slots_of(member, total)
            if len(pool.members) == 1:
                assert got == {gpus: slots for (name, gpus), slots in wanted.items() if name == pool.name and slots}


@pytest.mark.parametrize("reader", ["jsonl_reader", "reader"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_reader_in_the_processes_of_the_gpus_leaves_room_for_the_model(reader: str, order: int) -> None:
    workers = [WorkerState(f"g{number}", "h", 4, 4.0, ((f"gpu{number}", 0.0),), "gpu") for number in range(2)][::order]
    pools = form_pools(
        [OperatorRequest(reader, Resources(), cheap_setup=True), OperatorRequest("model", Resources(gpus=1))], workers
    )
    allocation = Counter({SlotLocation("h", reader): 6})
    allocation.update({SlotLocation("h", "model", (f"gpu{number}",)): 1 for number in range(2)})
    for current in ({}, {"g0": {reader: SlotClaim(4)}, "g1": {reader: SlotClaim(2)}}):
        assert totals(assign_slots(pools, workers, allocation, current)) == {reader: 6, "model": 2}
    with pytest.raises(ResourceError, match=r"no worker process of host 'h' has a free thread for 1 slots of operator"):
        assign_slots(pools, workers, allocation + Counter({SlotLocation("h", reader): 1}), {})


@pytest.mark.parametrize(("slots", "recycling"), [(1, {"a": 0, "b": 1}), (2, {"a": 1, "b": 1})])
def test_a_process_that_is_recycled_takes_only_what_no_other_can(slots: int, recycling: dict[str, int]) -> None:
    workers = [WorkerState("a", "h"), WorkerState("b", "h")]
    assignment = assign_slots(alone("read"), workers, Counter({SlotLocation("h", "read"): slots}), {}, {"a"})
    assert {address: totals({address: assignment.get(address, {})}).get("read", 0) for address in "ab"} == recycling
