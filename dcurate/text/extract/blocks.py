"""The model of a page for extraction: blocks of text, and the elements around them."""

from __future__ import annotations

from dataclasses import dataclass, field

PARAGRAPH, HEADING, ITEM, CODE, TABLE, FORMULA, TERM, MEANING, SUMMARY = range(9)


class HtmlBlock:
    """A piece of text that a browser shows as a block of its own.

    Args:
        kind: kind of the block, such as `PARAGRAPH`.
        text: text of the block, without the marks of lists and quotes.
        node: number of the innermost element around it.
        size: number of its UTF-8 bytes: a Chinese character counts for three letters.
        items: innermost list item around it; None outside of lists.

    Attributes:
        linked: part of the size that is in links.
        level: level of a heading.
        language: language of code; empty if the page does not name it.
        begins: whether it is the first block of its list item.
        quotes: number of quotes around it.
        note: number of the footnote that it is of; 0 for none.
    """

    __slots__ = ("begins", "items", "kind", "language", "level", "linked", "node", "note", "quotes", "size", "text")

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
        self.note = 0


class ListItem:
    """An item of a list.

    Args:
        outer: item around the list; None for an outermost list.
        mark: mark of the item in Markdown, such as ``-`` or ``3.``.
    """

    __slots__ = ("begun", "depth", "mark", "outer")

    def __init__(self, outer: ListItem | None, mark: str) -> None:
        self.outer = outer
        self.mark = mark
        self.depth: int = outer.depth + 1 if outer else 1
        self.begun = False


@dataclass
class HtmlPage:
    """A page as it was read: its blocks in order, and for each element its parent, hints and blocks.

    An element has a greater number than the elements around it.

    Args:
        blocks: blocks of text.
        parents: number of the parent of each element; -1 for the outermost.
        hints: bits of `dcurate.text.extract.hints` of each element.
        firsts: number of the first block of each element.
        ends: number after that of the last block of each element.
        notes: number of footnotes.
        is_article: whether the page says that it is an article, by OpenGraph.
    """

    blocks: list[HtmlBlock] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    hints: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    notes: int = 0
    is_article: bool = False
