"""Write blocks as text or Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dcurate.text.extract.blocks import CODE, FORMULA, HEADING, MEANING, HtmlBlock


def written(blocks: Sequence[HtmlBlock], markdown: bool) -> str:
    """Return blocks as one text, with empty lines between them, and line breaks between those of a list.

    Args:
        blocks: blocks of the text.
        markdown: whether headings, quotes and code are marked, and lists indented, as in Markdown.
    """
    out: list[str] = []
    before: HtmlBlock | None = None
    for block in blocks:
        if not block.text:  # the mark before a footnote
            continue
        if before is not None:
            out.append("\n" if _close(before, block) else "\n\n")
        out.append(_noted(block, before) if block.note else _text_of(block, markdown))
        before = block
    return "".join(out)


def _noted(block: HtmlBlock, before: HtmlBlock | None) -> str:
    """Return a block of a footnote: the first with its mark, the others and further lines indented."""
    text = _marked(block).replace("\n", "\n    ")
    first = before is None or before.note != block.note
    return f"[^{block.note}]: {text}" if first else f"    {text}"


def _close(before: HtmlBlock, block: HtmlBlock) -> bool:
    """Return whether two blocks have no empty line between them: items of a list, a term and its meaning."""
    if CODE in (before.kind, block.kind):
        return False
    return (block.begins and before.items is not None) or block.kind == MEANING


def _text_of(block: HtmlBlock, markdown: bool) -> str:
    """Return a block with the mark and the indent of its list."""
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
    """Return a block as Markdown, without the list around it."""
    text = block.text
    if block.kind == HEADING:
        text = "#" * block.level + " " + text.replace("\n", " ")
    elif block.kind == CODE:
        row = fence(text)
        text = f"{row}{block.language}\n{text}\n{row}"
    elif block.kind == MEANING:
        text = ": " + text
    elif block.kind == FORMULA:
        text = f"$$\n{text}\n$$" if "\n" in text else f"$${text}$$"
    if block.quotes:
        mark = "> " * min(block.quotes, _DEEPEST)
        text = "\n".join((mark + line).rstrip() for line in text.split("\n"))
    return text


def address_in_link(address: str) -> str:
    r"""Return an address as it may be in a link of Markdown: without spaces, parentheses and signs that end it.

    It is empty for a script and for data, which are no addresses.

    Examples:
        >>> address_in_link(" /a b/c_(d)?e=<f> "), address_in_link("java\nscript:alert(1)")
        ('/a%20b/c_%28d%29?e=%3Cf%3E', '')
    """
    if _NO_ADDRESS.match(_IGNORED.sub("", address[:_SCHEME])):
        return ""
    return _ENDING.sub(lambda sign: f"%{ord(sign[0]):02X}", " ".join(address.split()))


def shown_in_link(text: str) -> str:
    r"""Return a text as it may be in a link of Markdown, where brackets in code do not count and others are pairs.

    Examples:
        >>> print(shown_in_link("a[0]"), shown_in_link("a] b"), shown_in_link("`]` ["))
        a[0] a\] b `]` \[
    """
    pieces = _without_code(text)
    depth = 0
    for bracket in (sign for piece in pieces[::2] for sign in _BRACKET.findall(piece)):
        depth += (bracket == "[") - (bracket == "]")
        if depth < 0:
            break
    if not depth:
        return text
    escaped = [_BRACKET.sub(lambda sign: f"\\{sign[0]}" if len(sign[0]) == 1 else sign[0], piece) for piece in pieces]
    return "".join(
        code if place % 2 else piece for place, (piece, code) in enumerate(zip(escaped, pieces, strict=True))
    )


def _without_code(text: str) -> list[str]:
    """Split a text into what is outside and what is inside of code, in turns; outside comes first."""
    runs = [run.span() for run in _BACKTICKS.finditer(text)]
    latest: dict[int, int] = {}
    closing = [-1] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        length = runs[place][1] - runs[place][0]
        closing[place] = latest.get(length, -1)
        latest[length] = place
    pieces, begin, place = [], 0, 0
    while place < len(runs):
        end = closing[place]
        if end >= 0:
            pieces += [text[begin : runs[place][0]], text[runs[place][0] : runs[end][1]]]
            begin, place = runs[end][1], end
        place += 1
    return [*pieces, text[begin:]]


#: What a browser leaves out of an address before it looks at its scheme, and where that is.
_IGNORED, _SCHEME = re.compile(r"[\x00-\x20]"), 64
_NO_ADDRESS = re.compile(r"(?:javascript|vbscript|data):", re.IGNORECASE)
#: Brackets, and signs after a backslash, which do not count.
_BRACKET = re.compile(r"\\.|[][]", re.DOTALL)
_ENDING = re.compile(r"[\x00-\x20()<>\\\x7f]")
#: Deepest level of lists and quotes that is written; deeper ones get this one, so that a text is linear in its page.
_DEEPEST = 8


def fence(text: str, least: int = 3) -> str:
    """Return a row of backticks that is longer than any in a text.

    Args:
        text: text between two such rows.
        least: smallest number of backticks.

    Examples:
        >>> fence("a`b", 1), fence("a`b")
        ('``', '```')
    """
    return "`" * max(least, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))


_BACKTICKS = re.compile("`+")
