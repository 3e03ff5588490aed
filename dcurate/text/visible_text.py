"""The share of visible text of an HTML page."""

from __future__ import annotations

import sys
from collections import Counter
from html.entities import html5
from html.parser import HTMLParser

#: Elements without content: a start tag is an end tag too.
_EMPTY = frozenset(
    ("area", "base", "basefont", "bgsound", "br", "col", "command", "embed", "frame", "hr", "image", "img", "input")
) | frozenset(("isindex", "keygen", "link", "menuitem", "meta", "nextid", "param", "source", "spacer", "track", "wbr"))
#: Elements whose text is not the page's: code, styles, templates, and glosses beside characters.
_HIDDEN = frozenset(("script", "style", "template", "rt", "rp"))
_PREFORMATTED = frozenset(("pre", "textarea"))
_ASCII_SPACES = frozenset(" \n\t\f\r")
_CDATA = "CDATA["
#: Characters that the parser may look at in vain, and how many times the page. It looks for the end of each tag without
#: one in all that follows.
_PATIENCE, _TIMES = 10_000_000, 20


def visible_length(markup: str) -> int | None:
    """Characters of a page's text without scripts and styles, as in Beautiful Soup with Python's own parser.

    A stretch of nothing but whitespace between two tags counts as one character, unless it is preformatted.

    Returns:
        the characters; None if the parser cannot read the markup, or would take minutes because too many tags have no
        end.

    Examples:
        >>> visible_length("<p>Hi &amp; bye</p>  <script>x()</script>")
        9
        >>> visible_length("<![x[")
    """
    parser = _Parser(_PATIENCE + _TIMES * len(markup))
    try:
        parser.feed(markup)
        parser.close()
    except AssertionError:  # raised by the parser for invalid declarations
        return None
    parser.end_text()
    return parser.length


class _Parser(HTMLParser):
    """Count text and track the open elements."""

    def __init__(self, patience: int) -> None:
        super().__init__(convert_charrefs=False)
        self.length = 0
        self._text: list[str] = []
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._hidden = self._preformatted = 0
        self._closed_already: Counter[str] = Counter()
        self._patience = patience

    def end_text(self, shown: bool | None = None) -> None:
        """Count the text since the last tag, if it is visible; hidden text is skipped by default."""
        if not self._text:
            return
        text = "".join(self._text)
        self._text = []
        if not self._hidden if shown is None else shown:
            blank = not self._preformatted and _ASCII_SPACES.issuperset(text)
            self.length += 1 if blank else len(text)

    def parse_starttag(self, i: int) -> int:
        return self._minding(super().parse_starttag(i), i)

    def parse_endtag(self, i: int) -> int:
        return self._minding(super().parse_endtag(i), i)

    def parse_comment(self, i: int, report: bool = True) -> int:
        return self._minding(super().parse_comment(i, report), i)

    def parse_pi(self, i: int) -> int:
        return self._minding(super().parse_pi(i), i)

    def parse_html_declaration(self, i: int) -> int:
        return self._minding(super().parse_html_declaration(i), i)

    def _minding(self, end: int, start: int) -> int:
        if end < 0:
            self._patience -= len(self.rawdata) - start
            if self._patience < 0:
                raise AssertionError("too many tags without an end")
        return end

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag)
        if tag in _EMPTY:
            self._end(tag)
            self._closed_already[tag] += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag)
        self._end(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._closed_already[tag]:
            self._closed_already[tag] -= 1
        else:
            self._end(tag)

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_charref(self, name: str) -> None:
        self._text.append(_referred_to(name))

    def handle_entityref(self, name: str) -> None:
        self._text.append(html5.get(f"{name};") or html5.get(name) or f"&{name}")

    def handle_comment(self, data: str) -> None:
        self._aside(data, shown=False)

    def handle_decl(self, decl: str) -> None:
        self._aside(decl, shown=False)

    def handle_pi(self, data: str) -> None:
        self._aside(data, shown=False)

    def unknown_decl(self, data: str) -> None:
        is_text = data.upper().startswith(_CDATA)
        self._aside(data[len(_CDATA) :] if is_text else data, shown=is_text)

    def _aside(self, data: str, shown: bool) -> None:
        self.end_text()
        self._text.append(data)
        self.end_text(shown)

    def _start(self, tag: str) -> None:
        self.end_text()
        self._open.append(tag)
        self._entered(tag, 1)

    def _end(self, tag: str) -> None:
        self.end_text()
        if not self._count[tag]:
            return
        closed = ""
        while closed != tag:
            closed = self._open.pop()
            self._entered(closed, -1)

    def _entered(self, tag: str, by: int) -> None:
        self._count[tag] += by
        self._hidden += by * (tag in _HIDDEN)
        self._preformatted += by * (tag in _PREFORMATTED)


def _referred_to(number: str) -> str:
    """The character of a numeric reference; an invalid one still counts as one."""
    digits, base = (number[1:], 16) if number[0] in "xX" else (number, 10)
    digits = digits.lstrip("0") or "0"
    point = int(digits, base) if len(digits) <= 7 else sys.maxunicode + 1
    return chr(point) if point <= sys.maxunicode else "\ufffd"
