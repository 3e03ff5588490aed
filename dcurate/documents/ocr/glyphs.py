"""Read text whose font has no map to Unicode, or a wrong one, by the shapes of its glyphs.

Each code of such a font still means one glyph. Its picture is compared with those of Latin, Greek and Cyrillic letters
in a few common faces, and the page with its codes replaced is text again. That is faster than OCR, and knows more
letters.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pypdfium2 as pdfium
from PIL import Image
from pypdfium2 import raw

from dcurate.documents.ocr.characters import read_off
from dcurate.documents.pdf.native import Characters

ATLAS = Path(__file__).parents[2] / "bundled" / "glyphs.npz"

#: Pixels of a side of the picture of a glyph.
SIDE = 12
#: Instances of a glyph that are looked at, and characters of a page.
_INSTANCES, _MOST = 3, 10_000
#: What differences in shape, width, height and place are worth: the picture from 0 to 1, the rest in sizes of the font.
_WEIGHTS = 1.0, 0.35, 0.6, 0.6
#: A glyph of another script must fit better by this much.
_MARGIN = 0.03
#: A page is believed when its glyphs differ from letters by less, on average.
_MOST_DIFFERENT = 0.1
#: Pixels a point that a page is drawn with, and its longer side at most.
_SCALE, _LONGEST = 6.0, 6000


class Glyph(NamedTuple):
    """How a glyph looks.

    Args:
        picture: its ink, 0 to 1, within its own bounds; float32 (SIDE * SIDE,).
        shape: the logarithm of its width by its height, its height, and how far it reaches below the baseline, both in
            sizes of the font.
    """

    picture: npt.NDArray[np.float32]
    shape: tuple[float, float, float]


class Deciphered(NamedTuple):
    """A page read by the shapes of its glyphs.

    Args:
        characters: recognised characters, in the form that the layout of pages takes.
        script: script of most of the letters; one of `SCRIPTS`.
        difference: average difference of the glyphs from letters; 0 is none.
    """

    characters: Characters
    script: str
    difference: float


def look(ink: npt.NDArray[np.floating[Any]], size: float, baseline: float) -> Glyph | None:
    """Describe a glyph; None if there is no ink.

    Args:
        ink: 0 to 1, float32 (height, width).
        size: size of the font in pixels.
        baseline: row of the baseline in `ink`.
    """
    rows, columns = np.flatnonzero((ink > 0.35).any(1)), np.flatnonzero((ink > 0.35).any(0))
    if not len(rows):
        return None
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    cut = Image.fromarray(ink[top:bottom, left:right])
    picture = np.asarray(cut.resize((SIDE, SIDE), Image.Resampling.BOX), np.float32).ravel()
    high, wide = bottom - top, right - left
    return Glyph(picture, (float(np.log(wide / high)), float(high / size), float((bottom - baseline) / size)))


class _Atlas(NamedTuple):
    codes: npt.NDArray[np.uint32]
    scripts: npt.NDArray[np.uint8]
    pictures: npt.NDArray[np.float32]
    shapes: npt.NDArray[np.float32]

    def differences(self, glyph: Glyph) -> npt.NDArray[np.float32]:
        """How much a glyph differs from each entry."""
        apart = np.abs(self.shapes - np.array(glyph.shape, np.float32)) @ np.array(_WEIGHTS[1:], np.float32)
        differences: npt.NDArray[np.float32] = np.abs(self.pictures - glyph.picture).mean(1) * _WEIGHTS[0] + apart
        return differences


SCRIPTS = ("", "Latn", "Grek", "Cyrl")


@cache
def _atlas() -> _Atlas:
    with np.load(ATLAS) as file:
        return _Atlas(file["codes"], file["scripts"], file["pictures"].astype(np.float32) / 15, file["shapes"])


class _Read(NamedTuple):
    key: tuple[int, int]
    left: float
    right: float
    base: float
    size: float
    box: tuple[float, float, float, float]
    space: bool


def decipher(page: pdfium.PdfPage, box: Sequence[float]) -> Deciphered | None:
    """Read a page by the shapes of its glyphs.

    Args:
        page: an upright page.
        box: the part of the page that is drawn, in points: left, bottom, right, top.

    Returns:
        What was read; None if the page is not in Latin, Greek or Cyrillic letters of a usual face.
    """
    if page.get_rotation():
        return None
    width, height = page.get_size()
    scale = min(_SCALE, _LONGEST / max(width, height, 1.0))
    read = _characters(page)
    bitmap = page.render(scale=scale, grayscale=True)  # the array shares its memory
    ink = bitmap.to_numpy().reshape(bitmap.height, bitmap.width)
    counts = Counter(character.key for character in read)
    places: defaultdict[tuple[int, int], list[_Read]] = defaultdict(list)
    for character in read:
        if len(places[character.key]) < _INSTANCES:
            places[character.key].append(character)
    glyphs = {key: _glyph(ink, of, scale, box) for key, of in places.items()}
    chosen = _chosen({key: glyph for key, glyph in glyphs.items() if glyph is not None}, counts)
    if chosen is None:
        return None
    names, script, difference = chosen
    return Deciphered(_placed(read, names), script, difference)


def _characters(page: pdfium.PdfPage) -> list[_Read]:
    """The characters that the page has, those that pdfium takes for control characters, too."""
    textpage = page.get_textpage()
    text, characters, space = textpage.raw, list[_Read](), True
    values = [ctypes.c_double() for _ in range(4)]
    x, y, loose = ctypes.c_double(), ctypes.c_double(), raw.FS_RECTF()
    for number in range(min(raw.FPDFText_CountChars(text), _MOST)):
        if raw.FPDFText_IsGenerated(text, number) == 1:
            space = True
            continue
        raw.FPDFText_GetCharBox(text, number, *values)
        raw.FPDFText_GetCharOrigin(text, number, x, y)
        raw.FPDFText_GetLooseCharBox(text, number, loose)
        owner = raw.FPDFText_GetTextObject(text, number)
        font = ctypes.cast(raw.FPDFTextObj_GetFont(owner), ctypes.c_void_p).value or 0
        left, right, bottom, top = (value.value for value in values)
        size = abs(loose.top - loose.bottom) or 1.0
        em = raw.FPDFText_GetFontSize(text, number) or size
        key = font, raw.FPDFText_GetUnicode(text, number)
        characters.append(_Read(key, loose.left, loose.right, -y.value, em, (left, bottom, right, top), space))
        space = False
    textpage.close()
    return characters


def _glyph(ink: npt.NDArray[np.uint8], of: Sequence[_Read], scale: float, box: Sequence[float]) -> Glyph | None:
    """The mean look of some instances of a glyph."""
    looks = []
    for character in of:
        left, bottom, right, top = character.box
        x0, x1 = (left - box[0]) * scale, (right - box[0]) * scale
        y0, y1 = (box[3] - top) * scale, (box[3] - bottom) * scale
        rows = slice(max(int(np.floor(y0)), 0), max(int(np.ceil(y1)), 0))
        cut = ink[rows, max(round(x0), 0) : max(round(x1), 0)]
        glyph = (
            look(
                1 - cut.astype(np.float32) / 255, character.size * scale, (box[3] + character.base) * scale - rows.start
            )
            if cut.size
            else None
        )
        if glyph is not None:
            looks.append(glyph)
    if not looks:
        return None
    shape = np.mean([glyph.shape for glyph in looks], axis=0)
    return Glyph(
        np.mean([glyph.picture for glyph in looks], axis=0),
        (float(shape[0]), float(shape[1]), float(shape[2])),
    )


def _chosen(
    glyphs: dict[tuple[int, int], Glyph], counts: Counter[tuple[int, int]]
) -> tuple[dict[tuple[int, int], int], str, float] | None:
    """The code point of each glyph, the script, and how much glyphs differ from their letters."""
    atlas = _atlas()
    best: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for key, glyph in glyphs.items():
        apart = atlas.differences(glyph)
        best[key] = []
        for script in range(len(SCRIPTS)):
            mine = np.where(atlas.scripts == script, apart, np.inf)
            at = int(mine.argmin())
            best[key].append((float(mine[at]), int(atlas.codes[at])))
    total = sum(counts[key] for key in glyphs)
    if not total:
        return None
    costs = [
        sum(counts[key] * min(candidates[script][0], candidates[0][0]) for key, candidates in best.items()) / total
        for script in range(1, len(SCRIPTS))
    ]
    script = 1 + int(np.argmin(costs))
    if costs[script - 1] > _MOST_DIFFERENT:
        return None
    names = {}
    for key, candidates in best.items():
        closest, latin = min(candidates[script], candidates[0]), candidates[1]
        names[key] = latin[1] if latin[0] < closest[0] - _MARGIN else closest[1]
    return names, SCRIPTS[script], round(costs[script - 1], 4)


#: Letters and digits that look alike.
_LATIN = str.maketrans("АВСЕНІЈКМОРЅТХаесіјорѕухΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "ABCEHIJKMOPSTXaecijopsyxABEZHIKMNOPTYXo")
_DIGITS = str.maketrans("ОоOoΟοЗзІіIl", "000000331111")


#: Digits that capitals look like, and the Cyrillic capitals.
_CAPITALS = str.maketrans("03", "ОЗ")
_DIGIT_FIRST = re.compile(r"^\W*[03](?=[а-яё]{3})")


def mended(word: str, before: str = "") -> str:
    """Decide by the rest of a word what glyphs are that two scripts share, or letters and digits.

    Args:
        word: word as its glyphs were read.
        before: the word before it.

    Examples:
        >>> mended("ВЅkуВ"), mended("197О-х"), mended("Он"), mended("Εrgänzung")
        ('BSkyB', '1970-х', 'Он', 'Ergänzung')
        >>> mended("О,1"), mended("ООО", "10"), mended("3аседания"), mended("°С")
        ('0,1', '000', 'Заседания', '°C')
    """
    mended_word = ""
    as_digits = word.translate(_DIGITS)
    numeric = not any(map(str.isalpha, as_digits)) and (
        any(map(str.isdecimal, word)) or ("00" in as_digits and before[-1:].isdecimal())
    )
    if numeric:
        return as_digits
    word = _DIGIT_FIRST.sub(lambda match: match[0].translate(_CAPITALS), word)
    for at, character in enumerate(word):
        near = mended_word[-1:] + word[at + 1 : at + 2]
        digit = character.translate(_DIGITS)
        is_digit = digit != character and any(map(str.isdecimal, near)) and not any(map(str.islower, near))
        mended_word += digit if is_digit else character
    latin = mended_word.translate(_LATIN)
    letters = [character for character in latin if character.isalpha()]
    has_latin = any(character < "\u0250" and character.isalpha() for character in mended_word) or "°" in mended_word
    return latin if has_latin and all(character < "\u0250" for character in letters) else mended_word


def _placed(read: Sequence[_Read], names: dict[tuple[int, int], int]) -> Characters:
    words, places, flags, space = list[str](), [], [], True
    for glyph in read:
        if glyph.key not in names:  # no ink
            space = True
            continue
        if space or glyph.space:
            words.append("")
        words[-1] += chr(names[glyph.key])
        places.append((glyph.left, glyph.right, glyph.base, glyph.size))
        flags.append(space or glyph.space)
        space = False
    read_words = [mended(word, before) for before, word in pairwise(["", *words])]
    codes = [ord(character) for word in read_words for character in word]
    return read_off(np.array(codes, np.int32), np.array(places, np.float32).reshape(-1, 4), np.array(flags, np.bool_))
