"""How many tasks of an operator to have in flight. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

#: Work that should wait at a slot, in seconds: enough to hide the way to the scheduler and back.
AHEAD_S = 0.5
#: Tasks in flight per slot, at least and at most.
LEAST, MOST = 2, 128
#: Over about how many tasks the mean goes. Were it fewer, the window would jump where durations vary, and a slot that
#: is through with its tasks would wait until those of slots in long tasks have shrunk to the smaller window.
MEMORY = 64
#: Tasks that end within so many seconds are made good for together.
GATHER_S = 0.03
#: Items that may wait before an operator: seconds of its work, so many a slot at least and at most, so many in all.
WAIT_S, FEWEST, HEAP, HEAPS = 4.0, 64, 2048, 20_000
#: Items that take less than this many seconds together share a task, up to so many: a task costs Dask milliseconds.
SHORT_S, TOGETHER = 0.05, 16


@dataclass
class InFlightLimit:
    """The number of tasks in flight that keeps slots busy without queueing more than that.

    Two a slot for long tasks; more for short ones, so that slots never wait for the driver and many
    tasks travel in one message. Very short items share a task.

    Examples:
        >>> window = InFlightLimit(slots=4)
        >>> window.size, window.group
        (8, 1)
        >>> for _ in range(50): window.took(0.01)
        >>> window.size, window.group
        (44, 5)
    """

    slots: int = 0
    mean_s: float = 0.0
    most: int = MOST
    _taken: int = 0
    _mean_square: float = 0.0

    def took(self, seconds: float, items: int = 1) -> None:
        """Learn from a task of so many items that took so long in its slot."""
        self._taken += 1
        each, weight = seconds / items, 1 / min(self._taken, MEMORY)
        self.mean_s += (each - self.mean_s) * weight
        self._mean_square += (each**2 - self._mean_square) * weight

    @property
    def group(self) -> int:
        """Items that share a task."""
        return max(1, min(TOGETHER, int(SHORT_S / max(self.mean_s, 1e-6)))) if self.mean_s else 1

    @property
    def size(self) -> int:
        """Tasks that may be in flight."""
        if not self.mean_s:
            return self.slots * min(self.most, LEAST)
        # Where durations vary, what waits may be short, however long the mean.
        uneven = 1 + sqrt(max(0.0, self._mean_square - self.mean_s**2)) / self.mean_s
        wanted = 1 + AHEAD_S * uneven / max(self.mean_s * self.group, 1e-6)
        return int(self.slots * min(self.most, max(LEAST, wanted)))

    @property
    def heap(self) -> int:
        """Items that may wait before the operator, so that its slots go on through the ups and downs of others."""
        each = WAIT_S / self.mean_s if self.mean_s else FEWEST
        wanted = int(max(1, self.slots) * min(HEAP, max(FEWEST, each)))
        return max(min(wanted, HEAPS), 2 * self.size * self.group)

    @property
    def low_water(self) -> int:
        """Refill when no more than this many are in flight, so that submissions of short tasks go in groups.

        A group is what ends within `GATHER_S`. Waiting for more would leave slots idle where durations vary: one slot
        may run through all of its tasks while the others are in long ones.
        """
        ending = self.slots * GATHER_S / (self.mean_s * self.group) if self.mean_s else 1.0
        return self.size - max(1, int(min(self.size // 4, ending)))
