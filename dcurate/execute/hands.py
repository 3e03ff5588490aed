"""The hands of the Dask executor: submit, wait and release on a cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, Self

from distributed import Client, Future, KilledWorker, as_completed

from dcurate.core.batch import Batch
from dcurate.core.events import CallHung, Decided, SlotsChanged, WorkerLost, WorkerRecycled
from dcurate.errors import DataError, DcurateError, ResourceError, RunError, StageError
from dcurate.execute.carry import Died, Done
from dcurate.execute.figures import Figures
from dcurate.execute.flow import Flow, Submit
from dcurate.execute.job import Books, Job
from dcurate.worker.plugin import Call, resource, topic, work_on_outcomes, work_on_splits
from dcurate.worker.program import Outcome

#: How often to look around when nothing is heard, and how long to put up with a lost scheduler, in seconds.
LOOK_S, LOST_S = 0.25, 15.0
#: How long to wait for more calls to end, at most in seconds and as a share of the shortest.
LINGER_S, LINGER = 0.03, 0.15
#: How often a call may be tried again because what it needs was lost with the worker that made it.
TRIES = 5
#: How long to wait until the news that a call is tried again has come, in seconds.
RETRIED_S = 2.0


class ClusterHands:
    """Runs calls as Dask tasks, annotated with one unit of the operator's resource.

    A task's batches stay on the worker that made them. What the driver needs to know of them (bytes, files, counts)
    travels as an event that the worker sends before the task ends, so no result is ever gathered for it.
    """

    def __init__(
        self, client: Client, job: Job, books: Books, flow: Flow, priors: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.client = client
        self.run = job.run
        self.operators = job.plan.operators
        self.books = books
        self.flow = flow
        self.completed = as_completed(loop=client.loop)
        self._news: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._submits: dict[int, Submit] = {}
        self._tickets: dict[Future, int] = {}
        self._futures: dict[int, Future] = {}
        self._uses: dict[int, int] = {}
        self._items: dict[int, tuple[int, int, int]] = {}
        self._summaries: dict[int, dict[str, Any]] = {}
        self._slots: dict[tuple[str, str], int] = {}
        self.setups: dict[str, float] = {}
        self._tries: dict[int, int] = {}
        self.figures = Figures([operator.name for operator in self.operators], priors)
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
        for number, group in groupby(calls, key=lambda call: call[0].operator):
            members = list(group)
            submits = [submit for submit, _ in members]
            futures = self._map(number, submits, [inputs for _, inputs in members])
            for submit, future in zip(submits, futures, strict=True):
                self._submits[submit.ticket] = submit
                self._futures[submit.ticket] = future
                self._tickets[future] = submit.ticket
            self.completed.update(futures)

    def _map(self, number: int, submits: list[Submit], inputs: list[list[Batch] | None]) -> list[Future]:
        """Submit calls of one operator together: a graph a call would cost the scheduler four times as much."""
        operator = self.operators[number]
        tickets = [submit.ticket for submit in submits]
        settings: dict[str, Any] = {
            "key": [(f"{operator.name}-{self.run}", ticket) for ticket in tickets],
            "resources": {resource(self.run, operator.name): 1},
            "priority": operator.priority,
            "pure": False,
        }
        calls = [Call(self.run, operator.name, submit.ticket, submit.deaths) for submit in submits]
        if number == 0:
            futures = self.client.map(work_on_splits, calls, inputs, **settings)
        else:
            places = [[self._items[item] for item in submit.items] for submit in submits]
            outcomes = [[self._futures[ticket] for ticket, _, _ in each] for each in places]
            picks = [[(place, child) for _, place, child in each] for each in places]
            futures = self.client.map(work_on_outcomes, calls, outcomes, picks, **settings)
        return list(futures)

    def made(self, item: int, ticket: int, place: int, child: int) -> None:
        self._items[item] = (ticket, place, child)
        self._uses[ticket] = self._uses.get(ticket, 0) + 1

    def fetch(self, item: int) -> Batch:
        ticket, place, child = self._items[item]
        outcome: Outcome = self.client.gather(self._futures[ticket])
        return outcome.outputs[place][child]

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

    # What comes back

    def wait(self) -> list[Done | Died]:
        done: list[Done | Died] = []
        self._report()
        while not done:
            changed = self._read_news()
            if self.completed.has_ready():
                time.sleep(self._linger_s())
                done = self._ended()
            elif changed:
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

    def _ended(self) -> list[Done | Died]:
        """Calls that came to their end; one whose result died with its worker is being made again, and waits on."""
        ended: list[Done | Died] = []
        for future in self.completed.next_batch(block=False):
            status = future.status
            if status in ("lost", "pending") or (status == "error" and self._inputs_lost(future)):
                self.completed.add(future)
                continue
            ticket = self._tickets.pop(future)
            submit = self._submits.pop(ticket)
            if status == "error" and isinstance(future.exception(), KilledWorker):
                del self._futures[ticket]
                ended.append(Died(ticket, submit.operator))
                continue
            if status != "finished":
                raise self._failure(future, submit)
            done = Done(ticket, submit.operator, self._summary(ticket, future))
            ended.append(done)
            self.figures.done(submit.operator, len(submit.items), submit.deaths, done.summary)
            if not any(done.summary["sizes"]):
                del self._futures[ticket]
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
        # Client.retry would also set the future back when the answer comes, perhaps after what follows has been heard.
        self.client.sync(self.client.scheduler.retry, keys=[future.key], client=self.client.id)
        end = time.monotonic() + RETRIED_S
        while future.status == "error" and time.monotonic() < end:
            time.sleep(RETRIED_S / 100)
        return True

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
        outcome: Outcome = self.client.gather(future)
        return outcome.summary()

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
        """Whether the scheduler is still there."""
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
                case {"decision": unit, "before": before, "after": after, "reason": reason}:
                    self.books.tell(Decided(time.time(), unit, before, after, reason))
                case {"recycled": worker, "reason": reason} | {"kept": worker, "reason": reason}:
                    self.books.tell(WorkerRecycled(time.time(), worker, reason))
                case {"hung": doing, "trace": trace}:
                    self.books.tell(CallHung(time.time(), doing, trace))
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

    def _count_slots(self) -> None:
        """Let the flow know the slots that there are."""
        for number, operator in enumerate(self.operators):
            slots = sum(count for (name, _), count in self._slots.items() if name == operator.name)
            self.flow.set_slots(number, slots)
