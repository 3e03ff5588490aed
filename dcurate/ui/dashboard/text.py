"""Figures as short text for a dashboard."""

from __future__ import annotations

from html import escape

from dcurate.runs.text import seconds_text

#: Shown for unknown figures.
NONE = "–"


def count(number: float) -> str:
    """Format a whole number with all digits.

    Examples:
        >>> count(1234567.8)
        '1,234,568'
    """
    return f"{number:,.0f}"


def short(number: float) -> str:
    """Format a number in three digits.

    Examples:
        >>> [short(number) for number in (0, 0.04, 7.25, 950, 1234, 56_789_000)]
        ['0', '0.04', '7.2', '950', '1.23 k', '56.8 M']
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g} {unit}"
    if number >= 10 or number == 0:
        return f"{number:.0f}"
    return f"{number:.2g}"


def percent(share: float | None) -> str:
    """Format a share in percent; less than 1 is never shown as 100 %.

    Examples:
        >>> percent(0.9996), percent(1.0), percent(0.123), percent(None)
        ('99.9 %', '100 %', '12.3 %', '–')
    """
    if share is None:
        return NONE
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    return f"{min(99.9, max(0.1, 100 * share)):.1f} %"


def nbytes(number: float) -> str:
    """Bytes, with their unit, in three digits.

    Examples:
        >>> [nbytes(number) for number in (0, 950, 1_234_567, 224_000_000)]
        ['0 B', '950 B', '1.23 MB', '224 MB']
    """
    text = short(int(number))
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def spent(seconds: float | None) -> str:
    """Format a duration."""
    return NONE if seconds is None else seconds_text(seconds)


def clock(seconds: float) -> str:
    """Format the time since the start, like a clock.

    Examples:
        >>> clock(7.8), clock(3725)
        ('0:07', '1:02:05')
    """
    minutes, remainder = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remainder:02}" if hours else f"{minutes}:{remainder:02}"


def bar(share: float, more: str = "") -> str:
    """A bar, as HTML, that is full at a share of 1."""
    width = 100 * min(max(share, 0.0), 1.0)
    return f'<span class="bar {escape(more)}"><i style="width:{width:.1f}%"></i></span>'
