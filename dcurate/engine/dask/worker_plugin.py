"""Worker plugin: sets slots up, offers them as Dask resources, and runs tasks in them."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from dcurate.cluster import compat
from dcurate.cluster.versions import versions
from dcurate.cluster.worker_info import worker_info
from dcurate.core.batch import Batch
from dcurate.core.first_use import heard
from dcurate.engine.dask.gpu_results import register_results
from dcurate.engine.dask.needs import lacking
from dcurate.engine.dask.output import OutputSender
from dcurate.engine.dask.resource_queue import install_resource_queue
from dcurate.engine.worker.call_guard import CallError, attempt
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.engine.worker.slots import SlotPool, forget_host_setup
from dcurate.engine.worker.timeouts import take_hangs
from dcurate.errors import DataError, DcurateError, ResourceError, StageError

#: The name of the worker plugin.
PLUGIN = "dcurate"
#: How often to check whether the tasks of a slot have ended, and how long to wait for them at the end of a run.
POLL_S, TEARDOWN_S = 0.02, 5.0
#: A task is run in a sandbox once this many workers died while they ran its inputs.
SANDBOX_DEATHS = 2
#: Threads that a run may use where it has no limit.
NO_LIMIT = 1_000_000
#: How many ended runs are known, for which no slot is set up any more.
MAX_ENDED_RUNS = 100
#: Slots that can be set up at the same time in one process.
MAX_SETUPS = 8


class TaskSpec(NamedTuple):
    """One task of an operator, as it travels to a worker.

    Args:
        run: id of the run.
        operator: its name.
        task: its `Task.id`.
        deaths: how many workers died while they ran its inputs.
    """

    run: str
    operator: str
    task: int
    deaths: int


def topic(run: str) -> str:
    """The Dask event topic of a run."""
    return f"dcurate-{run}"


def task_prefix(run: str, operator: str) -> str:
    """The first part of the keys of an operator's tasks."""
    return f"{operator}-{run}"


def split_prefix(run: str) -> str:
    """The first part of the keys of tasks that take one batch out of a result."""
    return f"{run}-parts"


def belongs_to(run: str, name: object) -> bool:
    """Whether the first part of a key is one of a run's.

    Examples:
        >>> [belongs_to("7f3a-0", name) for name in (task_prefix("7f3a-0", "clean"), split_prefix("7f3a-0"), "clean")]
        [True, True, False]
    """
    return isinstance(name, str) and (name == split_prefix(run) or name.endswith(f"-{run}"))


def resource_name(run: str, operator: str) -> str:
    """The Dask resource for slots of an operator."""
    return f"stage-{task_prefix(run, operator)}"


def thread_name(run: str) -> str:
    """The resource of a worker for the threads that a run may use there; the scheduler does not know of it."""
    return f"threads-{run}"


def resources_for(key: tuple[str, int]) -> dict[str, int]:
    """The Dask resources of a task: one slot of its operator, or nothing to split a result."""
    return {} if key[0].endswith("-parts") else {f"stage-{key[0]}": 1}


def priority(priorities: Mapping[str, int], key: tuple[str, int]) -> int:
    """The priority of a task, by the first part of its key."""
    return priorities[key[0]]


@dataclass
class CallCounts:
    """How many calls of an operator returned, their seconds, and how many raised."""

    returned: int = 0
    seconds: float = 0.0
    raised: int = 0


