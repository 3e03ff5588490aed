"""Run tasks on a Dask cluster: submit, wait, fetch and release."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self, cast

import dask
from distributed import Future, KilledWorker, as_completed

from dcurate.cluster import compat
from dcurate.cluster.base import Cluster
from dcurate.core.batch import Batch
from dcurate.core.owner import present_owner
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.dask.joining import MESSAGES
from dcurate.engine.dask.observation import RunConfig
from dcurate.engine.dask.worker_plugin import (
    TaskSpec,
    priority,
    resources_for,
    run_call,
    split_prefix,
    task_prefix,
    topic,
)
from dcurate.engine.driver import TaskDied, TaskFinished
from dcurate.engine.flow import Flow, OutputRef, Task
from dcurate.engine.policies.speculation import Speculation
from dcurate.engine.policies.view import RunView, TaskView
from dcurate.engine.throughput import ThroughputTracker
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.errors import DataError, DcurateError, ResourceError, RunError, StageError
from dcurate.events import (
    CallCopied,
    CallHung,
    CompilingLate,
    Decided,
    HostSample,
    HostsSampled,
    RunWaits,
    SlotsChanged,
    WorkerLeft,
    WorkerLost,
    WorkerRecycled,
)
from dcurate.redaction import text_of

#: Seconds between two checks of the cluster while no event comes.
POLL_S = 0.25
#: How long to wait for more tasks to end, as a share of the shortest task: the larger one up to the first number of
#: seconds, the smaller one up to the second.
BATCH_DELAY_SHARES, BATCH_DELAYS_S = (0.15, 0.01), (0.03, 0.2)
#: Results of at least this many bytes are split: each output becomes a Dask task of its own.
LARGE_BYTES = 4 << 20
#: Most tasks of a graph: the scheduler does nothing else while it adds the tasks of one.
GRAPH_TASKS = 250
#: How often a task is retried because its inputs were lost with the worker that held them.
MAX_RETRIES = 5
#: Seconds to wait until the client sees that a task is retried.
RETRY_WAIT_S = 2.0
#: Seconds to wait for what stages printed last.
LINES_S = 2.0


_log = logging.getLogger("dcurate.engine")


@dataclass(eq=False)
class InFlight:
    """A task from its submission until nothing needs its outputs.

    Args:
        future: future of the result; None once it was split.
        started: `time.monotonic` when it was submitted.
        summary: summary of its `TaskResult`; the worker sends it before Dask reports the end of the task.
        ended: whether the flow knows that the task has ended.
        retries: how often it was retried because its inputs were lost.
        needed: outputs that are still needed.
        split: futures of single outputs, once the result was split.
    """

    task: Task
    future: Future | None
    started: float
    summary: dict[str, Any] | None = None
    ended: bool = False
    retries: int = 0
    needed: set[OutputRef] = field(default_factory=set)
    split: dict[OutputRef, Future] = field(default_factory=dict)

    def output(self, ref: OutputRef) -> tuple[Future, tuple[int, int]]:
        """Return the future that holds an output, and the output's position in the result."""
        if ref in self.split:
            return self.split[ref], (0, 0)
        return self.future, (ref.input, ref.output)

    def futures(self) -> Iterator[Future]:
        """Yield all futures of the task."""
        if self.future is not None:
            yield self.future
        yield from self.split.values()


