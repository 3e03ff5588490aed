"""What kind of page a page is: an article, a thread, a product, a listing, documentation, or another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dcurate.text.extract.algorithms import PageSignals
from dcurate.text.extract.blocks import CODE, HEADING, PARAGRAPH, HtmlBlock
from dcurate.text.extract.main_content import main_content
from dcurate.text.extract.page_facts import LinkedData
from dcurate.text.extract.structure_reader import StructurePage
from dcurate.text.extract.tags import PageTags
from dcurate.text.extract.threads import Post

ARTICLE, FORUM, PRODUCT, LISTING, DOCUMENTATION, OTHER = KINDS = (
    *("article", "forum", "product", "listing", "documentation", "other"),
)
#: Types of schema.org and OpenGraph by kind; kinds that come first count first.
_TYPES: Mapping[str, frozenset[str]] = {
    FORUM: frozenset(("DiscussionForumPosting", "QAPage")),
    DOCUMENTATION: frozenset(("TechArticle", "APIReference")),
    ARTICLE: frozenset(
        (
            *("Article", "NewsArticle", "BlogPosting", "Report", "ScholarlyArticle", "ReportageNewsArticle"),
            *("AnalysisNewsArticle", "OpinionNewsArticle", "AdvertiserContentArticle", "SocialMediaPosting"),
            *("LiveBlogPosting", "Recipe", "BackgroundNewsArticle", "MedicalScholarlyArticle", "HowTo"),
        )
    ),
    PRODUCT: frozenset(("Product", "ProductGroup", "IndividualProduct", "product", "product.item", "og:product")),
    LISTING: frozenset(
        ("CollectionPage", "SearchResultsPage", "OfferCatalog", "ProductCollection", "Blog", "product.group")
    ),
}
_MANUALS = re.compile(
    r"(?:sphinx|docutils|mkdocs|docusaurus|doxygen|mdbook|rustdoc|asciidoctor|gitbook|vitepress|vuepress|javadoc|"
    r"docfx|typedoc|antora|readme\.io|hugo docsy|nbconvert)",
    re.IGNORECASE,
)
_FORUMS = re.compile(
    r"(?:discourse|vbulletin|phpbb|xenforo|mybb|flarum|nodebb|vanilla forums|invision community|woltlab|fluxbb|punbb|"
    r"simple machines|question2answer|askbot|mhonarc|hyperkitty|pipermail)",
    re.IGNORECASE,
)
#: Bytes of a text that is prose, and of all of it in an article; blocks that a title with a link begins in a listing.
_LONG, _ARTICLE, _TITLES = 100, 600, 5
#: Part of the text of a thread that is in its posts; of its main content that is in posts that are alike, and most of
#: these in one post; part of a listing that is in links; of documentation that is code.
_IN_POSTS, _IN_ALIKE, _IN_ONE, _LINKED, _CODE = 0.5, 0.6, 0.9, 0.4, 0.08
_MOST_CARTS, _LISTED_PRICES = 3, 8
_QUESTION = "question"


def kind_of(page: StructurePage, tags: PageTags, posts: Sequence[Post], signals: PageSignals) -> str:
    """Return the kind of a page: what it says by its types or its generator, else what it looks like.

    A page of posts is a thread even if OpenGraph calls it an article, as programs of forums do.

    Args:
        page: its blocks and cues.
        tags: what it says about itself.
        posts: posts of the thread, if it is one.
        signals: what it consists of.
    """
    if page.is_thread:
        return FORUM
    kind = declared_kind(tags)
    if kind:
        return kind
    if "article" in tags.metas.get("og:type", ()):
        return FORUM if _is_thread(page, posts) and not _are_comments(posts) else ARTICLE
    return kind_by_structure(page, posts, signals)


def declared_kind(tags: PageTags) -> str:
    """Return the kind that a page says it is, by JSON-LD, OpenGraph, or the program that made it; empty if none.

    That OpenGraph calls it an article does not count.

    Examples:
        >>> from dcurate.text.extract.tags import scan_tags
        >>> declared_kind(scan_tags('<meta property="og:type" content="product">'))
        'product'
    """
    types = set(tags.metas.get("og:type", ()))
    for node in LinkedData.of(tags.json_ld).nodes:
        names = node.get("@type")
        types.update(name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str))
    by_type = next((kind for kind, names in _TYPES.items() if types & names), "")
    generator = tags.meta("generator")[:200]
    by_program = DOCUMENTATION if _MANUALS.search(generator) else FORUM if _FORUMS.search(generator) else ""
    return by_type or by_program


def kind_by_structure(page: StructurePage, posts: Sequence[Post], signals: PageSignals) -> str:
    """Return the kind that a page looks like: by its posts, prices, links, code and prose."""
    prose = _prose(page.blocks)
    if _is_thread(page, posts):
        return FORUM
    if page.carts and page.carts <= _MOST_CARTS and 0 < page.prices <= _LISTED_PRICES:
        return PRODUCT
    titled, in_titled = _titled(page)
    if titled >= _TITLES and (prose - in_titled < _ARTICLE or page.prices >= _LISTED_PRICES):
        return LISTING
    codes = sum(block.kind == CODE for block in page.blocks)
    headings = sum(block.kind == HEADING for block in page.blocks)
    structured = codes >= 2 and (headings >= 2 or signals.code_ratio >= _CODE)
    if page.manual >= 2 or structured:
        return DOCUMENTATION
    if prose >= _ARTICLE:
        return ARTICLE
    return LISTING if signals.link_ratio >= _LINKED and titled >= 3 else OTHER


def _is_thread(page: StructurePage, posts: Sequence[Post]) -> bool:
    """Return whether a page is a thread: posts that are alike have most of its prose.

    Comments must have nearly all of it, for they may be those of an article. Other posts must have most of the prose
    of the main content, and none of them nearly all of that by itself, as an article beside a list of others has.
    """
    if not posts:
        return False
    alike = _alike(posts)
    are_comments = _are_comments(alike)
    proses = [_prose(post.blocks) for post in alike if post.is_comment or not are_comments]
    all_prose, prose = _prose(page.blocks), sum(proses)
    if all_prose - prose < _ARTICLE:
        size = sum(block.size - min(block.linked, block.size) for block in page.blocks)
        return sum(post.size for post in posts) >= _IN_POSTS * size
    if are_comments or max(proses) > _IN_ONE * prose or prose < _IN_POSTS * all_prose:
        return False
    inside = {id(block) for post in alike for block in post.blocks}
    main = [block for block in main_content(page) if id(block) not in inside]
    return prose >= _IN_ALIKE * (prose + _prose(main))


def _alike(posts: Sequence[Post]) -> list[Post]:
    """Return the posts of the kind that has most of the prose, the last kind if all differ, and questions.

    Posts are alike if their elements or those of their texts have the same name.
    """
    groups: dict[str, list[Post]] = {}
    for post in posts:
        groups.setdefault(post.name, []).append(post)
        if post.body != post.name and not post.body.endswith("."):
            groups.setdefault(post.body, []).append(post)
    repeated = [group for group in groups.values() if len(group) > 1]
    usual = max(repeated, key=lambda group: sum(_prose(post.blocks) for post in group), default=posts[-1:])
    names = {(post.name, post.body) for post in usual}
    return [post for post in posts if (post.name, post.body) in names or _QUESTION in post.name]


def _are_comments(posts: Sequence[Post]) -> bool:
    return 2 * sum(post.is_comment for post in posts) > len(posts)


def _prose(blocks: Sequence[HtmlBlock]) -> int:
    """Return the bytes outside of links of long paragraphs."""
    return sum(
        block.size - block.linked
        for block in blocks
        if block.kind == PARAGRAPH and block.size >= _LONG and 2 * block.linked < block.size
    )


def _titled(page: StructurePage) -> tuple[int, int]:
    """Return how many elements beside each other begin with a link as title, at most, and the prose in these."""
    titled: dict[int, list[int]] = {}
    for node, parent in enumerate(page.parents):
        first = page.firsts[node]
        if parent < 0 or page.ends[node] == first:
            continue
        for block in page.blocks[first : min(first + 2, page.ends[node])]:
            if block.size > 15 and block.linked > 0.8 * block.size:
                titled.setdefault(parent, []).append(node)
                break
    most = max(titled.values(), key=len, default=[])
    return len(most), sum(_prose(page.blocks[page.firsts[node] : page.ends[node]]) for node in most)
