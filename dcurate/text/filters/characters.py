"""Filters that count characters by class."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate.text.filter import BoundedFilter, Scores, Share, ratio
from dcurate.text.signals import Signals


@dataclass(frozen=True)
class NonAlphaNumericFilter(BoundedFilter):
    """Drop texts with too many characters other than ``[a-zA-Z0-9]``, newline and ``? ! , .``; for English (Gopher).

    Args:
        max_non_alpha_numeric_to_text_ratio: the greatest share of the characters, 0 to 1, that stays.

    Examples:
        >>> NonAlphaNumericFilter().score_document("ab&%")
        0.5
    """

    max_non_alpha_numeric_to_text_ratio: Share = 0.25
    _name = "alpha_numeric"
    _high = "max_non_alpha_numeric_to_text_ratio"

    def score(self, signals: Signals) -> Scores:
        counts = signals.characters
        return ratio(counts.total - counts.plain, counts.total, 1.0)


@dataclass(frozen=True)
class NumbersFilter(BoundedFilter):
    """Drop texts with too many digits, ``0`` to ``9``.

    Args:
        max_number_to_text_ratio: the greatest share of the characters, 0 to 1, that stays.

    Examples:
        >>> NumbersFilter().score_document("in 1969")
        0.5714285714285714
    """

    max_number_to_text_ratio: Share = 0.15
    _name = "numbers_ratio"
    _high = "max_number_to_text_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.characters.digits, signals.characters.total, 1.0)


@dataclass(frozen=True)
class WhiteSpaceFilter(BoundedFilter):
    r"""Drop texts with too much space, ``\t``, ``\n``, ``\r`` or ``\b``, including leading and trailing.

    Args:
        max_white_space_ratio: the greatest share of the characters, 0 to 1, that stays.

    Examples:
        >>> WhiteSpaceFilter().score_document("a b ")
        0.5
    """

    max_white_space_ratio: Share = 0.25
    _name = "white_space"
    _high = "max_white_space_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.characters.blanks, signals.characters.total, 1.0)


@dataclass(frozen=True)
class ParenthesesFilter(BoundedFilter):
    """Drop texts with too many brackets: ``{ } ⟨ ⟩ [ ] ( )``.

    Args:
        max_parentheses_ratio: the greatest share of the characters, 0 to 1, that stays.

    Examples:
        >>> ParenthesesFilter().score_document("f(x)")
        0.5
    """

    max_parentheses_ratio: Share = 0.1
    _name = "parentheses_ratio"
    _high = "max_parentheses_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.characters.brackets, signals.characters.total, 1.0)
