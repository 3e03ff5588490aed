"""dcurate's own extractor keeps what pages are made of: code, tables, formulas, lists, and line breaks."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.text import DcurateExtractor, HtmlExtractor
from dcurate.text.extract.hints import ASIDE_BY_CLASS, CONTENT, OUT, hints_of

PROSE = "It was a bright cold day in April, and the clocks of the town were striking thirteen, one after another. "


def text_of(page: str, **settings: bool) -> str:
    return (DcurateExtractor(**settings).extract_text(page, frozenset(), "ENGLISH") or [""])[0]


def all_of(page: str, **settings: bool) -> str:
    return text_of(page, main_content=False, **settings)


# Code


@pytest.mark.parametrize(
    ("page", "language"),
    [
        ("<pre><code class='language-python'>CODE</code></pre>", "python"),
        ("<div class='highlight-python3 notranslate'><div class='highlight'><pre>CODE</pre></div></div>", "python3"),
        ("<div class='sourceCode'><pre class='sourceCode c'><code class='sourceCode c'>CODE</code></pre></div>", "c"),
        ("<pre class='highlight'><code class='language-ruby' data-lang='ruby'>CODE</code></pre>", "ruby"),
        ("<pre class='brush: js'>CODE</pre>", "js"),
        ("<pre>CODE</pre>", ""),
    ],
)
def test_code_has_its_language_and_its_bytes(page, language):
    code = 'def f(x):\n\treturn  x < 3 && "y"\n\n\n    # <b>&amp;</b>'
    text = all_of(page.replace("CODE", html.escape(code)), markdown=True)
    assert text == f"```{language}\n{code}\n```"


@given(st.text(alphabet="ab \t\n<>&\"'`$|\\-#é中", min_size=1).filter(lambda code: code.strip()))
def test_any_code_comes_back_as_it_was(code):
    page = f"<p>before</p><pre>\n{html.escape(code)}</pre><p>after</p>"
    assert all_of(page) == f"before\n\n{code.rstrip(chr(10))}\n\nafter"


def test_line_numbers_and_buttons_are_no_code():
    page = (
        "<table class='highlighttable'><tr><td class='linenos'><pre>1\n2</pre></td><td class='code'>"
        "<div class='highlight'>"
        "<pre><button>Copy</button><span class='linenos'>1</span>a = 1\n<span class='linenos'>2</span>b = 2\n</pre>"
        "</div>"
        "</td></tr></table>"
    )
    assert all_of(page) == "a = 1\nb = 2"


def test_lines_of_code_that_are_elements_stay_lines():
    assert all_of("<pre><div>a</div><div>  b</div>c<br>d</pre>") == "a\n  b\nc\nd"


def test_a_fence_is_longer_than_the_backticks_in_the_code():
    assert all_of("<pre>a ``` b</pre>", markdown=True) == "````\na ``` b\n````"


def test_inline_code_is_marked_in_markdown_alone():
    assert all_of("<p>Call <code>f()</code> or <code>a`b</code>.</p>", markdown=True) == "Call `f()` or `` a`b ``."
    assert all_of("<p>Call <code>f()</code>.</p>") == "Call f()."
    assert all_of("<p>Not <code>a``b</code>.</p>", markdown=True) == "Not ``` a``b ```."


# Tables


def test_a_table_of_data_is_rows_with_its_spans_empty():
    page = (
        "<table><thead><tr><th>name<th>a|b</thead><tr><td rowspan=2>x<td>1<tr><td>2<tr><td colspan=2>wide"
        "<tr><td><td>last</table>"
    )
    rows = ["| name | a\\|b |", "| --- | --- |", "| x | 1 |", "|  | 2 |", "| wide |  |", "|  | last |"]
    assert all_of(page) == "\n".join(rows)


def test_a_table_for_layout_is_text():
    page = f"<table><tr><td><a href='/'>Home</a><td><p>{PROSE}</p><p>{PROSE}</p></table>"
    assert all_of(page) == f"Home\n\n{PROSE.strip()}\n\n{PROSE.strip()}"
    nested = "<table><tr><td>a<td>b<tr><td>c<td><table><tr><th>x<th>y<tr><td>1<td>2</table></table>"
    assert all_of(nested) == "a\n\nb\n\nc\n\n| x | y |\n| --- | --- |\n| 1 | 2 |"


def test_code_in_a_table_stays_code():
    assert "a = 1\n\nb = 2" in all_of("<table><tr><th>before<th>after<tr><td><pre>a = 1\n\nb = 2</pre><td>x</table>")


# Formulas


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation></semantics></math>",
            "$x^2$",
        ),
        ("<math display=block><mi>x</mi><annotation encoding='application/x-tex'>x^2</annotation></math>", "$$x^2$$"),
        ("<math alttext='x^2'><mi>x</mi></math>", "$x^2$"),
        (
            "<math><mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><msqrt><mi>b</mi></msqrt></mfrac></math>",
            r"$\frac{a+1}{\sqrt{b}}$",
        ),
        (
            "<math><msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup><mo>≤</mo><mi>α</mi><mi>β</mi></math>",
            r"$x_i^2\leq\alpha\beta$",
        ),
        (
            "<math><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi></math>",
            r"$\sum_{i=1}^ni$",
        ),
        (
            "<math><mo>∑</mo><mi>i</mi><mi>sin</mi><mi>x</mi><mover><mi>y</mi><mo>→</mo></mover></math>",
            r"$\sum i\sin x\vec{y}$",
        ),
        (
            "<math><mo>(</mo><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mn>0</mn></mtd></mtr></mtable><mo>)</mo></math>",
            r"$(\begin{matrix}a & 0\end{matrix})$",
        ),
        ("<span class='math inline'>\\(x_1\\)</span>", "$x_1$"),
        ("<div class='math notranslate'>\\[\\int x\\]</div>", "$$\\int x$$"),
        ("<span class='MathJax_Preview'>x</span><script type='math/tex'>x^2</script>", "$x^2$"),
        ("<script type='math/tex; mode=display'>x^2</script>", "$$x^2$$"),
        (
            "<span class='katex'><span class='katex-mathml'><math><semantics><mi>x</mi><annotation "
            "encoding='application/x-tex'>x</annotation></semantics></math></span><span class='katex-html' "
            "aria-hidden='true'>x</span></span>",
            "$x$",
        ),
        ("<img class='latex' alt='x^2' src='a.png'>", "$x^2$"),
        ("<math><mi>x</mi><mspace width='1em'/></math>", "$x$"),
        ("<img class='latex' alt='x\\\\ ' src='a.png'>", "$x$"),
        (
            "<span class='mwe-math-element'><span style='display: none;'><math alttext='{\\displaystyle x^{2}}'>"
            "<mi>x</mi></math></span><img class='mwe-math-fallback-image-inline' alt='{\\displaystyle x^{2}}'></span>",
            "$x^{2}$",
        ),
    ],
)
def test_formulas_are_latex(page, text):
    display = text.startswith("$$")
    assert all_of(f"<div>so {page} then</div>") == (f"so\n\n{text}\n\nthen" if display else f"so {text} then")


# Lines, lists, quotes, definitions


def test_lines_break_where_a_browser_breaks_them():
    assert (
        all_of("<p>one<br>two\n three</p>four<div>five <span>six</span></div>") == "one\ntwo three\n\nfour\n\nfive six"
    )


def test_lists_keep_their_nesting_and_numbers():
    page = "<ol start=3><li>three<ul><li>a<p>more</p></li></ul></li><li>four</li></ol>"
    assert all_of(page, markdown=True) == "3. three\n    - a\n\n        more\n4. four"
    assert all_of(page) == "- three\n  - a\n\nmore\n- four"


def test_headings_quotes_definitions_and_details_are_markdown():
    page = (
        "<h2>Head</h2><blockquote><p>said</p><blockquote>again</blockquote></blockquote><dl><dt>term<dd>meaning</dl>"
        "<details><summary>more</summary>hidden until opened</details>"
    )
    assert (
        all_of(page, markdown=True)
        == "## Head\n\n> said\n\n> > again\n\nterm\n: meaning\n\nmore\n\nhidden until opened"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<a href=/u>a ] b</a>", r"[a \] b](/u)"),
        ("<a href=/u>a [ b</a>", r"[a \[ b](/u)"),
        ("<a href=/u>x[0][1]</a>", "[x[0][1]](/u)"),
        ("<a href=/u>][</a>", r"[\]\[](/u)"),
        ("<a href=/u><code>]</code> ]</a>", r"[`]` \]](/u)"),
        ("<a href=/u><code>]</code></a>", "[`]`](/u)"),
        (r"<a href=/u>a \] b</a>", r"[a \] b](/u)"),
        ("<img alt='a ] b' src=c.png>", r"![a \] b](c.png)"),
    ],
)
def test_brackets_that_are_no_pair_end_no_link(page: str, text: str) -> None:
    assert all_of(f"<p>{page}</p>", markdown=True, links=True, alt_texts=True) == text


@pytest.mark.parametrize(
    "address", ["javascript:f()", " JaVa&#10;Script:f()", "&#1;vbscript:f()", "data:text/html,x", "java\tscript:f()"]
)
def test_scripts_and_data_are_no_addresses(address: str) -> None:
    page = f"<p>See <a href='{address}'>this page</a> and <img alt='a cat' src='{address}'>.</p>"
    assert all_of(page, markdown=True, links=True, alt_texts=True) == "See this page and ![a cat]()."


def test_links_and_images_are_kept_on_demand():
    page = "<p>See <a href='/x'>this page</a> and <img alt='a cat' src='c.png'>.</p>"
    assert all_of(page, markdown=True) == "See this page and ."
    assert all_of(page, markdown=True, links=True, alt_texts=True) == "See [this page](/x) and ![a cat](c.png)."


# The main content


def test_what_is_around_the_content_is_left_out():
    page = (
        "<body><header><nav><a href=/>Home</a></nav></header><div class=cookie-banner>We use cookies, as everybody "
        "does, for many reasons that nobody reads to the end.</div><div class=layout><div class=sidebar><p>Popular "
        f"today: what others read.</p></div><div id=main><h1>The day</h1><p>{PROSE * 3}</p><h2>Next</h2>"
        f"<p>{PROSE * 2}</p><h2>Related</h2><ul><li><a href=a>One other page</a><li><a href=b>Another page</a></ul>"
        "</div></div>"
        "<div id=comments><p>First! I like this page very much and come here every day to read it.</p></div>"
        "<footer>All rights reserved</footer>"
    )
    assert text_of(page) == f"{(PROSE * 3).strip()}\n\nNext\n\n{(PROSE * 2).strip()}"


def test_a_class_hides_no_content_that_is_most_of_the_page():
    assert (
        text_of(f"<body class='has-sidebar'><div class=footer-layout><p>{PROSE * 4}</p></div>") == (PROSE * 4).strip()
    )


@pytest.mark.parametrize("hidden", ["hidden", "style='display: none'", "style='visibility:hidden'"])
def test_what_is_hidden_is_no_text(hidden):
    assert (
        text_of(f"<div><p>{PROSE * 3}</p><div {hidden}><p>{PROSE.upper() * 2}</p></div></div>") == (PROSE * 3).strip()
    )


def test_names_of_classes_are_read_as_words():
    assert hints_of("div", {"class": "siteFooter"}) & ASIDE_BY_CLASS
    assert not hints_of("div", {"class": "football"})
    assert hints_of("div", {"id": "article_body"}) & CONTENT
    assert not hints_of("div", {"class": "large gutter-x-30"}) & OUT


# Bad input: a result, or a reason


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>unclosed <b>bold <i>both</b> italic", "unclosed bold both italic"),
        ("<table><p>in the wrong place</p><tr><td>cell", "in the wrong place\n\ncell"),
        ("<p>cut in the middle of a t", "cut in the middle of a t"),
        ("<p>cut in a tag <a href='http://exam", "cut in a tag"),
        (
            "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body><p>XHTML <br/>too</p></body></html>",
            "XHTML\ntoo",
        ),
        ("<noscript><p>shown without scripts</p></noscript>", "shown without scripts"),
        ("<frameset><frame src=a><noframes><p>no frames</p></noframes></frameset>", ""),
        ("no markup at all", "no markup at all"),
        ("<p>a\0b</p>", "ab"),
        ("<p>&#xD800; &#x110000; &nosuch; &amp;</p>", None),
        ("<script>only()</script><style>p {}</style>", ""),
        ("<p hidden>hidden</p>", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_bad_pages_have_their_text_or_none(page, text):
    stage = HtmlExtractor("dcurate", {"main_content": False})
    stage.setup()
    found = stage.extract(page)
    assert not found.error
    assert text is None or found.text == text


@pytest.mark.parametrize(
    "page", ["<p>naïve Ærøskøbing text</p>".encode(name) for name in ("utf-8-sig", "utf-16", "cp1252", "utf-8")]
)
def test_bytes_in_an_encoding_are_decoded(page):
    stage = HtmlExtractor("dcurate", {"main_content": False})
    stage.setup()
    assert stage.extract(page).text == "naïve Ærøskøbing text"


ELEMENTS = [
    *("<p>", "</p>", "<div class=math>", "<pre>", "</pre>", "<table>", "<td>", "</table>", "<li>", "<ul>", "</ul>"),
    *("<math>", "<mi>", "</math>", "<a href=x>", "</a>", "<code>", "</code>", "<br>", "<b>", "word", " ", "\n"),
    *("<caption>", "<th rowspan=3>", "<blockquote>", "<dd>", "<h2>", "<svg>", "</svg>", "<span hidden>", "</span>"),
]


@given(st.lists(st.sampled_from(ELEMENTS), max_size=40).map("".join))
def test_any_order_of_elements_is_read_and_no_word_is_made(page):
    for markdown in (False, True):
        assert all_of(page, markdown=markdown).count("word") <= page.count("word")


def test_a_row_that_begins_within_a_cell_ends_no_page() -> None:
    assert all_of(f"<table><tr><td><b><tr>{PROSE}</table>") == PROSE.strip()
