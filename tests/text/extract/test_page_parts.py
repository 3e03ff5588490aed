"""Comments of readers and signals of pages, beside their main text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, InlineExecutor, PipelineError, ScoreFilter
from dcurate.testing import check_stage
from dcurate.text import DcurateExtractor, HtmlExtractor, NumberRangeFilter
from tests.growth import assert_linear, singles
from tests.text.extract.test_growth import HTML, STRUCTURES

STORY = "It was a bright cold day in April, and the clocks of the town were striking thirteen. " * 4
PAGE = f"""<body><nav><a href=/>Home</a> <a href=/n>News</a></nav><article><h1>A day</h1><p>{STORY}</p>
<pre><code>x = 1</code></pre></article>
<section id="comments"><h3>2 comments</h3>
<div class="comment"><p>I was there, and it was cold indeed.</p><a href=#r>Reply</a></div>
<div class="comment"><p>So was I.</p></div>
<form id=commentform><p>Your address is not shown.</p></form>
<nav>Older comments</nav></section></body>"""


def test_comments_are_apart_from_the_text() -> None:
    parts = DcurateExtractor().extract_parts(PAGE, frozenset(), "")
    assert parts.comments == "I was there, and it was cold indeed.\n\nSo was I."
    assert parts.text == f"{STORY.strip()}\n\nx = 1"


def test_signals_are_parts_of_what_the_page_shows() -> None:
    signals = DcurateExtractor().extract_parts(PAGE, frozenset(), "").signals
    assert signals is not None
    main = len(STORY.strip()) + len("x = 1")
    around = sum(
        map(
            len,
            (
                *("Home News", "A day", "2 comments", "I was there, and it was cold indeed.", "Reply", "So was I."),
                *("Your address is not shown.", "Older comments"),
            ),
        )
    )
    assert signals.boilerplate_ratio == pytest.approx(around / (main + around))
    assert signals.link_ratio == pytest.approx(len("HomeNewsReply") / (main + around))
    assert signals.code_ratio == pytest.approx(5 / main)
    assert signals.table_ratio == signals.formula_ratio == 0


@given(st.lists(st.sampled_from([*HTML, *STRUCTURES, PAGE, "<div class=comment>", "</div>", "text "]), max_size=25))
def test_parts_change_no_text_and_ratios_are_ratios(pieces: list[str]) -> None:
    page, extractor = "".join(pieces), DcurateExtractor()
    parts = extractor.extract_parts(page, frozenset(), "")
    assert [parts.text] == extractor.extract_text(page, frozenset(), "")
    assert parts.signals is not None
    assert all(0 <= ratio <= 1 for ratio in parts.signals)


def test_the_time_grows_with_the_page() -> None:
    stage = HtmlExtractor("dcurate", comments_field="comments", signals_prefix="html_")
    stage.setup()
    made = singles([*HTML, *STRUCTURES, "<div class=comment>x", "<p class=comment>x</p>"])
    assert_linear(lambda page: stage.extract(page.encode()), made, (100_000, 300_000))


def test_they_are_columns_that_filters_read() -> None:
    rows = pa.table({"content": [PAGE.encode(), b"<p>" + STORY.encode(), None]})
    stage = HtmlExtractor("dcurate", comments_field="comments", signals_prefix="html_")
    stage.setup()
    table = stage.process(DocumentBatch(data=rows)).to_arrow()
    assert table["comments"].to_pylist() == ["I was there, and it was cold indeed.\n\nSo was I.", None]
    assert [round(ratio, 2) for ratio in table["html_boilerplate_ratio"].to_pylist()] == [0.25, 0.0]
    few = ScoreFilter(NumberRangeFilter("html_boilerplate_ratio", max_value=0.1))
    assert few.process(DocumentBatch(data=table)).num_items == 1
    assert stage.outputs()[1] == table.column_names


@pytest.mark.parametrize("setting", [{"comments_field": "comments"}, {"signals_prefix": ""}])
def test_extractors_that_do_not_make_them_refuse(setting: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=r'has no effect with TrafilaturaExtractor; use "dcurate"'):
        HtmlExtractor(**setting)


def test_it_is_a_stage_with_all_of_them() -> None:
    stage = HtmlExtractor("dcurate", comments_field="comments", signals_prefix="html_")
    rows = pa.table({"content": [PAGE.encode(), b"<p>" + STORY.encode()]})
    check_stage(stage, DocumentBatch(data=rows), executor=InlineExecutor())
