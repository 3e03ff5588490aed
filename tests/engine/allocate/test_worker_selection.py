"""Calls go where slots are free; the inputs follow them, and no further than they must."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from math import inf

import pyarrow as pa
import pytest
from distributed import Client, Worker, get_worker
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DaskExecutor, DocumentBatch, LocalCluster, Pipeline, ProcessingStage, Resources
from dcurate.engine.allocate.worker_selection import WorkerSelector
from tests.stages import Numbers

pytestmark = pytest.mark.cluster

WORKERS = st.lists(st.integers(1, 4), min_size=1, max_size=12)


def _placer(slots: list[int]) -> WorkerSelector:
    selector = WorkerSelector()
    for number, count in enumerate(slots):
        selector.set_slots("one", str(number), count)
    return selector


@given(slots=WORKERS, calls=st.integers(0, 60), holders=st.sets(st.integers(0, 11).map(str)))
def test_no_worker_has_more_calls_a_slot_than_another_by_more_than_one(
    slots: list[int], calls: int, holders: set[str]
) -> None:
    selector, load = _placer(slots), Counter[str]()
    for _ in range(calls):
        worker = selector.select_worker("one", 1.0, holders)
        assert worker is not None
        selector.add_task("one", worker)
        load[worker] += 1
    rounds = [load[str(number)] / count for number, count in enumerate(slots)]
    assert max(rounds) - min(rounds) <= 1


@given(slots=WORKERS, calls=st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=40))
def test_tasks_wait_at_a_worker_while_another_has_a_free_slot(slots: list[int], calls: list[tuple[int, bool]]) -> None:
    selector, load = _placer(slots), Counter[str]()
    for number, begins in calls:
        worker = str(number % len(slots))
        (selector.add_task if begins else selector.remove_task)("one", worker)
        load[worker] = max(0, load[worker] + (1 if begins else -1))
    free = any(load[str(number)] < count for number, count in enumerate(slots))
    waits = {str(number) for number, count in enumerate(slots) if load[str(number)] > count}
    assert set(selector.overfull()) == {("one", worker) for worker in waits if free}


@given(
    slots=WORKERS, events=st.lists(st.tuples(st.integers(0, 11), st.sampled_from(["begin", "end", "remove", "more"])))
)
def test_whatever_happened_a_call_goes_to_a_worker_that_has_slots(
    slots: list[int], events: list[tuple[int, str]]
) -> None:
    selector, there = _placer(slots), {str(number) for number in range(len(slots))}
    for number, event in events:
        worker = str(number)
        match event:
            case "remove":
                selector.remove_worker(worker)
                there.discard(worker)
            case "more":
                selector.set_slots("one", worker, 2)
                there.add(worker)
            case "begin":
                selector.add_task("one", worker)
            case _:
                selector.remove_task("one", worker)
    chosen = selector.select_worker("one", 1.0)
    assert chosen in there if there else chosen is None


def test_among_equals_the_one_that_has_the_inputs_goes_first_unless_it_is_busier_for_longer_than_fetching_takes() -> (
    None
):
    selector = _placer([1, 1])
    fetch = {"0": 0.5, "1": 0.0}.__getitem__
    assert selector.select_worker("one", 1.0, ["1"], fetch) == "1"
    assert selector.select_worker("one", 1.0, ["1"], fetch, {"0": 0.0, "1": 2.0}.__getitem__) == "0"


def test_a_worker_that_takes_nothing_gets_nothing() -> None:
    selector = _placer([1, 1])
    assert selector.select_worker("one", 1.0, ["0"], backlog={"0": inf, "1": 9.0}.__getitem__) == "1"
    assert selector.select_worker("one", 1.0, ["0"], backlog=lambda _: inf) is None


# On real workers

CHILDREN, CHILD_BYTES = 12, 1 << 20


class Many(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Makes many large batches of one."""

    num_children = CHILDREN

    def is_fanout_stage(self) -> bool:
        return True

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:
        return [
            task.with_data(pa.table({"text": [str(number)], "load": [bytes(CHILD_BYTES)]}))
            for number in range(self.num_children)
        ]


@dataclass
class Where(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Takes a while, and notes which worker it ran on."""

    seconds: float = 1.0
    resources: Resources = field(default_factory=Resources)

    def process(self, task: DocumentBatch) -> DocumentBatch:
        time.sleep(self.seconds)
        worker: Worker = get_worker()
        return task.with_data(pa.table({"text": task.to_arrow()["text"], "worker": [worker.address]}))


def _fetched(client: Client) -> int:
    logs = client.run(lambda dask_worker: [one["total"] for one in dask_worker.transfer_incoming_log])
    return sum(map(sum, logs.values()))


def test_the_batches_of_a_fan_out_spread_evenly_and_each_travels_at_most_once() -> None:
    with LocalCluster(n_workers=4, gpus=False) as cluster:
        chain = [Numbers(1, 1), Many(), Where()]
        batches = list(Pipeline("spread", stages=chain).stream(DaskExecutor(cluster=cluster)))
        allocation = Counter(batch.to_arrow()["worker"][0].as_py() for batch in batches)  # type: ignore[attr-defined]
        assert sum(allocation.values()) == CHILDREN
        assert len(allocation) == 4
        assert max(allocation.values()) <= CHILDREN / 4 + 2
        assert _fetched(cluster.client) <= 1.5 * CHILDREN * CHILD_BYTES
