"""Wrap every private or undocumented call of Dask that dcurate makes. Written for distributed 2026.7.1 to 2026.8.0.

When a new release of distributed breaks dcurate, this is the module to change. What Dask documents is used directly
elsewhere: `Client`, the plugin hooks, and the attributes of `Scheduler.workers` and `Scheduler.tasks` that its page on
scheduling state describes. Two modules are about Dask internals as a whole: `dcurate.engine.dask.resource_queue`
replaces a queue of the worker's state machine, and `dcurate.cluster.probe` speaks Dask's protocol.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import logging
import signal
import threading
import time
from collections import ChainMap, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from math import inf
from typing import Any, cast

import dask
import distributed.protocol
import distributed.utils
from dask.utils import key_split
from distributed import Client, Future, Nanny, Scheduler, SpecCluster, Status, Worker, as_completed
from distributed._signals import wait_for_signals
from distributed.collections import HeapSet
from distributed.comm import CommClosedError
from distributed.comm.registry import get_backend
from distributed.core import error_message
from distributed.deploy import Cluster as DaskCluster
from distributed.diagnostics import nvml
from distributed.protocol.pickle import dumps
from distributed.worker_state_machine import CancelComputeEvent, TaskState, UnpauseEvent
from distributed.worker_state_machine import WorkerState as WorkerStateMachine
from tornado.ioloop import IOLoop

from dcurate.errors import ResourceError

__all__ = ["HeapSet", "TaskState", "WorkerStateMachine"]

Message = dict[str, Any]

#: The scheduler's extension with who wants how many workers, by name.
_TARGET = "dcurate-adaptive-target"
#: The scheduler's extension with the installations of plugins that workers have not answered yet, by address.
_PLUGINS = "dcurate-plugins-under-way"
#: Key of the scheduler's extensions that says that `hold_retirement` was called.
_HOLDS = "dcurate-retirement"

#: Seconds to wait for an answer of a worker; and of one that has sent the scheduler nothing for so long.
ANSWER_S, SILENT_ANSWER_S = 10.0, 0.5
#: Seconds between two looks at which workers are silent.
_LOOK_S = 5.0
#: Kinds of collections whose calls a span names, of which Dask keeps as many as there are calls.
COLLECTIONS = 8
#: Seconds between two calls of what is done while a result is fetched.
_GATHER_S = 1.0

#: Seconds that a worker that gets SIGTERM has to end its calls and to move results away, less than the 30 seconds after
#: which SLURM and Kubernetes send SIGKILL.
SIGTERM_S = 20.0
#: The part of the time that a nanny gives its worker to close, in which it does so.
NANNY_PART = 0.75
#: Seconds that the calls of a worker have that retires, which is in no such hurry.
RETIRE_S = 120.0
#: Seconds between two looks at the calls of a worker that leaves.
_CALLS_POLL_S = 0.02

#: What Dask logs of a task whose workers died, and what is logged in its place of one that a run will run again.
_FAILED = "Task %s marked as failed because %d workers died while trying to run it"
_DIED = "Task %s ended as its worker died; the driver decides whether it is run again"

#: Number of a worker's last events that are searched for its last status.
MAX_LAST_EVENTS = 10

#: How processes may send data to each other.
PROTOCOLS = ("tcp", "ucxx")


# Client


def identify_workers(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """Ask the scheduler for all workers by address; `Client.scheduler_info` may answer from a copy without them."""
    return cast(Mapping[str, Mapping[str, Any]], client.sync(client.scheduler.identity, n_workers=-1)["workers"])


def is_lost_connection(error: OSError) -> bool:
    """Whether Dask raised an error because a process is gone or accepts no connections.

    Examples:
        >>> is_lost_connection(OSError("Timed out trying to connect to tcp://host:1 after 30 s"))
        True
        >>> is_lost_connection(FileNotFoundError(2, "No such file or directory"))
        False
    """
    return isinstance(error, CommClosedError) or str(error).startswith("Timed out trying to connect to")


def ask_workers(
    client: Client,
    function: Callable[..., Any],
    *arguments: Any,
    answer_s: float | None = None,
    workers: Collection[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Call a function on all workers, as `Client.run` does; return answers and exceptions by address.

    A worker that does not answer is left out; it calls the function when it goes on. Then the others may be asked
    twice.

    Args:
        client: client of the cluster.
        function: to call.
        arguments: positional arguments of the function; ``options`` are its keyword arguments.
        answer_s: how long to wait for the answer of a worker, in seconds; None for `ANSWER_S`. A worker that has sent
            the scheduler nothing for `ANSWER_S` seconds gets no longer than that, and `SILENT_ANSWER_S` seconds if it
            was silent before.
        workers: addresses of the workers to ask; None for all.
    """
    limit_s = ANSWER_S if answer_s is None else answer_s
    signs: dict[str, tuple[float, float]] = {}  # the last sign of each worker by the scheduler's clock, and when noted

    async def silent() -> tuple[set[str], set[str]]:
        """All workers, and those that have sent the scheduler nothing for some time."""
        known = (await client.scheduler.identity(n_workers=-1))["workers"]
        seen = {address: info["last_seen"] for address, info in known.items()}
        now, latest = time.monotonic(), max(seen.values(), default=0.0)
        for address, last in seen.items():
            if signs.get(address, (0.0, 0.0))[0] != last:
                signs[address] = last, now
        quiet = (address for address in seen if latest - seen[address] > ANSWER_S or now - signs[address][1] > ANSWER_S)
        return {*known}, {*quiet}

    async def ask(workers: Collection[str], limit_s: float) -> dict[str, Any]:
        call = client._run(function, *arguments, workers=list(workers), on_error="return", **options)
        task, end = asyncio.ensure_future(call), time.monotonic() + limit_s
        while not task.done():
            await asyncio.wait({task}, timeout=min(_LOOK_S, max(0.0, end - time.monotonic())))
            if not task.done() and (time.monotonic() >= end or (await silent())[1] & {*workers}):
                task.cancel()
                raise TimeoutError
        return cast(dict[str, Any], task.result())

    async def ask_one(worker: str, limit_s: float) -> dict[str, Any]:
        with suppress(TimeoutError):
            return await ask([worker], limit_s)
        return {}

    async def ask_all() -> dict[str, Any]:
        known, quiet = await silent()
        if workers is not None:
            known, quiet = known & {*workers}, quiet & {*workers}
        quiet_calls = [ask_one(worker, SILENT_ANSWER_S) for worker in quiet]
        prompt_answers, *answers = await asyncio.gather(ask_many(known - quiet), *quiet_calls)
        return dict(ChainMap(prompt_answers, *answers))

    async def ask_many(workers: Collection[str]) -> dict[str, Any]:
        with suppress(TimeoutError):
            return await ask(workers, limit_s) if workers else {}
        return dict(ChainMap(*await asyncio.gather(*(ask_one(worker, limit_s) for worker in workers))))

    return cast(dict[str, Any], client.sync(ask_all))


