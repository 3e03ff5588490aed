"""How long a phase of a run will still take: an estimate that counts down."""

from __future__ import annotations

from dataclasses import dataclass

#: An estimate is raised where a new one is this multiple of what is left of the last, and longer by these seconds.
RAISED, RAISED_S = 1.5, 10.0


@dataclass
class TimeLeft:
    """The time that a phase will still take, estimated again when a split ends.

    Between two splits it counts down, and never below the mean time from one split to the next. A shorter estimate is
    taken at once. A longer one is taken only where the last was wrong: where it exceeds what is left by half of that,
    and by ten seconds. So what a person sees shrinks, except where the rest of the input turns out to be much slower.

    Attributes:
        since: time from which the phase works, in seconds since the epoch: what came before is set-up.

    Examples:
        >>> left = TimeLeft(since=100.0)
        >>> left.split_done(110.0, done=1, splits_left=9)
        >>> left.seconds(110.0), left.seconds(130.0), left.seconds(300.0)
        (90.0, 70.0, 10.0)
        >>> left.split_done(131.0, done=2, splits_left=8)  # 124 s by the mean, but 69 s are left: that is raised
        >>> left.seconds(131.0)
        124.0
    """

    since: float = 0.0
    _time: float = 0.0
    _seconds: float | None = None
    _least: float = 0.0

    def split_done(self, time: float, done: int, splits_left: int) -> None:
        """Take in that a split ended.

        Args:
            time: seconds since the epoch.
            done: splits that this run has finished in the phase.
            splits_left: splits that are not finished.
        """
        mean = max(0.0, time - self.since) / done
        estimate, shown = mean * splits_left, self.seconds(time)
        if shown is not None and shown < estimate <= max(RAISED * shown, shown + RAISED_S):
            estimate = shown
        self._time, self._seconds = time, estimate
        self._least = min(mean, estimate)

    def seconds(self, now: float) -> float | None:
        """Return the seconds left at a moment; None before the first split has ended."""
        return None if self._seconds is None else max(self._least, self._seconds - max(0.0, now - self._time))
