"""Summarise the counts of documents for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcurate.core.profile import Distribution, DroppedSide, Example, FilterProfile, ProfileSummary, ThresholdChoice
from dcurate.text.filter import DocumentFilter
from dcurate.text.profile import DocumentCounts, FilterCounts
from dcurate.text.sketch import NumberSketch, histogram

#: Levels of the quantiles that are reported.
LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
#: Shares of the documents for which thresholds are reported.
DROPS = (0.01, 0.02, 0.05, 0.1)
#: Scores, besides those of the corpus, at which a filter is probed for the side it drops.
_PROBES = (-1e12, 0.0, 1.0, 1e12)


def summary_of(
    counts: DocumentCounts, filters: Sequence[DocumentFilter], most_dropped: float, tokens_estimated: bool
) -> ProfileSummary:
    """A corpus in numbers.

    Args:
        counts: counts of all documents of the corpus.
        filters: the filters that scored them, in order.
        most_dropped: the share of documents above which another threshold is suggested.
        tokens_estimated: whether tokens were estimated from bytes.
    """
    names = _unique([rule.name for rule in filters])
    lengths = {name: _distribution(name, sketch, totals=True) for name, sketch in counts.lengths.items()}
    profiles = tuple(
        _filter_profile(name, rule, filter_counts, counts.documents, most_dropped)
        for name, rule, filter_counts in zip(
            names, filters, counts.filters or [FilterCounts() for _ in filters], strict=True
        )
    )
    return ProfileSummary(
        documents=counts.documents,
        empty=counts.empty,
        nbytes=lengths["bytes"].total or 0 if lengths else 0,
        kept=counts.kept,
        duplicates=counts.texts.repeated * (1 - counts.null / max(1, counts.documents)),
        duplicates_exact=counts.texts.exact,
        distributions=lengths,
        tokens_estimated=tokens_estimated,
        filters=profiles,
        counts={name: _ranked(values) for name, values in counts.columns.items()},
        most_dropped=most_dropped,
    )


def _distribution(
    name: str, sketch: NumberSketch, dropped: NumberSketch | None = None, *, totals: bool = False
) -> Distribution:
    combined = _together(sketch, dropped)
    some = combined.count > 0
    return Distribution(
        name=name,
        count=combined.count,
        missing=combined.missing,
        least=combined.least if some else None,
        most=combined.most if some else None,
        total=combined.total if totals else None,
        whole=combined.whole,
        quantiles={level: combined.quantile(level) for level in LEVELS} if some else {},
        histogram=histogram(sketch, dropped),
    )


def _filter_profile(
    name: str, rule: DocumentFilter, counts: FilterCounts, documents: int, most_dropped: float
) -> FilterProfile:
    return FilterProfile(
        name=name,
        drops=counts.drops,
        first=counts.first,
        only=counts.only,
        scores=_distribution(name, counts.kept_scores, counts.dropped_scores),
        cuts=_cuts(rule, counts, documents, most_dropped),
        labels=dict(counts.labels.most_common(20)),
        examples=tuple(Example(sample.id, sample.score, sample.excerpt) for sample in counts.samples),
    )


def _cuts(rule: DocumentFilter, counts: FilterCounts, documents: int, most_dropped: float) -> tuple[DroppedSide, ...]:
    """The sides on which a filter drops, with the thresholds that drop at most given shares of documents."""
    combined = _together(counts.kept_scores, counts.dropped_scores)
    ends, upto = combined.ends(), combined.upto()
    if len(ends) < 3:
        return ()
    probes = np.unique(np.concatenate([ends, _PROBES]))
    kept = np.array([rule.keep_document(float(probe)) for probe in probes], np.bool_)
    if not kept.any():
        return ()
    first, last = int(np.argmax(kept)), len(kept) - 1 - int(np.argmax(kept[::-1]))
    sides = [side for side, drops in (("low", first > 0), ("high", last < len(kept) - 1)) if drops]
    dropped = _dropped_by_side(counts, float(probes[first]), float(probes[last]), sides)
    cuts = []
    for side in sides:
        choices = {share: _choice(side, share, ends, upto, combined.whole) for share in (*DROPS, most_dropped)}
        suggested = choices[most_dropped] if dropped[side] > most_dropped * documents else None
        distinct = sorted(
            {choice for choice in choices.values() if choice is not None}, key=lambda choice: choice.dropped
        )
        cuts.append(DroppedSide(side, dropped[side], tuple(distinct), suggested))
    return tuple(cuts)


def _dropped_by_side(counts: FilterCounts, lowest: float, highest: float, sides: Sequence[str]) -> dict[str, int]:
    """Number of documents a filter drops on each side of its range."""
    if len(sides) == 1:
        return {sides[0]: counts.drops}
    ends = counts.dropped_scores.ends()
    numbers = np.diff(counts.dropped_scores.upto(), prepend=0)
    low = ends <= (lowest + highest) / 2 if np.isfinite(highest) else ends <= lowest
    return {"low": int(numbers[low].sum()), "high": int(numbers[~low].sum())}


def _choice(
    side: str, share: float, ends: npt.NDArray[np.float64], upto: npt.NDArray[np.int64], integral: bool
) -> ThresholdChoice | None:
    """The strictest threshold that drops at most a share of the numbers; None if every one drops more."""
    total = int(upto[-1])
    if side == "low":
        below = int(np.searchsorted(upto, share * total, "right")) - 1
        if below < 0:
            return None
        edge = float(ends[below])
        return ThresholdChoice(f">= {edge + 1:.0f}" if integral else f"> {edge:.4g}", edge + integral, int(upto[below]))
    place = int(np.searchsorted(upto, total - share * total))
    edge = float(ends[place])
    return ThresholdChoice(f"<= {edge:.0f}" if integral else f"<= {edge:.4g}", edge, total - int(upto[place]))


def _together(first: NumberSketch, second: NumberSketch | None) -> NumberSketch:
    both = NumberSketch()
    both.merge(first)
    if second is not None:
        both.merge(second)
    return both


def _ranked(values: Counter[str] | None) -> dict[str, int] | None:
    return None if values is None else dict(sorted(values.items(), key=lambda item: (-item[1], item[0])))


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number appended to repeated ones.

    Examples:
        >>> _unique(["a", "b", "a"])
        ['a', 'b', 'a_2']
    """
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return unique