def is_lost_result(error: BaseException | None) -> bool:
    """Whether a finished task failed as its result was lost with a worker while its inputs were.

    Dask (2026.8) then reports the loss of an actor; dcurate has none.
    """
    return isinstance(error, RuntimeError) and str(error) == "Worker holding Actor was lost"


def retry_tasks(client: Client, keys: Sequence[Any]) -> None:
    """Have the scheduler run failed tasks again.

    `Client.retry` would also reset the futures when the answer comes, perhaps after later reports of them.
    """
    client.sync(client.scheduler.retry, keys=list(keys), client=client.id)


def gather(client: Client, future: Future, meanwhile: Callable[[], None]) -> Any:
    """Return the result of a task, as `Client.gather` does, which would wait without end for a worker that is stopped.

    The worker is asked again after `ANSWER_S` seconds, then after twice as many and so on: another one may have the
    result by then.

    Args:
        client: client of the cluster.
        future: the task.
        meanwhile: called about once a second; what it raises ends the wait.
    """
    patience_s = ANSWER_S
    while True:
        call = asyncio.run_coroutine_threadsafe(client._gather([future]), client.loop.asyncio_loop)
        again = time.monotonic() + patience_s
        try:
            while time.monotonic() < again:
                if concurrent.futures.wait([call], _GATHER_S).done:
                    return call.result()[0]
                meanwhile()
        finally:
            call.cancel()
        patience_s *= 2


def send_to_scheduler(client: Client, message: Message) -> None:
    """Send a message on the client's stream, in order with its graphs, without waiting for an answer."""
    client._send_to_scheduler(message)


def shorten_client_log(client: Client, length: int) -> None:
    """Keep fewer of the messages that a client sent to its scheduler, of which Dask keeps 1,000, with all they brought.

    Graphs of a run's tasks are among them, of up to a MB each.
    """
    stream = client.scheduler_comm
    if stream is not None:
        stream.recent_message_log = deque(stream.recent_message_log, maxlen=length)


def wake(completed: as_completed) -> None:
    """Wake the thread that waits in `wait_for_task`."""
    with completed.thread_condition:
        completed.thread_condition.notify()


def wait_for_task(completed: as_completed, timeout_s: float, unless: Callable[[], bool]) -> None:
    """Wait until a task ends or `wake` is called, for at most ``timeout_s``; return at once if ``unless()`` holds."""
    with completed.thread_condition:
        if not completed.has_ready() and not unless():
            completed.thread_condition.wait(timeout_s)


# Scheduler and worker


def extensions(server: Scheduler | Worker) -> dict[str, Any]:
    """The objects that are kept on a scheduler or worker by name."""
    return cast(dict[str, Any], server.extensions)


def handle_stream(server: Scheduler | Worker, op: str, handler: Callable[..., None]) -> None:
    """Call ``handler`` with the messages of one ``op`` that arrive on streams."""
    server.stream_handlers[op] = handler


