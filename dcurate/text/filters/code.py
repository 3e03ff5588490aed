"""Filters for lines and characters of source code; an empty text has no letters and one line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dcurate.errors import PipelineError
from dcurate.kernels.members import alphabetic_signals
from dcurate.kernels.source import line_counts, opens_with
from dcurate.text.filter import BoundedFilter, Mask, Scores, Share, SignalFilter, ratio
from dcurate.text.signals import Signals
from dcurate.text.visible_text import visible_length

_XML = "<?xml version="


@dataclass(frozen=True)
class NumberOfLinesOfCodeFilter(BoundedFilter):
    r"""Drop texts with too few or too many lines, including blank ones: one more than the number of newlines.

    Args:
        min_lines: the fewest lines of a text that stays.
        max_lines: the most.

    Examples:
        >>> NumberOfLinesOfCodeFilter().score_document("a = 1\n\nb = 2")
        3
    """

    min_lines: int = 10
    max_lines: int = 20000
    _name = "num_lines"
    _low, _high = "min_lines", "max_lines"

    def score(self, signals: Signals) -> Scores:
        return signals.of(line_counts)


@dataclass(frozen=True)
class XMLHeaderFilter(SignalFilter):
    """Drop texts with ``<?xml version=`` near the beginning, for any file name: they score 1 (StarCoder).

    Args:
        char_prefix_search_length: how many characters are the beginning.

    Raises:
        PipelineError: fewer than 0 characters.

    Examples:
        >>> XMLHeaderFilter().score_document('<?xml version="1.0"?>')
        1
    """

    char_prefix_search_length: int = 100
    _name = "xml_header"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.char_prefix_search_length < 0:
            raise PipelineError(
                f"{self.name}: char_prefix_search_length={self.char_prefix_search_length} must be at least 0"
            )

    def score(self, signals: Signals) -> Scores:
        return signals.of(opens_with, _XML, self.char_prefix_search_length)

    def keep(self, scores: Scores) -> Mask:
        return np.not_equal(scores, 1)


@dataclass(frozen=True)
class AlphaFilter(BoundedFilter):
    """Drop texts with too few letters, of any script, such as tables and tensors (StarCoder).

    An empty text scores 0.0.

    Args:
        min_alpha_ratio: the least share of the characters, 0 to 1, that stays.

    Examples:
        >>> AlphaFilter().score_document("x = [0, 1]")
        0.1
    """

    min_alpha_ratio: Share = 0.25
    _name = "alpha_filter"
    _low = "min_alpha_ratio"

    def score(self, signals: Signals) -> Scores:
        letters = signals.of(alphabetic_signals)
        return ratio(letters.members, letters.characters, 0.0)


@dataclass(frozen=True)
class HTMLBoilerplateFilter(BoundedFilter):
    """Drop pages with too little visible text.

    The score is the share that is left without markup, scripts and styles, as Beautiful Soup gives it with Python's own
    parser.

    Args:
        min_lang_content_ratio: the least score.
        min_lang_content_num_chars: a page with less text than this many characters scores 0.0.

    A page that the parser cannot make sense of scores 0.0; so does an empty one.

    Examples:
        >>> HTMLBoilerplateFilter(min_lang_content_num_chars=2).score_document("<p>text</p>")
        0.36363636363636365
    """

    min_lang_content_ratio: Share = 0.2
    min_lang_content_num_chars: int = 100
    _name = "html_boilerplate"
    _low = "min_lang_content_ratio"

    def score(self, signals: Signals) -> Scores:
        return np.array([self._share(page) for page in signals.texts()], np.float64)

    def _share(self, page: str) -> float:
        seen = visible_length(page) or 0
        return seen / len(page) if page and seen >= self.min_lang_content_num_chars else 0.0
