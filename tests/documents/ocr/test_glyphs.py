from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dcurate.documents.ocr import glyphs
from dcurate.documents.ocr.glyphs import SCRIPTS, Glyph, look, mended

TEXTS = {
    "Cyrl": "Весной она подходит к берегу, где её ждут лодки из деревень.",
    "Grek": "Την άνοιξη πλησιάζει στην ακτή, όπου την περιμένουν βάρκες.",
    "Latn": "In the spring they come close to the coast, où la forêt finit.",
}


def drawn(text: str, noise: float) -> dict[tuple[int, int], Glyph]:
    """The glyphs of a text under codes of their own, a bit different from those of the atlas."""
    atlas, rng = glyphs._atlas(), np.random.default_rng(0)
    found = {}
    for number, character in enumerate(sorted(set(text) - {" "})):
        at = int(np.flatnonzero(atlas.codes == ord(character))[0])
        picture = np.clip(atlas.pictures[at] + rng.normal(0, noise, atlas.pictures[at].shape), 0, 1)
        wide, high, low = map(float, atlas.shapes[at])
        found[1, 1000 + number] = Glyph(picture.astype(np.float32), (wide, high, low))
    return found


@pytest.mark.parametrize("script", TEXTS)
def test_glyphs_are_recognised_whatever_their_codes(script: str) -> None:
    text = TEXTS[script]
    codes = {character: (1, 1000 + number) for number, character in enumerate(sorted(set(text) - {" "}))}
    counts = Counter(codes[character] for character in text if character != " ")
    chosen = glyphs._chosen(drawn(text, 0.05), counts)
    assert chosen is not None
    names, found, difference = chosen
    assert found == script
    assert 0 < difference < 0.1
    words = " ".join(mended("".join(chr(names[codes[letter]]) for letter in word)) for word in text.split())
    assert words == text


def test_glyphs_of_no_known_script_are_refused() -> None:
    rng = np.random.default_rng(1)
    noise = {(1, code): Glyph(rng.random(144, np.float32), (0.0, 0.7, 0.0)) for code in range(30)}
    assert glyphs._chosen(noise, Counter(dict.fromkeys(noise, 5))) is None
    assert glyphs._chosen({}, Counter()) is None


def test_a_glyph_looks_the_same_at_any_size() -> None:
    ink = np.zeros((60, 40), np.float32)
    ink[10:50, 8:14] = ink[10:16, 8:32] = 1
    small, large = look(ink, 50, 50), look(np.repeat(np.repeat(ink, 3, 0), 3, 1), 150, 150)
    assert small is not None
    assert large is not None
    assert small.shape == pytest.approx(large.shape)
    assert np.abs(small.picture - large.picture).mean() < 0.02
    assert look(np.zeros((5, 5), np.float32), 10, 5) is None


def test_the_atlas_has_every_script() -> None:
    assert set(np.unique(glyphs._atlas().scripts)) == set(range(len(SCRIPTS)))
