"""The images of a page's main content, in order between its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dcurate.text.extract.algorithms import PagePiece
from dcurate.text.extract.blocks import HtmlBlock, HtmlPage
from dcurate.text.extract.formulas import of_image
from dcurate.text.extract.hints import ASIDE, ASIDE_BY_CLASS, COMMENTS
from dcurate.text.extract.page_facts import joined
from dcurate.text.extract.reader import PageReader
from dcurate.text.extract.writer import written

#: Attributes with the address of an image, in the order in which they count: scripts load those of ``data-src``.
_ADDRESSES = ("data-src", "data-original", "data-lazy-src", "src")
_SETS = ("data-srcset", "srcset")
_AROUND = ASIDE | ASIDE_BY_CLASS | COMMENTS
#: Sides in pixels up to which an image is not for readers, and blocks before the main content in which one may be.
_SMALLEST, _BEFORE = 2, 2


class PageImage(NamedTuple):
    """An image of a page.

    Args:
        place: how many blocks of the page begin before it.
        node: number of the innermost element around it.
        address: where it is, as the page has it.
        alternative: its alternative text; empty if it has none.
    """

    place: int
    node: int
    address: str
    alternative: str


class ImageReader(PageReader):
    """Reads the blocks that `PageReader` reads, and the images between them; one within a block comes after it."""

    def __init__(self, markdown: bool = False, links: bool = False, images: bool = False) -> None:
        super().__init__(markdown, links, images)
        self.images_read: list[PageImage] = []

    def _start_image(self, tag: str, attributes: Mapping[str, str]) -> None:
        super()._start_image(tag, attributes)
        address = _address(attributes)
        if address and not of_image(attributes):
            place = len(self._blocks) + bool(self._parts)
            self.images_read.append(PageImage(place, self._node, address, " ".join(attributes.get("alt", "").split())))

    def _end_table(self) -> None:
        first, node = self._tables[-1].first, self._tables[-1].node
        super()._end_table()
        at = len(self.images_read) - 1
        while at >= 0 and self.images_read[at].place > first and self.images_read[at].node >= len(self._parents):
            self.images_read[at] = self.images_read[at]._replace(place=len(self._blocks), node=node)
            at -= 1


def _address(attributes: Mapping[str, str]) -> str:
    """Return the address of an image that readers see; empty for one that is part of the page, or too small to see."""
    for name in ("width", "height"):
        side = attributes.get(name, "").strip()
        if side.isascii() and side.isdigit() and len(side) < 10 and int(side) <= _SMALLEST:
            return ""
    for name in (*_ADDRESSES, *_SETS):
        address = attributes.get(name, "").strip()
        address = address.split(None, 1)[0].rstrip(",") if name in _SETS and address else address
        if address and not address.lower().startswith("data:"):
            return address
    return ""


def pieces_of(
    page: HtmlPage, main: Sequence[HtmlBlock], images: Sequence[PageImage], base: str, markdown: bool
) -> list[PagePiece]:
    """Return the main content of a page as texts and images, in their order.

    Args:
        page: the page.
        main: blocks of its main content.
        images: images of the page, in order.
        base: address that theirs are relative to.
        markdown: whether texts are Markdown.
    """
    numbers = {id(block): number for number, block in enumerate(page.blocks)}
    places = [numbers[id(block)] for block in main]
    around: list[bool] = []
    for node, parent in enumerate(page.parents):
        around.append(bool(page.hints[node] & _AROUND) or (parent >= 0 and around[parent]))
    first, last = (min(places), max(places)) if places else (0, 0)
    pieces: list[PagePiece] = []
    begin = 0
    for image in images:
        outside = not places or not first - _BEFORE <= image.place <= last + 1
        if outside or (image.node >= 0 and around[image.node]):
            continue
        end = begin
        while end < len(main) and places[end] < image.place:
            end += 1
        if text := written(main[begin:end], markdown).strip():
            pieces.append(PagePiece(text, None, None))
        pieces.append(PagePiece(None, joined(base, image.address), image.alternative or None))
        begin = end
    if text := written(main[begin:], markdown).strip():
        pieces.append(PagePiece(text, None, None))
    return pieces
