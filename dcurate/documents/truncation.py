"""Whether a PDF was cut off on its way, as crawlers do at a limit of size."""

from __future__ import annotations

import re

#: Bytes at which Common Crawl cuts responses off, since March 2025 and before:
#: https://commoncrawl.org/blog/march-2025-crawl-archive-now-available
LIMITS = (5 * 2**20, 2**20)

_OBJECT = re.compile(rb"[0-9]\s+obj\b")
_END = b"%%EOF"


def truncation(data: bytes) -> str:
    r"""Return how a PDF was cut off, or an empty text for one that was not.

    A whole file has its end mark ``%%EOF`` after its last object. (What follows the mark may be noise of the transfer.
    A mark in the middle is that of an earlier version, or of the first page of a file that is made for the web.)

    Returns:
        ``"length"``, the word of WARC for a cut at a limit of size, where the size is one of `LIMITS`;
        ``"no end mark"`` for other files without their end; or ``""``. A file without any object is not cut off, but
        damaged, or no PDF.

    Examples:
        >>> truncation(b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF\n"), truncation(b"%PDF-1.4\n1 0 obj\n<<")
        ('', 'no end mark')
    """
    end = data.rfind(_END)
    if not _OBJECT.search(data, max(end, 0)):
        return ""
    return "length" if len(data) in LIMITS else "no end mark"
