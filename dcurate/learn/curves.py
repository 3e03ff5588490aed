"""What a page shows of the scores of a head on held examples: curves, reliability, thresholds, groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dcurate.learn.head import StudentHead
from dcurate.learn.measures import measures
from dcurate.learn.thresholds import calibration_of, lower_bound

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Points of a curve, bins of scores, and bins of a reliability diagram, at most.
POINTS, BINS, RELIABILITY = 100, 20, 10
#: Values of a column of groups that are listed.
GROUPS = 30
_FOLDS = 5


def ranked_curves(scores: Scores, truth: Mask) -> dict[str, Any]:
    """Return the ROC curve and the precision-recall curve, of at most 100 points, and the average precision.

    Examples:
        >>> curves = ranked_curves(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, True, False, True]))
        >>> curves["roc"], round(curves["average_precision"], 3)
        ([[0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0]], 0.833)
    """
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    right = np.cumsum(truth[order])[last]
    kept = last + 1
    positive, negative = max(int(truth.sum()), 1), max(int((~truth).sum()), 1)
    recall, precision = right / positive, right / kept
    average = float(np.diff(recall, prepend=0.0) @ precision)
    chosen = np.unique(np.linspace(0, len(last) - 1, min(POINTS, len(last))).round().astype(np.int64))
    roc = [[0.0, *((kept - right) / negative)[chosen].tolist()], [0.0, *recall[chosen].tolist()]]
    pr = [recall[chosen].tolist(), precision[chosen].tolist()]
    return {"roc": _rounded(roc), "precision_recall": _rounded(pr), "average_precision": average}


def reliability(scores: Scores, truth: Mask) -> dict[str, Any]:
    """Return how often texts of like scores are of the class, in up to ten bins of equally many texts.

    Returns:
        ``bins`` with the mean ``score``, the ``share`` of the class and the ``rows``; their mean difference, weighted
            by rows, is ``error`` (expected calibration error); ``brier`` is the mean squared difference.

    Examples:
        >>> figures = reliability(np.array([0.25, 0.25, 0.75, 0.75]), np.array([False, False, True, True]))
        >>> figures["error"], figures["brier"]
        (0.25, 0.0625)
    """
    parts = np.array_split(np.argsort(scores, kind="stable"), min(RELIABILITY, len(scores)))
    bins = [
        {"score": float(scores[part].mean()), "share": float(truth[part].mean()), "rows": len(part)} for part in parts
    ]
    error = sum(part["rows"] * abs(part["score"] - part["share"]) for part in bins) / len(scores)
    return {"bins": bins, "error": float(error), "brier": float(np.square(scores - truth).mean())}


def cross_calibrated(method: Literal["isotonic", "platt"], scores: Scores, truth: Mask) -> Scores:
    """Return the calibrated scores of each fifth of texts by what the other four fifths say.

    Examples:
        >>> scores, truth = np.linspace(0, 1, 200), np.linspace(0, 1, 200) > 0.5
        >>> bool(np.abs(cross_calibrated("isotonic", scores, truth) - truth).mean() < 0.02)
        True
    """
    folds = np.arange(len(scores)) % _FOLDS
    calibrated = scores.copy()
    for fold in range(_FOLDS):
        inside = folds == fold
        if inside.any() and not inside.all():
            calibrated[inside] = np.interp(scores[inside], *calibration_of(method, scores[~inside], truth[~inside]))
    return calibrated


def kept_by(
    head: StudentHead, scores: Scores, truth: Mask, groups: Sequence[str | None] | None
) -> list[dict[str, Any]]:
    """Return what the threshold of each group keeps of its held texts; that of all others, of the rest."""
    names = [None] * len(scores) if groups is None else list(groups)
    figures = []
    for group, threshold in head.thresholds.items():
        inside = np.array([name == group if group else name not in head.thresholds for name in names], np.bool_)
        kept = inside & (scores >= threshold)
        right = int((kept & truth).sum())
        rows, there, number = int(inside.sum()), int((inside & truth).sum()), int(kept.sum())
        figures.append(
            {
                "group": group,
                "threshold": threshold,
                "rows": rows,
                "kept": number,
                "precision": right / number if number else None,
                "least_precision": lower_bound(right, number, 0.05) if number else None,
                "recall": right / there if there else None,
            }
        )
    return figures


def by_value(head: StudentHead, answers: Floats, targets: Floats, values: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the figures of the rows with each value of a column, the most frequent values first."""
    known = ~np.isnan(targets)
    names = np.array(["" if value is None else value for value in values], dtype=object)[known]
    answers, targets = answers[known], targets[known]
    counted = Counter(names.tolist())
    listed = sorted(counted, key=lambda name: (-counted[name], name))[:GROUPS]
    return [{"value": name, **measures(head, answers[names == name], targets[names == name])} for name in listed]


def binned(scores: Scores, truth: Mask | None = None) -> dict[str, Any]:
    """Return the number of scores in each of 20 bins, and of those of the class.

    Examples:
        >>> binned(np.array([0.0, 0.01, 1.0]))["counts"][:2]
        [2, 0]
    """
    low, high = (0.0, 1.0) if truth is not None or not len(scores) else (float(scores.min()), float(scores.max()))
    low, high = min(low, 0.0), max(high, 1.0)
    edges = np.linspace(low, high, BINS + 1)
    figures: dict[str, Any] = {"edges": edges.tolist(), "counts": np.histogram(scores, edges)[0].tolist()}
    if truth is not None:
        figures["positive"] = np.histogram(scores[truth], edges)[0].tolist()
    return figures


def deciles(answers: Scores, truth: Scores) -> list[dict[str, Any]]:
    """Return the mean answer, number and error of each tenth of texts, by their answers."""
    parts = np.array_split(np.argsort(answers, kind="stable"), min(RELIABILITY, len(answers)))
    return [
        {
            "rows": len(part),
            "answer": float(answers[part].mean()),
            "truth": float(truth[part].mean()),
            "error": float(np.abs(answers[part] - truth[part]).mean()),
        }
        for part in parts
    ]


def moved_by_words(text: str, score: Callable[[list[str]], Scores], most: int) -> list[tuple[str, float]]:
    """Return the words that moved the score of a text most, and by how much: the score with them less that without.

    Args:
        text: the text; it is read as a whole.
        score: gives the scores of texts.
        most: the number of words.

    Examples:
        >>> count = lambda texts: np.array([text.count("good") / 4 for text in texts])
        >>> moved_by_words("a good and good text", count, 1)
        [('good', 0.5)]
    """
    words = text.split()
    distinct = list(dict.fromkeys(words))
    scores = score([text, *(" ".join(word for word in words if word != left) for left in distinct)])
    changes = np.nan_to_num(scores[0] - scores[1:])
    order = np.argsort(-np.abs(changes), kind="stable")[:most]
    return [(distinct[place], round(float(changes[place]), 4)) for place in order.tolist() if changes[place]]


def _rounded(lists: list[list[float]]) -> list[list[float]]:
    return [[round(value, 5) for value in values] for values in lists]
