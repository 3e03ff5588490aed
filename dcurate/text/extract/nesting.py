"""How deep the elements of a page are nested."""

from __future__ import annotations

import re

_NESTED = ("div", "article")
_TAG = re.compile(rf"<(/?)(?:{'|'.join(_NESTED)})\b", re.IGNORECASE)


def nested_deeper(page: str, depth: int) -> bool:
    """Whether blocks (``div`` and ``article``) are nested deeper; told without parsing the page.

    Resiliparse looks at all that is above each of these; with 100,000 of them it would take days.

    Examples:
        >>> nested_deeper("<div>" * 11, 10), nested_deeper("<div></div>" * 11, 10)
        (True, False)
    """
    if page.count("<") <= depth:
        return False
    open_ = 0
    for tag in _TAG.finditer(page):
        open_ = max(open_ - 1, 0) if tag[1] else open_ + 1
        if open_ > depth:
            return True
    return False
