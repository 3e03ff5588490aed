"""Filters for the lines that C4's rules keep (Raffel et al., 2020); `dcurate.text.presets.c4` combines them.

They look at the text as `dcurate.text.c4.C4Lines` would leave it, and do not change it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dcurate.kernels.cleaning import CURLY, FILLER, LineRules
from dcurate.kernels.longest_lines import longest_lines
from dcurate.text.c4 import c4_signals
from dcurate.text.filter import BoundedFilter, Mask, Scores, SignalFilter
from dcurate.text.signals import Signals


@dataclass(frozen=True)
class C4LoremIpsumFilter(SignalFilter):
    """Drop texts with "lorem ipsum" in a line that C4 keeps, ignoring case: they score 1.

    Examples:
        >>> C4LoremIpsumFilter().score_document("Lorem ipsum dolor sit amet.")
        1
    """

    pays_on_gpu: ClassVar[bool] = True

    rules: LineRules = field(default_factory=LineRules)
    _name = "c4_lorem_ipsum"

    def score(self, signals: Signals) -> Scores:
        return np.equal(signals.of(c4_signals, self.rules).outcome, FILLER).astype(np.int64)

    def keep(self, scores: Scores) -> Mask:
        return np.equal(scores, 0)


@dataclass(frozen=True)
class C4CurlyBracketFilter(SignalFilter):
    """Drop texts with ``{`` in a line that C4 keeps: they score 1.

    Examples:
        >>> C4CurlyBracketFilter().score_document("What is { doing in here?")
        1
    """

    pays_on_gpu: ClassVar[bool] = True

    rules: LineRules = field(default_factory=LineRules)
    _name = "c4_curly_bracket"

    def score(self, signals: Signals) -> Scores:
        return np.equal(signals.of(c4_signals, self.rules).outcome, CURLY).astype(np.int64)

    def keep(self, scores: Scores) -> Mask:
        return np.equal(scores, 0)


@dataclass(frozen=True)
class C4SentencesFilter(BoundedFilter):
    """Drop texts with too few sentences in the lines that C4 keeps.

    Examples:
        >>> C4SentencesFilter().score_document("It is a line of words. And here is one more.")
        2
    """

    pays_on_gpu: ClassVar[bool] = True

    min_sentences: int = 3
    rules: LineRules = field(default_factory=LineRules)
    _name = "c4_sentences"
    _low = "min_sentences"

    def score(self, signals: Signals) -> Scores:
        return signals.of(c4_signals, self.rules).sentences


@dataclass(frozen=True)
class C4LengthFilter(BoundedFilter):
    """Drop texts that are too long.

    Examples:
        >>> C4LengthFilter().score_document("four")
        4
    """

    pays_on_gpu: ClassVar[bool] = True

    max_characters: int = 190000
    _name = "c4_length"
    _high = "max_characters"

    def score(self, signals: Signals) -> Scores:
        return signals.characters.total


@dataclass(frozen=True)
class C4ParagraphsFilter(BoundedFilter):
    r"""Drop texts with too few long lines; the score is the length of the third longest (mC4).

    Args:
        min_paragraphs: how many lines are to be long.
        min_length: characters of a long line.

    Examples:
        >>> C4ParagraphsFilter().score_document("one\nthree\nfive\nseven")
        4
    """

    pays_on_gpu: ClassVar[bool] = True

    min_paragraphs: int = 3
    min_length: int = 200
    _name = "c4_paragraphs"
    _low = "min_length"

    def score(self, signals: Signals) -> Scores:
        return signals.of(longest_lines, self.min_paragraphs)
