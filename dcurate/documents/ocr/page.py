"""Read the picture of a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from dcurate.documents.ocr.lines import Line, crop, is_ideograph, read_lines
from dcurate.media.ocr.boxes import Box
from dcurate.media.ocr.detector import DETECTION_SIDE, LineDetector
from dcurate.media.ocr.files import model_files
from dcurate.media.ocr.models import alphabet, session

#: Lines whose mean confidence is below this are no text.
LEAST_CONFIDENCE = 0.5
#: Lines that are read to see which way is up.
_TRIED = 8
#: Lines of one size of a font are this many times as high as the lowest of them, at most.
_SPREAD = 1.25
#: The size of the font and the depth of the baseline below the middle, as shares of a line's height.
_SIZE, _BASE = 0.72, 0.24

Pixels = npt.NDArray[np.uint8]


class Word(NamedTuple):
    """A word that was read.

    Args:
        text: without spaces; Chinese and Japanese characters are words of their own.
        x0, y0, x1, y1: its box in pixels of the page when it is upright and straight, from the top left.
        confidence: 0 to 1.
        line: the number of the line that it was read in.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float
    line: int


class PageText(NamedTuple):
    """What was read on a page.

    Args:
        boxes: boxes of the lines, in pixels of the page when it is upright and straight.
        lines: what was read in each; in order from the top, columns are not separated here.
        width, height: size of the picture when it is upright, in pixels.
        turned: degrees by which the picture had to be turned clockwise to be upright: 0, 90, 180 or 270.
        skew_degrees: the angle of its lines against the horizontal after that, clockwise.
    """

    boxes: list[Box]
    lines: list[Line]
    width: int
    height: int
    turned: int
    skew_degrees: float

    @property
    def confidence(self) -> float:
        """The mean confidence of all characters; 0 if there are none."""
        return round(_sure(self.lines), 4)

    def words(self) -> list[Word]:
        """The words with their boxes, line by line."""
        pairs = enumerate(zip(self.boxes, self.lines, strict=True))
        return [word for number, (box, line) in pairs for word in _words(box, line, number)]

    def characters(self) -> OcrCharacters:
        """The characters with their places, as the layout of PDF pages takes them."""
        codes, places, spaces = [], [], []
        heights = _alike([box.height for box in self.boxes])
        for box, height, line in zip(self.boxes, heights, self.lines, strict=True):
            space = True
            size, base = height * _SIZE, box.y + height * _BASE
            for character, start, stop in zip(line.text, line.starts, line.stops, strict=True):
                if character.isspace():
                    space = True
                    continue
                codes.append(ord(character))
                left, right = (box.x + (share - 0.5) * box.width for share in (start, stop))
                places.append((left, right, base, size))
                spaces.append(space)
                space = False
        return OcrCharacters(
            np.array(codes, np.int32), np.array(places, np.float32).reshape(-1, 4), np.array(spaces, np.bool_)
        )


class OcrCharacters(NamedTuple):
    """Characters without whitespace, line by line.

    Args:
        codes: Unicode code points, int32.
        places: from and to along the line, the baseline downwards, the size of the font, in pixels; float32 (n, 4).
        spaces: whether a space or a new line comes before each.
    """

    codes: npt.NDArray[np.int32]
    places: npt.NDArray[np.float32]
    spaces: npt.NDArray[np.bool_]


class PageOcr:
    """Reads pictures of pages with PP-OCR models, on one thread.

    PP-OCR finds lines of text (a detector) and reads each (a reader). The models come as ONNX files, for example in the
    wheel of `rapidocr`, which needs no other package for this: ``pip install --no-deps rapidocr``. The same picture
    always gives the same words.

    Args:
        models: a folder with the two models; None for those of an installed package.
        side: pictures are scaled to this length of their longer side before lines are looked for, in pixels. Lines are
            read from the picture as it is.
        threads: number of threads of each model.

    Raises:
        ResourceError: there are no models.
        PipelineError: the folder has no models.

    Examples:
        >>> from dcurate.documents import PageOcr
        >>> PageOcr("no/models/here")
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: models='no/models/here' has 0 files *det*.onnx, not one; give the folder of a \
detector and a reader of PP-OCR in ONNX format
    """

    def __init__(self, models: str | Path | None = None, *, side: int = DETECTION_SIDE, threads: int = 1) -> None:
        files = model_files(models)
        self._detector = LineDetector(files.detector, side=side, threads=threads)
        self._reader = session(files.reader, threads)
        self._characters = alphabet(self._reader, files.characters)

    @property
    def characters(self) -> frozenset[str]:
        """The characters that the reader knows."""
        return frozenset(self._characters)

    def read(self, pixels: Pixels) -> PageText:
        """Read a page.

        Args:
            pixels: uint8 (height, width, 3), RGB.
        """
        picture = Image.fromarray(pixels, "RGB")
        boxes = self._detector.find(picture)
        turned = 0
        if _is_upright_text(boxes):
            picture = picture.transpose(Image.Transpose.ROTATE_90)
            boxes, turned = self._detector.find(picture), 270
        if self._is_upside_down(picture, boxes):
            picture = picture.transpose(Image.Transpose.ROTATE_180)
            boxes, turned = [_half_turned(box, picture) for box in boxes][::-1], (turned + 180) % 360
        skew = _skew(boxes)
        pairs = zip(boxes, self._read(picture, boxes), strict=True)
        text_lines = [(_straightened(box, skew, picture), line) for box, line in pairs if _is_text(line)]
        return PageText(
            [box for box, _ in text_lines],
            [line for _, line in text_lines],
            picture.width,
            picture.height,
            turned,
            round(math.degrees(skew), 2),
        )

    def _read(self, picture: Image.Image, boxes: Sequence[Box]) -> list[Line]:
        return read_lines(self._reader, self._characters, [crop(picture, box) for box in boxes])

    def _is_upside_down(self, picture: Image.Image, boxes: Sequence[Box]) -> bool:
        """Whether lines read better when they are turned by 180 degrees."""
        widest = sorted(boxes, key=lambda box: -min(box.width / box.height, 12))[:_TRIED]
        if not widest:
            return False
        upright = [crop(picture, box) for box in widest]
        if _sure(read_lines(self._reader, self._characters, upright)) > 0.9:
            return False
        flipped = [image.transpose(Image.Transpose.ROTATE_180) for image in upright]
        lines = read_lines(self._reader, self._characters, [*upright, *flipped])
        return _sure(lines[len(upright) :]) > _sure(lines[: len(upright)]) + 0.05


