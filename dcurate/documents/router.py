"""Decide for each page of a PDF how its text is best had: from the file, by OCR, by a vision model, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from dcurate.documents.noise import LAYER, SCAN, odd_words
from dcurate.documents.routes import OCR, TEXT
from dcurate.text.declaration import Declaration

#: Signals at which a page starts to look as if it needed OCR, and at which it surely does.
IMAGE_SHARE = 0.35, SCAN
#: Characters of a page: surely enough to be its text, and surely too few.
CHARACTERS = 300, 60
#: Share of characters without a known meaning.
BROKEN_SHARE = 0.05, 0.25
#: Likeness to the closest of 362 languages; and for Han, kana and Hangul, of which there are thousands, the share of
#: characters in everyday use.
LIKENESS = 0.66, 0.57
EVERYDAY = 0.85, 0.65
#: Share of words that no one writes, in a layer of text over a picture: what bad OCR leaves.
ODD_WORDS = 0.06, 0.22
#: Letters from which a language can be recognised.
FEW_LETTERS = 40
#: Characters that are looked at, and those that are compared with languages at a time: a page may be in several.
_SAMPLE, _WINDOW = 4000, 250

#: Han, kana and Hangul with their neighbours, half of them rare; and words in Latin letters.
_EASTERN = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]+"
)
_LATIN = re.compile("[A-Za-z\xaa\xba\xc0-\u024f\u0300-\u036f\u1e00-\u1eff]+")


class Route(NamedTuple):
    """Where a page goes, and why.

    Args:
        way: one of `dcurate.documents.routes.ROUTES`.
        reason: in a few words.
        need: for OCR, from 0 (the text of the file is good) to 1 (it is not there, or of no use).
    """

    way: str
    reason: str
    need: float


def decide(page: Mapping[str, Any], text: str, otherwise: str = OCR) -> Route:
    """Decide where a page goes.

    The need for OCR is that of the strongest of four signs; from 0.5 on, the page goes to `otherwise`:

    * scanned: a picture covers most of the page, and there is hardly any text;
    * broken characters: fonts without a map to Unicode;
    * no language: fonts with a wrong map, whose text is like no language;
    * bad OCR: a layer of text over a picture in which many words are none.

    Args:
        page: signals of the page as `dcurate.documents.pdf.extract_pdf` gives them; `characters`, `image_share`,
            `text_over_image`, `broken_share`, `noise_share` and `by_shapes` are used. A page that was read by the
            shapes of its glyphs has its text, although that of the file is of no use.
        text: text of the page.
        otherwise: where pages go whose text is not in the file.

    Examples:
        >>> page = {"characters": 900, "image_share": 0.0, "text_over_image": 0.0, "broken_share": 0.0}
        >>> decide(page, "All human beings are born free and equal in dignity and rights. " * 10)
        Route(way='text', reason='', need=0.0)
        >>> decide({**page, "characters": 0, "image_share": 0.98}, "")
        Route(way='ocr', reason='scanned', need=1.0)
        >>> decide(page, "Doo kxpdq ehlqjv duh eruq iuhh dqg htxdo lq gljqlwb dqg uljkwv. " * 10).reason
        'no language'
    """
    signs = {
        "scanned": _scanned(page),
        "broken characters": _ramp(page.get("broken_share") or 0.0, *BROKEN_SHARE),
        "no language": no_language(text) or 0.0,
        "bad OCR": _bad_layer(page, text),
    }
    reason = max(signs, key=lambda name: signs[name])
    need = round(signs[reason], 4)
    if page.get("by_shapes") is not None:
        return Route(TEXT, "read by the shapes of glyphs", 1.0)
    if need < 0.5:
        return Route(TEXT, "", need)
    return Route(otherwise, reason, need)


def no_language(text: str) -> float | None:
    """The share of a text that is like no language, 0 to 1; None if there are too few letters to know.

    Examples:
        >>> no_language("Everyone has the right to life, liberty and security of person.")
        0.0
        >>> no_language("Zmzotjnz cvn ocz mdbco oj gdaz, gdwzmot viy nzxpmdot ja kzmnji.") > 0.5
        True
        >>> no_language("12.5 30.1 7") is None
        True
    """
    sample = _sampled(text)
    eastern = [character for run in _EASTERN.findall(sample) for character in run if character.isalpha()]
    non_eastern = _EASTERN.sub(" ", sample) if eastern else sample
    latin = _LATIN.findall(non_eastern)
    non_latin = _LATIN.sub(" ", non_eastern)
    parts = [_unlike(words) for words in (" ".join(latin), " ".join(non_latin.split())) if words]
    if len(eastern) >= FEW_LETTERS:
        usual = sum(map(_everyday().__contains__, eastern)) / len(eastern)
        parts.append((len(eastern), _ramp(usual, *EVERYDAY)))
    letters = sum(count for count, _ in parts)
    return sum(count * share for count, share in parts) / letters if letters else None


def closest_language(text: str) -> str | None:
    """The language that a text is closest to; None if there are too few letters to know.

    Examples:
        >>> closest_language("Everyone has the right to life, liberty and security of person.")
        'en'
    """
    sample = _sampled(text)
    if sum(map(str.isalpha, sample)) < FEW_LETTERS:
        return None
    closest = _profiles().closest(sample)
    return closest.language if closest is not None else None


def _unlike(words: str) -> tuple[int, float]:
    """How many letters of words of one script can be judged, and which share of them is like no language."""
    judged, total = 0, 0.0
    for at in range(0, len(words), _WINDOW):
        window = words[at : at + _WINDOW]
        letters = sum(map(str.isalpha, window))
        if letters >= FEW_LETTERS:
            closest = _profiles().closest(window)
            judged += letters
            total += letters * (_ramp(closest.likeness, *LIKENESS) if closest else 1.0)
    return judged, total / judged if judged else 0.0


@cache
def _everyday() -> frozenset[str]:
    """Kana, and the first levels of the national standards, which have the characters of everyday use."""
    planes = (
        ("gb2312", range(0xB0, 0xD8), 0xA1),
        ("euc_jp", range(0xB0, 0xD0), 0xA1),
        ("big5", range(0xA4, 0xC7), 0x40),
        ("euc_kr", range(0xB0, 0xC9), 0xA1),
    )
    codes = ((bytes((row, cell)), name) for name, rows, first in planes for row in rows for cell in range(first, 0xFF))
    kana = map(chr, [*range(0x3041, 0x3097), *range(0x30A1, 0x3100), 0x3005, 0x3007])
    return frozenset((*kana, *(code.decode(name, "ignore") for code, name in codes)))


def _scanned(page: Mapping[str, Any]) -> float:
    characters = page.get("characters") or 0
    return min(_ramp(page.get("image_share") or 0.0, *IMAGE_SHARE), _ramp(characters, *CHARACTERS))


def _bad_layer(page: Mapping[str, Any], text: str) -> float:
    over, image = page.get("text_over_image") or 0.0, page.get("image_share") or 0.0
    if over < LAYER or image < SCAN:
        return 0.0
    return _ramp(max(odd_words(_sampled(text)), page.get("noise_share") or 0.0), *ODD_WORDS)


def _ramp(value: float, none: float, full: float) -> float:
    """0 at `none`, 1 at `full`, straight between, whichever is larger.

    Examples:
        >>> _ramp(0.5, 0.25, 0.75), _ramp(100, 300, 100), _ramp(0, 1, 2)
        (0.5, 1.0, 0.0)
    """
    return min(max((value - none) / (full - none), 0.0), 1.0)


def _sampled(text: str) -> str:
    """A text, or three parts of a long one."""
    if len(text) <= _SAMPLE:
        return text
    part = _SAMPLE // 3
    middle = (len(text) - part) // 2
    return " ".join((text[:part], text[middle : middle + part], text[-part:]))


@cache
def _profiles() -> Declaration:
    return Declaration()
