"""Profile a corpus in one call."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import orjson
from rich.console import Console, ConsoleOptions, RenderResult

from dcurate.core.pipeline import PipelineDefinition
from dcurate.core.profile import Fault, ProfileSummary
from dcurate.core.stage import CompositeStage, SinkStage, SourceStage, Stage
from dcurate.errors import PipelineError, listed
from dcurate.events import Event, Observer, TaskDone
from dcurate.frames.convert import from_rows
from dcurate.io.document_reader import DocumentReader
from dcurate.io.files import as_list
from dcurate.io.source import FileReader
from dcurate.recipe import Recipe, load_recipe
from dcurate.run import Executor, Pipeline, observers_of
from dcurate.text.filter import DocumentFilter
from dcurate.text.profile import CountsBatch, DocumentCounts, ProfileDocuments
from dcurate.text.profile_summary import summary_of
from dcurate.text.rules import Rule
from dcurate.text.score import ScoreFilter
from dcurate.ui.profile_page import in_notebook, write_page
from dcurate.ui.profile_table import profile_table

AnyStage = Stage


@dataclass(frozen=True)
class CorpusProfile(ProfileSummary):
    r"""The result of `profile`: a corpus in numbers, as frames, as a page with plots, and on a terminal.

    Printing it on a rich console, or ``print(profile)``, shows the most important of it; a notebook shows the page.

    Examples:
        >>> import tempfile
        >>> from dcurate import InlineExecutor, profile
        >>> from dcurate.text import WordCountFilter
        >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        ...     _ = file.write('{"text": "two words"}\n{"text": "one"}\n')
        ...     file.flush()
        ...     found = profile(file.name, filters=[WordCountFilter(min_words=2)], executor=InlineExecutor())
        >>> found.documents, found.kept
        (2, 1)
    """

    @classmethod
    def of(cls, summary: ProfileSummary) -> Self:
        """The profile with these values."""
        return cls(**{field.name: getattr(summary, field.name) for field in fields(summary)})

    def to_pandas(self, table: str = "filters") -> Any:
        """One of the tables of `ProfileSummary.tables` as a pandas frame.

        Raises:
            PipelineError: the table does not exist.
        """
        tables = self.tables()
        if table not in tables:
            raise PipelineError(f"a profile has no table {table!r}; there are {listed(tables)}")
        return from_rows(tables[table])

    def to_json(self, path: str | Path) -> None:
        """Write all tables into one JSON file."""
        Path(path).write_bytes(orjson.dumps(self.tables(), option=orjson.OPT_INDENT_2))

    def to_html(self, path: str | Path) -> None:
        """Write a page with plots: one file that needs nothing else, no network either."""
        write_page(self, Path(path))

    def _repr_html_(self) -> str:
        """The page, in a frame of a notebook."""
        return in_notebook(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield profile_table(self)

    def __str__(self) -> str:
        console = Console(width=110, color_system=None, force_jupyter=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


def profile(
    source: str | Sequence[str] | SourceStage[Any, Any] | PipelineDefinition,
    *,
    text_field: str = "text",
    id_field: str | None = None,
    filters: str | Sequence[DocumentFilter] = "nemo-english",
    columns: Sequence[str] | None = None,
    tokens: Rule | None = None,
    most_dropped: float = 0.05,
    samples: int = 3,
    executor: Executor | None = None,
    observers: Sequence[Observer] | None = None,
    trust: bool = False,
    schema: Mapping[str, Any] | None = None,
) -> CorpusProfile:
    """Profile a corpus, and measure what filters would drop of it, in one pass that writes nothing.

    Every filter scores every document, also one that an earlier filter would drop. Counts are exact, and the same for
    any number of workers; quantiles are exact or at most 0.5 % too large.

    Args:
        source: files, directories or globs of JSONL (lines that cannot be read are counted, and left out) or Parquet;
            a reader; or a pipeline without a writer, of which the output is looked at. Put a stage that finds
            languages into it, say, to have them counted.
        text_field: the column with the text.
        id_field: the column with ids, for examples; split and row are shown if None.
        filters: filters in the order in which they would drop, or the name of a recipe whose filters are taken.
        columns: those whose values are counted; if None, those of ``language``, ``lang``, ``source`` and ``domain``
            that there are.
        tokens: counts the tokens of a text: a filter such as `TokenCountFilter`, or a function from text to a number;
            a quarter of the bytes if None.
        most_dropped: a filter that drops a larger share of the documents on one side is shown with a threshold that
            drops at most that share.
        samples: the number of examples of documents that each filter drops.
        executor: where and how; a `DaskExecutor` on this machine if None.
        observers: receive the events of the run, such as `dcurate.ui.Progress`.
        trust: whether the recipe of ``filters`` may run any code, as in `dcurate.recipe.load_recipe`.
        schema: types of columns by name where files differ, such as ``{"id": "string"}``; not for a reader or pipeline.

    Raises:
        PipelineError: a source or filters that are none.
        DataError: input that cannot be read.

    Examples:
        >>> from dcurate import InlineExecutor
        >>> from dcurate.text import WordCountFilter
        >>> from dcurate.recipe import BUNDLED
        >>> sample = str(BUNDLED / "sample")
        >>> found = profile(sample, filters=[WordCountFilter(min_words=100)], executor=InlineExecutor())
        >>> found.documents == found.distributions["words"].count
        True
        >>> found.to_pandas("filters").columns.tolist()
        ['filter', 'drops', 'first', 'only']
    """
    if not 0 < most_dropped < 1:
        raise PipelineError(f"most_dropped={most_dropped!r} is a share of the documents; it must lie between 0 and 1")
    rules = _filters_of(filters, trust)
    named = None if columns is None else list(columns)
    stage = ProfileDocuments(text_field, id_field, rules, named, tokens, samples)
    stages, name = _stages_of(source, schema)
    begin = time.perf_counter()
    counts, faults = DocumentCounts(), _Faults()
    for batch in Pipeline("profile", stages=[*stages, stage]).stream(
        executor, observers=[*observers_of(observers), faults]
    ):
        assert isinstance(batch, CountsBatch)
        counts.merge(batch.counts, samples)
    summary = summary_of(counts, rules, most_dropped, tokens is None)
    seconds = time.perf_counter() - begin
    return CorpusProfile.of(replace(summary, source=name, faulty=faults.rows, faults=faults.ranked(), seconds=seconds))


@dataclass
class _Faults:
    """Counts rows that could not be processed, by reason, and keeps an example of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)

    def on_event(self, event: Event) -> None:
        """Handle an event."""
        if not isinstance(event, TaskDone):
            return
        for stats in event.stats:
            self.counts.update(stats.faulty)
            for reason in stats.faulty.keys() & stats.examples.keys():
                shown = ((str(row.get("source", "")), str(row.get("excerpt", ""))) for row in stats.examples[reason])
                self.examples[reason] = min((*shown, *filter(None, [self.examples.get(reason)])), key=_natural)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.counts.total()

    def ranked(self) -> tuple[Fault, ...]:
        """The reasons, the most frequent first."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(Fault(reason, rows, *self.examples.get(reason, ("", ""))) for reason, rows in ranked)


def _natural(example: tuple[str, str]) -> tuple[Any, ...]:
    """A key by which line 10 comes after line 9."""
    place, error = example
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split("([0-9]+)", place)), error


def _stages_of(source: Any, schema: Mapping[str, Any] | None) -> tuple[list[AnyStage], str]:
    """Return the stages that read documents, and their name."""
    if schema is not None and isinstance(source, PipelineDefinition | Stage):
        raise PipelineError(f"profile: schema={schema!r} has no effect on {source.name!r}; give it to its reader")
    if isinstance(source, PipelineDefinition):
        if source.stages and isinstance(source.stages[-1], SinkStage):
            raise PipelineError(f"pipeline {source.name!r} ends with a writer; leave it out, as nothing is written")
        return list(source.stages), source.name
    if isinstance(source, Stage):
        return [source], ", ".join(as_list(source.file_paths)) if isinstance(source, FileReader) else source.name
    paths = as_list([str(source)] if isinstance(source, str | Path) else list(source))
    return [DocumentReader(paths, schema=schema, on_bad_line="quarantine")], ", ".join(paths)


def _filters_of(filters: Any, trust: bool) -> list[DocumentFilter]:
    """The filters, or those of a recipe."""
    if isinstance(filters, str):
        return [rule for stage in _recipe(filters, trust).pipeline.stages for rule in _rules_of(stage)]
    rules = [filters] if isinstance(filters, DocumentFilter) else list(filters)
    for rule in rules:
        if not isinstance(rule, DocumentFilter):
            raise PipelineError(f"{rule!r} is not a filter; give filters such as WordCountFilter(), or a recipe's name")
    return rules


def _recipe(name: str, trust: bool) -> Recipe:
    """A recipe for the sake of its filters: where it asks for its input, any will do."""
    try:
        return load_recipe(name, trust=trust)
    except PipelineError as error:
        if "param 'input' has no default" not in str(error):
            raise
        return load_recipe(name, {"input": "-"}, trust=trust)


def _rules_of(stage: AnyStage) -> list[DocumentFilter]:
    if isinstance(stage, CompositeStage):
        return [rule for inner in stage.decompose() for rule in _rules_of(inner)]
    return stage.filters if isinstance(stage, ScoreFilter) else []


__all__ = ["CorpusProfile", "profile"]
