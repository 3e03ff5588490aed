"""The common style of all plots."""

from __future__ import annotations

import importlib
from functools import cache
from types import SimpleNamespace
from typing import Any

from dcurate.ui.svg import GRID, INK, MUTED

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
#: Height of a plot among others, in pixels.
HEIGHT = 190

_MODULES = ("core.properties", "models", "plotting")

# What follows runs in the browser.

_DURATION = """
const s = Math.round(value / 1000), two = (n) => String(n).padStart(2, "0");
if (s < 60) return s + " s";
if (s < 3600) return Math.floor(s / 60) + ":" + two(s % 60);
if (s < 86400) return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + " h";
return Math.floor(s / 86400) + " d " + Math.floor(s / 3600) % 24 + " h";
"""
_BYTES = """
for (const [size, unit] of [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (Math.abs(value) >= 0.9995 * size) return Number((value / size).toPrecision(3)) + " " + unit;
return Math.round(value) + " B";
"""
_COUNT = """
for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= 0.9995 * size) return Number((value / size).toPrecision(3)) + " " + unit;
return String(Number(value.toPrecision(3)));
"""
_SHARE = "return Number.isFinite(value) ? Math.round(100 * (value - Math.floor(value)) / fill) + ' %' : '–';"

CODES = {"duration": _DURATION, "bytes": _BYTES, "bytes/s": _BYTES.replace("unit;", 'unit + "/s";'), "count": _COUNT}


@cache
def library() -> Any:
    """Bokeh, by the parts of it that are in use.

    Raises:
        ImportError: it is not installed.
    """
    parts = {name.rpartition(".")[2]: importlib.import_module(f"bokeh.{name}") for name in _MODULES}
    return SimpleNamespace(**parts)


def plot(name: str, x_range: Any, **more: Any) -> Any:
    """An empty plot over the time of a run."""
    bokeh = library()
    options: dict[str, Any] = {"height": HEIGHT, "sizing_mode": "stretch_width", **more}
    figure = bokeh.plotting.figure(
        name=name,
        x_range=x_range,
        tools="",
        toolbar_location=None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border=4,
        output_backend="canvas",
        **options,
    )
    figure.xgrid.grid_line_color = None
    figure.ygrid.grid_line_color = GRID
    figure.yaxis.ticker.desired_num_ticks = 4
    figure.yaxis.ticker.num_minor_ticks = 0
    figure.yaxis.formatter = said_as("count")
    figure.xaxis.ticker = bokeh.models.DatetimeTicker(desired_num_ticks=6, num_minor_ticks=0)
    figure.xaxis.formatter = said_as("duration")
    for axis in (figure.xaxis, figure.yaxis):
        axis.axis_line_color = None
        axis.major_tick_line_color = None
        axis.minor_tick_line_color = None
        axis.major_label_text_color = MUTED
        axis.major_label_text_font = FONT
        axis.major_label_text_font_size = "11px"
    return figure


def said_as(what: str) -> Any:
    """A formatter of an axis: of durations in milliseconds, of bytes, or of large counts."""
    return library().models.CustomJSTickFormatter(code=f"const value = tick;\n{CODES[what]}")


def hover_of(what: str) -> Any:
    """The same for tooltips."""
    return library().models.CustomJSHover(code=CODES[what])


def hover_of_row(fill: float) -> Any:
    """Format the share that a row of the busy plot is filled by."""
    return library().models.CustomJSHover(args={"fill": fill}, code=_SHARE)


def tooltip(lines: list[tuple[str, str, str]], title: str = "@time{custom}") -> str:
    """A tooltip, as HTML: colour, name (escaped) and value of each line."""
    rows = "".join(
        f'<tr><td style="padding:0 7px 0 0"><i style="display:inline-block;width:9px;height:9px;border-radius:2px;'
        f'background:{colour or "transparent"}"></i></td><td style="padding:0 14px 0 0">{name}</td>'
        f'<td style="text-align:right;font-variant-numeric:tabular-nums">{value}</td></tr>'
        for colour, name, value in lines
    )
    return (
        f'<div style="font:12px/1.5 {FONT};color:{INK}"><b style="font-weight:600">{title}</b>'
        f'<table style="border-spacing:0">{rows}</table></div>'
    )
