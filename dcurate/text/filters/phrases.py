"""Filters that search for phrases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dcurate.errors import PipelineError
from dcurate.text.filter import BoundedFilter, Mask, Scores, Share, SignalFilter, ratio
from dcurate.text.signals import Signals

Position = Literal["prefix", "suffix", "any"]


@dataclass(frozen=True)
class BoilerPlateStringFilter(BoundedFilter):
    r"""Drop texts with too many paragraphs about cookies, privacy or terms of use (C4).

    Paragraphs are separated by two consecutive newlines. A text with "lorem ipsum" scores 1.0.

    Args:
        max_boilerplate_string_ratio: the greatest share of the paragraphs, 0 to 1, that stays.
        remove_if_at_top_or_bottom: has no effect, as in the original; `BoilerPlateStringModifier` removes paragraphs.

    Examples:
        >>> BoilerPlateStringFilter().score_document("We use cookies.\n\nA tale.")
        0.5
    """

    remove_if_at_top_or_bottom: bool = True
    max_boilerplate_string_ratio: Share = 0.4
    _name = "boilerplate_string_ratio"
    _high = "max_boilerplate_string_ratio"

    def score(self, signals: Signals) -> Scores:
        boilerplate = signals.boilerplate
        return np.where(boilerplate.filler > 0, 1.0, ratio(boilerplate.policy, boilerplate.paragraphs, 0.0))


@dataclass(frozen=True)
class SubstringFilter(SignalFilter):
    """Keep texts that contain a string, begin with it, or end with it: they score 1.

    Args:
        substring: the literal string.
        position: ``"any"``, ``"prefix"`` or ``"suffix"``.

    Raises:
        PipelineError: another position.

    Examples:
        >>> SubstringFilter("tale", "suffix").score_document("A tale")
        1
    """

    substring: str
    position: Position
    _name = "SubstringFilter"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position not in get_args(Position):
            known = ", ".join(get_args(Position))
            raise PipelineError(f"{self.name}: position={self.position!r} must be one of {known}")

    def score(self, signals: Signals) -> Scores:
        sought = self.substring.encode(errors="surrogatepass")
        return np.array([self._holds(text, sought) for text in signals.encoded()], np.int64)

    def _holds(self, text: bytes, sought: bytes) -> bool:
        if self.position == "any":
            return sought in text
        return text.startswith(sought) if self.position == "prefix" else text.endswith(sought)

    def keep(self, scores: Scores) -> Mask:
        return np.equal(scores, 1)
