"""The queue of a worker's tasks, in which one that must wait for its resource does not hold up the others.

Dask looks at the first task of the queue only (dask/distributed#6136). A worker that holds slots of several operators,
as one with several threads on a GPU may, would leave slots idle behind a task of an operator whose slots are busy.
And a task for a resource that a worker has no more, on its way to it when the resource went, ends the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from dcurate.cluster.compat import HeapSet, TaskState, WorkerStateMachine, replace_queue


class Amounts(dict[str, float]):
    """How much there is of each resource; nothing of those that are not there."""

    def __missing__(self, name: str) -> float:
        return 0.0


class FairQueue(HeapSet[TaskState]):
    """Tasks by priority; the first is the first of those whose resources are free, if there are any.

    Args:
        free: amounts of each resource that are free.
    """

    def __init__(self, free: Mapping[str, float]) -> None:
        super().__init__(key=attrgetter("priority"))
        self._free = free

    def peek(self) -> TaskState:
        """The task to look at next."""
        first = super().peek()
        if self._may_run(first):
            return first
        return next((task for task in self.sorted() if self._may_run(task)), first)

    def pop(self) -> TaskState:
        """Take the task that `peek` shows."""
        task = self.peek()
        self.discard(task)
        return task

    def _may_run(self, task: TaskState) -> bool:
        return all(self._free.get(name, 0) >= needed for name, needed in task.resource_restrictions.items())


def install_resource_queue(state: WorkerStateMachine) -> None:
    """Have a worker use such a queue, and such amounts, from now on."""
    if not isinstance(state.constrained, FairQueue):
        amounts = Amounts(state.available_resources)
        replace_queue(state, amounts, FairQueue(amounts))