class DaskBackend:
    """Runs tasks as Dask tasks that each take one unit of their operator's resource.

    Outputs stay on the worker that made them. Their sizes, files and counts travel as an event that the worker sends
    before the task ends, so results are not gathered.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Round,
        accounting: RunAccounting,
        flow: Flow,
        config: RunConfig,
        *,
        speculation: Speculation | None = None,
    ) -> None:
        self.cluster = cluster
        self.speculation = speculation or Speculation()
        self.client = cluster.client
        self.run = job.run_key
        self.operators = job.plan.operators
        self._priorities = {task_prefix(self.run, operator.name): operator.priority for operator in self.operators}
        self._priorities[split_prefix(self.run)] = 1 + max(self._priorities.values())
        self.accounting = accounting
        self.flow = flow
        self.completed = as_completed(loop=self.client.loop)
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._in_flight: dict[int, InFlight] = {}
        #: Tasks whose outputs are to be taken apart.
        self._large: list[InFlight] = []
        #: When each operator came to its last tasks.
        self._tail: dict[int, float] = {}
        self._slots: dict[tuple[str, str], int] = {}
        self.setups: dict[str, float] = {}
        self.throughput = ThroughputTracker([operator.name for operator in self.operators], config.priors)
        self._timeout_s = config.scheduler_timeout_s
        self._memory = flow.budget_bytes
        self._last_contact = time.monotonic()
        self._take_lines = present_owner().take_lines
        #: Messages with lines that came from each worker.
        self._lines_from: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.client.subscribe_topic(topic(self.run), self._on_event)
        compat.shorten_client_log(self.client, MESSAGES)
        return self

    def __exit__(self, *_: object) -> None:
        if self.client.status == "running":
            self.client.unsubscribe_topic(topic(self.run))

    def _on_event(self, event: tuple[float, dict[str, Any]]) -> None:
        """Queue an event of a worker or the scheduler plugin; called on the client's own thread."""
        if "lines" in event[1]:
            self._on_lines(**event[1])
            return
        self._events.put(event[1])
        if "task" in event[1]:
            return  # the end of the task follows and wakes the driver
        compat.wake(self.completed)

    def _on_lines(self, worker: str, name: str, lines: Sequence[Sequence[Any]]) -> None:
        """Hand on what stages printed on a worker."""
        if self._take_lines is not None and lines:
            self._take_lines(name, lines)
        self._lines_from[worker] += 1

    def take_last_lines(self, sent: Mapping[str, Any]) -> None:
        """Wait for lines that are under way.

        Args:
            sent: how many messages with lines each worker has sent; something else of one that is gone.
        """
        end = time.monotonic() + LINES_S
        while time.monotonic() < end and any(
            self._lines_from[worker] < number for worker, number in sent.items() if isinstance(number, int)
        ):
            time.sleep(LINES_S / 100)

    # Tasks

    def submit(self, tasks: Sequence[tuple[Task, list[Batch] | None]]) -> None:
        """Submit tasks together: a graph costs the scheduler as much as several tasks.

        Resources and priority of a Dask task follow from its key.
        """
        self._split_outputs()
        names = [self.operators[task.operator].name for task, _ in tasks]
        inputs: list[Sequence[Any]] = []
        picks: list[list[tuple[int, int]]] = []
        for task, splits in tasks:
            outputs = [] if splits else [self._in_flight[ref.task].output(ref) for ref in task.inputs]
            inputs.append(splits or [future for future, _ in outputs])
            picks.append([place for _, place in outputs])
        futures = self._map(
            [(task_prefix(self.run, name), task.id) for name, (task, _) in zip(names, tasks, strict=True)],
            [TaskSpec(self.run, name, task.id, task.deaths) for name, (task, _) in zip(names, tasks, strict=True)],
            inputs,
            picks,
        )
        now = time.monotonic()
        for (task, _), future in zip(tasks, futures, strict=True):
            self._in_flight[task.id] = InFlight(task, future, now)
        self.completed.update(futures)

    def _map(
        self,
        keys: Sequence[tuple[str | int, ...]],
        calls: Sequence[TaskSpec | None],
        inputs: Sequence[Sequence[Any]],
        picks: Sequence[Sequence[tuple[int, int]]],
    ) -> list[Future]:
        with dask.annotate(resources=resources_for, priority=partial(priority, self._priorities)):
            return [
                future
                for start in range(0, len(keys), GRAPH_TASKS)
                for part in [slice(start, start + GRAPH_TASKS)]
                for future in self.client.map(
                    run_call, calls[part], inputs[part], picks[part], key=keys[part], pure=False
                )
            ]

    def _split_outputs(self) -> None:
        """Make each output of a large result a Dask task of its own, so that workers fetch only what they need."""
        refs = [(in_flight, ref) for in_flight in self._large for ref in sorted(in_flight.needed)]
        self._large.clear()
        if not refs:
            return
        outputs = [in_flight.output(ref) for in_flight, ref in refs]
        futures = self._map(
            [(split_prefix(self.run), *ref) for _, ref in refs],
            [None] * len(refs),
            [[future] for future, _ in outputs],
            [[place] for _, place in outputs],
        )
        for (in_flight, ref), future in zip(refs, futures, strict=True):
            in_flight.split[ref] = future
            in_flight.future = None

    def fetch(self, ref: OutputRef) -> Batch:
        self._split_outputs()
        future, (place, number) = self._in_flight[ref.task].output(ref)
        return self._gather(future).outputs[place][number]

    def release(self, refs: Sequence[OutputRef]) -> None:
        for ref in refs:
            in_flight = self._in_flight.get(ref.task)
            if in_flight is None:
                continue  # a split
            in_flight.needed.discard(ref)
            in_flight.split.pop(ref, None)
            if not in_flight.needed:
                del self._in_flight[ref.task]

    def close(self) -> None:
        """Cancel all tasks."""
        futures = [future for in_flight in self._in_flight.values() for future in in_flight.futures()]
        self._in_flight.clear()
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    def cancel(self, task: int) -> None:
        """Cancel a task; if its worker still runs it, the result is discarded."""
        in_flight = self._in_flight.pop(task, None)
        if in_flight is not None:
            self._large = [large for large in self._large if large is not in_flight]
            self.client.cancel(list(in_flight.futures()), force=True)

    def _speculate(self) -> bool:
        """Run late tasks again on idle slots; return whether there are any."""
        now, copied = time.monotonic(), False
        may = [self.flow.may_speculate(operator) for operator in range(len(self.operators))]
        self._tail = {operator: self._tail.get(operator, now) for operator, able in enumerate(may) if able}
        tasks = {task.id: task for task in self._tail_tasks(now)} if self._tail else {}
        for suggestion in self.speculation.run(RunView(now, tasks=tuple(tasks.values()))):
            late = tasks[suggestion.task]
            if self.flow.speculate(late.id, self._in_flight[late.id].task.operator):
                copied = True
                self.accounting.emit(CallCopied(time.time(), late.operator, late.seconds, late.usual_s))
        return copied

    def _tail_tasks(self, now: float) -> Iterator[TaskView]:
        """Yield the running tasks of operators that have only their last tasks left, and idle slots."""
        for in_flight in self._in_flight.values():
            operator = in_flight.task.operator
            rate = self.throughput.rates[operator]
            if not in_flight.ended and operator in self._tail and rate.seconds is not None:
                # Only the time counts in which the task cannot have waited for others.
                seconds = now - max(self._tail[operator], in_flight.started)
                usual_s = rate.seconds * len(in_flight.task.inputs)
                yield TaskView(in_flight.task.id, self.operators[operator].name, seconds, usual_s, rate.cv)

    # Results

    def wait(self) -> list[TaskFinished | TaskDied]:
        done: list[TaskFinished | TaskDied] = []
        while not done:
            self._report_stats()
            changed = self._drain_events()
            if self.completed.has_ready():
                time.sleep(self._batch_delay_s())
                done = self._completed_tasks()
            elif changed or self._speculate():
                return []
            else:
                self._heartbeat()
                self._retry_lost_results()
                compat.wait_for_task(self.completed, POLL_S, unless=lambda: not self._events.empty())
        self._last_contact = time.monotonic()
        return done

    def _batch_delay_s(self) -> float:
        """Seconds to wait for more tasks to end, so that their successors are submitted together.

        Every slot has a queued task besides the running one, so a fraction of a task's time is no loss.
        """
        calls = [
            stage.limit.mean_s * stage.limit.batch_per_task
            for stage in self.flow.operators
            if stage.running and stage.limit.mean_s
        ]
        if len(calls) != self.flow.operators_running:
            return 0.0
        return max(
            min(share * min(calls), most) for share, most in zip(BATCH_DELAY_SHARES, BATCH_DELAYS_S, strict=True)
        )

    def _completed_tasks(self) -> list[TaskFinished | TaskDied]:
        """Return tasks that ended; keep waiting for those whose result is lost and computed again."""
        ended: list[TaskFinished | TaskDied] = []
        for future in self.completed.next_batch(block=False):
            status = future.status
            in_flight = self._in_flight.get(future.key[1])
            if in_flight is None or in_flight.ended:
                continue  # cancelled
            if status in ("lost", "pending") or (status == "error" and self._inputs_lost(in_flight, future)):
                self.completed.add(future)
                continue
            in_flight.ended = True
            task = in_flight.task
            if status == "error" and isinstance(future.exception(), KilledWorker):
                del self._in_flight[task.id]
                ended.append(TaskDied(task.id, task.operator))
                continue
            if status != "finished":
                raise self._failure(future, task)
            summary = self._summary(in_flight, future)
            ended.append(TaskFinished(task.id, task.operator, summary))
            slots = self.flow.operators[task.operator].limit.slots
            self.throughput.record(task.operator, task, summary, slots)
            sizes = summary["sizes"]
            in_flight.needed = {
                OutputRef(task.id, i, n) for i, output_sizes in enumerate(sizes) for n in range(len(output_sizes))
            }
            if not in_flight.needed:
                del self._in_flight[task.id]
            elif len(in_flight.needed) > 1 and sum(map(sum, sizes)) >= LARGE_BYTES:
                self._large.append(in_flight)
        return ended

    def _retry_lost_results(self) -> None:
        """Retry tasks that had ended, and failed as they were run again because their results were lost.

        A task that fails for one of its inputs is retried with all of them. But Dask takes it up again, too, when
        another task that needs the same input is retried; then it waits for the others, which stay failed.
        """
        for in_flight in list(self._in_flight.values()):
            failed = [future for future in in_flight.futures() if in_flight.ended and future.status == "error"]
            if not failed:
                continue
            in_flight.retries += 1
            error = failed[0].exception()
            if in_flight.retries > MAX_RETRIES or not (isinstance(error, KilledWorker) or compat.is_lost_result(error)):
                raise self._failure(failed[0], in_flight.task)
            for future in failed:
                self._retry(future)

    def _inputs_lost(self, in_flight: InFlight, future: Future) -> bool:
        """Retry a task whose inputs were lost with the worker that recomputed them; return whether it is retried."""
        error = future.exception()
        killed = isinstance(error, KilledWorker) and error.task != future.key
        if not (killed or compat.is_lost_result(error) or self._misses_input(in_flight, error)):
            return False
        in_flight.retries += 1
        if in_flight.retries > MAX_RETRIES:
            return False
        self._retry(future)
        return True

    def _misses_input(self, in_flight: InFlight, error: BaseException | None) -> bool:
        """Return whether a task began just as an input of it was taken from its worker: Dask then names its key."""
        if not isinstance(error, KeyError) or len(error.args) != 1:
            return False
        makers = [(self._in_flight.get(ref.task), ref) for ref in in_flight.task.inputs]
        return any(maker is not None and maker.output(ref)[0].key == error.args[0] for maker, ref in makers)

    def _retry(self, future: Future) -> None:
        """Have the scheduler run a failed task again."""
        compat.retry_tasks(self.client, [future.key])
        end = time.monotonic() + RETRY_WAIT_S
        while future.status == "error" and time.monotonic() < end:
            time.sleep(RETRY_WAIT_S / 100)

    def _report_stats(self) -> None:
        """Send statistics of the run to the slot manager if they have changed."""
        report = self.throughput.report(self.flow, time.monotonic())
        if report is not None and self.client.status == "running":
            compat.send_to_scheduler(self.client, {"op": "dcurate-stats", "run": self.run, "stats": report})

    def _summary(self, in_flight: InFlight, future: Future) -> dict[str, Any]:
        """Return the worker's summary of a task: from the event that precedes the task's end, else from the result."""
        self._drain_events()
        return in_flight.summary or self._gather(future).summary()

    def _gather(self, future: Future) -> TaskResult:
        """Gather a result; recompute it if its worker died with it, a few times if need be."""
        for _ in range(MAX_RETRIES):
            with suppress(KilledWorker):
                return cast(TaskResult, compat.gather(self.client, future, self._meanwhile))
            self._retry(future)
        return cast(TaskResult, compat.gather(self.client, future, self._meanwhile))

    def _meanwhile(self) -> None:
        """Take in what happens while a result is fetched.

        Raises:
            DcurateError: the run cannot go on.
        """
        self._drain_events()
        self._heartbeat()

    def _failure(self, future: Future, task: Task) -> DcurateError:
        if future.status != "error":
            return RunError("the scheduler went away or was restarted; start the run again with resume=True to go on")
        error = future.exception()
        name = self.operators[task.operator].name
        if isinstance(error, DcurateError):
            return error
        if isinstance(error, MemoryError):
            return DataError(f"operator {name!r}: {error}; use a smaller blocksize or files_per_partition")
        return StageError(f"operator {name!r} failed: {type(error).__name__}: {text_of(error)}")

    def _heartbeat(self) -> None:
        """Check the scheduler and the workers, and sample the state of the run."""
        self.accounting.sample(self.flow)
        if trouble := self.cluster.trouble():
            raise RunError(trouble)
        if self.client.status == "running":
            self._last_contact = time.monotonic()
        elif time.monotonic() - self._last_contact > self._timeout_s or self.client.status == "closed":
            raise RunError(
                f"the scheduler does not answer any more, for {self._timeout_s:g} seconds; start the run again with "
                "resume=True to go on (scheduler_timeout_s says how long to wait)"
            )

    def _drain_events(self) -> bool:
        """Handle queued events; return whether slots changed."""
        changed = False
        while True:
            try:
                event = self._events.get_nowait()
            except Empty:
                return changed
            match event:
                case {"task": task}:
                    if task in self._in_flight:
                        self._in_flight[task].summary = event
                case {"ready": operator, "worker": worker, "slots": slots}:
                    self._slots[operator, worker] = slots
                    self._count_slots()
                    total = sum(count for (name, _), count in self._slots.items() if name == operator)
                    seconds = event["setup_seconds"]
                    self.setups[operator] = seconds or self.setups.get(operator, 0.0)
                    self.accounting.emit(SlotsChanged(time.time(), operator, worker, slots, total, seconds))
                    changed = True
                case {"lost": worker}:
                    for key in [key for key in self._slots if key[1] == worker]:
                        del self._slots[key]
                    self._count_slots()
                    departure = WorkerLeft(time.time(), worker, event["name"])
                    lost = WorkerLost(time.time(), worker, event["name"], event["reason"])
                    self.accounting.emit(departure if event["in_order"] else lost)
                    changed = True
                case {"failed": operator, "error": message}:
                    failure = _failure_of(operator, event.get("policy", ""), message)
                    for note in event.get("notes", ()):
                        failure.add_note(note)
                    raise failure
                case {"waits": why, "memory": share}:
                    self.flow.budget_bytes = self._memory * share
                    self.accounting.emit(RunWaits(time.time(), why))
                    if why:
                        _log.warning("the run %s", why)
                case _:
                    self._forward_to_observers(event)

    def _forward_to_observers(self, event: dict[str, Any]) -> None:
        """Emit an event that only observers use."""
        now = time.time()
        match event:
            case {"decision": unit, "before": before, "after": after, "reason": reason}:
                self.accounting.emit(Decided(now, unit, before, after, reason))
            case {"recycled": worker, "reason": reason} | {"kept": worker, "reason": reason}:
                self.accounting.emit(WorkerRecycled(now, worker, reason, event["name"]))
            case {"notice": text}:
                _log.warning(text)
            case {"compiling": kernels, "seconds": seconds}:
                self.accounting.emit(CompilingLate(now, kernels, seconds))
            case {"hung": doing, "trace": trace}:
                self.accounting.emit(CallHung(now, doing, trace))
            case {"hosts": hosts}:
                self.accounting.emit(HostsSampled(now, tuple(map(HostSample.from_dict, hosts))))

    def _count_slots(self) -> None:
        """Update the flow's number of slots per operator."""
        for number, operator in enumerate(self.operators):
            slots = sum(count for (name, _), count in self._slots.items() if name == operator.name)
            self.flow.set_slots(number, slots)


def _failure_of(operator: str, policy: str, message: str) -> DcurateError:
    """The error of an operator, of a policy of the user, or of the workers."""
    return StageError(message) if operator else RunError(message) if policy else ResourceError(message)
