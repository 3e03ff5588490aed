"""Make the pictures of letters that `dcurate.documents.ocr.glyphs` compares glyphs with.

    python -m benchmarks.make_glyphs FONT.ttf ...

Writes dcurate/bundled/glyphs.npz. The bundled file was made of DejaVu Sans, Sans Bold, Sans Condensed, Serif, Serif
Bold and Sans Mono (Bitstream Vera licence) and Noto Mono (OFL-1.1).
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dcurate.documents.ocr.glyphs import ATLAS, SCRIPTS, look

_EM = 96
_RANGES = (
    (0x21, 0x7F),
    (0xA7, 0xA8),
    (0xAB, 0xAC),
    (0xB0, 0xB1),
    (0xBB, 0xBC),
    (0x2013, 0x2015),
    (0x2018, 0x201A),
    (0x201C, 0x201F),
)
_MORE = (
    (0x2026, 0x2027),
    (0x20AC, 0x20AD),
    (0x2116, 0x2117),
    (0x386, 0x38B),
    (0x38C, 0x38D),
    (0x38E, 0x3CF),
    (0x401, 0x460),
    (0xBF, 0x180),
    (0x1EA0, 0x1EFA),
)
_EXTRA = (0x490, 0x491, 0x1A0, 0x1A1, 0x1AF, 0x1B0, 0x218, 0x219, 0x21A, 0x21B)
_COMBINED = "ΆΈΉΊΌΎΏΐΰϊϋάέήίόύώ"


def characters() -> list[str]:
    codes = [code for low, high in (*_RANGES, *_MORE) for code in range(low, high)]
    return sorted({*map(chr, codes), *map(chr, _EXTRA), *_COMBINED} - {chr(0x3A2)})


def script_of(character: str) -> int:
    if not character.isalpha():
        return 0
    name = unicodedata.name(character, "").split()[0]
    return {"LATIN": 1, "GREEK": 2, "CYRILLIC": 3}.get(name, 0)


def main(fonts: Sequence[str]) -> None:
    codes, scripts, pictures, shapes = [], [], [], []
    for path in fonts:
        font = ImageFont.truetype(path, _EM)
        for character in characters():
            picture = Image.new("L", (3 * _EM, 3 * _EM), 0)
            ImageDraw.Draw(picture).text((_EM, 2 * _EM), character, 255, font, anchor="ls")
            found = look(np.asarray(picture, np.float32) / 255, _EM, 2 * _EM)
            if found is not None:
                codes.append(ord(character))
                scripts.append(script_of(character))
                pictures.append(np.round(found.picture * 15).astype(np.uint8))
                shapes.append(found.shape)
    np.savez_compressed(
        ATLAS,
        codes=np.array(codes, np.uint32),
        scripts=np.array(scripts, np.uint8),
        pictures=np.array(pictures),
        shapes=np.array(shapes, np.float32),
    )
    print(f"{len(codes)} glyphs of {SCRIPTS[1:]} and signs: {ATLAS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
