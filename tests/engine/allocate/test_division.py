"""The division of a cluster among runs: nothing is lost, and nobody has less than his share for nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.allocate.division import RunDemand, RunPart, devices_of, divide
from dcurate.engine.allocate.fairness import ShareClaim, fair_units
from dcurate.engine.allocate.gpu_division import pack
from dcurate.engine.allocate.model import MILLION, Item
from dcurate.engine.allocate.requests import WorkerState, cpu_workers

GB = 10**9
SHARES = st.sampled_from([0.25, 0.5, 1.0, 1.0, 2.0, 3.0])


def slot(gpus: float = 0.0, memory_gb: float = 0.0) -> Item:
    """One slot of a GPU operator."""
    whole = int(gpus) if gpus >= 1 else 0
    return Item(0, 0, 0 if whole else round(gpus * MILLION), round(memory_gb * GB), whole, on_gpu=True)


SLOTS = st.builds(slot, st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 1.0, 2.0]), st.sampled_from([0.5, 10.0, 30.0, 60.0]))


@st.composite
def claims(draw: st.DrawFn) -> ShareClaim:
    least = draw(st.integers(0, 3))
    most = draw(st.one_of(st.just(inf), st.integers(least, 30)))
    return ShareClaim(draw(SHARES), least, most, draw(st.integers(0, 10)))


@st.composite
def clusters(draw: st.DrawFn) -> list[WorkerState]:
    workers = []
    for number in range(draw(st.integers(0, 3))):
        host = f"host{number}"
        for place in range(draw(st.integers(1, 3))):
            threads = draw(st.integers(1, 4))
            workers.append(WorkerState(f"{host}/cpu{place}", host, threads, float(threads)))
        memory = draw(st.sampled_from([0.0, 24.0 * GB, 80.0 * GB]))
        gpus = [(f"gpu{gpu}", memory) for gpu in range(draw(st.integers(0, 2)))]
        for place, own in enumerate(gpus):
            others = tuple(gpu for gpu in gpus if gpu != own)
            workers.append(WorkerState(f"{host}/gpu{place}", host, 4, 0.0, (own, *others), "gpu"))
    only_gpus = draw(st.booleans())
    return [worker for worker in workers if worker.gpus or not only_gpus]


@st.composite
def runs(draw: st.DrawFn) -> list[RunDemand]:
    return [
        RunDemand(
            f"run{number}",
            share=draw(SHARES),
            priority=draw(st.sampled_from([0, 0, 0, 5])),
            least_cpus=draw(st.sampled_from([1, 1, 1, 2, 4])),
            most_cpus=draw(st.sampled_from([inf, inf, 4.0, 8.0])),
            gpu_slots=tuple(draw(st.lists(SLOTS, max_size=2))),
            most_gpus=draw(st.sampled_from([inf, inf, 1.0, 2.0])),
        )
        for number in range(draw(st.integers(0, 5)))
    ]


# Whole units


@given(st.integers(0, 60), st.lists(claims(), max_size=6))
def test_units_add_up_and_stay_within_bounds(units: int, wanted: list[ShareClaim]) -> None:
    given_units = fair_units(units, wanted)
    assert all(claim.least <= amount <= claim.most for claim, amount in zip(wanted, given_units, strict=True))
    could = sum(min(claim.most, units + claim.least) for claim in wanted)
    assert sum(given_units) == max(sum(claim.least for claim in wanted), min(units, could))


@given(st.integers(0, 60), st.lists(claims(), max_size=6))
def test_no_unit_that_moved_would_help_one_who_has_less(units: int, wanted: list[ShareClaim]) -> None:
    given_units = fair_units(units, wanted)
    pairs = list(zip(wanted, given_units, strict=True))
    for poor, has in pairs:
        for rich, more in pairs:
            if has < poor.most and more > rich.least:
                assert has / poor.share >= (more - 1) / rich.share - 1e-9


@given(st.integers(0, 60), st.lists(claims(), max_size=6))
def test_units_that_were_divided_once_stay_so(units: int, wanted: list[ShareClaim]) -> None:
    first = fair_units(units, wanted)
    again = [claim._replace(before=amount) for claim, amount in zip(wanted, first, strict=True)]
    assert fair_units(units, again) == first


# Clusters


def used(parts: Mapping[str, RunPart]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Threads and GPUs that all runs have together."""
    threads: Counter[str] = Counter()
    gpus: Counter[tuple[str, str]] = Counter()
    for part in parts.values():
        threads.update(part.threads)
        gpus.update(part.gpus)
    return threads, gpus


