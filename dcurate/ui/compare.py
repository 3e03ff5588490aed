"""Compare two runs: settings and results that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.filesize import decimal
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from dcurate.core.report import RunReport
from dcurate.events import StageStats
from dcurate.runs.load import RecordedRun, read_run
from dcurate.runs.text import seconds_text
from dcurate.ui.profile_table import share
from dcurate.ui.templating import render

#: Number of reasons in the headline.
_NAMED = 3


@dataclass(frozen=True)
class Difference:
    """A setting of both runs; empty where a run does not have it.

    Attributes:
        of: a stage, or "version".
        name: name of the setting.
    """

    of: str
    name: str
    first: str
    second: str


@dataclass(frozen=True)
class CountChange:
    """A count of documents in both runs; None where a run has no such stage or reason."""

    stage: str
    name: str
    first: int | None
    second: int | None

    @property
    def more(self) -> int:
        """The increase from the first run to the second."""
        return (self.second or 0) - (self.first or 0)


@dataclass(frozen=True)
class Comparison(JupyterMixin):
    """The result of `compare`.

    Attributes:
        names: the paths of the two runs.
        settings: settings of stages, and versions, that differ.
        figures: figures of the runs as a whole.
        left: documents left by each stage.
        reasons: documents removed, by stage and reason, the largest changes first.
        unknown: what could not be compared.
    """

    names: tuple[str, str]
    settings: tuple[Difference, ...]
    figures: tuple[Difference, ...]
    left: tuple[CountChange, ...]
    reasons: tuple[CountChange, ...]
    unknown: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The largest changes, in a sentence."""
        changed = [change for change in self.reasons if change.more][:_NAMED]
        if not changed:
            return "No stage removed more or fewer documents than in the other run."
        named = [
            f"{change.stage} {change.more:+,}" + (f" ({change.name})" if change.name != change.stage else "")
            for change in changed
        ]
        return f"Documents removed changed most by {', '.join(named)}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {**asdict(self), "headline": self.headline}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first, second = self.names
        yield Text.assemble(("A  ", "bold"), first, "\n", ("B  ", "bold"), second)
        yield Text(self.headline, "bold")
        for title, heads, rows in self.tables():
            if rows:
                yield _drawn(title, heads, rows)
        for message in self.unknown:
            yield Text(f"not compared: {message}", "dim")

    def tables(self) -> Iterator[tuple[str, Sequence[str], list[Sequence[str]]]]:
        """Each table: its title, heads, and rows of text."""
        yield "As a whole", ("", "A", "B"), [(figure.name, figure.first, figure.second) for figure in self.figures]
        heads = ("of", "setting", "A", "B")
        yield (
            "Settings and versions that differ",
            heads,
            [(setting.of, setting.name, setting.first or "–", setting.second or "–") for setting in self.settings],
        )
        yield (
            "Documents left by each stage",
            ("stage", *_SIDES),
            [(change.stage, *_sides(change)) for change in self.left],
        )
        reasons: list[Sequence[str]] = [(change.stage, change.name, *_sides(change)) for change in self.reasons]
        yield "Documents removed", ("stage", "reason", *_SIDES), reasons


