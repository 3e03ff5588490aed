"""The time to take the text out of a page grows with the page's length, of hostile pages too."""

from __future__ import annotations

import pytest
from justext.core import html_to_dom, preprocessor
from lxml import etree

from dcurate.text import DcurateExtractor, HtmlExtractor, JusTextExtractor, ResiliparseExtractor, TrafilaturaExtractor
from dcurate.text.extract import algorithms
from dcurate.text.extract.charset import decoded
from dcurate.text.extract.language import shown_text
from dcurate.text.extract.nesting import nested_too_deeply
from dcurate.text.extract.stage import _title
from tests.growth import SHORT, assert_linear, followed, repeated, singles

HTML = [
    *(
        "<",
        "</",
        "<div>",
        "<div",
        '<div a="',
        "</div>",
        "<p>",
        "<a href=",
        "<a href=b>",
        "<!--",
        "<!",
        "-->",
        "<![CDATA[",
    ),
    *("<script>", "</script>", "<style>", "<table><tr><td>", "<tr>", "<td>", "<b>", "</b>", "<span>", "<ul><li>"),
    *("<title>", "<meta ", "&", "&#", "&amp;", '"', "<br>", "<form>", "<article>", "<h1>", "<svg>", "<option>", "x"),
    *(" ", "\n", "<?xml", "<iframe>", "<blockquote>", "<pre>", "<dl><dt>", "<body>", "<html>", "<font>", "<textarea>"),
]
TOGETHER = [
    *(repeated("x", tag) for tag in ("<!--y-->", "<script></script>", "<iframe></iframe>", "<p>", "<br>", "<input>")),
    repeated("<form>"),
    followed("<?xml", "\n"),
    followed("<div>", "<p>x"),
    followed("<div>", "<article>"),
    repeated("<table><tr><td><ul>"),
]


ALGORITHMS: dict[str, type] = {
    "dcurate": DcurateExtractor,
    "justext": JusTextExtractor,
    "resiliparse": ResiliparseExtractor,
    "trafilatura": TrafilaturaExtractor,
}


#: What an encoding, a title and a language are found by, in Latin-1.
HEADS = [
    *("<meta ", "<meta charset=", "charset", "<?xml", "<?xml a", "<title>", "<title ", "</title", "<a ", "<script>"),
    *("</script>", "&#", "&#1", "&amp", "<", ">", "x", " ", "<!--", "\x1b$B", "\x1b$B!!", "\x1b(B", "\xe9"),
    *("\xb0\xa1", "\xb0\xa1 ", "\x81", "\xc3\xa9\xff"),
]


def test_pages_are_decoded_and_their_titles_and_shown_texts_found_in_linear_time() -> None:
    assert_linear(lambda page: decoded(page.encode("latin-1")), singles(HEADS))
    assert_linear(_title, singles(HEADS))
    assert_linear(shown_text, singles(HEADS))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pages_take_linear_time(algorithm: str) -> None:
    stage = HtmlExtractor(algorithm)
    stage.setup()
    assert type(stage._extractor) is ALGORITHMS[algorithm]
    slow = algorithm == "trafilatura"
    assert_linear(lambda page: stage.extract(page.encode()), singles(HTML), (4_000, 32_000) if slow else SHORT)
    assert_linear(lambda page: stage.extract(page.encode()), TOGETHER, (64_000,) if slow else (100_000, 1_000_000))


@pytest.mark.parametrize("unit", ["x<script></script>", "x<iframe></iframe>", "x<input>", "x<select></select>"])
def test_trafilatura_takes_linear_time_where_much_in_a_row_is_left_out(unit: str) -> None:
    stage = HtmlExtractor("trafilatura")
    stage.setup()
    assert_linear(lambda page: stage.extract(page.encode()), [repeated(unit)], (100_000, 1_000_000))


def test_trafilatura_finds_the_text_of_a_page_on_which_much_in_a_row_is_left_out() -> None:
    stage = HtmlExtractor("trafilatura")
    stage.setup()
    text = "It was a bright cold day in April, and the clocks were striking thirteen. " * 10
    page = f"<html><body><div>{'x<input>' * 60_000}</div><article><p>{text}</p></article></body></html>"
    found = stage.extract(page.encode())
    assert not found.error
    assert text.strip() in found.text


