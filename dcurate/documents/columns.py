"""The columns of documents that were files: text, pages and signals, the same for PDF, office files and ebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from dcurate.documents.routes import OCR

#: The signals of a page.
PAGE: Final = pa.struct(
    [
        ("number", pa.int32()),
        ("width", pa.float64()),
        ("height", pa.float64()),
        ("rotate", pa.int32()),
        ("characters", pa.int64()),
        ("characters_left_out", pa.int64()),
        ("characters_turned", pa.int64()),
        ("characters_hidden", pa.int64()),
        ("image_share", pa.float64()),
        ("text_over_image", pa.float64()),
        ("broken_share", pa.float64()),
        ("invisible_share", pa.float64()),
        ("fonts", pa.int32()),
        ("scanned", pa.bool_()),
        ("route", pa.string()),
        ("route_reason", pa.string()),
        ("ocr_need", pa.float64()),
        ("ocr_confidence", pa.float64()),
        ("skew_degrees", pa.float64()),
        ("by_shapes", pa.float64()),
        ("noise_share", pa.float64()),
    ]
)
#: A range of bytes of the text.
SPAN: Final = pa.struct([("start", pa.int64()), ("stop", pa.int64())])
#: The parts of a document that are not in its text; see `dcurate.documents.losses`.
LOSSES: Final = pa.list_(pa.struct([("what", pa.string()), ("count", pa.int64()), ("where", pa.string())]))

#: What is known of a document besides its text; see `document_columns`.
DOCUMENT: Final = pa.schema(
    [
        ("title", pa.string()),
        ("producer", pa.string()),
        ("creator", pa.string()),
        ("declared_language", pa.string()),
        ("n_pages", pa.int64()),
        ("n_characters", pa.int64()),
        ("characters_per_page", pa.float64()),
        ("image_share", pa.float64()),
        ("text_over_image", pa.float64()),
        ("broken_share", pa.float64()),
        ("scanned_share", pa.float64()),
        ("ocr_share", pa.float64()),
        ("rotated_share", pa.float64()),
        ("n_fonts", pa.int64()),
        ("truncated", pa.string()),
        ("losses", LOSSES),
        ("pages", pa.list_(PAGE)),
        ("page_spans", pa.list_(SPAN)),
    ]
)


def document_columns(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a document from what was extracted from it.

    Shares of a document are means over its pages, except ``broken_share`` and ``text_over_image``, which are shares of
    its characters. What is not known is None.

    Args:
        found: the result of an extraction; see `dcurate.documents.pdf.extract_pdf`. Only ``pages`` is needed.

    Examples:
        >>> page = {"number": 1, "characters": 30, "image_share": 0.5, "broken_share": 0.1, "fonts": ["A"]}
        >>> row = document_columns({"pages": [page, {**page, "number": 2, "characters": 90, "broken_share": 0.0}]})
        >>> row["n_characters"], row["characters_per_page"], row["image_share"], row["broken_share"], row["n_fonts"]
        (120, 60.0, 0.5, 0.025, 1)
    """
    pages: Sequence[Mapping[str, Any]] = found.get("pages") or ()
    characters = [int(page.get("characters") or 0) for page in pages]
    fonts = [page.get("fonts") for page in pages]
    return {
        **{name: found.get(name) or None for name in ("title", "producer", "creator", "truncated", "losses")},
        "declared_language": found.get("language") or None,
        "n_pages": found.get("n_pages", len(pages)),
        "n_characters": sum(characters),
        "characters_per_page": _rounded(sum(characters) / len(pages)) if pages else None,
        "image_share": _mean(pages, "image_share"),
        "text_over_image": _mean(pages, "text_over_image", characters),
        "broken_share": _mean(pages, "broken_share", characters),
        "scanned_share": _mean(pages, "scanned"),
        "ocr_share": _share_of(pages, OCR),
        "rotated_share": _mean([{"rotated": bool(page.get("rotate"))} for page in pages], "rotated"),
        "n_fonts": len({name for names in fonts if isinstance(names, list) for name in names}) if any(fonts) else None,
        "pages": [_page(page) for page in pages],
        "page_spans": [{"start": start, "stop": stop} for start, stop in found.get("page_spans") or ()],
    }


def _share_of(pages: Sequence[Mapping[str, Any]], route: str) -> float | None:
    """The share of pages that went one way; None if they were not sent anywhere."""
    return _mean([{"went": page.get("route") and page["route"] == route} for page in pages], "went")


def _page(page: Mapping[str, Any]) -> dict[str, Any]:
    fonts = page.get("fonts")
    row = {field.name: page.get(field.name) for field in PAGE}
    numbers = {name: _rounded(value) for name, value in row.items() if isinstance(value, float)}
    return {**row, **numbers, "fonts": len(fonts) if isinstance(fonts, list) else fonts}


def _mean(pages: Sequence[Mapping[str, Any]], name: str, weights: Sequence[int] | None = None) -> float | None:
    known = [
        (float(page[name]), weight)
        for page, weight in zip(pages, weights or [1] * len(pages), strict=True)
        if page.get(name) is not None
    ]
    total = sum(weight for _, weight in known)
    return _rounded(sum(value * weight for value, weight in known) / total) if total else None


def _rounded(value: float) -> float:
    return round(value, 4)
