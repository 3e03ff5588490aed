"""Thresholds of scores: by F-beta, by the share to keep, or by a precision that holds with a confidence."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError, PipelineError

Scores = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Number of thresholds among which `KeepPrecision` chooses; its promise is corrected for all of them.
CANDIDATES = 20


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is not between 0 and 1.

    Raises:
        PipelineError: it is not.

    Examples:
        >>> check_fraction("confidence", 0.95)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise PipelineError(f"{name}={value!r} must be between 0 and 1")


class ThresholdRule:
    """Chooses a threshold: texts with this score or a higher one are kept."""

    @abstractmethod
    def choose(self, scores: Scores, truth: Mask) -> float:
        """Return the lowest score that is kept.

        Args:
            scores: scores of texts that the model was not trained on, without NaN.
            truth: whether each of them is of the positive class.

        Raises:
            DataError: no threshold does what is asked.
        """


@dataclass(frozen=True)
class KeepByFBeta(ThresholdRule):
    """Choose the threshold with the highest F-beta.

    Args:
        beta: above 1 recall counts more, below 1 precision.

    Raises:
        PipelineError: ``beta`` is not above 0.

    Examples:
        >>> scores, truth = np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True])
        >>> KeepByFBeta().choose(scores, truth)
        0.6
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.beta, bool) or not 0 < self.beta < math.inf:
            raise PipelineError(f"beta={self.beta!r} must be a number above 0")

    def choose(self, scores: Scores, truth: Mask) -> float:
        ranked, right, kept = _ranked(scores, truth)
        if not right[-1]:
            raise DataError("no text of the positive class is among the held examples; label more texts")
        square = self.beta**2
        values = (1 + square) * right / (square * right[-1] + kept)
        return float(ranked[int(np.argmax(values))])


@dataclass(frozen=True)
class KeepFraction(ThresholdRule):
    """Choose the threshold that keeps a part of the texts: the one with the highest scores.

    Args:
        keep_fraction: the part to keep, from 0 to 1.

    Raises:
        PipelineError: it is not between 0 and 1.

    Examples:
        >>> KeepFraction(0.25).choose(np.array([0.1, 0.4, 0.6, 0.9]), np.zeros(4, bool))
        0.9
    """

    keep_fraction: float

    def __post_init__(self) -> None:
        check_fraction("keep_fraction", self.keep_fraction)

    def choose(self, scores: Scores, truth: Mask) -> float:
        if not len(scores):
            raise DataError("no examples are held back to choose a threshold by; label more texts")
        ranked = np.sort(scores)[::-1]
        return float(ranked[max(round(self.keep_fraction * len(ranked)) - 1, 0)])


@dataclass(frozen=True)
class KeepPrecision(ThresholdRule):
    """Choose the lowest threshold whose precision is guaranteed with a confidence.

    Each of at most 20 thresholds is tested by the lower bound of Clopper and Pearson (1934) at the level
    ``(1 - confidence) / 20``, so that the guarantee holds although the lowest one that passes is chosen. It holds for
    texts of the distribution that the held examples were drawn from.

    Args:
        precision: the least share of the positive class among texts that are kept.
        confidence: the probability, over draws of the held examples, that it is at least that.

    Raises:
        PipelineError: one of them is not between 0 and 1.

    Examples:
        >>> scores = np.linspace(0, 1, 1001)
        >>> KeepPrecision(0.9).choose(scores, scores > 0.5) < 0.6
        True
    """

    precision: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_fraction("precision", self.precision)
        check_fraction("confidence", self.confidence)

    def choose(self, scores: Scores, truth: Mask) -> float:
        level = (1 - self.confidence) / CANDIDATES
        ranked, right, kept = _ranked(scores, truth)
        least = math.ceil(math.log(level) / math.log(self.precision))  # with fewer texts nothing passes
        counts = np.unique(np.geomspace(least, max(len(scores), least), CANDIDATES).astype(np.int64))
        chosen = None
        for count in counts[counts <= len(scores)].tolist():
            # Given the score of a text as the threshold, those with higher scores are a random draw from above it.
            place = int(np.searchsorted(kept, count))
            if place + 1 < len(ranked) and _tail(int(right[place]), int(kept[place]), self.precision) <= level:
                chosen = float(np.nextafter(ranked[place + 1], math.inf))
        if chosen is None:
            raise DataError(
                f"no threshold has a precision of {self.precision} with confidence {self.confidence} among "
                f"{len(scores)} held examples; label more texts (at least {least} that are kept), or ask for less"
            )
        return chosen


