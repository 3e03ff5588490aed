"""Statistics of the documents of a corpus, and the effect of filters: counted by batch, and summed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import Batch, BatchKey
from dcurate.core.stage import Spec
from dcurate.errors import DataError
from dcurate.frames.columns import values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.hashes import content_hashes
from dcurate.frames.text import text_column
from dcurate.text.filter import DocumentFilter, by_signals
from dcurate.text.filter_run import Column, FilterRun
from dcurate.text.number_filter import column_of_rule
from dcurate.text.rules import Rule, RuleStage, needs_of
from dcurate.text.signals import Signals
from dcurate.text.sketch import NumberSketch, TextSketch

#: A column with more different values than this is not counted.
MOST_VALUES = 10_000
#: Characters of a document that an example shows.
EXCERPT = 240
#: Columns that are counted where they are there and nothing else is asked for.
USUAL_COLUMNS = ("language", "lang", "source", "domain")
#: Bytes that make a token, where there is no tokenizer to ask.
BYTES_A_TOKEN = 4

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(order=True)
class DroppedExample:
    """A document that a filter drops; those with the smallest order hashes are shown."""

    order: int
    id: str
    score: str
    excerpt: str


@dataclass
class FilterCounts:
    """Effect of a filter on documents."""

    drops: int = 0
    first: int = 0
    only: int = 0
    kept_scores: NumberSketch = field(default_factory=NumberSketch)
    dropped_scores: NumberSketch = field(default_factory=NumberSketch)
    labels: Counter[str] = field(default_factory=Counter)
    samples: list[DroppedExample] = field(default_factory=list)

    def merge(self, other: FilterCounts, samples: int) -> None:
        """Add another's counts."""
        self.drops += other.drops
        self.first += other.first
        self.only += other.only
        self.kept_scores.merge(other.kept_scores)
        self.dropped_scores.merge(other.dropped_scores)
        self.labels.update(other.labels)
        self.samples = heapq.nsmallest(samples, [*self.samples, *other.samples])


@dataclass
class DocumentCounts:
    """All counts of documents. Summing in any order gives the same."""

    documents: int = 0
    empty: int = 0
    null: int = 0
    kept: int = 0
    lengths: dict[str, NumberSketch] = field(default_factory=dict)
    texts: TextSketch = field(default_factory=TextSketch)
    filters: list[FilterCounts] = field(default_factory=list)
    columns: dict[str, Counter[str] | None] = field(default_factory=dict)

    def merge(self, other: DocumentCounts, samples: int) -> None:
        """Add another's counts."""
        self.documents += other.documents
        self.empty += other.empty
        self.null += other.null
        self.kept += other.kept
        self.texts.merge(other.texts)
        for name, sketch in other.lengths.items():
            self.lengths.setdefault(name, NumberSketch()).merge(sketch)
        self.filters = self.filters or [FilterCounts() for _ in other.filters]
        for mine, theirs in zip(self.filters, other.filters, strict=True):
            mine.merge(theirs, samples)
        for name, counts in other.columns.items():
            self.columns[name] = _added(self.columns.get(name, Counter()), counts)


def _added(first: Counter[str] | None, second: Counter[str] | None) -> Counter[str] | None:
    """Both together; None once there are too many values."""
    if first is None or second is None:
        return None
    both = first + second
    return both if len(both) <= MOST_VALUES else None


@dataclass(kw_only=True)
class CountsBatch(Batch):
    """Counts of a batch of documents."""

    counts: DocumentCounts = field(default_factory=DocumentCounts)

    @property
    def num_items(self) -> int:
        return 1

    @property
    def nbytes(self) -> int:
        ranges = sum(
            len(filter_counts.kept_scores.ranges) + len(filter_counts.dropped_scores.ranges)
            for filter_counts in self.counts.filters
        )
        return 1024 + 100 * (ranges + len(self.counts.texts.counts))

    def get_columns(self) -> list[str]:
        return []


