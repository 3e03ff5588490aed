"""The scheduler's part: it knows which worker holds which slots, decides what it should be, and has it made so."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distributed import Scheduler, Status
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from dcurate.cluster import compat
from dcurate.cluster.scale_api import OFFER, WANTED, offered
from dcurate.cluster.worker_info import WorkerInfo
from dcurate.cluster.worker_shape import Shape
from dcurate.engine.allocate.assignment import Assignment, SlotClaim
from dcurate.engine.allocate.controller import AllocationController
from dcurate.engine.allocate.requests import OperatorRequest, WorkerState
from dcurate.engine.dask.recycling import Recycler
from dcurate.engine.dask.routing import TaskRouter
from dcurate.engine.dask.telemetry import TELL_S, machines
from dcurate.engine.dask.worker_plugin import PLUGIN, group, is_of, parts, resource, topic

#: How often the scaler looks at what changes by itself (pauses, lifetimes, memory), in milliseconds.
TICK_MS = 500
#: The least time between two decisions, in seconds.
LEAST_S = 0.1
#: A worker that is paused for longer than this, in seconds, is not counted on.
PAUSE_S = 10.0
#: A run all of whose workers are paused and idle for so many seconds does not go on by itself.
STUCK_S = 120.0
#: The scheduler's extension with an event for each run: that the driver has said all that it will say on its stream.
OVER = "dcurate-over"
#: How long to wait for that, in seconds.
OVER_S = 10.0
#: For how long an answer to how many workers are wanted holds, in seconds.
WANTED_S = 2.0


@dataclass(frozen=True)
class RunConfig:
    """What the scaler is told about a run.

    Args:
        demands: what each operator asks for, in order.
        payloads: each operator's pickled program, by name.
        one_at_a_time: whether operators run one after the other (batch mode).
        priors: rates of earlier runs, by operator, as `AllocationController` takes them.
        lifetimes: of operators whose processes are recycled: minutes that one lives, and between two restarts.
        interval_s: the longest time between two looks at the allocation, in seconds.
        recycle_share: share of a worker's memory limit at which its process is recycled.
        worker_timeout_s: how long to wait for workers where there are none, in seconds.
    """

    demands: Sequence[OperatorRequest]
    payloads: Mapping[str, bytes]
    one_at_a_time: bool = False
    priors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lifetimes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    interval_s: float = 180.0
    recycle_share: float = 0.75
    worker_timeout_s: float = 600.0


class SlotManager(SchedulerPlugin):
    """Holds the truth about one run's slots, asks the governor what it should be, and has workers make it so.

    Args:
        run: id of the run.
        orders: what is to be run.
        client: id of the Dask client that is told the news.
    """

    def __init__(self, run: str, orders: RunConfig, client: str) -> None:
        self.name = f"dcurate-scaler-{run}"
        self.run = run
        self.orders = orders
        self.client = client
        self.operators = [demand.operator for demand in orders.demands]
        self.governor = AllocationController(orders.demands, orders.one_at_a_time, orders.priors)
        self.views: dict[str, WorkerState] = {}
        self.asked: Assignment = {}
        self.ready: dict[tuple[str, str], int] = {}
        self.leaving: set[tuple[str, str]] = set()
        self.paused: dict[str, float] = {}
        self._wanted: dict[str, int] = {}
        self._wanted_until = 0.0
        self.recycler = Recycler(self)
        self.asked_before: dict[str, tuple[str, ...]] = {}
        self.target: Assignment = {}
        self._told: dict[str, int] = {}
        self._told_hosts = 0.0
        self._with_workers = time.monotonic()
        self.is_over = False

    # What Dask calls

    async def start(self, scheduler: Scheduler) -> None:
        """Begin on a scheduler: ask every worker what it is."""
        self.scheduler = scheduler
        groups = {group(self.run, name): name for name in self.operators}
        self.steering = TaskRouter(scheduler, groups, parts(self.run))
        runs = compat.extensions(scheduler).setdefault("dcurate", {})
        runs[self.run] = self
        for sort in ("hello", "held", "told", "figures"):
            compat.handle_stream(scheduler, f"dcurate-{sort}", partial(_pass_on, runs, sort))
        over = compat.extensions(scheduler).setdefault(OVER, {})
        over[self.run] = asyncio.Event()
        compat.handle_stream(scheduler, OVER, partial(_said_all, over))
        compat.handle_rpc(scheduler, WANTED, lambda **_: wanted_by(scheduler))
        compat.subscribe_client(scheduler, topic(self.run), self.client)
        self._due = asyncio.Event()
        self._loop = asyncio.ensure_future(self._decide_when_due())
        self._loop.add_done_callback(self._failed)
        self._ticks = PeriodicCallback(self._tick, TICK_MS)
        self._ticks.start()
        for worker in list(scheduler.workers):
            self.add_worker(scheduler, worker)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker joined, or came back after it died."""
        compat.send_to_worker(scheduler, worker, {"op": "dcurate-describe", "run": self.run})

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """A worker is gone; what it ran fails at once, and the driver has it made again."""
        self.steering.placer.remove(worker)
        if self.views.pop(worker, None) is None:
            return
        self.asked.pop(worker, None)
        self.target.pop(worker, None)
        self.paused.pop(worker, None)
        self.leaving = {one for one in self.leaving if one[0] != worker}
        self.ready = {one: slots for one, slots in self.ready.items() if one[0] != worker}
        if not self.recycler.forget(worker):
            self.tell({"lost": worker})
        self._due.set()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """The driver is gone without a word: give the workers free."""
        if client == self.client:
            for worker in list(self.asked):
                self.empty(worker)
            end(scheduler, self.name)
            compat.extensions(scheduler)[OVER].pop(self.run, None)

    def update_graph(self, scheduler: Scheduler, *, tasks: Sequence[Any], **_: Any) -> None:
        """New tasks: the first death of a worker under one of the run's is told at once, not after three more."""
        compat.fail_on_first_death(scheduler, filter(self.steering.operator_of, tasks))
        self.steering.place(tasks)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """A task went on."""
        self.steering.moved(key, finish)

    async def close(self) -> None:
        """The scheduler closes."""
        self.stop()

    def stop(self) -> None:
        """The run is over: decide nothing more, and leave nothing of it with the scheduler."""
        self.is_over = True
        self._ticks.stop()
        self._loop.cancel()
        compat.extensions(self.scheduler).get("dcurate", {}).pop(self.run, None)
        compat.forget_resources(self.scheduler, [resource(self.run, operator) for operator in self.operators])

    # What the driver and workers say

    def figures(self, figures: Mapping[str, Any], **_: Any) -> None:
        """The driver told how the run goes."""
        self.governor.take_in(figures, time.monotonic())
        self._due.set()

    def hello(self, worker: str, **news: Any) -> None:
        """A worker said what it is."""
        state = self.scheduler.workers.get(worker)
        if state is not None:
            said = WorkerInfo.from_dict(news["is"])
            self.views[worker] = WorkerState(worker, said.host, state.nthreads, said.cpus, said.cards, said.kind)
            self.recycler.born[worker] = time.monotonic()
            self._due.set()

    def told(self, worker: str, news: dict[str, Any]) -> None:
        """A worker has news for the driver."""
        self.tell({**news, "worker": worker})

    def held(self, worker: str, operator: str, slots: int, setup_seconds: float, **more: Any) -> None:
        """A worker changed its slots: tell the driver, offer what there is, and wake the tasks that waited for it."""
        state = self.scheduler.workers.get(worker)
        if state is None or worker not in self.views:
            return
        if more.get("left"):
            self.leaving.discard((worker, operator))
            self._enact()
            return
        raised = slots > self.ready.get((worker, operator), 0)
        self.ready[worker, operator] = slots
        self.steering.placer.offer(operator, worker, slots)
        compat.set_resource(self.scheduler, worker, resource(self.run, operator), more["offered"])
        self._reassign(worker, more.get("queued", ()))
        if raised:
            self.governor.set_up(operator, setup_seconds)
            self._wake(state)
        news = {"worker": worker, "slots": slots, "setup_seconds": setup_seconds}
        self.tell({"ready": operator, **news})
        self._due.set()

    def _reassign(self, worker: str, keys: Sequence[Any]) -> None:
        """Send tasks elsewhere that a worker has not begun and will not begin."""
        keys = [tuple(key) if isinstance(key, list) else key for key in keys]
        compat.reassign_tasks(self.scheduler, worker, keys, "reassign")

    # What it decides and does

    def wanted(self, shapes: Mapping[str, Shape]) -> dict[str, int]:
        """How many workers of each kind the run wants; thought over anew every few seconds."""
        now = time.monotonic()
        if now >= self._wanted_until:
            self._wanted = self.governor.wanted(shapes, list(self.views.values()))
            self._wanted_until = now + WANTED_S
        return self._wanted

    async def _decide_when_due(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), min(self.governor.look_again_s, self.orders.interval_s))
            self._due.clear()
            now = time.monotonic()
            views = [view for address, view in self.views.items() if now - self.paused.get(address, now) < PAUSE_S]
            decision = self.governor.decide(now, views, self.asked, self.ready)
            if decision is not None:
                self.target = decision.seating
                for change in decision.changes:
                    if self._told.get(change.unit) == change.after:
                        continue  # it is not there yet, and has been told
                    self._told[change.unit] = change.after
                    counts = {"before": change.before, "after": change.after}
                    self.tell({"decision": change.unit, "reason": change.reason, **counts})
                self._enact()
            await asyncio.sleep(LEAST_S)

    def _failed(self, loop: asyncio.Task[None]) -> None:
        """The loop ended; if by a fault of ours, the run must not wait for ever."""
        error = None if loop.cancelled() else loop.exception()
        if error is not None:
            trace = "".join(traceback.format_exception(error))
            self.tell({"failed": "", "error": f"the balancer failed: {error!r}; please report this", "notes": [trace]})

    def _enact(self) -> None:
        """Bring what workers are asked to hold nearer to the target: give up first, then take."""
        for worker, seats in list(self.asked.items()):
            wanted = self.target.get(worker, {})
            for operator, hold in list(seats.items()):
                new = wanted.get(operator, SlotClaim(0))
                if new.cards != hold.cards:
                    new = SlotClaim(0)
                if new.slots < hold.slots:
                    self._order(worker, operator, new)
        busy = {name for worker, _ in self.leaving for name in self._cards(worker)}
        for worker, wanted in self.target.items():
            if worker not in self.views or worker in self.recycler.under_way or busy & self._cards(worker):
                continue
            if any(one[0] == worker for one in self.leaving):
                continue
            for operator, hold in wanted.items():
                if hold.slots > self.asked.get(worker, {}).get(operator, SlotClaim(0)).slots:
                    self._order(worker, operator, hold)

    def _cards(self, worker: str) -> set[str]:
        view = self.views.get(worker)
        return {f"{view.host}/{name}" for name, _ in view.cards[:1]} if view else set()

    def _order(self, worker: str, operator: str, hold: SlotClaim) -> None:
        """Have a worker hold so many slots; where they are fewer than before, no new task goes there from now on."""
        before = self.asked.get(worker, {}).get(operator, SlotClaim(0)).slots
        name = resource(self.run, operator)
        if hold.slots < before:
            self.leaving.add((worker, operator))
            self.steering.placer.offer(operator, worker, hold.slots)
            state = self.scheduler.workers.get(worker)
            if state is not None and name in state.resources:
                compat.set_resource(self.scheduler, worker, name, state.resources[name] * hold.slots // before)
        seats = self.asked.setdefault(worker, {})
        seats[operator] = hold
        if not hold.slots:
            del seats[operator]
        payload = self.orders.payloads[operator]
        order = {"run": self.run, "operator": operator, "slots": hold.slots, "payload": payload, "cards": hold.cards}
        compat.send_to_worker(self.scheduler, worker, {"op": "dcurate-hold", **order})

    def _tick(self) -> None:
        """Look at what changes by itself."""
        for worker, state in self.scheduler.workers.items():
            if worker not in self.views:
                continue
            if (state.status != Status.running) != (worker in self.paused):
                self._pause(worker, state.status != Status.running)
            stray = [task.key for task in state.processing if self._is_stray(worker, state, task)]
            self._reassign(worker, stray)
        if any(map(self.steering.is_of_run, compat.unrunnable_keys(self.scheduler))):
            for worker in {worker for worker, _ in self.ready} & set(self.scheduler.workers):
                self._wake(self.scheduler.workers[worker])
        now = time.monotonic()
        self._look_if_stuck(now)
        self._look_if_deserted(now)
        self.recycler.look(now)
        if now - self._told_hosts >= TELL_S:
            self._told_hosts = now
            workers = self.scheduler.workers
            self.tell({"hosts": machines((view, workers[one]) for one, view in self.views.items() if one in workers)})

    def _look_if_stuck(self, now: float) -> None:
        """End a run whose workers hold more than they may and have nothing under way that would make it less."""
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
            self.tell({"failed": "", "error": error})

    def _look_if_deserted(self, now: float) -> None:
        """End a run that has had no worker for long, unless the cluster starts workers by itself."""
        if self.scheduler.workers or OFFER in compat.extensions(self.scheduler):
            self._with_workers = now
        elif now - self._with_workers >= self.orders.worker_timeout_s:
            error = (
                f"the cluster has had no workers for {self.orders.worker_timeout_s:g} seconds; start some with 'dask "
                "worker' and run again with resume=True, or have runs wait longer with worker_timeout_s"
            )
            self.tell({"failed": "", "error": error})

    def _wake(self, state: Any) -> None:
        """Have tasks that found no worker look whether this one will do."""
        compat.schedule_unrunnable(self.scheduler, state, "wake")

    def empty(self, worker: str) -> None:
        """Have a worker give up all of its slots."""
        for operator in list(self.asked.get(worker, {})):
            self._order(worker, operator, SlotClaim(0))

    def _pause(self, worker: str, paused: bool) -> None:
        if paused:
            self.paused[worker] = time.monotonic()
        else:
            del self.paused[worker]
        for (address, operator), slots in self.ready.items():
            if address == worker:
                told = 0 if paused else slots
                news = {"worker": worker, "slots": told, "setup_seconds": 0.0}
                self.tell({"ready": operator, **news})

    def _is_stray(self, worker: str, state: Any, task: Any) -> bool:
        """Whether a task stands at a worker that holds no slot for it any more (work stealing can be late)."""
        for operator in self.operators:
            name = resource(self.run, operator)
            if task.resource_restrictions and name in task.resource_restrictions:
                return not state.resources.get(name) and (worker, operator) not in self.leaving
        return False

    def tell(self, news: dict[str, Any]) -> None:
        """Tell the driver, while it listens."""
        if not self.is_over:
            self.scheduler.log_event(topic(self.run), news)


def _pass_on(runs: Mapping[str, SlotManager], sort: str, run: str, **what: Any) -> None:
    """Give what a worker or driver said to the scaler of its run, if that has not ended."""
    if run in runs:
        getattr(runs[run], sort)(**what)


def end(dask_scheduler: Scheduler, name: str) -> None:
    """Take the scaler of a run that is over off the scheduler; for `Client.run_on_scheduler`.

    Dask's own way to unregister a plugin only forgets it: its clock would tick for as long as the scheduler lives.
    """
    scaler = compat.remove_plugin(dask_scheduler, name)
    if isinstance(scaler, SlotManager):
        scaler.stop()


async def have_slots_held(dask_scheduler: Scheduler, plugin: bytes) -> bool:
    """Have workers load the pickled `SlotHolder`, now or when they come; whether none had been asked to before.

    What `Client.register_plugin` does, but that a worker which dies meanwhile is no error: there, it ends the run.
    """
    return await compat.add_worker_plugin(dask_scheduler, PLUGIN, plugin)


def _said_all(over: Mapping[str, asyncio.Event], run: str, **_: Any) -> None:
    """The driver of a run has said all that it will say on its stream; the calls that it asked for are known."""
    if run in over:
        over[run].set()


async def let_go(dask_scheduler: Scheduler, run: str, client: str) -> None:
    """Release what is left of a run that is over, tasks and news; for `Client.run_on_scheduler`.

    The driver has cancelled the tasks, but some may be wanted for as long as an error's traceback holds their futures,
    and some may be on their way: this question overtakes what travels on the driver's stream.
    """
    over = compat.extensions(dask_scheduler).get(OVER, {})
    if run in over:
        with suppress(TimeoutError):
            await asyncio.wait_for(over[run].wait(), OVER_S)
        over.pop(run, None)
    compat.forget_topic(dask_scheduler, topic(run))
    keys = [key for key in dask_scheduler.tasks if isinstance(key, tuple) and is_of(run, key[0])]
    compat.release_keys(dask_scheduler, keys, client, "over")
    # Last, as the scheduler notes the name of each resource that a task needs when it looks for a worker.
    names = compat.resource_names(dask_scheduler)
    compat.forget_resources(dask_scheduler, (name for name in names if name.startswith("stage-") and is_of(run, name)))


def wanted_by(scheduler: Scheduler) -> dict[str, int]:
    """How many workers of each kind the runs on a scheduler want together."""
    shapes = offered(scheduler)
    total: Counter[str] = Counter()
    for scaler in compat.extensions(scheduler)["dcurate"].values():
        total.update(scaler.wanted(shapes) if shapes else {})
    return dict(total)
