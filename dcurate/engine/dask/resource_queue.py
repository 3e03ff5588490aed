"""Let a worker skip queued tasks whose resource is taken.

Dask looks at the first task of the queue only (dask/distributed#6136). A worker with slots of several operators, as a
worker with several threads on a GPU may be, would leave slots idle behind a task of an operator whose slots are busy.
And a task for a resource that the worker has just withdrawn would end the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from dcurate.cluster.compat import HeapSet, TaskState, WorkerStateMachine, replace_queue


class Amounts(dict[str, float]):
    """The free amount of each resource; 0 for an unknown one."""

    def __missing__(self, name: str) -> float:
        return 0.0


class FairQueue(HeapSet[TaskState]):
    """Tasks by priority; the first task is the first one whose resources are free, if there is one.

    Args:
        free: amounts of each resource that are free.
    """

    def __init__(self, free: Mapping[str, float]) -> None:
        super().__init__(key=attrgetter("priority"))
        self._free = free

    def peek(self) -> TaskState:
        """Return the next task."""
        first = super().peek()
        if self._may_run(first):
            return first
        return next((task for task in self.sorted() if self._may_run(task)), first)

    def pop(self) -> TaskState:
        """Remove and return the task that `peek` returns."""
        task = self.peek()
        self.discard(task)
        return task

    def _may_run(self, task: TaskState) -> bool:
        return all(self._free.get(name, 0) >= needed for name, needed in task.resource_restrictions.items())


def install_resource_queue(state: WorkerStateMachine) -> None:
    """Replace the queue and the free resources of a worker by a `FairQueue` and `Amounts`."""
    if not isinstance(state.constrained, FairQueue):
        amounts = Amounts(state.available_resources)
        replace_queue(state, amounts, FairQueue(amounts))
