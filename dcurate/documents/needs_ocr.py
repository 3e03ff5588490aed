"""`NeedsOcr`: which pages of PDFs have their text in the file, and which do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.documents.columns import PAGE
from dcurate.documents.router import decide
from dcurate.documents.routes import OCR, ROUTES, TEXT
from dcurate.errors import PipelineError, listed
from dcurate.frames.columns import column_of
from dcurate.frames.document import DocumentBatch
from dcurate.media.stage import with_columns


@dataclass
class NeedsOcr(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Decide for each page of a PDF whether its text is in the file, from signals and text of `PdfExtract`.

    Nothing is read again, so that this is cheap: it shows how much of a corpus needs OCR before any is done. With
    ``PdfExtract(ocr="auto")`` the same rule decides, and pages are read by OCR at once. `dcurate.documents.router`
    has the rule.

    Rows get the columns

    * ``pages``, each with ``route``, ``route_reason`` and ``ocr_need`` (0 to 1) filled,
    * ``ocr_share``: the share of pages that do not go to ``"text"``,
    * ``route``: `otherwise` if that is more than `max_ratio`, else ``"text"``.

    Args:
        otherwise: where pages go whose text is not in the file: ``"ocr"``, ``"vision"`` or ``"set aside"``.
        max_ratio: the largest share of such pages with which a document still counts as text.
        text_field: the column with the text.

    Raises:
        PipelineError: a setting that does not exist.

    Examples:
        >>> import pyarrow as pa
        >>> scan = {"number": 1, "characters": 0, "image_share": 1.0, "text_over_image": 0.0, "broken_share": 0.0}
        >>> spans = [{"start": 0, "stop": 0}]
        >>> batch = DocumentBatch(data=pa.table({"text": [""], "pages": [[scan]], "page_spans": [spans]}))
        >>> row = NeedsOcr().process(batch).to_arrow().to_pylist()[0]
        >>> row["route"], row["pages"][0]["route_reason"]
        ('ocr', 'scanned')
    """

    otherwise: str = OCR
    max_ratio: float = 0.0
    text_field: str = "text"
    name: str = "needs_ocr"

    def __post_init__(self) -> None:
        if self.otherwise not in ROUTES[1:]:
            raise PipelineError(f"{self.name}: otherwise={self.otherwise!r} is not one of {listed(ROUTES[1:])}")
        if not 0 <= self.max_ratio <= 1:
            raise PipelineError(f"{self.name}: max_ratio={self.max_ratio!r} must be from 0 to 1")

    def inputs(self) -> Spec:
        return ["data"], [self.text_field, "pages", "page_spans"]

    def outputs(self) -> Spec:
        return ["data"], ["pages", "ocr_share", "route"]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        columns = (column_of(table, name).to_pylist() for name in (self.text_field, "pages", "page_spans"))
        routed = [
            _routed(text or "", pages or [], spans or [], self.otherwise)
            for text, pages, spans in zip(*columns, strict=True)
        ]
        shares = [sum(page["route"] != TEXT for page in pages) / len(pages) if pages else None for pages in routed]
        routes = [self.otherwise if (share or 0) > self.max_ratio else TEXT for share in shares]
        added = pa.table(
            {
                "pages": pa.array(routed, pa.list_(PAGE)),
                "ocr_share": pa.array(shares, pa.float64()),
                "route": pa.array(routes, pa.string()),
            }
        )
        return replace(task, data=with_columns(table, added))


def _routed(
    text: str, pages: Sequence[Mapping[str, Any]], spans: Sequence[Mapping[str, int]], otherwise: str
) -> list[dict[str, Any]]:
    """The pages of a document with the way of each."""
    data = text.encode()
    routed = []
    for number, page in enumerate(pages):
        span = spans[number] if number < len(spans) else {"start": 0, "stop": len(data) if len(pages) == 1 else 0}
        route = decide(page, data[span["start"] : span["stop"]].decode(errors="ignore"), otherwise)
        routed.append({**page, "route": route.way, "route_reason": route.reason, "ocr_need": route.need})
    return routed
