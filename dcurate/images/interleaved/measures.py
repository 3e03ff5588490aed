"""What the filters for interleaved documents measure of a picture; the formulas are NeMo Curator's, without OpenCV."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcurate.media.image.pixels import checked_header


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
