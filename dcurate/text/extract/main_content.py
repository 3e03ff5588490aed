"""Decide which blocks of a page are its main content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress

from dcurate.text.extract.blocks import CODE, FORMULA, HEADING, PARAGRAPH, SUMMARY, TABLE, HtmlBlock, HtmlPage
from dcurate.text.extract.hints import (
    ARTICLE,
    ASIDE,
    ASIDE_BY_CLASS,
    CAPTION,
    COMMENTS,
    CONTENT,
    FORM,
    PROMOTED,
)

#: Blocks that are kept whole, and are worth their size.
_APART = frozenset((CODE, TABLE, FORMULA))
#: What is around the content; by its class or id.
_AROUND = ASIDE | ASIDE_BY_CLASS | PROMOTED | COMMENTS | CAPTION
_BY_NAME = ASIDE_BY_CLASS | PROMOTED | COMMENTS | CAPTION


@dataclass(frozen=True)
class ContentRules:
    """Thresholds of the rules, tuned on one half of two public benchmarks (docs/howto/web-pages.md).

    Args:
        linked: share of its text in links above which a block is worth nothing.
        long: size from which on a text is worth its size; sizes are those of `HtmlBlock`.
        short: size from which on a text is worth a third of its size; a shorter one is worth nothing.
        lead: size from which on a text before the content, in the same article, is its lead.
        aside: share of the page's worth above which an element stays that is around the content by its tag or role.
        aside_by_class: the same for an element that is around the content by its class or id.
        comments: the same for comments.
        promoted: share of its text in links above which an element is left out that is named like an offer or a
            carousel, which are the content of pages that are not articles.
        all_comments: share of the page's worth in all comments together above which they are posts of a thread.
        besides: worth besides comments from which on they are none.
        caption: the same for captions.
        into_content: least share of its parent's worth with which an element named as content is the content.
        into_any: the same for any other element.
        into_section: the same for an element that begins with a heading below the first level, as a section does.
        titles: number of parts that begin with a link from which on they are a list of other pages.
        listing: share of the content's worth above which such a list stays.
        linked_section: share of its text in links above which an element is left out.
        least_content: share of the page's worth that must stay when what is around the content is left out; else only
            tags and roles count, no classes and ids.
        least_unlinked: share of the content's worth that must stay when elements of links are left out; else all stay.
        least_unlisted: the same for lists of other pages.
        last: size below which a text at the end is left out.
        article: worth of a text from which on a page is not a list of entries.
        least_entries: least size of the entries of a list.
        no_text: worth below which a text may be none.
        no_text_share: share of a list in such a text below which it is a list.
        text_share: share of a list in its text above which it is not a list.
        little_text: share of a list in the worth of its text below which it is a list.
        among: share of a list that is between the first and the last block of its text from which on it is a list.
        repeated: size from which on a paragraph that repeats one of another element is left out.
    """

    linked: float = 0.5
    long: int = 100
    short: int = 25
    lead: int = 130
    aside: float = 0.6
    aside_by_class: float = 0.6
    comments: float = 0.5
    promoted: float = 0.1
    all_comments: float = 0.6
    besides: int = 1_000
    caption: float = 0.2
    into_content: float = 0.55
    into_any: float = 0.85
    into_section: float = 0.97
    titles: int = 4
    listing: float = 0.35
    linked_section: float = 0.3
    least_content: float = 0.05
    least_unlinked: float = 0.5
    least_unlisted: float = 0.2
    last: int = 30
    article: int = 2_500
    least_entries: int = 600
    no_text: int = 150
    no_text_share: float = 0.35
    text_share: float = 0.57
    little_text: float = 0.12
    among: float = 0.7
    repeated: int = 60


RULES = ContentRules()


def main_content(page: HtmlPage, rules: ContentRules = RULES) -> list[HtmlBlock]:
    """Return the blocks of the main content of a page, in their order.

    Each element has the worth of its blocks: long text outside of links. What is named like something around the
    content, and holds little of the page's worth, is left out. The content is the innermost element that holds nearly
    all that is left.
    """
    blocks = page.blocks
    if not blocks:
        return []
    worths = _worths(blocks, rules)
    kept = _text(page, worths, rules)
    if _worth(worths, kept) < (rules.no_text if page.is_article else rules.article):
        kept = _entries(page, kept, rules)
    if not page.is_article:
        _leave_out_repeated(page, kept, rules)
    return list(compress(blocks, kept))


def _text(page: HtmlPage, worths: Sequence[int], rules: ContentRules) -> list[bool]:
    """Return whether each block is of the text of a page that has one text."""
    blocks = page.blocks
    kept = _without_surroundings(page, worths, rules, page.hints)
    if _worth(worths, kept) < rules.least_content * sum(worths):
        kept = _without_surroundings(page, worths, rules, [hints & ~_BY_NAME for hints in page.hints])
    if not any(kept):
        return kept
    worths = [worth if keep else 0 for worth, keep in zip(worths, kept, strict=True)]
    root = _root(page, worths, rules)
    first, end = page.firsts[root], page.ends[root]
    begin = _begin(page, root)
    kept[:begin] = [False] * begin
    kept[begin:first] = [keep and worths[place] >= rules.lead for place, keep in enumerate(kept[begin:first], begin)]
    kept[end:] = [False] * (len(kept) - end)
    unlinked = _without_links(page, kept, root, rules)
    if _worth(worths, unlinked) >= rules.least_unlinked * _worth(worths, kept):
        kept = unlinked
    unlisted = _without_listings(page, kept, worths, root, rules)
    if _worth(worths, unlisted) >= rules.least_unlisted * _worth(worths, kept):
        kept = unlisted
    _leave_out_headings(blocks, kept)
    _leave_out_title(blocks, kept)
    _leave_out_last(blocks, kept, rules)
    return kept


def _entries(page: HtmlPage, text: Sequence[bool], rules: ContentRules) -> list[bool]:
    """Return whether each block is of the content of a page with little text.

    That is all that is not around the content where the text is but little of it, else the text. A list, such as of
    goods, jobs or articles, has its content in titles, prices and links, which are worth nothing as text.
    """
    blocks = page.blocks
    sizes = [block.size for block in blocks]
    kept = _without_surroundings(page, sizes, rules, page.hints)
    sums = _sums([size if keep else 0 for size, keep in zip(sizes, kept, strict=True)])
    for node in [node for node, hints in enumerate(page.hints) if hints & CONTENT]:
        first, end = page.firsts[node], page.ends[node]
        if 2 * (sums[end] - sums[first]) > sums[-1]:
            kept[:first] = [False] * first
            kept[end:] = [False] * (len(kept) - end)
            break
    size = _worth(sizes, kept)
    if size < rules.least_entries or not _is_list(page, text, kept, size, rules):
        return list(text)
    return [keep or is_text for keep, is_text in zip(kept, text, strict=True)]


def _is_list(page: HtmlPage, text: Sequence[bool], kept: Sequence[bool], size: int, rules: ContentRules) -> bool:
    """Return whether a page is a list: its text is very little of what is there, or what is there is among its text.

    A page without text and title is not a list: it is a form, or says that it cannot be shown.
    """
    blocks = page.blocks
    if not any(text) and not any(block.level == 1 for block in blocks):
        return False
    text_size = sum(block.size for block in compress(blocks, text))
    worth = sum(_worth_of(block, rules) for block in compress(blocks, text) if block.size >= rules.short)
    if worth < rules.no_text and text_size < rules.no_text_share * size:
        return True
    if page.is_article or text_size >= rules.text_share * size:
        return False
    if worth < rules.little_text * size:
        return True
    first = text.index(True)
    end = len(text) - text[::-1].index(True)
    among = sum(block.size for block, keep in zip(blocks[first:end], kept[first:end], strict=True) if keep)
    return among >= rules.among * size


def _worths(blocks: Sequence[HtmlBlock], rules: ContentRules) -> list[int]:
    return [_worth_of(block, rules) if block.size >= rules.short or block.kind in _APART else 0 for block in blocks]


def _worth_of(block: HtmlBlock, rules: ContentRules) -> int:
    unlinked = block.size - block.linked
    if block.kind in _APART:
        return min(unlinked, 1_000)
    if block.linked > rules.linked * block.size:
        return 0
    if block.kind == HEADING:
        return unlinked if block.level > 1 and unlinked >= rules.lead else 0
    if unlinked >= rules.long:
        return unlinked
    return unlinked // 3 if unlinked >= rules.short else 0


def _sums(numbers: Sequence[int]) -> list[int]:
    return list(accumulate(numbers, initial=0))


def _worth(worths: Sequence[int], kept: Sequence[bool]) -> int:
    return sum(compress(worths, kept))


def _without_surroundings(
    page: HtmlPage, worths: Sequence[int], rules: ContentRules, hints_of_nodes: Sequence[int]
) -> list[bool]:
    """Return whether each block is outside of all elements that are around the content."""
    sums = _sums(worths)
    total = sums[-1] or 1
    kept_apart = _sums([block.kind in _APART for block in page.blocks])
    kept = [True] * len(page.blocks)
    firsts, ends = page.firsts, page.ends
    around = [node for node, hints in enumerate(hints_of_nodes) if hints & _AROUND]
    commented = [node for node in around if hints_of_nodes[node] & COMMENTS]
    promoted = not page.is_article and any(hints_of_nodes[node] & PROMOTED for node in around)
    sizes = _sums([block.size for block in page.blocks]) if promoted else []
    linked = _sums([block.linked for block in page.blocks]) if promoted else []
    comments = 0 if page.is_article else _worth_within(page, sums, commented)
    is_thread = comments > rules.all_comments * total and total - comments < rules.besides
    out = 0  # the end of what was left out last
    for node in around:
        hints, first, end = hints_of_nodes[node], firsts[node], ends[node]
        if end <= out or first == end:
            continue
        share = (sums[end] - sums[first]) / total
        if (
            (hints & CAPTION and share < rules.caption and kept_apart[end] == kept_apart[first])
            or (hints & ASIDE and share <= rules.aside)
            or (hints & ASIDE_BY_CLASS and not hints & CONTENT and share <= rules.aside_by_class)
            or (hints & COMMENTS and share <= rules.comments and not is_thread)
            or (
                hints & PROMOTED
                and not hints & CONTENT
                and share <= rules.aside_by_class
                and (page.is_article or linked[end] - linked[first] > rules.promoted * (sizes[end] - sizes[first]))
            )
        ):
            out = end
            kept[first:end] = [False] * (end - first)
    return kept


def _worth_within(page: HtmlPage, sums: Sequence[int], nodes: Sequence[int]) -> int:
    """Return the worth of the blocks within elements, each once."""
    worth = end = 0
    for node in nodes:
        if page.ends[node] > end:
            end = page.ends[node]
            worth += sums[end] - sums[page.firsts[node]]
    return worth


def _root(page: HtmlPage, worths: Sequence[int], rules: ContentRules) -> int:
    """Return the innermost element that holds nearly all of the worth, which is more than a half."""
    sums = _sums(worths)
    firsts, ends = page.firsts, page.ends
    root, worth = 0, sums[ends[0]] - sums[firsts[0]]
    for node, parent in enumerate(page.parents):
        if parent != root:
            continue
        first, end = firsts[node], ends[node]
        inner = sums[end] - sums[first]
        if worth and 2 * inner <= worth:
            continue
        needed = rules.into_content if page.hints[node] & (CONTENT | ARTICLE) else rules.into_any
        block = page.blocks[first] if first < end else None
        if block is not None and block.kind == HEADING and block.level > 1 and not page.hints[node] & ~FORM:
            needed = max(needed, rules.into_section)
        if inner < needed * worth or end - first < 2:
            break
        root, worth = node, inner
    return root


def _begin(page: HtmlPage, root: int) -> int:
    """Return the first block of the article around an element."""
    begin = page.firsts[root]
    node = page.parents[root]
    while node >= 0:
        if page.hints[node] & (ARTICLE | CONTENT):
            begin = page.firsts[node]
        node = page.parents[node]
    return begin


def _leave_out_headings(blocks: Sequence[HtmlBlock], kept: list[bool]) -> None:
    """Leave out headings whose text was left out: at the end, or if a heading of their level or above comes next."""
    next_level = 0  # of the next block that is kept; a text has none
    text_follows = False
    lost = False
    for place in range(len(blocks) - 1, -1, -1):
        if not kept[place]:
            lost = True
            continue
        block = blocks[place]
        if block.kind == HEADING:
            if not text_follows or (lost and next_level and next_level <= block.level):
                kept[place] = False
            else:
                next_level, lost = block.level, False
        else:
            text_follows, next_level, lost = True, 0, False


def _without_listings(
    page: HtmlPage, kept: Sequence[bool], worths: Sequence[int], root: int, rules: ContentRules
) -> list[bool]:
    """Return the kept blocks outside of elements of several parts that each begin with a link as title."""
    kept = list(kept)
    blocks, firsts, ends = page.blocks, page.firsts, page.ends
    begin, last = firsts[root], ends[root]
    titles = _sums([block.linked > 0.8 * block.size and block.size > 15 for block in blocks[begin:last]])
    titled: dict[int, int] = {}
    for node in range(root + 1, len(firsts)):
        first, end = firsts[node] - begin, ends[node] - begin
        if first >= last - begin:
            break
        if end - first > 1 and titles[min(end, first + 4)] > titles[first]:
            titled[page.parents[node]] = titled.get(page.parents[node], 0) + 1
    sums = _sums(worths)
    most = rules.listing * (sums[ends[root]] - sums[firsts[root]])
    out = 0  # the end of what was left out last
    for node, count in sorted(titled.items()):
        few = sums[ends[node]] - sums[firsts[node]] <= most
        if node > root and count >= rules.titles and few and ends[node] > out:
            out = ends[node]
            kept[firsts[node] : ends[node]] = [False] * (ends[node] - firsts[node])
    return kept


def _leave_out_repeated(page: HtmlPage, kept: list[bool], rules: ContentRules) -> None:
    """Leave out paragraphs that repeat one of another element, as quotes of posts and copies for small screens do.

    What repeats a paragraph beside it, such as a refrain, stays; so does all of a page with code, whose texts repeat.
    """
    parents: dict[str, int] = {}
    repeated = []
    for place, block in compress(enumerate(page.blocks), kept):
        if block.kind == CODE:
            return
        if block.kind == PARAGRAPH and block.size >= rules.repeated and block.node >= 0:
            parent = page.parents[block.node]
            if parents.setdefault(block.text, parent) != parent:
                repeated.append(place)
    for place in repeated:
        kept[place] = False


def _leave_out_title(blocks: Sequence[HtmlBlock], kept: list[bool]) -> None:
    """Leave out the title if it stands before all text: it is no part of the text."""
    for place, block in compress(enumerate(blocks), list(kept)):
        if block.kind == HEADING and block.level == 1:
            kept[place] = False
        elif block.size > 100:
            break


def _leave_out_last(blocks: Sequence[HtmlBlock], kept: list[bool], rules: ContentRules) -> None:
    """Leave out short texts and headings at the end, such as one to print the page; never one of a list."""
    for place in range(len(blocks) - 1, -1, -1):
        if not kept[place]:
            continue
        block = blocks[place]
        is_text = block.kind in (PARAGRAPH, HEADING, SUMMARY) and block.items is None
        if not is_text or block.size - block.linked >= rules.last:
            kept[place + 1 :] = [False] * (len(kept) - place - 1)
            break


def _without_links(page: HtmlPage, kept: Sequence[bool], root: int, rules: ContentRules) -> list[bool]:
    """Return the kept blocks that are not mostly links, and not in elements that are."""
    kept = list(kept)
    blocks = page.blocks
    firsts, ends = page.firsts, page.ends
    begin, last = firsts[root], ends[root]
    in_root = list(zip(blocks[begin:last], kept[begin:last], strict=True))
    size = _sums([block.size if keep else 0 for block, keep in in_root])
    linked = _sums([block.linked if keep else 0 for block, keep in in_root])
    for node in range(root + 1, len(firsts)):
        first, end = firsts[node], ends[node]
        if first >= last:
            break
        if end - first > 1 and kept[first]:
            here = size[end - begin] - size[first - begin]
            if linked[end - begin] - linked[first - begin] > rules.linked_section * here and here < 2_000:
                kept[first:end] = [False] * (end - first)
    for place, block in compress(enumerate(blocks), list(kept)):
        if block.linked > 0.8 * block.size and block.kind not in (TABLE, CODE, HEADING):
            kept[place] = False
    return kept
