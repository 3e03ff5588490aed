"""What a page has besides its main text: comments of readers, and signals of what it consists of."""

from __future__ import annotations

from collections.abc import Sequence

from dcurate.text.extract.algorithms import PageSignals
from dcurate.text.extract.blocks import CODE, FORMULA, HEADING, TABLE, HtmlBlock, HtmlPage
from dcurate.text.extract.hints import ASIDE, ASIDE_BY_CLASS, COMMENTS, FORM

#: What is around comments within their element.
_AROUND = ASIDE | ASIDE_BY_CLASS | FORM
#: Part of a block in links from which on it is a link, such as one to reply.
_LINK = 0.5


def comments_of(page: HtmlPage, main_blocks: Sequence[HtmlBlock]) -> list[HtmlBlock]:
    """Return the blocks of comments of readers: those in elements that are named so, and that are not main text.

    Headings, links, forms, and what is around comments by its name, such as the list of their pages, are left out.
    """
    if not any(hints & COMMENTS for hints in page.hints):
        return []
    within: list[int] = []  # the hints of each element and of those around it, from the comments inwards
    for node, hints in enumerate(page.hints):
        around = within[page.parents[node]] if page.parents[node] >= 0 else 0
        within.append(around | hints & (COMMENTS | _AROUND) if around & COMMENTS else hints & COMMENTS)
    main = set(map(id, main_blocks))
    return [
        block
        for block in page.blocks
        if block.node >= 0
        and within[block.node] == COMMENTS
        and block.kind != HEADING
        and block.linked <= _LINK * block.size
        and id(block) not in main
    ]


def signals_of(page: HtmlPage, main_blocks: Sequence[HtmlBlock]) -> PageSignals:
    """Return what a page consists of.

    Args:
        page: the page.
        main_blocks: those of its blocks that are its main text.
    """
    sizes = dict.fromkeys((CODE, TABLE, FORMULA), 0)
    main_size = 0
    for block in main_blocks:
        main_size += block.size
        if block.kind in sizes:
            sizes[block.kind] += block.size
    size = sum(block.size for block in page.blocks)
    linked = sum(block.linked if block.linked < block.size else block.size for block in page.blocks)
    return PageSignals(
        link_ratio=linked / max(size, 1),
        boilerplate_ratio=(size - main_size) / max(size, 1),
        code_ratio=sizes[CODE] / max(main_size, 1),
        table_ratio=sizes[TABLE] / max(main_size, 1),
        formula_ratio=sizes[FORMULA] / max(main_size, 1),
    )
