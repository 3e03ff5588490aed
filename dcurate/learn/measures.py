"""How good the answers of a head are on examples that were held back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.learn.head import StudentHead

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def area_under_curve(scores: npt.NDArray[Any], truth: npt.NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve; equal scores count half. NaN without texts of both kinds.

    Examples:
        >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
        0.875
    """
    positive = int(truth.sum())
    if not 0 < positive < len(truth):
        return float("nan")
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]
    total = float(ranks[truth].sum()) - positive * (positive + 1) / 2
    return total / (positive * (len(truth) - positive))


def confusion(predicted: Ints, truth: Ints, classes: int) -> Ints:
    """Return how many texts of each class (rows) were taken for each class (columns)."""
    return np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def measures(head: StudentHead, answers: Floats, targets: Floats) -> dict[str, Any]:
    """Return figures of a head: AUC, F1 and accuracy of classes (means over classes), errors of numbers.

    Args:
        answers: the outputs of the head, of shape (texts, outputs).
        targets: numbers of classes, or the standardised numbers; NaN where there is none.
    """
    known = ~np.isnan(targets)
    answers, targets = answers[known], targets[known].astype(np.float64)
    if not len(targets):
        return {"rows": 0}
    if head.kind == "number":
        errors = (answers[:, 0] - targets) * head.deviation
        spread = float(np.square(targets - targets.mean()).sum()) * head.deviation**2
        return {
            "rows": len(targets),
            "mean_absolute_error": float(np.abs(errors).mean()),
            "r2": 1 - float(np.square(errors).sum()) / spread if spread else float("nan"),
        }
    truth = targets.astype(np.int64)
    table = confusion(np.argmax(answers, axis=1).astype(np.int64), truth, len(head.labels))
    right, rows, columns = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    there = rows > 0
    scores = 2 * right / np.maximum(rows + columns, 1)
    areas = [area_under_curve(answers[:, number], truth == number) for number in range(len(head.labels))]
    areas = areas[1:] if len(areas) == 2 else areas
    known_areas = [area for area in areas if not np.isnan(area)]
    return {
        "rows": len(truth),
        "auc": float(np.mean(known_areas)) if known_areas else float("nan"),
        "f1": float(scores[there].mean()),
        "accuracy": float(right.sum() / len(truth)),
        "confusion": table.tolist(),
    }