def plugin_of(server: Scheduler | Worker, name: str) -> Any:
    """The plugin of a name on a scheduler or worker; None if there is none."""
    return server.plugins.get(name)


# Scheduler


def handle_rpc(scheduler: Scheduler, name: str, handler: Callable[..., Any]) -> None:
    """Serve a remote call of clusters and clients."""
    scheduler.handlers[name] = handler


def ask_for_workers(scheduler: Scheduler, name: str, wanted: Callable[[], int]) -> None:
    """Report this number of wanted workers to what scales the cluster (`Adaptive`, Kubernetes, gateways).

    Without it, Dask answers from its own tasks. The largest number of all names is reported; a name has one.
    """
    if _TARGET not in extensions(scheduler):
        usual, demands = scheduler.adaptive_target, dict[str, Callable[[], int]]()
        extensions(scheduler)[_TARGET] = demands

        def adaptive_target(target_duration: Any = None) -> int:
            return max(int(usual(target_duration)), *(number() for number in demands.values()))

        scheduler.adaptive_target = adaptive_target
        scheduler.handlers["adaptive_target"] = adaptive_target
    extensions(scheduler)[_TARGET].setdefault(name, wanted)


def asked_for(scheduler: Scheduler, name: str) -> int:
    """The number of workers that `ask_for_workers` reports under a name; 0 if nothing asks."""
    wanted = extensions(scheduler).get(_TARGET, {}).get(name)
    return 0 if wanted is None else int(wanted())


def rpc_handler(scheduler: Scheduler, name: str) -> Callable[..., Any] | None:
    """The function that serves a remote call; None if nothing does."""
    return cast("Callable[..., Any] | None", scheduler.handlers.get(name))


def send_to_worker(scheduler: Scheduler, worker: str, message: Message) -> None:
    """Send a message on a worker's stream, in order with its tasks."""
    scheduler.worker_send(worker, message)


def shorten_message_logs(scheduler: Scheduler, address: str, length: int) -> None:
    """Keep fewer of the messages that were sent to a worker or client.

    Dask keeps the last 1,000 for each, with the tasks that they brought: of a thousand workers, gigabytes that nothing
    reads, and that each full garbage collection visits.
    """
    stream = scheduler.stream_comms.get(address) or scheduler.client_comms.get(address)
    if stream is not None:
        stream.recent_message_log = deque(stream.recent_message_log, maxlen=length)


def forget_calls(scheduler: Scheduler) -> None:
    """Forget what Dask notes of each call and keeps: in its process the names of 100,000, in their span all of them.

    Both are of some 600 bytes a call. Names of calls are split again when they are asked for.
    """
    key_split.cache_clear()
    spans = scheduler.extensions.get("spans")
    for span in () if spans is None else spans.spans.values():
        if span.metadata is not None:
            del span.metadata["collections"][COLLECTIONS:]


class _NoDeadline:
    """An interval that ends at no time of day: `BatchedSend` adds it to the time and finds no deadline to wait for."""

    def __radd__(self, _: float) -> None:
        return None


def send_at_once(scheduler: Scheduler, worker: str) -> None:
    """Send messages to a worker as they come, and not 5 ms after the last one.

    Dask waits by a timer that ends in an exception, with a traceback that only a garbage collection ends.
    """
    stream = scheduler.stream_comms.get(worker)
    if stream is not None:
        stream.interval = _NoDeadline()


def send_to_client_every(scheduler: Scheduler, client: str, seconds: float) -> None:
    """Send messages to a client this many seconds apart, together."""
    stream = scheduler.client_comms.get(client)
    if stream is not None:
        stream.interval = seconds


def subscribe_client(scheduler: Scheduler, topic: str, client: str) -> None:
    """Send events of a topic to a client from now on; its own subscription may arrive later."""
    scheduler.subscribe_topic(topic, client)


def send_event(scheduler: Scheduler, topic: str, client: str, event: Mapping[str, Any]) -> None:
    """Send an event to one client that has subscribed to its topic; the scheduler itself keeps nothing of it."""
    scheduler.send_all({client: [{"op": "event", "topic": topic, "event": (time.time(), event)}]}, {})


def forget_topic(scheduler: Scheduler, topic: str, client: str) -> None:
    """Drop a topic of a client's that is over, with its events; `Scheduler` itself would keep it, empty."""
    topics = scheduler._broker._topics
    if topic in topics and topics[topic].subscribers <= {client}:
        del topics[topic]


async def run_on_worker(scheduler: Scheduler, worker: str, function: Callable[..., Any], *arguments: Any) -> str:
    """Call a function on one worker, as `Client.run` does; return what it raised, as text, empty if it returned.

    Raises:
        OSError: the worker is gone.
    """
    call = {"op": "run", "function": dumps(function), "args": dumps(arguments)}
    answer = (await scheduler.broadcast(msg=call, workers=[worker])).get(worker)
    failed = isinstance(answer, dict) and answer.get("status") == "error"
    return str(answer.get("exception_text") or answer.get("text") or answer) if failed else ""


