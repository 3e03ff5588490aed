"""What kind of page a page is: an article, a thread, a product, a listing, documentation, or another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from dcurate.text.extract.algorithms import PageSignals
from dcurate.text.extract.blocks import CODE, HEADING, PARAGRAPH, HtmlBlock
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
            *("AnalysisNewsArticle", "OpinionNewsArticle", "AdvertiserContentArticle", "SocialMediaPosting", "article"),
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
#: Bytes of a text that is prose, and of all of it in an article; blocks that a title with a link begins in a listing.
_LONG, _ARTICLE, _TITLES = 100, 600, 5
#: Part of the text of a thread that is in its posts; of a listing that is in links; of documentation that is code.
_IN_POSTS, _LINKED, _CODE = 0.5, 0.4, 0.08
_MOST_CARTS, _LISTED_PRICES = 3, 8
_QUESTION = "question"


def kind_of(page: StructurePage, tags: PageTags, posts: Sequence[Post], signals: PageSignals) -> str:
    """Return the kind of a page: what it says by its types or its generator, else what it looks like.

    Args:
        page: its blocks and cues.
        tags: what it says about itself.
        posts: posts of the thread, if it is one.
        signals: what it consists of.
    """
    return declared_kind(tags) or kind_by_structure(page, posts, signals)


def declared_kind(tags: PageTags) -> str:
    """Return the kind that a page says it is, by JSON-LD, OpenGraph, or the program that made it; empty if none.

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
    return by_type or (DOCUMENTATION if _MANUALS.search(tags.meta("generator")[:200]) else "")


def kind_by_structure(page: StructurePage, posts: Sequence[Post], signals: PageSignals) -> str:
    """Return the kind that a page looks like: by its posts, prices, links, code and prose."""
    size = sum(block.size - min(block.linked, block.size) for block in page.blocks)
    prose = _prose(page.blocks)
    if posts and sum(post.size for post in posts) >= _IN_POSTS * size and not _has_article(posts, prose):
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


def _has_article(posts: Sequence[Post], prose: int) -> bool:
    """Return whether a page has prose besides its posts, or in one that is of another kind than most: an article."""
    [(usual, _)] = Counter(post.name for post in reversed(posts)).most_common(1)
    alike = [post for post in posts if post.name == usual or _QUESTION in post.name]
    return prose - sum(_prose(post.blocks) for post in alike) >= _ARTICLE


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
