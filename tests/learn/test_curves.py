"""Curves, reliability, thresholds and words of the page of a student: what scikit-learn and plain counts say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, brier_score_loss, precision_recall_curve, roc_curve

from dcurate.frames.text import column_of
from dcurate.learn import KeepByFBeta, StudentHead
from dcurate.learn.curves import (
    binned,
    by_value,
    cross_calibrated,
    deciles,
    kept_by,
    moved_by_words,
    ranked_curves,
    reliability,
)
from dcurate.learn.judged import Held, texts_at, wrong

HEAD = StudentHead("quality", "classes", ("bad", "good"), positive="good")
SCORED = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=2, max_size=60).filter(
    lambda rows: len({right for _, right in rows}) == 2
)


def columns(rows: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([score / 20 for score, _ in rows]), np.array([right for _, right in rows])


@given(SCORED)
def test_curves_of_few_scores_are_those_of_scikit_learn(rows):
    scores, truth = columns(rows)
    curves = ranked_curves(scores, truth)
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert curves["roc"] == [pytest.approx(false, abs=1e-5), pytest.approx(true, abs=1e-5)]
    precision, recall, _ = precision_recall_curve(truth, scores)
    assert curves["precision_recall"][0] == pytest.approx(recall[::-1][1:], abs=1e-5)
    assert curves["precision_recall"][1] == pytest.approx(precision[::-1][1:], abs=1e-5)
    assert curves["average_precision"] == pytest.approx(average_precision_score(truth, scores))


def test_a_curve_of_many_scores_has_a_hundred_points_and_nearly_the_same_area():
    random = np.random.default_rng(0)
    truth = random.random(20_000) < 0.3
    scores = random.normal(size=20_000) + truth
    roc = ranked_curves(scores, truth)["roc"]
    assert len(roc[0]) <= 101
    assert auc(*roc) == pytest.approx(auc(*roc_curve(truth, scores)[:2]), abs=0.002)


@given(SCORED)
def test_bins_of_reliability_hold_every_example_once(rows):
    scores, truth = columns(rows)
    figures = reliability(scores, truth)
    bins = figures["bins"]
    assert sum(part["rows"] for part in bins) == len(rows)
    assert sum(part["rows"] * part["share"] for part in bins) == pytest.approx(truth.sum())
    assert [part["score"] for part in bins] == sorted(part["score"] for part in bins)
    assert figures["brier"] == pytest.approx(brier_score_loss(truth, scores))
    counts = binned(scores, truth)
    assert sum(counts["counts"]) == len(rows)
    assert sum(counts["positive"]) == truth.sum()


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibration_by_other_examples_repairs_scores_that_are_off(method):
    random = np.random.default_rng(0)
    shares = random.random(5000)
    truth = random.random(5000) < shares
    skewed = shares**3
    repaired = reliability(cross_calibrated(method, skewed, truth), truth)
    assert reliability(skewed, truth)["error"] > 0.2
    assert repaired["error"] < 0.06


@given(SCORED, st.lists(st.sampled_from(["en", "de", None]), min_size=60, max_size=60))
def test_what_thresholds_keep_covers_each_held_example_once(rows, groups):
    scores, truth = columns(rows)
    head = replace(HEAD, thresholds={"": 0.5, "de": 0.25})
    figures = {row["group"]: row for row in kept_by(head, scores, truth, groups[: len(rows)])}
    german = [group == "de" for group in groups[: len(rows)]]
    assert figures["de"]["rows"] == sum(german)
    assert figures[""]["rows"] == len(rows) - sum(german)
    kept = [score >= (0.25 if de else 0.5) for score, de in zip(scores, german, strict=True)]
    assert figures[""]["kept"] + figures["de"]["kept"] == sum(kept)
    for row in figures.values():
        assert row["precision"] is None or row["least_precision"] <= row["precision"]


def test_figures_by_value_are_those_of_the_rows_with_it():
    answers = np.array([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], np.float32)
    targets = np.array([1, 0, 0, np.nan], np.float32)
    figures = by_value(HEAD, answers, targets, ["a", "a", None, "b"])
    assert [(row["value"], row["rows"], row["accuracy"]) for row in figures] == [("a", 2, 1.0), ("", 1, 0.0)]
    numbers = deciles(np.array([3.0, 1.0]), np.array([2.0, 1.0]))
    assert [(row["answer"], row["truth"], row["error"]) for row in numbers] == [(1, 1, 0), (3, 2, 1)]


def test_wrong_examples_come_worst_first_and_with_their_texts():
    answers = np.array([[0.4, 0.6], [0.1, 0.9], [0.9, 0.1], [0.2, 0.8]], np.float32)
    targets = np.array([0, 0, 0, np.nan], np.float32)
    assert wrong(HEAD, answers, targets, 5) == [1, 0]
    assert wrong(HEAD, answers, targets, 1) == [1]
    number = StudentHead("grade", "number")
    assert wrong(number, np.array([[0.0], [3.0], [-9.0]], np.float32), np.array([1, 3, 0], np.float32), 2) == [2, 0]
    parts = [column_of([b"one", "zw\u00f6lf".encode()]), column_of([b"three"])]
    assert texts_at(parts, [2, 1]) == {1: "zwölf", 2: "three"}


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=30))
def test_words_that_moved_a_score_moved_it_by_what_is_said(words):
    weights = {"a": 3.0, "b": -2.0, "c": 0.5, "d": 0.0}

    def score(texts: list[str]) -> np.ndarray:
        return np.array([sum(weights[word] for word in text.split()) for text in texts])

    moved = moved_by_words(" ".join(words), score, 2)
    expected = {word: weights[word] * words.count(word) for word in set(words) if weights[word]}
    assert dict(moved).items() <= expected.items()
    assert [abs(change) for _, change in moved] == sorted(map(abs, expected.values()), reverse=True)[:2]


def test_a_page_says_nothing_of_scores_where_no_held_example_has_a_label():
    held = Held(np.full((2, 1), np.nan, np.float32), np.full((2, 2), 0.5, np.float32), thresholds=KeepByFBeta())
    (head,) = held.page(held.heads([HEAD]), {}, lambda row, head: [], 3)["heads"]
    assert head["measures"] == {"rows": 0}
    assert "curves" not in head
