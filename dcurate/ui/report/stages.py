"""Documents that each stage of a run passed on or removed, for its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dcurate.core.report import Threshold
from dcurate.events import OTHER_LABELS, StageStats
from dcurate.ui.profile_table import share
from dcurate.ui.report.blocks import ReportData
from dcurate.ui.report.scores import bars_of, goes_by_factors, is_whole, numbers_of
from dcurate.ui.svg import histogram

_MOST_CARDS, _MOST_LABELS = 60, 12


@dataclass(frozen=True)
class Reason:
    """A reason for which a stage removed documents, with examples.

    Attributes:
        anchor: anchor of its examples on the page; ``card`` is that of its scores, empty if there are none.
    """

    stage: str
    reason: str
    rows: int
    quarantined: bool
    examples: Sequence[Mapping[str, Any]]
    anchor: str = ""
    card: str = ""


@dataclass(frozen=True)
class LabelRow:
    """A label of a score, or all others together.

    Attributes:
        name: the label, or how many there are.
        rows: documents with it, in the sample.
        dropped: share of them that the filter dropped.
    """

    name: str
    rows: int
    dropped: float


@dataclass(frozen=True)
class ScoreCard:
    """Scores of a filter: a plot, or the counts of the most frequent ``labels``.

    Attributes:
        stage: stage that computed them, as ``score``.
        rows: documents that they dropped, ``dropped`` their share in words.
        total: number of documents with labels; ``sample`` is a notice if these are not all.
        anchor: on the page; ``examples`` is that of examples of what they dropped, empty if there are none.
    """

    stage: str
    score: str
    title: str
    rows: int
    dropped: str
    thresholds: Sequence[Threshold]
    plot: str
    labels: Sequence[LabelRow]
    total: int
    sample: str = ""
    anchor: str = ""
    examples: str = ""


def most_dropped(stages: Sequence[StageStats]) -> list[tuple[str, str]]:
    """The stages that dropped most documents, each with its share of the input."""
    first = stages[0].rows_in if stages else 0
    ranked = sorted(stages, key=lambda stage: -sum(stage.dropped.values()))[:3]
    return [(stage.name, share(sum(stage.dropped.values()), first)) for stage in ranked if stage.dropped]


def reasons(stages: Sequence[StageStats]) -> list[Reason]:
    """Reasons for which documents were removed, most frequent first."""
    ranked = sorted(_reasons(stages), key=lambda reason: (-reason.rows, reason.stage, reason.reason))
    return [replace(reason, anchor=f"examples-{number}") for number, reason in enumerate(ranked)]


def _reasons(stages: Sequence[StageStats]) -> Iterator[Reason]:
    for stage in stages:
        for quarantined, counts in ((False, stage.dropped), (True, stage.faulty)):
            for reason, rows in counts.items():
                yield Reason(stage.name, reason, rows, quarantined, stage.examples.get(reason, ()))


def score_cards(data: ReportData) -> tuple[list[ScoreCard], int]:
    """The distribution of each filter's scores, those that drop most first, and how many are not shown."""
    scored = [(stage, name, counts) for stage in data.report.stages for name, counts in stage.scores.items() if counts]
    scored.sort(key=lambda score: -_dropped_by(score[0], score[1]))
    cards = [_card(data, *score) for score in scored[:_MOST_CARDS]]
    return [replace(card, anchor=f"score-{number}") for number, card in enumerate(cards)], len(scored) - len(cards)


