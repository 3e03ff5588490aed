"""Find pages whose fonts have no map to Unicode, or a wrong one, and read them by the shapes of their glyphs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice

import numpy as np
import pypdfium2 as pdfium
from pypdfium2 import raw

from dcurate.documents.memory import DRAWING, more_memory
from dcurate.documents.ocr.glyphs import Deciphered, decipher
from dcurate.documents.pdf.native import read_drawings
from dcurate.documents.pdf.options import PdfOptions
from dcurate.documents.pdf.page import PdfPage, lay_out
from dcurate.documents.router import BROKEN_SHARE, no_language

#: The share of a text that may be like no language.
MOST_NONSENSE = 0.5
#: Pages of a document that must be like no language, pages that are looked at for that, and characters of each.
_PAGES, _LOOKS, _CHARACTERS = 2, 6, 250
#: Pages in a row that may fail, before the rest of a document is left alone.
_TRIES = 2


def read_broken_fonts(document: pdfium.PdfDocument, pages: list[PdfPage], options: PdfOptions) -> list[PdfPage]:
    """Replace the pages of a document whose text is no text by what the shapes of their glyphs say, where they do.

    A page is looked at if many of its characters have no known meaning, or if the text of the document is like no
    language; for that, the beginnings of one or two pages are compared with languages. After two pages in a row that
    cannot be read by shapes, the others stay as they are: their glyphs are not known.
    """
    nonsense, failed, read = _is_nonsense(pages), 0, list(pages)
    for number, page in enumerate(pages):
        if failed < _TRIES and (nonsense or _is_broken(page)):
            by_shapes = read_by_shapes(document, page, options)
            read[number], failed = by_shapes or page, 0 if by_shapes else failed + 1
    return read


def read_by_shapes(document: pdfium.PdfDocument, page: PdfPage, options: PdfOptions) -> PdfPage | None:
    """Read a page by the shapes of its glyphs; None if that gives no text in a language."""
    try:
        drawn = document[page.number]
    except pdfium.PdfiumError:
        return None
    with closing(drawn), more_memory(DRAWING):
        deciphered = decipher(drawn, shown_box(drawn.raw))
        if deciphered is None:
            return None
        drawings = read_drawings(drawn.raw, options.max_objects_per_page)
        drawings = drawings._replace(areas=np.zeros((0, 6), np.float64), texts=np.zeros((0, 2), np.int64))
        laid = lay_out(drawn.raw, page.number, deciphered.characters, drawings, options)
    if (no_language("\n".join(laid.lines)) or 0.0) > MOST_NONSENSE:
        return None
    laid.signals, laid.figures, laid.links = _signals(page, deciphered), page.figures, page.links
    return laid


def shown_box(page: object) -> list[float]:
    """Left, bottom, right and top of what a viewer shows of a page."""
    box = raw.FS_RECTF()
    if not raw.FPDF_GetPageBoundingBox(page, box):
        return [0.0, 0.0, float(raw.FPDF_GetPageWidthF(page)), float(raw.FPDF_GetPageHeightF(page))]
    return [box.left, box.bottom, box.right, box.top]


def _signals(page: PdfPage, deciphered: Deciphered) -> dict[str, object]:
    return {**page.signals, "by_shapes": round(1 - deciphered.difference, 4)}


def _is_broken(page: PdfPage) -> bool:
    return bool((page.signals.get("broken_share") or 0.0) > BROKEN_SHARE[1])


def _is_nonsense(pages: Sequence[PdfPage]) -> bool:
    """Whether the first pages with enough text are like no language; one that is like one is enough to know."""
    judged = 0
    for page in islice((page for page in pages if len(page.letters) >= _CHARACTERS), _LOOKS):
        share = no_language("\n".join(page.lines)[:_CHARACTERS])
        if share is not None and share <= MOST_NONSENSE:
            return False
        judged += share is not None
        if judged == _PAGES:
            break
    return judged > 0
