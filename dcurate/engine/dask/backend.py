"""Run tasks on a Dask cluster: submit, wait, fetch and release."""

from __future__ import annotations

import time
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
from dcurate.core.events import (
    CallCopied,
    CallHung,
    Decided,
    HostSample,
    HostsSampled,
    SlotsChanged,
    WorkerLost,
    WorkerRecycled,
)
from dcurate.engine.accounting import Round, RunAccounting
from dcurate.engine.dask.worker_plugin import Call, group, needs, parts, priority, topic, work_on
from dcurate.engine.driver import Completed, Died
from dcurate.engine.flow import Flow, OutputRef, Task
from dcurate.engine.throughput import ThroughputTracker
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.errors import DataError, DcurateError, ResourceError, RunError, StageError

#: Seconds between two looks at the cluster while no event comes, and until a lost scheduler ends the run.
LOOK_S, LOST_S = 0.25, 15.0
#: How long to wait for more tasks to end, at most in seconds and as a share of the shortest.
LINGER_S, LINGER = 0.03, 0.15
#: Bytes of all outputs of a task from which on each output becomes a Dask task of its own.
LARGE_BYTES = 4 << 20
#: A task is late when it takes longer than this many seconds, and this many times as long as others: as much as even an
#: unusual one would, by how much durations vary. Then, when slots are idle in the end, a copy of it may be sooner.
LATE_S, LATE, LATE_CV = 5.0, 3.0, 6.0
#: How often a task is retried because its inputs were lost with the worker that made them.
TRIES = 5
#: Seconds to wait for the client to learn that a task is retried.
RETRIED_S = 2.0


@dataclass(eq=False)
class InFlight:
    """A task that was submitted, until nothing needs its outputs any more.

    Args:
        future: of all outputs together; None once they were taken apart.
        started: `time.monotonic` when it was submitted.
        summary: of its `TaskResult`, sent by the worker before Dask reports the task's end.
        ended: whether the flow knows that it is over.
        retries: how often it was retried because its inputs were lost.
        needed: outputs that something still needs.
        parts: futures of single outputs that were taken apart.
    """

    task: Task
    future: Future | None
    started: float
    summary: dict[str, Any] | None = None
    ended: bool = False
    retries: int = 0
    needed: set[OutputRef] = field(default_factory=set)
    parts: dict[OutputRef, Future] = field(default_factory=dict)

    def output(self, ref: OutputRef) -> tuple[Future, tuple[int, int]]:
        """The future that holds an output, and its place in the result."""
        if ref in self.parts:
            return self.parts[ref], (0, 0)
        return self.future, (ref.input, ref.output)

    def futures(self) -> Iterator[Future]:
        """All futures that it holds."""
        if self.future is not None:
            yield self.future
        yield from self.parts.values()


