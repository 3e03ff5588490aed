"""The other processes of `benchmarks.scheduler`: a Dask scheduler with a meter, and workers that only answer.

A stand-in speaks the protocol of a Dask worker with dcurate's plugin, on sockets of its own: it registers, gives its
slots, takes tasks, fetches no input but says that it did, ends each task after some seconds, and sends heartbeats. It
has no threads and runs nothing, so that a thousand of them fit into a process or two.
"""

from __future__ import annotations

import array
import asyncio
import gc
import os
import pickle
import random
import signal
import time
import traceback
from collections import deque
from types import FrameType
from typing import Any

import psutil
from distributed import Scheduler
from distributed.batched import BatchedSend
from distributed.comm import connect
from distributed.core import Server
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol import to_serialize
from distributed.versions import get_versions

from dcurate.cluster.versions import versions
from dcurate.cluster.worker_info import WorkerInfo
from dcurate.engine.dask.worker_plugin import describe, has_plugin, resource_name
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.events import StageStats

#: Seconds between two looks at the delay of the scheduler's event loop, and between two samples of everything else.
TICK_S, SAMPLE_S = 0.01, 1.0

#: CPU seconds between two looks at what its event loop does, and the part of a path by which dcurate's code is known.
LOOK_S, _OWN = 0.01, f"{os.sep}dcurate{os.sep}"

#: Bytes of every output, as the stand-ins report them.
OUTPUT_BYTES = 100_000


# The scheduler


class Meter(SchedulerPlugin):
    """Measures the process of the scheduler from within.

    Attributes:
        samples: each second: the time, CPU seconds, RSS in bytes, tasks that ended, and the number of delays so far.
        delays: seconds by which the event loop was late, looked at every `TICK_S`.
        busy: CPU seconds that its thread used meanwhile: the delay but for what other processes take.
        collections: of Python's garbage collector: the time of its end, the generation, and its CPU seconds.
        looks: every `LOOK_S` of CPU: the time, and whether dcurate's code ran in the thread of the event loop.
    """

    name = "meter"

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, int, int, int]] = []
        self.delays = array.array("d")
        self.busy = array.array("d")
        self.collections: list[tuple[float, int, float]] = []
        self.looks: list[tuple[float, bool]] = []
        self.ended = 0
        self._collecting = 0.0
        gc.callbacks.append(self.on_collection)

    def on_collection(self, phase: str, about: dict[str, int]) -> None:
        """Note how long a garbage collection takes (called by Python)."""
        now = time.thread_time()
        if phase == "stop":
            self.collections.append((time.perf_counter(), about["generation"], now - self._collecting))
        self._collecting = now

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Count the tasks that end."""
        self.ended += start == "processing" and finish == "memory"

    def look(self, _signal: int, frame: FrameType | None) -> None:
        """Note whether dcurate's code runs (called by Python)."""
        files = (one.f_code.co_filename for one, _ in traceback.walk_stack(frame))
        self.looks.append((time.perf_counter(), any(_OWN in file for file in files)))

    async def measure(self) -> None:
        """Measure until cancelled."""
        now, cpu, sampled = time.perf_counter(), time.thread_time(), 0.0
        while True:
            await asyncio.sleep(TICK_S)
            before, cpu_before, now, cpu = now, cpu, time.perf_counter(), time.thread_time()
            self.delays.append(max(0.0, now - before - TICK_S))
            self.busy.append(min(self.delays[-1], cpu - cpu_before))
            if now - sampled >= SAMPLE_S:
                sampled = now
                self.sample()

    def sample(self) -> None:
        """Sample everything but the delays."""
        rss = psutil.Process().memory_info().rss
        self.samples.append((time.perf_counter(), time.process_time(), rss, self.ended, len(self.delays)))


def measured(dask_scheduler: Scheduler) -> dict[str, Any]:
    """Return what the meter has measured; for `Client.run_on_scheduler`."""
    meter = dask_scheduler.plugins["meter"]
    meter.sample()
    return {
        "samples": meter.samples,
        "delays": list(meter.delays),
        "busy": list(meter.busy),
        "collections": meter.collections,
        "looks": list(meter.looks),
    }


