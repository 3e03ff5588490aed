"""The share of a picture that lines of text take."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

from dcurate.media.ocr.boxes import Box
from dcurate.media.ocr.detector import LineDetector
from dcurate.media.ocr.files import model_files


def text_share(pixels: npt.NDArray[np.uint8], models: str | None = None) -> float:
    """Find lines of text with PP-OCR's detector, and return the share of the area that their boxes take, 0 to 1.

    The detector takes some things in front of an even background for text. So a box counts as a line if it is at least
    twice as long as high, or at most a quarter as high as the shorter side of the picture. The detector is loaded once
    in a process.

    Args:
        pixels: height x width x 3, uint8, RGB.
        models: the folder of PP-OCR models in ONNX format; None for those of the package `rapidocr`.

    Raises:
        ResourceError: there are no models.
        PipelineError: the folder has no models.
    """
    height, width = pixels.shape[:2]
    boxes = detector(models).find(Image.fromarray(pixels))
    area: float = sum(box.width * box.height for box in boxes if _is_line(box, min(height, width)))
    return float(min(1.0, area / (height * width)))


def _is_line(box: Box, side: int) -> bool:
    high, long = sorted((box.width, box.height))
    return long >= 2 * high or high <= side / 4


@lru_cache(maxsize=2)
def detector(models: str | None = None) -> LineDetector:
    """Load the detector; see `text_share`."""
    return LineDetector(model_files(models).detector)
