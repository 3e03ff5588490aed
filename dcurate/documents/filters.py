"""Rules over the signals of documents that were files."""

from __future__ import annotations

from dataclasses import dataclass

from dcurate.text.number_filter import NumberFilter


@dataclass(frozen=True)
class PageCountFilter(NumberFilter):
    """Keep documents by the number of their pages.

    Args:
        min_pages: the fewest to keep.
        max_pages: the most to keep; None for no limit.

    Examples:
        >>> PageCountFilter(max_pages=500).keep_document(900)
        False
    """

    min_pages: int = 1
    max_pages: int | None = None

    column = "n_pages"
    _low = "min_pages"
    _high = "max_pages"


@dataclass(frozen=True)
class CharactersPerPageFilter(NumberFilter):
    """Keep documents with enough text on their pages; scans and drawings have little or none.

    Args:
        min_chars: the lowest mean over the pages to keep.

    Examples:
        >>> CharactersPerPageFilter().keep_document(3.5)
        False
    """

    min_chars: float = 50

    column = "characters_per_page"
    _low = "min_chars"


@dataclass(frozen=True)
class BrokenTextFilter(NumberFilter):
    """Keep documents whose characters have a known meaning: a font without a map to Unicode gives noise.

    Args:
        max_broken_ratio: the highest share of characters without one to keep.

    Examples:
        >>> BrokenTextFilter().keep_document(0.02), BrokenTextFilter().keep_document(0.9)
        (True, False)
    """

    max_broken_ratio: float = 0.1

    column = "broken_share"
    _high = "max_broken_ratio"


@dataclass(frozen=True)
class ScannedFilter(NumberFilter):
    """Keep documents of which few pages are scans.

    Args:
        max_scanned_ratio: the highest share of pages that are pictures of text to keep.

    Examples:
        >>> ScannedFilter().keep_document(1.0)
        False
    """

    max_scanned_ratio: float = 0.5

    column = "scanned_share"
    _high = "max_scanned_ratio"
