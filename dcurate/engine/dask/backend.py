"""The hands of the Dask executor: submit, wait and release on a cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self, cast

import dask
from distributed import Future, KilledWorker, as_completed

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
from dcurate.engine.flow import Flow, Submit
from dcurate.engine.throughput import ThroughputTracker
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.errors import DataError, DcurateError, ResourceError, RunError, StageError

#: How often to look around when nothing is heard, and how long to put up with a lost scheduler, in seconds.
LOOK_S, LOST_S = 0.25, 15.0
#: How long to wait for more calls to end, at most in seconds and as a share of the shortest.
LINGER_S, LINGER = 0.03, 0.15
#: Bytes of all the batches that a call made from which on they travel one by one, for a task each.
HEAVY_BYTES = 4 << 20
#: A call is late when it takes longer than this many seconds, and this many times as long as others: as much as even an
#: unusual one would, by how much durations vary. Then, when slots are idle in the end, a copy of it may be sooner.
LATE_S, LATE, LATE_CV = 5.0, 3.0, 6.0
#: How often a call may be tried again because what it needs was lost with the worker that made it.
TRIES = 5
#: How long to wait until the news that a call is tried again has come, in seconds.
RETRIED_S = 2.0


class DaskBackend:
    """Runs calls as Dask tasks, annotated with one unit of the operator's resource.

    A task's batches stay on the worker that made them. What the driver needs to know of them (bytes, files, counts)
    travels as an event that the worker sends before the task ends, so no result is ever gathered for it.
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
        self._submits: dict[int, Submit] = {}
        self._tickets: dict[Future, int] = {}
        self._futures: dict[int, Future] = {}
        self._since: dict[int, float] = {}
        self._tail: dict[int, float] = {}
        self._uses: dict[int, int] = {}
        self._heavy: set[int] = set()
        self._whole: list[int] = []
        self._items: dict[int, tuple[int, int, int]] = {}
        self._summaries: dict[int, dict[str, Any]] = {}
        self._slots: dict[tuple[str, str], int] = {}
        self.setups: dict[str, float] = {}
        self._tries: dict[int, int] = {}
        self.figures = ThroughputTracker([operator.name for operator in self.operators], priors)
        self._heard = time.monotonic()

    def __enter__(self) -> Self:
        self.client.subscribe_topic(topic(self.run), self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self.client.status == "running":
            self.client.unsubscribe_topic(topic(self.run))

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """News from workers or the scaler; called on the client's own thread."""
        self._news.put(event[1])
        if "ticket" in event[1]:
            return  # the end of the task follows and wakes the driver
        with self.completed.thread_condition:
            self.completed.thread_condition.notify()

    # The calls

    def submit(self, calls: Sequence[tuple[Submit, list[Batch] | None]]) -> None:
        """Submit all calls together: every graph costs the scheduler as much as several calls.

        What a task needs and how urgent it is follows from its key.
        """
        self._take_apart()
        submits = [submit for submit, _ in calls]
        names = [self.operators[submit.operator].name for submit in submits]
        given: list[Sequence[Any]] = []
        picks: list[list[tuple[int, int]]] = []
        for submit, splits in calls:
            places = [] if splits else [self._items[item] for item in submit.items]
            given.append(splits or [self._futures[ticket] for ticket, _, _ in places])
            picks.append([(place, child) for _, place, child in places])
        named = list(zip(names, submits, strict=True))
        futures = self._map(
            [(group(self.run, name), one.ticket) for name, one in named],
            [Call(self.run, name, one.ticket, one.deaths) for name, one in named],
            given,
            picks,
        )
        now = time.monotonic()
        for submit, future in zip(submits, futures, strict=True):
            self._submits[submit.ticket] = submit
            self._since[submit.ticket] = now
            self._futures[submit.ticket] = future
            self._tickets[future] = submit.ticket
        self.completed.update(futures)

    def _map(
        self,
        keys: list[tuple[str, int]],
        calls: Sequence[Call | None],
        given: Sequence[Sequence[Any]],
        picks: Sequence[Sequence[tuple[int, int]]],
    ) -> list[Future]:
        with dask.annotate(resources=needs, priority=partial(priority, self._priorities)):
            return list(self.client.map(work_on, calls, given, picks, key=keys, pure=False))

    def made(self, item: int, ticket: int, place: int, child: int) -> None:
        self._items[item] = (ticket, place, child)
        self._uses[ticket] = self._uses.get(ticket, 0) + 1
        if ticket in self._heavy:
            self._whole.append(item)

    def _take_apart(self) -> None:
        """Make each batch of a heavy outcome an outcome of its own, so that no worker fetches more than it needs."""
        if not self._whole:
            return
        items = [item for item in self._whole if item in self._items]
        places = [self._items[item] for item in items]
        given = [[self._futures[ticket]] for ticket, _, _ in places]
        picks = [[(place, child)] for _, place, child in places]
        futures = self._map([(parts(self.run), item) for item in items], [None] * len(items), given, picks)
        self.release(items)
        for item, future in zip(items, futures, strict=True):
            ticket = -1 - item  # calls count from 0 up
            self._futures[ticket] = future
            self._items[item] = (ticket, 0, 0)
            self._uses[ticket] = 1
        self._whole.clear()
        self._heavy.clear()

    def fetch(self, item: int) -> Batch:
        self._take_apart()
        ticket, place, child = self._items[item]
        return self._gather(self._futures[ticket]).outputs[place][child]

    def release(self, items: Sequence[int]) -> None:
        for item in items:
            ticket = self._items.pop(item, (None, 0, 0))[0]
            if ticket is None:
                continue
            self._uses[ticket] -= 1
            if not self._uses[ticket]:
                del self._uses[ticket], self._futures[ticket]

    def cancel(self) -> None:
        """Give up whatever is still under way."""
        futures = list(self._futures.values())
        self._futures.clear()
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    def give_up(self, ticket: int) -> None:
        """Cancel a call; what its worker makes of it, if that still runs, is thrown away."""
        self._submits.pop(ticket, None)
        self._since.pop(ticket, None)
        self._summaries.pop(ticket, None)
        future = self._futures.pop(ticket, None)
        if future is not None:
            self._tickets.pop(future, None)
            self.client.cancel([future], force=True)

    def _copy_late(self) -> bool:
        """Whether some of an operator's last calls take so long that copies of them are to run."""
        now, copied = time.monotonic(), False
        may = [self.flow.may_copy(operator) for operator in range(len(self.operators))]
        self._tail = {operator: self._tail.get(operator, now) for operator, able in enumerate(may) if able}
        for submit in list(self._submits.values()):
            rate = self.figures.rates[submit.operator]
            if submit.operator not in self._tail or rate.seconds is None:
                continue
            usual = rate.seconds * len(submit.items)
            # Only the time counts in which the call cannot have waited for others.
            seconds = now - max(self._tail[submit.operator], self._since[submit.ticket])
            if seconds > max(LATE_S, usual * (LATE + LATE_CV * rate.cv)) and self.flow.copy(
                submit.ticket, submit.operator
            ):
                copied = True
                self.books.tell(CallCopied(time.time(), self.operators[submit.operator].name, seconds, usual))
        return copied

    # What comes back

    def wait(self) -> list[Completed | Died]:
        done: list[Completed | Died] = []
        self._report()
        while not done:
            changed = self._read_news()
            if self.completed.has_ready():
                time.sleep(self._linger_s())
                done = self._ended()
            elif changed or self._copy_late():
                return []
            else:
                self._look_around()
                with self.completed.thread_condition:
                    if self._news.empty() and not self.completed.has_ready():
                        self.completed.thread_condition.wait(LOOK_S)
        self._heard = time.monotonic()
        return done

    def _linger_s(self) -> float:
        """How long to wait for more calls to end: what follows is submitted together, which costs the scheduler less.

        Every slot has a call in hand beyond the one that it works on, so a fraction of a call's time is no loss.
        """
        calls = [
            stage.window.mean_s * stage.window.group
            for stage in self.flow.operators
            if stage.running and stage.window.mean_s
        ]
        return min(LINGER_S, LINGER * min(calls)) if len(calls) == self.flow.operators_running else 0.0

    def _ended(self) -> list[Completed | Died]:
        """Calls that came to their end; one whose result died with its worker is being made again, and waits on."""
        ended: list[Completed | Died] = []
        for future in self.completed.next_batch(block=False):
            status = future.status
            if future not in self._tickets:
                continue  # given up
            if status in ("lost", "pending") or (status == "error" and self._inputs_lost(future)):
                self.completed.add(future)
                continue
            ticket = self._tickets.pop(future)
            submit = self._submits.pop(ticket)
            del self._since[ticket]
            if status == "error" and isinstance(future.exception(), KilledWorker):
                del self._futures[ticket]
                ended.append(Died(ticket, submit.operator))
                continue
            if status != "finished":
                raise self._failure(future, submit)
            done = Completed(ticket, submit.operator, self._summary(ticket, future))
            ended.append(done)
            self.figures.done(submit.operator, len(submit.items), submit.deaths, done.summary)
            sizes = [size for made in done.summary["sizes"] for size in made]
            if not sizes:
                del self._futures[ticket]
            elif len(sizes) > 1 and sum(sizes) >= HEAVY_BYTES:
                self._heavy.add(ticket)
        return ended

    def _inputs_lost(self, future: Future) -> bool:
        """Whether a call could not begin as the worker that remade its inputs died too; then it is tried again."""
        error = future.exception()
        if not isinstance(error, KilledWorker) or error.task == future.key:
            return False
        ticket = self._tickets[future]
        self._tries[ticket] = self._tries.get(ticket, 0) + 1
        if self._tries[ticket] > TRIES:
            return False
        self._retry(future)
        return True

    def _retry(self, future: Future) -> None:
        """Have the scheduler try again what failed."""
        # Client.retry would also set the future back when the answer comes, perhaps after what follows has been heard.
        self.client.sync(self.client.scheduler.retry, keys=[future.key], client=self.client.id)
        end = time.monotonic() + RETRIED_S
        while future.status == "error" and time.monotonic() < end:
            time.sleep(RETRIED_S / 100)

    def _report(self) -> None:
        """Tell the scaler how the run goes, when there is something to tell."""
        news = self.figures.news(self.flow, time.monotonic())
        if news is not None and self.client.status == "running":
            # What Client.log_event would tell, without waiting for an answer.
            self.client._send_to_scheduler({"op": "dcurate-figures", "run": self.run, "figures": news})

    def _summary(self, ticket: int, future: Future) -> dict[str, Any]:
        """What the worker told of a call; Dask delivers it before the task's end, else it is asked for."""
        self._read_news()
        if ticket in self._summaries:
            return self._summaries.pop(ticket)
        return self._gather(future).summary()

    def _gather(self, future: Future) -> TaskResult:
        """What a call made; if its worker died with it, it is made again, and again if that one dies, too."""
        for _ in range(TRIES):
            with suppress(KilledWorker):
                return cast(TaskResult, self.client.gather(future))
            self._retry(future)
        return cast(TaskResult, self.client.gather(future))

    def _failure(self, future: Future, submit: Submit) -> DcurateError:
        if future.status != "error":
            return RunError("the scheduler went away or was restarted; start the run again with resume=True to go on")
        error = future.exception()
        name = self.operators[submit.operator].name
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
                case {"ticket": ticket}:
                    if ticket in self._submits:
                        self._summaries[ticket] = news
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
