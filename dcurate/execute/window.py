"""How many tasks of an operator to have in flight. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: Work that should wait at a slot, in seconds: enough to hide the way to the scheduler and back.
AHEAD_S = 0.5
#: Tasks in flight per slot, at least and at most.
LEAST, MOST = 2, 128
#: Items that may wait before an operator: seconds of its work, so many a slot at least and at most, so many in all.
WAIT_S, FEWEST, HEAP, HEAPS = 4.0, 64, 2048, 20_000
#: Items that take less than this many seconds together share a task, up to so many: a task costs Dask milliseconds.
SHORT_S, TOGETHER = 0.05, 16


@dataclass
class Window:
    """The number of tasks in flight that keeps slots busy without queueing more than that.

    Two a slot for long tasks; more for short ones, so that slots never wait for the driver and many
    tasks travel in one message. Very short items share a task.

    Examples:
        >>> window = Window(slots=4)
        >>> window.size, window.group
        (8, 1)
        >>> for _ in range(50): window.took(0.01)
        >>> window.size, window.group
        (44, 5)
    """

    slots: int = 0
    mean_s: float = 0.0
    most: int = MOST

    def took(self, seconds: float, items: int = 1) -> None:
        """Learn from a task of so many items that took so long in its slot."""
        each = seconds / items
        self.mean_s = each if not self.mean_s else 0.8 * self.mean_s + 0.2 * each

    @property
    def group(self) -> int:
        """Items that share a task."""
        return max(1, min(TOGETHER, int(SHORT_S / max(self.mean_s, 1e-6)))) if self.mean_s else 1

    @property
    def size(self) -> int:
        """Tasks that may be in flight."""
        if not self.mean_s:
            return self.slots * min(self.most, LEAST)
        wanted = 1 + AHEAD_S / max(self.mean_s * self.group, 1e-6)
        return int(self.slots * min(self.most, max(LEAST, wanted)))

    @property
    def heap(self) -> int:
        """Items that may wait before the operator, so that its slots go on through the ups and downs of others."""
        each = WAIT_S / self.mean_s if self.mean_s else FEWEST
        wanted = int(max(1, self.slots) * min(HEAP, max(FEWEST, each)))
        return max(min(wanted, HEAPS), 2 * self.size * self.group)

    @property
    def low_water(self) -> int:
        """Refill when no more than this many are in flight, so that submissions go in groups."""
        return self.size - max(1, self.size // 4)
