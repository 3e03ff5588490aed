"""Send the tasks of a run to the workers that its `WorkerSelector` chooses; runs on the scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from distributed import Scheduler

from dcurate.cluster import compat
from dcurate.engine.allocate.worker_selection import WorkerSelector

#: Assumed seconds of a task of an operator of which none has ended.
UNKNOWN_S = 0.5


class TaskRouter:
    """Restricts each new task of a run to one worker until the scheduler has sent it there.

    After that the task is free: Dask may steal it, recompute it and send it elsewhere. A task that takes one batch out
    of a result stays restricted until it ends, as a thief would fetch the whole result.

    With many workers a task may be stolen only while its operator has a free slot elsewhere: for each task that may be,
    Dask looks at each worker with free threads, and the event loop is held meanwhile.

    Args:
        scheduler: scheduler of the run.
        operators: their names by the first part of their tasks' keys.
        split_prefix: first part of the keys of tasks that take one batch out of a result; they run where that is.
    """

    def __init__(self, scheduler: Scheduler, operators: Mapping[str, str], split_prefix: str) -> None:
        self.scheduler = scheduler
        self.operators = operators
        self.parts = split_prefix
        self.selector = WorkerSelector()
        self.many_workers = False
        self._processing: dict[Any, tuple[str, str]] = {}
        #: Those that were offered to work stealing, once each: a worker refuses to give up one that it has begun.
        self._offered: set[Any] = set()
        self._overfull: set[tuple[str, str]] = set()

    def operator_of(self, key: Any) -> str | None:
        """Return the operator of a task; None if it does not run an operator of this run."""
        return self.operators.get(key[0]) if isinstance(key, tuple) and key else None

    def is_of_run(self, key: Any) -> bool:
        """Whether a task runs an operator of the run or splits one of its results."""
        return self.operator_of(key) is not None or self._is_part(key)

    def under_way(self) -> Counter[str]:
        """Return how many tasks have a worker or want one, by operator."""
        processing = (operator for operator, _ in self._processing.values())
        unrunnable = map(self.operator_of, compat.unrunnable_keys(self.scheduler))
        return Counter(operator for operator in (*processing, *unrunnable) if operator is not None)

    def route(self, keys: Sequence[Any]) -> None:
        """Choose workers for new tasks, before the scheduler does."""
        planned: list[tuple[str, str]] = []
        restrictions: dict[Any, str | None] = {}
        backlog: dict[str, float] = {}
        for key in keys:
            operator, task = self.operator_of(key), self.scheduler.tasks[key]
            if operator is None:
                if self._is_part(key):
                    holders = [state.address for dependency in task.dependencies for state in dependency.who_has or ()]
                    restrictions[key] = holders[0] if holders else None
                continue
            worker = self._choose(operator, task, backlog)
            if worker is not None:
                restrictions[key] = worker
                planned.append((operator, worker))
                self.selector.add_task(operator, worker)
                backlog[worker] += compat.mean_seconds(task, UNKNOWN_S)
        compat.restrict(self.scheduler, restrictions)
        for operator, worker in planned:
            self.selector.remove_task(operator, worker)  # it begins when the scheduler has sent it

    def on_transition(self, key: Any, finish: str) -> None:
        """Update the load of workers when a task changes its state."""
        operator = self.operator_of(key)
        if not self.is_of_run(key):
            return
        if key in self._processing:
            self.selector.remove_task(*self._processing.pop(key))
            self._offered.discard(key)
        task = self.scheduler.tasks.get(key)
        if task is None or finish == "waiting":
            return  # gone, or on its way to the worker that was chosen
        if operator or finish != "processing":
            compat.unrestrict(task)
        if finish == "memory":
            self.route([dependent.key for dependent in task.dependents if dependent.state == "waiting"])
        if operator and finish == "processing" and task.processing_on is not None:
            self._processing[key] = (operator, task.processing_on.address)
            self.selector.add_task(*self._processing[key])
            if self.many_workers:
                compat.keep_from_thieves(self.scheduler, task)

    def offer_waiting(self) -> None:
        """Let tasks be stolen that wait while their operator has a free slot elsewhere; to be called now and then.

        It has to be so in two calls in a row, as there are free slots whenever some were set up just now.
        """
        if not self.many_workers:
            return
        before, self._overfull = self._overfull, set(self.selector.overfull())
        for operator, worker in self._overfull & before:
            state = self.scheduler.workers.get(worker)
            for task in state.processing if state is not None else ():
                if self.operator_of(task.key) == operator and task.key not in self._offered:
                    self._offered.add(task.key)
                    compat.offer_to_thieves(self.scheduler, task)

    def _is_part(self, key: Any) -> bool:
        return isinstance(key, tuple) and bool(key) and key[0] == self.parts

    def _choose(self, operator: str, task: Any, backlog: dict[str, float]) -> str | None:
        inputs = task.dependencies
        if not all(dependency.who_has for dependency in inputs):
            return None  # an input is being made again; the scheduler sends the task when it is there

        def backlog_of(worker: str) -> float:
            if worker not in backlog:
                backlog[worker] = compat.backlog_seconds(self.scheduler, worker)
            return backlog[worker]

        holders = {state.address for dependency in inputs for state in dependency.who_has}
        fetch = partial(compat.transfer_seconds, self.scheduler, inputs)
        return self.selector.select_worker(operator, compat.mean_seconds(task, UNKNOWN_S), holders, fetch, backlog_of)