async def call_rpc(scheduler: Any, name: str, **arguments: Any) -> Any:
    """Call what `handle_rpc` serves, by the connections that a worker or client has to its scheduler."""
    return await getattr(scheduler, name)(**arguments)


def last_status(scheduler: Scheduler, worker: str) -> str:
    """The last known status of a worker that is gone: ``"retired"``, or the status that the worker reported.

    A worker reports ``"closing"`` if it ends in good order, and ``"paused"`` while its memory is nearly full.
    """
    for _, event in islice(reversed(scheduler.get_events(worker)), MAX_LAST_EVENTS):
        match event:
            case {"action": "remove-worker", "expected": True}:
                return "retired"
            case {"action": "worker-status-change", "status": status}:
                return str(status)
    return ""


def remove_plugin(scheduler: Scheduler, name: str) -> Any:
    """Remove a scheduler plugin and return it; None if there is none."""
    return scheduler.plugins.pop(name, None)


async def add_worker_plugin(scheduler: Scheduler, name: str, plugin: bytes) -> bool:
    """Install a pickled worker plugin on all workers, present and future; return False if it was installed before.

    Like `Client.register_plugin`, except that a worker that dies meanwhile is no error, and that one that does not
    answer is waited for no longer than `ANSWER_S` seconds; see `plugin_under_way`.
    """
    under_way = extensions(scheduler).setdefault(_PLUGINS, {})
    first = name not in scheduler.worker_plugins
    if first:
        scheduler.worker_plugins[name] = plugin
        message = {"op": "plugin-add", "plugin": plugin, "name": name}
        for worker in list(scheduler.workers):
            installing = scheduler.broadcast(msg=message, workers=[worker], on_error="ignore")
            under_way[worker] = asyncio.ensure_future(installing)
            under_way[worker].add_done_callback(lambda _, worker=worker: under_way.pop(worker, None))
    if under_way:
        await asyncio.wait(list(under_way.values()), timeout=ANSWER_S)
    return first


async def remove_worker_plugin(scheduler: Scheduler, name: str) -> None:
    """Remove a worker plugin from all workers; one that does not answer is waited for no longer than `ANSWER_S`."""
    if scheduler.worker_plugins.pop(name, None) is not None:
        message = {"op": "plugin-remove", "name": name}
        removing = [
            asyncio.ensure_future(scheduler.broadcast(msg=message, workers=[worker], on_error="ignore"))
            for worker in list(scheduler.workers)
        ]
        if removing:
            await asyncio.wait(removing, timeout=ANSWER_S)


def plugin_under_way(scheduler: Scheduler, worker: str) -> asyncio.Future[Any] | None:
    """The installation of a plugin on a worker that has not answered yet; it would not know messages to the plugin."""
    return cast("asyncio.Future[Any] | None", extensions(scheduler).get(_PLUGINS, {}).get(worker))


def release_keys(scheduler: Scheduler, keys: Sequence[Any], client: str, reason: str) -> None:
    """Release tasks that a client wanted; a scheduler that was started again does not know it."""
    if client in scheduler.clients:
        scheduler.client_releases_keys(keys=keys, client=client, stimulus_id=_stimulus(reason))


def set_resource(scheduler: Scheduler, worker: str, name: str, amount: float) -> None:
    """Set how much of a resource the scheduler may use on a worker."""
    scheduler.add_resources(worker, {name: amount})


def forget_resources(scheduler: Scheduler, names: Iterable[str]) -> None:
    """Remove resources from the scheduler and from all workers."""
    for name in names:
        scheduler.resources.pop(name, None)
        for state in scheduler.workers.values():
            state.resources.pop(name, None)


def resource_names(scheduler: Scheduler) -> list[str]:
    """The resources that workers offer or tasks have asked for."""
    return list(scheduler.resources)


def fail_on_first_death(scheduler: Scheduler, keys: Iterable[Any]) -> None:
    """Report tasks as failed when the worker that runs them dies, without retries by Dask."""
    for key in keys:
        scheduler.tasks[key].suspicious = scheduler.allowed_failures


def log_first_deaths(scheduler: Scheduler, is_of_run: Callable[[Any], bool]) -> Callable[[], None]:
    """Have the scheduler's log tell what `fail_on_first_death` does to the tasks of a run.

    Dask would write that a task is "marked as failed because 4 workers died": it counts the deaths that it believes in.

    Args:
        is_of_run: whether a key is that of such a task.

    Returns:
        A function that ends it.
    """

    def reword(record: logging.LogRecord) -> bool:
        if record.msg == _FAILED and isinstance(record.args, tuple) and is_of_run(record.args[0]):
            record.msg, record.args = _DIED, record.args[:1]
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        return True

    log = logging.getLogger(type(scheduler).__module__)
    log.addFilter(reword)
    return partial(log.removeFilter, reword)


