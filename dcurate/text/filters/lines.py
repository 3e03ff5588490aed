"""Filters for how lines begin and end. Blank lines do not count; a text without lines scores 1.0."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate.text.filter import BoundedFilter, Scores, Share, ratio
from dcurate.text.signals import Signals


@dataclass(frozen=True)
class BulletsFilter(BoundedFilter):
    r"""Drop texts with too many lines that begin with a bullet, one of ``•‣⁃⁌⁍∙○●◘◦⦾⦿`` (Gopher).

    Args:
        max_bullet_lines_ratio: the greatest share of the lines, 0 to 1, that stays.

    Examples:
        >>> BulletsFilter().score_document("Buy:\n  • milk")
        0.5
    """

    max_bullet_lines_ratio: Share = 0.9
    _name = "bullet_ratio"
    _high = "max_bullet_lines_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.lines.bulleted, signals.lines.total, 1.0)


@dataclass(frozen=True)
class PunctuationFilter(BoundedFilter):
    r"""Drop texts with too many lines that do not end with one of ``. ? ! " '`` (C4).

    Args:
        max_num_sentences_without_endmark_ratio: the greatest share of the lines, 0 to 1, that stays.

    Examples:
        >>> PunctuationFilter().score_document("Title\nA sentence.")
        0.5
    """

    max_num_sentences_without_endmark_ratio: Share = 0.85
    _name = "punctuation"
    _high = "max_num_sentences_without_endmark_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.lines.unended, signals.lines.total, 1.0)


@dataclass(frozen=True)
class EllipsisFilter(BoundedFilter):
    r"""Drop texts with too many lines that end with an ellipsis (C4).

    They do so with ``...  [...]  …  (...)  […]  -»``, "read more" or "read more..", in any case.

    Args:
        max_num_lines_ending_with_ellipsis_ratio: the greatest share of the lines, 0 to 1, that stays.

    Examples:
        >>> EllipsisFilter().score_document("It was...\nOr was it?")
        0.5
    """

    max_num_lines_ending_with_ellipsis_ratio: Share = 0.3
    _name = "ellipsis"
    _high = "max_num_lines_ending_with_ellipsis_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.lines.trailing, signals.lines.total, 1.0)
