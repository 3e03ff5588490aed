"""Filters for words: split by ``str.split``, or by a library for languages without spaces between words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dcurate.text.filter import BoundedFilter, Scores, Share, WordFilter, ratio
from dcurate.text.signals import Signals


@dataclass(frozen=True)
class WordCountFilter(BoundedFilter, WordFilter):
    """Drop texts with too few or too many words.

    Args:
        min_words: the fewest words of a text that stays.
        max_words: the most.

    Examples:
        >>> WordCountFilter().score_document("three short words")
        3
    """

    min_words: int = 50
    max_words: int = 100000
    language: str = "en"
    _name = "word_count"
    _low, _high = "min_words", "max_words"

    def score(self, signals: Signals) -> Scores:
        return self.spaced(signals).words.total


@dataclass(frozen=True)
class MeanWordLengthFilter(BoundedFilter, WordFilter):
    """Drop texts whose words are too short or too long on average; a text without words scores 0.0 (Gopher).

    Args:
        min_mean_word_length: the least mean, in characters, of a text that stays.
        max_mean_word_length: the greatest.

    Examples:
        >>> MeanWordLengthFilter().score_document("an apple")
        3.5
    """

    min_mean_word_length: float = 3
    max_mean_word_length: float = 10
    language: str = "en"
    _name = "mean_word_length"
    _low, _high = "min_mean_word_length", "max_mean_word_length"

    def score(self, signals: Signals) -> Scores:
        words = self.spaced(signals).words
        return ratio(words.characters, words.total, 0.0)


@dataclass(frozen=True)
class LongWordFilter(BoundedFilter, WordFilter):
    """Drop texts with an overlong word, such as minified code; without words, the score is one above the limit (C4).

    Args:
        max_word_length: characters of the longest word of a text that stays, at most.

    Examples:
        >>> LongWordFilter().score_document("an apple")
        5
    """

    max_word_length: int = 1000
    language: str = "en"
    _name = "max_word_length"
    _high = "max_word_length"

    def score(self, signals: Signals) -> Scores:
        words = self.spaced(signals).words
        return np.where(words.total > 0, words.longest, self.max_word_length + 1)


@dataclass(frozen=True)
class SymbolsToWordsFilter(BoundedFilter, WordFilter):
    """Drop texts with too many words that are symbols; a text without words scores 1.0 (Gopher).

    A symbol is an ellipsis mark (``...  [...]  …  (...)  […]  -»``), or a word with more runs of ``#`` than half
    its characters.

    Args:
        max_symbol_to_word_ratio: the greatest share, 0 to 1, that stays.

    Examples:
        >>> SymbolsToWordsFilter().score_document("and so on ...")
        0.25
    """

    max_symbol_to_word_ratio: float = 0.1
    language: str = "en"
    _name = "symbol_to_word"
    _high = "max_symbol_to_word_ratio"

    def score(self, signals: Signals) -> Scores:
        words = self.spaced(signals).words
        return ratio(words.symbolic, words.total, 1.0)


@dataclass(frozen=True)
class CommonEnglishWordsFilter(BoundedFilter):
    """Drop texts with too few of the words the, be, to, of, and, that, have, with, in lower case (Gopher).

    Args:
        min_num_common_words: how many are enough.
        stop_at_false: count no further than that.

    Examples:
        >>> CommonEnglishWordsFilter().score_document("to be or not to be")
        2
        >>> CommonEnglishWordsFilter(stop_at_false=False).score_document("to be or not to be")
        4
    """

    min_num_common_words: int = 2
    stop_at_false: bool = True
    _name = "common_english_words"
    _low = "min_num_common_words"

    def score(self, signals: Signals) -> Scores:
        if not self.stop_at_false:
            return signals.words.common
        return np.minimum(signals.words.common, max(math.ceil(self.min_num_common_words), 0))


@dataclass(frozen=True)
class WordsWithoutAlphabetsFilter(BoundedFilter, WordFilter):
    """Drop texts with too few words that have a letter, of any script; a text without words scores 0.0 (Gopher).

    Args:
        min_words_with_alphabets: the least share, 0 to 1, of words with a letter that stays.

    Examples:
        >>> WordsWithoutAlphabetsFilter().score_document("route 66")
        0.5
    """

    min_words_with_alphabets: Share = 0.8
    language: str = "en"
    _name = "words_without_alphabets"
    _low = "min_words_with_alphabets"

    def score(self, signals: Signals) -> Scores:
        words = self.spaced(signals).words
        return ratio(words.lettered, words.total, 0.0)
