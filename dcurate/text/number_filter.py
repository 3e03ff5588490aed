"""A rule over a column of numbers that an earlier stage wrote: signals of pictures, of pages, of anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dcurate.errors import PipelineError
from dcurate.text.filter import DocumentFilter, Mask, Scores


@dataclass(frozen=True)
class NumberFilter(DocumentFilter):
    """Keep rows whose number in a column lies from ``low`` to ``high``, both included.

    It reads its own column, wherever it is used: in `ScoreFilter`, `Annotate` and `refilter`, and in `profile`. The
    column is its score, and its name the reason for dropping a row. True and false count as 1 and 0.

    Args:
        column: with the numbers.
        low: the lowest number to keep.
        high: the highest number to keep.
        missing: what to do with rows without a number (null or NaN).
        added_by: the stage that adds the column, for the error where it is not there.

    Raises:
        PipelineError: no limit, or limits that keep nothing.

    Examples:
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, ScoreFilter
        >>> batch = DocumentBatch(data=pd.DataFrame({"image_sharpness": [340.0, 12.0, None]}))
        >>> kept = ScoreFilter(NumberFilter("image_sharpness", low=100)).process(batch)
        >>> kept.num_items, kept.rejections[0].reason
        (1, 'image_sharpness')
    """

    column: str
    low: float | None = None
    high: float | None = None
    missing: Literal["drop", "keep"] = "drop"
    added_by: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.missing not in ("drop", "keep") or not self.column:
            raise PipelineError(f"{self!r}: name a column, and give missing='drop' or missing='keep'")
        if self.low is None and self.high is None:
            raise PipelineError(f"{self!r} keeps every number; give low=, high= or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise PipelineError(f"{self!r} keeps no number, as low is above high")

    @property
    def name(self) -> str:
        return self.column

    def keep(self, scores: Any) -> Mask:
        """Return a mask of the numbers to keep."""
        numbers: Scores = np.asarray(scores, np.float64)
        unknown = np.isnan(numbers)
        kept = np.ones(len(numbers), np.bool_)
        if self.low is not None:
            kept &= numbers >= self.low
        if self.high is not None:
            kept &= numbers <= self.high
        return kept | unknown if self.missing == "keep" else kept & ~unknown

    def missing_column(self, stage: str = "") -> PipelineError:
        """The error for rows without the column."""
        add = f"add {self.added_by} before it" if self.added_by else "name the column that holds the numbers"
        return PipelineError(f"NumberFilter needs the column {self.column!r}, which the rows do not have; {add}")

    def score_document(self, text: str) -> float:
        raise PipelineError(f"NumberFilter({self.column!r}) reads its column, not a text; use it in ScoreFilter")

    def keep_document(self, score: Any) -> bool:
        return bool(self.keep([np.nan if score is None else score])[0])


def column_read(rule: Any, text_field: str) -> str:
    """The column that a rule reads: its own, or the one with the text.

    Examples:
        >>> column_read(len, "text"), column_read(NumberFilter("image_sharpness", low=1), "text")
        ('text', 'image_sharpness')
    """
    return rule.column if isinstance(rule, NumberFilter) else text_field
