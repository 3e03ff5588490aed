"""How long a run, or a phase of it, will still take: an estimate that counts down."""

from __future__ import annotations

from dataclasses import dataclass, field

#: An estimate is raised where a new one is this multiple of what is left of the last, and longer by these seconds.
RAISED, RAISED_S = 1.5, 10.0
#: Share of an estimate for a run below which it does not count down.
_LEAST = 0.1


@dataclass
class TimeLeft:
    """The time that a run or a phase will still take, estimated again when a split ends.

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
        self.take(time, mean * splits_left, mean)

    def take(self, time: float, estimate: float, least: float) -> None:
        """Take in a new estimate.

        Args:
            time: seconds since the epoch.
            estimate: seconds left by the present pace.
            least: seconds below which it does not count down until the next one.
        """
        shown = self.seconds(time)
        if shown is not None and shown < estimate <= max(RAISED * shown, shown + RAISED_S):
            estimate = shown
        self._time, self._seconds = time, estimate
        self._least = min(least, estimate)

    def seconds(self, now: float) -> float | None:
        """Return the seconds left at a moment; None before the first split has ended."""
        return None if self._seconds is None else max(self._least, self._seconds - max(0.0, now - self._time))


@dataclass
class RunTimeLeft:
    """The time that all rounds of a run will still take.

    It is what is left of the present round, and for each round that follows the mean time of those that have ended: of
    inner ones once there are any, as the first round reads the input. It counts down as `TimeLeft` does.

    Attributes:
        left: the estimate.

    Examples:
        >>> run = RunTimeLeft()
        >>> run.estimate(110.0, left=90.0, round_s=100.0, following=0)
        >>> run.left.seconds(110.0)
        90.0
    """

    left: TimeLeft = field(default_factory=TimeLeft)
    _ended: list[float] = field(default_factory=list)

    def estimate(self, time: float, left: float, round_s: float, following: int) -> None:
        """Take in what is known of the present round.

        Args:
            time: seconds since the epoch.
            left: seconds that the present round will still take.
            round_s: seconds that it takes in all.
            following: number of rounds after it.
        """
        inner = self._ended[1:] or [*self._ended, round_s]
        estimate = left + following * sum(inner) / len(inner)
        self.left.take(time, estimate, _LEAST * estimate)

    def round_ended(self, time: float, seconds: float, following: int) -> None:
        """Take in that a round has ended.

        Args:
            time: seconds since the epoch.
            seconds: duration of the round.
            following: number of rounds after it.
        """
        self._ended.append(seconds)
        self.estimate(time, 0.0, seconds, following)
