"""The public scorer's definition of F1."""

import json
from pathlib import Path

import pytest

from benchmarks.html import Match, Subject, marked_pages, matched, measure_segments, scores
from dcurate.text import HtmlExtractor


def test_shingles_of_four_tokens_are_counted_as_often_as_they_come() -> None:
    assert matched("a b c d e", "a b c d e") == Match(2, 0, 0)
    assert matched("a b, c. d e", "a b c d x") == Match(1, 1, 1)
    assert matched("a a a a a", "a a a a") == Match(1, 0, 1)
    assert matched("one two", "one two") == Match(1, 0, 0)
    assert matched("one", "") == Match(0, 0, 1)


def test_precision_and_recall_are_averaged_over_the_pages_that_have_them() -> None:
    found = scores([Match(1, 1, 0), Match(0, 0, 3), Match(2, 0, 2)])
    assert found["precision"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["recall"] == pytest.approx((1 + 0 + 1 / 2) / 3)
    assert found["f1"] == pytest.approx(2 * 0.75 * 0.5 / 1.25)


def test_segments_count_wherever_the_spaces_of_the_text_are(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    text = "It was a bright cold day in April, and the clocks of the town were striking thirteen. " * 5
    (tmp_path / "eval" / "a.html").write_text(f"<html><body><article><p>{text}</p></article></body></html>")
    (tmp_path / "eval" / "b.html").write_text("<html></html>")
    pages = {
        "a": {"file": "a.html", "with": ["bright\n cold", "not there"], "without": ["Imprint"]},
        "b": {"file": "b.html", "with": ["nothing"], "without": ["Home"]},
    }
    (tmp_path / "evaldata.json").write_text(json.dumps(pages))
    found = measure_segments(Subject("resiliparse", HtmlExtractor("resiliparse")), marked_pages(tmp_path))
    assert (found["f1"], found["precision"], found["pages_without_text"]) == (0.5, 1.0, 1)
    assert found["recall"] == pytest.approx(1 / 3)
