"""The profile of a corpus as values: counts, distributions, documents that filters would drop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram: values above ``low`` and up to ``high``, and of these how many were dropped."""

    low: float
    high: float
    count: int
    dropped: int = 0


@dataclass(frozen=True)
class Distribution:
    """The distribution of a number over documents.

    Attributes:
        name: what it is: ``"words"``, or a filter's name.
        count: documents that have it.
        missing: documents that have none, or no number.
        least, most: exact.
        total: of all documents, exact; None where a sum means nothing.
        whole: whether all values are whole numbers.
        quantiles: by level, from 0 to 1. Each is at least the exact one, and at most 0.5 % above it.
        histogram: bars that lie side by side.
    """

    name: str
    count: int
    missing: int
    least: float | None
    most: float | None
    total: int | None = None
    whole: bool = False
    quantiles: Mapping[float, float] = field(default_factory=dict)
    histogram: tuple[Bar, ...] = ()

    @property
    def mean(self) -> float | None:
        """The arithmetic mean; None where there is no total."""
        return None if self.total is None or not self.count else self.total / self.count


@dataclass(frozen=True)
class Example:
    """A document that a filter drops: its id, its score and how it begins."""

    id: str
    score: str
    excerpt: str


@dataclass(frozen=True)
class ThresholdChoice:
    """Another threshold for a filter.

    Attributes:
        keeps: the rule, such as ``"> 41"`` or ``"<= 0.25"``.
        value: its number.
        dropped: documents that it drops, exactly.
    """

    keeps: str
    value: float
    dropped: int


@dataclass(frozen=True)
class DroppedSide:
    """One side of a filter: documents that score too ``low``, or too ``high``, are dropped.

    Attributes:
        side: ``"low"`` or ``"high"``.
        dropped: documents that the filter drops on that side as it is.
        choices: thresholds that drop at most 1 %, 2 %, 5 % and 10 % of the documents.
        suggested: the threshold to try instead of the filter's own; None where its own is fine.
    """

    side: str
    dropped: int
    choices: tuple[ThresholdChoice, ...]
    suggested: ThresholdChoice | None


@dataclass(frozen=True)
class FilterProfile:
    """The effect of a filter on a corpus.

    Attributes:
        name: of the filter.
        drops: documents that fail it.
        first: documents that fail it and none of the filters before it: what it drops in a chain.
        only: documents that fail it and no other filter: what leaving it out would bring back.
        scores: how its scores are distributed; in the histogram also those of documents that it drops.
        cuts: the sides on which it drops, with other thresholds.
        labels: where scores are no numbers, how often each comes.
        examples: documents that it drops, drawn by their place in the corpus.
    """

    name: str
    drops: int
    first: int
    only: int
    scores: Distribution
    cuts: tuple[DroppedSide, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class Fault:
    """A reason for which rows could not be read, or a stage failed on them.

    Attributes:
        reason: short, such as ``"malformed line"``.
        rows: how many.
        place: where one of them is: file and line, or the source of its batch; empty if that is not known.
        error: what is wrong with that row, or the beginning of its text.
    """

    reason: str
    rows: int
    place: str = field(default="", compare=False)
    error: str = field(default="", compare=False)


@dataclass(frozen=True)
class ProfileSummary:
    """A corpus in numbers.

    Attributes:
        documents: how many there are.
        empty: documents without any text, or with nothing but whitespace.
        nbytes: of their texts, as UTF-8.
        kept: documents that pass all filters.
        duplicates: share of documents whose text came before.
        duplicates_exact: whether that share is exact, or estimated from a sample of the different texts.
        distributions: characters, words, lines, bytes and tokens of documents, by name.
        tokens_estimated: whether tokens are the bytes divided by four, for want of a tokenizer.
        filters: in the order of the chain.
        counts: for each column that was counted, its values by falling count; None where there are too many.
        most_dropped: the share of documents above which another threshold is suggested.
        faulty: rows that could not be read, or on which a stage failed; they are in none of the other figures.
        faults: the reasons for that, the most frequent first.
        source: where the documents came from.
        seconds: that it took.
    """

    documents: int
    empty: int
    nbytes: int
    kept: int
    duplicates: float
    duplicates_exact: bool
    distributions: Mapping[str, Distribution]
    tokens_estimated: bool
    filters: tuple[FilterProfile, ...]
    counts: Mapping[str, Mapping[str, int] | None]
    most_dropped: float
    faulty: int = 0
    faults: tuple[Fault, ...] = ()
    source: str = ""
    seconds: float = 0.0

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return rows of plain values by table, as in `to_pandas` and JSON.

        ``summary`` (one row), ``faults``, ``distributions``, ``filters``, ``thresholds``, ``histograms``, ``examples``
        and ``counts``.
        """
        named = [*self.distributions.values(), *(filter_profile.scores for filter_profile in self.filters)]
        return {
            "summary": [
                {
                    "documents": self.documents,
                    "empty": self.empty,
                    "bytes": self.nbytes,
                    **{
                        name: distribution.total for name, distribution in self.distributions.items() if name != "bytes"
                    },
                    "tokens_estimated": self.tokens_estimated,
                    "duplicates": self.duplicates,
                    "duplicates_exact": self.duplicates_exact,
                    "kept": self.kept,
                    "faulty": self.faulty,
                }
            ],
            "faults": [dict(vars(fault)) for fault in self.faults],
            "distributions": [
                {
                    "name": distribution.name,
                    "count": distribution.count,
                    "missing": distribution.missing,
                    "mean": distribution.mean,
                    "min": distribution.least,
                    **{f"p{100 * level:g}": value for level, value in distribution.quantiles.items()},
                    "max": distribution.most,
                }
                for distribution in named
            ],
            "filters": [
                {
                    "filter": filter_profile.name,
                    "drops": filter_profile.drops,
                    "first": filter_profile.first,
                    "only": filter_profile.only,
                }
                for filter_profile in self.filters
            ],
            "thresholds": [
                {
                    "filter": filter_profile.name,
                    "side": cut.side,
                    "keeps": choice.keeps,
                    "value": choice.value,
                    "dropped": choice.dropped,
                    "suggested": choice == cut.suggested,
                }
                for filter_profile in self.filters
                for cut in filter_profile.cuts
                for choice in cut.choices
            ],
            "histograms": [
                {"name": distribution.name, **vars(bar)} for distribution in named for bar in distribution.histogram
            ],
            "examples": [
                {"filter": filter_profile.name, **vars(example)}
                for filter_profile in self.filters
                for example in filter_profile.examples
            ],
            "counts": [
                {"column": column, "value": value, "documents": number}
                for column, values in self.counts.items()
                for value, number in (values or {}).items()
            ],
        }
