"""Rules over numbers that rows already have: signals of pages, pictures and models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dcurate.errors import PipelineError
from dcurate.text.filter import DocumentFilter, Mask, Scores


class NumberFilter(DocumentFilter):
    """A rule that keeps rows by the number in a column, whichever column the stage scores.

    ``column`` names the column, and with it the rule. ``_low`` names the field with the lowest number to keep,
    ``_high`` that with the highest; without one there is no such bound. A row without the number (null or NaN) is
    kept: nothing is known against it. ``made_by`` names the stage that makes the column, for the error where it is not
    there. `ScoreFilter`, `Annotate`, `refilter` and `profile` take such rules as they take
    rules over text.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class FewStars(NumberFilter):
        ...     max_stars: int = 3
        ...     column = "stars"
        ...     _high = "max_stars"
        >>> FewStars().keep_document(4), FewStars(max_stars=4).keep_document(4), FewStars().keep_document(None)
        (False, True, True)
    """

    column: str
    made_by: str = ""
    _low = ""
    _high = ""

    @property
    def name(self) -> str:
        return self._name or self.column

    def keep(self, scores: Scores) -> Mask:
        """Return a mask of the numbers to keep; NaN is kept."""
        numbers = np.asarray(scores, np.float64)
        low, high = (getattr(self, name) if name else None for name in (self._low, self._high))
        kept = np.ones(numbers.shape, np.bool_)
        if low is not None:
            kept &= ~(numbers < low)
        if high is not None:
            kept &= ~(numbers > high)
        return kept

    @final
    def score_document(self, text: Any) -> Any:
        """Return the number itself."""
        return text

    @final
    def keep_document(self, score: Any) -> bool:
        try:
            return bool(self.keep(np.asarray(np.nan if score is None else score)))
        except (TypeError, ValueError) as error:
            raise PipelineError(
                f"{type(self).__name__} compares the numbers of a column, and {score!r} is none; use it in ScoreFilter"
            ) from error


@dataclass(frozen=True)
class NumberRangeFilter(NumberFilter):
    """Keep rows whose number in a column is in a range, both ends included.

    Args:
        column: the column with the number; the filter is named after it.
        min_value: the lowest number to keep; None for no bound.
        max_value: the highest number to keep; None for no bound.
        made_by: the stage that makes the column, such as ``"ImageSignals()"``, for the error where it is not there.

    A row without the number is kept.

    Raises:
        PipelineError: a bound is no number, both are None, the lowest is above the highest, or there is no name of a
            column.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, ScoreFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"n_pages": [3, 900]}))
        >>> ScoreFilter(NumberRangeFilter("n_pages", max_value=500)).process(batch).to_pandas().n_pages.tolist()
        [3]
    """

    column: str
    min_value: float | None = None
    max_value: float | None = None
    made_by: str = ""

    _low = "min_value"
    _high = "max_value"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.column, str) or not self.column:
            raise PipelineError(f"NumberRangeFilter: column={self.column!r} must be the name of a column")
        if self.min_value is None and self.max_value is None:
            raise PipelineError(f"NumberRangeFilter: no bound for {self.column!r}; give min_value=, max_value= or both")
        if self.min_value is not None and self.max_value is not None and self.min_value > self.max_value:
            raise PipelineError(f"{self!r} keeps no number: min_value is above max_value")


def maker_of(rules: Iterable[Any], column: str) -> str:
    """Return the stage that makes the column which one of the rules reads, as the rule names it; empty if none does."""
    made = (rule.made_by for rule in rules if isinstance(rule, NumberFilter) and rule.column == column)
    return next(filter(None, made), "")


def column_of_rule(rule: Any, field: str) -> str:
    """Return the column that a rule reads: its own, or else the one that its stage scores.

    Examples:
        >>> column_of_rule(NumberRangeFilter("n_pages", 1), "text"), column_of_rule(len, "text")
        ('n_pages', 'text')
    """
    return rule.column if isinstance(rule, NumberFilter) else field
