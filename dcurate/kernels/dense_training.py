"""Linear models on dense features with several heads: trained one example after the other, the same to the bit.

The features of an example are numbers; the heads are those of `fasttext_training`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from dcurate.kernels.fasttext import Floats
from dcurate.kernels.fasttext_training import Heads, add_change, answer, loss_of
from dcurate.kernels.layout import INLINE, OPTIONS, Rows, Scalar, frozen

Matrix = npt.NDArray[np.float32]
#: Rows, which change; weights of the outputs; sums of the rows after each step.
Network: TypeAlias = tuple[Matrix, Matrix, npt.NDArray[np.float64]]


@njit(**INLINE)
def _sum(features: Floats, rows: Floats, hidden: Floats) -> None:
    """Make ``hidden`` the sum of the rows of features by their numbers, and of the last row."""
    for step in range(hidden.size):
        hidden[step] = rows[features.size, step]
    for number in range(features.size):
        factor = features[number]
        for step in range(hidden.size):
            hidden[step] += factor * rows[number, step]


@njit(**OPTIONS)
def _train(
    examples: tuple[Floats, Floats, Floats], order: Rows, heads: Heads, network: Network, rates: Floats
) -> Scalar:
    features, targets, weights = examples
    rows, outputs, sums = network
    hidden = np.empty(rows.shape[1], np.float32)
    change = np.empty(rows.shape[1], np.float32)
    out = np.empty(heads.starts[-1], np.float32)
    lost = 0.0
    for turn in range(order.size):
        text = order[turn]
        _sum(features[text], rows, hidden)
        change[:] = np.float32(0)
        for head in range(heads.kinds.size):
            target = targets[text, head]
            if np.isnan(target):
                continue
            answer(heads, head, outputs, hidden, out)
            weight = weights[text, head]
            lost += np.float64(weight) * loss_of(heads, head, target, out)
            add_change(heads, head, outputs, (target, rates[turn] * weight), (out, change))
        for number in range(features.shape[1]):
            factor = features[text, number]
            for step in range(hidden.size):
                rows[number, step] += factor * change[step]
        for step in range(hidden.size):
            rows[features.shape[1], step] += change[step]
        for number in range(rows.shape[0]):
            for step in range(hidden.size):
                sums[number, step] += rows[number, step]
    return lost


def train_dense(
    examples: tuple[Matrix, Matrix, Matrix],
    order: npt.NDArray[np.int64],
    heads: Heads,
    network: tuple[Matrix, Matrix],
    rates: npt.NDArray[np.float64],
) -> tuple[float, Matrix]:
    """Change the rows of a network by one pass over the examples numbered ``order``, in that order.

    Args:
        examples: features of shape (examples, features); targets and weights as in `fasttext_training.Examples`.
        network: its rows, one for each feature and one for the constant, which are changed; and its weights.
        rates: the learning rate of each turn.

    Returns:
        the sum of the losses, each before its step, and the mean of the rows after the steps (Polyak and Juditsky,
            1992), which is nearer to the best than any of them.
    """
    sums = np.zeros(network[0].shape)
    arrays = frozen(examples[0], np.float32), frozen(examples[1], np.float32), frozen(examples[2], np.float32)
    matrices = network[0], frozen(network[1], np.float32), sums
    lost = float(_train(arrays, frozen(order, np.int64), heads, matrices, frozen(rates, np.float32)))
    return lost, np.asarray(sums / max(len(order), 1), np.float32)


@njit(**OPTIONS)
def _ask(features: Floats, order: Rows, heads: Heads, network: tuple[Floats, Floats], out: Floats) -> None:
    rows, outputs = network
    hidden = np.empty(rows.shape[1], np.float32)
    for turn in range(order.size):
        if np.isnan(features[order[turn]]).any():
            out[turn] = np.float32(np.nan)
            continue
        _sum(features[order[turn]], rows, hidden)
        for head in range(heads.kinds.size):
            answer(heads, head, outputs, hidden, out[turn])


@njit(**OPTIONS)
def _lost(out: Floats, targets: Floats, weights: Floats, heads: Heads) -> Scalar:
    lost = 0.0
    for row in range(len(out)):
        for head in range(heads.kinds.size):
            if not np.isnan(targets[row, head]):
                lost += np.float64(weights[row, head]) * loss_of(heads, head, targets[row, head], out[row])
    return lost


def ask_dense(features: Matrix, order: npt.NDArray[np.int64], heads: Heads, network: tuple[Matrix, Matrix]) -> Matrix:
    """The answers of all heads to the examples numbered ``order``, of shape (examples, outputs); NaN where one is."""
    out = np.empty((len(order), int(heads.starts[-1])), np.float32)
    matrices = frozen(network[0], np.float32), frozen(network[1], np.float32)
    _ask(frozen(features, np.float32), frozen(order, np.int64), heads, matrices, out)
    return out


def loss_of_dense(answers: Matrix, targets: Matrix, weights: Matrix, heads: Heads) -> float:
    """The sum of the losses of answers."""
    arrays = frozen(answers, np.float32), frozen(targets, np.float32), frozen(weights, np.float32)
    return float(_lost(*arrays, heads))
