"""Thresholds keep what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import beta, binom
from sklearn.linear_model import LogisticRegression

from dcurate import DataError, PipelineError
from dcurate.learn import KeepByFBeta, KeepFraction, KeepPrecision
from dcurate.learn.thresholds import _logit, calibration_of, lower_bound, thresholds_of


@pytest.mark.parametrize(("right", "total"), [(1, 1), (5, 9), (95, 100), (990, 1000), (0, 7), (400, 5000)])
def test_the_bound_is_that_of_clopper_and_pearson(right, total):
    expected = beta.ppf(0.01, right, total - right + 1) if right else 0.0
    assert lower_bound(right, total, 0.01) == pytest.approx(expected, abs=1e-9)
    if right:
        assert binom.sf(right - 1, total, lower_bound(right, total, 0.01)) == pytest.approx(0.01)


def truth_of(scores, random):
    return random.random(len(scores)) < scores**2


@pytest.mark.parametrize("asked", [0.6, 0.8, 0.9])
def test_a_promised_precision_holds_in_95_of_100_draws(asked):
    random = np.random.default_rng(1)
    held = tried = 0
    for _ in range(200):
        scores = random.random(6000)
        try:
            threshold = KeepPrecision(asked).choose(scores, truth_of(scores, random))
        except DataError:
            continue
        tried += 1
        held += (1 - threshold**3) / 3 / (1 - threshold) >= asked  # the mean of score**2 above the threshold
    assert tried > 190
    assert held >= 0.95 * tried


def test_the_promise_is_useful():
    random = np.random.default_rng(2)
    scores = random.random(20_000)
    threshold = KeepPrecision(0.8).choose(scores, truth_of(scores, random))
    assert (1 - threshold**3) / 3 / (1 - threshold) < 0.85


def test_f_beta_is_the_best_of_all_thresholds():
    random = np.random.default_rng(3)
    scores = random.integers(0, 30, 200) / 30
    truth = truth_of(scores, random)

    def value(threshold, square):
        kept = scores >= threshold
        return (1 + square) * (truth & kept).sum() / (square * truth.sum() + kept.sum())

    for size in (0.5, 1.0, 2.0):
        chosen = KeepByFBeta(size).choose(scores, truth)
        assert value(chosen, size**2) == max(value(threshold, size**2) for threshold in set(scores))


def test_a_fraction_keeps_that_many():
    scores = np.random.default_rng(4).random(1000)
    assert (scores >= KeepFraction(0.13).choose(scores, scores > 2)).sum() == 130


def test_a_group_with_too_few_labels_has_the_threshold_of_all():
    random = np.random.default_rng(5)
    scores = random.random(3000)
    truth = truth_of(scores, random)
    names = ["big"] * 2990 + ["small"] * 10
    assert set(thresholds_of(KeepPrecision(0.7), scores, truth, names)) == {"", "big"}
    with pytest.raises(DataError, match="no threshold has a precision of 0.999"):
        thresholds_of(KeepPrecision(0.999), scores, truth)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibrated_scores_are_shares(method):
    random = np.random.default_rng(6)
    scores = random.random(20_000)
    points, shares = calibration_of(method, scores, random.random(20_000) < scores / 2)
    assert np.all(np.diff(shares) >= 0)
    assert np.abs(np.interp([0.2, 0.5, 0.8], points, shares) - [0.1, 0.25, 0.4]).max() < 0.06


def test_numbers_that_cannot_be_are_refused():
    for make in (lambda: KeepPrecision(1.0), lambda: KeepFraction(0), lambda: KeepPrecision(0.9, True)):
        with pytest.raises(PipelineError, match="must be between 0 and 1"):
            make()
    for value in (0, -1, math.inf, True):
        with pytest.raises(PipelineError, match="must be a number above 0"):
            KeepByFBeta(value)


@given(st.integers(0, 2**32), st.floats(0.2, 4), st.floats(-3, 3))
def test_platts_curve_is_the_one_with_the_lowest_loss(seed, slope, shift):
    random = np.random.default_rng(seed)
    scores = random.random(300) ** 3
    truth = random.random(300) < 1 / (1 + np.exp(-slope * _logit(scores) - shift))
    assume(0 < truth.sum() < 300)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    positive, rest = truth.sum(), (~truth).sum()
    shares = np.where(truth, (positive + 1) / (positive + 2), 1 / (rest + 2))  # an example counts as both, in parts
    logits = _logit(scores)[:, None]
    model.fit(np.vstack([logits, logits]), np.repeat([1, 0], 300), np.concatenate([shares, 1 - shares]))
    assume(model.coef_[0, 0] > 0)
    points, fitted = calibration_of("platt", scores, truth)
    assert fitted == pytest.approx(model.predict_proba(_logit(np.array(points))[:, None])[:, 1], abs=1e-3)
