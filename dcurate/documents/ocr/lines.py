"""Read pictures of single lines, and decode what the model says (CTC)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from dcurate.media.ocr.boxes import Box
from dcurate.media.ocr.models import run

Floats = npt.NDArray[np.float32]

HEIGHT = 48
#: Pixels of a line, scaled to `HEIGHT`, that the model gets at most: longer lines are squeezed.
WIDEST = 3200
#: Widths are rounded up to this, so that lines of similar length go together.
_STEP = 64
#: Pixels that a batch may have.
_BATCH = 48 * 6400


class Line(NamedTuple):
    """What was read in one line.

    Args:
        text: its characters.
        confidences: confidence of each character, 0 to 1.
        starts, stops: where each character begins and ends along the line, as a share of its width.
    """

    text: str
    confidences: list[float]
    starts: list[float]
    stops: list[float]


def crop(picture: Image.Image, box: Box) -> Image.Image:
    """Cut a turned box out of a picture, turn it upright, and scale it to the model's height."""
    scale = HEIGHT / box.height
    width = min(max(math.ceil(box.width * scale), 8), WIDEST)
    corners = box.corners()
    along = (corners[1] - corners[0]) / width
    across = (corners[3] - corners[0]) / HEIGHT
    coefficients = (along[0], across[0], corners[0][0], along[1], across[1], corners[0][1])
    if scale < 0.6:  # sample a larger picture first, so that no strokes fall between samples
        larger = (along[0] / 2, across[0] / 2, corners[0][0], along[1] / 2, across[1] / 2, corners[0][1])
        big = picture.transform((2 * width, 2 * HEIGHT), Image.Transform.AFFINE, larger, Image.Resampling.BICUBIC)
        return big.resize((width, HEIGHT), Image.Resampling.BOX)
    return picture.transform((width, HEIGHT), Image.Transform.AFFINE, coefficients, Image.Resampling.BICUBIC)


def read_lines(model: Any, characters: Sequence[str], pictures: Sequence[Image.Image]) -> list[Line]:
    """Read pictures of lines, each of `HEIGHT` pixels; in their order."""
    lines: list[Line] = [Line("", [], [], [])] * len(pictures)
    widths = [-(-picture.width // _STEP) * _STEP for picture in pictures]
    order = sorted(range(len(pictures)), key=lambda place: (widths[place], place))
    start = 0
    while start < len(order):
        width = widths[order[start]]
        most = max(_BATCH // (HEIGHT * width), 1)
        stop = start
        while stop < len(order) and stop - start < most and widths[order[stop]] == width:
            stop += 1
        places = order[start:stop]
        batch = np.zeros((len(places), 3, HEIGHT, width), np.float32)
        for row, place in enumerate(places):
            pixels = np.asarray(pictures[place], np.float32).transpose(2, 0, 1)[::-1]  # the model was trained on BGR
            batch[row, :, :, : pixels.shape[2]] = pixels / 127.5 - 1
        for place, answer in zip(places, run(model, batch), strict=True):
            lines[place] = decode(answer, characters, pictures[place].width / width)
        start = stop
    return lines


def decode(answer: Floats, characters: Sequence[str], filled: float = 1.0) -> Line:
    """Decode the answer to a line: the most probable class at each step, repeats once, blanks left out.

    Args:
        answer: probabilities, float32 (steps, classes); class 0 is the blank.
        characters: by class.
        filled: share of the steps that the picture takes; the rest is padding.

    Examples:
        >>> steps = np.eye(3, dtype=np.float32)[[1, 1, 0, 1, 2, 0]]
        >>> decode(steps, ["", "a", "b"]).text
        'aab'
    """
    best = answer.argmax(1)
    steps = len(best)
    changes = np.flatnonzero(best[1:] != best[:-1]) + 1
    begins, ends = np.append(0, changes), np.append(changes, steps)
    runs = [(begin, end) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True) if best[begin]]
    text = "".join(characters[best[begin]] for begin, _ in runs)
    confidences = [round(float(answer[begin:end, best[begin]].max()), 4) for begin, end in runs]
    # The model marks the middle of a character; one ends where the next begins.
    middles = [(begin + end) / 2 for begin, end in runs]
    bounds = [(middle + after) / 2 for middle, after in pairwise(middles)]
    if runs:
        bounds = [min(runs[0][0], middles[0] - 0.5), *bounds, max(runs[-1][1], middles[-1] + 0.5)]
    shares = [min(bound / steps / filled, 1.0) for bound in bounds]
    return Line(text, confidences, shares[:-1], shares[1:])


def is_ideograph(character: str) -> bool:
    """Whether a character is written without spaces between words: Chinese and Japanese.

    Examples:
        >>> is_ideograph("日"), is_ideograph("か"), is_ideograph("e")
        (True, True, False)
    """
    return unicodedata.east_asian_width(character) in "WF" and unicodedata.category(character) in ("Lo", "Lm")
