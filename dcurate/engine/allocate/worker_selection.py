"""Which worker a call goes to: one whose slots are free, and of those the one that is soonest to begin. Pure.

Dask would send a task to whatever holds its inputs, however many tasks stand there already, and move some of them a
second later. Of a batch that became twenty, all twenty would go to the first worker that fetched one of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

#: Workers looked at for each call, beside those that hold its inputs.
LOOKED_AT = 8


@dataclass
class _Seats:
    """The slots of one operator, and the calls that stand at them."""

    slots: dict[str, int] = field(default_factory=dict)
    load: Counter[str] = field(default_factory=Counter)
    #: Workers by how many calls stand at each of their slots, rounded down.
    by_fill: defaultdict[int, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def fill(self, worker: str) -> int:
        return self.load[worker] // self.slots[worker]

    def change(self, worker: str, slots: int, load: int) -> None:
        if worker in self.slots:
            place = self.fill(worker)
            del self.by_fill[place][worker]
            if not self.by_fill[place]:
                del self.by_fill[place]
        self.slots[worker], self.load[worker] = slots, load
        if slots:
            self.by_fill[self.fill(worker)][worker] = None
        else:
            del self.slots[worker]
        if not load:
            del self.load[worker]

    def emptiest(self) -> Iterator[str]:
        """Workers, those with the fewest calls a slot first."""
        for fill in sorted(self.by_fill):
            yield from self.by_fill[fill]


def _nothing(_worker: str) -> float:
    return 0.0


class WorkerSelector:
    """Knows how many calls of each operator stand at each worker, and says where the next should go.

    Examples:
        >>> placer = WorkerSelector()
        >>> placer.offer("clean", "a", 1)
        >>> placer.offer("clean", "b", 1)
        >>> placer.choose("clean", 1.0)
        'a'
        >>> placer.begin("clean", "a")
        >>> placer.choose("clean", 1.0, holders=["a"])
        'b'
    """

    def __init__(self) -> None:
        self._seats: defaultdict[str, _Seats] = defaultdict(_Seats)

    def offer(self, operator: str, worker: str, slots: int) -> None:
        """A worker has so many slots of an operator from now on."""
        seats = self._seats[operator]
        seats.change(worker, slots, seats.load[worker])

    def begin(self, operator: str, worker: str) -> None:
        """One more call stands at a worker."""
        self._count(operator, worker, 1)

    def end(self, operator: str, worker: str) -> None:
        """One call less stands at a worker."""
        self._count(operator, worker, -1)

    def remove(self, worker: str) -> None:
        """A worker is gone."""
        for seats in self._seats.values():
            seats.change(worker, 0, 0)

    def choose(
        self,
        operator: str,
        seconds: float,
        holders: Collection[str] = (),
        fetch: Callable[[str], float] = _nothing,
        backlog: Callable[[str], float] = _nothing,
    ) -> str | None:
        """Where the next call should go; None if no worker has a slot.

        No worker gets a call while another has fewer, by one a slot or more, standing at its slots. Among the rest
        counts when it would begin: after what stands there, and after the inputs were fetched.

        Args:
            seconds: that a call of the operator takes.
            holders: workers that hold some of its inputs.
            fetch: seconds that a worker needs to fetch the rest.
            backlog: seconds of work of any sort that stand at a worker; infinite for one that takes none.
        """
        seats = self._seats[operator]
        able = (worker for worker in seats.emptiest() if backlog(worker) < float("inf"))
        looked_at = list(islice(able, LOOKED_AT))
        if not looked_at:
            return None
        emptiest = seats.fill(looked_at[0])
        able_holders = [one for one in holders if one in seats.slots and backlog(one) < float("inf")]

        def begins_after(worker: str) -> float:
            waits = seats.load[worker] / seats.slots[worker] * seconds
            return max(waits, backlog(worker)) + fetch(worker)

        equals = [worker for worker in (*able_holders, *looked_at) if seats.fill(worker) <= emptiest]
        return min(equals, key=begins_after)

    def _count(self, operator: str, worker: str, change: int) -> None:
        seats = self._seats[operator]
        slots = seats.slots.get(worker, 0)
        load = max(0, seats.load[worker] + change)
        if slots:
            seats.change(worker, slots, load)
        elif load:
            seats.load[worker] = load
        else:
            seats.load.pop(worker, None)
