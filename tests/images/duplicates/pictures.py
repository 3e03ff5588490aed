"""Pictures that are made for tests, and changed as pictures are on the web."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

Picture = Image.Image


def scene(seed: int, size: tuple[int, int] = (320, 240)) -> Picture:
    """A picture of soft shapes in many colours."""
    draw = np.random.default_rng(seed)
    small = Image.fromarray(draw.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    made = small.resize(size, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(made)
    for _ in range(12):
        x, y = draw.integers(0, size[0] - 40), draw.integers(0, size[1] - 40)
        colour = tuple(int(part) for part in draw.integers(0, 256, 3))
        pen.ellipse((int(x), int(y), int(x + draw.integers(15, 80)), int(y + draw.integers(15, 80))), fill=colour)
    return made


def form(*words: str) -> Picture:
    """A form with a frame, a title and some lines of words."""
    made = Image.new("RGB", (480, 340), (225, 220, 205))
    pen = ImageDraw.Draw(made)
    pen.rectangle((12, 12, 468, 328), outline=(90, 60, 20), width=4)
    pen.text((40, 34), "Certificate", fill=(50, 30, 10), font=ImageFont.load_default(36))
    for place, text in enumerate(words):
        pen.text((40, 100 + 46 * place), f"Line {place}: {text}", fill="black", font=ImageFont.load_default(22))
    return made


def saved(picture: Picture, kind: str = "PNG", **options: Any) -> bytes:
    """The file of a picture."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


#: Changes after which a picture is still the same.
CHANGES: dict[str, Callable[[Picture], bytes]] = {
    "smaller": lambda picture: saved(picture.resize((picture.width // 2, picture.height // 2))),
    "larger": lambda picture: saved(picture.resize((picture.width * 3 // 2, picture.height * 3 // 2))),
    "jpeg": lambda picture: saved(picture, "JPEG", quality=40),
    "webp": lambda picture: saved(picture, "WEBP", quality=50),
    "brighter": lambda picture: saved(ImageEnhance.Brightness(picture).enhance(1.25)),
    "darker": lambda picture: saved(ImageEnhance.Brightness(picture).enhance(0.7)),
    "contrast": lambda picture: saved(ImageEnhance.Contrast(picture).enhance(1.3)),
    "gray": lambda picture: saved(picture.convert("L")),
    "border": lambda picture: saved(ImageOps.expand(picture, 3, "white")),
    "cropped": lambda picture: saved(picture.crop((2, 1, picture.width - 3, picture.height - 2))),
}
