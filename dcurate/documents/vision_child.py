"""What the child process of `VisionExtract` does with a PDF: it draws the pages that a vision model is asked about."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pypdfium2 as pdfium
from PIL import Image

from dcurate.documents.pdf.source import opened
from dcurate.documents.repair import with_page_tree
from dcurate.isolate.errors import MediaError

#: Resolution and largest size of a picture; Nemotron-Parse takes pictures of this size.
DPI, WIDEST, HIGHEST = 300, 1664, 2048
_QUALITY = 90


def wanted(data: bytes, pages: Sequence[int], turns: Mapping[int, int] | None = None) -> bytes:
    """Return the item for `draw_pages`.

    Args:
        data: the PDF.
        pages: numbers of pages, from 1.
        turns: degrees by which to turn the pictures of some of them with the clock.
    """
    asked = [[number, (turns or {}).get(number, 0)] for number in pages]
    return orjson.dumps(asked) + b"\n" + data


def draw_pages(item: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Draw pages of a PDF.

    Args:
        item: made by `wanted`.
        options: none.

    Returns:
        ``pages``: the numbers of those that could be drawn; and a JPEG of each.

    Raises:
        MediaError: the file cannot be read.
    """
    head, _, data = item.partition(b"\n")
    asked = orjson.loads(head)
    try:
        return _drawn(data, asked)
    except MediaError:
        repaired = with_page_tree(data)
        if repaired is None:
            raise
        return _drawn(repaired, asked)


def _drawn(data: bytes, asked: Sequence[tuple[int, int]]) -> tuple[dict[str, Any], list[bytes]]:
    numbers, pictures = [], []
    with opened(data) as document:
        for number, turn in asked:
            try:
                page = document[number - 1]
                width, height = page.get_size()
                if not (0 < width < 1e6 and 0 < height < 1e6):
                    continue
                if turn % 180:
                    width, height = height, width
                scale = min(DPI / 72, WIDEST / width, HIGHEST / height)
                picture = page.render(scale=scale, rotation=turn).to_pil().convert("RGB")
            except (pdfium.PdfiumError, IndexError, ValueError, Image.DecompressionBombError):
                continue
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=_QUALITY)
            numbers.append(number)
            pictures.append(file.getvalue())
    return {"pages": numbers}, pictures
