"""Nesting depth of the elements of a page."""

from __future__ import annotations

import re

_NESTED = (
    *("article", "aside", "blockquote", "center", "details", "div", "dl", "fieldset", "figure", "footer", "header"),
    *("main", "nav", "ol", "section", "table", "ul"),
)
_TAG = re.compile(rf"<(?:(/?)(?:{'|'.join(_NESTED)})\b|[a-z])", re.IGNORECASE)
#: Resiliparse looks at all blocks around each tag: how many looks are allowed in all, and more for each character.
_LOOKS, _LOOKS_MORE = 8_000_000, 10


def nested_too_deeply(page: str) -> bool:
    """Whether blocks (``div``, ``table`` and the like) are nested so deeply that the page would take too long.

    It is found without parsing the page. Resiliparse looks at all blocks around each of a page's elements; with 100,000
    of them in each other it would take days.

    Examples:
        >>> nested_too_deeply("<div>" * 10_000), nested_too_deeply("<div></div>" * 10_000)
        (True, False)
    """
    left = _LOOKS + _LOOKS_MORE * len(page)
    open_ = 0
    for tag in _TAG.finditer(page):
        if tag[1] is not None:
            open_ = max(open_ - 1, 0) if tag[1] else open_ + 1
        left -= open_
        if left < 0:
            return True
    return False
