"""The part of dcurate that lives in every Dask worker: it holds the slots."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from dcurate.cluster import compat
from dcurate.cluster.worker_info import announcement
from dcurate.core.batch import Batch
from dcurate.engine.dask.resource_queue import install_resource_queue
from dcurate.engine.worker.counters import Done
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.engine.worker.slot_queue import SlotQueue
from dcurate.engine.worker.slots import forget_host_setup
from dcurate.engine.worker.timeouts import take_hangs
from dcurate.errors import DcurateError, ResourceError

#: The name of the worker plugin, the same on every worker.
PLUGIN = "dcurate"
#: How often a worker that gives slots up looks whether its calls have ended, and how long the end of a run waits.
LOOK_S, PATIENCE_S = 0.02, 5.0
#: A call that was under way when so many workers died is run in a process of its own.
SUSPECT = 2
#: The last runs that are over, for which no slot is set up any more: so many are known.
OVER = 100
#: Slots that can be set up at the same time in one process.
SETUPS = 8


class Call(NamedTuple):
    """One call of an operator.

    Args:
        run: id of the run.
        operator: its name.
        task: its `Task.id`.
        deaths: how many workers died under its inputs before.
    """

    run: str
    operator: str
    task: int
    deaths: int


def topic(run: str) -> str:
    """The Dask event topic on which a run's news travels."""
    return f"dcurate-{run}"


def group(run: str, operator: str) -> str:
    """The first part of the keys of an operator's tasks."""
    return f"{operator}-{run}"


def parts(run: str) -> str:
    """The first part of the keys of tasks that take one batch out of an outcome of many."""
    return f"{run}-parts"


def is_of(run: str, name: object) -> bool:
    """Whether the first part of a key is that of a task of a run.

    Examples:
        >>> is_of("7f3a-0", group("7f3a-0", "clean")), is_of("7f3a-0", parts("7f3a-0")), is_of("7f3a-0", "clean")
        (True, True, False)
    """
    return isinstance(name, str) and (name == parts(run) or name.endswith(f"-{run}"))


def resource(run: str, operator: str) -> str:
    """The Dask resource that a worker offers for each slot of an operator."""
    return f"stage-{group(run, operator)}"


def needs(key: tuple[str, int]) -> dict[str, int]:
    """What a task needs of a worker: one unit of its operator's resource; nothing to take out a batch."""
    return {} if key[0].endswith("-parts") else {f"stage-{key[0]}": 1}


def priority(priorities: Mapping[str, int], key: tuple[str, int]) -> int:
    """The priority of a task, of those of each group."""
    return priorities[key[0]]


