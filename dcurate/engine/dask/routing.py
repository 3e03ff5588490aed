"""Sends a run's calls to the workers that its `WorkerSelector` names, on the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from distributed import Scheduler

from dcurate.cluster import compat
from dcurate.engine.allocate.worker_selection import WorkerSelector

#: Seconds that a call of an operator is taken for until one has ended.
UNKNOWN_S = 0.5


class TaskRouter:
    """Restricts each new task of a run to one worker, for as long as it takes the scheduler to send it there.

    From then on the task is free: it is stolen, made again and sent elsewhere as Dask does with any other.

    Args:
        scheduler: that the run is on.
        operators: their names by the first part of their tasks' keys.
        parts: the first part of the keys of tasks that take a batch out of an outcome, which they do where that is.
    """

    def __init__(self, scheduler: Scheduler, operators: Mapping[str, str], parts: str) -> None:
        self.scheduler = scheduler
        self.operators = operators
        self.parts = parts
        self.placer = WorkerSelector()
        self._at: dict[Any, tuple[str, str]] = {}

    def operator_of(self, key: Any) -> str | None:
        """The operator that a task belongs to; None if it is not one of the run's calls."""
        return self.operators.get(key[0]) if isinstance(key, tuple) and key else None

    def is_of_run(self, key: Any) -> bool:
        """Whether a task is one of the run's calls, or takes a batch out of what one made."""
        return self.operator_of(key) is not None or self._is_part(key)

    def place(self, keys: Sequence[Any]) -> None:
        """Choose workers for new tasks, before the scheduler does."""
        planned: list[tuple[str, str]] = []
        restrictions: dict[Any, str | None] = {}
        backlog: dict[str, float] = {}
        for key in keys:
            operator, task = self.operator_of(key), self.scheduler.tasks[key]
            if operator is None:
                if self._is_part(key):
                    holders = [state.address for one in task.dependencies for state in one.who_has or ()]
                    restrictions[key] = holders[0] if holders else None
                continue
            worker = self._choose(operator, task, backlog)
            if worker is not None:
                restrictions[key] = worker
                planned.append((operator, worker))
                self.placer.begin(operator, worker)
                backlog[worker] += compat.mean_seconds(task, UNKNOWN_S)
        compat.restrict(self.scheduler, restrictions)
        for operator, worker in planned:
            self.placer.end(operator, worker)  # it begins when the scheduler has sent it

    def moved(self, key: Any, finish: str) -> None:
        """A task went from one state to another."""
        operator = self.operator_of(key)
        if not self.is_of_run(key):
            return
        if key in self._at:
            self.placer.end(*self._at.pop(key))
        task = self.scheduler.tasks.get(key)
        if task is None or finish == "waiting":
            return  # gone, or on its way to the worker that was chosen
        compat.unrestrict(task)
        if finish == "memory":
            self.place([one.key for one in task.dependents if one.state == "waiting"])
        if operator and finish == "processing" and task.processing_on is not None:
            self._at[key] = (operator, task.processing_on.address)
            self.placer.begin(*self._at[key])

    def _is_part(self, key: Any) -> bool:
        return isinstance(key, tuple) and bool(key) and key[0] == self.parts

    def _choose(self, operator: str, task: Any, backlog: dict[str, float]) -> str | None:
        inputs = task.dependencies
        if not all(one.who_has for one in inputs):
            return None  # an input is being made again; the scheduler sends the task when it is there

        def stands(worker: str) -> float:
            if worker not in backlog:
                backlog[worker] = compat.backlog_seconds(self.scheduler, worker)
            return backlog[worker]

        holders = {state.address for one in inputs for state in one.who_has}
        fetch = partial(compat.transfer_seconds, self.scheduler, inputs)
        return self.placer.choose(operator, compat.mean_seconds(task, UNKNOWN_S), holders, fetch, stands)
