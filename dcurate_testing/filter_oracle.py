"""The rules of the built-in filters in plain Python, one text at a time: what the kernels are held against."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

from dcurate.text import (
    BoilerPlateStringFilter,
    BulletsFilter,
    CommonEnglishWordsFilter,
    EllipsisFilter,
    LongWordFilter,
    MeanWordLengthFilter,
    NonAlphaNumericFilter,
    NumbersFilter,
    ParenthesesFilter,
    PornographicUrlsFilter,
    PunctuationFilter,
    RepeatedLinesByCharFilter,
    RepeatedLinesFilter,
    RepeatedParagraphsByCharFilter,
    RepeatedParagraphsFilter,
    RepeatingDuplicateNGramsFilter,
    RepeatingTopNGramsFilter,
    SignalFilter,
    SubstringFilter,
    SymbolsToWordsFilter,
    UrlsFilter,
    WhiteSpaceFilter,
    WordCountFilter,
    WordsWithoutAlphabetsFilter,
)

BULLETS = ("•", "‣", "⁃", "⁌", "⁍", "∙", "○", "●", "◘", "◦", "⦾", "⦿")
ELLIPSES = ("...", "[...]", "…", "(...)", "[…]", "-»", "read more..", "read more")
COMMON = {"the", "be", "to", "of", "and", "that", "have", "with"}


URL = re.compile(r"https?://(?:[A-Za-z0-9$\-_@.&+/:=?#~]|[!*\(\),]|(?:%[0-9A-Fa-f]{2}))+")
LOOSE_URL = r"https?://\S+"
POLICY = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "privacy overview",
    "use of cookies",
    "use cookies",
    "privacy & cookies policy",
    "privacy and cookies policy",
)


def share(part: float, whole: float, otherwise: float) -> float:
    return part / whole if whole else otherwise


def has_letter(word: str) -> bool:
    return any(character.isalpha() or unicodedata.category(character) == "Nl" for character in word)


def is_symbol(word: str) -> bool:
    return word in ELLIPSES or len(re.findall("#+", word)) / len(word) > 0.5


def lines_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def top_ngram(text: str, n: int) -> float:
    words = text.split()
    if len(words) < n:
        return 1.0
    counts = Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))
    most = max(counts, key=lambda ngram: counts[ngram])
    return (len(text) - len(text.replace(" ".join(most), ""))) / len(text)


def duplicate_ngrams(text: str, n: int, words: list[str] | None = None) -> float:
    words = text.split() if words is None else words
    if len(words) < n:
        return 1.0
    seen, repeated, covered_until = set(), 0, 0
    for at in range(len(words) - n + 1):
        ngram = tuple(words[at : at + n])
        if ngram in seen:
            first = max(at, covered_until)
            repeated += sum(map(len, words[first : at + n])) + min(at + n - first, n - 1)
            covered_until = at + n
        seen.add(ngram)
    return repeated / len(text)


def common_words(text: str, enough: int | None) -> int:
    count = sum(word in COMMON for word in text.split())
    return count if enough is None else min(count, enough)


def of_lines(test: Callable[[str], bool]) -> Callable[[str], float]:
    return lambda text: share(sum(test(line.strip()) for line in lines_of(text)), len(lines_of(text)), 1.0)


def of_words(test: Callable[[str], bool], otherwise: float) -> Callable[[str], float]:
    return lambda text: share(sum(map(test, text.split())), len(text.split()), otherwise)


def of_characters(pattern: str) -> Callable[[str], float]:
    return lambda text: share(len(re.findall(pattern, text)), len(text), 1.0)


def unique_share(parts: Callable[[str], list[str]], size: Callable[[Any], int]) -> Callable[[str], float]:
    return lambda text: share(size(set(parts(text))), size(parts(text)), 0.0)


def characters(parts: Any) -> int:
    return sum(map(len, parts))


def paragraphs(text: str) -> list[str]:
    return text.split("\n\n")


def boilerplate(text: str) -> float:
    parts = [part.lower() for part in paragraphs(text)]
    if any("lorem ipsum" in part for part in parts):
        return 1.0
    return sum(any(phrase in part for phrase in POLICY) for part in parts) / len(parts)


#: Each filter, and what it must score.
RULES: list[tuple[SignalFilter, Callable[[str], float]]] = [
    (NonAlphaNumericFilter(), of_characters(r"[^a-zA-Z0-9\n?!,.]")),
    (NumbersFilter(), of_characters("[0-9]")),
    (WhiteSpaceFilter(), lambda text: share(sum(c in "\t\n\r\b " for c in text), len(text), 1.0)),
    (ParenthesesFilter(), of_characters(r"[{}⟨⟩\[\]()]")),
    (WordCountFilter(), lambda text: len(text.split())),
    (MeanWordLengthFilter(), lambda text: share(characters(text.split()), len(text.split()), 0.0)),
    (LongWordFilter(), lambda text: max(map(len, text.split()), default=1001)),
    (SymbolsToWordsFilter(), of_words(is_symbol, 1.0)),
    (CommonEnglishWordsFilter(), lambda text: common_words(text, 2)),
    (CommonEnglishWordsFilter(stop_at_false=False), lambda text: common_words(text, None)),
    (WordsWithoutAlphabetsFilter(), of_words(has_letter, 0.0)),
    (UrlsFilter(), lambda text: share(characters(URL.findall(text)), len(text), 1.0)),
    (UrlsFilter(url_regex=LOOSE_URL), lambda text: share(characters(re.findall(LOOSE_URL, text)), len(text), 1.0)),
    (PornographicUrlsFilter(), lambda text: int(any("porn" in url for url in URL.findall(text)))),
    (BoilerPlateStringFilter(), boilerplate),
    (SubstringFilter("the", "any"), lambda text: int("the" in text)),
    (SubstringFilter("é", "prefix"), lambda text: int(text.startswith("é"))),
    (SubstringFilter("...", "suffix"), lambda text: int(text.endswith("..."))),
    (BulletsFilter(), of_lines(lambda line: line.startswith(BULLETS))),
    (PunctuationFilter(), of_lines(lambda line: not line.endswith((".", "?", "!", '"', "'")))),
    (EllipsisFilter(), of_lines(lambda line: line.lower().endswith(ELLIPSES))),
    (RepeatedLinesFilter(), unique_share(lines_of, len)),
    (RepeatedLinesByCharFilter(), unique_share(lines_of, characters)),
    (RepeatedParagraphsFilter(), lambda text: unique_share(paragraphs, len)(text) if text.strip() else 0.0),
    (RepeatedParagraphsByCharFilter(), unique_share(paragraphs, characters)),
    *((RepeatingTopNGramsFilter(n=n), lambda text, n=n: top_ngram(text, n)) for n in (1, 2, 3, 4, 7)),
    *((RepeatingDuplicateNGramsFilter(n=n), lambda text, n=n: duplicate_ngrams(text, n)) for n in (1, 2, 5, 6, 10)),
]


def same(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=0, abs_tol=0)
