"""What the child process of `PdfExtract` does with a PDF."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pypdfium2 as pdfium

from dcurate.documents.figures import MOST_FIGURES, figure_pictures, undrawn
from dcurate.documents.losses import DocumentLosses
from dcurate.documents.memory import DRAWING, limited_memory
from dcurate.documents.pdf import PdfError, extract_pdf
from dcurate.documents.repair import has_no_pages, with_page_tree
from dcurate.documents.truncation import LIMITS, truncation
from dcurate.isolate.errors import MediaError, MediaFault

#: Reasons for which a file is worth another try with a page tree made of what is left of it.
_BROKEN = ("truncated", "damaged")
#: Options that are not those of the extraction.
_OWN = ("repair", "output", "signals")
#: What the stage needs of a document, besides its text.
_WHOLE = frozenset(("page_spans", "title", "producer", "creator", "language", "n_pages", "figures", "losses"))
#: A PDF that needs every kernel.
WARM = Path(__file__).parents[1] / "bundled" / "warm.pdf"
#: What makes a mapping of a file; see `extract_pdf`.
Extract: TypeAlias = Callable[[bytes, Mapping[str, Any]], dict[str, Any]]


def read_pdf(
    data: bytes, options: Mapping[str, Any], extract: Extract = extract_pdf, memory: int = 0
) -> tuple[dict[str, Any], list[bytes]]:
    """Extract a PDF; one that was cut off as far as it goes.

    Args:
        data: the file.
        options: those of `extract_pdf`; ``repair``: whether a file that cannot be opened is repaired; ``output``; and
            ``signals``, those of a page that are wanted, all by default.
        extract: called with a file and options; `extract_pdf`, perhaps with OCR.
        memory: bytes that `extract` may take beyond what any file may.

    Returns:
        What the stage needs of the result of `extract_pdf`, with ``truncated``: how the file was cut off, see
        `truncation`; and for interleaved rows a JPEG of each figure.

    Raises:
        MediaError: the file cannot be read; with its reason.
    """
    with limited_memory(len(data), memory + (DRAWING if options.get("output") == "interleaved" else 0)):
        return _read(data, options, extract)


def _read(data: bytes, options: Mapping[str, Any], extract: Extract) -> tuple[dict[str, Any], list[bytes]]:
    chosen = {name: value for name, value in options.items() if name not in _OWN}
    output, used = options.get("output", "text"), data
    cut = truncation(data)
    try:
        extracted = _extracted(data, chosen, extract)
    except MediaError as error:
        if error.fault.reason not in _BROKEN:
            raise
        repaired = with_page_tree(data) if options.get("repair", True) else None
        if repaired is None:
            if not cut and has_no_pages(data):
                raise MediaError("no pages", "its page tree is empty") from None
            raise _fault(data, cut, error.fault) from None
        try:
            extracted, used = _extracted(repaired, chosen, extract), repaired
        except MediaError:
            raise _fault(data, cut, error.fault) from None
    if not any(page["width"] or page["height"] for page in extracted["pages"]):
        raise MediaError("damaged", f"none of its {len(extracted['pages']):,} pages can be loaded")
    if cut and not any(page["characters"] or page["image_share"] for page in extracted["pages"]):
        raise _fault(data, cut)
    losses = DocumentLosses(extracted["losses"])
    losses.add("end", bool(cut))
    pictures = list[bytes]()
    if output == "interleaved":
        figures = extracted.get("figures") or ()
        pictures = figure_pictures(used, figures[:MOST_FIGURES])
        beyond = max(0, len(figures) - MOST_FIGURES) + sum(
            page.get("figures_left_out", 0) for page in extracted["pages"]
        )
        losses.add("figures", beyond + undrawn(figures, pictures))
    needed = {*(options.get("signals") or extracted["pages"][0]), *(["markdown"] if output == "interleaved" else [])}
    pages = [{name: page[name] for name in page if name in needed} for page in extracted["pages"]]
    kept = {name: extracted[name] for name in extracted if name in _WHOLE or name == output}
    if output == "markdown":
        kept["page_spans"] = _spans([page["markdown"] for page in extracted["pages"]])
    return {**kept, "pages": pages, "truncated": cut, "losses": losses.rows()}, pictures


def _spans(texts: Sequence[str]) -> list[list[int]]:
    """Where each page is in the Markdown of a document, which parts those that are not empty by an empty line."""
    spans, at = [], 0
    for text in texts:
        size = len(text.encode())
        start = at + 2 if at and size else at
        spans.append([start, start + size])
        at = start + size
    return spans


def _extracted(data: bytes, options: Mapping[str, Any], extract: Extract) -> dict[str, Any]:
    try:
        return extract(data, options)
    except pdfium.PdfiumError as error:
        raise MediaError("unreadable page", str(error)) from None
    except PdfError as error:
        if isinstance(error, MediaError):
            raise
        raise MediaError(error.reason, error.detail) from None


def _fault(data: bytes, cut: str, fault: MediaFault | None = None) -> MediaError:
    if not cut:
        return MediaError("damaged", fault.detail if fault and fault.reason == "damaged" else "it has no object")
    limit = ", where crawlers cut files off" if len(data) in LIMITS else ""
    return MediaError("truncated", f"it ends after {len(data):,} bytes{limit}, before its first text")


extract_pdf(WARM.read_bytes(), {})  # compiles the kernels, or loads them, before the first file is timed
