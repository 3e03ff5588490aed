"""Text of PDFs that carry it: pure functions over pdfium; nothing here knows batches, stages or Dask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pypdfium2 as pdfium
from pypdfium2 import raw

from dcurate.documents.losses import DocumentLosses
from dcurate.documents.noise import clear_layer
from dcurate.documents.ocr import fonts
from dcurate.documents.pdf.faults import PdfError
from dcurate.documents.pdf.furniture import find_furniture
from dcurate.documents.pdf.links import fields_of
from dcurate.documents.pdf.options import PdfOptions
from dcurate.documents.pdf.page import PdfPage, read_page
from dcurate.documents.pdf.render import Compounds, Sizes, blocks_of, page_markdown, page_text
from dcurate.documents.pdf.source import metadata, opened
from dcurate.documents.routes import ASIDE

#: What may be done to the pages of an open document before their text is written.
Revise: TypeAlias = Callable[[pdfium.PdfDocument, list[PdfPage], PdfOptions], list[PdfPage]]

#: Losses that the signals of pages count.
_COUNTED = {
    "characters": "characters_left_out",
    "turned characters": "turned_left_out",
    "drawings": "drawings_left_out",
    "form fields": "fields_left_out",
}

__all__ = ["PdfError", "PdfOptions", "extract_pdf"]


def extract_pdf(data: bytes, options: Mapping[str, Any] | None = None, revise: Revise | None = None) -> dict[str, Any]:
    """Extract the text of a PDF.

    Args:
        data: the file.
        options: fields of `PdfOptions`.
        revise: gets the open document, its pages and the options, and returns the pages to go on with: those that
            OCR has read, for example.

    Returns:
        A mapping that JSON can hold:

        - ``pages``: for each page ``number`` (from 1), ``width`` and ``height`` in points, ``rotate`` in degrees,
          ``text``, ``markdown``, and what a router needs: ``characters``, ``image_share`` (of the page's area),
          ``text_over_image``, ``broken_share`` and ``invisible_share`` (of the characters), ``fonts``, ``scanned``;
        - ``text`` and ``markdown`` of the whole document;
        - ``page_spans``: where each page begins and ends in ``text``, in bytes of UTF-8;
        - ``title``, ``producer``, ``creator``, ``n_pages``;
        - ``headers_footers``: lines that were left out; ``figures`` and ``links``, each with its page;
          ``fields``: values of form fields by name; ``losses``: what is not in the text, see
          `dcurate.documents.losses`.

    Raises:
        PdfError: the file cannot be read; with its reason.
    """
    chosen = PdfOptions.of(options)
    with opened(data, chosen.password) as document:
        count = len(document)
        if count <= 0:
            raise PdfError("no pages", "the file has no page")
        if count > chosen.most_pages:
            raise PdfError("too many pages", f"{count:,} pages; at most {chosen.most_pages:,}")
        wanted = count if chosen.max_pages is None else min(count, chosen.max_pages)
        form = _form_of(document) if chosen.forms else None
        pages = [read_page(document.raw, number, chosen, form) for number in range(wanted)]
        if revise is not None:
            pages = revise(document, pages, chosen)
        elif chosen.shapes:
            pages = fonts.read_broken_fonts(document, pages, chosen)
            for page in pages:
                clear_layer(page)
        left_out = find_furniture(pages)
        headers_footers = [pages[number].lines[line] for number, line in left_out]
        if not chosen.keep_headers:
            for number, line in left_out:
                pages[number].dropped[line] = 1
        compounds = Compounds(pages)
        blocks = [list(blocks_of(page, compounds, chosen.join_hyphens)) for page in pages]
        texts = list(map(page_text, blocks))
        markdown = [""] * len(pages)
        if chosen.markdown:
            sizes = Sizes(pages)
            markdown = [page_markdown(page, mine, sizes) for page, mine in zip(pages, blocks, strict=True)]
        spans, at = [], 0
        for text in texts:
            size = len(text.encode())
            spans.append([at, at + size])
            at += size + 2
        return {
            "pages": [
                {
                    "number": page.number + 1,
                    "width": page.width,
                    "height": page.height,
                    "rotate": page.rotate,
                    "text": text,
                    "markdown": marked,
                    "tables": [{"bbox": list(table.box), "cells": table.cells} for table in page.tables.values()],
                    **page.signals,
                }
                for page, text, marked in zip(pages, texts, markdown, strict=True)
            ],
            "text": "\n\n".join(texts),
            "markdown": "\n\n".join(filter(None, markdown)),
            "page_spans": spans,
            "title": metadata(document, "Title"),
            "producer": metadata(document, "Producer"),
            "creator": metadata(document, "Creator"),
            "n_pages": count,
            "headers_footers": headers_footers,
            "figures": [figure for page in pages for figure in page.figures],
            "links": [{"page": page.number + 1, **link} for page in pages for link in page.links],
            "fields": fields_of(document) if chosen.links else {},
            "losses": _losses(document, pages, chosen),
        }


def _form_of(document: pdfium.PdfDocument) -> Any:
    """Pdfium's handle of the forms of a document; None if it has none."""
    if document.get_formtype() == raw.FORMTYPE_NONE:
        return None
    document.init_forms()
    return document.formenv.raw if document.formenv else None


def _losses(document: pdfium.PdfDocument, pages: Sequence[PdfPage], options: PdfOptions) -> list[dict[str, Any]]:
    """The parts of a document that are not in its text; see `dcurate.documents.losses`."""
    losses = DocumentLosses()
    if len(document) > len(pages):
        losses.add("pages", len(document) - len(pages), f"page {len(pages) + 1:,}")
    for page in pages:
        where, signals = f"page {page.number + 1:,}", page.signals
        losses.add("unreadable pages", bool(signals.get("unread")), where)
        losses.add("pages set aside", signals.get("route") == ASIDE, where)
        for loss, name in _COUNTED.items():
            losses.add(loss, signals.get(name) or 0, where)
    if options.forms:
        losses.add("forms", document.get_formtype() == raw.FORMTYPE_XFA_FULL)
    return losses.rows()
