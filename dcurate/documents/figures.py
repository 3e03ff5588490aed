"""Pictures of the figures of a PDF, drawn in the child process."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pypdfium2 as pdfium

from dcurate.documents.pdf.source import opened

#: Left, top, right and bottom in points, from the top left of the page before its rotation.
Box: TypeAlias = Sequence[float]

#: Figures of a file that are drawn, at most.
MOST_FIGURES = 500
#: Dots an inch, most pixels of a side.
_DPI, _SIDE = 144, 2000
_QUALITY = 85
#: Figures with a shorter side in points are rules and marks.
_LEAST = 16.0


def figure_pictures(data: bytes, figures: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Draw the figures of a PDF as JPEGs, in order; one that is too small or cannot be drawn is empty.

    Args:
        data: the file.
        figures: each with its ``page``, from 1, and its ``bbox``, see `Box`.
    """
    pictures = [b""] * len(figures)
    with opened(data) as document:
        for place, figure in enumerate(figures):
            x0, y0, x1, y1 = figure["bbox"]
            if min(x1 - x0, y1 - y0) >= _LEAST:
                try:
                    pictures[place] = _drawn(document[figure["page"] - 1], (x0, y0, x1, y1))
                except (pdfium.PdfiumError, ValueError):  # the text goes on without it
                    continue
    return pictures


def undrawn(figures: Sequence[Mapping[str, Any]], pictures: Sequence[bytes]) -> int:
    """The number of figures that are large enough and have an empty picture.

    Examples:
        >>> undrawn([{"bbox": [0, 0, 90, 90]}, {"bbox": [0, 0, 9, 9]}], [b"", b""])
        1
    """
    pairs = ((figure["bbox"], picture) for figure, picture in zip(figures, pictures, strict=False))
    return sum(not picture and min(box[2] - box[0], box[3] - box[1]) >= _LEAST for box, picture in pairs)


def _drawn(page: pdfium.PdfPage, box: Box) -> bytes:
    width, height = page.get_size()
    left, top, right, bottom = turned(box, page.get_rotation(), width, height)
    sides = max(right - left, 1.0), max(bottom - top, 1.0)
    scale = min(_DPI / 72, _SIDE / max(sides))
    crop = (max(left, 0.0), max(height - bottom, 0.0), max(width - right, 0.0), max(top, 0.0))
    picture = page.render(scale=scale, crop=crop).to_pil().convert("RGB")
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=_QUALITY)
    page.close()
    return file.getvalue()


def turned(box: Box, rotation: int, width: float, height: float) -> tuple[float, float, float, float]:
    """Return a box of the page before its rotation as one of the page as it is shown.

    Args:
        box: left, top, right and bottom, before the rotation.
        rotation: degrees, clockwise.
        width: width of the page as it is shown.
        height: height of the page as it is shown.

    Examples:
        >>> turned((10, 20, 30, 60), 90, 800, 600)
        (740, 10, 780, 30)
    """
    x0, y0, x1, y1 = box
    if rotation == 90:
        return width - y1, x0, width - y0, x1
    if rotation == 180:
        return width - x1, height - y1, width - x0, height - y0
    if rotation == 270:
        return y0, height - x1, y1, height - x0
    return x0, y0, x1, y1
