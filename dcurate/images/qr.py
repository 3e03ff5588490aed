"""The share of a picture that QR codes take."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt


def qr_share(pixels: npt.NDArray[np.uint8], *, unread: bool = False) -> float:
    """Find QR codes with zxing-cpp, and return the share of the area that they take, 0 to 1.

    Args:
        pixels: height x width x 3, uint8.
        unread: whether codes count that are found and cannot be read.
    """
    zxing: Any = importlib.import_module("zxingcpp")
    codes = zxing.read_barcodes(pixels, formats=zxing.BarcodeFormat.QRCode, return_errors=unread)
    area: float = sum(_area(code.position) for code in codes)
    return float(min(1.0, area / (pixels.shape[0] * pixels.shape[1])))


def _area(position: Any) -> float:
    """The area of a quadrangle by its corners."""
    corners = [position.top_left, position.top_right, position.bottom_right, position.bottom_left]
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    doubled: float = sum(start.x * end.y - end.x * start.y for start, end in pairs)
    return abs(doubled) / 2
