"""A finished run as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.filesize import decimal
from rich.jupyter import JupyterMixin
from rich.text import Text

from dcurate.core.report import RunReport
from dcurate.events import StageStats
from dcurate.runs.text import many, seconds_text, used_text

#: Of the text, in characters.
_WIDTH = 120
#: Of a column of text that wraps.
_NARROWEST = 8

_IN_ONE_PASS = "·"


@dataclass(frozen=True)
class _Column:
    """A column of the table: what it shows of a stage, and what of the whole run.

    Attributes:
        wide: left out where the table would not fit.
    """

    title: str
    of_stage: Callable[[StageStats], str]
    of_run: Callable[[RunReport], str]
    text: bool = False
    wraps: bool = False
    wide: bool = False


@dataclass(frozen=True)
class ReportTable(JupyterMixin):
    """The result of `report_table`: print it on a rich console."""

    report: RunReport
    page: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _lines(self.report, self.page, options.max_width)


def report_table(report: RunReport, page: str | None = None) -> ReportTable:
    """A run as a table for a rich console: a line per stage, a total, and where the output is.

    Args:
        page: address of the report page, shown if given.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> stages = [ScoreFilter(WordCountFilter(min_words=2))]
        >>> run = Pipeline("demo", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> from rich.console import Console
        >>> console = Console(width=100, file=__import__("io").StringIO())
        >>> console.print(report_table(run.report))
        >>> "word_count" in console.file.getvalue()
        True
    """
    return ReportTable(report, page)


def report_text(report: RunReport) -> str:
    """The table as plain text, 120 characters wide."""
    return "".join(f"{line.plain.rstrip()}\n" for line in _lines(report, None, _WIDTH))


def _lines(report: RunReport, page: str | None, width: int) -> Iterator[Text]:
    """The lines of a report: laid out here, as rich takes longer for it than a small run for its rows."""
    yield _line(f"{report.pipeline}: {report.mode}, run {report.run}", "bold")
    yield _line("")
    yield from _table(report, width)
    yield _line("")
    for note in _notes(report.stages):
        yield from (_line(line, "dim") for line in textwrap.wrap(note, width))
    yield _line("")
    yield from _places(report, page, width)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _table(report: RunReport, width: int) -> Iterator[Text]:
    """The lines of the table: without its wide columns where they would not fit."""
    columns, cells = _cells(report, _COLUMNS)
    if _least(columns, cells) > width:
        columns, cells = _cells(report, [column for column in _COLUMNS if not column.wide])
    widths = [max(map(cell_len, texts)) for texts in cells]
    for place, column in enumerate(columns):
        if column.wraps:
            taken_width = sum(widths) - widths[place] + 2 * len(widths) + 1
            widths[place] = min(widths[place], max(width - taken_width, _NARROWEST))
    head, *rows = zip(*cells, strict=True)
    total = rows.pop() if report.stages else None
    yield from (_line(line, "bold") for line in _row(columns, head, widths))
    yield _line(f" {'─' * (sum(widths) + 2 * len(widths) - 1)}")
    for row in rows:
        yield from map(_line, _row(columns, row, widths))
    if total is not None:
        yield _line("")
        yield from (_line(line, "bold") for line in _row(columns, total, widths))


def _cells(report: RunReport, columns: Sequence[_Column]) -> tuple[Sequence[_Column], list[list[str]]]:
    """The columns, and the texts of each: its title, a text for each stage, and for the run if there are stages."""
    totals = [report] if report.stages else []
    return columns, [
        [column.title, *map(column.of_stage, report.stages), *map(column.of_run, totals)] for column in columns
    ]


def _least(columns: Sequence[_Column], cells: Sequence[Sequence[str]]) -> int:
    """The width of a table in which no word is broken."""
    parts = (
        [word for text in texts for word in text.split() or [""]] if column.wraps else texts
        for column, texts in zip(columns, cells, strict=True)
    )
    return sum(max(map(cell_len, words)) + 2 for words in parts) + 1


def _row(columns: Sequence[_Column], texts: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row."""
    wrapped = [
        textwrap.wrap(text, width) or [""] if column.wraps else [text]
        for column, text, width in zip(columns, texts, widths, strict=True)
    ]
    for parts in zip_longest(*wrapped, fillvalue=""):
        padded = []
        for column, part, width in zip(columns, parts, widths, strict=True):
            blanks = " " * (width - cell_len(part))
            padded.append(part + blanks if column.text else blanks + part)
        yield " " + "  ".join(padded)


def _rows_in(report: RunReport) -> int:
    return report.stages[0].rows_in if report.stages else 0


def _bytes_in(report: RunReport) -> int:
    return report.stages[0].bytes_in if report.stages else 0


def _all_seconds(report: RunReport) -> float:
    return sum(stage.seconds for stage in report.stages)


def _dropped(report: RunReport) -> dict[str, int]:
    return {stage.name: sum(stage.dropped.values()) for stage in report.stages}


def _faulty(report: RunReport) -> dict[str, int]:
    return {stage.name: sum(stage.faulty.values()) for stage in report.stages}


def _count(reasons: Mapping[str, int]) -> str:
    rows = sum(reasons.values())
    return f"{rows:,}" if rows else ""


def _quarantined(reasons: Mapping[str, int]) -> str:
    rows = _count(reasons)
    return f"{rows} quarantined" if rows else ""


def _why(stage: StageStats) -> str:
    """Why a stage took rows out; a filter that says no more than its own name says nothing.

    Examples:
        >>> _why(StageStats("word_count", dropped={"word_count": 3}))
        ''
        >>> _why(StageStats("length", dropped={"too short": 5, "too long": 1200}))
        '1,200 too long, 5 too short'
        >>> _why(StageStats("jsonl_reader", faulty={"malformed line": 2}))
        '2 quarantined: malformed line'
        >>> _why(StageStats("count_pii", found={"EMAIL_ADDRESS": 1200}))
        'found 1,200 EMAIL_ADDRESS'
    """
    dropped = "" if set(stage.dropped) == {stage.name} else _reasons(stage.dropped)
    faulty = f"{_quarantined(stage.faulty)}: {_reasons(stage.faulty)}" if stage.faulty else ""
    findings = f"found {_ranked(stage.found)}" if stage.found else ""
    return "; ".join(filter(None, (dropped, faulty, findings)))


def _reasons(reasons: Mapping[str, int]) -> str:
    if len(reasons) == 1:
        return next(iter(reasons))
    return _ranked(reasons)


def _ranked(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {kind}" for kind, count in ranked)


def _in_one_pass(stage: StageStats) -> bool:
    return stage.batches > 0 and stage.seconds == 0


def _slot_seconds(stage: StageStats) -> str:
    return _IN_ONE_PASS if _in_one_pass(stage) else f"{stage.seconds:,.2f}"


def _speed(stage: StageStats) -> str:
    if not stage.seconds:
        return _IN_ONE_PASS if _in_one_pass(stage) else ""
    return f"{stage.rows_in / stage.seconds:,.0f}"


def _notes(stages: Sequence[StageStats]) -> list[str]:
    notes = [
        "in, out: size in files at the ends, in memory between them: lines and the columns parsed from them",
        "slot s: seconds in the stage's own code, summed over slots",
    ]
    if any(map(_in_one_pass, stages)):
        notes.append(f"{_IN_ONE_PASS} computed in one pass with the stage above")
    return [*notes, *(f"{stage.name}: {_measured(stage.metrics)}" for stage in stages if stage.metrics)]


def _measured(metrics: Mapping[str, float]) -> str:
    """Metrics that a stage recorded.

    Examples:
        >>> _measured({"requests": 1024.0, "cost": 0.1925, "prompt_tokens": 310112.0})
        '1,024 requests, 0.193 cost, 310,112 prompt tokens'
    """
    shown = (
        (name, f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.3g}") for name, amount in metrics.items()
    )
    return ", ".join(f"{amount} {name.replace('_', ' ')}" for name, amount in shown)


def _places(report: RunReport, page: str | None, width: int) -> Iterator[Text]:
    """Duration, throughput, and the places of all files."""
    seconds = report.working_seconds
    # What an earlier run did is in the counts, but not in the time.
    speed = f": {_rows_in(report) / seconds:,.0f} docs/s, {_bytes_in(report) / seconds / 1e6:,.1f} MB/s of input"
    workers = f" on {many(report.workers, 'worker')}" if report.workers else ""
    if report.compile_seconds:
        workers += f", {seconds_text(report.compile_seconds)} of it to compile kernels, once on this machine"
    before = f", {report.splits_before:,} of them by an earlier run" if report.splits_before else ""
    lines = [
        ("stopped", report.error),
        ("result", "nothing to do: an earlier run has finished all splits" if report.nothing_was_left else ""),
        *(("notice", notice) for notice in report.notices),
        ("time", f"{seconds_text(report.seconds)}{workers}{'' if report.splits_before else speed}"),
        ("splits", f"{many(report.splits, 'part')} of the input{before}" if report.splits else ""),
        ("used", used_text(report)),
        ("output", f"{report.output_path} ({many(report.files, 'file')})" if report.output_path else ""),
        ("report", page or ""),
        ("rejected", report.rejected_path or ""),
        (
            "quarantine",
            f"{report.quarantine_path} ({many(sum(_faulty(report).values()), 'document')})"
            if report.quarantine_path
            else "",
        ),
    ]
    shown = [(name, value) for name, value in lines if value]
    indent = max(len(name) for name, _ in shown) + 2
    for name, value in shown:
        parts = [part for line in value.splitlines() for part in textwrap.wrap(line, max(width - indent, _NARROWEST))]
        for place, part in enumerate(parts):
            line = _line(("" if place else name).ljust(indent) + part)
            line.stylize("bold", 0, indent)
            yield line


_COLUMNS = (
    _Column("stage", lambda stage: stage.name, lambda _: "total", text=True),
    _Column("docs in", lambda stage: f"{stage.rows_in:,}", lambda run: f"{_rows_in(run):,}"),
    _Column("docs out", lambda stage: f"{stage.rows_out:,}", lambda run: f"{run.stages[-1].rows_out:,}"),
    _Column("in", lambda stage: decimal(stage.bytes_in), lambda run: decimal(_bytes_in(run)), wide=True),
    _Column("out", lambda stage: decimal(stage.bytes_out), lambda run: decimal(run.stages[-1].bytes_out), wide=True),
    _Column("dropped", lambda stage: _count(stage.dropped), lambda run: _count(_dropped(run))),
    _Column("because of", _why, lambda run: _quarantined(_faulty(run)), text=True, wraps=True),
    _Column("slot s", _slot_seconds, lambda run: f"{_all_seconds(run):,.2f}"),
    _Column("docs/slot s", _speed, lambda _: "", wide=True),
)