def restrict(scheduler: Scheduler, workers: Mapping[Any, str | None]) -> None:
    """Restrict each task to one worker, or to none in particular."""
    for key, worker in workers.items():
        scheduler.tasks[key].worker_restrictions = None if worker is None else {worker}


def unrestrict(task: Any) -> None:
    """Let a task run on any worker."""
    task.worker_restrictions = None


def keep_from_thieves(scheduler: Scheduler, task: Any) -> None:
    """Keep a task at its worker: Dask's work stealing does not consider it."""
    stealing = extensions(scheduler).get("stealing")
    if stealing is not None:
        stealing.remove_key_from_stealable(task)
        stealing.unknown_durations.get(task.prefix.name, set()).discard(task)


def offer_to_thieves(scheduler: Scheduler, task: Any) -> None:
    """Let other workers steal a task that waits at its worker."""
    stealing = extensions(scheduler).get("stealing")
    if stealing is not None:
        stealing.put_key_in_stealable(task)


def mean_seconds(task: Any, default: float) -> float:
    """Mean duration of tasks with the same key prefix; ``default`` until one has ended."""
    average = task.prefix.duration_average
    return float(average) if average >= 0 else default


def transfer_seconds(scheduler: Scheduler, inputs: Collection[Any], worker: str) -> float:
    """Seconds that a worker needs to fetch the inputs that it does not hold."""
    state = scheduler.workers[worker]
    missing = sum(task.get_nbytes() for task in inputs if state not in task.who_has)
    return float(missing / scheduler.bandwidth)


def backlog_seconds(scheduler: Scheduler, worker: str) -> float:
    """Seconds of work that wait for each thread of a worker; infinite if it is gone or takes no tasks."""
    state = scheduler.workers.get(worker)
    return float(state.occupancy / state.nthreads) if state is not None and state in scheduler.running else inf


def reassign_tasks(scheduler: Scheduler, worker: str, keys: Iterable[Any], reason: str) -> None:
    """Take tasks that a worker has not begun from it, and schedule them again."""
    tasks = [scheduler.tasks.get(key) for key in keys]
    released = {
        task.key: "released"
        for task in tasks
        if task is not None and task.processing_on is not None and task.processing_on.address == worker
    }
    if released:
        scheduler.transitions(released, stimulus_id=_stimulus(reason))


def unrunnable_keys(scheduler: Scheduler) -> list[Any]:
    """Keys of the tasks that no worker can run."""
    return [task.key for task in scheduler.unrunnable]


def schedule_unrunnable(scheduler: Scheduler, worker: Any, reason: str) -> None:
    """Schedule tasks that no worker could run, where this one can.

    Args:
        worker: its state on the scheduler.
    """
    recommendations = scheduler.bulk_schedule_unrunnable_after_adding_worker(worker)
    scheduler.transitions(recommendations, stimulus_id=_stimulus(reason))


async def move_results_away(scheduler: Scheduler, worker: str, reason: str) -> None:
    """Copy the results that only one worker holds to others; the worker stays."""
    await scheduler.retire_workers(workers=[worker], close_workers=False, remove=False, stimulus_id=_stimulus(reason))


async def retire(scheduler: Scheduler, workers: Sequence[str], close: bool) -> list[str]:
    """Stop giving tasks to workers and copy their results to others; with ``close``, end the workers.

    Returns:
        Addresses of those whose results could be copied.
    """
    return list(await scheduler.retire_workers(workers=list(workers), close_workers=close, remove=close))


def cancel_retirement(scheduler: Scheduler, worker: str) -> None:
    """Let a worker that could not be retired take tasks again."""
    if worker in scheduler.stream_comms:
        message = {"status": Status.running.name, "stimulus_id": _stimulus("cancel-retirement")}
        scheduler.stream_comms[worker].send({"op": "worker-status-change", **message})


async def restart_process(scheduler: Scheduler, worker: str, timeout_s: float, reason: str) -> None:
    """Have the nanny of a worker restart its process, without waiting for the new one."""
    await scheduler.restart_workers(
        [worker], timeout=timeout_s, wait_for_workers=False, on_error="return", stimulus_id=_stimulus(reason)
    )


# Worker


def longest_error() -> int:
    """Characters of an error's text beyond which Dask cuts it, and sends another error."""
    return int(dask.config.get("distributed.admin.max-error-length"))


def arrives(error: BaseException) -> bool:
    """Whether the error of a task reaches the client as what it is: Dask pickles it with its causes."""
    sent = error_message(error)["exception"].data
    return type(distributed.protocol.pickle.loads(sent)) is type(error) and len(str(error)) <= longest_error()


def message_sender(worker: Worker) -> Callable[[Message], Any]:
    """A function for any thread that sends a message on the stream to the scheduler."""
    return partial(worker.loop.add_callback, worker.batched_send)


