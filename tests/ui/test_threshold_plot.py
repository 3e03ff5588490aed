"""The plot with a movable threshold, in a real browser."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import DocumentBatch, Filter, PipelineError
from dcurate.text import Annotate, LanguageFilter, WordCountFilter
from dcurate.ui import ThresholdPlot, threshold_plot
from dcurate_testing.browser import Browser

HOSTILE = "</script><script>document.title='taken over'</script><b>&amp;"
ROWS = [
    {"id": f"d{number}", "text": f"{HOSTILE if number == 7 else ''} {'word ' * number}"} for number in range(1, 101)
]


@pytest.fixture(scope="module")
def annotated() -> DocumentBatch:
    rules = [WordCountFilter(min_words=50), LanguageFilter("en")]
    return Annotate(rules).process(DocumentBatch(data=pd.DataFrame(ROWS)))


def opened(browser: Browser, plot: ThresholdPlot, folder: Path, width: int = 1440) -> None:
    plot.save(folder / "plot.html")
    browser.open((folder / "plot.html").as_uri(), width, 740)
    browser.wait("document.getElementById('amount')?.textContent")


def change(browser: Browser, name: str, value: object, event: str = "change") -> None:
    act = f"e.value = {value!r}; e.dispatchEvent(new Event('{event}')); return 1"
    browser.value(f"(e => {{ {act}; }})(document.getElementById('{name}'))")


def kept_by(rule: str, batch: DocumentBatch) -> int:
    stage: Any = eval(rule, {"Filter": Filter})  # the page gives code to copy
    return int(stage.process(batch).num_items)


def test_what_the_page_says_is_kept_is_what_the_rule_that_it_gives_keeps(
    annotated: DocumentBatch, browser: Browser, tmp_path: Path
) -> None:
    for column in ("word_count", "language"):
        opened(browser, threshold_plot(annotated, column, id_field="id"), tmp_path)
        for side in ("high", "low"):
            change(browser, "side", side)
            for value in (0.0, 0.3, 20, 55, 1000):
                change(browser, "value", value)
                amount = int(re.sub(r"\D", "", browser.text("#amount")))
                assert amount == kept_by(browser.text("#rule"), annotated)
                assert int(browser.text("#lost")) == 100 - amount
                assert browser.text("#share").startswith(f"{amount}")


def test_the_slider_moves_the_threshold_and_examples_next_to_it(
    annotated: DocumentBatch, browser: Browser, tmp_path: Path
) -> None:
    opened(browser, threshold_plot(annotated, "word_count", id_field="id", threshold=8), tmp_path)
    scores = "[...document.querySelectorAll('#SIDE b')].map(e => Number(e.textContent))"
    assert browser.value("document.title") == "Scores of word_count"
    assert HOSTILE.split(">", maxsplit=1)[0] in browser.text("body")
    before = browser.text("#amount")
    change(browser, "slider", 500, "input")
    assert browser.text("#amount") != before
    limit = float(browser.value("document.getElementById('value').value"))
    assert 45 <= limit <= 58  # the middle of the slider is that of the plot
    kept, dropped = (browser.value(scores.replace("SIDE", side)) for side in ("in", "out"))
    assert kept == [limit + step for step in range(5)]
    assert dropped == [limit - step for step in range(1, 6)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_loads_nothing(
    annotated: DocumentBatch, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    plot = threshold_plot(annotated, "word_count")
    opened(browser, plot, tmp_path, width=360)
    browser.scheme(scheme)
    assert browser.value("document.documentElement.scrollWidth") <= 360
    assert browser.value("performance.getEntriesByType('resource').length") == 0
    colours = browser.value("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    ink, paper = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert (ink < paper) == (scheme == "light")
    assert "<iframe srcdoc=" in plot._repr_html_()


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none() | st.integers(-5, 5), min_size=1, max_size=40)
)
def test_numbers_are_exact_for_every_threshold(scores: list[float | None]) -> None:
    known = sorted(float(score) for score in scores if score is not None and math.isfinite(score))
    rows = [{"text": "", "score": None if score is None else float(score)} for score in scores]
    frame = pd.DataFrame(rows, columns=["text", "score"])
    if not known:
        with pytest.raises(PipelineError, match="column 'score' has no numbers"):
            threshold_plot(frame, "score")
        return
    plot = threshold_plot(frame, "score")
    assert (plot.documents, plot.without) == (len(known), len(scores) - len(known))
    assert plot.choices.values == sorted(set(known))
    assert sum(plot.choices.counts) == len(known)
    for value, above, below in zip(plot.choices.values, plot.choices.above, plot.choices.below, strict=True):
        assert above == sum(score >= value for score in known)
        assert below == sum(score <= value for score in known)


def test_a_large_corpus_makes_a_small_page_with_exact_numbers() -> None:
    frame = pd.DataFrame({"text": ["x" * 5000] * 50_000, "score": [(n * 7919) % 49_999 / 7 for n in range(50_000)]})
    plot = threshold_plot([frame.iloc[:20_000], frame.iloc[20_000:]], "score")
    assert len(plot._repr_html_()) < 400_000
    place = len(plot.choices.values) // 3
    assert plot.choices.above[place] == int((frame.score >= plot.choices.values[place]).sum())


@pytest.mark.parametrize(
    ("rows", "column", "sentence"),
    [
        (pd.DataFrame({"text": ["a"], "score": [1]}), "scor", "no column 'scor', did you mean 'score'"),
        (pd.DataFrame({"text": ["a"]}), "text", "column 'text' has no numbers; give a column of scores"),
        (pd.DataFrame({"score": []}), "score", "no rows to plot"),
        ("input/", "score", "are not rows; give a frame"),
    ],
)
def test_what_cannot_be_plotted_is_one_sentence(rows: Any, column: str, sentence: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(sentence).replace(",\\ did", ".*did")):
        threshold_plot(rows, column)
