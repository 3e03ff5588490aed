"""Find the lines of text in a picture with a detector of PP-OCR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from dcurate.media.ocr.boxes import Box, find_boxes
from dcurate.media.ocr.models import run, session

#: The longer side of the picture in which lines are looked for, in pixels.
DETECTION_SIDE = 1280
_MEAN, _DEVIATION = np.float32(127.5), np.float32(127.5)


class LineDetector:
    """Finds lines of text; the same picture always gives the same boxes.

    Args:
        model: the detector, an ONNX file; see `dcurate.media.ocr.files.model_files`.
        side: pictures are scaled down to this length of their longer side, in pixels.
        threads: number of threads of the model.
    """

    def __init__(self, model: Path, *, side: int = DETECTION_SIDE, threads: int = 1) -> None:
        self._side, self._model = side, session(model, threads)

    def find(self, picture: Image.Image) -> list[Box]:
        """Return the boxes of the lines, in pixels of the picture, from the top.

        Args:
            picture: in RGB.
        """
        scale = min(self._side / max(picture.size), 1.0)
        width, height = (max(round(side * scale / 32), 1) * 32 for side in picture.size)
        small = picture.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
        pixels = (np.asarray(small, np.float32).transpose(2, 0, 1)[::-1] - _MEAN) / _DEVIATION
        boxes = find_boxes(run(self._model, np.ascontiguousarray(pixels[None]))[0, 0])
        across, down = picture.width / width, picture.height / height
        return [
            box._replace(
                x=(box.x + 0.5) * across, y=(box.y + 0.5) * down, width=box.width * across, height=box.height * down
            )
            for box in boxes
        ]
