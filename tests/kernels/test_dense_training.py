"""Linear models on dense features: what plain NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.kernels.dense_training import ask_dense, loss_of_dense, train_dense
from dcurate.learn.head import StudentHead, layout_of
from dcurate.learn.training import output_weights

HEADS = layout_of([StudentHead("a", "classes", ("x", "y", "z")), StudentHead("b", "flag", ("false", "true"))])
NUMBER = layout_of([StudentHead("n", "number")])


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 6))
def test_answers_are_softmax_of_a_linear_model_and_blank_rows_have_none(seed, examples, width):
    random = np.random.default_rng(seed)
    features, rows = random.normal(size=(examples, width)), random.normal(size=(width + 1, 4))
    features[0, -1] = np.nan
    outputs = output_weights(HEADS)
    answers = ask_dense(features.astype(np.float32), np.arange(examples), HEADS, (rows.astype(np.float32), outputs))
    assert np.isnan(answers[0]).all()
    logits = (features[1:] @ rows[:-1] + rows[-1]) @ outputs.T
    assert answers[1:, :3] == pytest.approx(softmax(logits[:, :3]), abs=1e-4)
    assert answers[1:, 3:] == pytest.approx(softmax(logits[:, 3:]), abs=1e-4)


@given(st.integers(0, 2**32), st.integers(0, 2), st.booleans(), st.sampled_from([0.125, 1.0]))
def test_a_step_follows_the_gradient_of_the_loss(seed, target, flag, rate):
    random = np.random.default_rng(seed)
    features, before = random.normal(size=(1, 3)).astype(np.float32), random.normal(size=(4, 4)).astype(np.float32)
    outputs, targets, weights = (
        output_weights(HEADS),
        np.array([[target, flag]], np.float32),
        np.ones((1, 2), np.float32),
    )
    rows = before.copy()
    _, mean = train_dense((features, targets, weights), np.arange(1), HEADS, (rows, outputs), np.array([rate]))
    assert (mean == rows).all()

    def loss(matrix: np.ndarray) -> float:
        answers = ask_dense(features, np.arange(1), HEADS, (matrix.astype(np.float32), outputs)).astype(np.float64)
        return float(-np.log(answers[0, target]) - np.log(answers[0, 3 + flag]))

    step = 1e-2
    for place in np.ndindex(*before.shape):
        moved = np.zeros_like(before)
        moved[place] = step
        slope = (loss(before + moved) - loss(before - moved)) / (2 * step)
        assert (before - rows)[place] / rate == pytest.approx(slope, abs=2e-2)


def test_examples_without_a_label_or_a_weight_change_nothing_and_losses_are_weighted():
    features, rows = np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)
    targets, weights = np.array([[np.nan], [1.0]], np.float32), np.array([[1.0], [0.0]], np.float32)
    outputs = output_weights(NUMBER)
    lost, mean = train_dense((features, targets, weights), np.arange(2), NUMBER, (rows, outputs), np.array([0.5, 0.5]))
    assert lost == 0
    assert not mean.any()
    answers = ask_dense(features, np.arange(2), NUMBER, (rows, outputs))
    assert loss_of_dense(answers, targets, np.full((2, 1), 3, np.float32), NUMBER) == 1.5