class DcurateWorkerPlugin(WorkerPlugin):
    """Holds as many slots as the scaler says, offers them as Dask resources, and runs tasks in them."""

    name = PLUGIN
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Take part in a worker (called by Dask)."""
        self.worker = worker
        self.held: dict[tuple[str, str], SlotQueue] = {}
        self.done = Done()
        self.over: deque[str] = deque(maxlen=OVER)
        self.changing: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.threads = ThreadPoolExecutor(SETUPS, thread_name_prefix="dcurate-setup")
        self.under_way: set[asyncio.Task[None]] = set()
        install_resource_queue(worker.state)
        compat.handle_stream(worker, "dcurate-describe", self.describe)
        compat.handle_stream(worker, "dcurate-hold", self.hold)
        self.send = compat.message_sender(worker)

    def teardown(self, worker: Worker) -> None:
        """Tear all slots down when the worker closes (called by Dask)."""
        for held in self.held.values():
            held.close()
        self.held.clear()
        self.threads.shutdown(wait=False)

    # What the scaler asks for

    def describe(self, run: str) -> None:
        """Say what this worker is."""
        try:
            said = announcement(self.worker).to_dict()
        except ResourceError as error:
            self._tell(run, {"failed": "", "error": f"worker {self.worker.address}: {error}", "notes": []})
            return
        compat.send_message(self.worker, {"op": "dcurate-hello", "run": run, "is": said})
        for hang in take_hangs(run):
            self._tell(run, {"hung": hang.doing, "trace": hang.trace})

    def hold(self, run: str, operator: str, slots: int, payload: bytes, cards: Iterable[str]) -> None:
        """Hold so many slots of an operator: set more up, or let calls end and tear some down."""
        task = asyncio.ensure_future(self._hold(run, operator, slots, payload, tuple(cards)))
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def _hold(self, run: str, operator: str, slots: int, payload: bytes, cards: tuple[str, ...]) -> None:
        async with self.changing[run, operator]:
            if run in self.over:  # the scaler's message was overtaken by the driver's, that the run is over
                return
            limit = compat.memory_limit(self.worker)
            held = self.held.setdefault((run, operator), SlotQueue(payload, compat.has_nanny(self.worker), limit))
            try:
                if slots < held.count:
                    await self._lower(run, operator, slots)
                missing = range(held.count, slots)
                await asyncio.gather(*(self._add(run, operator, number, cards) for number in missing))
            except DcurateError as error:
                self._tell(run, {"failed": operator, "error": str(error), "notes": getattr(error, "__notes__", [])})
            except (ImportError, AttributeError) as error:
                self._tell(run, {"failed": operator, "error": f"worker cannot load operator {operator!r}: {error}"})
            if not held.count:
                self.held.pop((run, operator), None)

    async def _add(self, run: str, operator: str, number: int, cards: tuple[str, ...]) -> None:
        """Set one more slot up, and offer it."""
        held = self.held[run, operator]
        await self._in_thread(held.add, run, f"{self.worker.address}/{number}", self._indices(cards))
        self._offer(run, operator, held.count)

    async def _lower(self, run: str, operator: str, slots: int) -> None:
        """Offer fewer slots at once; tear down the rest when their calls have ended."""
        held = self.held[run, operator]
        name = resource(run, operator)
        self._offer(run, operator, slots, leaving=True)
        while not slots and name in compat.used_resources(self.worker):
            await asyncio.sleep(LOOK_S)
        while held.count > slots:
            for failure in await self._in_thread(held.remove):
                self._tell(run, {"failed": operator, "error": failure, "notes": []})
        self._say(run, operator, slots, left=True)

    def _offer(self, run: str, operator: str, slots: int, leaving: bool = False) -> None:
        """Change the worker's own account of its resources, then have the scheduler's follow."""
        threads = compat.thread_count(self.worker)
        total = sum(held.count for held in self.held.values())
        # A call that waits for its slot in a thread of its own has its inputs fetched, and blocks no other operator's.
        lead = 2 if threads >= 2 * total else 1
        name = resource(run, operator)
        compat.offer_resource(self.worker, name, slots * lead)
        queued = compat.queued_for(self.worker, name) if leaving else []
        if not leaving:
            compat.start_queued(self.worker, f"offer-{name}")
        self._say(run, operator, slots, offered=slots * lead, queued=queued, blocks=lead == 1 and slots < threads)

    def _say(self, run: str, operator: str, slots: int, **more: Any) -> None:
        held = self.held.get((run, operator))
        seconds = held.setup_seconds if held else 0.0
        news = {"run": run, "operator": operator, "slots": slots, "setup_seconds": seconds, **more}
        compat.send_message(self.worker, {"op": "dcurate-held", **news})

    def _indices(self, cards: tuple[str, ...]) -> tuple[int, ...]:
        """CUDA indices of cards as this process counts them."""
        names = [name for name, _ in announcement(self.worker).cards]
        return tuple(names.index(card) for card in cards if card in names)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    def _tell(self, run: str, news: dict[str, Any]) -> None:
        """Send news of a run to its scaler, which publishes them unless the run is over."""
        self.send({"op": "dcurate-told", "run": run, "news": news})

    # What tasks and the driver ask for

    def work(self, call: Call, inputs: list[Batch]) -> TaskResult:
        """Run one call in a slot, or alone if it was there when workers died, and tell the driver what came of it."""
        with self.done.failing(call.operator):
            outcome = self.held[call.run, call.operator].work(inputs, alone=call.deaths >= SUSPECT)
        self.done.returned(call.operator, outcome.seconds)
        self._tell(call.run, {"task": call.task, **outcome.summary()})
        return outcome

    async def dismiss(self, run: str) -> list[str]:
        """Tear down the slots of a run; returns what failed, in words."""
        failures: list[str] = []
        self.over.append(run)
        for key in [key for key in self.changing if key[0] == run]:
            async with self.changing[key]:
                held = self.held.pop(key, None)
                self._withdraw(resource(*key))
                while held is not None and held.count:
                    failures += await self._in_thread(held.remove, PATIENCE_S)
            del self.changing[key]
        forget_host_setup(run)
        return failures

    def _withdraw(self, name: str) -> None:
        """Offer a resource no more; forget it and others of runs that are over, if no call has some to give back."""
        used = compat.used_resources(self.worker)
        if name in used:
            compat.offer_resource(self.worker, name, 0)
        offered = compat.own_resources(self.worker)
        over = [one for one in offered if any(one.endswith(f"-{run}") for run in self.over)]
        for one in set(over) - used:
            compat.drop_resource(self.worker, one)


def holder_of(worker: Worker) -> DcurateWorkerPlugin:
    """The slots of a Dask worker."""
    return cast(DcurateWorkerPlugin, compat.plugin_of(worker, PLUGIN))


def work_on(call: Call | None, given: Sequence[Any], picks: Sequence[tuple[int, int]]) -> TaskResult:
    """The task that runs one call; without a call, what was picked is an outcome of its own.

    Args:
        given: batches, for the first operator; for a later one, outcomes of calls before it.
        picks: of each outcome, the batch to take: of which input it was made, and its number among those.
    """
    inputs = [one.outputs[place][child] for one, (place, child) in zip(given, picks, strict=True)] if picks else given
    if call is None:
        return TaskResult([list(inputs)], [], [], [[batch.nbytes for batch in inputs]])
    return holder_of(get_worker()).work(Call(*call), list(inputs))


def holds_slots(dask_worker: Worker) -> bool:
    """Whether a worker is ready to hold slots; for `Client.run`."""
    return compat.plugin_of(dask_worker, PLUGIN) is not None


def describe(dask_worker: Worker) -> dict[str, Any]:
    """What a worker is, in plain values; for `Client.run`."""
    return {**announcement(dask_worker).to_dict(), "threads": compat.thread_count(dask_worker)}


async def dismiss(dask_worker: Worker, run: str) -> list[str]:
    """Tear down a run's slots on a worker; for `Client.run`."""
    return await holder_of(dask_worker).dismiss(run)
