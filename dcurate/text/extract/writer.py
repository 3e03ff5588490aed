"""Blocks as text or Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dcurate.text.extract.blocks import CODE, FORMULA, HEADING, MEANING, HtmlBlock


def written(blocks: Sequence[HtmlBlock], markdown: bool) -> str:
    """Blocks one after the other, parted by empty lines; those of a list by line breaks.

    Args:
        blocks: of the text.
        markdown: whether headings, quotes and code are marked, and lists indented, as in Markdown.
    """
    out: list[str] = []
    before: HtmlBlock | None = None
    for block in blocks:
        if before is not None:
            out.append("\n" if _close(before, block) else "\n\n")
        out.append(_one(block, markdown))
        before = block
    return "".join(out)


def _close(before: HtmlBlock, block: HtmlBlock) -> bool:
    """Whether no empty line is between two blocks: items of a list, and a term and its meaning."""
    if CODE in (before.kind, block.kind):
        return False
    return (block.begins and before.items is not None) or block.kind == MEANING


def _one(block: HtmlBlock, markdown: bool) -> str:
    text = _marked(block) if markdown else f"$${block.text}$$" if block.kind == FORMULA else block.text
    item = block.items
    if item is None or (not markdown and (block.kind == CODE or not block.begins)):
        return text
    step = 4 if markdown else 2
    indent = " " * (step * min(item.depth - 1, _DEEPEST))
    rest = indent + " " * step
    lines = text.split("\n")
    if block.begins:
        lines[0] = f"{indent}{item.mark if markdown else '-'} {lines[0]}"
        return "\n".join([lines[0], *(rest + line if line else "" for line in lines[1:])])
    return "\n".join(rest + line if line else "" for line in lines)


def _marked(block: HtmlBlock) -> str:
    """A block in Markdown, but for the list around it."""
    text = block.text
    if block.kind == HEADING:
        text = "#" * block.level + " " + text.replace("\n", " ")
    elif block.kind == CODE:
        fence = _fence(text)
        text = f"{fence}{block.language}\n{text}\n{fence}"
    elif block.kind == MEANING:
        text = ": " + text
    elif block.kind == FORMULA:
        text = f"$$\n{text}\n$$" if "\n" in text else f"$${text}$$"
    if block.quotes:
        mark = "> " * min(block.quotes, _DEEPEST)
        text = "\n".join((mark + line).rstrip() for line in text.split("\n"))
    return text


#: Lists and quotes within more than these are written as deep as these, so that a text grows no more than its page.
_DEEPEST = 8


def _fence(text: str) -> str:
    """A fence that is longer than any row of backticks in a text."""
    return "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))


_BACKTICKS = re.compile("`+")