class CallCounters:
    """Counts the calls of operators since the process started, over all runs; thread-safe.

    Examples:
        >>> counters = CallCounters()
        >>> counters.returned("filter", 0.5)
        >>> counters.counts()
        {'filter': CallCounts(returned=1, seconds=0.5, raised=0)}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, CallCounts] = {}

    def returned(self, operator: str, seconds: float) -> None:
        """Count a call that returned."""
        with self._lock:
            calls = self._calls.setdefault(operator, CallCounts())
            calls.returned += 1
            calls.seconds += seconds

    @contextmanager
    def failing(self, operator: str) -> Iterator[None]:
        """Count a call that raises in the ``with`` block."""
        raised = True
        try:
            yield
            raised = False
        finally:
            if raised:
                with self._lock:
                    self._calls.setdefault(operator, CallCounts()).raised += 1

    def counts(self) -> Mapping[str, CallCounts]:
        """Return the counts so far."""
        with self._lock:
            return {operator: replace(calls) for operator, calls in self._calls.items()}


class DcurateWorkerPlugin(WorkerPlugin):
    """Keeps as many slots as the slot manager requests, offers them as Dask resources, and runs tasks in them."""

    name = PLUGIN
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Install on a worker (called by Dask)."""
        self.worker = worker
        self.pools: dict[tuple[str, str], SlotPool] = {}
        self.counters = CallCounters()
        self.ended_runs: deque[str] = deque(maxlen=MAX_ENDED_RUNS)
        self.releases: dict[str, asyncio.Task[list[str]]] = {}
        self.locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.threads = ThreadPoolExecutor(MAX_SETUPS, thread_name_prefix="dcurate-setup")
        self.background: set[asyncio.Task[None]] = set()
        self.queue = install_resource_queue(worker.state)
        register_results()
        compat.handle_stream(worker, "dcurate-describe", self.describe)
        compat.handle_stream(worker, "dcurate-set-slots", self.set_slots)
        compat.handle_stream(worker, "dcurate-limit-calls", self.limit_calls)
        compat.handle_stream(worker, "dcurate-end-output", self.end_output)
        self.send = compat.message_sender(worker)
        self.output = OutputSender(worker)
        self.end_leaving = compat.leave_in_order(worker)

    async def teardown(self, worker: Worker) -> None:
        """Tear all slots down when the worker closes (called by Dask)."""
        self.end_leaving()
        self.output.end_all()
        for pool in self.pools.values():
            pool.close()
        self.pools.clear()
        self.threads.shutdown(wait=False)

    # What the scaler asks for

    def describe(self, run: str, lines_s: float | None, needs: bytes) -> None:
        """Register this worker with the slot manager of a run.

        Args:
            run: id of the run.
            lines_s: seconds between two messages with lines of stages; None to send none.
            needs: pickled `WorkerNeeds`; empty to check nothing.
        """
        if lines_s is not None:
            self.output.begin(run, lines_s)
        self._in_background(self._register(run, needs))

    async def _register(self, run: str, needs: bytes) -> None:
        try:
            info = worker_info(self.worker).to_dict()
        except ResourceError as error:
            self._emit(run, {"failed": "", "error": f"worker {self.worker.address}: {error}", "notes": []})
            return
        lacks = await lacking(needs, self.worker) if needs else ""
        message = {"run": run, "info": info, "versions": versions(), "lacks": lacks}
        compat.send_message(self.worker, {"op": "dcurate-register", **message})
        for hang in take_hangs(run):
            self._emit(run, {"hung": hang.doing, "trace": hang.trace})

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def limit_calls(self, run: str, threads: int | None) -> None:
        """Limit the threads that the calls of a run take at a time; None for no limit."""
        if run not in self.ended_runs:
            compat.offer_resource(self.worker, thread_name(run), NO_LIMIT if threads is None else threads)
            compat.start_queued(self.worker, f"limit-{run}")

    def set_slots(self, run: str, operator: str, slots: int, payload: bytes, gpus: Iterable[str]) -> None:
        """Change the number of slots of an operator: set up new ones, or tear some down once their calls end."""
        self._in_background(self._set_slots(run, operator, slots, payload, tuple(gpus)))

    async def _set_slots(self, run: str, operator: str, slots: int, payload: bytes, gpus: tuple[str, ...]) -> None:
        async with self.locks[run, operator]:
            if run in self.ended_runs:  # the scaler's message was overtaken by the driver's, that the run is over
                self._report_slots(run, operator, 0, left=True)
                return
            self._count_threads(run, operator)
            limit = compat.memory_limit(self.worker)
            pool = self.pools.setdefault((run, operator), SlotPool(run, payload, compat.has_nanny(self.worker), limit))
            try:
                if slots < pool.count or not slots:
                    await self._reduce(run, operator, slots)
                missing = range(pool.count, slots)
                await asyncio.gather(*(self._add(run, operator, number, gpus) for number in missing))
            except DcurateError as error:
                self._emit(run, {"failed": operator, "error": str(error), "notes": getattr(error, "__notes__", [])})
            except (ImportError, AttributeError) as error:
                message = f"worker cannot load operator {operator!r}: {error}"
                self._emit(run, {"failed": operator, "error": message, "cannot_load": operator})
            except OSError as error:
                advice = "make room in its temporary directory, or name another one with TMPDIR"
                message = f"worker {self.worker.address} cannot set up operator {operator!r}: {error}; {advice}"
                self._emit(run, {"failed": operator, "error": message, "notes": []})
            if not pool.count:
                self.pools.pop((run, operator), None)
            if all(other != run for other, _ in self.pools):
                self.queue.forget(thread_name(run))

    def _count_threads(self, run: str, operator: str) -> None:
        """Have each call of an operator take one of the threads that its run may use."""
        name = thread_name(run)
        if name not in compat.own_resources(self.worker):
            compat.offer_resource(self.worker, name, NO_LIMIT)
        self.queue.count_calls(resource_name(run, operator), name)

    async def _add(self, run: str, operator: str, number: int, gpus: tuple[str, ...]) -> None:
        """Set one more slot up, and offer it."""
        pool = self.pools[run, operator]
        await self._in_thread(run, pool.add, f"{self.worker.address}/{number}", self._gpu_indices(gpus))
        self._offer_slots(run, operator, pool.count)

    async def _reduce(self, run: str, operator: str, slots: int) -> None:
        """Offer fewer slots at once; tear down the rest when their calls have ended."""
        pool = self.pools[run, operator]
        name = resource_name(run, operator)
        self._offer_slots(run, operator, slots, leaving=True)
        while not slots and name in compat.used_resources(self.worker):
            await asyncio.sleep(POLL_S)
        while pool.count > slots:
            for failure in await self._in_thread(run, pool.remove):
                self._emit(run, {"failed": operator, "error": failure, "notes": []})
        self._report_slots(run, operator, slots, left=True)

    def _offer_slots(self, run: str, operator: str, slots: int, leaving: bool = False) -> None:
        """Change the worker's resources, then report them to the scheduler."""
        threads = compat.thread_count(self.worker)
        total = sum(pool.count for pool in self.pools.values())
        # A call that waits for its slot in a thread of its own has its inputs fetched, and blocks no other operator's.
        lead = 2 if threads >= 2 * total else 1
        name = resource_name(run, operator)
        compat.offer_resource(self.worker, name, slots * lead)
        queued = compat.cancel_queued(self.worker, name, f"withdraw-{name}") if leaving else []
        if not leaving:
            compat.start_queued(self.worker, f"offer-{name}")
        self._report_slots(
            run, operator, slots, offered=slots * lead, queued=queued, blocks=lead == 1 and slots < threads
        )

    def _report_slots(self, run: str, operator: str, slots: int, **more: Any) -> None:
        pool = self.pools.get((run, operator))
        seconds = pool.setup_seconds if pool else 0.0
        event = {"run": run, "operator": operator, "slots": slots, "setup_seconds": seconds, **more}
        compat.send_message(self.worker, {"op": "dcurate-slots", **event})

    def _gpu_indices(self, gpus: tuple[str, ...]) -> tuple[int, ...]:
        """Return the CUDA indices of GPUs as this process counts them."""
        names = [name for name, _ in worker_info(self.worker).gpus]
        return tuple(names.index(gpu) for gpu in gpus if gpu in names)

    async def _in_thread(self, run: str, function: Any, *arguments: Any) -> Any:
        call = partial(self.output.call, run, function, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    def _emit(self, run: str, event: dict[str, Any]) -> None:
        """Send an event to the slot manager of a run, which publishes it unless the run has ended."""
        self.send({"op": "dcurate-event", "run": run, "event": event})

    def _compiling(self, run: str, kernels: int, seconds: float) -> None:
        """Tell the driver that a stage compiles kernels."""
        self._emit(run, {"compiling": kernels, "seconds": seconds})

    # What tasks and the driver ask for

    def work(self, task_spec: TaskSpec, inputs: list[Batch]) -> TaskResult:
        """Run a task in a slot, or in a sandbox if workers died while they ran its inputs; send its summary."""
        pool, sandboxed = self.pools[task_spec.run, task_spec.operator], task_spec.deaths >= SANDBOX_DEATHS
        with self.counters.failing(task_spec.operator):
            with heard(partial(self._compiling, task_spec.run)):
                result: Any = attempt(partial(self.output.call, task_spec.run, pool.work, sandboxed=sandboxed), inputs)
            if isinstance(result, CallError):
                raise _sendable(result, task_spec.operator)
        self.counters.returned(task_spec.operator, result.seconds)
        self._emit(task_spec.run, {"task": task_spec.task, **result.summary()})
        return cast(TaskResult, result)

    async def release_run(self, run: str) -> list[str]:
        """Tear down the slots of a run, once; return error messages, again when called again."""
        if run not in self.releases:
            self.releases[run] = asyncio.ensure_future(self._release_run(run))
            for ended in list(self.releases)[:-MAX_ENDED_RUNS]:
                del self.releases[ended]
        return await asyncio.shield(self.releases[run])

    async def _release_run(self, run: str) -> list[str]:
        failures: list[str] = []
        self.ended_runs.append(run)
        for key in [key for key in self.locks if key[0] == run]:
            async with self.locks[key]:
                pool = self.pools.pop(key, None)
                self._withdraw_resource(resource_name(*key))
                while pool is not None and pool.count:
                    failures += await self._in_thread(run, pool.remove, TEARDOWN_S)
            del self.locks[key]
        self.queue.forget(thread_name(run))
        forget_host_setup(run)
        return failures

    def end_output(self, run: str) -> None:
        """Send the last lines of a run whose driver is gone."""
        self.output.end(run)

    def _withdraw_resource(self, name: str) -> None:
        """Withdraw a resource; remove it and those of ended runs unless a running task uses them."""
        used = compat.used_resources(self.worker)
        if name in used:
            compat.offer_resource(self.worker, name, 0)
        offered = compat.own_resources(self.worker)
        ended_runs = [resource for resource in offered if any(resource.endswith(f"-{run}") for run in self.ended_runs)]
        for resource in set(ended_runs) - used:
            compat.drop_resource(self.worker, resource)


def _sendable(failure: CallError, operator: str) -> BaseException:
    """Return the error of a task, as one that arrives with its own name and text: without a cause if need be."""
    error = failure.error
    if isinstance(error, DcurateError) and not compat.arrives(error):
        error.__cause__ = error.__context__ = None
    if isinstance(error, DcurateError | MemoryError) and compat.arrives(error):
        return error
    text = str(error) if isinstance(error, DcurateError) else f"operator {operator!r} failed: {failure.message}"
    sendable = StageError(text[: compat.longest_error()])
    sendable.__notes__ = [*getattr(error, "__notes__", ()), failure.trace]
    return sendable


def plugin_on(worker: Worker) -> DcurateWorkerPlugin:
    """Return the plugin of a worker."""
    return cast(DcurateWorkerPlugin, compat.plugin_of(worker, PLUGIN))


def run_call(task_spec: TaskSpec | None, given: Sequence[Any], picks: Sequence[tuple[int, int]]) -> TaskResult:
    """Run a task. Without a `task_spec`, return the picked batches as a result of their own.

    Args:
        given: source splits for the first operator, else results of earlier tasks.
        picks: for each result, the position of the batch to take: the input that it was made of, and its number among
            those.
    """
    inputs = (
        [result.outputs[place][child] for result, (place, child) in zip(given, picks, strict=True)] if picks else given
    )
    if task_spec is None:
        return TaskResult([list(inputs)], [], [], [[batch.nbytes for batch in inputs]])
    worker = get_worker()
    try:
        return plugin_on(worker).work(TaskSpec(*task_spec), list(inputs))
    except DataError as error:
        if isinstance(error.__cause__, OSError):  # a mount that is missing on one of many hosts
            error.args = (f"{error} (on worker {worker.address}, host {worker_info(worker).host})",)
        raise


def has_plugin(dask_worker: Worker) -> bool:
    """Whether a worker has the plugin; for `Client.run`."""
    return compat.plugin_of(dask_worker, PLUGIN) is not None


def describe(dask_worker: Worker) -> dict[str, Any]:
    """Return the info of a worker as plain values; for `Client.run`."""
    return {**worker_info(dask_worker).to_dict(), "threads": compat.thread_count(dask_worker)}


async def release_run(dask_worker: Worker, run: str) -> list[str]:
    """Tear down a run's slots on a worker; for `Client.run`."""
    return await plugin_on(dask_worker).release_run(run)


async def end_output(dask_worker: Worker, run: str) -> int:
    """Send the last lines of a run; return how many messages with lines there were; for `Client.run`."""
    return await asyncio.to_thread(plugin_on(dask_worker).output.end, run)
