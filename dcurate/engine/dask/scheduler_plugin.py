"""Scheduler plugin: runs the policies of a run, and enacts what they suggest."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Scheduler, Status
from distributed.diagnostics.plugin import SchedulerPlugin

from dcurate.cluster import compat
from dcurate.cluster.scale_api import DESIRED_WORKERS, OFFER, offered_shapes
from dcurate.cluster.worker_info import WorkerInfo
from dcurate.engine.allocate.assignment import SlotClaim
from dcurate.engine.allocate.division import RunDemand
from dcurate.engine.allocate.rates import Setup
from dcurate.engine.allocate.requests import WorkerState
from dcurate.engine.dask.account import torn_down
from dcurate.engine.dask.event_loop import Pauses, collection_limit, in_thread
from dcurate.engine.dask.joining import MESSAGES, RETIRED, JoiningWorkers
from dcurate.engine.dask.observation import Observation, RunConfig, host_samples, run_view
from dcurate.engine.dask.output import begin_relay, end_relay
from dcurate.engine.dask.records import OperatorRecord, SetupDeaths, WorkerRecord
from dcurate.engine.dask.recycling import Recycler
from dcurate.engine.dask.routing import TaskRouter
from dcurate.engine.dask.run_share import RunShare
from dcurate.engine.dask.scheduler_calls import RUN_ENDED, driver_done, total_desired_workers
from dcurate.engine.dask.slot_requests import SlotRequests
from dcurate.engine.dask.worker_plugin import resource_name, split_prefix, task_prefix, topic
from dcurate.engine.policies.autoscaling import Autoscaling
from dcurate.engine.policies.balancing import Balancing
from dcurate.engine.policies.recycling import Recycling
from dcurate.engine.policies.runner import Outcome, PolicyRunner
from dcurate.engine.policies.stalls import StallDetection
from dcurate.engine.policies.view import Policy, RunView, ScaleTo

#: Seconds between two samples of the hosts; of many, seconds for each, as their heartbeats are further apart, too.
HOSTS_INTERVAL_S, HOST_S = 2.0, 0.01
#: How often to check what changes without an event (pauses, lifetimes, memory), in seconds; of many, for each worker.
TICK_S, WORKER_TICK_S = 0.5, 0.002
#: The least time between two runs of the policies, and the longest that one may take, in seconds.
MIN_INTERVAL_S, POLICIES_S = 0.1, 300.0
#: Policies rest this many times as long as their last run took, but no longer than this, in seconds.
REST, MAX_REST_S = 19.0, 6.0
#: A cluster counts as not scaled if nothing has asked for the wanted number of workers for this many seconds.
ASKED_S = 120.0
#: Share of its memory limit at which Dask pauses a worker; above it, memory is the likely cause of its death.
NEARLY_FULL = 0.8
#: The last status of workers that leave in good order.
LEAVING = (*RETIRED, "closing")
#: Dask shows what loggers below its own say, and of others warnings only.
_log = logging.getLogger("distributed.scheduler.dcurate")


class SlotManager(SchedulerPlugin):
    """Tracks the slots of one run, runs its policies in a thread, and enacts what they suggest.

    Args:
        run: id of the run.
        config: configuration of the run.
        client: id of the Dask client that receives events.
    """

    def __init__(self, run: str, config: RunConfig, client: str) -> None:
        self.name = f"dcurate-slot-manager-{run}"
        self.run = run
        self.config = config
        self.client = client
        self.operators = {
            request.operator: OperatorRecord(request, Setup(config.priors.get(request.operator, {}).get("setup_s")))
            for request in config.requests
        }
        self.workers: dict[str, WorkerRecord] = {}
        self.recycler = Recycler(self)
        self._exhausted = False
        self._started: float | None = None
        #: Wanted numbers of workers, by kind, or in all where Dask scales the cluster.
        self._scale: dict[str, int] = {}
        self._scale_to = ScaleTo(0)
        self._asked_at = -ASKED_S
        self._notices: set[str] = set()
        self._setup_deaths = SetupDeaths()
        self._hosts_sent_at = 0.0
        self._last_with_workers = time.monotonic()
        self.ended = False

    # What Dask calls

    async def start(self, scheduler: Scheduler) -> None:
        """Start: ask every worker to register. Dask calls it once, when the driver registers the plugin."""
        self.scheduler = scheduler
        prefixes = {task_prefix(self.run, name): name for name in self.operators}
        self.router = TaskRouter(scheduler, prefixes, split_prefix(self.run))
        self.joining = JoiningWorkers(self)
        self.slot_requests = SlotRequests(self.run, self.config, self.workers, self.router, self.recycler)
        self._end_rewording = compat.log_first_deaths(scheduler, lambda key: self.router.operator_of(key) is not None)
        runs = compat.extensions(scheduler).setdefault("dcurate", {})
        runs[self.run] = self
        for kind in ("register", "slots", "event", "stats"):
            compat.handle_stream(scheduler, f"dcurate-{kind}", partial(_dispatch, scheduler, runs, kind))
        if self.config.takes_lines:
            begin_relay(scheduler, self.run, topic(self.run), self.client)
        ended_events = compat.extensions(scheduler).setdefault(RUN_ENDED, {})
        ended_events[self.run] = asyncio.Event()
        compat.handle_stream(scheduler, RUN_ENDED, partial(driver_done, ended_events))
        compat.handle_rpc(scheduler, DESIRED_WORKERS, partial(total_desired_workers, scheduler))
        compat.ask_for_workers(scheduler, "runs", partial(wanted_workers, scheduler, runs))
        compat.hold_retirement(scheduler, partial(_retire, runs), partial(_keep, runs))
        compat.subscribe_client(scheduler, topic(self.run), self.client)
        compat.shorten_message_logs(scheduler, self.client, MESSAGES)
        self._due, self._scaled = asyncio.Event(), asyncio.Event()
        self.share = RunShare(self)
        self._loops = [
            asyncio.ensure_future(coroutine)
            for coroutine in (self._run_policies(), self.slot_requests.run_when_due(), self._tick())
        ]
        for loop in self._loops:
            loop.add_done_callback(self._failed)
        collection_limit.start()
        _log.info("run %s: %s begins", self.run, self.config.about)
        for worker in list(scheduler.workers):
            self.add_worker(scheduler, worker)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Ask a worker to register. Dask calls it when one joins, or comes back; `start`, for those that are there."""
        self.joining.ask(worker)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Forget a worker. Dask calls it when one leaves or dies: its tasks fail, and the driver runs them again."""
        self.router.selector.remove_worker(worker)
        self.joining.remove(worker)
        record = self.workers.pop(worker, None)
        self.share.remove_worker(worker)
        if record is None:
            return
        self.slot_requests.target.pop(worker, None)
        self.slot_requests.announced.clear()
        if record.leaving:
            self.slot_requests.due.set()
        if not self.recycler.forget(worker):
            status = compat.last_status(scheduler, worker)
            in_order = status in LEAVING
            used, limit = record.memory
            full = limit and (status == "paused" or used >= NEARLY_FULL * limit)
            reason = f"its memory of {limit / 1e9:.3g} GB was nearly full" if full else ""
            self.publish({"lost": worker, "name": record.name, "in_order": in_order, "reason": reason})
            for operator, claim in record.requested.items():
                if claim.slots > record.ready.get(operator, 0) and not in_order:
                    works = any(other.ready.get(operator) for other in self.workers.values())
                    error = self._setup_deaths.count(record.info.host, operator, works)
                    if error:
                        self.publish({"failed": operator, "error": error, "notes": []})
        self._due.set()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Stop the run if its driver is gone. Dask calls it for each client that leaves or is not heard of any more."""
        if client == self.client:
            for worker in list(self.workers):
                self.drain(worker)
                compat.send_to_worker(scheduler, worker, {"op": "dcurate-end-output", "run": self.run})
            end_relay(scheduler, self.run)
            stop_run(scheduler, self.name)
            compat.extensions(scheduler)[RUN_ENDED].pop(self.run, None)
            compat.forget_topic(scheduler, topic(self.run), client)

    def update_graph(self, scheduler: Scheduler, *, tasks: Sequence[Any], **_: Any) -> None:
        """Route new tasks, and have them fail at the first death of a worker. Dask calls it before it sends them."""
        compat.fail_on_first_death(scheduler, filter(self.router.operator_of, tasks))
        self.router.route(tasks)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Update the router. Dask calls it after each change of a task's state."""
        self.router.on_transition(key, finish)
        operator = self.router.operator_of(key)
        if operator is not None and finish in ("no-worker", "memory") and self.operators[operator].ended:
            self._due.set()  # a lost result is to be made again, or was

    async def close(self) -> None:
        """Stop. Dask calls it when the scheduler closes."""
        self.stop()

    def stop(self) -> None:
        """Decide nothing more, and leave nothing of the run on the scheduler."""
        if self.ended:
            return
        self.ended = True
        _log.info("run %s: %s has ended", self.run, self.config.about)
        collection_limit.stop()
        compat.forget_calls(self.scheduler)
        self._end_rewording()
        self.share.end()
        self._scaled.set()
        for loop in self._loops:
            loop.cancel()
        compat.extensions(self.scheduler).get("dcurate", {}).pop(self.run, None)
        compat.forget_resources(self.scheduler, [resource_name(self.run, operator) for operator in self.operators])

    # What the driver and workers say

    def on_stats(self, stats: Mapping[str, Any], **_: Any) -> None:
        """Record statistics, which the driver sends now and then."""
        self._exhausted, now = stats["exhausted"], time.monotonic()
        for operator, statistics in stats["operators"].items():
            self.operators[operator].measured(statistics, now)
        self._due.set()

    def on_register(self, worker: str, info: Mapping[str, Any], versions: Mapping[str, str], lacks: str) -> None:
        """Add a worker that sent its info, unless its versions are others or it lacks what the run needs."""
        if not self.joining.registered(worker, versions, lacks):
            self._due.set()
            return
        state = self.scheduler.workers.get(worker)
        if state is not None:
            worker_info = WorkerInfo.from_dict(info)
            info_of_worker = WorkerState(
                worker, worker_info.host, state.nthreads, worker_info.cpus, worker_info.gpus, worker_info.kind
            )
            name, now = str(state.name), time.monotonic()
            record = self.workers.setdefault(worker, WorkerRecord(info_of_worker, name, now))
            record.info, record.name, record.joined = info_of_worker, name, now
            self.share.add_worker(info_of_worker)
            self._due.set()

    def on_event(self, worker: str, event: dict[str, Any]) -> None:
        """Publish an event, which a worker sends when a task ends or a set-up fails.

        A worker that cannot load an operator is left out if another one has a slot of it.
        """
        lacked = event.get("cannot_load")
        if lacked and any(record.ready.get(lacked) for address, record in self.workers.items() if address != worker):
            self.joining.leave_out(worker, f"it {event['error'].removeprefix('worker ')}")
            self._due.set()
            return
        self.publish({**event, "worker": worker})

    def on_slots(self, worker: str, operator: str, slots: int, setup_seconds: float, **more: Any) -> None:
        """Record slots that a worker has set up or torn down, offer them, and schedule tasks that waited for them."""
        state, record = self.scheduler.workers.get(worker), self.workers.get(worker)
        if state is None or record is None:
            return
        if more.get("left"):
            if slots <= record.requested.get(operator, SlotClaim(0)).slots:  # else more are torn down
                record.leaving.discard(operator)
            self.slot_requests.due.set()
            self.share.settle()
            return
        raised = slots > record.ready.get(operator, 0)
        record.ready[operator] = slots
        self.router.selector.set_slots(operator, worker, slots)
        compat.set_resource(self.scheduler, worker, resource_name(self.run, operator), more["offered"])
        self._reassign(worker, more.get("queued", ()))
        if raised:
            if slots >= record.requested.get(operator, SlotClaim(0)).slots:
                self._setup_deaths.forget(record.info.host, operator)
            self.operators[operator].setup.record(setup_seconds)
            self._wake(state)
        event = {"worker": worker, "slots": slots, "setup_seconds": setup_seconds}
        self.publish({"ready": operator, **event})
        self._due.set()

    def _reassign(self, worker: str, keys: Sequence[Any]) -> None:
        """Send tasks elsewhere that a worker has not begun and will not begin."""
        keys = [tuple(key) if isinstance(key, list) else key for key in keys]
        compat.reassign_tasks(self.scheduler, worker, keys, "reassign")

    # What it decides and does

    async def desired_workers(self) -> dict[str, int]:
        """Return how many workers of each kind the run wants; waits until policies have run."""
        await self._scaled.wait()
        return self._scale

    def wanted_workers(self) -> ScaleTo:
        """Return how many workers the run wants in all, where Dask scales the cluster; 0 until policies have run."""
        self._asked_at = time.monotonic()
        return self._scale_to

    async def _run_policies(self) -> None:
        built_in: list[Policy] = [
            Balancing(),
            Autoscaling(),
            Recycling(),
            StallDetection(),
        ]
        try:
            user_policies: Sequence[Policy] = pickle.loads(self.config.policies) if self.config.policies else ()
        except Exception as error:
            self.fail(f"the scheduler cannot load the policies ({error}); install their module there", "policies")
            return
        runner, wait_s = PolicyRunner(user_policies, built_in), TICK_S
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), wait_s)
            changed = self._due.is_set()
            self._due.clear()
            began = time.monotonic()
            try:
                view = partial(run_view, self.config, await self._observe(changed))
                outcome, demand = await asyncio.wait_for(in_thread(_run, runner, view, self.share), POLICIES_S)
            except TimeoutError:
                self.fail(f"policy {runner.running} has not ended after {POLICIES_S:g} seconds", runner.running)
                return
            self._enact(outcome)
            self.share.decided(demand, decision=outcome.allocate is not None)
            wait_s = min(outcome.again_s, TICK_S)
            rest_s = min(REST * (time.monotonic() - began), MAX_REST_S)
            await asyncio.sleep(max(MIN_INTERVAL_S, rest_s))

    async def _observe(self, changed: bool) -> Observation:
        """Copy what changes, so that the thread in which policies run can make a view of it."""
        now, scheduler, pauses = time.monotonic(), self.scheduler, Pauses()
        parts = self.share.part()
        workers = []
        elapsed: dict[str, float] = {}
        for address, record in list(self.workers.items()):
            state = scheduler.workers.get(address)
            if state is not None and address in parts and address not in self.joining.left_out:
                workers.append(
                    (
                        parts[address],
                        dict(record.requested),
                        dict(record.ready),
                        now - record.joined,
                        now - record.paused if record.paused is not None else None,
                        len(state.executing),
                        int(state.metrics.get("memory", 0)),
                        tuple(record.grown),
                        int(state.memory_limit or 0),
                        bool(state.nanny),
                        self.recycler.is_recycling(address),
                        record.info,
                    )
                )
                for task, seconds in state.executing.items():
                    name = self.router.operator_of(task.key)
                    if name is not None:
                        elapsed[name] = max(seconds, elapsed.get(name, 0.0))
            await pauses.maybe()
        joined = self.joining.present()
        if joined > len(self.joining.quiet) or OFFER in compat.extensions(scheduler):
            self._last_with_workers = now
        if self._started is None and workers:
            self._started = now
        return Observation(
            time=now,
            started=self._started,
            workers=workers,
            operators=[record.copied() for record in self.operators.values()],
            exhausted=self._exhausted,
            elapsed=elapsed,
            under_way=self.router.under_way(),
            recycled_at=self.recycler.recycled_at,
            kinds=offered_shapes(scheduler),
            starting=joined - len(workers),
            asked=now < self._asked_at + ASKED_S,
            workerless_s=now - self._last_with_workers,
            changed=changed,
            waits=self.share.waits,
        )

    def _enact(self, outcome: Outcome) -> None:
        """Do what policies suggest."""
        if outcome.error:
            self.fail(outcome.error, outcome.policy, [outcome.trace] if outcome.trace else [])
        for text in outcome.notices:
            if text not in self._notices:
                self._notices.add(text)
                self.publish({"notice": text})
        for name, suggestion in outcome.slots.items():
            claims = [record.requested[name] for record in self.workers.values() if name in record.requested]
            before = sum(claim.slots for claim in claims)
            if self.slot_requests.pinned.get(name) != suggestion.slots:
                self._announce(
                    name, before, suggestion.slots, f"{name} {before} -> {suggestion.slots} slots: {suggestion.reason}"
                )
        self.slot_requests.pinned = {name: suggestion.slots for name, suggestion in outcome.slots.items()}
        if outcome.allocate is not None:
            self.slot_requests.target = outcome.allocate.assignment
            for change in outcome.allocate.changes:
                reason, pin = change.reason, outcome.slots.get(change.unit)
                if pin is not None:
                    reason = f"{change.unit} {change.before} -> {change.after} slots: {pin.reason}"
                self._announce(change.unit, change.before, change.after, reason)
            self.slot_requests.due.set()
        self._scale.update(outcome.scale)
        self._scale_to = outcome.scale_to or self._scale_to
        if outcome.scale:
            self._scaled.set()
        for worker, reason in outcome.recycle.items():
            self.recycler.start(worker, reason)

    def _announce(self, operator: str, before: int, after: int, reason: str) -> None:
        """Publish a decision, unless it was and is still being carried out."""
        if self.slot_requests.announced.get(operator) != after:
            self.slot_requests.announced[operator] = after
            self.publish({"decision": operator, "reason": reason, "before": before, "after": after})

    def fail(self, error: str, policy: str = "", notes: Sequence[str] = ()) -> None:
        """End the run with an error; ``policy`` is the policy of the user that caused it, if one did."""
        self.publish({"failed": "", "error": error, "policy": policy, "notes": list(notes)})

    def _failed(self, loop: asyncio.Task[None]) -> None:
        """End the run if a loop failed."""
        error = None if loop.cancelled() else loop.exception()
        if error is not None:
            trace = "".join(traceback.format_exception(error))
            self.fail(f"the slot manager failed: {error!r}; please report this", notes=[trace])

    async def _tick(self) -> None:
        """Check what changes without an event."""
        checked_at = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            collection_limit.check()
            self.joining.note_silence()
            if time.monotonic() >= checked_at + WORKER_TICK_S * len(self.workers):
                checked_at = time.monotonic()
                await self._check_workers()
                self.router.offer_waiting()
                compat.forget_calls(self.scheduler)
            if any(map(self.router.is_of_run, compat.unrunnable_keys(self.scheduler))):
                for worker, record in list(self.workers.items()):
                    if record.ready and worker in self.scheduler.workers:
                        self._wake(self.scheduler.workers[worker])
            if time.monotonic() - self._hosts_sent_at >= max(HOSTS_INTERVAL_S, HOST_S * len(self.workers)):
                self._hosts_sent_at = time.monotonic()
                workers = self.scheduler.workers
                known = [(record.info, workers[name]) for name, record in self.workers.items() if name in workers]
                self.publish({"hosts": await in_thread(host_samples, known)})

    async def _check_workers(self) -> None:
        """Note which workers are paused and how large they are, and send stray tasks elsewhere."""
        pauses = Pauses()
        for worker, record in list(self.workers.items()):
            state = self.scheduler.workers.get(worker)
            if state is not None:
                if (state.status != Status.running) != (record.paused is not None):
                    self._set_paused(worker, record, state.status != Status.running)
                used = int(state.metrics.get("memory", 0))
                record.memory = used, int(state.memory_limit or 0)
                record.grown.append(used - int(state.nbytes))
                if 0 in record.ready.values():  # nothing is sent to a worker that never had a slot
                    stray = [task.key for task in state.processing if self._is_stray(record, state, task)]
                    self._reassign(worker, stray)
            await pauses.maybe()

    def _wake(self, state: Any) -> None:
        """Schedule tasks that no worker could run, where this one can."""
        compat.schedule_unrunnable(self.scheduler, state, "wake")

    def operators_on(self, worker: str) -> tuple[str, ...]:
        """Names of the operators that have slots on a worker."""
        return tuple(self.workers[worker].requested) if worker in self.workers else ()

    def is_clear(self, worker: str) -> bool:
        """Whether no run tears slots of a worker down any more."""
        return not any(manager.workers[worker].leaving for manager in self._runs() if worker in manager.workers)

    def clear(self, worker: str) -> None:
        """Have all runs tear down their slots on a worker."""
        for manager in self._runs():
            manager.drain(worker)

    def _runs(self) -> list[SlotManager]:
        """The slot managers of all runs on the scheduler."""
        return list(compat.extensions(self.scheduler)["dcurate"].values())

    def look_again(self) -> None:
        """Have policies run soon."""
        self._due.set()

    def drain(self, worker: str) -> None:
        """Tear down all slots of a worker."""
        self.slot_requests.drain(worker)

    def retire(self, worker: str) -> None:
        """Give a worker nothing new to do that is about to leave, and have its calls end."""
        self.recycler.retire(worker)
        self._due.set()

    def keep(self, worker: str) -> None:
        """Give a worker slots again that does not leave after all."""
        self.recycler.keep(worker)
        self._due.set()

    def is_busy(self, worker: str) -> bool:
        """Whether a worker has slots that are being torn down, or tasks of the run."""
        state = self.scheduler.workers.get(worker)
        tasks = state.processing if state is not None else ()
        leaving = worker in self.workers and bool(self.workers[worker].leaving)
        return not self.ended and (leaving or any(self.router.is_of_run(task.key) for task in tasks))

    def _set_paused(self, worker: str, record: WorkerRecord, paused: bool) -> None:
        record.paused = time.monotonic() if paused else None
        for operator, slots in record.ready.items():
            event = {"worker": worker, "slots": 0 if paused else slots, "setup_seconds": 0.0}
            self.publish({"ready": operator, **event})

    def _is_stray(self, record: WorkerRecord, state: Any, task: Any) -> bool:
        """Whether a task was sent to a worker that has no slot for it any more (work stealing can be late)."""
        operator = self.router.operator_of(task.key)
        if operator is None:
            return False
        return not state.resources.get(resource_name(self.run, operator)) and operator not in record.leaving

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to the driver, unless the run has ended."""
        if not self.ended:
            self.scheduler.log_event(topic(self.run), event)


def _dispatch(scheduler: Scheduler, runs: Mapping[str, SlotManager], kind: str, run: str, **message: Any) -> None:
    """Pass a message of a worker or driver to the slot manager of its run, or to the account if that has ended."""
    if run in runs:
        getattr(runs[run], f"on_{kind}")(**message)
    elif message.get("left"):
        torn_down(scheduler, run, message["worker"], message["operator"])


def _retire(runs: Mapping[str, SlotManager], worker: str) -> Callable[[], bool]:
    """Have all runs drain a worker; returns a function that says whether one is still busy there."""
    for manager in runs.values():
        manager.retire(worker)
    return lambda: any(manager.is_busy(worker) for manager in runs.values())


def _keep(runs: Mapping[str, SlotManager], worker: str) -> None:
    for manager in runs.values():
        manager.keep(worker)


def wanted_workers(scheduler: Scheduler, runs: Mapping[str, SlotManager]) -> int:
    """How many workers runs want together, where Dask scales the cluster.

    Present workers are counted once, however many runs want to keep them; else two runs would double them for ever.
    """
    wanted = [manager.wanted_workers() for manager in runs.values()]
    present = len(scheduler.workers) if any(demand.keeps_present for demand in wanted) else 0
    return max(present, sum(demand.workers for demand in wanted))


def stop_run(dask_scheduler: Scheduler, name: str) -> None:
    """Remove the slot manager of a run from the scheduler; for `Client.run_on_scheduler`.

    Dask's own way to unregister a plugin does not stop it: its clock would tick for as long as the scheduler lives.
    """
    manager = compat.remove_plugin(dask_scheduler, name)
    if isinstance(manager, SlotManager):
        manager.stop()


def _run(runner: PolicyRunner, make_view: Callable[[], RunView], share: RunShare) -> tuple[Outcome, RunDemand | None]:
    """Make a view, run policies on it, and see what the run asks for."""
    view = make_view()
    return runner.run(view), share.demand(view)
