"""A corpus profile as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.filesize import decimal

from dcurate.core.profile import Bar, Distribution, DroppedSide, ProfileSummary
from dcurate.fs.atomic import atomic_write
from dcurate.runs.text import many
from dcurate.ui.profile_table import duplicates_text, fault_lines, share, suggestion_text
from dcurate.ui.svg import histogram
from dcurate.ui.templating import framed, render

_SHOWN_VALUES = 12
#: Height of the page in a notebook; the rest of it is scrolled to.
_FRAME_PX = 900
_LENGTHS = ("words", "characters", "tokens", "lines")


def write_page(profile: ProfileSummary, path: Path) -> None:
    """Write the page, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    content = page(profile)
    with atomic_write(path, durable=False) as file:
        file.write(content.encode())


def in_notebook(profile: ProfileSummary) -> str:
    """The page as a notebook shows it."""
    return framed(page(profile), "profile", _FRAME_PX)


def page(profile: ProfileSummary) -> str:
    """Return the page as text."""
    return render(
        "profile.html",
        profile=profile,
        figures=_figures(profile),
        unread=fault_lines(profile),
        lengths=[profile.distributions[name] for name in _LENGTHS if name in profile.distributions],
        ranked=sorted(enumerate(profile.filters), key=lambda numbered_filter: -numbered_filter[1].drops),
        most_values=_SHOWN_VALUES,
        drawn=_drawn,
        suggestion=suggestion_text,
    )


def _figures(profile: ProfileSummary) -> list[tuple[str, str, str]]:
    """The figures at the top of the page: name, value and details."""
    totals = profile.distributions
    tokens = totals["tokens"].total if "tokens" in totals else 0
    words = totals["words"].total if "words" in totals else 0
    about = "about " if profile.tokens_estimated else ""
    unread = f", {many(profile.faulty, 'row')} unreadable" if profile.faulty else ""
    return [
        ("documents", f"{profile.documents:,}", f"{profile.empty:,} empty{unread}"),
        ("text", decimal(profile.nbytes), f"{words or 0:,} words"),
        ("tokens", f"{about}{_short(tokens or 0)}", "bytes / 4" if about else "counted"),
        ("repeat a text", duplicates_text(profile), "exact" if profile.duplicates_exact else "from a sample"),
        ("pass all filters", share(profile.kept, profile.documents) or "–", f"{profile.kept:,} documents"),
    ]


def _short(number: int) -> str:
    """A large number in three digits.

    Examples:
        >>> [_short(number) for number in (950, 1234, 56_789_000, 1_200_000_000)]
        ['950', '1.23 k', '56.8 M', '1.2 G']
    """
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _drawn(distribution: Distribution, cuts: Sequence[DroppedSide] = (), log: bool = False) -> str:
    """Draw a histogram with the suggested thresholds."""
    bars = distribution.histogram
    marks = [(cut.suggested.value, cut.suggested.keeps) for cut in cuts if cut.suggested is not None]
    return histogram(bars, marks, whole=distribution.whole, across=_is_geometric(bars), log=log)


def _is_geometric(bars: Sequence[Bar]) -> bool:
    """Return whether bars get wider from left to right."""
    if len(bars) < 4:
        return False
    return bars[-1].high - bars[-1].low > 2 * (bars[1].high - bars[1].low)
