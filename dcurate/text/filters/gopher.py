"""Gopher's rules (Rae et al., 2021), with the open choices as parameters; `dcurate.text.presets` sets them.

Every rule defines which words, lines or n-grams it counts, how, and per what. The share of an empty text is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dcurate.errors import PipelineError
from dcurate.kernels.occurrences import occurrences
from dcurate.text import measures
from dcurate.text.filter import BoundedFilter, Scores, SignalFilter, ratio
from dcurate.text.lexicon import TRAITS, check_splitter
from dcurate.text.measures import Grams, Lines, segments_of
from dcurate.text.signals import Signals

#: The English stop words; a text should have two of them.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")

Whole = Literal["text", "lines", "words", "ngrams"]


@dataclass(frozen=True)
class GopherWordCountFilter(BoundedFilter):
    """Drop texts with too few or too many words.

    Args:
        words: how texts are split into words: one of `dcurate.text.lexicon.SPLITTERS`.
        worded: whether words that are nothing but punctuation and symbols are left out.

    Examples:
        >>> GopherWordCountFilter(words="english").score_document("Don't stop.")
        4
        >>> GopherWordCountFilter(words="english", worded=True).score_document("Don't stop.")
        3
    """

    min_words: int = 50
    max_words: int = 100000
    words: str = "whitespace"
    worded: bool = False
    _name = "gopher_word_count"
    _low, _high = "min_words", "max_words"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splitter(self.words)

    def score(self, signals: Signals) -> Scores:
        words = measures.word_traits(signals, self.words)
        return words.having[:, _trait("worded")] if self.worded else words.total


@dataclass(frozen=True)
class GopherWordLengthFilter(BoundedFilter):
    """Drop texts whose words are too short or too long on average.

    Args:
        words: how texts are split into words.
        worded: whether words that are nothing but punctuation and symbols are left out.
        median: the median length counts, not the mean.
        digits: decimals that the score is rounded to, or None.

    Examples:
        >>> GopherWordLengthFilter().score_document("an apple")
        3.5
        >>> GopherWordLengthFilter(median=True).score_document("a b cde")
        1.0
    """

    min_length: float = 3
    max_length: float = 10
    words: str = "whitespace"
    worded: bool = False
    median: bool = False
    digits: int | None = None
    _name = "gopher_word_length"
    _low, _high = "min_length", "max_length"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splitter(self.words)

    def score(self, signals: Signals) -> Scores:
        words = measures.word_traits(signals, self.words)
        if self.median:
            return _rounded(words.median, self.digits)
        if self.worded:
            worded = _trait("worded")
            return _rounded(ratio(words.having_characters[:, worded], words.having[:, worded], 0.0), self.digits)
        return _rounded(ratio(words.characters, words.total, 0.0), self.digits)


@dataclass(frozen=True)
class GopherSymbolsFilter(BoundedFilter):
    """Drop texts with too many symbols per word.

    Args:
        symbols: the strings to count anywhere; empty to count words that contain ``#`` or ``…``.
        words: how texts are split into words.
        digits: decimals that the score is rounded to, or None.

    Examples:
        >>> GopherSymbolsFilter(symbols=("...",)).score_document("and so on...")
        0.3333333333333333
    """

    symbols: tuple[str, ...] = ("#",)
    max_ratio: float = 0.1
    words: str = "whitespace"
    digits: int | None = None
    _high = "max_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splitter(self.words)
        object.__setattr__(self, "symbols", tuple(self.symbols))

    @property
    def name(self) -> str:
        return {("#",): "gopher_hashes", ("...", "…"): "gopher_ellipses"}.get(self.symbols, "gopher_symbols")

    def score(self, signals: Signals) -> Scores:
        words = measures.word_traits(signals, self.words)
        if not self.symbols:
            return _rounded(ratio(words.having[:, _trait("marked")], words.total, 0.0), self.digits)
        counts = np.sum([signals.of(occurrences, symbol) for symbol in self.symbols], axis=0)
        return _rounded(ratio(counts, words.total, 0.0), self.digits)


@dataclass(frozen=True)
class GopherBulletsFilter(BoundedFilter):
    r"""Drop texts with too many lines that begin with a bullet.

    Args:
        lines: the definition of a line, and the bullets.
        digits: decimals that the score is rounded to, or None.

    Examples:
        >>> from dcurate.kernels.segments import NEWLINE, Cut
        >>> lines = Lines(Cut(NEWLINE, trimmed=False, stripped=False, blank=True), begins=("-",))
        >>> GopherBulletsFilter(lines).score_document("- milk\nand more")
        0.5
    """

    lines: Lines
    max_ratio: float = 0.9
    digits: int | None = None
    _name = "gopher_bullets"
    _high = "max_ratio"

    def score(self, signals: Signals) -> Scores:
        lines = signals.of(segments_of, self.lines)
        return _rounded(ratio(lines.beginning, lines.total, 0.0), self.digits)


@dataclass(frozen=True)
class GopherLineEllipsesFilter(BoundedFilter):
    r"""Drop texts with too many lines that end with an ellipsis.

    Args:
        lines: the definition of a line, and the forms of an ellipsis.
        digits: decimals that the score is rounded to, or None.

    Examples:
        >>> from dcurate.kernels.segments import NEWLINE, Cut
        >>> lines = Lines(Cut(NEWLINE, trimmed=False, stripped=False, blank=True), ends=("…",))
        >>> GopherLineEllipsesFilter(lines).score_document("so…\nor not")
        0.5
    """

    lines: Lines
    max_ratio: float = 0.3
    digits: int | None = None
    _name = "gopher_line_ellipses"
    _high = "max_ratio"

    def score(self, signals: Signals) -> Scores:
        lines = signals.of(segments_of, self.lines)
        return _rounded(ratio(lines.ending, lines.total, 0.0), self.digits)


@dataclass(frozen=True)
class GopherLettersFilter(BoundedFilter):
    """Drop texts with too few words that have a letter.

    Args:
        words: how texts are split into words.
        ascii_only: only ``[a-zA-Z]`` are letters.
        digits: decimals that the score is rounded to, or None.

    Examples:
        >>> GopherLettersFilter().score_document("route 66")
        0.5
    """

    min_ratio: float = 0.8
    words: str = "whitespace"
    ascii_only: bool = False
    digits: int | None = None
    _name = "gopher_letters"
    _low = "min_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splitter(self.words)

    def score(self, signals: Signals) -> Scores:
        words = measures.word_traits(signals, self.words)
        trait = _trait("ascii_lettered" if self.ascii_only else "lettered")
        return _rounded(ratio(words.having[:, trait], words.total, 0.0), self.digits)


@dataclass(frozen=True)
class GopherStopWordsFilter(BoundedFilter):
    """Drop texts with too few stop words.

    Args:
        min_words: how many are enough.
        stop_words: the words, written as they count.
        words: how texts are split into words.
        different: a word that occurs again does not count again.
        ignore_case: upper and lower case count alike.

    Examples:
        >>> GopherStopWordsFilter().score_document("To be or not to be")
        2
    """

    min_words: int = 2
    stop_words: tuple[str, ...] = STOP_WORDS
    words: str = "whitespace"
    different: bool = True
    ignore_case: bool = False
    _name = "gopher_stop_words"
    _low = "min_words"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splitter(self.words)
        object.__setattr__(self, "stop_words", tuple(self.stop_words))

    def score(self, signals: Signals) -> Scores:
        matches = measures.words_sought(signals, self.words, self.stop_words, self.ignore_case)
        return matches.different if self.different else matches.total


@dataclass(frozen=True)
class GopherDuplicateLinesFilter(BoundedFilter):
    r"""Drop texts with too many repeated lines or paragraphs.

    Args:
        lines: the definition of a line or paragraph.
        max_ratio: the share that is still good.
        unit: ``lines`` or ``paragraphs``, for the name.
        characters: characters are counted, not lines.
        copies: all copies count, not only those after the first.
        per: the denominator: characters of the ``text``, of all ``lines``, or of its ``words``.
        digits: decimals that the score is rounded to, or None.

    Examples:
        >>> from dcurate.kernels.segments import NEWLINE, Cut
        >>> lines = Lines(Cut(NEWLINE, trimmed=False, stripped=False, blank=True))
        >>> GopherDuplicateLinesFilter(lines).score_document("so\nso")
        0.5
        >>> GopherDuplicateLinesFilter(lines, copies=True).score_document("so\nso")
        1.0
    """

    lines: Lines
    max_ratio: float = 0.3
    unit: Literal["lines", "paragraphs"] = "lines"
    characters: bool = False
    copies: bool = False
    per: Whole = "text"
    digits: int | None = None
    _high = "max_ratio"

    @property
    def name(self) -> str:
        return f"gopher_duplicate_{self.unit}" + ("_characters" if self.characters else "")

    def score(self, signals: Signals) -> Scores:
        lines = signals.of(segments_of, self.lines)
        if not self.characters:
            return _rounded(ratio(lines.copies if self.copies else lines.repeats, lines.total, 0.0), self.digits)
        counted = lines.copy_characters if self.copies else lines.repeat_characters
        if self.per == "lines":
            total = lines.characters
        elif self.per == "words":
            total = measures.word_traits(signals, "whitespace").characters
        else:
            total = signals.characters.total
        return _rounded(ratio(counted, np.maximum(total, 1) if self.per == "words" else total, 0.0), self.digits)


@dataclass(frozen=True)
class GopherTopNgramFilter(BoundedFilter):
    """Drop texts dominated by their most frequent word n-gram.

    Args:
        n: words of the n-gram.
        max_ratio: the share that is still good.
        grams: how n-grams are counted; ``n`` is one of its ``tops``.
        per: the denominator: characters of the ``text`` or of its ``words``.
        digits: decimals that the score is rounded to, or None.

    Raises:
        PipelineError: ``n`` is not among the sizes of ``grams``.
    """

    pays_on_gpu: ClassVar[bool] = True

    n: int
    max_ratio: float
    grams: Grams
    per: Whole = "text"
    digits: int | None = None
    _high = "max_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_grams(self, self.n, self.grams, self.grams.tops)

    @property
    def name(self) -> str:
        return f"gopher_top_{self.n}gram"

    def score(self, signals: Signals) -> Scores:
        top = measures.repeats(signals, self.grams).top[:, self.grams.tops.index(self.n)]
        return _rounded(ratio(top, _whole(signals, self.per, self.grams), 0.0), self.digits)


@dataclass(frozen=True)
class GopherDuplicateNgramsFilter(BoundedFilter):
    """Drop texts with too many repeated word n-grams.

    Args:
        n: words of the n-grams.
        max_ratio: the share that is still good.
        grams: how n-grams are counted; ``n`` is one of its ``duplicates``.
        per: the denominator: characters of the ``text``, of its ``words`` or of all its ``ngrams``.
        digits: decimals that the score is rounded to, or None.

    Raises:
        PipelineError: ``n`` is not among the sizes of ``grams``.
    """

    pays_on_gpu: ClassVar[bool] = True

    n: int
    max_ratio: float
    grams: Grams
    per: Whole = "text"
    digits: int | None = None
    _high = "max_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_grams(self, self.n, self.grams, self.grams.duplicates)

    @property
    def name(self) -> str:
        return f"gopher_duplicate_{self.n}grams"

    def score(self, signals: Signals) -> Scores:
        ngrams = measures.repeats(signals, self.grams)
        place = len(self.grams.tops) + self.grams.duplicates.index(self.n)
        total = ngrams.total[:, place] if self.per == "ngrams" else _whole(signals, self.per, self.grams)
        return _rounded(ratio(ngrams.repeated[:, place], total, 0.0), self.digits)


def _whole(signals: Signals, per: Whole, grams: Grams) -> Scores:
    return measures.word_traits(signals, grams.words).characters if per == "words" else signals.characters.total


def _trait(name: str) -> int:
    return TRAITS.index(name)


def _rounded(scores: Scores, digits: int | None) -> Scores:
    return scores if digits is None else np.round(scores, digits)


def _check_grams(rule: SignalFilter, n: int, grams: Grams, sizes: tuple[int, ...]) -> None:
    check_splitter(grams.words)
    if n not in sizes:
        raise PipelineError(f"{type(rule).__name__}: n={n} is not among the sizes {sizes} that grams= counts")
