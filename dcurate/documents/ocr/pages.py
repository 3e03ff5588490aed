"""Pages of PDFs whose text is not in the file, read by OCR and laid out like the others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pypdfium2 as pdfium

from dcurate.documents.ocr.characters import read_off
from dcurate.documents.ocr.fonts import MOST_NONSENSE, read_by_shapes, shown_box
from dcurate.documents.ocr.page import PageOcr, PageText
from dcurate.documents.pdf.native import Characters, Drawings, read_drawings
from dcurate.documents.pdf.options import PdfOptions
from dcurate.documents.pdf.page import PdfPage, lay_out
from dcurate.documents.router import Route, closest_language, decide, no_language
from dcurate.documents.routes import ASIDE, OCR, TEXT
from dcurate.kernels.pdf.grids import frame as framed

#: Which pages are read by OCR: those that need it, or all.
Ocr: TypeAlias = Literal["auto", "always"]

#: Resolution of pictures of pages, and their largest width and height, in pixels; vision models get the same.
DPI: Final = 300
LARGEST: Final = 1664, 2048
#: Mean confidence from which OCR is believed.
LEAST_CONFIDENCE: Final = 0.92
#: Languages in Latin script with letters that the models do not have.
UNREAD: Final = frozenset({"vi"})
#: Reasons that lie in fonts.
_FONTS = ("broken characters", "no language")


@dataclass(frozen=True)
class OcrPages:
    """Sends each page of a PDF its way, and reads those that go to OCR.

    A page whose text is not in the file goes to OCR; one with a broken font is first read by the shapes of its glyphs.
    What OCR cannot read goes to `hard`: it is unsure of the characters, or the result is like no language, because the
    models do not know the script, or like one whose letters they do not have. Such a page has no text.

    Each page's signals get ``route``, ``route_reason``, ``ocr_need``, ``ocr_confidence`` and ``skew_degrees``.

    Args:
        ocr: "auto" for pages that need it, "always" for all.
        models: the folder of the models; None for those of an installed package.
        hard: where pages go that OCR cannot read: "set aside", or "vision" for a vision model.
        most: pages that are read by OCR in one file; more are set aside.
    """

    ocr: Ocr = "auto"
    models: str | None = None
    hard: str = ASIDE
    most: int = 1000

    def __call__(self, document: pdfium.PdfDocument, pages: list[PdfPage], options: PdfOptions) -> list[PdfPage]:
        """Revise the pages of an open document."""
        revised, done = [], 0
        for page in pages:
            route = decide(page.signals, "\n".join(page.lines))
            if self.ocr == "always":
                route = route._replace(way=OCR, reason=route.reason or "asked for")
            if route.way == OCR and done >= self.most:
                route = route._replace(way=ASIDE, reason="too many pages for OCR")
            if route.way == OCR:
                done += 1
                revised.append(self._read(document, page, route, options))
            else:
                revised.append(_routed(page if route.way == TEXT else _emptied(page), route))
        return revised

    def _read(self, document: pdfium.PdfDocument, page: PdfPage, route: Route, options: PdfOptions) -> PdfPage:
        try:
            drawn = document[page.number]
        except pdfium.PdfiumError:
            return _routed(_emptied(page), Route(ASIDE, "not drawn", route.need))
        with closing(drawn):
            pixels = render(drawn)
            if pixels is None:
                return _routed(_emptied(page), Route(ASIDE, "page size", route.need))
            by_shapes = None
            if route.reason in _FONTS and self.ocr != "always":
                by_shapes = read_by_shapes(document, page, options)
            if by_shapes is not None:
                route = route._replace(reason=f"{route.reason}, read by the shapes of glyphs")
                return _routed(by_shapes, route, {"ocr_confidence": by_shapes.signals["by_shapes"]})
            page_text = reader(self.models).read(pixels)
            laid = lay_out(
                drawn.raw,
                page.number,
                placed(page_text, shown_box(drawn.raw), page.rotate),
                _rules_only(read_drawings(drawn.raw, options.max_objects_per_page)),
                options,
            )
        laid.signals, laid.figures, laid.links = page.signals, page.figures, page.links
        extra = {"ocr_confidence": page_text.confidence, "skew_degrees": page_text.skew_degrees}
        text = "\n".join(laid.lines)
        unsure = page_text.confidence < LEAST_CONFIDENCE or (no_language(text) or 0.0) > MOST_NONSENSE
        if page_text.lines and (unsure or closest_language(text) in UNREAD):
            return _routed(_emptied(laid), Route(self.hard, f"{route.reason}, OCR cannot read it", route.need), extra)
        return _routed(laid, route, extra)


@cache
def reader(models: str | None) -> PageOcr:
    """The models, loaded once in a process."""
    return PageOcr(models)


def render(page: pdfium.PdfPage) -> npt.NDArray[np.uint8] | None:
    """Draw a page at 300 dpi, or less so that it fits 1664 x 2048 pixels.

    Returns:
        uint8 (height, width, 3), RGB; None if the page has no size that can be drawn.
    """
    width, height = page.get_size()
    if not (0 < width < 1e6 and 0 < height < 1e6) or max(width, height) > 100 * min(width, height):
        return None
    scale = min(DPI / 72, LARGEST[0] / width, LARGEST[1] / height)
    try:
        bitmap = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)
    except (pdfium.PdfiumError, ValueError):
        return None
    pixels = bitmap.to_numpy()
    pixels = pixels[..., :3] if pixels.shape[2] > 3 else pixels
    pixels = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
    return pixels.copy()  # pdfium frees what it drew on with the bitmap


def placed(found: PageText, box: list[float], rotate: int) -> Characters:
    """The characters that were read, in points in the frame in which their text runs to the right.

    Args:
        found: what was read.
        box: edges of the part of the page that was drawn: left, bottom, right, top.
        rotate: degrees by which the page is turned with the clock to be shown.
    """
    turn = ((rotate + found.turned) // 90) % 4
    left, right, top, bottom = framed(np.array([box]), turn)[0].tolist()
    across, down = (right - left) / max(found.width, 1), (bottom - top) / max(found.height, 1)
    read = found.characters()
    places = read.places * np.array([across, across, down, down], np.float32)
    places[:, :2] += left
    places[:, 2] += top
    return read_off(read.codes, places, read.spaces, turn)


def _rules_only(drawings: Drawings) -> Drawings:
    return drawings._replace(areas=np.zeros((0, 6), np.float64), texts=np.zeros((0, 2), np.int64))


def _emptied(page: PdfPage) -> PdfPage:
    page.dropped = np.ones(len(page.lines), np.uint8)
    return page


def _routed(page: PdfPage, route: Route, extra: Mapping[str, Any] | None = None) -> PdfPage:
    signals = {"route": route.way, "route_reason": route.reason, "ocr_need": route.need}
    page.signals = {**page.signals, **signals, **(extra or {})}
    return page
