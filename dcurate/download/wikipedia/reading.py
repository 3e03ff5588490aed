"""Parse wiki markup into tokens, in linear time.

mwparserfromhell reads on to the end of a page for each opening that is never closed, and twice, at each level, what is
nested in the cells of tables: a hostile page of a few kilobytes takes it hours. Its reader in C cannot be stopped, so
a page goes there only if few openings are left over; its reader in Python, which gives the same tokens, counts its
steps and stops. They differ in one thing: where a line ends right after the name of a tag, the reader in C takes
the tag for text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache
from typing import Any

from dcurate.core.extras import needed

#: The most that the reader in C may read twice: a multiple of the page's length, and characters beyond that.
_REREAD, _REREAD_MORE = 50, 500_000
#: What is nested deeper, beside what it may read twice, is left to the reader in Python.
_DEEPEST, _TABLES, _EQUAL_SIGNS = 30, 3, 100
#: How far down the innermost openings a closing mark looks for its opening.
_NEAR = 8
#: Steps that the reader in Python may take: for each piece of a page (most take two or three), and beyond that.
_STEPS, _STEPS_MORE = 5, 20_000

_PACKAGE = "mwparserfromhell"
_PLAIN = r"""(?:[^<>{}\[\]"'\\]++|"[^<>{}\[\]"\\]*+"|'[^<>{}\[\]'\\]*+')*+"""
_MARK = re.compile(
    rf"""
    (?P<newline>\n)
    | (?P<comment><!--)
    | (?P<close_tag></[A-Za-z][A-Za-z0-9]*\s*>)
    | (?P<tag><[A-Za-z][A-Za-z0-9]*(?:\s{_PLAIN})?/?>)
    | (?P<odd></|<(?=[^\s<>{{}}\[\]|=&'"\#*;:/!-]))
    | (?P<braces>{{{{+)
    | (?P<end_braces>}}}}+)
    | (?P<link>\[\[?)
    | (?P<end_link>\]\]?)
    | (?P<ticks>''+)
    """,
    re.VERBOSE,
)
_NAME = re.compile("[A-Za-z][A-Za-z0-9]*")
_CLOSING_TAG = re.compile(r"</([A-Za-z][A-Za-z0-9]*)\s*>")
_ADDRESS = re.compile(r"\[\[?(?:([A-Za-z0-9+.-]*):)?(//)?")
_LINE = re.compile(r"\s?(?:(=)|(\{\|)|(\|\}))")
_SIGNS = re.compile("=+")
_PIECE = re.compile(r"""[^{}\[\]<>|=&'#*;:/\\"\-!\n]++|.""", re.DOTALL)


class TangledError(Exception):
    """Parsing the markup would take too many steps."""


def tokens(markup: str) -> list[Any]:
    """The tokens of wiki markup, as made by mwparserfromhell.

    Raises:
        ResourceError: mwparserfromhell is not installed.
        TangledError: reading it would take too many steps.

    Examples:
        >>> [type(token).__name__ for token in tokens("a [[b]]")]
        ['Text', 'WikilinkOpen', 'Text', 'WikilinkClose']
    """
    quick = needed(f"{_PACKAGE}.parser", "WikipediaExtractor", "wiki").CTokenizer
    if quick and is_plain(markup):
        wiki_tokens: list[Any] = quick().tokenize(markup, 0, False)
        return wiki_tokens
    try:
        return _counting()(markup).tokenize(markup, 0, False)  # type: ignore[no-any-return]
    except RecursionError:
        raise TangledError("its markup is nested too deeply") from None


@cache
def _counting() -> Any:
    """The Python tokenizer, extended to count its steps and to leave out texts of nothing, as the one in C does."""
    reader = needed(f"{_PACKAGE}.parser.tokenizer", "WikipediaExtractor", "wiki").Tokenizer
    text = needed(f"{_PACKAGE}.parser.tokens", "WikipediaExtractor", "wiki").Text

    class BoundedReader(reader):  # type: ignore[misc, valid-type]
        def __init__(self, markup: str) -> None:
            super().__init__()
            self._steps = _STEPS * sum(1 for _ in _PIECE.finditer(markup)) + _STEPS_MORE

        def _read(self, *place: Any, **how: Any) -> Any:  # its parameters are others in each version
            self._steps -= 1
            if self._steps < 0:
                raise TangledError("its markup has too many unclosed elements")
            return super()._read(*place, **how)

        def tokenize(self, *markup: Any, **how: Any) -> list[Any]:
            wiki_tokens = super().tokenize(*markup, **how)
            return [token for token in wiki_tokens if not isinstance(token, text) or token.text]

    return BoundedReader


def is_plain(markup: str) -> bool:
    """Whether mwparserfromhell reads little of a page twice: elements are closed, and not nested deeply.

    Examples:
        >>> is_plain("A {{b|[[c]]}} ''d''"), is_plain("{{a|" * 10_000)
        (True, False)
    """
    return _Look(markup).is_plain()


class _Look:
    """One pass over a page; an unclosed element costs the text after it.

    Attributes:
        open: open elements: their type and start.
        cost: characters that are read again.
    """

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self.open: list[tuple[str, int]] = []
        self.cost = self.tables = 0
        self.most = _REREAD * len(markup) + _REREAD_MORE
        self.definitions = needed(f"{_PACKAGE}.definitions", "WikipediaExtractor", "wiki")
        self.ends: dict[str, list[int]] = {}
        if "</" in markup:
            for match in _CLOSING_TAG.finditer(markup):
                self.ends.setdefault(match[1].lower(), []).append(match.start())

    def is_plain(self) -> bool:
        """Whether little is read again."""
        handlers = {kind: getattr(self, f"_{kind}") for kind in _MARK.groupindex}
        place = self._line(0) or 0
        while match := _MARK.search(self.markup, place):
            place = handlers[str(match.lastgroup)](match) or match.end()
            if len(self.open) > _DEEPEST or self.tables > _TABLES or self.cost > self.most:
                return False
        self._leave(len(self.open))
        return self.cost <= self.most

    def _read_again(self, begin: int) -> None:
        self.cost += len(self.markup) - begin

    def _leave(self, number: int) -> None:
        """The innermost open elements are unclosed."""
        for _ in range(number):
            kind, begin = self.open.pop()
            self._read_again(begin)
            self.tables -= kind == "table"
            if kind == "heading":
                self._check_signs(begin, len(self.markup))

    def _check_signs(self, begin: int, end: int) -> None:
        """Each sign of a line that may end its heading is a nested call."""
        if len(_SIGNS.findall(self.markup, begin, end)) > _EQUAL_SIGNS:
            self.cost = self.most + 1

    def _shut(self, kind: str) -> bool:
        """Close the nearest element of a type; elements still open within it are unclosed."""
        for depth, (open_kind, _) in enumerate(self.open[: -_NEAR - 1 : -1]):
            if open_kind == kind:
                if depth:
                    self._leave(depth + 1)
                else:
                    self.open.pop()
                    self.tables -= kind == "table"
                return True
        return False

    def _is_in(self, *kinds: str) -> bool:
        return bool(self.open) and self.open[-1][0] in kinds

    def _line(self, place: int) -> int | None:
        """Handle the beginning of a line: a heading, a table, or the end of one; returns where to continue."""
        match = _LINE.match(self.markup, place)
        if not match:
            return None
        if match[1]:
            self.open.append(("heading", place))
            return match.end()
        if match[2]:
            self.open.append(("table", place))
            self.tables += 1
            return match.end()
        return match.end() if not self._is_in("braces") and self._shut("table") else None

    def _newline(self, match: re.Match[str]) -> int | None:
        while self._is_in("address", "heading"):
            kind, begin = self.open.pop()
            self.cost += match.start() - begin
            if kind == "heading":
                self._check_signs(begin, match.start())
        return self._line(match.end())

    def _comment(self, match: re.Match[str]) -> int | None:
        end = self.markup.find("-->", match.end())
        if end >= 0:
            return end + 3
        self._odd(match)
        return None

    def _tag(self, match: re.Match[str]) -> int | None:
        name = _NAME.search(match[0])[0].lower()  # type: ignore[index]
        if match[0].endswith("/>") or self.definitions.is_single_only(name):
            return None
        if self.definitions.is_parsable(name):
            self.open.append((f"<{name}", match.start()))
            return None
        ends = self.ends.get(name, [])
        at = bisect_left(ends, match.end())
        if at < len(ends):
            return ends[at] + 2
        self._odd(match)
        return None

    def _close_tag(self, match: re.Match[str]) -> None:
        tag = f"<{_NAME.search(match[0])[0].lower()}"  # type: ignore[index]
        if not self.open or not self.open[-1][0].startswith("<"):
            self._shut(tag)
            return
        while self.open and self.open[-1][0].startswith("<"):
            if self.open[-1][0] == tag:
                self.open.pop()
                return
            self._leave(1)

    def _odd(self, match: re.Match[str]) -> None:
        self._read_again(match.start())

    def _braces(self, match: re.Match[str]) -> None:
        if len(match[0]) > 2:
            self._read_again(match.start())
        self.open += [("braces", match.start())] * (len(match[0]) // 2)

    def _end_braces(self, match: re.Match[str]) -> None:
        for _ in range(len(match[0]) // 2):
            if not self._shut("braces"):
                return

    def _link(self, match: re.Match[str]) -> None:
        address = _ADDRESS.match(self.markup, match.start())
        outside = address is not None and self._is_address(address)
        if len(match[0]) == 2:
            if outside:
                self._read_again(match.start())
            self.open.append(("link", match.start()))
        elif outside:
            self.open.append(("address", match.start()))

    def _is_address(self, address: re.Match[str]) -> bool:
        if address[1]:
            return bool(self.definitions.is_scheme(address[1], bool(address[2])))
        return bool(address[2])

    def _end_link(self, match: re.Match[str]) -> int | None:
        if self._is_in("address"):
            self.open.pop()
            return match.start() + 1
        if len(match[0]) == 2:
            self._shut("link")
        return None

    def _ticks(self, match: re.Match[str]) -> None:
        number = min(len(match[0]), 5)
        self._style(3 if number == 4 else number, match.start())

    def _style(self, ticks: int, place: int) -> None:
        if self._is_in("italic") and ticks in (2, 5):
            self.open.pop()
            remaining = ticks - 2
        elif self._is_in("bold") and ticks in (3, 5):
            self.open.pop()
            remaining = ticks - 3
        elif ticks == 2 and self._is_in("bold") and self.open[-2:-1] == [("italic", self.open[-1][1])]:
            del self.open[-2]  # five ticks that are closed in the other order
            self._read_again(self.open[-1][1])
            return
        else:
            self.open += [(kind, place) for kind, size in (("italic", 2), ("bold", 3)) if ticks in (size, 5)]
            return
        if remaining:
            self._style(remaining, place)
