"""What a page is made of for extraction: blocks of text, and the elements around them."""

from __future__ import annotations

from dataclasses import dataclass, field

PARAGRAPH, HEADING, ITEM, CODE, TABLE, FORMULA, TERM, MEANING, SUMMARY = range(9)


class HtmlBlock:
    """A stretch of text that a browser shows apart from what is before and after it.

    Args:
        kind: what it is, such as `PARAGRAPH`.
        text: as it is written out, without the marks of lists and quotes.
        node: number of the innermost element around it.
        size: characters, of three bytes where they are no Latin ones: as much as letters say.
        linked: of these in links.
        level: of a heading.
        language: of code; empty if it is not said.
        items: the lists around it, outermost first.
        begins: whether it is the first of its list item.
        quotes: how many quotes are around it.
    """

    __slots__ = ("begins", "items", "kind", "language", "level", "linked", "node", "quotes", "size", "text")

    def __init__(self, kind: int, text: str, node: int, size: int, items: ListItem | None) -> None:
        self.kind = kind
        self.text = text
        self.node = node
        self.size = size
        self.linked = 0
        self.items = items
        self.level = 0
        self.language = ""
        self.begins = False
        self.quotes = 0


class ListItem:
    """An item of a list, and the one around that list."""

    __slots__ = ("begun", "depth", "mark", "outer")

    def __init__(self, outer: ListItem | None, mark: str) -> None:
        self.outer = outer
        self.mark = mark
        self.depth: int = outer.depth + 1 if outer else 1
        self.begun = False


@dataclass
class HtmlPage:
    """A page as it was read: blocks in their order, and for each element its parent, its hints and its blocks.

    An element has a greater number than what is around it.

    Args:
        blocks: of text.
        parents: number of the element around each element; -1 around the first.
        hints: bits of `dcurate.text.extract.hints` for each.
        firsts: its first block.
        ends: the block after its last.
    """

    blocks: list[HtmlBlock] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    hints: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
