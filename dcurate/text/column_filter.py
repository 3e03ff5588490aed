"""A custom rule over a whole column of texts at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from dcurate.errors import PipelineError
from dcurate.frames.columns import as_series
from dcurate.text.filter import DocumentFilter, Mask, Scores


class ColumnFilter(DocumentFilter):
    """A rule that scores a column of texts with pandas or NumPy; subclass it for vectorised rules.

    A subclass that overrides `score_document` or `keep_document` of such a rule is called for each document instead.

    Examples:
        >>> class FewDigits(ColumnFilter):
        ...     def score_column(self, texts):
        ...         return texts.str.count("[0-9]") / texts.str.len().clip(lower=1)
        ...     def keep_column(self, scores):
        ...         return scores < 0.5
        >>> FewDigits().name, FewDigits().score_document("4th of 10")
        ('few_digits', 0.3333333333333333)
    """

    @abstractmethod
    def score_column(self, texts: Any) -> Any:
        """Return the scores of all texts, in order.

        Args:
            texts: a pandas Series of strings, Arrow underneath, index 0 to n - 1. A null text is an empty one.

        Returns:
            One score for each text: a Series, an array or a list.
        """

    @abstractmethod
    def keep_column(self, scores: Any) -> Any:
        """Return a mask of the scores to keep.

        Args:
            scores: the NumPy array returned by `score_column`.

        Returns:
            One truth value for each score.
        """

    def scores(self, texts: Any) -> Scores:
        """The result of `score_column`, as an array.

        Raises:
            PipelineError: it does not answer one score for each text.
        """
        return self._checked(self.score_column(texts), len(texts), "score_column")

    def kept(self, scores: Any) -> Mask:
        """The result of `keep_column`, as a boolean array.

        Raises:
            PipelineError: it does not answer one value for each score.
        """
        return self._checked(self.keep_column(np.asarray(scores)), len(scores), "keep_column").astype(np.bool_)

    def _checked(self, answer: Any, rows: int, method: str) -> Scores:
        values = np.asarray(answer)
        if values.shape != (rows,):
            raise PipelineError(
                f"{type(self).__name__}.{method} returned values of shape {values.shape} for {rows} texts; "
                "return one value for each, in order"
            )
        return values

    def score_document(self, text: str) -> Any:
        return self.scores(as_series([text]))[0].item()

    def keep_document(self, score: Any) -> bool:
        return bool(self.kept([score])[0])
