from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from dcurate import PipelineError
from dcurate.documents import PageOcr
from dcurate.media.ocr.files import model_files
from tests.documents.ocr.conftest import TEXT, page, pixels


def test_text_is_read_with_its_places(ocr: PageOcr) -> None:
    found = ocr.read(pixels(page()))
    words = found.words()
    assert " ".join(word.text for word in words) == " ".join(TEXT)
    assert (found.turned, found.skew_degrees) == (0, 0.0)
    assert found.confidence > 0.9
    first, last = words[0], words[-1]
    assert (first.x0, first.y0) == pytest.approx((60, 60), abs=12)
    assert 160 < last.y0 < 190 < last.y1 < 230
    for one, after in pairwise(words):
        assert one.line < after.line or one.x1 <= after.x0
    characters = found.characters()
    assert "".join(map(chr, characters.codes)) == "".join(TEXT).replace(" ", "")
    assert characters.spaces.sum() == len(words)
    assert (characters.places[:, 0] < characters.places[:, 1]).all()


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_turned_page_reads_like_an_upright_one(ocr: PageOcr, turned: int) -> None:
    picture = page(TEXT, (800, 400)).rotate(turned, expand=True)  # against the clock, so that it must be turned with it
    found = ocr.read(pixels(picture))
    assert found.turned == turned
    assert (found.width, found.height) == (800, 400)
    assert " ".join(word.text for word in found.words()) == " ".join(TEXT)


def test_a_skewed_page_is_straightened(ocr: PageOcr) -> None:
    picture = page().rotate(3, Image.Resampling.BICUBIC, fillcolor="white")
    found = ocr.read(pixels(picture))
    assert found.skew_degrees == pytest.approx(-3, abs=0.3)
    assert " ".join(word.text for word in found.words()) == " ".join(TEXT)
    starts = [box.y for box in found.boxes]
    assert np.diff(starts) == pytest.approx([60, 60], abs=3)


def test_a_page_without_text_has_no_words(ocr: PageOcr) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    for blank in (np.full((300, 200, 3), 255, np.uint8), np.zeros((1, 1, 3), np.uint8), noise):
        found = ocr.read(blank)
        assert found.words() == []
        assert found.confidence == 0


def test_the_same_picture_gives_the_same_words(ocr: PageOcr) -> None:
    picture = pixels(page())
    assert ocr.read(picture) == ocr.read(picture.copy())


def test_models_are_named_when_they_are_not_there(tmp_path) -> None:
    with pytest.raises(PipelineError, match=r"has 0 files \*det\*\.onnx, not one; give the folder"):
        model_files(tmp_path)