@pytest.mark.parametrize("unit", ["<div>", "<div></ul>", "<rt>", "<rt></rb>", "<rt></ruby>"])
def test_a_page_nested_too_deeply_goes_to_quarantine_with_the_reason(unit: str) -> None:
    stage = HtmlExtractor("resiliparse")
    stage.setup()
    found = stage.extract(unit.encode() * 50_000)
    assert "nested too deeply" in found.error


def test_annotations_that_their_ruby_closes_are_not_nested() -> None:
    assert not nested_too_deeply("<ruby>a<rt>b</ruby>" * 20_000)


def test_what_justext_leaves_out_is_left_out_before_as_it_does_it_itself() -> None:
    page = (
        "<body>a<!--b-->c<script>d</script>e<form><p>f</p>g<input>h<select><option>i</select>j</form>k"
        "<object>l<param>m</object>n<iframe>o</iframe>p<button>q</button>r<textarea>s</textarea>t</body>"
    )
    itself, before = html_to_dom(page), html_to_dom(page)
    etree.strip_elements(before, *algorithms._KILLED, with_tail=False)
    etree.strip_tags(before, *algorithms._UNWRAPPED, etree.Comment)
    assert etree.tostring(preprocessor(before)) == etree.tostring(preprocessor(itself))


#: Elements that dcurate's own extractor reads in a way of their own, within themselves or in a row.
STRUCTURES = [
    *("<span class=math>x", "<code>x", "<a href=x>y", "<table><caption>x", "<math><mrow>", "<math><msqrt><mi>x</mi>"),
    *("<pre>x<br>", "<blockquote>x", "<dl><dt>a<dd>b", "<tr><td rowspan=99>x", "<div class=math>x", "<noscript>x"),
    *("<table><tr><td rowspan=1000 colspan=1000>x</table>", "<ul><li><a href=q>the title of this</a> text"),
    *("<article><h2><a href=u>the title of that</a></h2>x", "<h1>x", "<details><summary>x", "<img alt='x' class=math>"),
]


@pytest.mark.parametrize("markdown", [False, True])
def test_structures_take_linear_time(markdown: bool) -> None:
    stage = HtmlExtractor("dcurate", {"markdown": markdown, "links": markdown})
    stage.setup()
    assert_linear(lambda page: stage.extract(page.encode()), [repeated(unit) for unit in STRUCTURES])


@pytest.mark.parametrize(
    "unit", ["<table><td></b>", "<div></b>", "<ul><li></i>", "<b></p>", "<b><div></b>", "<div x='<'></b>", "<b><i></b>"]
)
def test_end_tags_of_nothing_take_linear_time_however_deep(unit: str) -> None:
    stage = HtmlExtractor("dcurate")
    stage.setup()
    assert_linear(lambda page: stage.extract(page.encode()), [repeated(unit)], (100_000, 1_000_000))


@pytest.mark.parametrize("around", ["<div>", "<b>", "<table><tr><td>", "<ul><li>", "<b><div></b>", "<noscript>"])
@pytest.mark.parametrize("depth", [100, 300, 1_000, 5_000])
def test_the_text_within_any_number_of_elements_stays(around: str, depth: int) -> None:
    prose = "It was a bright cold day in April, and the clocks were striking thirteen."
    page = f"<body>{around * depth}<p>{prose}<p>{prose}</p>{prose}"
    [text] = DcurateExtractor(main_content=False).extract_text(page, frozenset(), "ENGLISH") or [""]
    assert [block.strip(" -") for block in text.split("\n\n")] == 3 * [prose]


def test_a_page_that_stays_too_deep_goes_to_quarantine_with_the_reason() -> None:
    stage = HtmlExtractor("dcurate")
    stage.setup()
    assert "nested too deeply" in stage.extract("<div title='<'>" * 10_000 + "text").error


def test_a_million_nested_elements_and_a_line_of_fifty_megabytes_have_their_text() -> None:
    stage = HtmlExtractor("dcurate", largest_page=100_000_000)
    stage.setup()
    assert stage.extract("<div>" * 1_000_000 + "<p>It was a bright cold day.").text == "It was a bright cold day."
    line = "It was a bright cold day. " * 2_000_000
    assert stage.extract(f"<p>{line}</p>").text == line.strip()
