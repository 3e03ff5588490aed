"""Select the worker of a task: one with idle slots, and of those the one that can start first. Pure.

Dask would send a task to the holder of its inputs, however many tasks wait there, and move some of them a second later.
Of a batch that became twenty, all twenty would go to the first worker that fetched one of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

#: Workers considered for each task, besides those that hold its inputs.
MAX_CANDIDATES = 8


@dataclass
class _OperatorLoad:
    """The slots of one operator, and the tasks at them."""

    slots: dict[str, int] = field(default_factory=dict)
    load: Counter[str] = field(default_factory=Counter)
    #: Workers by the number of tasks per slot, rounded down.
    by_fill: defaultdict[int, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def fill(self, worker: str) -> int:
        return self.load[worker] // self.slots[worker]

    def change(self, worker: str, slots: int, load: int) -> None:
        if worker in self.slots:
            fill_before = self.fill(worker)
            del self.by_fill[fill_before][worker]
            if not self.by_fill[fill_before]:
                del self.by_fill[fill_before]
        self.slots[worker], self.load[worker] = slots, load
        if slots:
            self.by_fill[self.fill(worker)][worker] = None
        else:
            del self.slots[worker]
        if not load:
            del self.load[worker]

    def emptiest(self) -> Iterator[str]:
        """Yield workers, those with the fewest tasks per slot first."""
        for fill in sorted(self.by_fill):
            yield from self.by_fill[fill]

    def overfull(self) -> list[str]:
        if 0 not in self.by_fill:
            return []
        return [worker for worker, slots in self.slots.items() if self.load[worker] > slots]


def _nothing(_worker: str) -> float:
    return 0.0


class WorkerSelector:
    """Tracks the tasks of each operator at each worker, and selects the worker of the next task.

    Examples:
        >>> selector = WorkerSelector()
        >>> selector.set_slots("clean", "a", 1)
        >>> selector.set_slots("clean", "b", 1)
        >>> selector.select_worker("clean", 1.0)
        'a'
        >>> selector.add_task("clean", "a")
        >>> selector.select_worker("clean", 1.0, holders=["a"])
        'b'
    """

    def __init__(self) -> None:
        self._loads: defaultdict[str, _OperatorLoad] = defaultdict(_OperatorLoad)

    def set_slots(self, operator: str, worker: str, slots: int) -> None:
        """Set the number of slots of an operator at a worker."""
        loads = self._loads[operator]
        loads.change(worker, slots, loads.load[worker])

    def add_task(self, operator: str, worker: str) -> None:
        """Count one more task at a worker."""
        self._count(operator, worker, 1)

    def remove_task(self, operator: str, worker: str) -> None:
        """Count one task less at a worker."""
        self._count(operator, worker, -1)

    def remove_worker(self, worker: str) -> None:
        """Forget a worker."""
        for loads in self._loads.values():
            loads.change(worker, 0, 0)

    def overfull(self) -> Iterator[tuple[str, str]]:
        """Yield operator and worker where tasks wait while the operator has a free slot at another."""
        for operator, loads in self._loads.items():
            yield from ((operator, worker) for worker in loads.overfull())

    def select_worker(
        self,
        operator: str,
        seconds: float,
        holders: Collection[str] = (),
        fetch: Callable[[str], float] = _nothing,
        backlog: Callable[[str], float] = _nothing,
    ) -> str | None:
        """Select the worker of the next task; None if no worker has a slot.

        No worker gets a task while another has fewer per slot, by one or more. Among the rest, the one that can start
        first is selected: after its queued tasks, and after the inputs were fetched.

        Args:
            seconds: duration of a task of the operator.
            holders: workers that hold some of its inputs.
            fetch: seconds that a worker needs to fetch the rest.
            backlog: seconds of work of any kind at a worker; infinite for one that takes none.
        """
        loads = self._loads[operator]
        able = (worker for worker in loads.emptiest() if backlog(worker) < float("inf"))
        candidates = list(islice(able, MAX_CANDIDATES))
        if not candidates:
            return None
        emptiest = loads.fill(candidates[0])
        able_holders = [holder for holder in holders if holder in loads.slots and backlog(holder) < float("inf")]

        def begins_after(worker: str) -> float:
            waits = loads.load[worker] / loads.slots[worker] * seconds
            return max(waits, backlog(worker)) + fetch(worker)

        equals = [worker for worker in (*able_holders, *candidates) if loads.fill(worker) <= emptiest]
        return min(equals, key=begins_after)

    def _count(self, operator: str, worker: str, change: int) -> None:
        loads = self._loads[operator]
        slots = loads.slots.get(worker, 0)
        load = max(0, loads.load[worker] + change)
        if slots:
            loads.change(worker, slots, load)
        elif load:
            loads.load[worker] = load
        else:
            loads.load.pop(worker, None)