def linked(
    reasons: Sequence[Reason], cards: Sequence[ScoreCard], suffix: str = ""
) -> tuple[list[Reason], list[ScoreCard]]:
    """Link reasons with the scores that dropped for them, and these with the examples of what they dropped.

    Args:
        suffix: end of the anchors, by which those of several runs differ on one page.
    """
    reasons = [replace(reason, anchor=f"{reason.anchor}{suffix}") for reason in reasons]
    cards = [replace(card, anchor=f"{card.anchor}{suffix}") for card in cards]
    scores = {(card.stage, card.score): card.anchor for card in cards}
    only = {stage: anchor for (stage, _), anchor in scores.items() if sum(card.stage == stage for card in cards) == 1}
    seen = [
        reason
        if reason.quarantined
        else replace(reason, card=scores.get((reason.stage, reason.reason)) or only.get(reason.stage, ""))
        for reason in reasons
    ]
    examples = {reason.card: reason.anchor for reason in reversed(seen) if reason.card and reason.examples}
    return seen, [replace(card, examples=examples.get(card.anchor, "")) for card in cards]


def _dropped_by(stage: StageStats, score: str) -> int:
    return sum(stage.dropped.values()) if len(stage.scores) == 1 else stage.dropped.get(score, 0)


def _card(data: ReportData, stage: StageStats, name: str, counts: Mapping[str, int]) -> ScoreCard:
    cuts = data.thresholds(stage.name, name)
    numbers = numbers_of(counts)
    dropped = _dropped_by(stage, name)
    total = sum(counts.values())
    judged = stage.rows_in if len(stage.scores) == 1 else 0
    gone = stage.dropped_labels.get(name, {})
    labels = [] if numbers is not None else _labels(counts, gone, judged, dropped)
    return ScoreCard(
        stage=stage.name,
        score=name,
        rows=dropped,
        title=name if name == stage.name else f"{stage.name}: {name}",
        dropped=f"drops {share(dropped, stage.rows_in) or '0 %'}" if dropped or cuts else "",
        thresholds=cuts,
        plot="" if numbers is None else _drawn(numbers, cuts),
        labels=labels,
        total=judged or total,
        sample="estimated from a sample" if judged not in (0, total) else "",
    )


def _drawn(numbers: Mapping[float, int], cuts: Sequence[Threshold]) -> str:
    marks = [(cut.value, cut.keeps) for cut in cuts]
    return histogram(bars_of(numbers, cuts), marks, whole=is_whole(numbers), across=goes_by_factors(numbers))


def _labels(counts: Mapping[str, int], gone: Mapping[str, int], rows: int, dropped: int) -> list[LabelRow]:
    """Return the most frequent labels, and the others in one row.

    Counts of a sample are scaled so that kept and dropped rows are as many as there were.

    Args:
        counts: rows by label.
        gone: those of them that were dropped.
        rows: documents that were judged, or 0 if that is not known.
        dropped: documents that were dropped.

    Examples:
        >>> for row in _labels({"en": 6, "la": 2}, {"la": 2}, 80, 30):
        ...     print(row)
        LabelRow(name='en', rows=50, dropped=0.0)
        LabelRow(name='la', rows=30, dropped=1.0)
    """
    taken = sum(gone.values())
    kept = sum(counts.values()) - taken
    dropped_scale = dropped / taken if rows and taken else 1.0
    kept_scale = (rows - dropped) / kept if rows and kept else 1.0

    def row(name: str, labels: Sequence[str]) -> LabelRow:
        lost = dropped_scale * sum(gone.get(label, 0) for label in labels)
        stay = kept_scale * sum(counts[label] - gone.get(label, 0) for label in labels)
        return LabelRow(name, round(stay + lost), lost / (stay + lost) if lost else 0.0)

    named = sorted((label for label in counts if label != OTHER_LABELS), key=lambda label: (-counts[label], label))
    label_rows = [row(label, [label]) for label in named[:_MOST_LABELS]]
    remaining = [*named[_MOST_LABELS:], *([OTHER_LABELS] if OTHER_LABELS in counts else [])]
    if remaining:
        more = "more than " if OTHER_LABELS in remaining else ""
        label_rows.append(row(f"{more}{len(remaining) - bool(more):,} others", remaining))
    if rows and dropped and not taken:
        label_rows.append(LabelRow("not in the sample", dropped, 1.0))
    return label_rows