def _drawn(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    drawn = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    words = 2 if heads[1] in ("setting", "reason") else 1
    for place, head in enumerate(heads):
        drawn.add_column(head, justify="left" if place < words or "setting" in heads else "right", overflow="fold")
    for row in rows:
        changed = row[-1] not in ("", "0") and heads[-1] != "B"
        drawn.add_row(*map(Text, row), style="" if changed or heads[-1] == "B" else "dim")
    return drawn


_SIDES = ("A", "B", "B − A")


def _sides(change: CountChange) -> tuple[str, str, str]:
    """A change as text, for the columns `_SIDES`."""
    first, second = ("–" if number is None else f"{number:,}" for number in (change.first, change.second))
    return first, second, f"{change.more:+,}" if change.more else "0"


def compare_runs(first: str, second: str, storage_options: Mapping[str, Any] | None = None) -> Comparison:
    """Compare the settings, counts, reasons and speed of two runs.

    Args:
        first: the output directory of one run, or the folder of its records beside it; ``second`` that of the other.
        storage_options: for fsspec.

    Raises:
        DataError: a report is missing or cannot be read.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, JsonlWriter, Pipeline, ScoreFilter
        >>> from dcurate.text import WordCountFilter
        >>> rows = DocumentBatch(data=pd.DataFrame({"id": ["a", "b"], "text": ["one", "two words"]}))
        >>> folder = tempfile.TemporaryDirectory()
        >>> stages = [ScoreFilter(WordCountFilter(min_words=2)), JsonlWriter(folder.name)]
        >>> run = Pipeline("demo", stages=stages).run(InlineExecutor(), initial_tasks=[rows], observers=[])
        >>> compare_runs(folder.name, folder.name).headline
        'No stage removed more or fewer documents than in the other run.'
        >>> folder.cleanup()
    """
    return compare(read_run(first, storage_options), read_run(second, storage_options))


def compare(first: RecordedRun, second: RecordedRun) -> Comparison:
    """Compare two runs."""
    return Comparison(
        names=(first.address or first.report.run, second.address or second.report.run),
        settings=(*_settings(first, second), *_versions(first, second)),
        figures=tuple(_figures(first.report, second.report)),
        left=tuple(_left(first.report, second.report)),
        reasons=tuple(sorted(_reasons(first.report, second.report), key=lambda change: -abs(change.more))),
        unknown=tuple(dict.fromkeys((*_unknown("A", first), *_unknown("B", second)))),
    )


def _unknown(name: str, run: RecordedRun) -> Iterator[str]:
    if not run.about:
        yield f"settings and versions of {name}, of which its report says nothing"


_FIGURES: tuple[tuple[str, Callable[[RunReport], str]], ...] = (
    ("run", lambda run: f"{run.run} ({run.mode})"),
    ("ended with", lambda run: run.error or "no error"),
    ("input", lambda run: run.inputs_digest),
    ("output", lambda run: run.outputs_digest),
    ("documents in", lambda run: f"{_rows_in(run):,}"),
    ("documents out", lambda run: f"{_rows_out(run):,}"),
    ("kept", lambda run: share(_rows_out(run), _rows_in(run))),
    ("bytes in", lambda run: decimal(run.stages[0].bytes_in) if run.stages else ""),
    ("could not be processed", lambda run: f"{sum(sum(stage.faulty.values()) for stage in run.stages):,}"),
    ("workers", lambda run: f"{run.workers:,}"),
    ("time", lambda run: seconds_text(run.seconds)),
    ("in stages' code", lambda run: seconds_text(sum(stage.seconds for stage in run.stages))),
    ("documents a second", lambda run: f"{_rows_in(run) / max(run.seconds, 1e-6):,.0f}"),
    ("MB of input a second", lambda run: f"{_bytes_in(run) / max(run.seconds, 1e-6) / 1e6:,.1f}"),
)


def _rows_in(run: RunReport) -> int:
    return run.stages[0].rows_in if run.stages else 0


def _rows_out(run: RunReport) -> int:
    return run.stages[-1].rows_out if run.stages else 0


def _bytes_in(run: RunReport) -> int:
    return run.stages[0].bytes_in if run.stages else 0


def _figures(first: RunReport, second: RunReport) -> Iterator[Difference]:
    for name, of in _FIGURES:
        first_text, second_text = of(first), of(second)
        if name in ("input", "output") and first_text and second_text:
            second_text = f"{second_text} ({'the same' if first_text == second_text else 'another'})"
        if first_text or second_text:
            yield Difference("run", name, first_text, second_text)


def _settings(first: RecordedRun, second: RecordedRun) -> Iterator[Difference]:
    """Settings of stages that differ, and stages that only one of the runs has."""
    mine, theirs = _stages_of(first), _stages_of(second)
    if not mine or not theirs:
        return
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in mine or name not in theirs:
            yield Difference(name, "stage", "there" if name in mine else "", "there" if name in theirs else "")
            continue
        yield from _differing(name, mine[name], theirs[name])


def _stages_of(run: RecordedRun) -> dict[str, dict[str, Any]]:
    stages = run.about.get("stages", ())
    return {str(stage["name"]): {"class": stage.get("kind", ""), **stage.get("settings", {})} for stage in stages}


def _differing(of: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*mine, *theirs)):
        my_value, their_value = str(mine.get(name, "")), str(theirs.get(name, ""))
        if my_value != their_value:
            yield Difference(of, name, my_value, their_value)


def _versions(first: RecordedRun, second: RecordedRun) -> Iterator[Difference]:
    mine, theirs = first.about.get("versions", {}), second.about.get("versions", {})
    return _differing("version", mine, theirs) if mine and theirs else iter(())


def _left(first: RunReport, second: RunReport) -> Iterator[CountChange]:
    mine, theirs = ({stage.name: stage.rows_out for stage in run.stages} for run in (first, second))
    return (CountChange(name, "left", mine.get(name), theirs.get(name)) for name in dict.fromkeys((*mine, *theirs)))


def _reasons(first: RunReport, second: RunReport) -> Iterator[CountChange]:
    mine, theirs = _taken_out(first.stages), _taken_out(second.stages)
    for stage, reason in dict.fromkeys((*mine, *theirs)):
        yield CountChange(stage, reason, mine.get((stage, reason)), theirs.get((stage, reason)))


def _taken_out(stages: Sequence[StageStats]) -> dict[tuple[str, str], int]:
    removed: dict[tuple[str, str], int] = {}
    for stage in stages:
        for counts in (stage.dropped, stage.faulty):
            for reason, rows in counts.items():
                removed[stage.name, reason] = removed.get((stage.name, reason), 0) + rows
    return removed


def comparison_page(found: Comparison) -> str:
    """Write the comparison as a self-contained HTML page."""
    return render("compare.html", found=found)
