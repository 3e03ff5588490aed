"""A run over time as columns for plots, and the new rows of these."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from dcurate.runs.history import History, Point
from dcurate.runs.snapshot import OperatorFigures, rate_span
from dcurate.ui.dashboard.view_model import key

#: Rates are means over this many seconds, over two of the longest calls, or between two points if these are longer.
SMOOTH_S = 5.0
#: How high a row of the busy plot is filled by an operator that is always busy; the rest keeps rows apart.
FILL = 0.85

Columns = dict[str, list[float]]
Key = tuple[int, str]

_PLAIN = {"held": "held_bytes", "cpu": "cpu", "memory": "memory", "gpu_memory": "gpu_memory"}
_RATES = {"rate_in": "rows_in", "rate_out": "rows_out", "bytes_in": "bytes_in"}


@dataclass
class Series:
    """The columns of one run, and how much of them was given out.

    The columns are ``time`` (milliseconds since the run began), ``rate_in`` and ``rate_out`` (documents a second),
    ``bytes_in`` (bytes a second), ``held``, ``cpu``, ``memory`` and ``gpu_memory``, and for operator number
    ``n``: ``slots{n}``, and ``busy{n}``, the height of its row in the busy plot. ``phase{n}`` is 0 in phase ``n``
    and not a number elsewhere, as is ``known`` where hosts had reported.

    Args:
        started: when the run began, in seconds since the epoch.
        operators: operators of all phases, in order.
    """

    started: float
    operators: tuple[Key, ...]
    _given: int = 0
    _until: float = -math.inf
    _numbers: dict[Key, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = {operator: number for number, operator in enumerate(self.operators)}

    @property
    def phases(self) -> int:
        """The number of phases of the operators."""
        return 1 + max((phase for phase, _ in self.operators), default=0)

    def new(self, history: History) -> tuple[Columns, bool]:
        """The new columns since the last call, and whether they replace all earlier ones."""
        points = history.points
        times = [point.time for point in points]
        known = bisect_right(times, self._until)
        fresh = known != self._given
        first = 0 if fresh else known
        columns = self._columns(points, times, first)
        self._given = len(points)
        self._until = times[-1] if times else -math.inf
        return columns, fresh

    def empty(self) -> Columns:
        """The columns, without a row."""
        return self._columns([], [], 0)

    def _columns(self, points: Sequence[Point], times: Sequence[float], first: int) -> Columns:
        chosen = range(first, len(points))
        before = [_before(points, times, place) for place in chosen]
        columns: Columns = {"time": [round(1000 * (times[place] - self.started)) for place in chosen]}
        for name, of in _RATES.items():
            columns[name] = [_rate(points, of, then, place) for then, place in zip(before, chosen, strict=True)]
        for name, of in _PLAIN.items():
            columns[name] = [_rounded(getattr(points[place], of)) for place in chosen]
        columns["zero"] = [0.0 for _ in chosen]
        columns["known"] = [0.0 if points[place].memory_limit else math.nan for place in chosen]
        columns["memory"] = [used + low for used, low in zip(columns["memory"], columns["known"], strict=True)]
        for phase in range(self.phases):
            columns[f"phase{phase}"] = [0.0 if _phase(points[place]) == phase else math.nan for place in chosen]
        return columns | self._by_operator(points, before, chosen)

    def _by_operator(self, points: Sequence[Point], before: Sequence[int], chosen: range) -> Columns:
        slots = [[0.0] * len(chosen) for _ in self.operators]
        busy = [[float(foot(number))] * len(chosen) for number in range(len(self.operators))]
        for column, (then, place) in enumerate(zip(before, chosen, strict=True)):
            old = {key(operator): operator for operator in points[then].operators}
            phase = _phase(points[place])
            for operator in points[place].operators:
                number = self._numbers.get(key(operator))
                if number is None:
                    continue
                slots[number][column] = float(operator.slots)
                share = operator.busy_since(old.get(key(operator), OperatorFigures(operator.name, ())))
                if share is not None and operator.phase == phase:
                    busy[number][column] = round(foot(number) + FILL * share, 4)
        columns: Columns = {}
        for number in range(len(self.operators)):
            columns[f"slots{number}"] = slots[number]
            columns[f"busy{number}"] = busy[number]
        return columns


def foot(number: int) -> int:
    """Return the height at which the row of an operator begins in the busy plot.

    It does not depend on how many operators there are: a browser has old rows while new columns come.

    Examples:
        >>> foot(0), foot(1)
        (-1, -2)
    """
    return -1 - number


def _before(points: Sequence[Point], times: Sequence[float], place: int) -> int:
    """The earlier point from which a point's rates are computed."""
    span = rate_span(points[place].operators, SMOOTH_S)
    return max(0, min(place - 1, bisect_left(times, times[place] - span)))


def _rate(points: Sequence[Point], name: str, then: int, place: int) -> float:
    """A rate; 0 where a new phase counts from 0 again."""
    seconds = points[place].time - points[then].time
    if seconds <= 0:
        return 0.0
    return _rounded(max(0.0, getattr(points[place], name) - getattr(points[then], name)) / seconds)


def _rounded(number: float) -> float:
    """To five digits, so that few bytes travel."""
    return float(f"{number:.5g}")


def _phase(point: Point) -> int:
    return max((operator.phase for operator in point.operators), default=0)
