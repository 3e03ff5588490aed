"""Compare candidates of `FuzzyDuplicates` by the shingles of their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.dedup.minhash import estimated, jaccard
from dcurate.dedup.near import Search
from dcurate.frames.columns import lists_of, numbers, with_column, with_lists
from dcurate.frames.text import TextColumn, text_column
from dcurate.groups.verify import Comparison, Ints, NearDuplicates
from dcurate.kernels.cuda import CudaColumn
from dcurate.kernels.sets import Sets

REASON = "fuzzy_duplicate"

_SHINGLES, _WHOLE = "shingles", "whole"


@dataclass(frozen=True, kw_only=True)
class NearTexts(NearDuplicates):
    """The settings of `FuzzyDuplicates`."""

    reason: ClassVar[str] = REASON

    search: Search

    @property
    def compared(self) -> list[str]:
        return [self.text_field]

    @property
    def threshold(self) -> float:
        return self.search.threshold if self.search.verification != "none" else 0

    def with_features(self, made: Any, table: Any) -> Any:
        return with_shingles(made, text_column(table, self.text_field), self.search)

    def comparison(self, table: Any, order: Ints) -> Comparison:
        return CandidateSimilarity.of(table, self.search, order)


def with_shingles(made: Any, texts: TextColumn | CudaColumn, search: Search) -> Any:
    """Add the features of the texts: sets of shingles, or signatures."""
    if search.verification != "exact":
        signatures = search.minhash.signatures(texts)
        bounds = np.arange(len(signatures) + 1) * signatures.shape[1]
        return with_lists(made, _SHINGLES, bounds, signatures.ravel())
    sets = search.minhash.sets(texts, np.arange(made.num_rows))
    return with_column(with_lists(made, _SHINGLES, sets.bounds, sets.values), _WHOLE, sets.whole)


@dataclass(frozen=True)
class CandidateSimilarity:
    """The similarity of candidates by their gathered features.

    Args:
        gathered: their sets of shingles, or their signatures, of shape (candidates, hashes).
        order: the place of each candidate among the gathered rows.
    """

    gathered: Sets | npt.NDArray[np.uint32]
    order: Ints

    @classmethod
    def of(cls, table: Any, search: Search, order: Ints) -> CandidateSimilarity:
        """The one of a table of candidates."""
        bounds, shingles = lists_of(table, _SHINGLES)
        if search.verification == "exact":
            return cls(Sets(bounds, shingles, numbers(table, _WHOLE)), order)
        return cls(shingles.reshape(table.num_rows, -1), order)

    def __call__(self, left: Ints, right: Ints) -> npt.NDArray[np.float64]:
        """The similarity of pairs of candidates."""
        left, right = self.order[left], self.order[right]
        if isinstance(self.gathered, Sets):
            return jaccard(self.gathered, left, right)
        return estimated(self.gathered, left, right)
