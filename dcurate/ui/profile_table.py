"""A corpus profile on a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from dcurate.core.profile import Distribution, FilterProfile, ProfileSummary
from dcurate.runs.text import many, number_text, seconds_text

#: Reasons for which rows could not be read that are shown.
_SHOWN_FAULTS = 8

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SPARK = 16
_SHOWN_VALUES = 8


@dataclass(frozen=True)
class ProfileTable:
    """The result of `profile_table`: print it on a rich console."""

    profile: ProfileSummary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _headline(self.profile)
        yield _lengths(self.profile)
        for column, values in self.profile.counts.items():
            yield _counts(column, values, self.profile.documents)
        if self.profile.filters:
            yield _filters(self.profile)
            yield Text(
                "fail: documents that the filter drops by itself; first: those that no filter before it drops; only: "
                "those that no other drops",
                style="dim",
            )


def profile_table(profile: ProfileSummary) -> ProfileTable:
    """A profile as tables for a rich console."""
    return ProfileTable(profile)


def share(part: int, whole: int) -> str:
    """A share in percent, with as many digits as it takes to distinguish it from none and all; more than all in times.

    Examples:
        >>> [share(*pair) for pair in ((0, 5), (1, 100_000), (123, 1000), (999_999, 10**6), (5, 5), (1, 0), (9, 7))]
        ['0 %', '< 0.01 %', '12.3 %', '> 99.99 %', '100 %', '', '1.29 times']
    """
    if not whole:
        return ""
    percent = 100 * part / whole
    if part > whole:  # as clips of films are
        return f"{part / whole:,.3g} times"
    if part in (0, whole):
        return f"{percent:.0f} %"
    if percent < 0.01:
        return "< 0.01 %"
    if percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.2g} %" if percent < 1 else f"{percent:.3g} %" if percent < 99 else f"{percent:.2f} %"


def duplicates_text(profile: ProfileSummary) -> str:
    """The share of repeated texts, and whether it is exact."""
    about = "" if profile.duplicates_exact else "about "
    return about + (f"{100 * profile.duplicates:.2g} %" if profile.duplicates else "0 %")


def fault_lines(profile: ProfileSummary) -> list[str]:
    """How many rows could not be read for which reason, and where one of them is; a line for each reason."""
    lines = []
    for fault in profile.faults[:_SHOWN_FAULTS]:
        place = f", as in {fault.place}" if fault.place else ""
        error = f": {fault.error}" if fault.error else ""
        lines.append(f"{many(fault.rows, 'row')}, {fault.reason}{place}{error}")
    more = profile.faults[_SHOWN_FAULTS:]
    rest = f"{many(sum(fault.rows for fault in more), 'row')} for {many(len(more), 'other reason')}"
    return [*lines, *([rest] if more else [])]


def _headline(profile: ProfileSummary) -> Table:
    totals = profile.distributions
    tokens = totals["tokens"].total if "tokens" in totals else 0
    words = totals["words"].total if "words" in totals else 0
    table = Table.grid(padding=(0, 2))
    lines = [
        ("corpus", profile.source),
        ("documents", f"{profile.documents:,}, {profile.empty:,} of them empty"),
        *(("" if number else "unreadable", line) for number, line in enumerate(fault_lines(profile))),
        ("text", f"{decimal(profile.nbytes)}, {words or 0:,} words"),
        ("tokens", f"{'about ' if profile.tokens_estimated else ''}{tokens or 0:,}"),
        ("duplicates", f"{duplicates_text(profile)} of the documents repeat a text"),
        (
            "kept",
            f"{profile.kept:,} ({share(profile.kept, profile.documents)}) pass all filters" if profile.filters else "",
        ),
        ("time", seconds_text(profile.seconds)),
    ]
    for name, value in lines:
        if not value:
            continue
        table.add_row(Text(name, "bold"), Text(value, overflow="fold"))
    return table


def _lengths(profile: ProfileSummary) -> Table:
    table = Table(title="length of a document", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for head in ("min", "p5", "median", "mean", "p95", "max"):
        table.add_column(head, justify="right")
    table.add_column("", no_wrap=True)
    for distribution in profile.distributions.values():
        quantiles = distribution.quantiles
        figures = [
            distribution.least,
            quantiles.get(0.05),
            quantiles.get(0.5),
            distribution.mean,
            quantiles.get(0.95),
            distribution.most,
        ]
        cells = [number_text(round(value) if value is not None and distribution.whole else value) for value in figures]
        table.add_row(distribution.name, *cells, Text(spark(distribution), "cyan"))
    return table


def _counts(column: str, values: object, documents: int) -> Table:
    table = Table(title=Text(column), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("value", overflow="fold")
    table.add_column("documents", justify="right")
    table.add_column("share", justify="right")
    if not isinstance(values, dict):
        table.add_row("more than 10,000 different values", "", "")
        return table
    shown = list(values.items())
    for value, number in shown[:_SHOWN_VALUES]:
        table.add_row(Text(value), f"{number:,}", share(number, documents))
    if len(shown) > _SHOWN_VALUES:
        remaining = sum(number for _, number in shown[_SHOWN_VALUES:])
        table.add_row(f"{len(shown) - _SHOWN_VALUES:,} others", f"{remaining:,}", share(remaining, documents))
    return table


def _filters(profile: ProfileSummary) -> Table:
    table = Table(title="filters", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("filter", no_wrap=True)
    for head in ("fail", "", "first", "only", "median"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("scores", no_wrap=True)
    table.add_column(f"at most {100 * profile.most_dropped:g} % with")
    for filter_profile in profile.filters:
        table.add_row(
            Text(filter_profile.name),
            f"{filter_profile.drops:,}",
            share(filter_profile.drops, profile.documents),
            f"{filter_profile.first:,}",
            f"{filter_profile.only:,}",
            number_text(filter_profile.scores.quantiles.get(0.5)),
            Text(spark(filter_profile.scores), "cyan"),
            Text(suggestion_text(filter_profile), "yellow"),
        )
    return table


def suggestion_text(filter_: FilterProfile) -> str:
    """The thresholds to try instead of a filter's own; empty if its own are fine."""
    return ", ".join(cut.suggested.keeps for cut in filter_.cuts if cut.suggested is not None)


def spark(distribution: Distribution, width: int = _SPARK) -> str:
    """A histogram in a line of text.

    Examples:
        >>> from dcurate.core.profile import Bar
        >>> bars = (Bar(0, 1, 1), Bar(1, 2, 8), Bar(2, 3, 0), Bar(3, 4, 4))
        >>> spark(Distribution("n", 13, 0, 0, 4, histogram=bars))
        '▁█ ▄'
    """
    counts = [bar.count for bar in distribution.histogram]
    size = -(-len(counts) // width) if counts else 1
    sums = [sum(counts[start : start + size]) for start in range(0, len(counts), size)]
    top = max(sums, default=0)
    return "".join(_BLOCKS[-(-8 * total // top)] if top else _BLOCKS[0] for total in sums)
