"""Let a worker skip queued tasks whose resource is taken, and serve runs in turn.

Dask looks at the first task of the queue only (dask/distributed#6136). A worker with slots of several operators, as a
worker with several threads on a GPU may be, would leave slots idle behind a task of an operator whose slots are busy.
And a task for a resource that the worker has just withdrawn would end the worker.

Priorities of tasks order those of one run: with several runs on a worker, later operators of one would always go before
the first of another.
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

    With tasks of several runs, the first is one of the run whose last task went first.

    Args:
        free: amounts of each resource that are free.
    """

    def __init__(self, free: Mapping[str, float]) -> None:
        super().__init__(key=attrgetter("priority"))
        self._free = free
        #: The resource for the threads of a run, by the resource of an operator of it.
        self._threads: dict[str, str] = {}
        #: When each run was served last.
        self._served: dict[str, int] = {}
        self._turn = 0

    def count_calls(self, resource: str, threads: str) -> None:
        """Have each task that needs a resource take one of another, too, which stands for the threads of its run."""
        self._threads[resource] = threads
        self._served.setdefault(threads, self._turn)

    def forget(self, threads: str) -> None:
        """Forget a run by the resource that stands for its threads."""
        self._threads = {resource: name for resource, name in self._threads.items() if name != threads}
        self._served.pop(threads, None)

    def add(self, task: TaskState) -> None:
        """Add a task."""
        threads = self._threads_of(task)
        if threads:
            task.resource_restrictions[threads] = 1
        super().add(task)

    def peek(self) -> TaskState:
        """Return the next task."""
        first = super().peek()
        if len(self._served) > 1:
            return min(filter(self._may_run, self), key=self._rank, default=first)
        if self._may_run(first):
            return first
        return next((task for task in self.sorted() if self._may_run(task)), first)

    def pop(self) -> TaskState:
        """Remove and return the task that `peek` returns."""
        task = self.peek()
        self.discard(task)
        threads = self._threads_of(task)
        if threads in self._served:
            self._turn += 1
            self._served[threads] = self._turn
        return task

    def _rank(self, task: TaskState) -> tuple[int, tuple[int, ...]]:
        """The run whose turn it is first, and its tasks by priority."""
        return self._served.get(self._threads_of(task), 0), task.priority or ()

    def _threads_of(self, task: TaskState) -> str:
        return next((self._threads[name] for name in task.resource_restrictions if name in self._threads), "")

    def _may_run(self, task: TaskState) -> bool:
        return all(self._free.get(name, 0) >= needed for name, needed in task.resource_restrictions.items())


def install_resource_queue(state: WorkerStateMachine) -> FairQueue:
    """Replace the queue and the free resources of a worker by a `FairQueue` and `Amounts`; return the queue."""
    queue: object = state.constrained
    if isinstance(queue, FairQueue):
        return queue
    amounts = Amounts(state.available_resources)
    queue = FairQueue(amounts)
    replace_queue(state, amounts, queue)
    return queue
