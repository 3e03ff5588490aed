"""Options of the extraction of text from PDFs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class PdfOptions:
    """What to read from a PDF, and how much of it.

    Args:
        password: opens an encrypted file; most files that are encrypted for their owner only need none.
        max_pages: pages to read; the others are left out, and ``n_pages`` counts them all.
        most_pages: a file that has more is refused.
        max_chars_per_page: most characters read of a page; the text after them is left out.
        max_objects_per_page: drawings of a page to look at for tables and pictures.
        markdown: also write Markdown.
        links: also list the addresses that pages link to, and the values of form fields.
        keep_headers: keep headers, footers and page numbers in the text.
        join_hyphens: join words that were broken at the end of a line.
        shapes: read pages whose fonts have no map to Unicode, or a wrong one, by the shapes of their glyphs.
        crop: leave out text outside the crop box, which viewers do not show. Text outside the media box is always left
            out.
        forms: read the values of form fields, ``☒`` or ``☐`` for boxes and radio buttons, and the free-text notes that
            viewers show.

    Examples:
        >>> PdfOptions.of({"max_pages": 3}).max_pages
        3
    """

    password: str | None = None
    max_pages: int | None = None
    most_pages: int = 100_000
    max_chars_per_page: int = 200_000
    max_objects_per_page: int = 50_000
    markdown: bool = True
    links: bool = True
    keep_headers: bool = False
    join_hyphens: bool = True
    crop: bool = True
    forms: bool = True
    shapes: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> Self:
        """Options from a mapping, such as one that came as JSON.

        Raises:
            TypeError: the option is not known.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options or {}) - known)
        if unknown:
            raise TypeError(f"no option {unknown[0]!r} of PDF extraction; there are {', '.join(sorted(known))}")
        return cls(**(options or {}))
