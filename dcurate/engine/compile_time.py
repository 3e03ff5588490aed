"""How long kernels take to compile, on a machine that may be busy."""

from __future__ import annotations

import os
from collections.abc import Sequence


def slowdown(workers: int) -> float:
    """Return how much longer than alone a process computes here, by the load of the last minute.

    Args:
        workers: processes that are about to compute.

    Examples:
        >>> slowdown(workers=1) >= 1.0
        True
    """
    try:
        busy = os.getloadavg()[0]
    except OSError:  # not known here
        busy = 0.0
    return max(1.0, (busy + workers) / (os.cpu_count() or 1))


class CompileTime:
    """Estimates the seconds until groups of kernels are compiled, which some workers take up in order.

    Until a group is done, its seconds on an idle machine are scaled by a guess; then by the time that those which are
    done have taken.

    Args:
        groups: seconds of each group on an idle machine.
        workers: groups that are compiled at a time.
        scale: guess of how much longer it takes here.

    Examples:
        >>> time = CompileTime([6.0, 4.0, 2.0], workers=2, scale=1.5)
        >>> time.left(0.0), time.left(3.0)
        (9.0, 6.0)
        >>> time.done(1, at=8.0)  # of 4 s, so it takes twice as long
        >>> time.left(8.0), time.left(10.0)
        (4.0, 2.0)
    """

    def __init__(self, groups: Sequence[float], workers: int, scale: float) -> None:
        self._pending = dict(enumerate(groups))
        self._workers, self._scale = workers, scale
        self._began = dict.fromkeys(range(min(workers, len(groups))), 0.0)
        self._taken = self._alone = 0.0

    def done(self, group: int, at: float) -> None:
        """Take in that a group is compiled, and that its worker took up the next.

        Args:
            group: number of the group.
            at: seconds since compilation began.
        """
        waiting = [number for number in self._pending if number not in self._began]
        self._taken += at - self._began.pop(group, at)
        self._alone += self._pending.pop(group)
        if waiting:
            self._began[waiting[0]] = at
        if self._taken and self._alone:
            self._scale = self._taken / self._alone

    def left(self, at: float) -> float:
        """Return the seconds left, at some seconds since compilation began."""
        left = [
            max(0.0, seconds * self._scale - (at - self._began.get(group, at)))
            for group, seconds in self._pending.items()
        ]
        return max(max(left, default=0.0), sum(left) / self._workers)
