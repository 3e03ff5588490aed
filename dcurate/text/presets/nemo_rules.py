"""NeMo Curator's heuristic filters with the thresholds of its configurations, in their order."""

from __future__ import annotations

from dcurate.text.filter import SignalFilter
from dcurate.text.filters.characters import NonAlphaNumericFilter, NumbersFilter, ParenthesesFilter, WhiteSpaceFilter
from dcurate.text.filters.lines import BulletsFilter, EllipsisFilter, PunctuationFilter
from dcurate.text.filters.phrases import BoilerPlateStringFilter
from dcurate.text.filters.repetition import (
    RepeatedLinesByCharFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsByCharFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
)
from dcurate.text.filters.urls import UrlsFilter
from dcurate.text.filters.words import (
    CommonEnglishWordsFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    SymbolsToWordsFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
)
from dcurate.text.presets.gopher_rules import DUPLICATE, TOP


def nemo_english() -> tuple[SignalFilter, ...]:
    """The 28 filters of ``heuristic_filter_english``; the bundled recipe ``nemo-english`` runs them.

    Examples:
        >>> len(nemo_english()), nemo_english()[0].name
        (28, 'alpha_numeric')
    """
    return (
        NonAlphaNumericFilter(),
        *_pages("en"),
        WordCountFilter(),
        PunctuationFilter(),
        WordsWithoutAlphabetsFilter(),
        CommonEnglishWordsFilter(),
        *_words_and_repeats("en"),
    )


def nemo_non_english(language: str) -> tuple[SignalFilter, ...]:
    """The 25 filters of ``heuristic_filter_non_english``; the bundled recipe ``nemo-non-english`` runs them.

    Args:
        language: ISO 639-1 code; Chinese, Japanese, Korean and Thai need the ``lang`` extra.

    Examples:
        >>> len(nemo_non_english("fr"))
        25
    """
    return (*_pages(language), WordCountFilter(language=language), PunctuationFilter(), *_words_and_repeats(language))


def _pages(language: str) -> tuple[SignalFilter, ...]:
    return (
        SymbolsToWordsFilter(language=language),
        NumbersFilter(),
        UrlsFilter(),
        WhiteSpaceFilter(),
        ParenthesesFilter(),
        BoilerPlateStringFilter(),
        RepeatedLinesFilter(),
        RepeatedParagraphsFilter(),
        RepeatedLinesByCharFilter(),
        RepeatedParagraphsByCharFilter(),
    )


def _words_and_repeats(language: str) -> tuple[SignalFilter, ...]:
    return (
        MeanWordLengthFilter(language=language),
        LongWordFilter(language=language),
        EllipsisFilter(),
        *(RepeatingTopNGramsFilter(n, most, language) for n, most in TOP),
        *(RepeatingDuplicateNGramsFilter(n, most, language) for n, most in DUPLICATE),
        BulletsFilter(),
    )
