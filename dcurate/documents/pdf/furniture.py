"""Headers, footers and page numbers: lines at the same place of many pages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcurate.documents.pdf.native import PageFrame
from dcurate.documents.pdf.page import PdfPage
from dcurate.kernels.pdf.lines import BASE, SIZE

#: Lines from the top and from the bottom of a page that may be furniture.
_DEPTH = 8
#: Share of the page's height at each end where repeated lines, page numbers and lines that are alone may be.
_MARGIN, _NUMBERS, _NARROW = 0.16, 0.12, 0.085
#: Points within which lines are at the same height.
_SLOT = 3

#: Pages that a document needs for headings of its pages to be seen as such.
_PAGES = 5
#: Pages from which page numbers must rise to be seen as such.
_RISING = 3

_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(
    r"[\W_]*+(?:(?:page|seite|pp?\.|pág(?:ina)?\.?|pagina|strona|стр(?:аница)?\.?|σελ(?:ίδα)?\.?|sayfa|第)[\W_]*+)?"
    r"(?:\d{1,5}|[ivxl]{1,7})"
    r"(?:\s*(?:/|of|de|von|di|van|из|\||sur|z|av|af|til)\s*\d{1,5})?[\s|)\]–—-]*+(?:(?:页|頁|ページ)[\s–—-]*+)?",
    re.IGNORECASE,
)


class End(NamedTuple):
    """A line near the top (side 0) or the bottom (side 1) of a page, and how far from it, in points."""

    page: int
    line: int
    side: int
    away: float
    text: str


def find_furniture(pages: Sequence[PdfPage]) -> list[tuple[int, int]]:
    """Lines that are headers, footers or page numbers, as numbers of a page and a line.

    A line is one if nothing is further out on its page, and the same text, but for digits, is at the same height of
    other pages; or most lines at that height are such; or it is only a page number; or it is smaller than the text
    and apart from it. Lines that run at right angles to the others are compared with those of all pages that run their
    way, and only in the outer margin.
    """
    original, pages = pages, list(map(_upright, pages))
    ends = [_ends(number, page) for number, page in enumerate(pages)]
    bodies = list(map(_body, pages))
    slots: dict[tuple[int, int], list[End]] = defaultdict(list)
    same: Counter[tuple[int, int, str]] = Counter()
    for of_page in ends:
        for end in of_page:
            slots[end.side, round(end.away / _SLOT)].append(end)
        same.update({(end.side, round(end.away / _SLOT), end.text) for end in of_page})
    least = 2 if len(pages) <= 6 else 3
    chosen: set[tuple[int, int]] = set()
    for (side, slot), entries in slots.items():
        repeated = [end for end in entries if max(same[side, slot + step, end.text] for step in (-1, 0, 1)) >= least]
        on_pages = len({end.page for end in repeated})
        # By chance a few of many pages have a line of the text at the same height.
        usual = 2 * on_pages >= len(pages)
        chosen.update(
            (end.page, end.line) for end in repeated if usual or _is_apart(pages[end.page], end, bodies[end.page])
        )
        if usual and on_pages >= 4:
            chosen.update((end.page, end.line) for end in entries if _is_apart(pages[end.page], end, bodies[end.page]))
    chosen |= _headings(pages, ends, bodies)
    offsets = Counter(
        value - end.page for of_page in ends for end in of_page if (value := _value(end, pages)) is not None
    )
    if len(pages) < _RISING:
        offsets.update(list(offsets))
    furniture: list[tuple[int, int]] = []
    for page, of_page in zip(pages, ends, strict=True):
        high = page.frame.box[3] - page.frame.box[2]
        mine = {end.line for end in of_page if (end.page, end.line) in chosen}
        mine.update(end.line for end in of_page if end.away <= _NUMBERS * high and _is_number(end, page, offsets))
        mine |= _alone(page, of_page, mine)
        mine = _outermost(of_page, mine)
        furniture.extend((of_page[0].page, line) for line in sorted(mine) if len(mine) < len(page.lines))
    return furniture + _sideways(original, pages, ends, least)


def _upright(page: PdfPage) -> PdfPage:
    """A page without the lines that run at right angles to the others."""
    if not page.sideways:
        return page
    count = page.upright
    return replace(page, lines=page.lines[:count], places=page.places[:count], table=page.table[:count], sideways=[])


def _sideways(
    original: Sequence[PdfPage], pages: Sequence[PdfPage], ends: Sequence[Sequence[End]], least: int
) -> list[tuple[int, int]]:
    """Headers, footers and page numbers that run at right angles to most of their page.

    Args:
        original: the pages.
        pages: the same without such lines.
        ends: outermost lines of each of `pages`.
        least: pages that must have a line.
    """
    # For lines of a page that run one way: the number of the first, a page of only them, and those in its outer margin.
    outer: list[tuple[int, PdfPage, list[End]]] = []
    for number, page in enumerate(original):
        for first, stop, turn, top, bottom in page.sideways:
            lines = slice(first, stop)
            frame = PageFrame(turn, (0.0, 0.0, top, bottom))
            part = replace(
                page, lines=page.lines[lines], places=page.places[lines], table=page.table[lines], frame=frame
            )
            outer.append((first, part, [end for end in _ends(number, part) if end.away <= _NARROW * (bottom - top)]))
    if not outer:
        return []
    same: Counter[tuple[int, int, int, str]] = Counter()
    offsets: Counter[int] = Counter()
    for page, of_page in [*zip(pages, ends, strict=True), *((part, margin) for _, part, margin in outer)]:
        same.update({(page.frame.turn, end.side, round(end.away / _SLOT), end.text) for end in of_page})
        values = [(end.page, _value(end, {end.page: page})) for end in of_page]
        offsets.update(value - number for number, value in values if value is not None)
    return [
        (end.page, first + end.line)
        for first, part, margin in outer
        for end in margin
        if max(same[part.frame.turn, end.side, round(end.away / _SLOT) + step, end.text] for step in (-1, 0, 1))
        >= least
        or _is_number(end, part, offsets)
    ]


def _body(page: PdfPage) -> float:
    """The middle size of a page's lines."""
    sizes = sorted(page.table[:, SIZE].tolist())
    return sizes[len(sizes) // 2] if sizes else 0.0


def _is_apart(page: PdfPage, end: End, body: float) -> bool:
    """Whether a line is smaller than the text of its page, or further from what is inward than lines of text are."""
    heights, sizes = page.table[:, BASE], page.table[:, SIZE]
    if sizes[end.line] <= 0.93 * body:
        return True
    inward = (heights - heights[end.line]) * (1 if end.side == 0 else -1)
    beyond = inward[inward > 2]
    return bool(len(beyond)) and float(beyond.min()) >= 1.7 * body


def _value(end: End, pages: Sequence[PdfPage] | Mapping[int, PdfPage]) -> int | None:
    """The number that a line is, without more."""
    numbers = _DIGITS.findall(pages[end.page].lines[end.line])
    return int(numbers[0]) if len(numbers) == 1 and len(numbers[0]) <= 5 else None


def _is_number(end: End, page: PdfPage, offsets: Counter[int]) -> bool:
    """Whether a line is the number of its page: alone it must rise with the pages, as those of other pages do."""
    text = page.lines[end.line]
    if not _NUMBER.fullmatch(text):
        return False
    value = _value(end, {end.page: page})
    return value is None or offsets[value - end.page] >= 2


def _headings(pages: Sequence[PdfPage], ends: Sequence[Sequence[End]], bodies: Sequence[float]) -> set[tuple[int, int]]:
    """Lines with the headings of sections at the top of the pages: at one height of most pages, apart from the text.

    Titles of slides are at one height too, but larger than the text.
    """
    headings: set[tuple[int, int]] = set()
    if len(pages) < _PAGES:
        return headings
    slots: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for page, of_page, body in zip(pages, ends, bodies, strict=True):
        for side in (0, 1):
            mine = sorted((end for end in of_page if end.side == side), key=lambda end: end.away)
            if not mine or mine[0].away > _NUMBERS * (page.frame.box[3] - page.frame.box[2]):
                continue
            outer = [end for end in mine if end.away - mine[0].away < 2]
            heights = page.table[:, BASE]
            inward = (heights - heights[mine[0].line]) * (1 if side == 0 else -1)
            beyond = inward[inward > 2]
            if len(beyond) and float(beyond.min()) >= 1.7 * body and page.table[mine[0].line, SIZE] <= 1.1 * body:
                slots[side, round(mine[0].away / _SLOT)].extend((end.page, end.line) for end in outer)
    for entries in slots.values():
        if 2 * len({page for page, _ in entries}) >= len(pages):
            headings.update(entries)
    return headings


def _ends(number: int, page: PdfPage) -> list[End]:
    if not len(page.table):
        return []
    top, bottom = page.frame.box[2:]
    heights = page.table[:, BASE]
    margin = _MARGIN * (bottom - top)
    ordered = np.argsort(heights, kind="stable")
    ordered = ordered[page.places[ordered, 1] > page.places[ordered, 0]]
    ends = []
    for side, lines in ((0, ordered[:_DEPTH]), (1, ordered[-_DEPTH:])):
        for line in lines.tolist():
            away = float(heights[line]) - top if side == 0 else bottom - float(heights[line])
            if away <= margin:
                ends.append(End(number, line, side, away, _DIGITS.sub("#", page.lines[line])))
    return ends


def _outermost(ends: Sequence[End], chosen: set[int]) -> set[int]:
    """Of the lines chosen, those with no other line further out."""
    kept: set[int] = set()
    for side in (0, 1):
        mine = sorted((end for end in ends if end.side == side), key=lambda end: end.away)
        limit = min((end.away for end in mine if end.line not in chosen), default=np.inf)
        kept.update(end.line for end in mine if end.line in chosen and end.away < limit + 2)
    return kept


def _alone(page: PdfPage, ends: Sequence[End], known: set[int]) -> set[int]:
    """Lines in the outer margin that are smaller than the text and apart from it."""
    high = page.frame.box[3] - page.frame.box[2]
    outer = [end for end in ends if end.away <= _NARROW * high and end.line not in known]
    if not outer:
        return set()
    lengths = page.places[:, 1] - page.places[:, 0]
    sizes, heights = page.table[:, SIZE], page.table[:, BASE]
    body = float(np.average(sizes, weights=np.maximum(lengths, 1)))
    unknown = np.ones(len(heights), np.bool_)
    unknown[list(known)] = False
    alone = set()
    for end in outer:
        inward = (heights - heights[end.line]) * (1 if end.side == 0 else -1)
        inner = unknown & (inward > 2)
        level = unknown & (np.abs(inward) <= 2)
        if not inner.any() or (unknown & (inward < -2)).any() or level.sum() > 3:
            continue
        gap, size = float(inward[inner].min()), float(sizes[end.line])
        if size <= 0.93 * body and gap >= 1.9 * body and lengths[end.line] <= 120:
            alone.add(end.line)
    return alone
