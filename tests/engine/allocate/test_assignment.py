"""From places on hosts to slots in processes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.resources import Resources
from dcurate.engine.allocate.allocation import Allocation, SlotLocation
from dcurate.engine.allocate.assignment import Assignment, SlotClaim, assign_slots
from dcurate.engine.allocate.requests import OperatorRequest, SlotPoolSpec, WorkerState

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