def scheduler(preload: list[str]) -> None:
    """Run a scheduler with a meter; print its address.

    Args:
        preload: modules, as those of ``dask scheduler --preload``.
    """

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False, preload=preload) as one:
            meter = Meter()
            one.add_plugin(meter, name=meter.name)
            signal.signal(signal.SIGPROF, meter.look)
            signal.setitimer(signal.ITIMER_PROF, LOOK_S, LOOK_S)
            measuring = asyncio.ensure_future(meter.measure())
            print(one.address, flush=True)
            await one.finished()
            measuring.cancel()

    asyncio.run(run())


# Workers


class StandIn:
    """One worker that only answers.

    Args:
        home: the process's server.
        name: of the worker and of its host.
        threads: the slots that it can have.
        seconds: mean duration of a task.
        last: the operator whose tasks have no output.
    """

    def __init__(self, home: StandIns, name: str, address: str, threads: int, seconds: float, last: str) -> None:
        self.home, self.name, self.address, self.threads = home, name, address, threads
        self.seconds, self.last = seconds, last
        self.stream = BatchedSend(interval="2ms")
        #: Slots by the resource that a task needs; a task without one takes a thread.
        self.slots = {"": threads}
        self.running: dict[Any, tuple[str, float]] = {}
        self.queued: dict[str, deque[dict[str, Any]]] = {}
        self.chance = random.Random(name)

    async def serve(self) -> None:
        """Register, then answer the scheduler until it goes away."""
        comm = await connect(self.home.scheduler, deserialize=False)
        now = time.time()
        await comm.write(
            {
                "op": "register-worker",
                "reply": False,
                "address": self.address,
                "status": "running",
                "nthreads": self.threads,
                "name": self.name,
                "now": now,
                "resources": {},
                "memory_limit": 16 * 10**9,
                "local_directory": "",
                "services": {},
                "nanny": None,
                "pid": os.getpid(),
                "versions": self.home.versions,
                "metrics": self.metrics(),
                "extra": {},
                "stimulus_id": f"worker-connect-{now}",
                "server_id": self.name,
            },
            serializers=["msgpack"],
        )
        await comm.read()
        self.stream.start(comm)
        self.home.registered += 1
        try:
            while True:
                for message in await comm.read():
                    answer = getattr(self, "on_" + message["op"].replace("-", "_"), None)
                    if answer is not None:
                        answer(message)
        except OSError:
            return  # the scheduler has gone

    def send(self, op: str, **message: Any) -> None:
        """Send a message to the scheduler."""
        self.stream.send({"op": op, **message})

    def metrics(self) -> dict[str, Any]:
        """The figures of a heartbeat."""
        return {
            "task_counts": {"executing": len(self.running)},
            "bandwidth": {"total": 1e8, "workers": {}, "types": {}},
            "digests_total_since_heartbeat": {},
            "managed_bytes": 0,
            "spilled_bytes": {"memory": 0, "disk": 0},
            "transfer": {
                f"{way}_{what}": 0 for way in ("incoming", "outgoing") for what in ("bytes", "count", "count_total")
            },
            "event_loop_interval": 0.02,
            "cpu": 100.0 * len(self.running),
            "memory": 10**9,
            "time": time.time(),
        }

    # What dcurate asks for

    def on_dcurate_describe(self, message: dict[str, Any]) -> None:
        info = WorkerInfo(self.name, float(self.threads), memory=16 * 10**9)
        self.send("dcurate-register", run=message["run"], info=info.to_dict(), versions=versions())

    def on_dcurate_set_slots(self, message: dict[str, Any]) -> None:
        run, operator, slots = message["run"], message["operator"], message["slots"]
        about = {"run": run, "operator": operator, "slots": slots, "setup_seconds": 0.0}
        name = resource_name(run, operator)
        leaving = slots < self.slots.get(name, 0)
        self.slots[name] = slots
        queued = [one["key"] for one in self.queued.pop(name, ())] if leaving else []
        self.send("dcurate-slots", **about, offered=slots, queued=queued, blocks=slots < self.threads)
        if leaving:
            self.send("dcurate-slots", **about, left=True)
        self._start(name)

    # What Dask asks for

    def on_compute_task(self, message: dict[str, Any]) -> None:
        absent = [key for key, holders in message["who_has"].items() if self.address not in holders]
        if absent:
            self.send("add-keys", keys=absent, stimulus_id=f"fetched-{time.time()}")
        (name,) = message["resource_restrictions"] or {"": 1}
        self.queued.setdefault(name, deque()).append(message)
        self._start(name)

    def on_free_keys(self, message: dict[str, Any]) -> None:
        keys = set(message["keys"])
        for name, queue in self.queued.items():
            if any(one["key"] in keys for one in queue):
                self.queued[name] = deque(one for one in queue if one["key"] not in keys)

    def on_steal_request(self, message: dict[str, Any]) -> None:
        key, state = message["key"], "executing" if message["key"] in self.running else None
        for queue in self.queued.values():
            for one in [one for one in queue if one["key"] == key]:
                queue.remove(one)
                state = "ready"
        self.send("steal-response", key=key, state=state, stimulus_id=message["stimulus_id"])

    def _start(self, name: str) -> None:
        """Start queued tasks of an operator in its free slots."""
        queue = self.queued.get(name)
        busy = sum(used == name for used, _ in self.running.values())
        while queue and busy < self.slots.get(name, 0):
            message, busy = queue.popleft(), busy + 1
            self.running[message["key"]] = (name, time.time())
            seconds = self.seconds * self.chance.uniform(0.5, 1.5)
            asyncio.get_running_loop().call_later(seconds, self._end, message, name)

    def _end(self, message: dict[str, Any], name: str) -> None:
        key, now = message["key"], time.time()
        _, began = self.running.pop(key)
        operator, _, run = key[0].partition("-")
        last = operator == self.last
        stats = StageStats(operator, 1, 1, 1, OUTPUT_BYTES, OUTPUT_BYTES, now - began)
        result = TaskResult([], [[stats]], [[]], [[] if last else [OUTPUT_BYTES]], now - began, [""], [[]])
        if name:
            self.send("dcurate-event", run=run, event={"task": key[1], **result.summary()})
        self.send(
            "task-finished",
            status="OK",
            key=key,
            run_id=message["run_id"],
            nbytes=1024 + OUTPUT_BYTES * (not last),
            type=_RESULT,
            typename="dcurate.engine.worker.operator_task.TaskResult",
            metadata={},
            thread=1,
            startstops=[{"action": "compute", "start": began, "stop": now}],
            stimulus_id=f"task-finished-{now}",
        )
        self._start(name)


