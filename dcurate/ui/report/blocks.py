"""Pieces of which the page of a run is put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

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
        """Where a filter cuts, as far as is known."""
        found = self.about.get("thresholds", {}).get(stage, {}).get(score, ())
        return [one if isinstance(one, Threshold) else Threshold(one["keeps"], one["value"]) for one in found]


def section(name: str, title: str, content: str, note: str = "") -> str:
    """A part of the page under a title; nothing where there is nothing to show."""
    if not content:
        return ""
    intro = f'<p class="note">{note}</p>' if note else ""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{intro}{content}</section>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "figures") -> str:
    """A table of cells that are HTML already; of each row the first cell is its name."""
    lines = ["".join(f"<th>{escape(head)}</th>" for head in heads)]
    lines += [f"<th>{row[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in row[1:]) for row in rows]
    if len(lines) == 1:
        return ""
    return (
        f'<div class="wide"><table class="filters {kind}">' + "".join(f"<tr>{x}</tr>" for x in lines) + "</table></div>"
    )


def pairs(values: Iterable[tuple[str, str]]) -> str:
    """Names and values, the values HTML already; those that are empty are left out."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{value}</td></tr>" for name, value in values if value)
    return f'<table class="pairs">{rows}</table>' if rows else ""


def card(value: str, name: str, more: str = "", kind: str = "") -> str:
    """A figure that is seen from afar."""
    return (
        f'<div class="card {kind}"><b>{escape(value)}</b><span>{escape(name)}</span><small>{escape(more)}</small></div>'
    )


def share_bar(*parts: tuple[float, str]) -> str:
    """Shares of a whole, side by side, each with the name of its colour."""
    drawn = "".join(f'<i class="{kind}" style="width:{100 * part:.2f}%"></i>' for part, kind in parts if part > 0)
    return f'<div class="share">{drawn}</div>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    """Names and their colours."""
    shown = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in names)
    return f'<p class="legend">{shown}</p>'


def lasted(operator: OperatorFigures, level: float) -> str:
    """How long a share of an operator's calls took at most, as far as its buckets show.

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
    """A duration in few signs.

    Examples:
        >>> brief(0.025), brief(2.5), brief(500), brief(7200), brief(0)
        ('25 ms', '2.5 s', '500 s', '2 h', '0 s')
    """
    if not seconds:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds / 3600:.3g} h"
