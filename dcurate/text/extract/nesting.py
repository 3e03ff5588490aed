"""Nesting depth of the elements of a page: whether it is too deep, and a page that is flat below some depth."""

from __future__ import annotations

import re
from collections import Counter

_NESTED = (
    *("article", "aside", "blockquote", "center", "details", "div", "dl", "fieldset", "figure", "footer", "header"),
    *("main", "nav", "ol", "section", "table", "ul"),
)
_BLOCKS = frozenset(_NESTED)
#: Elements within a line; any other ends it.
_INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
        *("ins", "kbd", "label", "mark", "nobr", "q", "rb", "rp", "rt", "rtc", "ruby", "s", "samp", "small", "span"),
        *("strike", "strong", "sub", "sup", "time", "tt", "u", "var"),
    )
)
#: Elements without an end, and those whose content is plain text.
_ALONE = frozenset(
    (
        *("area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source"),
        *("track", "wbr", "script", "style", "textarea", "title", "xmp"),
    )
)
#: libxml2 lets an end tag close open elements of its own rank and of lower ones, others have rank 100.
_RANKS = {
    **{"div": 150, "td": 160, "th": 160, "tr": 170, "thead": 180, "tbody": 180, "tfoot": 180, "table": 190},
    **{"head": 200, "body": 200, "html": 220},
}
_RANK = 100
#: Around each of these the parser looks at all elements, up to the ruby that holds it.
_ANNOTATIONS = ("rb", "rp", "rt", "rtc")
_TAG = re.compile(rf"<(?:(/?)({'|'.join((*_NESTED, *_ANNOTATIONS, 'ruby'))})\b|[a-z])", re.IGNORECASE)
_ANY_TAG = re.compile(r"<(/?)([a-z][^\s/<>]*)[^<>]*>", re.IGNORECASE)
#: Depth from which libxml2 takes too long for tags, as it looks at all elements around them; depth of browsers, from
#: which `flattened` leaves out tags; and how many open elements it looks at for an end tag.
DEEPEST, _FLAT_FROM, _LOOKED_AT = 2_000, 512, 64
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


class TooDeepError(ValueError):
    """Elements of a page are nested deeper than `DEEPEST`."""

    def __init__(self) -> None:
        super().__init__("its elements are nested too deeply, which would take too long")


def flattened(page: str) -> str:
    """Return a page without the tags of elements that have hundreds around them; their text stays.

    A browser shows it alike, as it makes such elements siblings. Where a line ended, there is ``<hr>``.

    Examples:
        >>> flattened("<b>" * 600 + "text").count("<b>")
        512
        >>> flattened("<div>" * 512 + "<p>one<p>two")[-14:]
        '<hr>one<hr>two'
    """
    names: list[str] = []

    def closed(name: str) -> bool:
        """Close the element that an end tag closes, and those in it; False if libxml2 would ignore the tag."""
        rank = _RANKS.get(name, _RANK)
        for number, open_name in enumerate(reversed(names[-_LOOKED_AT:]), 1):
            if open_name == name:
                del names[-number:]
                return True
            if _RANKS.get(open_name, _RANK) > rank:
                break
        return False

    def kept(tag: re.Match[str]) -> str:
        name = tag[2].lower()
        if name in _ALONE:
            return tag[0]
        stays = closed(name) if tag[1] else True
        stays = stays and len(names) < _FLAT_FROM
        if not tag[1]:
            names.append(name)
        return tag[0] if stays else "" if name in _INLINE else "<hr>"

    return _ANY_TAG.sub(kept, page)
