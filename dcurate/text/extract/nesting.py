"""Nesting depth of the elements of a page."""

from __future__ import annotations

import re
from collections import Counter

_NESTED = (
    *("article", "aside", "blockquote", "center", "details", "div", "dl", "fieldset", "figure", "footer", "header"),
    *("main", "nav", "ol", "section", "table", "ul"),
)
_BLOCKS = frozenset(_NESTED)
#: Around each of these the parser looks at all elements, up to the ruby that holds it.
_ANNOTATIONS = ("rb", "rp", "rt", "rtc")
_TAG = re.compile(rf"<(?:(/?)({'|'.join((*_NESTED, *_ANNOTATIONS, 'ruby'))})\b|[a-z])", re.IGNORECASE)
#: Resiliparse looks at all blocks around each tag: how many looks are allowed in all, and more for each character.
_LOOKS, _LOOKS_MORE = 8_000_000, 10


def nested_too_deeply(page: str) -> bool:
    """Whether blocks (``div``, ``table`` and the like) are nested so deeply that the page would take too long.

    It is found without parsing the page. Resiliparse looks at all blocks around each of a page's elements; with 100,000
    of them in each other it would take days. An end tag closes what has its name; any other is ignored, as by a parser.

    Examples:
        >>> nested_too_deeply("<div>" * 10_000), nested_too_deeply("<div></div>" * 10_000)
        (True, False)
    """
    budget = _LOOKS + _LOOKS_MORE * len(page)
    open_: Counter[str] = Counter()
    blocks = annotations = 0
    for tag in _TAG.finditer(page):
        name = (tag[2] or "").lower()
        if name and not tag[1]:
            open_[name] += 1
            blocks += name in _BLOCKS
            annotations += name in _ANNOTATIONS
        elif open_[name]:
            open_[name] -= 1
            blocks -= name in _BLOCKS
            annotations -= name in _ANNOTATIONS
            if name == "ruby":
                annotations -= sum(open_.pop(annotation, 0) for annotation in _ANNOTATIONS)
        budget -= blocks + (annotations if name in _ANNOTATIONS else 0)
        if budget < 0:
            return True
    return False
