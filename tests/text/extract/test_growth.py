"""The time to take the text out of a page grows with the page's length, of hostile pages too."""

from __future__ import annotations

import pytest
from justext.core import html_to_dom, preprocessor
from lxml import etree

from dcurate import HtmlExtractor
from dcurate.text.extract import algorithms
from tests.growth import assert_linear, followed, patterns, repeated

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


@pytest.mark.parametrize("algorithm", ["justext", "resiliparse", "trafilatura"])
def test_pages_take_linear_time(algorithm: str) -> None:
    stage = HtmlExtractor(algorithm)
    stage.setup()
    assert_linear(lambda page: stage.extract(page.encode()), patterns(HTML, []), lengths=(4_000, 16_000))
    assert_linear(
        lambda page: stage.extract(page.encode()),
        TOGETHER,
        lengths=(64_000,) if algorithm == "trafilatura" else (128_000,),
    )


def test_a_page_nested_too_deeply_goes_to_quarantine_with_the_reason() -> None:
    stage = HtmlExtractor("resiliparse")
    stage.setup()
    found = stage.extract(b"<div>" * 100_000)
    assert "nested too deeply" in found.error


def test_what_justext_leaves_out_is_left_out_before_as_it_does_it_itself() -> None:
    page = (
        "<body>a<!--b-->c<script>d</script>e<form><p>f</p>g<input>h<select><option>i</select>j</form>k"
        "<object>l<param>m</object>n<iframe>o</iframe>p<button>q</button>r<textarea>s</textarea>t</body>"
    )
    itself, before = html_to_dom(page), html_to_dom(page)
    etree.strip_elements(before, *algorithms._KILLED, with_tail=False)
    etree.strip_tags(before, *algorithms._UNWRAPPED, etree.Comment)
    assert etree.tostring(preprocessor(before)) == etree.tostring(preprocessor(itself))
