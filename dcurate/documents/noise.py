"""Words that no one writes: what bad OCR leaves in the layer of text over a scan.

The rules are of the kind of Taghva et al. (2001), "Automatic Removal of Garbage Strings in OCR Text".
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcurate.documents.pdf.page import PdfPage

#: Share of the characters that lie over a picture, and of the page that pictures cover, from which they are a layer
#: over a scan.
LAYER, SCAN = 0.5, 0.65
#: Share of noise among the words of such a layer from which it is left out.
NOISY = 0.14

_WORD = re.compile(r"\S+")
#: Within a word: signs that do not join letters, or a capital or a digit after a small letter.
_ODD = re.compile(r"[|~\\{}<>^]|\w[.,;:!?]+[^\W\d]|[^\W\d_]\d|\d[^\W\d_]{2}")
#: e.g., U.S.A, 2nd, 1990s, A4, 3D, km2, x.y.
_ABBREVIATED = re.compile(
    r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{0,3}|\d+[^\W\d_]{1,3}|[^\W\d_]{1,3}\d+|[^\W\d_]+[’'-].*|.*[-–/].*"
)
#: Signs that scanning leaves, and Latin letters without any that could be a vowel.
_SPECKS = frozenset("|~\\^")
_VOWELS = frozenset("aeiouyıæøœəαεηιουω")
_LEAST_CONSONANTS = 3


def odd_words(text: str) -> float:
    """The share of words that no one writes: with signs or digits between their letters.

    Examples:
        >>> odd_words("a day in 1999 (or so), e.g. at ten"), odd_words("a nr|I.n| d,y 1m1~")
        (0.0, 0.75)
    """
    words = [word for word in _WORD.findall(text) if not _is_address(word)]
    return sum(map(_is_odd, words)) / len(words) if words else 0.0


def without_noise(line: str) -> str:
    """Leave out the words of a line that are noise.

    Examples:
        >>> without_noise("Die ,nmIm.l1,I. wichtigsten m,~~nnrr~ Verträge")
        'Die wichtigsten Verträge'
    """
    words = line.split(" ")
    return " ".join(word for word in words if not word or not _is_noise(word))


@lru_cache(2**14)
def _is_noise(word: str) -> bool:
    if _is_address(word):
        return False
    if _is_odd(word) or not _SPECKS.isdisjoint(word):
        return True
    letters = _core(word)
    if not letters.isalpha():
        return len(word) > 1 and not any(map(str.isalnum, word)) and len(set(word)) > 1
    if letters.isupper() or not ("a" <= letters[0].lower() <= "z"):
        return False
    bases = {unicodedata.normalize("NFD", letter)[0] for letter in letters.lower()}
    return len(letters) >= _LEAST_CONSONANTS and _VOWELS.isdisjoint(bases)


def clear_layer(page: PdfPage) -> None:
    """Leave the noise out of a layer of text over a scan, if much of it is noise, and note its share in the signals.

    Args:
        page: changed in place.
    """
    signals = page.signals
    if signals["text_over_image"] < LAYER or signals["image_share"] < SCAN:
        return
    share = odd_words("\n".join(page.lines))
    if share >= NOISY:
        page.lines = list(map(without_noise, page.lines))
        page.signals = {**signals, "noise_share": round(share, 4)}


def _is_address(word: str) -> bool:
    return word.startswith(("http", "www.")) or "@" in word


def _core(word: str) -> str:
    """A word without the signs around it."""
    places = [place for place, character in enumerate(word) if character.isalnum()]
    return word[places[0] : places[-1] + 1] if places else ""


@lru_cache(2**14)
def _is_odd(word: str) -> bool:
    word = _core(word) or word
    letters = [character for character in word if character.isalpha()]
    if not letters:
        return len(word) > 1 and not any(map(str.isdigit, word)) and len(set(word)) > 1
    inner = sum(before.islower() and after.isupper() for before, after in pairwise(letters))
    return inner > 1 or (len(word) > 2 and _ODD.search(word) is not None and not _ABBREVIATED.fullmatch(word))
