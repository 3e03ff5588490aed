"""Building blocks for plots of a run over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dcurate.ui.dashboard.theme import hover_of, library, said_as
from dcurate.ui.dashboard.view_model import RunPanel
from dcurate.ui.svg import KEPT, MUTED

#: The range of an axis for bytes where there are none.
LEAST_BYTES = 1e6


@dataclass
class Drawing:
    """A plot and what follows the run in it.

    Attributes:
        figure: Bokeh's.
        follow: called with each new view of a run; sets what is not in the columns.
        operators: called with the phase and name of each operator, in order, whenever there are others.
    """

    figure: Any
    follow: Callable[[RunPanel], None] = lambda _: None
    operators: Callable[[Sequence[tuple[int, str]]], None] = lambda _: None


def drawn(source: Any, glyph: Any) -> Any:
    """A glyph on the rows of a source, without the four models more that a figure's own methods make of each."""
    return library().models.GlyphRenderer(data_source=source, glyph=glyph)


def line(source: Any, column: str, colour: str) -> Any:
    """A column over time."""
    return drawn(source, library().models.Line(x="time", y=column, line_color=colour, line_width=1.7))


def area(source: Any, low: str, high: str) -> Any:
    """The lower edge of a column."""
    return drawn(source, library().models.VArea(x="time", y1=low, y2=high, fill_color=KEPT, fill_alpha=0.15))


def hover(target: Any, tips: str, formatters: dict[str, Any]) -> Any:
    """A tooltip for the point of a line that is nearest in time to the pointer."""
    return library().models.HoverTool(
        tooltips=tips,
        renderers=[target],
        formatters={"@time": hover_of("duration"), **formatters},
        mode="vline",
        line_policy="nearest",
        point_policy="follow_mouse",
    )


def in_bytes(figure: Any) -> None:
    """Let a plot's height be of bytes."""
    figure.yaxis.formatter = said_as("bytes")
    figure.y_range.default_span = LEAST_BYTES


def limit(figure: Any) -> Any:
    """A line that what is plotted may reach, seen only as that comes near."""
    span = library().models.Span(location=0, dimension="width", line_color=MUTED, line_dash="4 3", visible=False)
    figure.add_layout(span)
    return span


def move(span: Any, to: float) -> None:
    """Move such a line, if it has to."""
    if span.location != to:
        span.location = to
        span.visible = to > 0
