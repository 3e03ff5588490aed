"""Pictures of pages, for people: drawn in a child process, small, and few."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pypdfium2 as pdfium

from dcurate.documents.pdf.source import opened
from dcurate.documents.repair import with_page_tree
from dcurate.isolate.errors import MediaError

_QUALITY = 60


def page_picture(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Draw a page of a PDF.

    Args:
        data: the file.
        options: ``page``, from 0, by default the first; ``side``, the longest side of the picture in pixels,
            by default 300.

    Returns:
        ``width`` and ``height`` of the picture in pixels, ``n_pages`` of the file; and the picture as a JPEG.

    Raises:
        MediaError: the file cannot be read, or has no such page.
    """
    try:
        return _drawn(data, options)
    except MediaError:
        repaired = with_page_tree(data)
        if repaired is None:
            raise
        return _drawn(repaired, options)


def _drawn(data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    with opened(data) as document:
        number, count = options.get("page", 0), len(document)
        try:
            page = document[number]
            width, height = page.get_size()
            longest = max(width, height)
            if not 0 < longest < 1e6:
                raise MediaError("page size", f"a page of {width:g} x {height:g} points")
            picture = page.render(scale=options.get("side", 300) / longest).to_pil().convert("RGB")
        except (pdfium.PdfiumError, IndexError, ValueError) as error:
            raise MediaError("not drawn", f"page {number}: {error}") from None
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=_QUALITY)
        return {"width": picture.width, "height": picture.height, "n_pages": count}, [file.getvalue()]
