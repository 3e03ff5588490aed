"""Plots that show each operator of a run over time in its colour."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

from dcurate.ui.dashboard.drawing import Drawing, drawn, hover
from dcurate.ui.dashboard.series import FILL, foot
from dcurate.ui.dashboard.theme import HEIGHT, hover_of_row, library, plot, tooltip
from dcurate.ui.dashboard.view_model import colour
from dcurate.ui.svg import INK

#: Pixels of each row of the busy plot, and of what else there is of it.
ROW_HEIGHT, AROUND = 22, 36
#: A plot is high enough for at least this many rows.
LEAST_ROWS = 4
#: Letters of a name that are shown beside a plot.
NAME = 22

#: The phase and the name of each operator of a run, in order.
Names = Sequence[tuple[int, str]]


def slots(source: Any, x_range: Any) -> Drawing:
    """Slots of each operator, one on the other."""
    bokeh = library()
    figure = plot("slots", x_range)
    figure.y_range.start = 0
    figure.yaxis.ticker.min_interval = 1

    def operators(names: Names) -> None:
        fields = [f"slots{number}" for number in range(len(names))]
        sums = [bokeh.models.Stack(fields=fields[: number + 1]) for number in range(len(names))]
        edges = ["zero", *map(bokeh.properties.expr, sums)]
        glyphs = (
            bokeh.models.VArea(x="time", y1=low, y2=high, fill_color=colour(number), fill_alpha=0.85)
            for number, (low, high) in enumerate(pairwise(edges))
        )
        areas = [drawn(source, glyph) for glyph in glyphs]
        _show(figure, areas, _tips(source, names, "@slots{number}", {}))

    return Drawing(figure, operators=operators)


def busy(source: Any, x_range: Any) -> Drawing:
    """The busy share of each operator: a row for each, which is full where its slots never waited."""
    bokeh = library()
    rows = bokeh.models.Range1d(0, 1)
    figure = plot("busy", x_range, y_range=rows)
    figure.ygrid.grid_line_color = None
    figure.yaxis.major_label_text_color = INK
    figure.yaxis.ticker = bokeh.models.FixedTicker()

    def row(number: int) -> Any:
        low = bokeh.properties.value(foot(number))
        return bokeh.models.VArea(x="time", y1=low, y2=f"busy{number}", fill_color=colour(number))

    def operators(names: Names) -> None:
        many = len(names)
        ticks = [foot(number) + FILL / 2 for number in range(many)]
        labels = [name if len(name) <= NAME else f"{name[: NAME - 1]}…" for _, name in names]
        rows.update(start=-max(many, LEAST_ROWS), end=-(1 - FILL) / 2)
        figure.yaxis.major_label_overrides = dict(zip(ticks, labels, strict=True))
        figure.yaxis.ticker.ticks = ticks
        figure.height = max(ROW_HEIGHT * many + AROUND, HEIGHT)
        areas = [drawn(source, row(number)) for number in range(many)]
        _show(figure, areas, _tips(source, names, "@busy{number}{custom}", {"@busy": hover_of_row(FILL)}))

    return Drawing(figure, operators=operators)


def _show(figure: Any, areas: Sequence[Any], tips: Sequence[Any]) -> None:
    # All at once: Bokeh looks through the whole page each time that something is added to it.
    figure.renderers = [*areas, *(renderer for tip in tips for renderer in tip.renderers)]
    figure.toolbar.tools = list(tips)


def _tips(source: Any, names: Names, value: str, formatters: dict[str, Any]) -> list[Any]:
    """A tooltip for each phase, that names the operators of that phase."""
    phases = 1 + max((phase for phase, _ in names), default=0)
    tips = []
    for phase in range(phases):
        mine = [(number, name) for number, (its, name) in enumerate(names) if its == phase]
        lines = [(colour(number), escape(name), value.replace("{number}", str(number))) for number, name in mine]
        field_formatters = {
            f"{field}{number}": formatter for field, formatter in formatters.items() for number, _ in mine
        }
        # Nothing is seen of it; it is there only where the phase is.
        target = drawn(source, library().models.Line(x="time", y=f"phase{phase}", line_alpha=0))
        tips.append(hover(target, tooltip(lines), field_formatters))
    return tips
