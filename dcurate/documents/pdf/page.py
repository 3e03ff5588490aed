"""One page: its characters read, turned upright, and put into lines in the order of reading."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

from dcurate.documents.pdf.native import (
    Characters,
    Drawings,
    Frame,
    framed,
    image_share,
    read_characters,
    read_drawings,
    seen,
)
from dcurate.documents.pdf.options import PdfOptions
from dcurate.kernels.pdf import characters as of_characters
from dcurate.kernels.pdf import visible as of_visible
from dcurate.kernels.pdf.columns import find_order
from dcurate.kernels.pdf.lines import make_lines
from dcurate.kernels.pdf.segments import find_segments

_NO_RULES = np.zeros((0, 3), np.float64)
_NO_CELLS = np.zeros(0, np.int32)


@dataclass(slots=True)
class Page:
    """A page as lines.

    Args:
        number: from 0.
        width: of the page as it is shown, in points.
        height: the same.
        rotate: degrees by which viewers turn it with the clock.
        frame: how it was turned so that most of its text is upright.
        lines: text of each line, in the order of reading.
        letters: code points of all lines.
        places: where each line begins and ends in ``letters``.
        table: of the lines; see `dcurate.kernels.pdf.lines`.
        cells: for each segment in order its line, begin and end in ``letters``, from and to across.
        signals: what the router asks for.
        pictures: boxes of pictures on the page.
        dropped: for each line whether it is left out.
    """

    number: int
    width: float
    height: float
    rotate: int
    frame: Frame
    lines: list[str]
    letters: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int32]
    table: npt.NDArray[np.float32]
    cells: npt.NDArray[np.float32]
    signals: dict[str, Any]
    pictures: list[list[float]]
    dropped: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))


def read_page(document: Any, number: int, options: PdfOptions) -> Page:
    """Read a page of an open document.

    Args:
        document: pdfium's handle.
        number: from 0.
    """
    page = raw.FPDF_LoadPage(document, number)
    if not page:
        return _blank(number)
    textpage = None
    try:
        textpage = raw.FPDFText_LoadPage(page)
        drawings = read_drawings(page, options.max_objects_per_page)
        if not textpage:
            return _blank(number)
        return _read(page, number, read_characters(textpage, options.max_characters_per_page), drawings, options)
    finally:
        if textpage:
            raw.FPDFText_ClosePage(textpage)
        raw.FPDF_ClosePage(page)


def _read(page: Any, number: int, characters: Characters, drawings: Drawings, options: PdfOptions) -> Page:
    box = _box(page, options.crop)
    turns = characters.objects[:, of_characters.TURN]
    turn = 0
    if len(turns) and turns.any():
        counts = np.bincount(turns[characters.owners], minlength=5)
        turn = int(counts[:4].argmax())
    frame = Frame(turn, tuple(framed(np.array([box]), turn)[0].tolist()))
    areas = framed(drawings.areas, turn)
    visible, figures = seen(characters, drawings, frame, areas)
    kept, words, spans, boxes, rtl = find_segments(
        characters.codes, characters.places, characters.flags, visible, _NO_CELLS
    )
    sizes = spans[:, 1] - spans[:, 0]
    mirrored = bool(len(rtl)) and float((rtl * sizes).sum()) > 0.5 * float(sizes.sum())
    order, line_of, leaves = find_order(boxes, mirrored, _NO_RULES)
    letters, places, table, _ = make_lines(order, line_of, leaves, spans, kept, words, characters.codes, boxes, rtl)
    text = letters.tobytes().decode("utf-32-le", "replace")
    return Page(
        number,
        float(raw.FPDF_GetPageWidthF(page)),
        float(raw.FPDF_GetPageHeightF(page)),
        90 * raw.FPDFPage_GetRotation(page),
        frame,
        [text[start:stop] for start, stop in places.tolist()],
        letters,
        places,
        table,
        np.zeros((0, 5), np.float32),
        _signals(characters, drawings, frame, areas, figures),
        [],
        np.zeros(len(places), np.uint8),
    )


def _box(page: Any, crop: bool) -> list[float]:
    """Left, bottom, right and top of the page; of a usual one where the file has none."""
    values = [ctypes.c_float() for _ in range(4)]
    for read in (raw.FPDFPage_GetCropBox, raw.FPDFPage_GetMediaBox) if crop else (raw.FPDFPage_GetMediaBox,):
        if read(page, *values):
            x0, y0, x1, y1 = (value.value for value in values)
            return [min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)]
    return [0.0, 0.0, float(raw.FPDF_GetPageWidthF(page)), float(raw.FPDF_GetPageHeightF(page))]


def _signals(
    characters: Characters,
    drawings: Drawings,
    frame: Frame,
    areas: npt.NDArray[np.float64],
    figures: npt.NDArray[np.int64],
) -> dict[str, Any]:
    """What a router asks for; shares are of the characters, or of the page's area."""
    count = int(figures[of_visible.VISIBLE])
    everything = max(1, len(characters.codes))
    share = image_share(frame, areas, drawings.areas[:, 4:6])
    over = float(figures[of_visible.OVER_IMAGE]) / everything
    modes = characters.objects[:, of_characters.MODE]
    invisible = float(np.isin(modes, (3, 7))[characters.owners].mean()) if len(characters.codes) else 0.0
    return {
        "characters": count,
        "characters_left_out": characters.left_out,
        "image_share": round(share, 4),
        "text_over_image": round(over, 4),
        "broken_share": round(float(figures[of_visible.BROKEN]) / everything, 4),
        "invisible_share": round(invisible, 4),
        "scanned": share >= 0.6 and (count < 100 or (over > 0.8 and invisible > 0.5)),
    }


def _blank(number: int) -> Page:
    """A page that cannot be read or has nothing on it."""
    signals = {
        "characters": 0,
        "characters_left_out": 0,
        "image_share": 0.0,
        "text_over_image": 0.0,
        "broken_share": 0.0,
        "invisible_share": 0.0,
        "scanned": False,
    }
    nothing = np.zeros(0, np.uint32)
    return Page(
        number,
        0.0,
        0.0,
        0,
        Frame(0, (0.0, 0.0, 0.0, 0.0)),
        [],
        nothing,
        np.zeros((0, 2), np.int32),
        np.zeros((0, 8), np.float32),
        np.zeros((0, 5), np.float32),
        signals,
        [],
    )
