"""What the filters for interleaved documents measure of a picture; the formulas are NeMo Curator's, without OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.media.errors import MediaError
from dcurate.media.headers import format_of, opened
from dcurate.media.pixels import Pixels, checked_header, decode, upright


def colours(data: bytes) -> Pixels:
    """Decode a picture at its full size: upright, in RGB; how transparent it is does not count.

    Raises:
        MediaError: it cannot be decoded, or not as a whole.
    """
    kind = format_of(data)
    if kind == "jpeg":
        return _whole(data)
    header = checked_header(data)
    image = opened(data, kind)[0]
    try:
        if not image.has_transparency_data:
            return _whole(data)
        image.load()
        plain = image.convert("RGBA") if image.mode in ("LA", "La", "PA") else image
        orientation = 1 if kind == "tiff" else header.orientation  # Pillow has turned a TIFF upright
        return np.ascontiguousarray(upright(np.array(_without_alpha(plain)), orientation))
    except MediaError:
        raise
    except Exception as error:  # Pillow raises all kinds for damaged files
        raise MediaError("damaged", str(error)) from error


def _whole(data: bytes) -> Pixels:
    picture = decode(data)
    if picture.truncated:
        raise MediaError("truncated", "the rest of the picture is missing")
    return picture.pixels


def _without_alpha(image: Any) -> Any:
    return image.convert("RGB")


def aspect_ratio(data: bytes) -> float:
    """Return width divided by height, as stored.

    Raises:
        MediaError: it is not a picture.
    """
    header = checked_header(data)
    return header.width / header.height


def sharpness(pixels: npt.NDArray[np.uint8]) -> float:
    """Return the variance of the Laplacian over all channels; a picture below 100 is called blurred.

    Args:
        pixels: height x width x 3.

    Examples:
        >>> sharpness(np.zeros((4, 4, 3), np.uint8))
        0.0
        >>> board = np.indices((8, 8)).sum(0) % 2 * 255
        >>> sharpness(np.repeat(board[..., None], 3, 2).astype(np.uint8))
        1040400.0
    """
    edged = np.pad(pixels, ((1, 1), (1, 1), (0, 0)), mode="reflect").astype(np.int16)
    laplacian = edged[:-2, 1:-1] + edged[2:, 1:-1] + edged[1:-1, :-2] + edged[1:-1, 2:] - 4 * edged[1:-1, 1:-1]
    total = int(laplacian.sum(dtype=np.int64))
    squares = int(np.square(laplacian, dtype=np.int32).sum(dtype=np.int64))
    return (squares - total * total / laplacian.size) / laplacian.size
