"""How many tasks of an operator to have in flight. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: Work that should wait at a slot, in seconds: enough to hide the way to the scheduler and back.
AHEAD_S = 0.5
#: Tasks in flight per slot, at least and at most.
LEAST, MOST = 2, 128


@dataclass
class Window:
    """The number of tasks in flight that keeps slots busy without queueing more than that.

    Two a slot for long tasks; more for short ones, so that slots never wait for the driver and many
    tasks travel in one message.

    Examples:
        >>> window = Window(slots=4)
        >>> window.size
        8
        >>> for _ in range(50): window.took(0.01)
        >>> window.size
        204
    """

    slots: int = 0
    mean_s: float = 0.0
    most: int = MOST

    def took(self, seconds: float) -> None:
        """Learn from a task that took so long in its slot."""
        self.mean_s = seconds if not self.mean_s else 0.8 * self.mean_s + 0.2 * seconds

    @property
    def size(self) -> int:
        """Tasks that may be in flight."""
        if not self.mean_s:
            return self.slots * min(self.most, LEAST)
        wanted = 1 + AHEAD_S / max(self.mean_s, 1e-6)
        return int(self.slots * min(self.most, max(LEAST, wanted)))

    @property
    def low_water(self) -> int:
        """Refill when no more than this many are in flight, so that submissions go in groups."""
        return self.size - max(1, self.size // 4)
