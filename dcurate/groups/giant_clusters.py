"""Detect groups too large to be duplicates, a sign of a wrong threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.kernels.layout import Ints

#: Groups of fewer documents are never reported.
LEAST_DOCUMENTS = 100
#: Nor are those that hold no more than this of a source.
MOST_SHARE = 0.01

#: The source number of counts over all sources.
WHOLE = -1


class LargeGroups(NamedTuple):
    """Groups with many documents, and how many of them: over all sources (`WHOLE`), or of one source."""

    group: Ints
    source: Ints
    documents: Ints


@dataclass(frozen=True)
class GiantCluster:
    """A group of near-duplicates that holds too much of a dataset.

    Args:
        group_id: the number of its first document.
        documents: how many of the source are in it.
        share: share of the documents of the source.
        source: None for the whole dataset.
        sample_text: what its documents say, as far as it is known.

    Examples:
        >>> print(GiantCluster(17, 5000, 0.125, "news", "Enable JavaScript to read on"))
        group 17 holds 5,000 documents, 12.5 % of source 'news'; are these duplicates? 'Enable JavaScript to read on'
    """

    group_id: int
    documents: int
    share: float
    source: str | None = None
    sample_text: str | None = None

    def __str__(self) -> str:
        population = "all" if self.source is None else f"source {self.source!r}"
        text = "" if self.sample_text is None else f" {self.sample_text!r}"
        return (
            f"group {self.group_id} holds {self.documents:,} documents, {100 * self.share:.3g} % of {population}; "
            f"are these duplicates?{text}"
        )


def large_groups(
    groups: Ints, sources: npt.NDArray[np.integer] | None = None, least: int = LEAST_DOCUMENTS
) -> LargeGroups:
    """Count groups of at least `least` documents, over all sources and in each.

    Args:
        groups: the group of each document; all of a group must come in one call.
        sources: the number of the source of each, from 0 on; below 0 where it is not known.
        least: how many.

    Examples:
        >>> groups = large_groups(np.array([7, 7, 7, 9]), np.array([0, 2, 2, 0]), least=2)
        >>> list(zip(*map(np.ndarray.tolist, groups)))
        [(7, -1, 3), (7, 2, 2)]
    """
    known, sizes = np.unique(groups, return_counts=True)
    large = known[sizes >= least]
    overall = LargeGroups(large, np.full(len(large), WHOLE), sizes[sizes >= least])
    if sources is None or not len(large):
        return overall
    inside = np.isin(groups, large) & (sources >= 0)
    pairs, counts = np.unique(np.stack([groups[inside], sources[inside]]), axis=1, return_counts=True)
    enough = counts >= least
    by_source = LargeGroups(pairs[0][enough], pairs[1][enough], counts[enough])
    return LargeGroups(*(np.concatenate(columns) for columns in zip(overall, by_source, strict=True)))


def giant_clusters_of(
    found: Iterable[LargeGroups], documents: int, sources: Mapping[str, int] | None = None, share: float = MOST_SHARE
) -> list[GiantCluster]:
    """Return the groups with more than a share of all documents, or of those of a source; the largest share first.

    Args:
        found: what `large_groups` gave, call by call.
        documents: how many the dataset has.
        sources: how many each source has, in the order of their numbers.
        share: what is too much.

    Examples:
        >>> groups = large_groups(np.repeat([7, 9], [300, 120]), np.repeat([0, 1], [300, 120]))
        >>> for giant in giant_clusters_of([groups], 20_000, {"books": 18_000, "news": 2_000}):
        ...     print(giant.group_id, giant.source, giant.share)
        9 news 0.06
        7 books 0.016666666666666666
        7 None 0.015
    """
    names = list(sources or {})
    totals = {WHOLE: documents, **dict(enumerate((sources or {}).values()))}
    giants = [
        GiantCluster(group, count, count / totals[source], None if source == WHOLE else names[source])
        for groups in found
        for group, source, count in zip(*(column.tolist() for column in groups), strict=True)
        if count > share * totals[source]
    ]
    return sorted(giants, key=lambda giant: (-giant.share, giant.group_id, giant.source or ""))
