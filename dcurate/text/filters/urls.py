"""Filters for URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from dcurate.errors import PipelineError
from dcurate.text.filter import BoundedFilter, Mask, Scores, Share, SignalFilter, ratio
from dcurate.text.signals import Signals


class _UrlRule(SignalFilter):
    """Shared by URL filters: an optional custom pattern, which is searched for in Python."""

    url_regex: str | re.Pattern[str] | None

    def _pattern(self) -> re.Pattern[str] | None:
        pattern = self.url_regex
        try:
            return re.compile(pattern) if isinstance(pattern, str) else pattern
        except re.error as error:
            raise PipelineError(f"{self.name}: url_regex={pattern!r} is not a regular expression ({error})") from error

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pattern()

    def _found(self, signals: Signals, pattern: re.Pattern[str]) -> list[list[str]]:
        return [[match.group() for match in pattern.finditer(text)] for text in signals.texts()]


@dataclass(frozen=True)
class UrlsFilter(BoundedFilter, _UrlRule):
    """Drop texts with too many characters in URLs; an empty text scores 1.0.

    Args:
        max_url_to_text_ratio: the greatest share of the characters, 0 to 1, that stays.
        url_regex: a custom URL pattern, if the default is too strict or too broad; a pattern is much slower.

    Raises:
        PipelineError: ``url_regex`` is not a regular expression.

    Examples:
        >>> UrlsFilter().score_document("See http://a.b/c")
        0.75
    """

    max_url_to_text_ratio: Share = 0.2
    url_regex: str | re.Pattern[str] | None = None
    _name = "urls_ratio"
    _high = "max_url_to_text_ratio"

    def score(self, signals: Signals) -> Scores:
        pattern = self._pattern()
        if pattern is None:
            return ratio(signals.urls.characters, signals.characters.total, 1.0)
        lengths = [sum(map(len, urls)) for urls in self._found(signals, pattern)]
        return ratio(np.array(lengths, np.int64), signals.characters.total, 1.0)


@dataclass(frozen=True)
class PornographicUrlsFilter(_UrlRule):
    """Drop texts with a URL that contains "porn": they score 1.

    Args:
        url_regex: a custom URL pattern, if the default is too strict or too broad; a pattern is much slower.

    Raises:
        PipelineError: ``url_regex`` is not a regular expression.

    Examples:
        >>> PornographicUrlsFilter().score_document("Not https://porn.example/")
        1
    """

    url_regex: str | re.Pattern[str] | None = None
    _name = "PornographicUrlsFilter"

    def score(self, signals: Signals) -> Scores:
        pattern = self._pattern()
        if pattern is None:
            return (signals.urls.pornographic > 0).astype(np.int64)
        return np.array([any("porn" in url for url in urls) for urls in self._found(signals, pattern)], np.int64)

    def keep(self, scores: Scores) -> Mask:
        return np.not_equal(scores, 1)
