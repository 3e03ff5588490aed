"""Documents of a run and their fates, as values and on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from dcurate.runs.text import many, number_text


@dataclass(frozen=True)
class Document:
    """A document as a person is shown it.

    Attributes:
        id: id of the document; the file and row where it has none.
        place: its file, and the row, counted from 0.
        excerpt: some of its text.
        score: what the filter made of it, where that is known.
        stage: the one that dropped it, and ``reason``; empty for one that was kept.
        scores: further scores that it has columns of.
        keeps: scores that the filter keeps for which it was dropped, in words; empty where that is not known.
        evidence: what its stage notes of the reason, such as a benchmark, its example and the words in common.
    """

    id: str
    place: str
    excerpt: str
    score: Any = None
    stage: str = ""
    reason: str = ""
    scores: dict[str, Any] = field(default_factory=dict)
    keeps: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Inspected(JupyterMixin):
    """The result of `dcurate.inspect`: documents that a stage dropped, and some that it kept.

    Attributes:
        stage: the one that dropped them.
        rows: documents that it dropped in all.
        rows_in: documents that it was given.
        keeps: the scores that it keeps, in words; empty where that is not known.
        dropped, kept: the documents.
        looked: where they were drawn from, in a sentence.
    """

    stage: str
    rows: int
    rows_in: int
    keeps: tuple[str, ...]
    dropped: tuple[Document, ...]
    kept: tuple[Document, ...]
    looked: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rule = f", keeps {' and '.join(self.keeps)}" if self.keeps else ""
        yield Text(f"{self.stage} dropped {self.rows:,} of {many(self.rows_in, 'document')}{rule}", "bold")
        yield Text(self.looked, "dim")
        table = Table(box=box.SIMPLE_HEAD, expand=True, show_lines=True, padding=(0, 1))
        table.add_column("dropped", ratio=1, overflow="fold")
        if self.kept:
            table.add_column("kept by the run, for contrast", ratio=1, overflow="fold")
        for dropped, kept in zip_longest(self.dropped, self.kept):
            table.add_row(*(_cell(document) for document in (dropped, kept)[: 1 + bool(self.kept)]))
        yield table


def _cell(document: Document | None) -> RenderableType:
    if document is None:
        return ""
    head = Text(document.id, "bold")
    if document.score is not None:
        head.append(f"  {score_text(document.score)}", "yellow" if document.stage else "cyan")
    if document.reason and document.reason != document.stage:
        rule = f", which keeps {' and '.join(document.keeps)}" if document.keeps else ""
        head.append(f"  {document.reason}{rule}", "yellow")
    other_scores = {name: value for name, value in document.scores.items() if value != document.score}
    more = ", ".join(f"{name} {score_text(value)}" for name, value in other_scores.items())
    evidence = [Text(f"{name}: {score_text(value)}", "yellow") for name, value in document.evidence.items()]
    return Group(
        head, *([Text(more, "cyan")] if more else []), *evidence, Text(document.excerpt), Text(document.place, "dim")
    )


def score_text(score: Any) -> str:
    """A score in few digits.

    Examples:
        >>> score_text(0.2857142), score_text(31), score_text("en")
        ('0.286', '31', 'en')
    """
    return number_text(score) if isinstance(score, float) else str(score)


@dataclass(frozen=True)
class Fate:
    """The fate of one document.

    Attributes:
        id: id as it was asked for.
        outcome: ``"kept"``, ``"dropped"``, ``"quarantined"``, ``"duplicate"``, ``"removed by request"`` or ``"not
            found"``.
        place: the file and row that hold it now.
        stage: the one that took it out, and ``reason``.
        passed: the stages that it passed before.
        score: what the stage made of it, and ``keeps`` the scores that the stage keeps.
        evidence: what the stage notes of the reason, such as a benchmark, its example and the words in common.
        error: what was raised on it.
        duplicate_of: the id of the document that was kept instead, and ``similarity`` to it.
        excerpt: how its text begins.
        tokens: where its tokens are: shard, first token and one past the last.
        removed: when it was removed by request, and why.
    """

    id: str
    outcome: str
    place: str = ""
    stage: str = ""
    reason: str = ""
    passed: tuple[str, ...] = ()
    score: Any = None
    keeps: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    duplicate_of: str = ""
    similarity: float | None = None
    excerpt: str = ""
    tokens: tuple[str, ...] = ()
    removed: str = ""


@dataclass(frozen=True)
class Traced(JupyterMixin):
    """The result of `dcurate.trace`: the fate of each document, and sentences about where it was searched.

    Attributes:
        fates: of the documents, in the order in which they were asked for.
        looked: the places.
        compared: the columns.
    """

    fates: tuple[Fate, ...]
    looked: tuple[str, ...]
    compared: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for fate in self.fates:
            table = Table.grid(padding=(0, 2))
            for name, value in _lines(fate):
                table.add_row(Text(name, "bold"), Text(value, overflow="fold"))
            yield table
            yield Text()
        if any(fate.outcome == "not found" for fate in self.fates):
            yield Text("looked in: " + "; ".join(self.looked), "dim")
            yield Text(self.compared, "dim")


def _lines(fate: Fate) -> Iterator[tuple[str, str]]:
    reason = f" ({fate.reason})" if fate.reason not in ("", fate.stage) else ""
    by = f" by {fate.stage}{reason}" if fate.stage else ""
    yield fate.id, f"{fate.outcome}{by}"
    if fate.score is not None:
        rule = f", which keeps {' and '.join(fate.keeps)}" if fate.keeps else ""
        yield "score", f"{score_text(fate.score)}{rule}"
    yield from ((name, score_text(value)) for name, value in fate.evidence.items())
    if fate.duplicate_of:
        how = "" if fate.similarity is None else f", similarity {fate.similarity:.3g}"
        yield "copy of", f"{fate.duplicate_of}{how}"
    elif fate.reason == "bloom_duplicate":
        yield "copy of", "an earlier document; a Bloom filter does not know which"
    elif fate.reason.endswith("_duplicate"):
        yield "copy of", f"a document that was not noted; give {fate.stage} the column of ids as id_field="
    passed = f"all {many(len(fate.passed), 'stage')}" if fate.outcome == "kept" else ", ".join(fate.passed)
    for name, value in (
        ("removed", fate.removed),
        ("error", fate.error),
        ("passed", passed if fate.passed else ""),
        ("file", fate.place),
        ("tokens", ", ".join(fate.tokens)),
    ):
        if value:
            yield name, value
    if fate.excerpt:
        yield "begins", fate.excerpt
