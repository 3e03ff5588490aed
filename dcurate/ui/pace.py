"""The current speed of a run: the difference of two snapshots."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from dcurate.runs.snapshot import RunSnapshot, rate_span

#: Seconds over which rates are taken, or over two of the longest calls if that is longer.
SPAN_S = 10.0
#: Snapshots that are kept at most, about.
_KEPT = 60


@dataclass
class Pace:
    """Keeps the snapshots of the last seconds of a run, to say its rates.

    Examples:
        >>> from dcurate.events import StageStats
        >>> pace = Pace()
        >>> for second in (0, 1, 2):
        ...     stages = (StageStats("read", rows_in=100 * second, bytes_in=1000 * second),)
        ...     pace.see(RunSnapshot("7f3a", "demo", "inline", time=second, stages=stages))
        >>> pace.rows_per_s, pace.bytes_per_s
        (100.0, 1000.0)
    """

    span_s: float = SPAN_S
    _seen: deque[RunSnapshot] = field(default_factory=deque)

    def see(self, snapshot: RunSnapshot) -> None:
        """Take the present in; another run, or the next phase of it, starts again."""
        if self._seen and (snapshot.run, snapshot.phase) != (self.present.run, self.present.phase):
            self._seen.clear()
        span = rate_span(snapshot.operators, self.span_s)
        if len(self._seen) > 2 and snapshot.time - self._seen[-2].time < span / _KEPT:
            self._seen.pop()
        self._seen.append(snapshot)
        while len(self._seen) > 2 and self._seen[1].time <= snapshot.time - span:
            self._seen.popleft()

    @property
    def present(self) -> RunSnapshot:
        """The last snapshot seen."""
        return self._seen[-1]

    @property
    def rows_per_s(self) -> float:
        """Rows read from the source a second."""
        return self._rate(self._seen[0].rows_in, self.present.rows_in)

    @property
    def rows_out_per_s(self) -> float:
        """Rows that come out of the last stage a second."""
        return self._rate(self._seen[0].rows_out, self.present.rows_out)

    @property
    def bytes_per_s(self) -> float:
        """Bytes of input a second."""
        return self._rate(self._seen[0].bytes_in, self.present.bytes_in)

    def calls_per_s(self, operator: str) -> float:
        """Batches that an operator finishes a second."""
        return self._rate(self._calls(self._seen[0], operator), self._calls(self.present, operator))

    def busy(self, operator: str) -> float | None:
        """Share of an operator's slots that are busy; None where it had none."""
        then, now = (
            {figures.name: figures for figures in snapshot.operators}.get(operator)
            for snapshot in (self._seen[0], self.present)
        )
        if now is None:
            return None
        return now.busy_since(then) if then is not None and then is not now else now.busy

    def _rate(self, before: float, after: float) -> float:
        first = self._seen[0]
        seconds = self.present.time - first.time
        if seconds <= 0:  # all there is: since the run began
            return after / self.present.working
        return max(0.0, after - before) / seconds

    @staticmethod
    def _calls(snapshot: RunSnapshot, operator: str) -> int:
        return sum(figures.calls for figures in snapshot.operators if figures.name == operator)
