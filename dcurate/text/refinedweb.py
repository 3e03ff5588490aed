"""RefinedWeb's rules on lines (Penedo et al., 2023), as reproduced by DCLM (Li et al., 2024)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from dcurate.text.filter import BoundedFilter, Scores
from dcurate.text.modifier import TextModifier
from dcurate.text.signals import Signals

_COUNTED = "likes|shares|comments|retweets|reposts|quotes|bookmarks|upvotes|downvotes|downloads|views|followers"
_COUNTER = re.compile(rf"^\W*\d[,.\d]*[kmb]?\s+(?:{_COUNTED})\W*$")
_NUMERIC = 0.999999
#: Patterns removed from lines of at most ten words; the dots match any character, as in DCLM.
_CUT_OUT = tuple(
    re.compile(pattern, re.IGNORECASE) for pattern in (r"\s?items in cart", r"\s?read more...$", r"^sign-in\s?")
)
_SHORT = 10
_WORDS = re.compile(r"[^ \n\r\t\v\f\0]+")


def words_of(text: str) -> int:
    """Words that begin with a letter or digit.

    Examples:
        >>> words_of("one - two")
        2
    """
    return sum(word[0].isalnum() for word in _WORDS.findall(text))


def _is_loud(line: str) -> bool:
    return bool(line) and sum(map(str.isupper, line)) / len(line) > 0.5


def _is_number(line: str) -> bool:
    return bool(line) and sum(map(str.isdigit, line)) / len(line) > _NUMERIC


def _without(pattern: re.Pattern[str], lines: list[str]) -> list[str]:
    cut = [pattern.sub("", line) if len(line.split()) <= _SHORT else line for line in lines]
    return [remaining for line, remaining in zip(lines, cut, strict=True) if not line or remaining.strip()]


def lines_left(text: str) -> str:
    r"""The text without the lines that the rules remove.

    Examples:
        >>> lines_left("A line stays.\nSHOUT IT\n3 likes\n1,024\nAlone\nSign-in to comment")
        'A line stays.\nto comment'
    """

    def stripped(lines: list[str]) -> list[str]:
        return "\n".join(lines).strip().split("\n")

    lines = stripped([line for line in text.split("\n") if not _is_loud(line)])
    lines = stripped([line for line in lines if not _is_number(line)])
    lines = stripped([line for line in lines if not _COUNTER.search(line.lower())])
    lines = [line for line in lines if not line or len(line.split()) >= 2]
    for pattern in _CUT_OUT:
        lines = stripped(_without(pattern, lines))
    return "\n".join(lines)


@dataclass(frozen=True)
class RefinedWebLines(TextModifier):
    r"""Remove lines of capitals, of digits, of counters ("3 likes") and of one word, and calls to click.

    Examples:
        >>> RefinedWebLines().modify_document("A line stays.\nHOME")
        'A line stays.'
    """

    def modify_document(self, text: str) -> str:
        return lines_left(text)


@dataclass(frozen=True)
class RefinedWebRemovedFilter(BoundedFilter):
    r"""Drop texts from which `RefinedWebLines` removes too many words; a text left empty scores 1.0.

    Examples:
        >>> RefinedWebRemovedFilter().score_document("One line that stays here.\nNOT THIS ONE")
        0.375
    """

    max_ratio: float = 0.05
    _name = "refinedweb_removed"
    _high = "max_ratio"

    def score(self, signals: Signals) -> Scores:
        return np.array([_removed(text) for text in signals.texts()], np.float64)


def _removed(text: str) -> float:
    before, remaining = words_of(text), lines_left(text)
    return (before - words_of(remaining)) / before if before and remaining else 1.0
