"""Filters that drop repetitive texts (Gopher, table A1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.frames.text import encodable
from dcurate.text.filter import BoundedFilter, Scores, Share, SignalFilter, WordFilter, ratio
from dcurate.text.segmentation import needs_splitting, words_in
from dcurate.text.signals import Needs, Signals


@dataclass(frozen=True)
class RepeatedLinesFilter(BoundedFilter):
    r"""Drop texts with too few unique lines. The argument is the minimum unique share (NeMo's name). No lines: 0.0.

    Args:
        max_repeated_line_fraction: the least share of different lines, 0 to 1, that stays.

    Examples:
        >>> RepeatedLinesFilter().score_document("so\nso")
        0.5
    """

    max_repeated_line_fraction: Share = 0.7
    _name = "repeated_lines"
    _low = "max_repeated_line_fraction"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.lines.unique, signals.lines.total, 0.0)


@dataclass(frozen=True)
class RepeatedLinesByCharFilter(BoundedFilter):
    r"""Drop texts whose unique lines have too few of the characters of all lines. No lines: 0.0.

    Args:
        max_repeated_lines_char_ratio: the least share of characters in different lines, 0 to 1, that stays.

    Examples:
        >>> RepeatedLinesByCharFilter().score_document("aaa\nb\nb")
        0.8
    """

    max_repeated_lines_char_ratio: Share = 0.8
    _name = "repeated_lines_char"
    _low = "max_repeated_lines_char_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.lines.unique_characters, signals.lines.characters, 0.0)


@dataclass(frozen=True)
class RepeatedParagraphsFilter(BoundedFilter):
    r"""Drop texts with too few unique paragraphs. The argument is the minimum unique share. A blank text: 0.0.

    Args:
        max_repeated_paragraphs_ratio: the least share of different paragraphs, 0 to 1, that stays.

    Examples:
        >>> RepeatedParagraphsFilter().score_document("so\n\nso")
        0.5
    """

    max_repeated_paragraphs_ratio: Share = 0.7
    _name = "repeated_paragraphs"
    _low = "max_repeated_paragraphs_ratio"

    def score(self, signals: Signals) -> Scores:
        paragraphs = signals.paragraphs
        return np.where(paragraphs.blank, 0.0, ratio(paragraphs.unique, paragraphs.total, 0.0))


@dataclass(frozen=True)
class RepeatedParagraphsByCharFilter(BoundedFilter):
    r"""Drop texts whose unique paragraphs have too few of all characters. No characters: 0.0.

    Args:
        max_repeated_paragraphs_char_ratio: the least share of characters in different paragraphs, 0 to 1, that stays.

    Examples:
        >>> RepeatedParagraphsByCharFilter().score_document("aaa\n\nb\n\nb")
        0.8
    """

    max_repeated_paragraphs_char_ratio: Share = 0.8
    _name = "repeated_paragraphs_char"
    _low = "max_repeated_paragraphs_char_ratio"

    def score(self, signals: Signals) -> Scores:
        return ratio(signals.paragraphs.unique_characters, signals.paragraphs.characters, 0.0)


@dataclass(frozen=True)
class RepeatingTopNGramsFilter(BoundedFilter, WordFilter):
    """Drop texts that shrink too much when their most frequent word n-gram is removed.

    The n-gram's words are joined by one space and removed wherever that string occurs, inside words too. Of n-grams
    equally frequent the one that occurs first counts. A text of fewer than n words scores 1.0. Where a library splits
    the words (see `WordFilter`), the n-gram is removed as it is written at its first occurrence, without
    spaces between the words.

    Args:
        max_repeating_ngram_ratio: the greatest share, 0 to 1, that stays.

    Examples:
        >>> RepeatingTopNGramsFilter(n=2).score_document("so it goes and so it went")
        0.4
    """

    pays_on_gpu: ClassVar[bool] = True

    n: int = 2
    max_repeating_ngram_ratio: Share = 0.2
    language: str = "en"
    _high = "max_repeating_ngram_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_size(self, self.n)

    @property
    def name(self) -> str:
        return f"repeating_top_{self.n}grams"

    @property
    def needs(self) -> Needs:
        return Needs.of(removed=0 if needs_splitting(self.language) else self.n)

    def score(self, signals: Signals) -> Scores:
        if not needs_splitting(self.language):
            return _share(signals.ngrams.removed[self.n], signals)
        lines = self.spaced(signals).texts()
        removed = [
            _removed(encodable(text), words_in(line), self.n) for text, line in zip(signals.texts(), lines, strict=True)
        ]
        return _share(np.array(removed, np.int64), signals)


@dataclass(frozen=True)
class RepeatingDuplicateNGramsFilter(BoundedFilter, WordFilter):
    """Drop texts with too many word n-grams that occurred before.

    Characters of repeated n-grams and the spaces in them are counted, none twice. A text of fewer than n words
    scores 1.0.

    Args:
        max_repeating_duplicate_ngram_ratio: the greatest share, 0 to 1, that stays.

    Examples:
        >>> RepeatingDuplicateNGramsFilter(n=2).score_document("so it goes so it went")
        0.23809523809523808
    """

    pays_on_gpu: ClassVar[bool] = True

    n: int = 2
    max_repeating_duplicate_ngram_ratio: Share = 0.2
    language: str = "en"
    _high = "max_repeating_duplicate_ngram_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_size(self, self.n)

    @property
    def name(self) -> str:
        return f"repeating_dup_{self.n}gram"

    @property
    def needs(self) -> Needs:
        return Needs.of(repeated=self.n)

    def score(self, signals: Signals) -> Scores:
        return _share(self.spaced(signals).ngrams.repeated[self.n], signals)


def _share(characters: npt.NDArray[np.int64], signals: Signals) -> Scores:
    return np.where(characters < 0, 1.0, ratio(characters, signals.characters.total, 1.0))


def _removed(text: str, words: list[str], n: int) -> int:
    """Characters covered by the most frequent n-gram, as first written in the text; -1 for fewer than n words."""
    if len(words) < n:
        return -1
    grams = list(zip(*(words[step:] for step in range(n)), strict=False))
    counts = Counter(grams)
    best = grams.index(max(counts, key=counts.__getitem__))
    begin = stop = 0
    for place, word in enumerate(words[: best + n]):
        at = text.find(word, stop)
        begin = at if place == best else begin
        stop = at + len(word)
    return text.count(text[begin:stop]) * (stop - begin)


def _check_size(rule: SignalFilter, n: int) -> None:
    if n < 1:
        raise PipelineError(f"{type(rule).__name__}: n={n} must be at least 1")
