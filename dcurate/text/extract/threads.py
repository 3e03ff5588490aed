"""The posts of a thread: who wrote them, when, and what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from dcurate.text.extract.algorithms import ThreadTurn
from dcurate.text.extract.blocks import CODE, FORMULA, HEADING, PARAGRAPH, TABLE, HtmlBlock
from dcurate.text.extract.cues import AUTHOR, BODY, BY_SCHEMA, COMMENT, DATE, IN_TEXT, POST, UNSEEN
from dcurate.text.extract.hints import ASIDE, ASIDE_BY_CLASS, CONTENT
from dcurate.text.extract.page_facts import LinkedData
from dcurate.text.extract.structure_reader import Mark, StructurePage, date_in, is_of_another

#: Types of JSON-LD that are posts, and the properties that hold further posts.
_POSTS = frozenset(("DiscussionForumPosting", "SocialMediaPosting", "Question", "Answer", "Comment"))
_INNER = ("mainEntity", "acceptedAnswer", "suggestedAnswer", "comment", "hasPart")
_PUBLISHED = ("datePublished", "dateCreated")
#: Least number of posts of a thread that says nothing of schema.org.
_LEAST_POSTS = 2
#: Part of a post's text that is in an element from which on that element has all of it.
_NEARLY_ALL = 0.6
_LINK = 0.5
#: What differs between elements that are alike.
_NUMBERS = re.compile(r"\d+|odd|even|alt")
#: Elements that hold a piece of a text, never all of it.
_LEAVES = frozenset(("p", "li", "ul", "ol", "blockquote", "pre", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6"))


class Post(NamedTuple):
    """A post as it is on the page.

    Args:
        node: its element.
        author: who wrote it, as the page has it; empty if it does not say.
        date: when, likewise.
        blocks: blocks of its text.
        size: bytes of all text in its element.
        name: tag and first class of its element.
        body: tag and first class of the element with its text.
        is_comment: whether its element or one around it is named as comments or reviews.
    """

    node: int
    author: str
    date: str
    blocks: list[HtmlBlock]
    size: int
    name: str
    body: str
    is_comment: bool


def posts_of(page: StructurePage) -> list[Post]:
    """Return the posts of a page in its order; none if it is not a thread.

    Elements that are posts by schema.org, class or id count first: those that have an author or a date, and a text.
    Where there are fewer than two, posts are elements beside each other that each have two of an author, a date and a
    text by its name. The first post may be built otherwise than the rest.
    """
    dated = [mark for mark in page.marks if not (mark.cues & DATE and _is_of_another(page, mark))]
    marks = sorted([*dated, *_dates_in_text(page)], key=lambda mark: mark.first)
    for nodes in (_named(page, marks), _beside_each_other(page, marks)):
        posts = _posts_at(page, nodes, marks)
        by_schema = any(page.cues[node] & BY_SCHEMA for node in nodes)
        if len(posts) >= _LEAST_POSTS or (posts and by_schema):
            first = _first_post(page, posts)
            more = _posts_at(page, {first, *(post.node for post in posts)}, marks) if first >= 0 else posts
            return more if more[0].author or not posts[0].author else posts
    return []


def _first_post(page: StructurePage, posts: Sequence[Post]) -> int:
    """Return the element before posts that is not like them but has its text in one like theirs; -1 for none."""
    [(usual, _)] = Counter(post.body for post in reversed(posts)).most_common(1)
    around = {-1}
    for post in posts:
        node = post.node
        while node not in around:
            around.add(node)
            node = page.parents[node]
    outermost: list[int] = []
    for node, parent in enumerate(page.parents[: posts[0].node]):
        outermost.append(-1 if node in around else outermost[parent] if outermost[parent] >= 0 else node)
        if page.cues[node] & BODY and outermost[node] >= 0 and _NUMBERS.sub("", page.names[node]) == usual:
            return outermost[node]
    return -1


def _dates_in_text(page: StructurePage) -> list[Mark]:
    """Return the dates of short blocks in which no element says where the date is."""
    marked = {mark.first for mark in page.marks if mark.cues & DATE and not mark.cues & UNSEEN}
    dates = []
    for place, block in enumerate(page.blocks):
        date = date_in(block.text) if place not in marked and not block.quotes and block.node >= 0 else ""
        if date:
            dates.append(Mark(DATE | IN_TEXT, block.node, place, place + 1, date))
    return dates


def _is_of_another(page: StructurePage, mark: Mark) -> bool:
    block = page.blocks[mark.first] if mark.first < len(page.blocks) else None
    return block is not None and block.node == mark.node and is_of_another(block.text)


def _named(page: StructurePage, marks: Sequence[Mark]) -> set[int]:
    """Return the elements that are posts by name, but for those of which most begin with linked titles that differ."""
    names = _places_of(marks)
    kinds = {node: page.names[node] for node, cues in enumerate(page.cues) if cues & POST}
    titles = {(kind, _linked_title(page, node, names)) for node, kind in kinds.items()}
    titled = Counter(kind for kind, title in titles if title)
    alike = Counter(kinds.values())
    return {node for node, kind in kinds.items() if alike[kind] == 1 or alike[kind] > 2 * titled[kind]}


def _beside_each_other(page: StructurePage, marks: Sequence[Mark]) -> set[int]:
    """Return elements with an author and a date, or one of them and a text by its name.

    They are alike beside each other, at least two have the same of author and date, and most begin without a linked
    title.
    """
    has = [cues & BODY for cues in page.cues]
    for mark in marks:
        if mark.node >= 0:
            has[mark.node] |= mark.cues & (AUTHOR | DATE)
    for node in range(len(has) - 1, 0, -1):
        if page.parents[node] >= 0:
            has[page.parents[node]] |= has[node]
    around = {node for node, hints in enumerate(page.hints) if hints & ASIDE_BY_CLASS and not hints & CONTENT}
    aside = _innermost(page, around)
    kinds = {
        node: (page.parents[node], _NUMBERS.sub("", page.names[node]))
        for node, cues in enumerate(has)
        if cues & (AUTHOR | DATE)
        and cues.bit_count() >= 2
        and page.parents[node] >= 0 > aside[node]
        and not page.hints[node] & ASIDE
    }
    with_same = Counter((kind, has[node] & (AUTHOR | DATE)) for node, kind in kinds.items())
    repeated = {kind for (kind, _), count in with_same.items() if count >= _LEAST_POSTS}
    alike = Counter(kinds.values())
    names = _places_of(marks)
    titled = Counter(kind for node, kind in kinds.items() if _linked_title(page, node, names))
    return {node for node, kind in kinds.items() if kind in repeated and alike[kind] > 2 * titled[kind]}


def _linked_title(page: StructurePage, node: int, names: set[int]) -> str:
    """Return the heading at the beginning of an element that is a link and not an author; empty if it has none."""
    places = range(page.firsts[node], min(page.ends[node], page.firsts[node] + 3))
    titles = (page.blocks[place].text for place in places if place not in names and _is_title(page, place))
    return next(titles, "")


def _is_title(page: StructurePage, place: int) -> bool:
    return page.blocks[place].kind == HEADING and _is_link(page, place)


def _posts_at(page: StructurePage, nodes: set[int], marks: Sequence[Mark]) -> list[Post]:
    """Return the posts of elements; one without an author and a date, or without text, is part of what is around it."""
    within = _innermost(page, nodes)
    marked = {within[mark.node] for mark in marks if mark.node >= 0}
    nodes = {node for node in nodes if node in marked}
    if not nodes:
        return []
    within = _innermost(page, nodes)
    blocks_of: dict[int, list[int]] = {node: [] for node in sorted(nodes)}
    for place, block in enumerate(page.blocks):
        if block.node >= 0 and within[block.node] >= 0:
            blocks_of[within[block.node]].append(place)
    of_post: dict[int, list[Mark]] = {node: [] for node in blocks_of}
    for mark in marks:
        if mark.node >= 0 and within[mark.node] >= 0:
            of_post[within[mark.node]].append(mark)
    lines: dict[int, list[HtmlBlock]] = {}
    for mark in page.lines:
        if mark.node >= 0 and within[mark.node] >= 0:
            line = HtmlBlock(PARAGRAPH, mark.text, mark.node, len(mark.text), None)
            lines.setdefault(within[mark.node], []).append(line)
    bodies = _bodies(page, within, of_post)
    usual = _usual_body(page, blocks_of, of_post, within)
    with_marks = _places_of(marks)
    sizes = (0 if place in with_marks else block.size for place, block in enumerate(page.blocks))
    unmarked = list(accumulate(sizes, initial=0))
    commented = _innermost(page, {node for node, cues in enumerate(page.cues) if cues & COMMENT})
    posts = []
    for node, places in blocks_of.items():
        author, date = _best(of_post[node], AUTHOR), _best(of_post[node], DATE)
        body = bodies.get(node, -1)
        if body < 0:
            named = [inner for inner in _inner_nodes(page, places, node) if page.names[inner] == usual]
            body = max(
                named,
                key=lambda inner: (unmarked[page.ends[inner]] - unmarked[page.firsts[inner]], -inner),
                default=node,
            )
        blocks = _text_blocks(page, places, body, of_post[node]) or lines.get(node, [])
        if blocks:
            size = sum(page.blocks[place].size for place in places)
            name, body_name = (_NUMBERS.sub("", page.names[inner]) for inner in (node, body))
            is_comment = commented[node] >= 0
            posts.append(Post(node, author, date.removeprefix(author), blocks, size, name, body_name, is_comment))
    return posts


def _innermost(page: StructurePage, nodes: set[int]) -> list[int]:
    """Return the innermost of some elements around each element, or itself; -1 for none."""
    within: list[int] = []
    for node, parent in enumerate(page.parents):
        within.append(node if node in nodes else within[parent] if parent >= 0 else -1)
    return within


def _best(marks: Sequence[Mark], cue: int) -> str:
    """Return the text of the first mark: one that is shown before others, and one by schema.org before those."""
    ranks = [(mark.cues & UNSEEN, mark.cues & IN_TEXT, not mark.cues & BY_SCHEMA) for mark in marks if mark.cues & cue]
    texts = [mark.text for mark in marks if mark.cues & cue]
    return texts[ranks.index(min(ranks))] if texts else ""


def _bodies(page: StructurePage, within: Sequence[int], marks: Mapping[int, Sequence[Mark]]) -> dict[int, int]:
    """Return the element with the text of each post that has one by its name.

    It is the largest without author and date, and the innermost of those with the same text apart from headings.
    """
    spoilt = set()
    for node, of_post in marks.items():
        for mark in of_post:
            inner = mark.node
            while inner > node and inner not in spoilt:
                spoilt.add(inner)
                inner = page.parents[inner]
    texts = list(accumulate((block.kind != HEADING for block in page.blocks), initial=0))
    text_of = [texts[end] - texts[first] for first, end in zip(page.firsts, page.ends, strict=True)]
    best: dict[int, int] = {}
    for node, cues in enumerate(page.cues):
        post, size = within[node], page.ends[node] - page.firsts[node]
        if cues & BODY and post >= 0 and size and node != post and node not in spoilt:
            before = best.get(post, -1)
            inside = before >= 0 and page.ends[node] <= page.ends[before]
            if before < 0 or (text_of[node] == text_of[before] if inside else text_of[node] > text_of[before]):
                best[post] = node
    return best


def _inner_nodes(page: StructurePage, places: Sequence[int], post: int) -> Iterator[int]:
    """Yield the elements around the blocks of a post, within it, each once; few steps for each block."""
    seen = {post}
    for place in places:
        node = page.blocks[place].node
        while node not in seen and node >= 0:
            seen.add(node)
            yield node
            node = page.parents[node]


def _usual_body(
    page: StructurePage,
    blocks_of: Mapping[int, Sequence[int]],
    marks: Mapping[int, Sequence[Mark]],
    within: Sequence[int],
) -> str:
    """Return the name of the element that has most of the text of posts."""
    worths: Counter[str] = Counter()
    for post, places in blocks_of.items():
        with_marks = _places_of(marks[post])
        worth: Counter[int] = Counter()
        total = 0
        for place in places:
            block = page.blocks[place]
            if place not in with_marks and block.linked <= _LINK * block.size:
                worth[block.node] += block.size
                total += block.size
        for node in sorted(_inner_nodes(page, places, post), reverse=True):
            if worth[node] >= _NEARLY_ALL * total > 0 and page.names[node].partition(".")[0] not in _LEAVES:
                worths[page.names[node]] += worth[node]
                break
            if page.parents[node] > post:
                worth[page.parents[node]] += worth[node]
    return worths.most_common(1)[0][0] if worths else ""


def _places_of(marks: Sequence[Mark]) -> set[int]:
    """Return the numbers of the blocks that have an author or a date; no more than a few of each."""
    return {place for mark in marks for place in range(mark.first, min(mark.end, mark.first + 20))}


def _text_blocks(page: StructurePage, places: Sequence[int], body: int, marks: Sequence[Mark]) -> list[HtmlBlock]:
    """Return the blocks of the text of a post, without those that have its author or date, or are links."""
    around = _places_of(marks) if not page.cues[body] & BODY else set()
    return [
        page.blocks[place]
        for place in places
        if page.firsts[body] <= place < page.ends[body]
        and place not in around
        and (page.blocks[place].kind in (CODE, TABLE, FORMULA) or page.cues[body] & BODY or not _is_link(page, place))
    ]


def _is_link(page: StructurePage, place: int) -> bool:
    block = page.blocks[place]
    return block.linked > _LINK * block.size


def turns_in(data: LinkedData, text_of: Callable[[str], str]) -> list[ThreadTurn]:
    """Return the posts that a page's JSON-LD has, in order: a question before its answers, a post before comments.

    Args:
        data: JSON-LD of the page.
        text_of: function that makes plain text of a text with tags.
    """
    turns = []
    stack: list[Any] = list(reversed(data.nodes))
    while stack:
        node = stack.pop()
        if not isinstance(node, Mapping):
            continue
        types = {name for name in _listed(node.get("@type")) if isinstance(name, str)}
        text = next((node[name] for name in ("text", "articleBody") if isinstance(node.get(name), str)), "")
        if types & _POSTS and text.strip():
            author = node.get("author")
            author = author[0] if isinstance(author, list) and author else author
            author = author.get("name") if isinstance(author, Mapping) else author
            date = next((node[name] for name in _PUBLISHED if isinstance(node.get(name), str)), "")
            turns.append(ThreadTurn(author if isinstance(author, str) else "", date, text_of(text)))
        inner = [value for name in _INNER for value in _listed(node.get(name))]
        stack.extend(reversed(inner))
    return turns


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
