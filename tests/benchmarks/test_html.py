"""The public scorer's definition of F1."""

import pytest

from benchmarks.html import Match, matched, scores


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
