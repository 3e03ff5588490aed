"""Threads as turns, and kinds of pages."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, PipelineError
from dcurate.testing import check_stage
from dcurate.text import DcurateExtractor, HtmlExtractor
from dcurate.text.extract.page_kind import KINDS, declared_kind
from dcurate.text.extract.tags import scan_tags
from dcurate_testing.made_threads import OTHERS, TUNED, MadePost, Template, bbpress, css_modules, made_posts, phpbb
from tests.growth import assert_linear, followed, repeated, singles
from tests.text.extract.test_growth import HTML, STRUCTURES

SENTENCES = ("It was a bright cold day in April.", "The clocks of the town were striking thirteen.", "Nobody came.")
PARTS = [
    *("<div class=post>", "<div class=message-body>", "<span class=author>x", "<time>", "<i itemprop=text>", "</div>"),
    *(
        "<table><tr><td><a href=/u/1>x</a>",
        "</table>",
        "<div itemtype=Comment>",
        "3 May 2004",
        "<h2>",
        "<li class=comment>",
    ),
    *(
        "<span class=date>",
        "<blockquote>",
        "<b class=comment-text>",
        "</b>",
        "</span>",
        "</table></div>",
        "<p class=price>1",
    ),
]
EXTRACTOR = DcurateExtractor()


def parts(page: str) -> Any:
    return EXTRACTOR.extract_with_structure(page, frozenset(), "")


@pytest.mark.parametrize("template", [*TUNED, *OTHERS], ids=lambda template: template.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_the_turns_of_a_thread_are_its_posts(template: Template, seed: int) -> None:
    posts = made_posts(SENTENCES, random.Random(seed))
    found = parts(template("On things", posts))
    assert found.kind == "forum"
    assert [(turn.author, turn.text.split()) for turn in found.turns] == [
        (post.author, post.text.split()) for post in posts
    ]
    if template not in (bbpress, css_modules):  # the first has its dates outside of posts, the second beside authors
        assert [turn.date for turn in found.turns] == [post.date for post in posts]


def test_threads_in_json_ld_are_turns() -> None:
    answer = {
        "@type": "Answer",
        "text": "<p>So.</p><pre>x = 1</pre>",
        "author": {"name": "b"},
        "dateCreated": "2020-01-02",
    }
    data = {
        "@type": "QAPage",
        "mainEntity": {
            "@type": "Question",
            "text": "How?",
            "author": [{"name": "a"}],
            "acceptedAnswer": answer,
            "suggestedAnswer": [{"@type": ["Answer", 3], "text": "Or so.", "author": "c"}, None, 7],
        },
    }
    page = f'<script type="application/ld+json">{json.dumps(data)}</script><p>Text'
    assert parts(page).turns == [("a", "", "How?"), ("b", "2020-01-02", "So.\n\nx = 1"), ("c", "", "Or so.")]


def test_an_article_with_comments_is_no_thread() -> None:
    story = "<p>" + " ".join(SENTENCES) * 10 + "</p>"
    comment = (
        "<li class=comment><cite class=fn>Ann</cite> <time>3 May 2020</time><div class=comment-text>Yes.</div></li>"
    )
    found = parts(
        f"<article class=post><p class=author>Bo</p><time>1 May 2020</time>{story}</article><ol>{comment * 3}</ol>"
    )
    assert (found.kind, list(found.turns)) == ("article", [])


OPENING = (
    "<div class=opening><h1>On things</h1><a href=/members/{0}>{0}</a> <time>{1}</time>"
    "<div class=bb-wrapper>{2}</div></div>"
)
REPLY = (
    "<div class=reply-card><div><a href=/members/{0}>{0}</a></div><time>{1}</time><div class=bb-wrapper>{2}</div></div>"
)
MESSAGE = (
    "<article class=message><aside class=user><a href=/u/{0}>{0}</a></aside><div>{1}"
    "<div class=message-body>{2}</div></div></article>"
)
BLOCK = "<div class=blockpost><h2>#1 {1}</h2><dl><dt>{0}</dt></dl><div class=post-content>{2}</div></div>"
RULES = "<p>" + "Write about the matter, and be kind to those who ask. " * 30 + "</p>"
LONG = tuple(sentence * 5 for sentence in SENTENCES[:2])


def thread(first: str, rest: str, seed: int, around: str = "{}") -> tuple[list[MadePost], str]:
    """Return three or more posts of long texts, and a page of them, the first built otherwise."""
    chance = random.Random(seed)
    posts = made_posts(LONG, chance) + made_posts(LONG, chance)[:1]
    built = (rest if n else first for n in range(len(posts)))
    return posts, around.format(
        "".join(form.format(post.author, post.date, post.body) for form, post in zip(built, posts, strict=True))
    )


@pytest.mark.parametrize(
    ("first", "rest"), [(OPENING, REPLY), (MESSAGE, MESSAGE), (BLOCK, BLOCK)], ids=["opening", "message", "block"]
)
@pytest.mark.parametrize(
    "around", ["<main>{}</main>", f"<main>{{}}</main><footer>{RULES}</footer>"], ids=["alone", "rules"]
)
@pytest.mark.parametrize("head", ["", "<meta property=og:type content=article>"])
@pytest.mark.parametrize("seed", range(3))
def test_a_thread_is_found_in_any_surroundings(first: str, rest: str, around: str, head: str, seed: int) -> None:
    posts, page = thread(first, rest, seed, around)
    found = parts(head + page)
    assert found.kind == "forum"
    assert [turn.text.split()[-40:] for turn in found.turns] == [post.text.split()[-40:] for post in posts]
    if first is not BLOCK:  # which does not mark its authors
        assert [turn.author for turn in found.turns] == [post.author for post in posts]


@pytest.mark.parametrize("head", ["", "<meta property=og:type content=article>"])
@pytest.mark.parametrize("text", ["content", "message", "post-body"])
@pytest.mark.parametrize("count", [2, 30])
def test_an_article_is_one_with_any_comments(head: str, text: str, count: int) -> None:
    story = f"<div class={text}>" + f"<p>{LONG[0]}</p>" * 10 + "</div>"
    comment = f"<li class=comment><a href=/u/1>Ann</a> <time>3 May 2020</time><div class={text}><p>{LONG[1]}</div></li>"
    page = f"{head}<article><h1>It</h1><a rel=author href=/u/2>Bo</a> <time>1 May 2020</time>{story}</article>"
    found = parts(f"{page}<ol>{comment * count}</ol>")
    assert (found.kind, list(found.turns)) == ("article", [])


@pytest.mark.parametrize("count", [1, 6])
def test_an_article_is_one_beside_others_that_are_built_alike(count: int) -> None:
    entry = "<article class=post>{}<a rel=author href=/u/2>Bo</a> <time>1 May 2020</time><p>{}</p></article>"
    story = entry.format("<h1>It</h1>", f"{LONG[0]}</p><p>" * 20)
    others = "".join(entry.format(f"<h3><a href=/{n}>That {n}</a></h3>", LONG[1]) for n in range(count))
    found = parts(f"{story}<section>{others}</section><footer>{RULES}</footer>")
    assert (found.kind, list(found.turns)) == ("article", [])


def test_parts_of_an_article_that_are_built_alike_are_no_posts() -> None:
    page = (
        "<div class=group><a rel=author href=/u/2>Bo</a> <time>1 May 2020</time></div>"
        f"<div class=group><div class=entry-content><p>{LONG[0]}</p></div><a rel=author href=/u/2>Bo</a></div>"
    )
    assert parts(page).kind != "forum"


def test_lists_of_threads_in_a_sidebar_are_no_posts() -> None:
    row = "<li class=row><a href=/t/1>On other things</a> <a href=/u/1>Ann</a> <time>3 May 2020</time><p>It.</p></li>"
    posts = made_posts(LONG, random.Random(1))
    message = "<div class=entry>" + MESSAGE.replace(" class=message>", ">") + "</div>"
    shown = "".join(message.format(post.author, post.date, post.body) for post in posts)
    found = parts(f"<main>{shown}</main><div class=sidebar><ul>{row * 5}</ul></div>")
    assert [turn.text.split() for turn in found.turns] == [post.text.split() for post in posts]


@pytest.mark.parametrize("kind", ["DiscussionForumPosting", "QAPage"])
def test_a_page_says_by_microdata_that_it_is_a_thread(kind: str) -> None:
    page = f"<div itemscope itemtype='https://schema.org/{kind}'>{RULES}</div>"
    assert parts(page).kind == "forum"
    assert parts(page.replace("itemtype", "title")).kind == "article"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ('<script type="application/ld+json">{"@type": "NewsArticle"}</script>', "article"),
        (
            '<script type="application/ld+json">[{"@type": ["Thing", "Product"]}, {"@type": "WebSite"}]</script>',
            "product",
        ),
        (
            '<script type="application/ld+json">{"@graph": [{"@type": "QAPage"}, {"@type": "Article"}]}</script>',
            "forum",
        ),
        ('<script type="application/ld+json">{"@type": "CollectionPage"}</script>', "listing"),
        ('<meta property="og:type" content="product">', "product"),
        (
            '<meta property="og:type" content=article><script type="application/ld+json">{"@type":"Product"}</script>',
            "product",
        ),
        ('<meta property="og:type" content="article">', ""),
        ('<meta name=generator content="Discourse 3.5">', "forum"),
        ('<meta name=generator content="Docusaurus v3.0">', "documentation"),
        ('<meta name=generator content="WordPress 6.1"><meta property="og:type" content="website">', ""),
        ('<script type="application/ld+json">{"@type": [{}, null, 3]}</script>', ""),
    ],
)
def test_a_page_says_what_kind_it_is(head: str, kind: str) -> None:
    assert declared_kind(scan_tags(head)) == kind


def test_kinds_and_turns_are_columns() -> None:
    posts = made_posts(SENTENCES, random.Random(5))
    rows = pa.table({"content": [phpbb("A", posts).encode(), b"<p>It is a text.", None]})
    stage = HtmlExtractor("dcurate", kind_field="kind", turns_field="turns")
    stage.setup()
    table = stage.process(DocumentBatch(data=rows)).to_arrow()
    assert table["kind"].to_pylist() == ["forum", "other"]
    assert table["turns"].to_pylist() == [[{"author": p.author, "date": p.date, "text": p.text} for p in posts], None]
    assert stage.outputs()[1] == table.column_names
    check_stage(stage, DocumentBatch(data=rows))


@pytest.mark.parametrize("setting", ["kind_field", "turns_field"])
def test_other_extractors_refuse_them(setting: str) -> None:
    with pytest.raises(PipelineError, match=f'{setting}=.* has no effect with TrafilaturaExtractor; use "dcurate"'):
        HtmlExtractor(**dict[str, Any]({setting: "x"}))


@given(st.lists(st.sampled_from([*HTML, *STRUCTURES, *PARTS]), max_size=40).map("".join))
def test_any_page_has_a_kind_and_the_text_that_it_has_without(page: str) -> None:
    found = parts(page)
    assert found.kind in KINDS
    assert [found.text] == EXTRACTOR.extract_text(page, frozenset(), "")
    assert all(turn.text.strip() for turn in found.turns)
    assert not found.turns or found.kind == "forum"


def test_the_time_grows_with_the_page() -> None:
    post = "<div class=post><a class=author href=/u/1>x</a> 3 May 2004<div class=post-body><h2>y</h2>z</div></div>"
    made = [
        *singles([*PARTS, post, post.replace("</div>", ""), "<div class=post><span class=author>x</span>"]),
        followed("<table><tr><td>", "<a href=/u/1>x</a>"),
        followed("<div class=post-body>", "<h2>x</h2><div class=post-body>y</div>"),
        followed("<span class=author><span class=date>", "x "),
        repeated("<div class=post-body>x<time>1 May 2004</time></div><p class=reply><time>2 May 2004</time>y</p>"),
        followed("<div class=post-body><time>", "<p class=reply><time>2 May 2004</time>y</p>"),
        repeated("<h2><a href=/aaaaaaaaaaaaaaaaaaaaaaaaa>a title that is long</a></h2>"),
    ]
    stage = HtmlExtractor("dcurate", kind_field="kind", turns_field="turns")
    stage.setup()
    assert_linear(lambda page: stage.extract(page.encode()), made, (100_000, 300_000))


def test_a_million_nested_elements_and_a_long_line_are_read() -> None:
    assert parts("<div class=post>" * 1_000_000 + "text").kind == "other"
    assert parts("<span class=author>" + "x\0 " * 1_000_000).kind in KINDS
