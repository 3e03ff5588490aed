"""What pages say about themselves, as columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from dcurate import DocumentBatch, InlineExecutor
from dcurate.testing import check_stage
from dcurate.text import HtmlInfo
from dcurate.text.extract.page_facts import PageFacts, facts_of
from dcurate.text.extract.tags import PageTags, scan_tags
from tests.growth import assert_linear, patterns
from tests.text.extract.test_growth import HEADS, HTML

ARTICLE = {
    "@context": "https://schema.org",
    "@graph": [
        {"@type": "WebSite", "name": "The Site", "inLanguage": "en-US"},
        {"@type": "BreadcrumbList"},
        {
            "@type": ["NewsArticle"],
            "headline": "A day",
            "author": [{"@id": "#bee"}, {"@type": "Person", "name": "C. Dee"}],
            "datePublished": "2024-05-01T10:00:00Z",
            "license": {"@id": "https://creativecommons.org/licenses/by/4.0/"},
        },
        {"@type": "Person", "@id": "#bee", "name": "A. Bee"},
    ],
}


def facts(page: str, url: str = "https://example.org/a/b?x=1") -> PageFacts:
    return facts_of(scan_tags(page), url)


def test_json_ld_says_who_when_and_under_which_licence() -> None:
    page = f"<body><p>Text<script type='application/ld+json'>{json.dumps(ARTICLE)}</script>"
    about = facts(page)
    assert about.title == "A day"
    assert about.authors == ["A. Bee", "C. Dee"]
    assert about.published == "2024-05-01T10:00:00+00:00"
    assert about.site == "The Site"
    assert about.language == "en-US"
    assert about.types == ["NewsArticle", "WebSite", "BreadcrumbList", "Person"]
    assert about.licenses == ["https://creativecommons.org/licenses/by/4.0/"]


def test_tags_say_the_rest_and_addresses_are_resolved() -> None:
    page = """<!doctype html><HTML LANG="pt_BR"><head><base href="/c/"><title> A &amp;
      B </title><meta name=description content='What it "says"'><META PROPERTY="og:site_name" CONTENT="S">
      <meta itemprop="dateModified" content="2 May 2024"><link rel="license" href="l.html">
      <link rel='next canonical' href=d></head><body><time itemprop=datePublished datetime=2024-05-01>May</time>
      <a href="https://example.org/cc" REL="nofollow license">CC</a><a href=x>no</a>"""
    assert facts(page) == PageFacts(
        title="A & B",
        authors=[],
        published="2024-05-01",
        modified="2024-05-02",
        site="S",
        language="pt-BR",
        canonical_url="https://example.org/c/d",
        description='What it "says"',
        types=[],
        licenses=["https://example.org/c/l.html", "https://example.org/cc"],
    )


@pytest.mark.parametrize(
    "page",
    [
        "<!-- <meta name=author content=X> -->",
        "<script>'<meta name=author content=X>'</script>",
        "<style><meta name=author content=X></style>",
        "<textarea><meta name=author content=X></textarea>",
        "<title><meta name=author content=X></title>",
        "<metadata name=author content=X>",
        "<meta name=author content=''>",
        "<meta name=author content='https://example.org/x'>",
        "<script><meta name=author content=X>",
        '<script type="application/ld+json">{"author": "X",}</script>',
        '<script type="application/ld+json">[1, null, "x", {"author": {"name": 5}}]</script>',
    ],
)
def test_what_is_no_tag_and_what_is_no_name_says_nothing(page: str) -> None:
    assert facts(page).authors == []


def test_a_comment_ends_as_in_a_browser() -> None:
    assert facts("<!--> <meta name=author content=X>").authors == ["X"]
    assert facts("<!-- <meta name=author content=X>").authors == []


names = st.sampled_from(["author", "date", "og:title", "license", "canonical", "x"])
texts = st.text(st.sampled_from("abc é&<>\"'=/-1234 \n"), max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["meta", "link"]), names, texts), max_size=6))
def test_tags_are_read_as_lxml_reads_them(tags: list[tuple[str, str, str]]) -> None:
    def quoted(text: str) -> str:
        return text.replace("&", "&amp;").replace('"', "&quot;")

    page = "<html><head><title>t</title>" + "".join(
        f'<meta name="{name}" content="{quoted(text)}">'
        if tag == "meta"
        else f'<link rel={name} href="{quoted(text)}">'
        for tag, name, text in tags
    )
    tree = lxml_html.fromstring(page)
    metas: dict[str, list[str]] = {}
    links: dict[str, list[str]] = {}
    for element in tree.iter("meta", "link"):
        name, text = (
            (element.get("name"), element.get("content"))
            if element.tag == "meta"
            else (element.get("rel"), element.get("href"))
        )
        if text := " ".join((text or "").split()):
            (metas if element.tag == "meta" else links).setdefault(name, []).append(text)
    scanned = scan_tags(page)
    assert (scanned.metas, scanned.links) == (metas, links)


@given(st.lists(st.sampled_from([*HTML, *HEADS, "</title>", '{"@graph": [', "[" * 2000, "rel=license"]), max_size=30))
def test_no_page_is_too_odd(pieces: list[str]) -> None:
    page = "".join(pieces)
    facts(page)
    facts(f'<script type="application/ld+json">{page}</script>', page)


#: What begins and does not end, or is read within itself.
OPEN = [
    '<meta a="',
    "<meta a='",
    "<meta a=",
    "<meta a = ",
    "<a rel=license ",
    "<a rel",
    "<base href=",
    "<time datetime",
]


def test_the_time_grows_with_the_page() -> None:
    assert_linear(scan_tags, patterns([*HTML, *HEADS, *OPEN], ["<a ", ">", '"', *OPEN]))
    scripts = patterns(['{"@graph":[', '{"author":', "[", '"x",', "{}", "<!--", "//"])
    assert_linear(lambda script: facts_of(PageTags(json_ld=[script])), scripts)
    many = [lambda count: "[" + ",".join(['{"@id":"a","author":{"@id":"a"},"license":"b"}'] * (count // 45)) + "]"]
    assert_linear(lambda script: facts_of(PageTags(json_ld=[script])), many)


def test_rows_keep_what_they_have_and_bad_pages_are_null() -> None:
    pages = [b"\xff\xfe<\0t\0", None, "<meta name=author content=É>".encode("latin-1"), b""]
    rows = pa.table({"content": pages, "url": ["u", None, "v", ""], "charset": [None, None, "latin-1", "?"]})
    described = HtmlInfo(prefix="p_").process(DocumentBatch(data=rows)).to_arrow()
    assert described.select(rows.column_names).equals(rows)
    assert described["p_authors"].to_pylist() == [[], [], ["É"], []]
    assert described["p_published"].null_count == 4
    assert described.schema.field("p_site").type == pa.string()


def test_it_is_a_stage() -> None:
    rows = pa.table({"content": [b"<title>A</title>", b"<meta name=author content=B>"], "url": ["u", "v"]})
    check_stage(HtmlInfo(), DocumentBatch(data=rows), executor=InlineExecutor())