def cpus_of(part: RunPart, workers: Sequence[WorkerState]) -> int:
    return sum(part.threads.get(worker.address, 0) for worker in cpu_workers(workers))


@given(clusters(), runs())
def test_nothing_is_given_twice_and_nobody_gets_more_than_he_may(
    workers: list[WorkerState], demands: list[RunDemand]
) -> None:
    parts = divide(workers, demands)
    threads, gpus = used(parts)
    first = max((demand.priority for demand in demands), default=0)
    top = [demand for demand in demands if demand.priority == first]
    total = sum(worker.threads for worker in cpu_workers(workers))
    crowded = sum(demand.least_cpus for demand in top) > total
    assert set(parts) == {demand.run for demand in demands}
    for worker in cpu_workers(workers):
        assert crowded or threads[worker.address] <= worker.threads
    assert all(amount <= MILLION for amount in gpus.values())
    assert set(gpus) <= set(devices_of(workers))
    for demand in demands:
        part = parts[demand.run]
        assert sum(part.gpus.values()) <= demand.most_gpus * MILLION
        assert cpus_of(part, workers) <= max(demand.most_cpus, demand.least_cpus)
        assert not part.missing or not (part.threads or part.gpus)


@given(clusters(), runs())
def test_a_run_that_goes_on_has_what_it_needs(workers: list[WorkerState], demands: list[RunDemand]) -> None:
    parts = divide(workers, demands)
    devices = devices_of(workers)
    for demand in demands:
        part = parts[demand.run]
        if not part.missing:
            assert cpus_of(part, workers) >= demand.least_cpus
            assert pack(demand.gpu_slots, devices, dict.fromkeys(devices, 0) | dict(part.gpus)) is not None
        elif part.missing == "GPUs":
            alone = replace(demand, most_gpus=inf)
            others = [other for other in demands if other.run != demand.run and parts[other.run].gpus]
            assert others or divide(workers, [alone])[demand.run].missing or demand.most_gpus < inf


@given(clusters(), runs())
def test_no_thread_is_idle_that_a_run_could_use(workers: list[WorkerState], demands: list[RunDemand]) -> None:
    parts = divide(workers, demands)
    total = sum(worker.threads for worker in cpu_workers(workers))
    given_threads = sum(cpus_of(part, workers) for part in parts.values())
    for demand in demands:
        if not parts[demand.run].missing and given_threads < total:
            assert cpus_of(parts[demand.run], workers) >= min(demand.most_cpus, total)


@given(clusters(), runs())
def test_runs_of_one_priority_have_their_shares(workers: list[WorkerState], demands: list[RunDemand]) -> None:
    parts = divide(workers, demands)
    for poor in demands:
        for rich in demands:
            if poor.priority == rich.priority and not parts[poor.run].missing and not parts[rich.run].missing:
                has, more = cpus_of(parts[poor.run], workers), cpus_of(parts[rich.run], workers)
                if has < poor.most_cpus and more > rich.least_cpus:
                    assert has / poor.share >= (more - 1) / rich.share - 1e-9


@given(clusters(), runs())
def test_a_run_of_higher_priority_does_not_feel_the_others(
    workers: list[WorkerState], demands: list[RunDemand]
) -> None:
    first = max((demand.priority for demand in demands), default=0)
    alone = divide(workers, [demand for demand in demands if demand.priority == first])
    parts = divide(workers, demands)
    for run, part in alone.items():
        assert cpus_of(parts[run], workers) == cpus_of(part, workers)
        assert sum(parts[run].gpus.values()) == sum(part.gpus.values())


@given(clusters(), runs(), st.randoms(use_true_random=False))
def test_the_order_of_workers_does_not_matter(
    workers: list[WorkerState], demands: list[RunDemand], dice: object
) -> None:
    shuffled = list(workers)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert divide(shuffled, demands) == divide(workers, demands)


