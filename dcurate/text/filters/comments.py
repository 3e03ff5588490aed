"""Filters for the share of comments in source code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dcurate.errors import PipelineError, nearest
from dcurate.kernels.comments import GO, JAVASCRIPT, MARKUP, RUBY, SHELL, C, comment_signals
from dcurate.kernels.source import source_signals
from dcurate.text.filter import BoundedFilter, Scores, Share, ratio
from dcurate.text.python_source import comments_of, documentation_length
from dcurate.text.signals import Signals

#: Score of a text whose comments cannot be separated from the code.
_HOPELESS = 9999.0
_PYTHON = -1

#: The languages by MIME type. Two of them NeMo Curator documents and does not know: text/javascript and text/x-csharp.
_FAMILIES = {
    "application/javascript": JAVASCRIPT,
    "text/html": MARKUP,
    "text/javascript": JAVASCRIPT,
    "text/x-c": C,
    "text/x-c++": C,
    "text/x-csharp": C,
    "text/x-go": GO,
    "text/x-java": C,
    "text/x-java-source": C,
    "text/x-javascript": JAVASCRIPT,
    "text/x-python": _PYTHON,
    "text/x-ruby": RUBY,
    "text/x-script.python": _PYTHON,
    "text/x-shellscript": SHELL,
    "text/xml": MARKUP,
}


@dataclass(frozen=True)
class PythonCommentToCodeFilter(BoundedFilter):
    """Drop Python code with too few or too many comments and docstrings.

    Comments count with their ``#``, docstrings without quotation marks and indentation; those of asynchronous functions
    do not count. What this Python cannot parse scores 0.0, and so does an empty text.

    Args:
        min_comment_to_code_ratio: the least share of the characters, 0 to 1, that stays.
        max_comment_to_code_ratio: the greatest.

    Examples:
        >>> PythonCommentToCodeFilter().score_document("x = 1  # one")
        0.4166666666666667
    """

    min_comment_to_code_ratio: Share = 0.01
    max_comment_to_code_ratio: Share = 0.85
    _name = "python_comment_ratio"
    _low, _high = "min_comment_to_code_ratio", "max_comment_to_code_ratio"

    def score(self, signals: Signals) -> Scores:
        return _shares((documentation_length(source) for source in signals.texts()), signals)


@dataclass(frozen=True)
class GeneralCommentToCodeFilter(BoundedFilter):
    """Drop source code with too few or too many comments, without their comment markers.

    Args:
        language: a MIME type: ``text/x-c``, ``text/x-c++``, ``text/x-csharp``, ``text/x-go``, ``text/x-java``,
            ``text/x-java-source``, ``text/javascript``, ``text/x-javascript``, ``application/javascript``,
            ``text/x-python``, ``text/x-script.python``, ``text/x-ruby``, ``text/x-shellscript``, ``text/html`` or
            ``text/xml``.
        min_comment_to_code_ratio: the least score.
        max_comment_to_code_ratio: the greatest score.

    Comments are joined by one space. A text with a comment that never ends scores 9999.0, as does Python that cannot be
    split into tokens; an empty text scores 0.0. The rules are those of the package comment_parser, which does not know
    every kind of string of a language.

    Raises:
        PipelineError: another language.

    Examples:
        >>> GeneralCommentToCodeFilter("text/x-c").score_document("int i; // one")
        0.3076923076923077
    """

    language: str
    min_comment_to_code_ratio: Share = 0.01
    max_comment_to_code_ratio: Share = 0.85
    _name = "comment_ratio"
    _low, _high = "min_comment_to_code_ratio", "max_comment_to_code_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language not in _FAMILIES:
            raise PipelineError(
                f"{self.name}: language={self.language!r} has no known comment syntax"
                f"{nearest(self.language, _FAMILIES)}"
            )

    def score(self, signals: Signals) -> Scores:
        family = _FAMILIES[self.language]
        if family == _PYTHON:
            return _shares((_joined_length(comments_of(source)) for source in signals.texts()), signals)
        comments = signals.of(comment_signals, family)
        joined = comments.characters + np.maximum(comments.total - 1, 0)
        shares = ratio(joined, signals.of(source_signals).characters, 0.0)
        return np.where(comments.unended > 0, _HOPELESS, shares)


def _joined_length(comments: list[str] | None) -> int:
    return -1 if comments is None else len(" ".join(comments))


def _shares(lengths: Iterable[int], signals: Signals) -> Scores:
    """Each length divided by that of the text; a negative length means none at all."""
    characters = np.fromiter(lengths, np.int64, len(signals))
    return np.where(characters < 0, _HOPELESS, ratio(characters, signals.of(source_signals).characters, 0.0))
