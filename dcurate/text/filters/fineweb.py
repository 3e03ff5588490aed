"""FineWeb's own line filters (Penedo et al., 2024), as in datatrove. The share of an empty text is 0."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate.kernels.occurrences import occurrences
from dcurate.kernels.segments import NEWLINE, Cut
from dcurate.text import measures
from dcurate.text.filter import BoundedFilter, Scores, ratio
from dcurate.text.lexicon import check_splitter
from dcurate.text.measures import Lines, segments_of
from dcurate.text.signals import Signals
from dcurate.text.splitters import LINE_ENDS

#: Lines that are not blank; the marks that end them, the commonest first.
_CUT = Cut(NEWLINE, trimmed=False, stripped=False, blank=False)
_ENDS = tuple(sorted(LINE_ENDS))


def _lines(short: int = -1) -> Lines:
    return Lines(_CUT, ends=_ENDS, short=short)


@dataclass(frozen=True)
class FineWebLineEndsFilter(BoundedFilter):
    r"""Drop texts with too few lines that end with a sentence terminator, of any script.

    A text without lines scores 0.

    Args:
        min_ratio: the share that is still good.
        short: characters of a short line, so that one pass over the lines serves all rules.

    Examples:
        >>> FineWebLineEndsFilter().score_document("Title\n\nA sentence.")
        0.5
    """

    min_ratio: float = 0.12
    short: int = 30
    _name = "fineweb_line_ends"
    _low = "min_ratio"

    def score(self, signals: Signals) -> Scores:
        lines = signals.of(segments_of, _lines(self.short))
        return ratio(lines.ending, lines.total, 0.0)


@dataclass(frozen=True)
class FineWebShortLinesFilter(BoundedFilter):
    r"""Drop texts with too many short lines.

    Args:
        max_ratio: the share that is still good.
        short: characters of a short line.

    Examples:
        >>> FineWebShortLinesFilter().score_document("Title\nA sentence that is longer than thirty characters.")
        0.5
    """

    max_ratio: float = 0.67
    short: int = 30
    _name = "fineweb_short_lines"
    _high = "max_ratio"

    def score(self, signals: Signals) -> Scores:
        lines = signals.of(segments_of, _lines(self.short))
        return ratio(lines.short, lines.total, 0.0)


@dataclass(frozen=True)
class FineWebDuplicateLinesFilter(BoundedFilter):
    r"""Drop texts with too many characters in lines that occurred before.

    Args:
        max_ratio: the share that is still good.
        short: characters of a short line, so that one pass over the lines serves all rules.

    Examples:
        >>> FineWebDuplicateLinesFilter().score_document("so\nso\n")
        0.5
    """

    max_ratio: float = 0.01
    short: int = 30
    _name = "fineweb_duplicate_lines"
    _high = "max_ratio"

    def score(self, signals: Signals) -> Scores:
        lines = signals.of(segments_of, _lines(self.short))
        total = signals.characters.total - signals.of(occurrences, "\n")
        return ratio(lines.repeat_characters, total, 0.0)


@dataclass(frozen=True)
class FineWebListFilter(BoundedFilter):
    r"""Drop texts with too many newlines per word, such as lists.

    Args:
        max_ratio: newlines a word that are still good.
        words: how texts are split into words.

    Examples:
        >>> FineWebListFilter().score_document("one\ntwo\nthree\nfour")
        0.75
    """

    max_ratio: float = 0.3
    words: str = "english"
    _name = "fineweb_list"
    _high = "max_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splitter(self.words)

    def score(self, signals: Signals) -> Scores:
        newlines = signals.of(occurrences, "\n")
        return ratio(newlines, measures.word_traits(signals, self.words).total, 0.0)