@given(clusters(), runs())
def test_a_cluster_that_was_divided_once_stays_so(workers: list[WorkerState], demands: list[RunDemand]) -> None:
    parts = divide(workers, demands)
    assert divide(workers, demands, parts) == parts


@given(clusters(), runs())
def test_a_run_that_goes_leaves_the_others_what_they_had(workers: list[WorkerState], demands: list[RunDemand]) -> None:
    demands = [replace(demand, gpu_slots=()) for demand in demands]
    before = divide(workers, demands)
    threads, _ = used(before)
    after = divide(workers, demands[:-1], before)
    if all(threads[worker.address] <= worker.threads for worker in workers):
        for demand in demands[:-1]:
            had, has = before[demand.run].threads, after[demand.run].threads
            if not before[demand.run].missing and demand.priority == demands[-1].priority:
                assert sum(has.values()) >= sum(had.values())
                assert all(has.get(address, 0) >= amount for address, amount in had.items())


def test_a_run_alone_has_everything() -> None:
    workers = [WorkerState("a", "h", 2, 2.0), WorkerState("g", "h", 4, 0.0, (("gpu0", 8.0 * GB),), "gpu")]
    part = divide(workers, [RunDemand("one", gpu_slots=(slot(0.5),))])["one"]
    assert [part.of(worker) for worker in workers] == workers


def test_runs_hold_worker_processes_alone_where_there_are_enough() -> None:
    workers = [WorkerState(f"w{number}", "h", 4, 4.0) for number in range(4)]
    before = divide(workers, [RunDemand("a")])
    parts = divide(workers, [RunDemand("a"), RunDemand("b")], before)
    assert sorted(parts["a"].threads.values()) == sorted(parts["b"].threads.values()) == [4, 4]


def test_two_models_share_a_gpu_only_where_both_fit() -> None:
    workers = [WorkerState("c", "h", 4, 4.0), WorkerState("g", "h", 4, 0.0, (("gpu0", 80.0 * GB),), "gpu")]

    def missing(*gigabytes: float) -> list[str]:
        demands = [RunDemand(f"run{place}", gpu_slots=(slot(0, size),)) for place, size in enumerate(gigabytes)]
        parts = divide(workers, demands)
        return [parts[demand.run].missing for demand in demands]

    assert missing(60, 60) == ["", "GPUs"]
    assert missing(60, 20) == ["", ""]
    assert missing(30, 30, 30) == ["", "", "GPUs"]
    assert missing(60, 60, 20) == ["", "GPUs", ""]


def test_where_there_are_enough_gpus_each_run_has_whole_ones() -> None:
    gpus = [(f"gpu{number}", 80.0 * GB) for number in range(4)]
    workers = [WorkerState("c", "h", 4, 4.0)]
    workers += [WorkerState(f"g{number}", "h", 4, 0.0, (gpu,), "gpu") for number, gpu in enumerate(gpus)]
    demands = [RunDemand("a", share=3.0, gpu_slots=(slot(0.25),)), RunDemand("b", gpu_slots=(slot(0.25),))]
    parts = divide(workers, demands)
    assert {run: sum(part.gpus.values()) for run, part in parts.items()} == {"a": 3 * MILLION, "b": MILLION}
    assert used(parts)[1] == Counter({("h", name): MILLION for name, _ in gpus})


def test_a_thousand_hosts_are_divided_in_a_moment_and_in_linear_time() -> None:
    def seconds(hosts: int) -> float:
        workers = [WorkerState(f"{host}/{place}", f"{host}", 12, 12.0) for host in range(hosts) for place in range(8)]
        gpus = tuple((f"gpu{gpu}", 80.0 * GB) for gpu in range(8))
        workers += [
            WorkerState(f"{host}/g{place}", f"{host}", 4, 0.0, gpus[place:] + gpus[:place], "gpu")
            for host in range(hosts)
            for place in range(8)
        ]
        demands = [RunDemand(f"run{number}", gpu_slots=(slot(0.25, 6),)) for number in range(4)]
        took = []
        for _ in range(3):
            begin = time.process_time()
            divide(workers, demands)
            took.append(time.process_time() - begin)
        return min(took)

    small, large = seconds(250), seconds(1000)
    assert large < 10 * small
