"""The slot manager on a scheduler that is not there: decisions leave its event loop free."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from distributed import Scheduler, Status
from distributed.batched import BatchedSend
from distributed.comm import CommClosedError, connect, listen

from dcurate import Resources
from dcurate.cluster import compat
from dcurate.engine.allocate.decide import decide as decide_slots
from dcurate.engine.allocate.requests import OperatorRequest
from dcurate.engine.dask import event_loop
from dcurate.engine.dask.event_loop import SLICE_S, Pauses, in_thread
from dcurate.engine.dask.joining import CLIENT_INTERVAL_S
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.scheduler_plugin import SlotManager
from dcurate.engine.policies import balancing
from dcurate.engine.serialization import pickled_policies
from dcurate.policies import Policy, RunView, Suggestion


@dataclass
class StandInWorker:
    """What the manager looks at in a worker's state."""

    address: str
    nthreads: int = 8
    nbytes: int = 0
    memory_limit: int = 1 << 30
    status: Status = Status.running
    nanny: str = "nanny"
    metrics: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, float] = field(default_factory=dict)
    processing: dict[Any, float] = field(default_factory=dict)
    executing: dict[Any, float] = field(default_factory=dict)
    has_what: dict[Any, None] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    name: str = "stand-in"
    last_seen: float = inf


class StandInScheduler:
    """A scheduler whose workers set up every slot at once."""

    def __init__(self) -> None:
        self.workers: dict[str, StandInWorker] = {}
        self.extensions: dict[str, Any] = {}
        self.stream_handlers: dict[str, Any] = {}
        self.handlers: dict[str, Any] = {}
        self.resources: dict[str, dict[str, float]] = {}
        self.tasks: dict[Any, Any] = {}
        self.plugins: dict[str, Any] = {}
        self.unrunnable: set[Any] = set()
        self.stream_comms: dict[str, Any] = {}
        self.client_comms: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.requested: list[dict[str, Any]] = []

    def add_plugin(self, plugin: Any, name: str) -> None:
        self.plugins[name] = plugin

    def subscribe_topic(self, topic: str, client: str) -> None:
        pass

    def get_events(self, topic: str) -> tuple[Any, ...]:
        return ()

    async def _track_retire_worker(self, worker: Any) -> tuple[str, str, dict[str, Any]]:
        return worker.address, "OK", {}

    def adaptive_target(self, target_duration: Any = None) -> int:
        return 0

    def worker_send(self, worker: str, message: dict[str, Any]) -> None:
        if message["op"] == "dcurate-set-slots":
            self.requested.append(message | {"worker": worker})

    def add_resources(self, worker: str, resources: dict[str, float]) -> None:
        self.workers[worker].resources.update(resources)

    def log_event(self, topic: str, event: dict[str, Any]) -> None:
        self.events.append(event)

    def bulk_schedule_unrunnable_after_adding_worker(self, worker: Any) -> dict[Any, Any]:
        return {}

    def transitions(self, recommendations: dict[Any, Any], stimulus_id: str) -> None:
        pass


def manager_on(
    scheduler: StandInScheduler, requests: list[OperatorRequest], hosts: int, policies: Sequence[Policy] = ()
) -> SlotManager:
    """A manager with `hosts` hosts, each of a CPU worker and eight GPU workers; to be started."""
    for host in range(hosts):
        for number in range(9):
            threads = 8 if number else 64
            scheduler.workers[f"tcp://{host}:{number}"] = StandInWorker(f"tcp://{host}:{number}", threads)
    payloads = dict.fromkeys((one.operator for one in requests), b"")
    return SlotManager("run-0", RunConfig(requests, payloads, policies=pickled_policies(policies)), "client")


def register(manager: SlotManager, hosts: int) -> None:
    """Have all workers register: on each host one for its CPUs, and one for each of its eight GPUs."""
    for host in range(hosts):
        gpus = [(f"gpu{number}", 80e9) for number in range(8)]
        for number in range(9):
            own = [*gpus[number - 1 :], *gpus[: number - 1]] if number else []
            info = {
                "host": f"host-{host}",
                "cpus": 0.0 if number else 64.0,
                "gpus": own,
                "kind": "cpu",
                "memory": 1 << 30,
            }
            manager.on_register(f"tcp://{host}:{number}", info, {}, "")


