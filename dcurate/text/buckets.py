"""Buckets of scores by limits for each language or source, as CCNet cuts a corpus by perplexity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError, shown
from dcurate.frames.batches import batches_of
from dcurate.frames.columns import numbers, values, with_text
from dcurate.frames.document import DocumentBatch

#: Names of buckets and parts of a sample as CCNet has them.
CCNET_BUCKETS, CCNET_FRACTIONS = ("head", "middle", "tail"), (0.3, 0.6)


@dataclass
class ScoreBuckets(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add the bucket of each row's score, by limits for each language or source.

    With the limits of `bucket_limits` on the perplexities of a sample, and the names as they are, it cuts a corpus into
    head, middle and tail as CCNet does (Wenzek et al., 2020). A row without a score, or of a group without limits, has
    null.

    Args:
        limits: by group the limits between buckets, ascending; ``""`` has those of all other groups. A score that
            equals a limit is in the bucket above it.
        score_field: the column of scores.
        group_field: the column of groups, such as the language; without it all rows have the limits of ``""``.
        buckets: the names of the buckets, that of the lowest scores first.
        bucket_field: the new column.
        overwrite: replace a column of that name instead of refusing.
        name: name of the stage.

    Raises:
        PipelineError: limits that do not ascend, or are not one fewer than the buckets; a column that is there already.
        DataError: a column is missing, or the scores are not numbers.

    Examples:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"perplexity": [120.0, 400.0, 900.0, 400.0], "language": ["en", "en", "en", "eo"]})
        >>> stage = ScoreBuckets({"en": [300.0, 600.0]}, group_field="language")
        >>> stage.process(DocumentBatch(data=rows)).to_arrow()["bucket"].to_pylist()
        ['head', 'middle', 'tail', None]
    """

    limits: Mapping[str, Sequence[float]]
    score_field: str = "perplexity"
    group_field: str | None = None
    buckets: Sequence[str] = CCNET_BUCKETS
    bucket_field: str = "bucket"
    overwrite: bool = False
    name: str = "score_buckets"

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Mapping) or not self.limits:
            raise PipelineError(
                f"stage {self.name!r}: limits={shown(self.limits)} must be limits by group, "
                'such as {"en": [300.0, 600.0]}; bucket_limits finds them'
            )
        are_names = isinstance(self.buckets, list | tuple) and all(isinstance(name, str) for name in self.buckets)
        if not are_names or len(set(self.buckets)) < len(self.buckets):
            raise PipelineError(f"stage {self.name!r}: buckets={self.buckets!r} must be a list of different names")
        for group, limits in self.limits.items():
            if not _are_numbers(limits) or len(limits) + 1 != len(self.buckets):
                raise PipelineError(
                    f"stage {self.name!r}: limits of {group!r} must be {len(self.buckets) - 1} numbers, one fewer than "
                    f"the buckets, not {shown(limits)}"
                )
            if not all(first < second for first, second in pairwise([-np.inf, *limits, np.inf])):
                raise PipelineError(f"stage {self.name!r}: limits of {group!r} must ascend, not {shown(limits)}")
        if self.group_field is None and "" not in self.limits:
            raise PipelineError(
                f'stage {self.name!r}: limits have groups; give group_field="language", or limits of "" for all rows'
            )

    def inputs(self) -> Spec:
        return ["data"], [self.score_field, *([self.group_field] if self.group_field else [])]

    def outputs(self) -> Spec:
        return ["data"], [self.bucket_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        table = task.to_arrow()
        scores = numbers(table, self.score_field).astype(np.float64)
        unknown = self.limits.get("", [np.nan] * (len(self.buckets) - 1))
        limits = [self.limits.get(group, unknown) for group in _groups(table, self.group_field)]
        bounds = np.array(limits, np.float64).reshape(len(scores), len(self.buckets) - 1)
        places = (scores[:, None] >= bounds).sum(axis=1).tolist()
        blank = np.isnan(scores) | np.isnan(bounds).any(axis=1)
        names = [None if no else self.buckets[place] for no, place in zip(blank.tolist(), places, strict=True)]
        return task.with_data(with_text(table, self.bucket_field, names))


def bucket_limits(
    rows: Any,
    score_field: str = "perplexity",
    group_field: str | None = None,
    *,
    fractions: Sequence[float] = CCNET_FRACTIONS,
    min_rows: int = 100,
) -> dict[str, list[float]]:
    """Return limits that cut the scores of a sample into parts, for each group and, as ``""``, for all others.

    Args:
        rows: a frame, an Arrow table, a batch, or a list of these: the sample with its scores.
        score_field: the column of scores; rows without one do not count.
        group_field: the column of groups, such as the language.
        fractions: the part of the rows below each limit, ascending.
        min_rows: a group of fewer rows gets no limits of its own.

    Raises:
        PipelineError: fractions that are not numbers ascending between 0 and 1, or too few rows with different scores.
        DataError: a column is missing, or the scores are not numbers.

    Examples:
        >>> import pandas as pd
        >>> bucket_limits(pd.DataFrame({"perplexity": range(1, 102)}))
        {'': [31.0, 61.0]}
    """
    if isinstance(min_rows, bool) or not isinstance(min_rows, int) or min_rows < 1:
        raise PipelineError(f"min_rows={min_rows!r} must be a whole number of at least 1")
    bounds = [0.0, *fractions, 1.0] if _are_numbers(fractions) else []
    if not bounds or not all(first < second for first, second in pairwise(bounds)):
        raise PipelineError(f"fractions={fractions!r} must be numbers that ascend between 0 and 1, as (0.3, 0.6) do")
    batches = batches_of(rows)
    if not isinstance(batches, list) or not all(isinstance(batch, DocumentBatch) for batch in batches):
        raise PipelineError(f"rows={shown(rows)} are not rows; give a frame, an Arrow table, a batch or a list")
    scores, groups = [np.zeros(0)], []
    for table in (batch.to_arrow() for batch in batches):
        scores.append(numbers(table, score_field).astype(np.float64))
        groups += _groups(table, group_field)
    known = np.concatenate(scores)
    order = sorted(range(len(groups)), key=groups.__getitem__)
    limits = {
        group: _quantiles(known[list(rows)], fractions, min_rows) for group, rows in groupby(order, groups.__getitem__)
    }
    limits[""] = _quantiles(known, fractions, min_rows)
    if not limits[""]:
        raise PipelineError(f"fewer than {min_rows} rows have a score, or their scores are alike; give a larger sample")
    return {group: bounds for group, bounds in limits.items() if bounds}


def _are_numbers(limits: Any) -> bool:
    return isinstance(limits, list | tuple) and all(
        isinstance(limit, int | float) and not isinstance(limit, bool) for limit in limits
    )


def _groups(table: Any, group_field: str | None) -> list[str]:
    if group_field is None:
        return [""] * int(table.num_rows)
    return ["" if group is None else str(group) for group in values(table, group_field)]


def _quantiles(scores: npt.NDArray[np.float64], fractions: Sequence[float], min_rows: int) -> list[float]:
    """The limits; none where there are too few scores, or limits would be equal."""
    known = scores[np.isfinite(scores)]
    if len(known) < max(min_rows, 1):
        return []
    limits: list[float] = np.quantile(known, fractions).tolist()
    return limits if len(set(limits)) == len(limits) else []