_RESULT = pickle.dumps(TaskResult)


class StandIns(Server):
    """Many stand-ins in one process, each with an address of its own."""

    def __init__(self, address: str) -> None:
        super().__init__({"run": self.run, "plugin-add": _accept}, deserialize=True)
        self.scheduler = address
        self.versions = get_versions()
        self.registered = 0

    async def run(self, function: bytes, **_: Any) -> dict[str, Any]:
        """Answer `Client.run` of dcurate's own functions; a run leaves nothing behind here."""
        asked = pickle.loads(function)
        info = WorkerInfo("stand-in", 1.0).to_dict() | {"threads": 1}
        answers = {has_plugin: True, describe: info, versions: versions()}
        return {"status": "OK", "result": to_serialize(answers.get(asked, []))}

    async def heartbeat(self, worker: StandIn) -> None:
        """Send the heartbeats of a worker, as often as the scheduler asks for."""
        interval = 5.0
        while True:
            await asyncio.sleep(interval * worker.chance.uniform(0.5, 1.5))
            now = time.time()
            executing = {key: now - began for key, (_, began) in worker.running.items()}
            answer = await self.rpc(self.scheduler).heartbeat_worker(
                address=worker.address, now=now, metrics=worker.metrics(), executing=executing, extensions={}
            )
            interval = answer.get("heartbeat-interval", interval)


async def _accept(**_: Any) -> dict[str, str]:
    return {"status": "OK"}


def workers(address: str, first: int, count: int, threads: int, seconds: float, last: str) -> None:
    """Run stand-ins until the scheduler goes away.

    Args:
        first: number of the first.
        count: how many.
        threads: slots of each.
        seconds: mean duration of a task.
        last: the operator whose tasks have no output.
    """

    async def run() -> None:
        home = await StandIns(address)
        made = []
        for number in range(first, first + count):
            await home.listen("tcp://127.0.0.1:0")
            contact = home.listeners[-1].contact_address
            made.append(StandIn(home, f"stand-in-{number}", contact, threads, seconds, last))
        beating = [asyncio.ensure_future(home.heartbeat(one)) for one in made]
        serving = asyncio.gather(*(one.serve() for one in made))
        await asyncio.wait([serving, *beating], return_when=asyncio.FIRST_COMPLETED)
        for failed in [one for one in beating if one.done()]:
            failed.result()
        for one in beating:
            one.cancel()
        await home.close()

    asyncio.run(run())
