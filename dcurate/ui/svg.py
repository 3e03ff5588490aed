"""Plots as SVG text: small, and without scripts or other files.

Lines and labels take the colour of the text around them, so that they are legible on dark and on light pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from dcurate.core.profile import Bar

#: Colours of operators and other series, in order; the first is also that of kept documents.
COLOURS = ("#2f8f97", "#e07a3f", "#6b7fb3", "#c2a13a", "#8d6a9f", "#5f9e5f", "#b5586a", "#84919e")
KEPT, DROPPED, INK, MUTED, GRID = "#2f8f97", "#e07a3f", "#20262d", "#69727d", "#e8e6e1"

HEIGHT = 170
#: Width of every plot: that of a phone, or of a third of a page.
WIDTH = 350
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 14, 22
#: Tooltips of a plot over time.
_BANDS = 60
_FLOOR = 0.7
#: Smaller values count as 0.
_LEAST = 1e-300


@dataclass(frozen=True)
class LineSeries:
    """A line of a plot: a value for each moment, or None."""

    name: str
    values: Sequence[float | None]
    colour: str = KEPT


@dataclass(frozen=True)
class Frame:
    """The scales of a plot, from values to pixels.

    Args:
        low, high: ends of the horizontal scale.
        top: end of the vertical scale, which begins at 0.
        log: use a logarithmic vertical scale, from 1.
        across: use a logarithmic horizontal scale.
    """

    low: float
    high: float
    top: float
    log: bool = False
    across: bool = False

    def x(self, value: float) -> float:
        """Distance from the left edge in pixels."""
        low, high, at = self.low, self.high, value
        if self.across:
            low, high, at = (math.log(max(number, 1e-12)) for number in (low, high, at))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(_LEFT + min(max(share, 0.0), 1.0) * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        """Distance from the upper edge in pixels."""
        if self.log:
            floor = math.log10(_FLOOR)
            share = (math.log10(max(value, _FLOOR)) - floor) / (math.log10(max(self.top, 1.5)) - floor)
        else:
            share = value / self.top if self.top else 0.0
        return round(HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (HEIGHT - _TOP - _BOTTOM), 1)


def over_time(
    times: Sequence[float],
    series: Sequence[LineSeries],
    label: Callable[[float], str],
    *,
    stacked: bool = False,
    limit: float | None = None,
) -> Markup:
    """Draw lines over time, or stacked areas.

    Args:
        times: seconds since the beginning, ascending.
        label: formats a value, for the axis and for tooltips.
        limit: an upper limit, drawn as a dashed line.
    """
    if len(times) < 2 or not series:
        return Markup()
    tops = _stacked(series) if stacked else [list(line.values) for line in series]
    most = max((value for values in tops for value in values if value is not None), default=0.0)
    frame = Frame(times[0], times[-1], ceiling(max(most, limit or 0.0)))
    parts = [_grid(frame, label), _time_axis(frame)]
    below: Sequence[float | None] = [0.0] * len(times)
    for line, values in zip(series, tops, strict=True):
        parts.append(_area(frame, times, below, values, line) if stacked else _line(frame, times, values, line.colour))
        below = values if stacked else below
    if limit:
        parts.append(_across(frame, limit))
    parts.append(_bands(frame, times, series, label))
    return _svg(frame, parts)


def histogram(
    bars: Sequence[Bar],
    marks: Sequence[tuple[float, str]] = (),
    *,
    whole: bool = False,
    across: bool = False,
    log: bool = True,
    words: tuple[str, str] | None = None,
) -> Markup:
    """Draw a histogram, with dropped documents stacked on those that are kept.

    Args:
        marks: values to mark, each with a word or two.
        whole: whether all values are whole numbers.
        across: use a logarithmic scale for values.
        log: use a logarithmic scale for counts, which shows small ones.
        words: what the two parts of a bar are, in tooltips; kept and dropped documents by default.
    """
    if not bars:
        return Markup()
    low = _above(bars) if across else bars[0].low
    top = ceiling(max(bar.count for bar in bars), log=log)
    frame = Frame(low, bars[-1].high, top, log=log, across=across)
    counted, rest = words or ("kept" if any(bar.dropped for bar in bars) else "documents", "dropped")
    parts = [_grid(frame, short), _number_axis(frame, whole)]
    for bar in bars:
        left, right = frame.x(max(bar.low, low)), frame.x(bar.high)
        kept = bar.count - bar.dropped
        tip = f"{_range(bar, whole)}: {kept:,} {counted}" + (f", {bar.dropped:,} {rest}" if bar.dropped else "")
        shapes = _rect(left, frame.y(kept), right, frame.y(0), KEPT) if kept else ""
        shapes += _rect(left, frame.y(bar.count), right, frame.y(kept), DROPPED) if bar.dropped else ""
        parts.append(f"<g><title>{escape(tip)}</title>{shapes}</g>" if shapes else "")
    parts.extend(_mark(frame, value, word) for value, word in marks if frame.low <= value <= frame.high)
    return _svg(frame, parts)


def curves(
    lines: Sequence[tuple[str, Sequence[float], Sequence[float]]], *, dots: bool = False, diagonal: bool = False
) -> Markup:
    """Draw lines from 0 to 1 in both directions.

    Args:
        lines: the name, the places across and the heights of each.
        dots: whether to mark their points.
        diagonal: whether to draw the line of equal values, dashed.
    """
    frame = Frame(0, 1, 1)
    parts = [_grid(frame, short), _number_axis(frame, whole_numbers=False)]
    if diagonal:
        path = f"M{frame.x(0)} {frame.y(0)}L{frame.x(1)} {frame.y(1)}"
        parts.append(f'<path d="{path}" stroke="currentColor" stroke-dasharray="4 3" stroke-opacity=".6"/>')
    for (name, across, heights), colour in zip(lines, COLOURS, strict=False):
        drawn = _line(frame, across, heights, colour)
        for at, height in zip(across, heights, strict=True) if dots else ():
            drawn += f'<circle cx="{frame.x(at)}" cy="{frame.y(height)}" r="2.6" fill="{colour}"/>'
        parts.append(f"<g><title>{escape(name)}</title>{drawn}</g>")
    return _svg(frame, parts)


def _svg(frame: Frame, parts: Sequence[str]) -> Markup:
    return Markup(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>')


def _rect(left: float, top: float, right: float, bottom: float, colour: str) -> str:
    width = max(right - left - 0.8, 0.8)
    return f'<rect x="{left}" y="{top}" width="{width:.1f}" height="{bottom - top:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def _grid(frame: Frame, label: Callable[[float], str]) -> str:
    if frame.log:
        powers = range(int(math.log10(max(frame.top, 1))) + 1)
        step = -(-len(powers) // 4)
        values = [10.0**power for power in powers if power % step == 0]
    else:
        values = [frame.top * share for share in (0, 0.5, 1)]
    drawn = (
        f'<path d="M{_LEFT} {frame.y(value)}H{WIDTH - _RIGHT}" stroke="currentColor" stroke-opacity=".13"/>'
        + _text(_LEFT - 6, frame.y(value) + 3.5, label(value), "end")
        for value in values
    )
    return "".join(drawn)


def _time_axis(frame: Frame) -> str:
    step = time_step(frame.high - frame.low)
    marks = [frame.low + step * number for number in range(int((frame.high - frame.low) / step) + 1)]
    return "".join(_tick(frame, at, clock(at - frame.low)) for at in marks)


def _tick(frame: Frame, value: float, words: str) -> str:
    """A label under the axis; at the right end it is right-aligned."""
    x = frame.x(value)
    at_end = x > WIDTH - _RIGHT - 12
    return _text(WIDTH - 1 if at_end else x, HEIGHT - 6, words, "end" if at_end else "middle")


def _number_axis(frame: Frame, whole_numbers: bool) -> str:
    if frame.across:
        first, last = math.ceil(math.log10(frame.low) - 1e-9), math.floor(math.log10(frame.high) + 1e-9)
        step = max(1, -(-(last - first + 1) // 6))
        marks = [10.0**power for power in range(first, last + 1, step)]
    else:
        step_ = ceiling((frame.high - frame.low) / 5)
        step_ = max(1.0, float(round(step_))) if whole_numbers else step_
        first = math.ceil(frame.low / step_ - 1e-9)
        marks = [step_ * number for number in range(first, int(frame.high / step_ + 1e-9) + 1)]
    return "".join(_tick(frame, value, short(value)) for value in marks)


def _line(frame: Frame, times: Sequence[float], values: Sequence[float | None], colour: str) -> str:
    path, pen = [], "M"
    for at, value in zip(times, values, strict=True):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{frame.x(at)} {frame.y(value)}")
        pen = "L"
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"/>'


def _area(
    frame: Frame, times: Sequence[float], below: Sequence[float | None], above: Sequence[float | None], line: LineSeries
) -> str:
    up = [f"{frame.x(at)} {frame.y(value or 0.0)}" for at, value in zip(times, above, strict=True)]
    back = [f"{frame.x(at)} {frame.y(value or 0.0)}" for at, value in zip(times, below, strict=True)]
    path = f"M{'L'.join(up)}L{'L'.join(reversed(back))}Z"
    return f'<path d="{path}" fill="{line.colour}" fill-opacity=".75" stroke="{line.colour}" stroke-width=".6"/>'


def _stacked(series: Sequence[LineSeries]) -> list[list[float | None]]:
    tops: list[list[float | None]] = []
    total = [0.0] * len(series[0].values)
    for line in series:
        total = [sum_ + (value or 0.0) for sum_, value in zip(total, line.values, strict=True)]
        tops.append(list(total))
    return tops


def _across(frame: Frame, value: float) -> str:
    y = frame.y(value)
    return f'<path d="M{_LEFT} {y}H{WIDTH - _RIGHT}" stroke="currentColor" stroke-dasharray="4 3" stroke-opacity=".6"/>'


def _bands(frame: Frame, times: Sequence[float], series: Sequence[LineSeries], label: Callable[[float], str]) -> str:
    """Draw invisible strips with the values at their place as tooltips."""
    step = -(-len(times) // _BANDS)
    places = range(0, len(times), step)
    drawn = []
    for place in places:
        left, right = frame.x(times[place]), frame.x(times[min(place + step, len(times) - 1)])
        known = [(line.name, line.values[place]) for line in series]
        lines = [clock(times[place] - frame.low), *(f"{name}: {label(value)}" for name, value in known if value)]
        title = f"<title>{escape(chr(10).join(lines))}</title>"
        box = f'x="{left}" y="{_TOP}" width="{max(right - left, 1):.1f}" height="{HEIGHT - _TOP - _BOTTOM}"'
        drawn.append(f'<rect class="band" {box}>{title}</rect>')
    return "".join(drawn)


def _mark(frame: Frame, value: float, word: str) -> str:
    x = frame.x(value)
    anchor, shift = ("end", -4) if x > WIDTH * 0.75 else ("start", 4)
    dashed = 'stroke="currentColor" stroke-width="1.2" stroke-dasharray="4 3"'
    line = f'<path d="M{x} {_TOP - 8}V{HEIGHT - _BOTTOM}" {dashed}/>'
    return line + _text(x + shift, _TOP - 2, word, anchor, "mark")


def _above(bars: Sequence[Bar]) -> float:
    """Lower end of a logarithmic scale: a bar that begins at 0 is as wide as the next."""
    first = bars[0]
    if first.low > 0:
        return first.low
    return first.high**2 / bars[1].high if len(bars) > 1 and first.high > 0 else max(first.high, 1e-9) / 10


def _range(bar: Bar, whole_numbers: bool) -> str:
    if not whole_numbers:
        return f"{bar.low:.4g} to {bar.high:.4g}"
    first, last = math.floor(bar.low) + 1, math.floor(bar.high)
    return f"{first:,}" if first >= last else f"{first:,} to {last:,}"


def ceiling(value: float, *, log: bool = False) -> float:
    """A round number that is not below a value.

    Examples:
        >>> ceiling(0.7), ceiling(1.2), ceiling(42), ceiling(0), ceiling(42, log=True)
        (0.8, 1.5, 50.0, 1.0, 42.0)
    """
    if value <= _LEAST:
        return 1.0
    if log:
        return max(float(value), 10.0)
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return next(power * digit for digit in (1, 1.5, 2, 3, 4, 5, 8, 10) if power * digit >= value * (1 - 1e-9))


def time_step(seconds: float) -> float:
    """Seconds between two marks, so that about six of them fit on an axis.

    Examples:
        >>> time_step(4), time_step(50), time_step(7200)
        (1, 10, 1800)
    """
    steps = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 4 * 3600, 8 * 3600, 86400)
    return next((step for step in steps if seconds / step <= 6), 86400.0 * math.ceil(seconds / 86400 / 6))


def clock(seconds: float) -> str:
    """Format a time since the start, for an axis.

    Examples:
        >>> clock(0), clock(2.5), clock(90), clock(7260)
        ('0 s', '2.5 s', '1:30', '2:01:00')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes}:{remainder:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{remainder:02}"


def short(value: float) -> str:
    """Format a number in about four characters.

    Examples:
        >>> [short(value) for value in (0, 0.25, 950, 12_500, 3_000_000, 2.5e9)]
        ['0', '0.25', '950', '12.5k', '3M', '2.5G']
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
