"""Scheduler plugin: tracks slots per worker and reconciles them with the desired allocation."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distributed import Scheduler, Status
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from dcurate.cluster import compat
from dcurate.cluster.scale_api import DESIRED_WORKERS, OFFER, offered_shapes
from dcurate.cluster.worker_info import WorkerInfo
from dcurate.cluster.worker_shape import Shape
from dcurate.core.events import GpuSample, HostSample
from dcurate.engine.allocate.assignment import Assignment, SlotClaim
from dcurate.engine.allocate.controller import AllocationController, DesiredState
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState
from dcurate.engine.dask.event_loop import Pauses, in_thread
from dcurate.engine.dask.recycling import Recycler
from dcurate.engine.dask.routing import TaskRouter
from dcurate.engine.dask.worker_plugin import PLUGIN, belongs_to, resource_name, split_prefix, task_prefix, topic

#: Seconds between two samples of the hosts.
HOSTS_INTERVAL_S = 2.0
#: How often to check what changes without an event (pauses, lifetimes, memory), in milliseconds.
TICK_MS = 500
#: The least time between two decisions, in seconds.
MIN_INTERVAL_S = 0.1
#: A worker that is paused for longer than this, in seconds, gets no slots.
PAUSE_S = 10.0
#: A run all of whose workers are paused and idle for this many seconds does not continue by itself.
STUCK_S = 120.0
#: The scheduler's extension with an event per run that is set when the driver has sent its last message.
RUN_ENDED = "dcurate-run-ended"
#: How long to wait for that, in seconds.
RUN_ENDED_S = 10.0
#: For how long the desired number of workers is cached, in seconds.
DESIRED_S = 2.0


@dataclass(frozen=True)
class RunConfig:
    """What a `SlotManager` needs to know about a run.

    Args:
        requests: of the operators, in order.
        payloads: each operator's pickled `OperatorSpec`, by name.
        sequential: whether operators run one after the other (batch mode).
        priors: rates of earlier runs, by operator, as `AllocationController` takes them.
        lifetimes: by operator, the minutes that a worker process lives, and the minutes between two restarts.
        interval_s: the longest time between two decisions, in seconds.
        recycle_share: share of a worker's memory limit at which its process is restarted.
        worker_timeout_s: how long to wait for workers where there are none, in seconds.
    """

    requests: Sequence[OperatorRequest]
    payloads: Mapping[str, bytes]
    sequential: bool = False
    priors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lifetimes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    interval_s: float = 180.0
    recycle_share: float = 0.75
    worker_timeout_s: float = 600.0


class SlotManager(SchedulerPlugin):
    """Tracks the slots of one run, asks the controller for the desired state, and requests it from the workers.

    Args:
        run: id of the run.
        config: of the run.
        client: id of the Dask client that receives events.
    """

    def __init__(self, run: str, config: RunConfig, client: str) -> None:
        self.name = f"dcurate-slot-manager-{run}"
        self.run = run
        self.config = config
        self.client = client
        self.operators = [request.operator for request in config.requests]
        self.controller = AllocationController(config.requests, config.sequential, config.priors)
        self.members: dict[str, WorkerState] = {}
        self.requested: Assignment = {}
        self.ready: dict[tuple[str, str], int] = {}
        self.leaving: set[tuple[str, str]] = set()
        self.paused: dict[str, float] = {}
        #: Reports since the last decision; the controller is used in one thread at a time, never on the event loop.
        self._reports: list[Callable[[], None]] = []
        self._desired: dict[str, int] = {}
        self._desired_until = 0.0
        self.recycler = Recycler(self, config.lifetimes, config.recycle_share)
        self.target: Assignment = {}
        self._announced: dict[str, int] = {}
        self._hosts_sent_at = 0.0
        self._last_with_workers = time.monotonic()
        self.ended = False

    # What Dask calls

    async def start(self, scheduler: Scheduler) -> None:
        """Start on a scheduler: ask every worker to register."""
        self.scheduler = scheduler
        prefixes = {task_prefix(self.run, name): name for name in self.operators}
        self.router = TaskRouter(scheduler, prefixes, split_prefix(self.run))
        runs = compat.extensions(scheduler).setdefault("dcurate", {})
        runs[self.run] = self
        for kind in ("register", "slots", "event", "stats"):
            compat.handle_stream(scheduler, f"dcurate-{kind}", partial(_dispatch, runs, kind))
        ended_events = compat.extensions(scheduler).setdefault(RUN_ENDED, {})
        ended_events[self.run] = asyncio.Event()
        compat.handle_stream(scheduler, RUN_ENDED, partial(_driver_done, ended_events))
        compat.handle_rpc(scheduler, DESIRED_WORKERS, partial(total_desired_workers, scheduler))
        compat.subscribe_client(scheduler, topic(self.run), self.client)
        self._due, self._unreconciled = asyncio.Event(), asyncio.Event()
        self._controller_free = asyncio.Lock()
        self._loops = [asyncio.ensure_future(each) for each in (self._decide_when_due(), self._reconcile_when_due())]
        for loop in self._loops:
            loop.add_done_callback(self._failed)
        self._ticks = PeriodicCallback(self._tick, TICK_MS)
        self._ticks.start()
        for worker in list(scheduler.workers):
            self.add_worker(scheduler, worker)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Ask a worker that joined, or came back after it died, to register."""
        compat.send_to_worker(scheduler, worker, {"op": "dcurate-describe", "run": self.run})

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Forget a worker; its tasks fail at once, and the driver runs them again."""
        self.router.selector.remove_worker(worker)
        if self.members.pop(worker, None) is None:
            return
        self.requested.pop(worker, None)
        self.target.pop(worker, None)
        self.paused.pop(worker, None)
        self.leaving = {one for one in self.leaving if one[0] != worker}
        self.ready = {one: slots for one, slots in self.ready.items() if one[0] != worker}
        if not self.recycler.forget(worker):
            self.publish({"lost": worker})
        self._due.set()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Stop the run if its driver is gone without a word."""
        if client == self.client:
            for worker in list(self.requested):
                self.drain(worker)
            stop_run(scheduler, self.name)
            compat.extensions(scheduler)[RUN_ENDED].pop(self.run, None)

    def update_graph(self, scheduler: Scheduler, *, tasks: Sequence[Any], **_: Any) -> None:
        """Route new tasks, and report those whose worker dies at the first death."""
        compat.fail_on_first_death(scheduler, filter(self.router.operator_of, tasks))
        self.router.route(tasks)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Update the router when a task changes its state."""
        self.router.on_transition(key, finish)

    async def close(self) -> None:
        """Stop when the scheduler closes."""
        self.stop()

    def stop(self) -> None:
        """Decide nothing more, and leave nothing of the run on the scheduler."""
        self.ended = True
        self._ticks.stop()
        for loop in self._loops:
            loop.cancel()
        compat.extensions(self.scheduler).get("dcurate", {}).pop(self.run, None)
        compat.forget_resources(self.scheduler, [resource_name(self.run, operator) for operator in self.operators])

    # What the driver and workers say

    def on_stats(self, stats: Mapping[str, Any], **_: Any) -> None:
        """Handle statistics of the driver."""
        self._reports.append(partial(self.controller.record_stats, stats, time.monotonic()))
        self._due.set()

    def on_register(self, worker: str, info: Mapping[str, Any]) -> None:
        """Add a worker that sent its info."""
        state = self.scheduler.workers.get(worker)
        if state is not None:
            one = WorkerInfo.from_dict(info)
            self.members[worker] = WorkerState(worker, one.host, state.nthreads, one.cpus, one.gpus, one.kind)
            self.recycler.add_worker(worker, time.monotonic())
            self._due.set()

    def on_event(self, worker: str, event: dict[str, Any]) -> None:
        """Publish an event of a worker."""
        self.publish({**event, "worker": worker})

    def on_slots(self, worker: str, operator: str, slots: int, setup_seconds: float, **more: Any) -> None:
        """Record a worker's slots, publish them, offer them as resources, and schedule the tasks that waited."""
        state = self.scheduler.workers.get(worker)
        if state is None or worker not in self.members:
            return
        if more.get("left"):
            self.leaving.discard((worker, operator))
            self._unreconciled.set()
            return
        raised = slots > self.ready.get((worker, operator), 0)
        self.ready[worker, operator] = slots
        self.router.selector.set_slots(operator, worker, slots)
        compat.set_resource(self.scheduler, worker, resource_name(self.run, operator), more["offered"])
        self._reassign(worker, more.get("queued", ()))
        if raised:
            self._reports.append(partial(self.controller.record_setup, operator, setup_seconds))
            self._wake(state)
        event = {"worker": worker, "slots": slots, "setup_seconds": setup_seconds}
        self.publish({"ready": operator, **event})
        self._due.set()

    def _reassign(self, worker: str, keys: Sequence[Any]) -> None:
        """Send tasks elsewhere that a worker has not begun and will not begin."""
        keys = [tuple(key) if isinstance(key, list) else key for key in keys]
        compat.reassign_tasks(self.scheduler, worker, keys, "reassign")

    # What it decides and does

    async def desired_workers(self, shapes: Mapping[str, Shape]) -> dict[str, int]:
        """Return how many workers of each kind the run wants; computed again every few seconds."""
        async with self._controller_free:
            if time.monotonic() >= self._desired_until:
                members = list(self.members.values())
                self._desired = await in_thread(self.controller.desired_workers, shapes, members)
                self._desired_until = time.monotonic() + DESIRED_S
        return self._desired

    async def _decide(self) -> DesiredState | None:
        """Decide in a thread, on copies: the event loop goes on, and what is reported meanwhile counts next time."""
        async with self._controller_free:
            now = time.monotonic()
            reports, self._reports = self._reports, []
            members = [
                member for address, member in self.members.items() if now - self.paused.get(address, now) < PAUSE_S
            ]
            requested = {worker: dict(claims) for worker, claims in self.requested.items()}
            return await in_thread(_decide, reports, self.controller, now, members, requested, dict(self.ready))

    async def _decide_when_due(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), min(self.controller.next_check_s, self.config.interval_s))
            self._due.clear()
            decision = await self._decide()
            if decision is not None:
                self.target = decision.assignment
                for change in decision.changes:
                    if self._announced.get(change.unit) == change.after:
                        continue  # it is not there yet, and was announced before
                    self._announced[change.unit] = change.after
                    counts = {"before": change.before, "after": change.after}
                    self.publish({"decision": change.unit, "reason": change.reason, **counts})
                self._unreconciled.set()
            await asyncio.sleep(MIN_INTERVAL_S)

    def _failed(self, loop: asyncio.Task[None]) -> None:
        """End the run if the decision loop failed."""
        error = None if loop.cancelled() else loop.exception()
        if error is not None:
            trace = "".join(traceback.format_exception(error))
            self.publish(
                {
                    "failed": "",
                    "error": f"the allocation controller failed: {error!r}; please report this",
                    "notes": [trace],
                }
            )

    async def _reconcile_when_due(self) -> None:
        while True:
            await self._unreconciled.wait()
            self._unreconciled.clear()
            await self._reconcile()

    async def _reconcile(self) -> None:
        """Request slots so that the workers get closer to the target: release first, then add."""
        target, pauses = self.target, Pauses()
        for worker in list(self.requested):
            desired = target.get(worker, {})
            for operator, claim in list(self.requested.get(worker, {}).items()):
                new = desired.get(operator, SlotClaim(0))
                if new.gpus != claim.gpus:
                    new = SlotClaim(0)
                if new.slots < claim.slots:
                    self._request_slots(worker, operator, new)
            await pauses.maybe()
        leaving = {worker for worker, _ in self.leaving}
        busy = {name for worker in leaving for name in self._own_gpus(worker)}
        for worker in list(target):
            if worker in self.members and worker not in leaving and not self.recycler.is_recycling(worker):
                requested = self.requested.get(worker, {})
                for operator, claim in target.get(worker, {}).items():
                    more = claim.slots > requested.get(operator, SlotClaim(0)).slots
                    if more and not busy & self._own_gpus(worker):
                        self._request_slots(worker, operator, claim)
            await pauses.maybe()

    def _own_gpus(self, worker: str) -> set[str]:
        member = self.members.get(worker)
        return {f"{member.host}/{name}" for name, _ in member.gpus[:1]} if member else set()

    def _request_slots(self, worker: str, operator: str, claim: SlotClaim) -> None:
        """Request a number of slots from a worker; if it is lower than before, send no new tasks there."""
        before = self.requested.get(worker, {}).get(operator, SlotClaim(0)).slots
        name = resource_name(self.run, operator)
        if claim.slots < before:
            self.leaving.add((worker, operator))
            self.router.selector.set_slots(operator, worker, claim.slots)
            state = self.scheduler.workers.get(worker)
            if state is not None and name in state.resources:
                compat.set_resource(self.scheduler, worker, name, state.resources[name] * claim.slots // before)
        claims = self.requested.setdefault(worker, {})
        claims[operator] = claim
        if not claim.slots:
            del claims[operator]
        payload = self.config.payloads[operator]
        order = {"run": self.run, "operator": operator, "slots": claim.slots, "payload": payload, "gpus": claim.gpus}
        compat.send_to_worker(self.scheduler, worker, {"op": "dcurate-set-slots", **order})

    def _tick(self) -> None:
        """Check what changes without an event."""
        for worker, state in self.scheduler.workers.items():
            if worker not in self.members:
                continue
            if (state.status != Status.running) != (worker in self.paused):
                self._set_paused(worker, state.status != Status.running)
            stray = [task.key for task in state.processing if self._is_stray(worker, state, task)]
            self._reassign(worker, stray)
        if any(map(self.router.is_of_run, compat.unrunnable_keys(self.scheduler))):
            for worker in {worker for worker, _ in self.ready} & set(self.scheduler.workers):
                self._wake(self.scheduler.workers[worker])
        now = time.monotonic()
        self._check_stuck(now)
        self._check_deserted(now)
        self.recycler.check(now)
        if now - self._hosts_sent_at >= HOSTS_INTERVAL_S:
            self._hosts_sent_at = now
            workers = self.scheduler.workers
            self.publish(
                {
                    "hosts": host_samples(
                        (member, workers[one]) for one, member in self.members.items() if one in workers
                    )
                }
            )

    def _check_stuck(self, now: float) -> None:
        """End a run whose workers are all out of memory and idle."""
        workers = self.scheduler.workers
        idle = (state.status == Status.paused and not state.executing for state in workers.values())
        if workers and all(now - self.paused.get(one, now) >= STUCK_S for one in workers) and all(idle):
            fullest = max(workers.values(), key=lambda state: int(state.metrics.get("memory", 0)))
            used, limit = fullest.metrics.get("memory", 0) / 1e9, (fullest.memory_limit or 0) / 1e9
            error = (
                f"all workers are paused as their memory is full ({used:.3g} of {limit:.3g} GB), and no call is under "
                "way that would empty it; use a smaller blocksize or batch_size, or fewer workers with more memory, "
                "and see that the disk to which they move results is not full"
            )
            self.publish({"failed": "", "error": error})

    def _check_deserted(self, now: float) -> None:
        """End a run that has had no worker for long, unless the cluster starts workers itself."""
        if self.scheduler.workers or OFFER in compat.extensions(self.scheduler):
            self._last_with_workers = now
        elif now - self._last_with_workers >= self.config.worker_timeout_s:
            error = (
                f"the cluster has had no workers for {self.config.worker_timeout_s:g} seconds; start some with 'dask "
                "worker' and run again with resume=True, or have runs wait longer with worker_timeout_s"
            )
            self.publish({"failed": "", "error": error})

    def _wake(self, state: Any) -> None:
        """Schedule tasks that no worker could run, where this one can."""
        compat.schedule_unrunnable(self.scheduler, state, "wake")

    def operators_on(self, worker: str) -> tuple[str, ...]:
        """Names of the operators that have slots on a worker."""
        return tuple(self.requested.get(worker, ()))

    def is_draining(self, worker: str) -> bool:
        """Whether slots on a worker are being torn down."""
        return any(one[0] == worker for one in self.leaving)

    def drain(self, worker: str) -> None:
        """Tear down all slots of a worker."""
        for operator in list(self.requested.get(worker, {})):
            self._request_slots(worker, operator, SlotClaim(0))

    def _set_paused(self, worker: str, paused: bool) -> None:
        if paused:
            self.paused[worker] = time.monotonic()
        else:
            del self.paused[worker]
        for (address, operator), slots in self.ready.items():
            if address == worker:
                event = {"worker": worker, "slots": 0 if paused else slots, "setup_seconds": 0.0}
                self.publish({"ready": operator, **event})

    def _is_stray(self, worker: str, state: Any, task: Any) -> bool:
        """Whether a task was sent to a worker that has no slot for it any more (work stealing can be late)."""
        operator = self.router.operator_of(task.key)
        if operator is None:
            return False
        return not state.resources.get(resource_name(self.run, operator)) and (worker, operator) not in self.leaving

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to the driver, unless the run has ended."""
        if not self.ended:
            self.scheduler.log_event(topic(self.run), event)


def _dispatch(runs: Mapping[str, SlotManager], kind: str, run: str, **what: Any) -> None:
    """Pass a message of a worker or driver to the slot manager of its run, if it has not ended."""
    if run in runs:
        getattr(runs[run], f"on_{kind}")(**what)


def stop_run(dask_scheduler: Scheduler, name: str) -> None:
    """Remove the slot manager of a run from the scheduler; for `Client.run_on_scheduler`.

    Dask's own way to unregister a plugin does not stop it: its clock would tick for as long as the scheduler lives.
    """
    manager = compat.remove_plugin(dask_scheduler, name)
    if isinstance(manager, SlotManager):
        manager.stop()


async def install_worker_plugin(dask_scheduler: Scheduler, plugin: bytes) -> bool:
    """Install the pickled `DcurateWorkerPlugin` on all workers; return False if it was installed before.

    Like `Client.register_plugin`, except that a worker that dies meanwhile is no error.
    """
    return await compat.add_worker_plugin(dask_scheduler, PLUGIN, plugin)


def _driver_done(ended_events: Mapping[str, asyncio.Event], run: str, **_: Any) -> None:
    """Note that the driver of a run has sent its last message, so that all of its tasks are known."""
    if run in ended_events:
        ended_events[run].set()


async def forget_run(dask_scheduler: Scheduler, run: str, client: str) -> None:
    """Release what is left of an ended run, tasks and events; for `Client.run_on_scheduler`.

    The driver has cancelled the tasks, but some may be wanted for as long as an error's traceback holds their futures,
    and some may still be under way: this call overtakes what travels on the driver's stream.
    """
    ended_events = compat.extensions(dask_scheduler).get(RUN_ENDED, {})
    if run in ended_events:
        with suppress(TimeoutError):
            await asyncio.wait_for(ended_events[run].wait(), RUN_ENDED_S)
        ended_events.pop(run, None)
    compat.forget_topic(dask_scheduler, topic(run))
    keys = [key for key in dask_scheduler.tasks if isinstance(key, tuple) and belongs_to(run, key[0])]
    compat.release_keys(dask_scheduler, keys, client, "over")
    # Last, as the scheduler notes the name of each resource that a task needs when it looks for a worker.
    names = compat.resource_names(dask_scheduler)
    compat.forget_resources(
        dask_scheduler, (name for name in names if name.startswith("stage-") and belongs_to(run, name))
    )


async def total_desired_workers(scheduler: Scheduler, **_: Any) -> dict[str, int]:
    """Return how many workers of each kind the runs on a scheduler want together."""
    shapes = offered_shapes(scheduler)
    total: Counter[str] = Counter()
    for manager in list(compat.extensions(scheduler)["dcurate"].values()):
        total.update(await manager.desired_workers(shapes) if shapes else {})
    return dict(total)


def _decide(reports: Iterable[Callable[[], None]], controller: AllocationController, *state: Any) -> Any:
    """Report to the controller what it has not seen yet, and have it decide."""
    for report in reports:
        report()
    return controller.decide(*state)


def host_samples(workers: Iterable[tuple[WorkerState, Any]]) -> list[dict[str, Any]]:
    """Return a `HostSample` of each host as plain values, sorted by name.

    Args:
        workers: of each worker, its info and the scheduler's ``WorkerState``.
    """
    hosts: dict[str, HostSample] = {}
    gpus: dict[str, dict[str, GpuSample]] = {}
    for worker, state in workers:
        metrics = state.metrics
        before = hosts.get(worker.host, HostSample(worker.host, 0, 0, 0.0, 0, 0))
        hosts[worker.host] = HostSample(
            host=worker.host,
            workers=before.workers + 1,
            threads=before.threads + state.nthreads,
            cpu=before.cpu + metrics.get("cpu", 0.0) / 100,
            memory=before.memory + int(metrics.get("memory", 0)),
            memory_limit=before.memory_limit + int(state.memory_limit or 0),
            spilled=before.spilled + int(metrics.get("spilled_bytes", {}).get("disk", 0)),
        )
        if worker.gpus and "gpu" in metrics:
            name, memory_total = worker.gpus[0]
            gpus.setdefault(worker.host, {})[name] = _gpu_sample(
                name, int(memory_total), metrics["gpu"], state.extra.get("gpu", {})
            )
    return [
        {**host.to_dict(), "gpus": [dict(vars(gpu)) for _, gpu in sorted(gpus.get(name, {}).items())]}
        for name, host in sorted(hosts.items())
    ]


def _gpu_sample(name: str, memory_total: int, metrics: Mapping[str, Any], static: Mapping[str, Any]) -> GpuSample:
    """Sample a GPU as one of its workers sees it; untested on a GPU."""
    total = int(static.get("memory-total") or memory_total)
    return GpuSample(name, int(metrics.get("memory-used") or 0), total, (metrics.get("utilization") or 0) / 100)
