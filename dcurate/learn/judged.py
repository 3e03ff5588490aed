"""How good a trained student is on the examples that were held back: thresholds, figures, and what its page shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dcurate.frames.columns import table_of
from dcurate.frames.excerpts import excerpt
from dcurate.frames.text import TextColumn
from dcurate.learn.curves import binned, by_value, cross_calibrated, deciles, kept_by, ranked_curves, reliability
from dcurate.learn.head import StudentHead
from dcurate.learn.measures import area_under_curve, measures
from dcurate.learn.thresholds import ThresholdRule, calibration_of, thresholds_of
from dcurate.learn.training import Floats, Ints

#: Characters of a wrong example that are shown, and that are asked for the words that moved its score.
SHOWN, ASKED = 300, 1000
#: Curves of a head, at most: of the most frequent classes.
CURVES = 8

#: For an example and a head: what moved its answer most, and by how much.
Moved = Callable[[int, StudentHead], list[tuple[str, float]]]


@dataclass(frozen=True)
class Held:
    """The held examples, and how thresholds and calibration are chosen by them.

    Args:
        targets: what each example and head is to answer, as in `HeadTargets`.
        answers: the outputs of all heads, of shape (examples, outputs).
        columns: values of columns by which figures are also given.
        group_field: the one of `columns` whose values have thresholds of their own.
        thresholds: chooses thresholds.
        calibration: the method of calibration.
    """

    targets: Floats
    answers: Floats
    columns: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    group_field: str | None = None
    thresholds: ThresholdRule | None = None
    calibration: Literal["isotonic", "platt"] | None = None

    def parts(self, heads: Sequence[StudentHead]) -> Iterator[tuple[StudentHead, Floats, Floats]]:
        """Each head with its outputs and its targets."""
        first = 0
        for number, head in enumerate(heads):
            yield head, self.answers[:, first : first + head.outputs], self.targets[:, number]
            first += head.outputs

    def groups(self, known: Iterable[bool]) -> list[str | None] | None:
        """The groups of the examples that are known, if there are groups."""
        if self.group_field is None:
            return None
        return [group for group, there in zip(self.columns[self.group_field], known, strict=True) if there]

    def heads(self, heads: Sequence[StudentHead]) -> tuple[StudentHead, ...]:
        """The heads with thresholds and calibration."""
        return tuple(self._with_thresholds(*part) for part in self.parts(heads))

    def _with_thresholds(self, head: StudentHead, answers: Floats, targets: Floats) -> StudentHead:
        known = ~np.isnan(targets)
        if not head.positive or not known.any():
            return head
        scores = head.scores(answers)[known]
        truth = targets[known] == head.labels.index(head.positive)
        if self.thresholds is not None:
            chosen = thresholds_of(self.thresholds, scores, truth, self.groups(known))
            head = replace(head, thresholds=chosen)
        if self.calibration is not None:
            head = replace(head, calibration=calibration_of(self.calibration, scores, truth))
        return head

    def figures(self, heads: Sequence[StudentHead]) -> list[dict[str, Any]]:
        """The figures of each head."""
        return [
            {"head": head.name, "kind": head.kind, **measures(head, answers, targets)}
            for head, answers, targets in self.parts(heads)
        ]

    def page(self, heads: Sequence[StudentHead], texts: Mapping[int, str], moved: Moved, most: int) -> dict[str, Any]:
        """What a page shows of each head.

        Args:
            heads: with thresholds and calibration.
            texts: by example, of those that `wrong` names.
            moved: says what moved the answer to an example.
            most: number of wrong examples of a head, at most.
        """
        pages = []
        for head, answers, targets in self.parts(heads):
            shown = {"name": head.name, "kind": head.kind, "labels": list(head.labels), "positive": head.positive}
            known = ~np.isnan(targets)
            groups = {name: by_value(head, answers, targets, column) for name, column in self.columns.items()}
            pages.append(
                {
                    **shown,
                    "measures": measures(head, answers, targets),
                    "groups": groups,
                    **(self._scored(head, answers[known], targets[known], known) if known.any() else {}),
                    "wrong": [
                        {
                            **_example(head, answers[place], float(targets[place]), texts[place]),
                            "moved": moved(place, head),
                        }
                        for place in wrong(head, answers, targets, most)
                    ],
                }
            )
        return {"heads": pages}

    def _scored(self, head: StudentHead, answers: Floats, targets: Floats, known: Any) -> dict[str, Any]:
        scores = head.scores(answers)
        if head.kind == "number":
            truth = head.mean + head.deviation * targets.astype(np.float64)
            return {"scores": binned(scores), "deciles": deciles(scores, truth)}
        numbers = targets.astype(np.int64)
        positive = head.labels.index(head.positive) if head.positive else None
        right = numbers == (np.argmax(answers, axis=1) if positive is None else positive)
        figures: dict[str, Any] = {"scores": binned(scores, right), "reliability": reliability(scores, right)}
        if head.calibration is not None and self.calibration is not None:
            figures["calibrated"] = reliability(cross_calibrated(self.calibration, scores, right), right)
        counts = np.bincount(numbers, minlength=len(head.labels))
        listed = [positive] if positive is not None else np.argsort(-counts, kind="stable")[:CURVES].tolist()
        if positive is None and len(head.labels) == 2:
            listed = [1]
        listed = [number for number in listed if counts[number]]
        figures["curves"] = [
            {
                "label": head.labels[number],
                "auc": area_under_curve(answers[:, number], numbers == number),
                **ranked_curves(answers[:, number].astype(np.float64), numbers == number),
            }
            for number in listed
        ]
        if head.positive and head.thresholds:
            figures["thresholds"] = kept_by(head, scores, right, self.groups(known))
        return figures


def wrong(head: StudentHead, answers: Floats, targets: Floats, most: int) -> list[int]:
    """Return the examples with the worst answers, the worst first: the wrong classes, or the largest errors."""
    known = np.flatnonzero(~np.isnan(targets))
    if head.kind == "number":
        badness = np.abs(answers[known, 0] - targets[known])
    else:
        truth = targets[known].astype(np.int64)
        rest = np.argmax(answers[known], axis=1) != truth
        known, truth = known[rest], truth[rest]
        badness = -answers[known, truth]
    listed: list[int] = known[np.argsort(-badness, kind="stable")[:most]].tolist()
    return listed


def _example(head: StudentHead, answers: Floats, target: float, text: str) -> dict[str, Any]:
    if head.kind == "number":
        # Targets are single precision: without rounding a label of 0 would read 2.3e-08.
        digits = 5 - math.floor(math.log10(head.deviation))
        truth: Any = round(head.mean + head.deviation * target, digits) + 0.0
        answer: Any = head.answers(answers[None])[0]
        score = float(answer)
    else:
        output = int(np.argmax(answers))
        truth, answer, score = head.labels[int(target)], head.labels[output], float(answers[output])
    return {"text": excerpt(text, SHOWN), "truth": truth, "answer": answer, "score": score}


def texts_at(columns: Iterable[TextColumn], rows: Iterable[int]) -> dict[int, str]:
    """Return the texts with some numbers, of columns one after the other."""
    wanted, first = np.unique(np.array(list(rows), np.int64)), 0
    texts: dict[int, str] = {}
    for column in columns:
        inside = wanted[(wanted >= first) & (wanted < first + len(column))]
        for row in inside.tolist():
            start, stop = column.offsets[row - first : row - first + 2]
            texts[row] = column.data[start:stop].tobytes().decode(errors="replace")
        first += len(column)
    return texts


def at(values: Sequence[str | None], rows: Ints) -> list[str | None]:
    """Return the values of some rows."""
    return [values[row] for row in rows.tolist()]


def table_of_figures(figures: Sequence[Mapping[str, Any]]) -> Any:
    """Return a row for each head."""
    names = ("rows", "auc", "f1", "accuracy", "mean_absolute_error", "r2")
    columns: dict[str, Any] = {name: [figure[name] for figure in figures] for name in ("head", "kind")}
    for name in names:
        columns[name] = np.array([figure.get(name, np.nan) for figure in figures], np.float64)
    return table_of(columns)