class DaskBackend:
    """Runs tasks as Dask tasks, annotated with one unit of the operator's resource.

    Outputs stay on the worker that made them. Their bytes, files and counts travel as an event that the worker sends
    before the task ends, so that no result is gathered for them.
    """

    def __init__(
        self, cluster: Cluster, job: Round, books: RunAccounting, flow: Flow, priors: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.run = job.tag
        self.operators = job.plan.operators
        self._priorities = {group(self.run, one.name): one.priority for one in self.operators}
        self._priorities[parts(self.run)] = 1 + max(self._priorities.values())
        self.books = books
        self.flow = flow
        self.completed = as_completed(loop=self.client.loop)
        self._news: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._in_flight: dict[int, InFlight] = {}
        #: Tasks whose outputs are to be taken apart.
        self._large: list[InFlight] = []
        #: When each operator came to its last tasks.
        self._tail: dict[int, float] = {}
        self._slots: dict[tuple[str, str], int] = {}
        self.setups: dict[str, float] = {}
        self.figures = ThroughputTracker([operator.name for operator in self.operators], priors)
        self._heard = time.monotonic()

    def __enter__(self) -> Self:
        self.client.subscribe_topic(topic(self.run), self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self.client.status == "running":
            self.client.unsubscribe_topic(topic(self.run))

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take an event of workers or the scheduler plugin; called on the client's own thread."""
        self._news.put(event[1])
        if "task" in event[1]:
            return  # the end of the task follows and wakes the driver
        compat.wake(self.completed)

    # Tasks

    def submit(self, tasks: Sequence[tuple[Task, list[Batch] | None]]) -> None:
        """Submit all tasks together: every graph costs the scheduler as much as several tasks.

        Resources and priority of a Dask task follow from its key.
        """
        self._take_apart()
        names = [self.operators[task.operator].name for task, _ in tasks]
        inputs: list[Sequence[Any]] = []
        picks: list[list[tuple[int, int]]] = []
        for task, splits in tasks:
            found = [] if splits else [self._in_flight[ref.task].output(ref) for ref in task.inputs]
            inputs.append(splits or [future for future, _ in found])
            picks.append([place for _, place in found])
        futures = self._map(
            [(group(self.run, name), task.id) for name, (task, _) in zip(names, tasks, strict=True)],
            [Call(self.run, name, task.id, task.deaths) for name, (task, _) in zip(names, tasks, strict=True)],
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
        calls: Sequence[Call | None],
        inputs: Sequence[Sequence[Any]],
        picks: Sequence[Sequence[tuple[int, int]]],
    ) -> list[Future]:
        with dask.annotate(resources=needs, priority=partial(priority, self._priorities)):
            return list(self.client.map(work_on, calls, inputs, picks, key=keys, pure=False))

    def _take_apart(self) -> None:
        """Make each output of large results a Dask task of its own, so that workers fetch only what they need."""
        refs = [(one, ref) for one in self._large for ref in sorted(one.needed)]
        self._large.clear()
        if not refs:
            return
        found = [one.output(ref) for one, ref in refs]
        futures = self._map(
            [(parts(self.run), *ref) for _, ref in refs],
            [None] * len(refs),
            [[future] for future, _ in found],
            [[place] for _, place in found],
        )
        for (one, ref), future in zip(refs, futures, strict=True):
            one.parts[ref] = future
            one.future = None

    def fetch(self, ref: OutputRef) -> Batch:
        self._take_apart()
        future, (place, number) = self._in_flight[ref.task].output(ref)
        return self._gather(future).outputs[place][number]

    def release(self, refs: Sequence[OutputRef]) -> None:
        for ref in refs:
            one = self._in_flight.get(ref.task)
            if one is None:
                continue  # a split
            one.needed.discard(ref)
            one.parts.pop(ref, None)
            if not one.needed:
                del self._in_flight[ref.task]

    def close(self) -> None:
        """Cancel everything that is still under way."""
        futures = [future for one in self._in_flight.values() for future in one.futures()]
        self._in_flight.clear()
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    def cancel(self, task: int) -> None:
        """Cancel a task; the result of its worker, if that still runs, is thrown away."""
        one = self._in_flight.pop(task, None)
        if one is not None:
            self._large = [each for each in self._large if each is not one]
            self.client.cancel(list(one.futures()), force=True)

    def _speculate(self) -> bool:
        """Whether some of an operator's last tasks take so long that copies of them are to run."""
        now, copied = time.monotonic(), False
        may = [self.flow.may_copy(operator) for operator in range(len(self.operators))]
        self._tail = {operator: self._tail.get(operator, now) for operator, able in enumerate(may) if able}
        for one in [one for one in self._in_flight.values() if not one.ended]:
            operator = one.task.operator
            rate = self.figures.rates[operator]
            if operator not in self._tail or rate.seconds is None:
                continue
            usual = rate.seconds * len(one.task.inputs)
            # Only the time counts in which the task cannot have waited for others.
            seconds = now - max(self._tail[operator], one.started)
            if seconds > max(LATE_S, usual * (LATE + LATE_CV * rate.cv)) and self.flow.copy(one.task.id, operator):
                copied = True
                self.books.tell(CallCopied(time.time(), self.operators[operator].name, seconds, usual))
        return copied

    # Results

    def wait(self) -> list[Completed | Died]:
        done: list[Completed | Died] = []
        self._report()
        while not done:
            changed = self._read_news()
            if self.completed.has_ready():
                time.sleep(self._linger_s())
                done = self._ended()
            elif changed or self._speculate():
                return []
            else:
                self._look_around()
                compat.wait_for_task(self.completed, LOOK_S, unless=lambda: not self._news.empty())
        self._heard = time.monotonic()
        return done

    def _linger_s(self) -> float:
        """How long to wait for more tasks to end: what follows is submitted together, which costs the scheduler less.

        Every slot has a task beyond the one that it works on, so a fraction of a task's time is no loss.
        """
        calls = [
            stage.window.mean_s * stage.window.group
            for stage in self.flow.operators
            if stage.running and stage.window.mean_s
        ]
        return min(LINGER_S, LINGER * min(calls)) if len(calls) == self.flow.operators_running else 0.0

    def _ended(self) -> list[Completed | Died]:
        """Tasks that ended; one whose result died with its worker is being made again, and waits on."""
        ended: list[Completed | Died] = []
        for future in self.completed.next_batch(block=False):
            status = future.status
            one = self._in_flight.get(future.key[1])
            if one is None or one.ended:
                continue  # cancelled
            if status in ("lost", "pending") or (status == "error" and self._inputs_lost(one, future)):
                self.completed.add(future)
                continue
            one.ended = True
            task = one.task
            if status == "error" and isinstance(future.exception(), KilledWorker):
                del self._in_flight[task.id]
                ended.append(Died(task.id, task.operator))
                continue
            if status != "finished":
                raise self._failure(future, task)
            summary = self._summary(one, future)
            ended.append(Completed(task.id, task.operator, summary))
            self.figures.done(task.operator, len(task.inputs), task.deaths, summary)
            sizes = summary["sizes"]
            one.needed = {OutputRef(task.id, i, n) for i, each in enumerate(sizes) for n in range(len(each))}
            if not one.needed:
                del self._in_flight[task.id]
            elif len(one.needed) > 1 and sum(map(sum, sizes)) >= LARGE_BYTES:
                self._large.append(one)
        return ended

    def _inputs_lost(self, one: InFlight, future: Future) -> bool:
        """Whether a task could not begin as the worker that remade its inputs died too; then it is retried."""
        error = future.exception()
        if not isinstance(error, KilledWorker) or error.task == future.key:
            return False
        one.retries += 1
        if one.retries > TRIES:
            return False
        self._retry(future)
        return True

    def _retry(self, future: Future) -> None:
        """Have the scheduler try again what failed."""
        compat.retry_tasks(self.client, [future.key])
        end = time.monotonic() + RETRIED_S
        while future.status == "error" and time.monotonic() < end:
            time.sleep(RETRIED_S / 100)

    def _report(self) -> None:
        """Tell the scaler how the run goes, when there is something to tell."""
        news = self.figures.news(self.flow, time.monotonic())
        if news is not None and self.client.status == "running":
            compat.send_to_scheduler(self.client, {"op": "dcurate-figures", "run": self.run, "figures": news})

    def _summary(self, one: InFlight, future: Future) -> dict[str, Any]:
        """The worker's summary of a task; Dask delivers it before the task's end, else it is fetched."""
        self._read_news()
        return one.summary or self._gather(future).summary()

    def _gather(self, future: Future) -> TaskResult:
        """What a call made; if its worker died with it, it is made again, and again if that one dies, too."""
        for _ in range(TRIES):
            with suppress(KilledWorker):
                return cast(TaskResult, self.client.gather(future))
            self._retry(future)
        return cast(TaskResult, self.client.gather(future))

    def _failure(self, future: Future, task: Task) -> DcurateError:
        if future.status != "error":
            return RunError("the scheduler went away or was restarted; start the run again with resume=True to go on")
        error = future.exception()
        name = self.operators[task.operator].name
        if isinstance(error, DcurateError):
            return error
        if isinstance(error, MemoryError):
            return DataError(f"operator {name!r}: {error}; use a smaller blocksize or files_per_partition")
        return StageError(f"operator {name!r} failed: {type(error).__name__}: {error}")

    def _look_around(self) -> None:
        """Check that the scheduler is there, and workers or a prospect of them; sample the state of the run."""
        self.books.sample(self.flow)
        if trouble := self.cluster.trouble():
            raise RunError(trouble)
        if self.client.status == "running":
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > LOST_S or self.client.status == "closed":
            raise RunError("the scheduler does not answer any more; start the run again with resume=True to go on")

    def _read_news(self) -> bool:
        """Take in what workers and scaler said; whether slots changed."""
        changed = False
        while True:
            try:
                news = self._news.get_nowait()
            except Empty:
                return changed
            match news:
                case {"task": task}:
                    if task in self._in_flight:
                        self._in_flight[task].summary = news
                case {"ready": operator, "worker": worker, "slots": slots}:
                    self._slots[operator, worker] = slots
                    self._count_slots()
                    total = sum(held for (name, _), held in self._slots.items() if name == operator)
                    seconds = news["setup_seconds"]
                    self.setups[operator] = seconds or self.setups.get(operator, 0.0)
                    self.books.tell(SlotsChanged(time.time(), operator, worker, slots, total, seconds))
                    changed = True
                case {"lost": worker}:
                    for key in [key for key in self._slots if key[1] == worker]:
                        del self._slots[key]
                    self._count_slots()
                    self.books.tell(WorkerLost(time.time(), worker))
                    changed = True
                case {"failed": operator, "error": message}:
                    failure = StageError(message) if operator else ResourceError(message)
                    for note in news.get("notes", ()):
                        failure.add_note(note)
                    raise failure
                case _:
                    self._pass_on(news)

    def _pass_on(self, news: dict[str, Any]) -> None:
        """Tell observers what changes nothing here."""
        now = time.time()
        match news:
            case {"decision": unit, "before": before, "after": after, "reason": reason}:
                self.books.tell(Decided(now, unit, before, after, reason))
            case {"recycled": worker, "reason": reason} | {"kept": worker, "reason": reason}:
                self.books.tell(WorkerRecycled(now, worker, reason))
            case {"hung": doing, "trace": trace}:
                self.books.tell(CallHung(now, doing, trace))
            case {"hosts": hosts}:
                self.books.tell(HostsSampled(now, tuple(map(HostSample.from_dict, hosts))))

    def _count_slots(self) -> None:
        """Let the flow know the slots that there are."""
        for number, operator in enumerate(self.operators):
            slots = sum(count for (name, _), count in self._slots.items() if name == operator.name)
            self.flow.set_slots(number, slots)