def shorten_own_log(worker: Worker, length: int) -> None:
    """Keep fewer of the messages that a worker sent to its scheduler, of which Dask keeps 1,000."""
    stream = worker.batched_stream
    if stream is not None:
        stream.recent_message_log = deque(stream.recent_message_log, maxlen=length)


def waiting_messages(worker: Worker) -> int:
    """How many messages wait on a worker until its scheduler takes them."""
    return len(worker.batched_stream.buffer) if worker.batched_stream is not None else 0


def send_message(worker: Worker, message: Message) -> None:
    """Send a message on the stream to the scheduler; for the worker's event loop."""
    worker.batched_send(message)


def hold_retirement(
    scheduler: Scheduler, drain: Callable[[str], Callable[[], bool]], back: Callable[[str], None]
) -> None:
    """Have workers that retire end their calls first, `RETIRE_S` seconds at most; does nothing the second time.

    Dask moves results away and then closes a worker whose calls still run, so that their results are made again.

    Args:
        scheduler: the scheduler.
        drain: called with the address of a worker that begins to retire; what it returns says whether calls still run.
        back: called with the address of a worker that goes on, as nothing can take its results.
    """
    if _HOLDS in extensions(scheduler):
        return
    extensions(scheduler)[_HOLDS] = True
    track = scheduler._track_retire_worker

    async def drain_and_track(ws: Any, policy: Any, *arguments: Any, **options: Any) -> Any:
        manager = policy.manager

        def move_results() -> None:
            # The policy is done once nothing is left to move, although calls still run whose results come later.
            if policy not in manager.policies and not policy.no_recipients and ws.address in scheduler.workers:
                manager.add_policy(policy)

        is_busy, end = drain(ws.address), time.monotonic() + RETIRE_S
        while ws.address in scheduler.workers and is_busy() and time.monotonic() < end:
            move_results()
            await asyncio.sleep(_CALLS_POLL_S)
        move_results()
        manager.run_once()
        answer = await track(ws, policy, *arguments, **options)
        if answer[1] != "OK":
            back(ws.address)
        return answer

    scheduler._track_retire_worker = drain_and_track


def leave_in_order(worker: Worker) -> Callable[[], None]:
    """Have a worker that is ended from outside end its calls and move its results away first, as far as time allows.

    By itself ``dask worker --no-nanny`` ends at once on SIGTERM, by which SLURM and Kubernetes end a process: the
    scheduler takes that for a death. A second signal still ends it at once. A worker that its nanny closes cancels its
    calls before its plugins learn of it.

    Returns:
        A function that ends it.
    """
    return _leave_on_sigterm(worker) if worker.nanny is None else _leave_with_nanny(worker)


def _leave_on_sigterm(worker: Worker) -> Callable[[], None]:
    usual = signal.getsignal(signal.SIGTERM)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or getattr(usual, "__module__", "") != wait_for_signals.__module__:
        return lambda: None
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def restore() -> None:
        if signal.getsignal(signal.SIGTERM) is leave:
            signal.signal(signal.SIGTERM, usual)

    async def leave_and_close() -> None:
        await _retire(worker, SIGTERM_S)
        await worker.close(executor_wait=False, reason="sigterm")

    def leave(_number: int, _frame: object) -> None:
        restore()
        loop.call_soon_threadsafe(lambda: tasks.add(loop.create_task(leave_and_close())))

    signal.signal(signal.SIGTERM, leave)
    return restore


def _leave_with_nanny(worker: Worker) -> Callable[[], None]:
    usual, closing = worker.close, list[asyncio.Future[Any]]()

    async def retire_and_close(timeout: float, options: Mapping[str, Any]) -> Any:
        end = time.monotonic() + timeout
        if worker.status in (Status.running, Status.paused) and worker.state.tasks:
            await _retire(worker, NANNY_PART * timeout)
        return await usual(timeout=max(0.0, end - time.monotonic()), **options)

    async def close(timeout: float = 30, nanny: bool = True, **options: Any) -> Any:
        if nanny and not closing:  # not by the nanny
            return await usual(timeout=timeout, **options)
        if not closing:
            closing.append(asyncio.ensure_future(retire_and_close(timeout, {"nanny": nanny, **options})))
        return await asyncio.shield(closing[0])  # the scheduler ends the connection to a worker that has retired

    worker.close = close
    return lambda: worker.__dict__.pop("close", None)


async def _retire(worker: Worker, seconds: float) -> None:
    """Have the scheduler give a worker nothing new, and wait for its calls and for their results to move away."""
    worker.status = Status.closing_gracefully
    with suppress(OSError, TimeoutError):
        request = {"workers": [worker.address], "close_workers": False, "remove": True}
        retiring = worker.scheduler.retire_workers(**request, stimulus_id=_stimulus("leave"))
        await asyncio.wait_for(retiring, seconds)


def memory_limit(worker: Worker) -> int | None:
    """Bytes that a worker may use; None without a limit."""
    return cast("int | None", worker.memory_manager.memory_limit)


