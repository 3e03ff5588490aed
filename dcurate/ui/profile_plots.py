"""Histograms of a corpus profile, drawn with Bokeh."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from dcurate.core.profile import Bar, Distribution
from dcurate.errors import ResourceError

KEPT, DROPPED, INK, MUTED, GRID = "#2f7f86", "#e07a3f", "#20262d", "#69727d", "#e8e6e1"

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_HEIGHT = 170
#: Where bars begin on a logarithmic scale: a single document is to be seen.
_FLOOR = 0.6
_MODULES = ("embed", "models", "plotting", "resources")


def embedded(plots: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """What a page needs to show figures: code for its head, a script for its end, and a ``div`` for each figure."""
    bokeh = library()
    code = bokeh.resources.Resources(mode="inline", components=["bokeh"]).render()
    if not plots:
        return "", "", {}
    script, divs = bokeh.embed.components(dict(plots))
    return code, script, divs


def library() -> Any:
    """Bokeh, by the parts of it that are in use.

    Raises:
        ResourceError: it is not installed.
    """
    try:
        return SimpleNamespace(**{name: importlib.import_module(f"bokeh.{name}") for name in _MODULES})
    except ImportError as error:
        raise ResourceError(
            f"plots need Bokeh ({error}): pip install 'dcurate[profile]'; tables and JSON do without"
        ) from error


def plot(distribution: Distribution, lines: Sequence[tuple[float, str]] = (), *, log: bool = False) -> Any:
    """A histogram: documents that are kept below, those that are dropped on top of them.

    Args:
        distribution: with its histogram.
        lines: values to mark, each with a word or two.
        log: whether documents are counted on a logarithmic scale, on which few of them are seen beside many.
    """
    bokeh = library()
    bars = distribution.histogram
    geometric = _geometric(bars)
    figure = bokeh.plotting.figure(
        height=_HEIGHT,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
        x_axis_type="log" if geometric else "linear",
        y_axis_type="log" if log else "linear",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border=4,
    )
    lows = [_low(bars, place) if geometric else bar.low for place, bar in enumerate(bars)]
    floor = _FLOOR if log else 0
    source = bokeh.models.ColumnDataSource(
        {
            "low": lows,
            "high": [bar.high for bar in bars],
            "kept": [bar.count - bar.dropped for bar in bars],
            "dropped": [bar.dropped for bar in bars],
            "middle": [max(bar.count - bar.dropped, floor) for bar in bars],
            "top": [max(bar.count, floor) for bar in bars],
            "range": [_range(bar, distribution.whole) for bar in bars],
        }
    )
    edges = {"left": "low", "right": "high", "source": source, "line_color": "#fbfaf8", "line_width": 0.8}
    figure.quad(bottom=floor, top="middle", fill_color=KEPT, **edges)
    figure.quad(bottom="middle", top="top", fill_color=DROPPED, **edges)
    tips = [("", "@range"), ("kept", "@kept{0,0}"), ("dropped", "@dropped{0,0}")]
    if not any(bar.dropped for bar in bars):
        tips = [("", "@range"), ("documents", "@kept{0,0}")]
    hit = figure.quad(bottom=floor, top="top", fill_alpha=0, line_alpha=0, left="low", right="high", source=source)
    figure.add_tools(bokeh.models.HoverTool(tooltips=tips, renderers=[hit], mode="vline"))
    for value, word in lines:
        _mark(bokeh, figure, value, word, max((bar.count for bar in bars), default=1))
    _style(bokeh, figure)
    return figure


def _mark(bokeh: Any, figure: Any, value: float, word: str, top: int) -> None:
    line = bokeh.models.Span(location=value, dimension="height", line_color=INK, line_dash="4 3", line_width=1.2)
    label = bokeh.models.Label(
        x=value, y=top, text=word, text_font=_FONT, text_font_size="11px", text_color=INK, x_offset=5, y_offset=-12
    )
    figure.add_layout(line)
    figure.add_layout(label)


def _style(bokeh: Any, figure: Any) -> None:
    figure.y_range.start = _FLOOR if isinstance(figure.y_scale, bokeh.models.LogScale) else 0
    figure.xgrid.grid_line_color = None
    figure.ygrid.grid_line_color = GRID
    figure.yaxis.formatter = bokeh.models.NumeralTickFormatter(format="0.[0]a")
    figure.yaxis.ticker.desired_num_ticks = 4
    figure.yaxis.ticker.num_minor_ticks = 0
    for axis in (figure.xaxis, figure.yaxis):
        axis.axis_line_color = None
        axis.major_tick_line_color = None
        axis.minor_tick_line_color = None
        axis.major_label_text_color = MUTED
        axis.major_label_text_font = _FONT
        axis.major_label_text_font_size = "11px"
    if isinstance(figure.x_scale, bokeh.models.LogScale):
        figure.xaxis.formatter = bokeh.models.NumeralTickFormatter(format="0,0.[000000]")
        figure.xaxis.ticker.num_minor_ticks = 0


def _geometric(bars: Sequence[Bar]) -> bool:
    """Whether each bar is wider than the one before it."""
    if len(bars) < 4:
        return False
    return bars[-1].high - bars[-1].low > 2 * (bars[1].high - bars[1].low)


def _low(bars: Sequence[Bar], place: int) -> float:
    """Where a bar begins on a logarithmic axis: one that begins at 0 is as wide as the next."""
    bar = bars[place]
    return bar.low if bar.low > 0 else bar.high**2 / bars[place + 1].high


def _range(bar: Bar, whole: bool) -> str:
    if not whole:
        return f"{bar.low:.4g} to {bar.high:.4g}"
    first, last = int(bar.low // 1 + 1), int(bar.high // 1)
    return f"{first:,}" if first >= last else f"{first:,} to {last:,}"
