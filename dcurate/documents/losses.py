"""Count the parts of a document that are not in its text, for the row, the report and a notice.

Child processes load it, so it imports nothing that starts threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

#: Each kind of loss, and what was lost.
KINDS: Final[Mapping[str, str]] = {
    "end": "files that end early",
    "pages": "pages beyond max_pages",
    "unreadable pages": "pages that cannot be loaded",
    "pages set aside": "pages that OCR cannot read",
    "characters": "characters beyond max_chars_per_page",
    "turned characters": "oblique characters, such as those of a watermark",
    "drawings": "pages with more drawings than max_objects_per_page, whose tables and pictures may be incomplete",
    "figures": "figures beyond those that are drawn",
    "form fields": "form fields, notes, stamps, buttons and signatures with text that is not read",
    "forms": "forms that a program in the file draws (XFA)",
    "chapters": "chapters that are damaged, missing or in another format",
    "slides": "slides that are damaged or missing",
    "sheets": "sheets that are damaged or missing",
    "parts": "charts, diagrams, notes, headers and text boxes that are damaged or missing",
    "embedded documents": "documents within a document",
    "repeated rows": "rows that a file repeats more often than they are written",
    "repeated cells": "cells that a file repeats more often than they are written",
    "far rows": "sheets with rows beyond the last that a sheet may have",
}
#: How the report counts losses, and documents with any.
_LOST, _DOCUMENTS = "lost: ", "documents with losses"
_LONGEST = 200


class DocumentLosses:
    """Counts the parts of a document that are not in its text.

    Args:
        rows: those of an earlier count, to go on with.

    Examples:
        >>> losses = DocumentLosses()
        >>> losses.add("chapters", where="b.xhtml")
        >>> losses.add("chapters", where="c.xhtml")
        >>> losses.rows()
        [{'what': 'chapters', 'count': 2, 'where': 'b.xhtml'}]
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._rows: dict[str, dict[str, Any]] = {row["what"]: dict(row) for row in rows}

    def add(self, what: str, count: int = 1, where: str = "") -> None:
        """Add a loss.

        Args:
            what: one of `KINDS`.
            count: how many; nothing happens for 0.
            where: place of the first, for a person.

        Raises:
            ValueError: a kind that is not one of `KINDS`.
        """
        if what not in KINDS:
            raise ValueError(f"{what!r} is not a kind of loss; add it to KINDS of dcurate.documents.losses")
        if count:
            row = self._rows.setdefault(what, {"what": what, "count": 0, "where": where[:_LONGEST]})
            row["count"] += int(count)

    def rows(self) -> list[dict[str, Any]]:
        """The losses, a row for each kind."""
        return list(self._rows.values())


def counted(documents: Iterable[Sequence[Mapping[str, Any]] | None]) -> dict[str, int]:
    """Add up the losses of documents for the report.

    Args:
        documents: the losses of each.

    Examples:
        >>> counted([[{"what": "pages", "count": 3, "where": ""}], None])
        {'documents with losses': 1, 'lost: pages': 3}
    """
    counts: dict[str, int] = {}
    for losses in documents:
        if losses:
            counts[_DOCUMENTS] = counts.get(_DOCUMENTS, 0) + 1
        for loss in losses or ():
            name = _LOST + loss["what"]
            counts[name] = counts.get(name, 0) + loss["count"]
    return counts


def remarks_on_losses(stage: str, found: Mapping[str, int]) -> list[str]:
    """Return the notice about the losses that a stage counted; none if there are none.

    Args:
        stage: its name.
        found: how often, as `counted` names them.

    Examples:
        >>> print(*remarks_on_losses("pdf_extract", {"documents with losses": 1, "lost: pages": 3}))
        pdf_extract: 1 document is not whole; lost are 3 pages beyond max_pages. The column losses says where
    """
    documents = found.get(_DOCUMENTS, 0)
    if not documents:
        return []
    lost = [f"{count:,} {KINDS[loss]}" for loss in KINDS if (count := found.get(_LOST + loss, 0))]
    are = "document is" if documents == 1 else "documents are"
    return [f"{stage}: {documents:,} {are} not whole; lost are {'; '.join(lost)}. The column losses says where"]