def process_memory(worker: Worker) -> int:
    """Bytes that a worker's process uses."""
    return int(worker.monitor.get_process_memory())


def gpu_memory() -> tuple[int, int] | None:
    """Bytes in use on the first GPU that this process sees, and its size; None without a GPU."""
    if not nvml.device_get_count():
        return None
    return nvml.real_time()["memory-used"] or 0, nvml.one_time()["memory-total"] or 0


def has_nanny(worker: Worker) -> bool:
    """Whether a nanny restarts the worker's process when it ends."""
    return worker.nanny is not None


def thread_count(worker: Worker) -> int:
    """Tasks that a worker can run at the same time."""
    return int(worker.state.nthreads)


def own_resources(worker: Worker) -> Mapping[str, float]:
    """Resources that a worker offers, in all."""
    return cast(Mapping[str, float], worker.state.total_resources)


def offer_resource(worker: Worker, name: str, amount: float) -> None:
    """Set how much of a resource a worker offers; what tasks use of it stays taken."""
    state = worker.state
    change = amount - state.total_resources.get(name, 0)
    state.total_resources[name] = amount
    state.available_resources[name] = state.available_resources.get(name, 0) + change


def drop_resource(worker: Worker, name: str) -> None:
    """Remove a resource that no running task uses."""
    worker.state.total_resources.pop(name, None)
    worker.state.available_resources.pop(name, None)


def used_resources(worker: Worker) -> set[str]:
    """Names of the resources that running tasks use."""
    return {
        name
        for tasks in (worker.state.executing, worker.state.long_running)
        for task in tasks
        for name in task.resource_restrictions or ()  # a task that needs none has None
    }


def cancel_queued(worker: Worker, name: str, reason: str) -> list[Any]:
    """Remove the tasks that need a resource and have not begun from a worker, and return their keys.

    The scheduler does not learn of it: have it reassign them. A task that stayed in the queue until then could begin
    and run twice.
    """
    keys = [
        key
        for key, task in worker.state.tasks.items()
        if name in (task.resource_restrictions or ()) and task.state in ("waiting", "ready", "constrained")
    ]
    worker.handle_stimulus(*(CancelComputeEvent(key=key, stimulus_id=_stimulus(reason)) for key in keys))
    return keys


def start_queued(worker: Worker, reason: str) -> None:
    """Have a worker look at its queue again, as its resources grew."""
    if worker.status == Status.running:
        worker.handle_stimulus(UnpauseEvent(stimulus_id=f"dcurate-{reason}"))


def replace_queue(state: WorkerStateMachine, resources: Mapping[str, float], queue: HeapSet[TaskState]) -> None:
    """Replace a worker's free resources, and the queue of the tasks that need some; the tasks move to it."""
    state.available_resources = resources
    for task in state.constrained.sorted():
        queue.add(task)
    state.constrained = queue


# Pages of the scheduler


def handle_http(scheduler: Scheduler, path: str, handler: type, arguments: Mapping[str, Any]) -> None:
    """Serve a path of the scheduler's HTTP server, also behind a prefix, by a Tornado handler with ``arguments``."""
    scheduler.http_application.add_handlers(".*$", [(f"(?:/.*)?{path}", handler, arguments)])


def serve_pages(scheduler: Scheduler, pages: Mapping[str, Callable[[Any], None]]) -> bool:
    """Add pages to the scheduler's dashboard, and list the first one on Dask's own pages.

    Call it on the scheduler's event loop; a second call with the same pages does nothing.

    Args:
        pages: by path; each is called with the new Bokeh document.

    Returns:
        Whether they are served: False if the scheduler has no dashboard, as without Bokeh.
    """
    try:
        tornado = importlib.import_module("bokeh.server.tornado")
        importlib.import_module("distributed.dashboard.core")
    except ImportError:
        return False
    servers = scheduler.http_application.applications
    dask_server = next((application for application in servers if isinstance(application, tornado.BokehTornado)), None)
    if dask_server is None:
        return False
    first = next(iter(pages))
    if f"/{first}" in dask_server.app_paths:
        return True
    server = _bokeh_server(scheduler, dask_server, pages)
    # The JupyterLab extension asks the first server which pages there are.
    servers.insert(0, server)
    server.initialize(IOLoop.current())
    server.start()
    # Dask shows the same list on each of its pages.
    variables = importlib.import_module("distributed.dashboard.scheduler").template_variables(scheduler)
    variables["pages"].insert(0, first)
    return True


