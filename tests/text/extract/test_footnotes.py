"""Footnotes and addresses of links in Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.text import DcurateExtractor
from tests.growth import assert_linear, followed, repeated, singles
from tests.text.extract.test_growth import HTML, STRUCTURES

PROSE = "It was a bright cold day in April, and the clocks were striking thirteen. " * 3
PROGRAMS = {
    "pandoc": (
        '<a href="#fn1" class="footnote-ref" id="fnref1" role="doc-noteref"><sup>1</sup></a>',
        '<section id="footnotes" class="footnotes" role="doc-endnotes"><hr><ol><li id="fn1"><p>A note.</p><p>Its end.'
        '<a href="#fnref1" class="footnote-back" role="doc-backlink">↩︎</a></p></li></ol></section>',
    ),
    "Python-Markdown": (
        '<sup id="fnref:1"><a class="footnote-ref" href="#fn:1">1</a></sup>',
        '<div class="footnote"><hr><ol><li id="fn:1"><p>A note.</p><p>Its end.&#160;<a class="footnote-backref" '
        'href="#fnref:1" title="Jump back to footnote 1 in the text">&#8617;</a></p></li></ol></div>',
    ),
    "GitHub": (
        '<sup><a href="#user-content-fn-1" id="user-content-fnref-1" data-footnote-ref>1</a></sup>',
        '<section data-footnotes class="footnotes"><h2 id="footnote-label" class="sr-only">Footnotes</h2><ol>'
        '<li id="user-content-fn-1"><p>A note.</p><p>Its end. <a href="#user-content-fnref-1" data-footnote-backref '
        'aria-label="Back to reference 1">↩</a></p></li></ol></section>',
    ),
    "MediaWiki": (
        '<sup id="cite_ref-1" class="reference"><a href="#cite_note-1"><span>[</span>1<span>]</span></a></sup>',
        '<div class="reflist"><ol class="references"><li id="cite_note-1"><span class="mw-cite-backlink"><b><a '
        'href="#cite_ref-1">^</a></b></span> <span class="reference-text">A note.<p>Its end.</p></span>'
        "</li></ol></div>",
    ),
    "Sphinx": (
        '<a class="footnote-reference brackets" href="#id2" id="id1" role="doc-noteref"><span>[</span>1<span>]</span>'
        "</a>",
        '<aside class="footnote-list brackets"><aside class="footnote brackets" id="id2" role="doc-footnote"><span '
        'class="label"><span>[</span><a role="doc-backlink" href="#id1">1</a><span>]</span></span><p>A note.</p>'
        "<p>Its end.</p></aside></aside>",
    ),
    "Asciidoctor": (
        '<sup class="footnote">[<a id="_footnoteref_1" class="footnote" href="#_footnotedef_1">1</a>]</sup>',
        '<div id="footnotes"><hr><div class="footnote" id="_footnotedef_1"><a href="#_footnoteref_1">1</a>. A note.'
        "<p>Its end.</p></div></div>",
    ),
}
EXTRACTOR = DcurateExtractor(markdown=True, links=True)


def text(page: str, extractor: DcurateExtractor = EXTRACTOR) -> str:
    return (extractor.extract_text(page, frozenset(), "") or [""])[0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_footnote_is_marked_in_markdown(program: str) -> None:
    reference, note = PROGRAMS[program]
    page = f"<article><p>{PROSE}A{reference} and B{reference}.</p><p>{PROSE}</p>{note}</article>"
    notes = "[^1]: A note.\n\n    Its end."
    assert text(page) == f"{PROSE}A[^1] and B[^1].\n\n{PROSE.strip()}\n\n{notes}"
    assert "[^" not in text(page, DcurateExtractor())


def test_notes_are_numbered_by_their_references_and_stay_where_the_rest_is_left_out() -> None:
    def reference(name: str) -> str:
        return f"<a href=#fn-{name}>{name}</a>"

    page = (
        f"<article><p>{PROSE}{reference('b')}{reference('a')}{reference('9')}</p><p>{PROSE}</p></article>"
        "<footer><p id=fn-a>First.<p id=fn-b>Second.<p id=fn-c>Third.</footer>"
    )
    assert text(page).split("\n\n") == [f"{PROSE}[^1][^2]9", PROSE.strip(), "[^2]: First.", "[^1]: Second."]


def test_other_links_within_a_page_are_links() -> None:
    page = f"<p>{PROSE}<a href=#fn1>the first footnote of this page</a> <a href=#part>12</a></p><p id=fn1>x"
    assert "[the first footnote of this page](#fn1) [12](#part)" in text(page)
    assert "[Notes](#notes)" in text(f"<p>{PROSE}<a href=#notes>Notes</a></p><div id=notes>{PROSE}</div>")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/a_(b)", "/a_%28b%29"),
        ("/a b", "/a%20b"),
        ("/a)[b](c", "/a%29[b]%28c"),
        ("  /a\n", "/a"),
        ("/<a>\\", "/%3Ca%3E%5C"),
    ],
)
def test_an_address_ends_no_link(address: str, expected: str) -> None:
    assert text(f'<p>{PROSE}<a href="{address}">x</a></p>') == f"{PROSE}[x]({expected})"


PIECES = [
    *(
        "<a href=#fn1>1</a>",
        "<li id=fn1>",
        "<p id=fn2>",
        "<a href=#fn2>2</a>",
        "<a href=#r>^</a>",
        "</li>",
        "\x01" + "1\x01",
    ),
    *("<a href=#fn1>", "</a>", "<ol>", "</ol>", "<table><tr><td id=fn1>", "</table>", "<div id=fn2>", "</div>", PROSE),
]


@given(st.lists(st.sampled_from([*HTML, *STRUCTURES, *PIECES]), max_size=40).map("".join))
def test_each_note_is_there_once_and_plain_text_has_none(page: str) -> None:
    found = re.findall(r"(?m)^\[\^(\d+)\]: ", text(page))
    assert len(found) == len(set(found))
    assert "[^" not in text(page, DcurateExtractor())


def test_the_time_grows_with_the_page() -> None:
    made = [
        *singles(PIECES),
        lambda length: "".join(f"<a href=#fn{n}>{n}</a><p id=fn{n}>x" for n in range(length // 40)),
        lambda length: "<a href=#fn1>1</a>" + "<div id=fn1>" * (length // 12),
        followed("<a href=#fn1>1</a>", "<div id=fn1>x"),
        repeated("<a href=#fn1>1</a><b id=fn1>"),
    ]
    assert_linear(text, made, (100_000, 300_000))


@pytest.mark.parametrize("mark", ["<a {}>1</a>", "<sup>[<a {}>1</a>]</sup>", "<a {}>1</a><a {}>1</a>"])
def test_a_reference_within_code_comes_after_it(mark: str) -> None:
    link = mark.replace("{}", 'class="footnote-ref" href="#fn1"')
    page = f"<p>{PROSE} Call <code>sort{link}</code> now.</p><div id=fn1>A note.</div>"
    [text] = DcurateExtractor(markdown=True).extract_text(page, frozenset(), "ENGLISH") or [""]
    assert f"Call `sort`{'[^1]' * mark.count('<a')} now." in text
