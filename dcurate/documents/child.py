"""What the child process of `PdfExtract` does with a PDF: nothing here runs beside the rows of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcurate.documents.pdf import extract_pdf
from dcurate.documents.pdf.faults import MediaError
from dcurate.documents.repair import has_page_tree, with_page_tree
from dcurate.documents.truncation import LIMITS, truncation

#: Reasons for which a file is worth another try with a page tree made of what is left of it.
_BROKEN = ("truncated", "damaged")


def read_pdf(data: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Extract a PDF; one that was cut off as far as it goes.

    Args:
        data: the file.
        options: those of `extract_pdf`, and ``repair``: whether a file that cannot be opened is repaired.

    Returns:
        What `extract_pdf` returns, and ``truncated``: how it was cut off, see `truncation`.

    Raises:
        MediaError: the file cannot be read; with its reason.
    """
    chosen = {name: value for name, value in options.items() if name != "repair"}
    cut = truncation(data)
    try:
        found = extract_pdf(data, chosen)
    except MediaError as error:
        reason = error.reason
        if reason not in _BROKEN:
            raise
        repaired = with_page_tree(data) if options.get("repair", True) else None
        if repaired is None:
            if not cut and has_page_tree(data):
                raise MediaError("no pages", "its page tree is empty") from None
            raise _fault(data, cut) from None
        try:
            found = extract_pdf(repaired, chosen)
        except MediaError:
            raise _fault(data, cut) from None
    if cut and not any(page["characters"] or page["image_share"] for page in found["pages"]):
        raise _fault(data, cut)
    return {**found, "truncated": cut}


def _fault(data: bytes, cut: str) -> MediaError:
    if not cut:
        return MediaError("damaged", f"none of its {len(data):,} bytes make a page")
    limit = ", where crawlers cut files off" if len(data) in LIMITS else ""
    return MediaError("truncated", f"it ends after {len(data):,} bytes{limit}, before its first text")