def _bokeh_server(scheduler: Scheduler, dask_server: Any, pages: Mapping[str, Callable[[Any], None]]) -> Any:
    """A server of pages like that of Dask, which names Dask's pages, too."""
    base = importlib.import_module("distributed.dashboard.core").DaskBokehTornado
    application = importlib.import_module("bokeh.application").Application
    handler = importlib.import_module("bokeh.application.handlers.function").FunctionHandler
    allowed = importlib.import_module("bokeh.server.util").create_hosts_allowlist
    options = dask.config.get("distributed.scheduler.dashboard.bokeh-application").copy()
    origins = allowed(options.pop("allow_websocket_origin"), scheduler.http_server.port)
    paths = property(lambda self: {*self.applications, *dask_server.app_paths})
    # Dask knows servers of this kind by "bokeh" in their class's name.
    return type("bokeh_server", (base,), {"app_paths": paths})(
        {f"/{path}": application(handler(opens)) for path, opens in pages.items()},
        prefix=dask_server.prefix,
        use_index=False,
        extra_websocket_origins=origins,
        absolute_url="",
        **options,
    )


# Clusters and nannies


async def call_scheduler(cluster: DaskCluster, handler: str, /, **arguments: Any) -> Any:
    """Call a handler of the scheduler, see `handle_rpc`."""
    return await getattr(cluster.scheduler_comm, handler)(**arguments)


async def reconcile(cluster: SpecCluster) -> None:
    """Start and end workers until they are those of `SpecCluster.worker_spec`."""
    await cluster._correct_state()


def forget_refused(cluster: SpecCluster) -> None:
    """Forget workers that could not be started, so that `reconcile` starts them again."""
    for entry, worker in list(cluster.workers.items()):
        if worker.status in (Status.created, Status.failed):
            worker.status = Status.failed  # else Dask would not close the cluster while something refers to it
            del cluster.workers[entry]


def check_protocol(protocol: str) -> str:
    """Return a protocol by which processes send data, if Dask has it.

    Raises:
        ResourceError: it is unknown, or its package is not installed.

    Examples:
        >>> check_protocol("tcp")
        'tcp'
    """
    if protocol not in PROTOCOLS:
        raise ResourceError(f"protocol={protocol!r} must be one of {', '.join(map(repr, PROTOCOLS))}")
    try:
        get_backend(protocol)
    except ValueError as error:
        raise ResourceError(
            "protocol='ucxx' needs distributed-ucxx: pip install distributed-ucxx-cu13, or distributed-ucxx-cu12"
        ) from error
    return protocol


def keep_preload_of_fork_server() -> None:
    """Have Dask leave alone which modules the process imports that workers are forked from."""
    vars(distributed.utils)["_forkserver_preload_set"] = True


class ClosingSpecCluster(SpecCluster):  # type: ignore[misc]
    """A cluster that closes in any state of its workers.

    Dask does not close nannies that were created but not started, as when another nanny cannot be created. For these,
    and for workers that die or start meanwhile, it raises errors such as ``AssertionError: Status.starting``. They hide
    the error that the user should see, leave the scheduler running, and make each later `close` wait for ever.
    """

    async def _close(self) -> None:
        await self._close_nannies(Status.init)
        try:
            await super()._close()
        except Exception as error:  # raised by Dask for a state that it does not expect
            logging.getLogger(__name__).debug("closing a cluster: %r", error)
            await self._close_nannies()
            if self.scheduler is not None and self.shutdown_scheduler:
                await self.scheduler.close()
            self._SpecCluster__exit_stack.close()  # which silences logs
            await DaskCluster._close(self)

    async def _close_nannies(self, *states: Status) -> None:
        nannies = [nanny for nanny in self._created if nanny.status in states or not states]
        await asyncio.gather(*(nanny.close() for nanny in nannies), return_exceptions=True)


class PatientSpecCluster(ClosingSpecCluster):
    """A cluster that keeps a nanny whose worker takes long to come back, where Dask would close it."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        super(SpecCluster, self)._update_worker_status(op, msg)


class ObservableNanny(Nanny):  # type: ignore[misc]
    """A nanny that shows the state of its process, asks before it restarts it, and can end one that starts."""

    process: Any

    @property
    def is_up(self) -> bool:
        """Whether the worker has started and has not been seen to die since."""
        process = self.process
        return process is not None and process.status == Status.running and process.is_alive()

    @property
    def died_before_start(self) -> bool:
        """Whether the process was killed before it had read its instructions: writing them fails."""
        process = None if self.process is None else self.process.process
        return process is not None and process.pid is None

    async def kill(self, timeout: float = 5.0, reason: str = "nanny-kill") -> None:
        """End the process (called by Dask), at once if it has not started: it does not listen yet.

        Dask would wait until it has started. If that start was cancelled, as it took too long, Dask fails an assertion
        and leaves the process running.
        """
        process = self.process
        if process is not None and process.status == Status.starting:
            if process.process is not None and process.process.pid is not None:
                await process.process.kill()
            await process.running.wait()
            if process.status == Status.starting:
                process.status = Status.failed
        await super().kill(timeout, reason)

    def handles_exit(self, exitcode: int) -> bool:
        """Whether the subclass handles the end of the process itself."""
        return False

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        if not self.handles_exit(exitcode):
            super()._on_worker_exit_sync(exitcode)


def _stimulus(reason: str) -> str:
    """An id for Dask's log of what caused a transition."""
    return f"dcurate-{reason}-{time.time()}"
