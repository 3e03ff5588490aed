"""What a reader of pages does at the start of each element, by its tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Gets the reader, a tag and its attributes; not bound to a reader, so that one table serves all of a class.
Start = Callable[[Any, str, Mapping[str, str]], object]
_LEFT_OUT = (
    *("style", "title", "template", "svg", "iframe", "select", "button", "object", "embed", "canvas", "audio"),
    *("video", "textarea", "datalist", "map", "applet", "mjx-math", "noembed", "noframes", "rp", "rt", "progress"),
)
_NODES = (
    *("html", "body", "div", "section", "article", "main", "header", "footer", "nav", "aside", "menu", "dialog"),
    *("p", "form", "fieldset", "figure", "figcaption", "address", "center", "details", "hgroup", "search"),
    *("dl", "noscript", "legend", "dir", "optgroup"),
)
#: Elements within a line that are usual; any other that is not named here is one, too.
_INLINE = (
    *("span", "strong", "em", "b", "i", "u", "small", "label", "time", "source", "picture", "sup", "sub", "cite"),
    "font",
)
#: Elements without content that show nothing.
_EMPTY = ("base", "input", "link", "param")
#: Headings and their levels.
HEADINGS = {f"h{level}": level for level in range(1, 7)}


def starts_of(reader: Any) -> dict[str, Start]:
    """Return what a class of readers, such as `PageReader`, does at the start of each element, by its tag."""
    return {
        **dict.fromkeys(_INLINE, reader._start_inline),
        **dict.fromkeys(_LEFT_OUT, reader._start_left_out),
        **dict.fromkeys(_NODES, reader._open),
        **dict.fromkeys(_EMPTY, reader._start_empty),
        **dict.fromkeys(HEADINGS, reader._start_heading),
        **dict.fromkeys(("dt", "dd", "summary"), reader._start_kind),
        **dict.fromkeys(("code", "kbd", "samp", "tt"), reader._start_inline_code),
        **dict.fromkeys(("pre", "listing", "xmp"), reader._start_code),
        **dict.fromkeys(("ul", "ol"), reader._start_list),
        **dict.fromkeys(("td", "th"), reader._start_cell),
        **dict.fromkeys(("thead", "tbody", "tfoot", "colgroup"), reader._start_rows),
        "meta": reader._start_meta,
        "script": reader._start_script,
        "math": reader._start_formula,
        "table": reader._start_table,
        "tr": reader._start_row,
        "caption": reader._start_caption,
        "li": reader._start_item,
        "br": reader._start_break,
        "hr": reader._start_rule,
        "img": reader._start_image,
        "a": reader._start_link,
        "blockquote": reader._start_quote,
    }
