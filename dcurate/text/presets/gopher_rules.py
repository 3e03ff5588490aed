"""Gopher's quality and repetition rules (Rae et al., 2021, section A.1) as implemented by six teams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from dcurate.errors import PipelineError, nearest
from dcurate.kernels.repeats import COVERED, EVERY, SKIPPING, Counting
from dcurate.kernels.segments import LINES, NEWLINE, NEWLINES, TWO, TWO_OR_MORE, Cut
from dcurate.text.filter import SignalFilter
from dcurate.text.filters.gopher import (
    STOP_WORDS,
    GopherBulletsFilter,
    GopherDuplicateLinesFilter,
    GopherDuplicateNgramsFilter,
    GopherLettersFilter,
    GopherLineEllipsesFilter,
    GopherStopWordsFilter,
    GopherSymbolsFilter,
    GopherTopNgramFilter,
    GopherWordCountFilter,
    GopherWordLengthFilter,
    Whole,
)
from dcurate.text.measures import Grams, Lines

Variant = Literal["paper", "datatrove", "dolma_v1", "dolma_v2", "dclm", "redpajama"]

Filters = tuple[SignalFilter, ...]
Limits = Sequence[tuple[int, float]]

#: Largest shares of the most frequent n-gram and of repeated n-grams, by n (table A1).
TOP: Limits = ((2, 0.20), (3, 0.18), (4, 0.16))
DUPLICATE: Limits = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))


def gopher(variant: Variant = "paper") -> Filters:
    """Gopher's rules as applied by one team, in its order: quality and repetition.

    Args:
        variant: ``paper``, where the paper is open the plainest reading of it; ``datatrove`` (0.10, FineWeb's order);
            ``dolma_v1`` and ``dolma_v2``, Dolma's taggers with the thresholds of its 1.5 and 1.6 mixes; ``dclm``, as
            DCLM reproduces RefinedWeb; ``redpajama``, RedPajama-Data v2's signals with the paper's thresholds.

    Raises:
        PipelineError: another variant.

    Examples:
        >>> [rule.name for rule in gopher("dclm")[:3]]
        ['gopher_word_count', 'gopher_word_length', 'gopher_symbols']
    """
    if variant == "datatrove":
        return gopher_repetition(variant) + gopher_quality(variant)
    return gopher_quality(variant) + gopher_repetition(variant)


def gopher_quality(variant: Variant = "paper") -> Filters:
    """Gopher's quality rules: words, symbols, bullets, ellipses, letters, stop words. See `gopher`."""
    return {
        "paper": _paper_quality,
        "datatrove": datatrove_quality,
        "dolma_v1": lambda: _dolma_quality(blank=True),
        "dolma_v2": lambda: _dolma_quality(blank=False),
        "dclm": _dclm_quality,
        "redpajama": _redpajama_quality,
    }[_known(variant)]()


def gopher_repetition(variant: Variant = "paper") -> Filters:
    """Gopher's repetition rules: repeated lines, paragraphs and n-grams. See `gopher`."""
    return {
        "paper": _paper_repetition,
        "datatrove": datatrove_repetition,
        "dolma_v1": lambda: _dolma_repetition(blank=True),
        "dolma_v2": lambda: _dolma_repetition(blank=False),
        "dclm": _dclm_repetition,
        "redpajama": _redpajama_repetition,
    }[_known(variant)]()


def _known(variant: str) -> str:
    if variant not in get_args(Variant):
        raise PipelineError(f"unknown variant {variant!r} of Gopher{nearest(variant, get_args(Variant))}")
    return variant


def _ngrams(
    grams: Grams, top: Limits, duplicate: Limits, per: tuple[Whole, Whole], digits: int | None = None
) -> Filters:
    return (
        *(GopherTopNgramFilter(n, most, grams, per[0], digits) for n, most in top),
        *(GopherDuplicateNgramsFilter(n, most, grams, per[1], digits) for n, most in duplicate),
    )


# The paper


def _paper_quality() -> Filters:
    lines = Lines(Cut(NEWLINE, trimmed=False, stripped=False, blank=False), ("•", "-"), ("...", "…"), loose=True)
    return (
        GopherWordCountFilter(),
        GopherWordLengthFilter(),
        GopherSymbolsFilter(("#",)),
        GopherSymbolsFilter(("...", "…")),
        GopherBulletsFilter(lines),
        GopherLineEllipsesFilter(lines),
        GopherLettersFilter(),
        GopherStopWordsFilter(),
    )


def _paper_repetition() -> Filters:
    lines = Lines(Cut(NEWLINE, trimmed=False, stripped=False, blank=False))
    paragraphs = Lines(Cut(TWO_OR_MORE, trimmed=True, stripped=False, blank=False))
    grams = Grams("whitespace", Counting(joined=False, duplicates=COVERED, longest=False, spaced=False, singles=False))
    return (
        GopherDuplicateLinesFilter(lines, 0.30),
        GopherDuplicateLinesFilter(paragraphs, 0.30, "paragraphs"),
        GopherDuplicateLinesFilter(lines, 0.20, characters=True),
        GopherDuplicateLinesFilter(paragraphs, 0.20, "paragraphs", characters=True),
        *_ngrams(grams, TOP, DUPLICATE, ("words", "words")),
    )


# datatrove


def datatrove_quality(
    word_length: tuple[float, float] = (3, 10),
    letters: float = 0.8,
    stop_words: Sequence[str] = STOP_WORDS,
    words: str = "english",
) -> Filters:
    """The ``GopherQualityFilter`` of datatrove, with the settings that FineWeb-2 changes."""
    lines = Lines(Cut(LINES, trimmed=False, stripped=False, blank=True), ("•", "-"), ("...", "…"), loose=True)
    return (
        GopherWordCountFilter(words=words, worded=True),
        GopherWordLengthFilter(*word_length, words=words, worded=True),
        GopherSymbolsFilter(("#",), words=words),
        GopherSymbolsFilter(("...", "…"), words=words),
        GopherBulletsFilter(lines),
        GopherLineEllipsesFilter(lines),
        GopherLettersFilter(letters, words=words),
        GopherStopWordsFilter(stop_words=tuple(stop_words), words=words),
    )


def datatrove_repetition(
    lines_only: float | None = None, top: Limits = TOP, duplicate: Limits = DUPLICATE, words: str = "english"
) -> Filters:
    """The ``GopherRepetitionFilter`` of datatrove, with the settings that FineWeb-2 changes.

    Args:
        lines_only: the largest share of duplicate lines where paragraphs and characters are not looked at, or None.
        top: largest shares of the most frequent n-gram, by n.
        duplicate: largest shares of repeated n-grams, by n.
        words: how texts are split into words.
    """
    lines = Lines(Cut(NEWLINES, trimmed=False, stripped=False, blank=True))
    paragraphs = Lines(Cut(TWO_OR_MORE, trimmed=True, stripped=False, blank=True))
    how = Counting(joined=True, duplicates=SKIPPING, longest=False, spaced=True, singles=True)
    grams = Grams(words, how, tuple(n for n, _ in top), tuple(n for n, _ in duplicate))
    segments: Filters = (
        GopherDuplicateLinesFilter(paragraphs, 0.30, "paragraphs"),
        GopherDuplicateLinesFilter(paragraphs, 0.20, "paragraphs", characters=True),
        GopherDuplicateLinesFilter(lines, 0.30),
        GopherDuplicateLinesFilter(lines, 0.20, characters=True),
    )
    if lines_only is not None:
        segments = (GopherDuplicateLinesFilter(lines, lines_only),)
    return segments + _ngrams(grams, top, duplicate, ("text", "text"))


# Dolma: scores are rounded to five decimals when they are stored, and compared then


def _dolma_lines(blank: bool) -> Lines:
    cut = Cut(NEWLINE if blank else NEWLINES, trimmed=False, stripped=False, blank=True)
    return Lines(cut, ("*", "-"), ("…",))


def _dolma_quality(blank: bool) -> Filters:
    lines = _dolma_lines(blank)
    return (
        GopherWordCountFilter(),
        GopherWordLengthFilter(median=True, digits=5),
        GopherSymbolsFilter((), digits=5),
        GopherLettersFilter(digits=5),
        GopherStopWordsFilter(different=False),
        GopherBulletsFilter(lines, digits=5),
        GopherLineEllipsesFilter(lines, digits=5),
    )


def _dolma_repetition(blank: bool) -> Filters:
    """Dolma's mixes misspell the rules on the most frequent n-gram, so these never drop a document."""
    lines = _dolma_lines(blank)
    grams = Grams("whitespace", Counting(joined=False, duplicates=EVERY, longest=False, spaced=False, singles=True), ())
    return (
        GopherDuplicateLinesFilter(lines, 0.30, copies=True, digits=5),
        GopherDuplicateLinesFilter(lines, 0.30, characters=True, copies=True, per="words", digits=5),
        *_ngrams(grams, (), DUPLICATE, ("words", "ngrams"), 5),
    )


# DCLM


def _dclm_quality() -> Filters:
    cut = Cut(NEWLINE, trimmed=False, stripped=True, blank=False)
    lines = Lines(cut, ("●", "•", "*", "-"), ("...", ". . .", "…"))
    return (
        GopherWordCountFilter(words="fasttext"),
        GopherWordLengthFilter(),
        GopherSymbolsFilter(("#", "...", ". . .", "…")),
        GopherBulletsFilter(lines),
        GopherLineEllipsesFilter(lines),
        GopherLettersFilter(),
        GopherStopWordsFilter(different=False, ignore_case=True),
    )


def _dclm_repetition() -> Filters:
    lines = Lines(Cut(NEWLINE, trimmed=False, stripped=True, blank=False))
    paragraphs = Lines(Cut(TWO, trimmed=False, stripped=True, blank=False))
    grams = Grams("unicode", Counting(joined=False, duplicates=COVERED, longest=True, spaced=False, singles=False))
    return (
        GopherDuplicateLinesFilter(lines, 0.30, copies=True),
        GopherDuplicateLinesFilter(paragraphs, 0.30, "paragraphs", copies=True),
        GopherDuplicateLinesFilter(lines, 0.20, characters=True, copies=True, per="lines"),
        GopherDuplicateLinesFilter(paragraphs, 0.20, "paragraphs", characters=True, copies=True, per="lines"),
        *_ngrams(grams, TOP, DUPLICATE, ("words", "words")),
    )


# RedPajama: signals are rounded to eight decimals

_BULLETS = ("•", "‣", "▶", "◀", "◦", "■", "□", "▪", "▫", "–")


def _redpajama_quality() -> Filters:
    lines = Lines(Cut(NEWLINE, trimmed=False, stripped=False, blank=True), _BULLETS, ("...", "…"), loose=True)
    return (
        GopherWordCountFilter(words="normalized"),
        GopherWordLengthFilter(words="normalized", digits=8),
        GopherSymbolsFilter(("#", "...", "…"), words="wordpunct", digits=8),
        GopherBulletsFilter(lines, digits=8),
        GopherLineEllipsesFilter(lines, digits=8),
        GopherLettersFilter(words="wordpunct", ascii_only=True, digits=8),
        GopherStopWordsFilter(words="normalized"),
    )


def _redpajama_repetition() -> Filters:
    grams = Grams("normalized", Counting(joined=False, duplicates=COVERED, longest=False, spaced=False, singles=False))
    return _ngrams(grams, TOP, DUPLICATE, ("words", "words"), 8)