def _ranked(scores: Scores, truth: Mask) -> tuple[Scores, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct scores from the highest, and the number of positive and of all texts with each or a higher one."""
    if not len(scores):
        raise DataError("no examples are held back to choose a threshold by; label more texts")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    return ranked[last], np.cumsum(truth[order])[last].astype(np.int64), last + 1


def lower_bound(right: int, total: int, level: float) -> float:
    """Return the lower bound of Clopper and Pearson of a share.

    Args:
        right: number of successes.
        total: number of trials.
        level: the probability that the share is lower.

    Examples:
        >>> round(lower_bound(95, 100, 0.05), 4)
        0.8977
    """
    if right == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(right, total, middle) <= level else (low, middle)
    return low


def _tail(right: int, total: int, share: float) -> float:
    """The probability of at least that many successes."""
    if share in (0.0, 1.0):
        return float(share == 1.0)
    counts = np.arange(right, total + 1)
    logs = _factorials(total)
    terms = logs[total] - logs[counts] - logs[total - counts]
    terms = terms + counts * math.log(share) + (total - counts) * math.log1p(-share)
    return float(min(np.exp(terms).sum(), 1.0))


def _factorials(most: int) -> Scores:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def thresholds_of(
    rule: ThresholdRule, scores: Scores, truth: Mask, groups: Sequence[str | None] | None = None
) -> dict[str, float]:
    """Return a threshold for each group, and one, ``""``, for all others.

    A group without enough examples for `rule` has none of its own.

    Args:
        groups: the group of each text, such as its language.

    Raises:
        DataError: there is none for all texts together.

    Examples:
        >>> scores, truth = np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, True, False, True])
        >>> thresholds_of(KeepByFBeta(), scores, truth, ["en", "en", "de", "de"])
        {'': 0.4, 'de': 0.9, 'en': 0.4}
    """
    known = ~np.isnan(scores)
    scores, truth = scores[known], truth[known]
    chosen = {"": rule.choose(scores, truth)}
    if groups is None:
        return chosen
    names = np.array([group or "" for group in groups])[known]
    for name in sorted(set(names.tolist()) - {""}):
        part = names == name
        try:
            chosen[name] = rule.choose(scores[part], truth[part])
        except DataError:  # too few of this group
            continue
    return chosen


def calibration_of(
    method: Literal["isotonic", "platt"], scores: Scores, truth: Mask
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return scores in ascending order and the share of the positive class at each.

    Args:
        method: ``"isotonic"``: the best monotone steps (pool adjacent violators); ``"platt"``: a logistic curve of the
            logit of the score (Platt, 1999), at 101 scores.

    Examples:
        >>> calibration_of("isotonic", np.array([0.1, 0.2, 0.3, 0.9]), np.array([False, True, False, True]))
        ((0.1, 0.2, 0.3, 0.9), (0.0, 0.5, 0.5, 1.0))
    """
    if method == "isotonic":
        return _isotonic(scores, truth)
    points = np.linspace(0, 1, 101)
    slope, shift = _platt(_logit(scores), truth)
    return tuple(points.tolist()), tuple((1 / (1 + np.exp(-slope * _logit(points) - shift))).tolist())


def _logit(scores: Scores) -> Scores:
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(clipped / (1 - clipped)))


def _platt(logits: Scores, truth: Mask) -> tuple[float, float]:
    """Slope and shift by Newton's method with Platt's targets, in steps that lower the loss (Lin et al., 2007)."""
    positive, rest = int(truth.sum()), int((~truth).sum())
    targets = np.where(truth, (positive + 1) / (positive + 2), 1 / (rest + 2))
    features = np.column_stack([logits, np.ones(len(logits))])

    def loss(weights: Scores) -> float:
        margins = features @ weights
        return float((np.logaddexp(0, margins) - targets * margins).sum())

    weights = np.array([0.0, math.log((positive + 1) / (rest + 1))])
    for _ in range(100):
        shares = 1 / (1 + np.exp(-np.clip(features @ weights, -500, 500)))
        curvature = (features * (shares * (1 - shares))[:, None]).T @ features + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, features.T @ (targets - shares))
        size = 1.0
        while size > 1e-10 and loss(weights + size * step) > loss(weights):
            size /= 2
        weights = weights + size * step
        if np.abs(size * step).max() < 1e-9:
            break
    return max(float(weights[0]), 0.0), float(weights[1])


def _isotonic(scores: Scores, truth: Mask) -> tuple[tuple[float, ...], tuple[float, ...]]:
    order = np.argsort(scores, kind="stable")
    blocks: list[list[float]] = []  # sum and number of each, lowest and highest score
    for score, right in zip(scores[order].tolist(), truth[order].tolist(), strict=True):
        blocks.append([float(right), 1.0, score, score])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            total, number, _, highest = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + number, blocks[-1][2], highest]
    points: dict[float, float] = {}
    for total, number, lowest, highest in blocks:
        points[lowest] = points[highest] = total / number
    return tuple(points), tuple(points.values())