def requests_of(operators: int) -> list[OperatorRequest]:
    return [
        OperatorRequest(f"operator-{number}", Resources(1.0, 0.25 if number % 2 else 0.0))
        for number in range(operators)
    ]


def stats_of(requests: list[OperatorRequest]) -> dict[str, Any]:
    """What a driver reports that knows all operators well."""
    known = {
        "samples": 1000,
        "cv": 0.1,
        "wobble": 0.0,
        "shifts": 0,
        "cached": False,
        "since_first": 100.0,
        "ratio": 1.0,
    }
    here = {"waiting": 10, "running": 10, "calls": 10, "ended": False}
    return {
        "exhausted": False,
        "operators": {
            one.operator: {"seconds": 1.0 + number / 7} | known | here for number, one in enumerate(requests)
        },
    }


async def until(condition: Any, seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


class Notes:
    """A policy that notes in which thread it runs, and what it sees."""

    threads: ClassVar[set[int]] = set()
    views: ClassVar[list[RunView]] = []

    def run(self, view: RunView) -> Iterator[Suggestion]:
        self.threads.add(threading.get_ident())
        self.views.append(view)
        yield from ()


def test_policies_run_off_the_event_loop_and_see_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    plain = decide_slots

    def noted(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return plain(*arguments)

    monkeypatch.setattr(balancing, "decide", noted)

    async def decide() -> list[dict[str, Any]]:
        scheduler, requests = StandInScheduler(), requests_of(4)
        manager = manager_on(scheduler, requests, hosts=2, policies=[Notes()])
        await manager.start(cast(Scheduler, scheduler))
        register(manager, hosts=2)
        manager.on_stats(stats_of(requests))
        await until(lambda: len(scheduler.requested) > 4 and len(Notes.views) > 2)
        manager.stop()
        return scheduler.requested

    requested = asyncio.run(decide())
    assert {one["operator"] for one in requested} == {one.operator for one in requests_of(4)}
    assert threads
    assert threading.get_ident() not in threads | Notes.threads
    seen = Notes.views[-1]
    assert seen.operators["operator-1"].seconds == 1.0 + 1 / 7
    assert sum(worker.slots.get("operator-1", 0) for worker in seen.workers.values()) > 1
    assert not any(worker.slots for worker in Notes.views[0].workers.values())


def test_slots_that_replace_those_of_a_lost_worker_are_a_decision_of_their_own() -> None:
    async def decide() -> list[str]:
        scheduler = StandInScheduler()
        manager = manager_on(scheduler, [OperatorRequest(name, Resources()) for name in ("read", "score")], hosts=3)
        await manager.start(cast(Scheduler, scheduler))
        register(manager, hosts=3)
        for number in range(1, 4):
            await until(
                lambda number=number: sum(one["operator"] == "read" for one in scheduler.requested) == number, 20
            )
            lost = next(one["worker"] for one in reversed(scheduler.requested) if one["operator"] == "read")
            del scheduler.workers[lost]
            manager.remove_worker(cast(Scheduler, scheduler), lost)
        manager.stop()
        return [event["reason"] for event in scheduler.events if event.get("decision") == "read"]

    assert asyncio.run(decide()) == ["read 0 -> 1 slots: to learn how long it takes"] * 3


def test_at_1000_hosts_the_event_loop_has_other_turns_while_slots_are_decided_and_requested(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """The CPU time of its longest turns is recorded, not asserted: it should be less than 50 ms."""
    turns: list[float] = []
    plain = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        plain(handle)
        turns.append(time.thread_time() - began)

    async def decide() -> Counter[str]:
        scheduler, requests = StandInScheduler(), requests_of(11)
        manager = manager_on(scheduler, requests, hosts=1000)

        def all_requested() -> bool:
            return len({one["operator"] for one in scheduler.requested}) == len(requests)

        await manager.start(cast(Scheduler, scheduler))
        register(manager, hosts=1000)
        await asyncio.sleep(0)
        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        manager.on_stats(stats_of(requests))
        await until(lambda: len(scheduler.requested) > 5000 and all_requested())
        monkeypatch.setattr(asyncio.Handle, "_run", plain)
        manager.stop()
        return Counter(one["operator"] for one in scheduler.requested)

    operators = asyncio.run(decide())
    record_property("longest turns of the event loop, CPU ms", [round(1000 * one) for one in sorted(turns)[-5:]])
    assert len(operators) == 11
    assert len(turns) > 10


def test_a_long_loop_pauses_so_that_others_have_a_turn() -> None:
    async def loop() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        pauses = Pauses()
        end = time.monotonic() + 5 * SLICE_S
        while time.monotonic() < end:
            await pauses.maybe()
        task.cancel()
        return turns

    assert asyncio.run(loop()) >= 2


@pytest.fixture
def own_collections() -> Iterator[None]:
    """No object is frozen, and Python collects nothing of its own accord; as before at the end."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.unfreeze()
    gc.set_threshold(1_000_000, 10, 10)
    yield
    gc.set_threshold(*thresholds)
    if frozen:
        gc.freeze()


class Cyclic:
    """Garbage that only a collection ends."""

    def __init__(self) -> None:
        self.itself = self


def test_new_objects_are_visited_more_rarely_until_the_end(own_collections: None) -> None:
    limit = event_loop.CollectionLimit()
    limit.start()
    assert gc.get_threshold() == (1_000_000, 10, 10)  # the process itself collects more rarely
    limit.stop()
    gc.set_threshold(700, 10, 10)
    limit.start()
    limit.start()
    assert gc.get_threshold() == (event_loop.YOUNG_OBJECTS, event_loop.YOUNG_COLLECTIONS, 10)
    limit.stop()
    assert gc.get_threshold() != (700, 10, 10)  # the other user is there
    limit.stop()
    assert gc.get_threshold() == (700, 10, 10)


def test_new_objects_are_visited_once_and_all_objects_when_the_process_has_grown_or_at_the_end(
    own_collections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "VISIT_S", 0.0)
    used = [100 << 20]
    limit = event_loop.CollectionLimit(memory=lambda: used[0])
    limit.start()
    limit.freeze()
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    ended, lasting = Cyclic(), Cyclic()
    found, later = weakref.ref(ended), weakref.ref(lasting)
    many = [Cyclic() for _ in range(1000)]  # more than others, such as threads of earlier tests, end meanwhile
    del ended
    limit.check()
    assert found() is None
    assert gc.get_freeze_count() > frozen
    del lasting, many
    used[0] += event_loop.GROWTH_BYTES
    limit.check()
    assert later() is not None  # frozen
    used[0] += 1
    limit.check()
    assert later() is None
    lasting = Cyclic()
    later = weakref.ref(lasting)
    limit.check()
    del lasting
    limit.stop()
    assert not gc.get_freeze_count()
    gc.collect()
    assert later() is None


def test_new_objects_are_visited_no_more_than_about_twice_a_second(own_collections: None) -> None:
    limit = event_loop.CollectionLimit()
    limit.start()
    limit.freeze()
    limit.check()
    found = weakref.ref(Cyclic())
    limit.check()
    assert found() is not None
    limit.stop()


def test_what_ended_after_it_was_frozen_is_collected_in_a_process_that_does_not_grow(
    own_collections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"VISIT_S": 0.0, "FULL_S": 1.0, "FULL_SHARE": 1.0}.items():
        monkeypatch.setattr(event_loop, name, value)
    limit = event_loop.CollectionLimit(memory=lambda: 100 << 20)
    limit.start()
    in_use = Cyclic()
    reference = weakref.ref(in_use)
    limit.freeze()
    del in_use
    limit.check()
    assert reference() is not None  # frozen
    end = time.monotonic() + 60
    while reference() is not None and time.monotonic() < end:
        time.sleep(0.05)
        limit.check()
    assert reference() is None
    assert gc.get_freeze_count() > 1000
    limit.stop()


@pytest.mark.parametrize("longest_s", [0.0, 1e9])
def test_objects_are_frozen_once_a_full_collection_takes_long(
    own_collections: None, monkeypatch: pytest.MonkeyPatch, longest_s: float
) -> None:
    monkeypatch.setattr(event_loop, "LONG_COLLECTION_S", longest_s)
    for _ in range(2):
        limit = event_loop.CollectionLimit()
        limit.start()
        limit.check()
        assert not gc.get_freeze_count()
        gc.collect()
        limit.check()
        assert (gc.get_freeze_count() > 1000) == (not longest_s)
        limit.stop()
        assert not gc.get_freeze_count()


def test_what_others_froze_stays_frozen(own_collections: None) -> None:
    gc.freeze()
    limit = event_loop.CollectionLimit()
    limit.start()
    limit.freeze()
    limit.check()
    limit.stop()
    assert gc.get_freeze_count() > 1000
    gc.unfreeze()


def test_dask_keeps_few_of_the_messages_that_it_has_sent() -> None:
    async def kept() -> list[list[int]]:
        scheduler = StandInScheduler()
        manager = manager_on(scheduler, requests_of(1), hosts=1)
        streams = [SimpleNamespace(recent_message_log=deque(range(50), maxlen=1000)) for _ in range(2)]
        scheduler.stream_comms["tcp://0:1"], scheduler.client_comms["client"] = streams
        await manager.start(cast(Scheduler, scheduler))
        manager.stop()
        for stream in streams:
            stream.recent_message_log.append(50)
        return [list(stream.recent_message_log) for stream in streams]

    assert asyncio.run(kept()) == [list(range(41, 51))] * 2


@pytest.mark.parametrize(("before", "more"), [(98, 1), (98, 2), (100, 5)])
def test_messages_to_many_workers_wait_for_no_more_and_those_to_the_driver_do(before: int, more: int) -> None:
    async def intervals() -> tuple[set[Any], float]:
        scheduler = StandInScheduler()
        manager = SlotManager("run-0", RunConfig(requests_of(1), {"stage-0": b""}), "client")
        client = SimpleNamespace(recent_message_log=deque(), interval=0.002)
        scheduler.client_comms["client"] = client

        def join(number: int) -> str:
            address = f"tcp://{number}"
            scheduler.workers[address] = StandInWorker(address)
            scheduler.stream_comms[address] = SimpleNamespace(recent_message_log=deque(), interval=0.005)
            return address

        for number in range(before):
            join(number)
        await manager.start(cast(Scheduler, scheduler))
        for number in range(before, before + more):
            manager.add_worker(cast(Scheduler, scheduler), join(number))
        manager.stop()
        return {1.0 + stream.interval for stream in scheduler.stream_comms.values()}, client.interval

    assert asyncio.run(intervals()) == (({1.005}, 0.002) if before + more < 100 else ({None}, CLIENT_INTERVAL_S))


def test_messages_that_are_sent_at_once_all_arrive_in_order() -> None:
    async def arrived() -> tuple[list[int], int, int]:
        received: list[int] = []
        done = asyncio.Event()

        async def receive(comm: Any) -> None:
            with suppress(CommClosedError):
                while True:
                    received.extend(await comm.read())
            done.set()

        async with listen("tcp://127.0.0.1:0", receive) as listener:
            stream = BatchedSend(interval="1 hour")
            compat.send_at_once(cast(Scheduler, SimpleNamespace(stream_comms={"worker": stream})), "worker")
            stream.start(await connect(listener.contact_address))
            for number in range(50):
                stream.send(2 * number, 2 * number + 1)
                if number % 3:
                    await asyncio.sleep(0.001 * (number % 7))
            while len(received) < 100:
                await asyncio.sleep(0.001)
            stream.send(100)
            await stream.close()
            await done.wait()
        return received, stream.batch_count, len(stream.buffer)

    received, batches, left = asyncio.run(asyncio.wait_for(arrived(), 30))
    assert received == list(range(101))
    assert 10 < batches < 60
    assert not left


def test_an_error_in_a_thread_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_thread(divmod, 1, 0))
