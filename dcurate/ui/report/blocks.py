"""The data of the page of a run, and its figures in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dcurate.core.report import RunReport, Threshold
from dcurate.runs.history import History
from dcurate.runs.snapshot import LATENCY_S, OperatorFigures, RunSnapshot


@dataclass(frozen=True)
class ReportData:
    """The data that a report page shows."""

    report: RunReport
    history: History
    present: RunSnapshot
    about: Mapping[str, Any]

    def thresholds(self, stage: str, score: str) -> list[Threshold]:
        """The thresholds of a filter, if known."""
        cuts = self.about.get("thresholds", {}).get(stage, {}).get(score, ())
        return [cut if isinstance(cut, Threshold) else Threshold(cut["keeps"], cut["value"]) for cut in cuts]


class PictureCard(NamedTuple):
    """A file as the page shows it.

    Attributes:
        name: name of the file.
        reason: why it was set aside, with the stage.
        detail: what else is known; one line.
        picture: it, or its first page, as a ``data:`` address; empty if it cannot be drawn.
        width, height: size of the picture in pixels.
        sound: an excerpt as a ``data:`` address; empty for what has none.
    """

    name: str
    reason: str
    detail: str = ""
    picture: str = ""
    width: int = 0
    height: int = 0
    sound: str = ""


def lasted(operator: OperatorFigures, level: float) -> str:
    """An upper bound of a quantile of the duration of an operator's calls, from its histogram.

    Examples:
        >>> lasted(OperatorFigures("read", (), latency=(0, 9, 0, 1)), 0.5)
        '25 ms'
    """
    total, upto = sum(operator.latency), 0
    for place, count in enumerate(operator.latency):
        upto += count
        if total and upto >= level * total:
            return brief(LATENCY_S[place]) if place < len(LATENCY_S) else f"over {brief(LATENCY_S[-1])}"
    return ""


def brief(seconds: float) -> str:
    """Format a duration in few characters.

    Examples:
        >>> brief(0.025), brief(2.5), brief(500), brief(7200), brief(0)
        ('25 ms', '2.5 s', '500 s', '2 h', '0 s')
    """
    if not seconds:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds / 3600:.3g} h"
