"""Choose which of several rows with the same meaning to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.dedup.semantic.sample import lots
from dcurate.errors import PipelineError, nearest
from dcurate.groups.keep import Keep, keep_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Distances = npt.NDArray[np.float32]

_BY_CENTROID = ("hard", "easy", "random")
_METRICS = ("cosine", "l2")


@dataclass(frozen=True)
class Ranking:
    """The order of the rows of a cluster; a row is compared with all before it.

    Args:
        by: ``"hard"``: the farthest from the centroid first, ``"easy"``: the nearest first, ``"random"``; or nothing.
        rules: by these instead, the first of them first.
        metric: distance to the centroid that counts: ``"cosine"`` or ``"l2"``.
        seed: for ``"random"``.
    """

    by: str = "hard"
    rules: tuple[Keep, ...] = ()
    metric: str = "cosine"
    seed: int = 42

    def of_rows(self, table: Any, text_field: str) -> list[Floats]:
        """Return the ranks of the rows of a table, an array for each rule, and one for what is left of its values."""
        return [ranks for rule in self.rules for ranks in rule.all_ranks(table, text_field)]

    def of_distances(self, straight: Distances, cosine: Distances, documents: Ints) -> list[Floats]:
        """Return ranks by distance to the centroid, or at random; nothing if rules decide."""
        if self.rules:
            return []
        if self.by == "random":
            return [lots(documents, self.seed).astype(np.float64)]
        distance = (cosine if self.metric == "cosine" else straight).astype(np.float64)
        return [-distance if self.by == "hard" else distance]

    def columns(self, text_field: str) -> list[str]:
        """The columns that the order depends on."""
        return list(dict.fromkeys(column for rule in self.rules for column in rule.columns(text_field)))


def ranking_of(wanted: str | Keep | Sequence[Keep], metric: str, seed: int, stage: str) -> Ranking:
    """The order that a person asks for.

    Raises:
        PipelineError: there is none of that name, or no such metric.

    Examples:
        >>> ranking_of("easy", "cosine", 42, "semantic").by
        'easy'
        >>> ranking_of("longest", "cosine", 42, "semantic").columns("text")
        ['text']
    """
    if metric not in _METRICS:
        raise PipelineError(f"{stage}: unknown distance_metric={metric!r}{nearest(str(metric), _METRICS)}")
    if isinstance(wanted, str) and wanted in _BY_CENTROID:
        return Ranking(wanted, (), metric, seed)
    if isinstance(wanted, str | Keep):
        if isinstance(wanted, str) and wanted not in ("first", "longest"):
            raise PipelineError(
                f"{stage}: which_to_keep={wanted!r} is not a rule"
                f"{nearest(wanted, [*_BY_CENTROID, 'first', 'longest'])}; or give "
                "Highest('score'), Lowest('perplexity') or Preferred('source', ['books', 'web'])"
            )
        return Ranking("", (keep_of(wanted, stage),), metric, seed)
    rules = tuple(wanted)
    if not rules or not all(isinstance(rule, Keep) for rule in rules):
        raise PipelineError(
            f"{stage}: which_to_keep={wanted!r} must be a rule, or a list of rules such as Highest('x')"
        )
    return Ranking("", rules, metric, seed)
