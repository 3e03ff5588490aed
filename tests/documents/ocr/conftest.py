"""The models of PP-OCR, and pictures of text."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from dcurate import ResourceError
from dcurate.documents import PageOcr
from tests.conftest import skip_outside_ci

TEXT = (
    "The cod is a large white fish that lives",
    "in the cold waters of the North Atlantic.",
    "Fishermen have caught 1,250 tonnes (2 %).",
)


def page(lines: tuple[str, ...] = TEXT, size: tuple[int, int] = (900, 500)) -> Image.Image:
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(32)
    for number, line in enumerate(lines):
        draw.text((60, 60 + 60 * number), line, "black", font)
    return picture


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture)


@pytest.fixture(scope="session")
def ocr() -> PageOcr:
    try:
        return PageOcr()
    except ResourceError as error:
        skip_outside_ci(str(error))
        raise
