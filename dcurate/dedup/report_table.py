"""A report on near-duplicates on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from dcurate.dedup.quality import MARGIN
from dcurate.dedup.report import DedupReport, Setting

#: Lower bounds of the classes of group sizes.
_SIZES = (2, 3, 5, 10, 100)


@dataclass(frozen=True)
class DedupReportTable(JupyterMixin):
    """The result of `dedup_report_table`; print it on a rich console.

    Args:
        report: what is shown.
    """

    report: DedupReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _parts(self.report)


def dedup_report_table(report: DedupReport) -> DedupReportTable:
    """A report as tables for a rich console."""
    return DedupReportTable(report)


def percent(share: float | None) -> str:
    """A share in percent, with as many digits as distinguish it from none and all; empty for None.

    Examples:
        >>> [percent(share) for share in (None, 0.0, 0.00001, 0.123, 0.9996, 0.99999, 1.0)]
        ['', '0 %', '< 0.01 %', '12.3 %', '99.96 %', '> 99.99 %', '100 %']
    """
    if share is None:
        return ""
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    if share < 0.0001:
        return "< 0.01 %"
    if share > 0.9999:
        return "> 99.99 %"
    return f"{100 * share:.2f} %" if share < 0.01 or share > 0.99 else f"{100 * share:.1f} %"


def _parts(report: DedupReport) -> Iterator[RenderableType]:
    yield _headline(report)
    yield _removals(report)
    yield _sizes(report)
    yield _settings(report)
    yield _recalls(report)
    yield Text(_notes(report), style="dim")


def _headline(report: DedupReport) -> Table:
    sample = report.sample
    read = "" if report.whole else ", the first of the source"
    note = "" if report.recommended.measured else " (too few duplicates to measure; chosen by bands and rows)"
    lines = [
        ("sample", report.source),
        ("documents", f"{sample.documents:,}{read}"),
        ("unreadable", f"{report.unreadable:,} lines" if report.unreadable else ""),
        ("copies", f"{report.copies:,} ({percent(report.copies / sample.documents)}) have the shingles of another"),
        ("no words", f"{sample.without_words:,}" if sample.without_words else ""),
        ("recommended", f"{report.stage}{note}"),
    ]
    table = Table.grid(padding=(0, 2))
    for name, value in lines:
        if value:
            table.add_row(Text(name, "bold"), Text(value, overflow="fold"))
    return table


def _titled(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right")
    return table


def _removals(report: DedupReport) -> Table:
    table = _titled("what would be removed", "documents", "share", "groups", "largest", "chained")
    for removal in report.removals:
        chained = None if removal.scores.removed_rightly is None else 1 - removal.scores.removed_rightly
        largest = f"{removal.sizes[0]:,}" if removal.groups else ""
        share = percent(removal.removed / report.sample.documents)
        name = f"from {removal.threshold:g} on, {removal.clustering}"
        table.add_row(name, f"{removal.removed:,}", share, f"{removal.groups:,}", largest, percent(chained))
    return table


def _sizes(report: DedupReport) -> Table:
    sizes = next(
        removal.sizes
        for removal in report.removals
        if (removal.threshold, removal.clustering) == (report.threshold, "star")
    )
    heads = ["2", *(f"{low} to {high - 1}" for low, high in pairwise(_SIZES[1:])), f"{_SIZES[-1]} or more"]
    bounds = [*_SIZES, float("inf")]
    table = _titled("sizes of groups", *heads)
    counts = [int(((sizes >= low) & (sizes < high)).sum()) for low, high in pairwise(bounds)]
    table.add_row(f"from {report.threshold:g} on, star", *(f"{count:,}" for count in counts))
    return table


def _name(setting: Setting) -> str:
    bands = setting.search.bands
    return f"{setting.search.minhash.num_hashes} as {bands.bands} x {bands.rows}, {setting.search.verification}"


def _settings(report: DedupReport) -> Table:
    above = f"from {report.threshold + MARGIN:g} on"
    table = _titled(f"settings at {report.threshold:g}", "precision", "recall", above, "expected", above, "candidates")
    for setting in report.settings:
        scores = setting.scores
        measured = [scores.precision, scores.recall, scores.recall_above]
        expected = [setting.expected(), setting.expected(MARGIN)]
        style = "bold" if setting is report.recommended else None
        figures = [percent(share) for share in (*measured, *expected)]
        table.add_row(_name(setting), *figures, f"{setting.candidates:,}", style=style)
    return table


def _recalls(report: DedupReport) -> Table:
    bands = report.settings[0].scores.bands
    table = _titled("found of the pairs, by similarity from", *(f"{band.low:g}" for band in bands))
    table.add_row("pairs", *(f"{band.pairs:,}" for band in bands))
    for setting in report.settings:
        shares = [percent(band.found / band.pairs) if band.pairs else "" for band in setting.scores.bands]
        table.add_row(_name(setting), *shares, style="bold" if setting is report.recommended else None)
    return table


def _notes(report: DedupReport) -> str:
    return (
        "copies are counted as removed, and left out of all else. chained: of the documents removed, those that are "
        "similar to none that stays, only to another that was removed. settings: hashes as bands x rows, and how "
        "candidates are verified; expected: the chance that a pair at the threshold, or above it, becomes a candidate. "
        "A random sample holds few of the duplicates of the whole."
    )