@dataclass
class ProfileDocuments(RuleStage[CountsBatch]):
    """Count the properties of the documents of each batch; every filter scores every document.

    Args:
        text_field: the column with the text; a null text counts as empty, and repeats nothing.
        id_field: the column with ids, for examples; split and row are shown if None.
        filters: in the order in which they would drop.
        columns: columns whose values are counted; if None, those of `USUAL_COLUMNS` that exist.
        tokens: gives the number of tokens of a text: a filter such as `TokenCountFilter`, or a function.
        samples: maximum number of example documents that a filter drops.
    """

    text_field: str = "text"
    id_field: str | None = None
    filters: list[DocumentFilter] = field(default_factory=list)
    columns: list[str] | None = None
    tokens: Rule | None = None
    samples: int = 3
    name: str = "profile_documents"

    @property
    def _rules(self) -> list[Rule]:
        return [*self.filters, *([] if self.tokens is None else [self.tokens])]

    def inputs(self) -> Spec:
        rule_columns = [column_of_rule(rule, self.text_field) for rule in self._rules]
        wanted = [
            self.text_field,
            *rule_columns,
            *([] if self.id_field is None else [self.id_field]),
            *(self.columns or ()),
        ]
        return ["data"], list(dict.fromkeys(wanted))

    def process(self, task: DocumentBatch) -> CountsBatch:
        counts = DocumentCounts(documents=task.num_items)
        signals = Signals(text_column(task.to_arrow(), self.text_field), needs_of(self._rules))
        run = FilterRun(task, needs_of(self._rules))
        self._count_lengths(counts, signals, run)
        hashes, rows = content_hashes(task.to_arrow(), self.text_field)
        counts.texts.add(hashes[:, 0])
        counts.null = task.num_items - len(rows)
        self._count_filters(counts, run, _ExampleRows(task, signals, self.id_field))
        for name in self._counted(task):
            value_counts = Counter(map(str, values(task.to_arrow(), name)))
            counts.columns[name] = _added(Counter(), value_counts)
        return CountsBatch(counts=counts)

    def _counted(self, task: DocumentBatch) -> Sequence[str]:
        if self.columns is not None:
            return self.columns
        return [name for name in USUAL_COLUMNS if name in task.get_columns()]

    def _count_lengths(self, counts: DocumentCounts, signals: Signals, run: FilterRun) -> None:
        nbytes = np.diff(signals.column.offsets)
        words = signals.words.total
        lengths = {
            "characters": signals.characters.total,
            "words": words,
            "lines": signals.lines.total,
            "bytes": nbytes,
            "tokens": -(-nbytes // BYTES_A_TOKEN) if self.tokens is None else self._tokens(signals, run),
        }
        counts.empty = int((words == 0).sum())
        for name, numbers in lengths.items():
            counts.lengths[name] = NumberSketch()
            counts.lengths[name].add(numbers)

    def _scores(self, rule: Rule, signals: Signals, run: FilterRun) -> Column:
        return rule.score(signals) if by_signals(rule) else run.scores(rule, self.text_field)

    def _tokens(self, signals: Signals, run: FilterRun) -> npt.NDArray[np.int64]:
        assert self.tokens is not None
        scores = np.asarray(self._scores(self.tokens, signals, run))
        if len(scores) and not np.issubdtype(scores.dtype, np.integer):
            raise DataError(f"tokens= returned {scores[0]!r} for a text; it must return the number of its tokens")
        return scores.astype(np.int64)

    def _count_filters(self, counts: DocumentCounts, run: FilterRun, rows: _ExampleRows) -> None:
        scored = [self._scores(rule, rows.signals, run) for rule in self.filters]
        fails = np.zeros((len(self.filters), counts.documents), np.bool_)
        for place, (rule, scores) in enumerate(zip(self.filters, scored, strict=True)):
            fails[place] = ~run.kept(rule, scores)
        failed = fails.sum(axis=0)
        before: npt.NDArray[np.int64] = np.cumsum(fails, axis=0) - fails
        counts.kept = int((failed == 0).sum())
        for scores, fail, earlier in zip(scored, fails, before, strict=True):
            filter_counts = FilterCounts(
                int(fail.sum()), int((fail & (earlier == 0)).sum()), int((fail & (failed == 1)).sum())
            )
            numbers = _as_numbers(scores)
            if numbers is None:
                filter_counts.labels.update(map(str, scores))
            else:
                filter_counts.kept_scores.add(numbers[~fail])
                filter_counts.dropped_scores.add(numbers[fail])
            filter_counts.samples = rows.samples(fail, scores, self.samples)
            counts.filters.append(filter_counts)


def _as_numbers(scores: Column) -> npt.NDArray[Any] | None:
    """Scores as numbers; None if they are something else."""
    if not len(scores):
        return np.zeros(0, np.int64)
    array = np.asarray(scores)
    return array if array.ndim == 1 and array.dtype.kind in "biuf" else None


@dataclass
class _ExampleRows:
    """The documents of a batch as shown in examples."""

    task: DocumentBatch
    signals: Signals
    id_field: str | None

    def __post_init__(self) -> None:
        key = self.task.key or BatchKey("batch")
        self.source = str(key)
        # SplitMix64 of the row numbers: as good as random, and the same in every run.
        mixed = np.arange(self.task.num_items, dtype=np.uint64) + np.uint64(int(key.digest, 16))
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        self.order = mixed ^ (mixed >> np.uint64(31))

    def samples(self, chosen: Mask, scores: Column, most: int) -> list[DroppedExample]:
        """Sample documents where the mask is true."""
        rows = np.flatnonzero(chosen)
        first = rows[np.argsort(self.order[rows], kind="stable")[:most]]
        return [
            DroppedExample(int(self.order[row]), self._id(row), _json_value(scores[row]), self._excerpt(row))
            for row in first
        ]

    def _id(self, row: int) -> str:
        if self.id_field is None:
            return f"{self.source}:{row}"
        return str(values(self.task.to_arrow().slice(row, 1), self.id_field)[0])

    def _excerpt(self, row: int) -> str:
        offsets, data = self.signals.column
        start, stop = int(offsets[row]), int(offsets[row + 1])
        text = data[start : min(stop, start + 4 * EXCERPT)].tobytes().decode(errors="replace")
        excerpt = " ".join(text.split())
        return excerpt if len(excerpt) <= EXCERPT and stop - start <= 4 * EXCERPT else f"{excerpt[: EXCERPT - 1]}…"


def _json_value(score: Any) -> str:
    return f"{score:.4g}" if isinstance(score, float | np.floating) else str(score)
