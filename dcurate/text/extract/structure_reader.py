"""Read a page with the cues of its elements, for threads and kinds of pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dcurate.text.extract.blocks import HtmlPage
from dcurate.text.extract.cues import AUTHOR, BODY, CART, DATE, MANUAL, POST, PRICE, THREAD, UNSEEN, cues_of
from dcurate.text.extract.reader import PageReader

#: Longest text that is taken for an author or a date, and parts of a page that are looked at for it.
_LONGEST, _MOST_PARTS = 120, 20
#: A date within a short text: numbers, a month by its name, or how long ago.
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DATE = re.compile(
    rf"(?:\b|(?={_MONTH}[a-z]* ))"
    r"(?:\d{4}-\d\d?-\d\d?|\d\d?[./-]\d\d?[./-]\d{2,4}|\d\d?\.? (?:\w{3,9})\.?,? \d{4}|"
    r"[A-Z][^\W\d_]{2,8}\.? \d\d?(?:st|nd|rd|th)?,? \d{4}|"
    r"\d+ (?:min(?:ute)?s?|hours?|days?|weeks?|months?|years?) ago)\b[^<>]{0,20}"
)
#: What a date is of that is not the post's.
_JOINED = re.compile(
    r".{0,60}\b(?:join(?:ed| date)|registered|member since|last (?:seen|visit|edited)|edited)\b",
    re.IGNORECASE | re.DOTALL,
)


_BY = re.compile(r"(?:(?:posted|written|answered|asked) )?by\b:? ?|:$", re.IGNORECASE)


class Mark(NamedTuple):
    """The author or the date of a post.

    Args:
        cues: what it is, `AUTHOR` or `DATE`, and whether by schema.org.
        node: innermost element with a number around it.
        first: number of the first block that has it.
        end: number after that of the last one.
        text: what the page shows.
    """

    cues: int
    node: int
    first: int
    end: int
    text: str


class _Started(NamedTuple):
    """An element with an author or a date that is open: what it is, and how much was read before it."""

    cues: int
    node: int
    block: int
    part: int
    marks: int
    otherwise: str
    cell: bool


@dataclass
class StructurePage(HtmlPage):
    """A page with what its elements say by their names.

    Args:
        cues: cues of each element.
        names: tag and first class of each element.
        marks: authors and dates, in order.
        lines: texts of posts that are within a line.
        prices: how many elements are prices.
        carts: how many put things into a cart.
        manual: how many are those of documentation.
        is_thread: whether it says that it is a thread, by microdata of schema.org.
    """

    cues: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    lines: list[Mark] = field(default_factory=list)
    prices: int = 0
    carts: int = 0
    manual: int = 0
    is_thread: bool = False


class StructureReader(PageReader):
    """Reads blocks as `PageReader` does, and cues beside them.

    Only a table that says so is one of data, and none with an author within a cell.
    """

    def __init__(self, markdown: bool = False, links: bool = False) -> None:
        super().__init__(markdown, links)
        self.structure = StructurePage()
        self._write_to(self.structure)
        self._last_author = -1
        self._in_body = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._within is not None:
            super().start(tag, attributes)
            return
        cues = cues_of(tag, attributes) if type(attributes) is dict or tag == "time" else 0
        before = self._node
        super().start(tag, attributes)
        page = self.structure
        if cues & (PRICE | CART | MANUAL | THREAD):
            page.is_thread |= bool(cues & THREAD)
            page.prices += bool(cues & PRICE)
            page.carts += bool(cues & CART)
            page.manual += bool(cues & MANUAL)
        if self._node != before and self._node >= 0:
            page.cues[self._node] = cues & ~(AUTHOR | DATE)
            page.names[self._node] = f"{tag}.{attributes.get('class', '').partition(' ')[0][:_LONGEST]}"
        if self._within is not None or self._quotes or cues & POST:
            return
        places = len(self._blocks), len(self._parts)
        if cues & (AUTHOR | DATE) and not cues & BODY:
            shown = attributes.get("datetime") or attributes.get("content") or ""
            started = _Started(cues, self._node, *places, len(page.marks), shown, tag in ("td", "th"))
            self._at_end(lambda reader: reader._mark(started))
        elif cues & BODY and self._node == before and not self._in_body:
            self._in_body = True
            node = self._node
            self._at_end(lambda reader: reader._mark_body(node, *places))

    def _open(self, tag: str, attributes: Mapping[str, str]) -> bool:
        opened = super()._open(tag, attributes)
        if opened:
            self.structure.cues.append(0)
            self.structure.names.append(tag)
        return opened

    def _start_row(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._open(tag, attributes):
            super()._start_row(tag, attributes)

    def _mark(self, started: _Started) -> None:
        """Note an author or a date: the innermost element of an author, the outermost of a date."""
        marks, kind = self.structure.marks, started.cues & (AUTHOR | DATE)
        blocks = self._blocks[started.block : started.block + _MOST_PARTS]
        part = 0 if len(self._blocks) > started.block else started.part
        inner = "".join(part[:_LONGEST] for part in self._parts[part : part + _MOST_PARTS])
        shown = " ".join([*(block.text[:_LONGEST] for block in blocks), inner]).replace("\0", " ")
        text = " ".join((shown if shown.strip() else started.otherwise[:_LONGEST]).split())
        text = _BY.sub("", text) if kind == AUTHOR else text
        within = marks[started.marks : started.marks + _MOST_PARTS]
        same = [place for place, mark in enumerate(within, started.marks) if mark.cues & kind]
        if same and (kind & AUTHOR or len(text) > _LONGEST):
            marks[same[0]] = marks[same[0]]._replace(cues=marks[same[0]].cues | started.cues)
        elif text and len(text) <= _LONGEST:
            if same and len(same) == len(within):
                del marks[started.marks :]
            end = max(len(self._blocks), started.block + 1)
            marks.append(Mark(started.cues | (0 if shown.strip() else UNSEEN), started.node, started.block, end, text))
            if kind & AUTHOR and not started.cell:
                self._last_author = started.node

    def _mark_body(self, node: int, first_block: int, first_part: int) -> None:
        """Note a text of a post that is within a line."""
        self._in_body = False
        if len(self._blocks) == first_block:
            text = " ".join("".join(self._parts[first_part:]).split())
            if text:
                self.structure.lines.append(Mark(BODY, node, first_block, first_block + 1, text))

    def _end_table(self) -> None:
        table, page = self._tables[-1], self.structure
        table.holds_table |= self._last_author >= table.node or not table.says_data
        super()._end_table()
        if len(page.cues) > len(page.parents):
            del page.cues[len(page.parents) :], page.names[len(page.parents) :]
            self._last_author = -1
            for marks in (page.marks, page.lines):
                while marks and marks[-1].node >= len(page.parents):
                    marks.pop()


def date_in(text: str) -> str:
    """Return the date that a short text has; empty if it has none.

    Examples:
        >>> date_in("Posted: Tue 3 May 2011 10:12"), date_in("3 posts")
        ('3 May 2011 10:12', '')
    """
    match = _DATE.search(text) if len(text) <= _LONGEST and not is_of_another(text) else None
    return match[0].strip(" »«|,-") if match else ""


def is_of_another(text: str) -> bool:
    """Return whether a date in a short text is of something other than the post, such as when its author joined.

    Examples:
        >>> is_of_another("Join Date: May 2004"), is_of_another("Posted May 2004")
        (True, False)
    """
    return _JOINED.match(text[:_LONGEST]) is not None