def _sure(lines: Sequence[Line]) -> float:
    scores = [score for line in lines for score in line.confidences]
    return float(np.mean(scores)) if scores else 0.0


def _is_text(line: Line) -> bool:
    return bool(line.text.strip()) and float(np.mean(line.confidences)) >= LEAST_CONFIDENCE


def _alike(heights: Sequence[float]) -> list[float]:
    """Heights of lines, those that differ little made equal: a line is found a bit higher or lower by its letters.

    Examples:
        >>> _alike([30, 31, 60, 32])
        [31.0, 31.0, 60.0, 31.0]
    """
    smoothed = [0.0] * len(heights)
    ordered = sorted(range(len(heights)), key=lambda place: heights[place])
    start = 0
    for at in range(1, len(ordered) + 1):
        if at == len(ordered) or heights[ordered[at]] > _SPREAD * heights[ordered[start]]:
            middle = float(np.median([heights[place] for place in ordered[start:at]]))
            for place in ordered[start:at]:
                smoothed[place] = middle
            start = at
    return smoothed


def _is_upright_text(boxes: Sequence[Box]) -> bool:
    """Whether most text runs down or up the picture."""
    long = [box for box in boxes if max(box.width, box.height) > 2.5 * min(box.width, box.height)]
    upright = sum(box.height for box in long if box.height > box.width)
    return upright > sum(box.width for box in long if box.width >= box.height)


def _half_turned(box: Box, picture: Image.Image) -> Box:
    return box._replace(x=picture.width - box.x, y=picture.height - box.y)


def _skew(boxes: Sequence[Box]) -> float:
    """The angle that lines have, in radians: the median, each line counting by its length."""
    long = sorted((box.angle, box.width) for box in boxes if box.width > 3 * box.height)
    if not long:
        return 0.0
    lengths = np.cumsum([width for _, width in long])
    return long[int(np.searchsorted(lengths, lengths[-1] / 2))][0]


def _straightened(box: Box, skew: float, picture: Image.Image) -> Box:
    """The box after the page was turned back by its skew around its centre."""
    cos, sin = math.cos(skew), math.sin(skew)
    dx, dy = box.x - picture.width / 2, box.y - picture.height / 2
    x, y = picture.width / 2 + dx * cos + dy * sin, picture.height / 2 - dx * sin + dy * cos
    return box._replace(x=x, y=y, angle=box.angle - skew)


def _words(box: Box, line: Line, number: int) -> list[Word]:
    words = []
    for start, stop in _word_places(line.text):
        left, right = line.starts[start], line.stops[stop - 1]
        words.append(
            Word(
                line.text[start:stop],
                round(box.x + (left - 0.5) * box.width, 2),
                round(box.y - box.height / 2, 2),
                round(box.x + (right - 0.5) * box.width, 2),
                round(box.y + box.height / 2, 2),
                round(float(np.mean(line.confidences[start:stop])), 4),
                number,
            )
        )
    return words


def _word_places(text: str) -> list[tuple[int, int]]:
    """Where words begin and end.

    Examples:
        >>> text = "the 日本 cod"
        >>> [text[start:stop] for start, stop in _word_places(text)]
        ['the', '日', '本', 'cod']
    """
    places, start = [], 0
    for at, character in enumerate(text):
        if character.isspace() or is_ideograph(character):
            if at > start:
                places.append((start, at))
            if not character.isspace():
                places.append((at, at + 1))
            start = at + 1
    if len(text) > start:
        places.append((start, len(text)))
    return places
