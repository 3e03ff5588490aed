"""The questions that a student answers, and where its outputs to each are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError, listed
from dcurate.kernels.fasttext import Network
from dcurate.kernels.fasttext_training import CLASSES, NUMBER, Heads

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StudentHead:
    """One question that a student answers.

    Args:
        name: the column of its labels.
        kind: ``"classes"``, ``"flag"`` for true and false, or ``"number"``.
        labels: the classes in order; ``("false", "true")`` of a flag, none of a number.
        mean, deviation: mean and standard deviation of the numbers that it learned.
        least, most: smallest and largest of them.
        positive: class, of two, whose probability is the score; ``"true"`` of a flag.
        thresholds: by group, ``""`` for all others, the lowest score of the positive class.
        calibration: scores and the share of the positive class at each, in ascending order; between them is a line.

    Examples:
        >>> head = StudentHead("quality", "classes", ("bad", "good"), positive="good", thresholds={"": 0.6, "de": 0.5})
        >>> head.answers(np.array([[0.45, 0.55], [0.45, 0.55]], np.float32), ["de", "en"])
        ['good', 'bad']
    """

    name: str
    kind: Literal["classes", "flag", "number"]
    labels: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    least: float = 0.0
    most: float = 0.0
    positive: str = ""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    calibration: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    @property
    def outputs(self) -> int:
        """Number of outputs of the network."""
        return max(len(self.labels), 1)

    def scores(self, answers: Floats) -> npt.NDArray[np.float64]:
        """Return the scores of texts: the probability of `positive`, else of the likeliest class, or the number.

        Args:
            answers: the outputs of this head, of shape (texts, outputs).
        """
        if self.kind == "number":
            return np.asarray(self.mean + self.deviation * answers[:, 0].astype(np.float64))
        if not self.positive:
            return np.asarray(answers.max(axis=1), np.float64)
        return answers[:, self.labels.index(self.positive)].astype(np.float64)

    def calibrated(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the scores as shares of the positive class; as they are without `calibration`."""
        if self.calibration is None:
            return scores
        return np.where(np.isnan(scores), np.nan, np.interp(scores, *self.calibration))

    def answers(self, outputs: Floats, groups: Sequence[str | None] | None = None) -> list[Any]:
        """Return the class, flag or number of each text; None for a text without words."""
        scores = self.scores(outputs)
        blank = np.isnan(scores)
        if self.kind == "number":
            numbers = np.clip(scores, self.least, self.most).tolist()
            return [None if no else number for no, number in zip(blank, numbers, strict=True)]
        chosen = np.where(blank, 0, np.argmax(np.nan_to_num(outputs), axis=1))
        if self.thresholds and self.positive:
            limits = self.limits(len(outputs), groups)
            positive = self.labels.index(self.positive)
            chosen = np.where(scores >= limits, positive, 1 - positive)
        names: list[Any] = [False, True] if self.kind == "flag" else list(self.labels)
        return [None if no else names[number] for no, number in zip(blank, chosen.tolist(), strict=True)]

    def limits(self, rows: int, groups: Sequence[str | None] | None) -> npt.NDArray[np.float64]:
        """Return the threshold of each text; a group without one has that of all others, 0.5 if there is none."""
        other = self.thresholds.get("", 0.5)
        if groups is None:
            return np.full(rows, other)
        return np.array([self.thresholds.get(group or "", other) for group in groups], np.float64)


class Answering:
    """A model with heads."""

    heads: tuple[StudentHead, ...]
    card: Mapping[str, Any]

    @abstractmethod
    def answers_of(self, table: Any, columns: Sequence[str]) -> Floats:
        """Return the answers of all heads to the rows of a table, of shape (rows, outputs); NaN where there is none.

        Args:
            columns: what the model reads: the column of texts, or those of its features in their order.
        """

    def head(self, name: str) -> StudentHead:
        """Return a head by its name.

        Raises:
            PipelineError: there is none.
        """
        for head in self.heads:
            if head.name == name:
                return head
        raise PipelineError(f"the model has no head {name!r}; it has {listed(head.name for head in self.heads)}")

    def outputs_of(self, name: str) -> slice:
        """The outputs of a head, among those of all."""
        first = 0
        for head in self.heads:
            if head.name == name:
                return slice(first, first + head.outputs)
            first += head.outputs
        raise PipelineError(f"the model has no head {name!r}; it has {listed(head.name for head in self.heads)}")

    def count_scores(self, answers: Floats, edges: Mapping[str, Sequence[float]]) -> dict[str, Ints]:
        """Return for heads the number of rows in each bin of scores; those beyond the ends are in the last ones.

        Args:
            answers: the outputs of all heads; rows without an answer do not count.
            edges: by head the edges of its bins, in ascending order.
        """
        counts = {}
        for name, ends in edges.items():
            scores = self.head(name).scores(answers[:, self.outputs_of(name)])
            counts[name] = np.histogram(np.clip(scores[~np.isnan(scores)], ends[0], ends[-1]), ends)[0]
        return counts


def layout_of(heads: Sequence[StudentHead], network: Network | None = None) -> Heads:
    """Return where the outputs and columns of heads are; two classes share a column.

    Args:
        network: one whose heads read all columns, as that of fastText does, is taken as it is.
    """
    starts = np.cumsum([0, *(head.outputs for head in heads)], dtype=np.int64)
    columns = np.cumsum([0, *(1 if head.outputs == 2 else head.outputs for head in heads)], dtype=np.int64)
    if network is not None and len(heads) == 1:
        columns = np.array([0, network.rows.shape[1]], np.int64)
    kinds = np.array([NUMBER if head.kind == "number" else CLASSES for head in heads], np.int64)
    return Heads(starts, columns, kinds)


def heads_of(card: dict[str, Any]) -> tuple[StudentHead, ...]:
    """Take the heads out of a card.

    Raises:
        KeyError, TypeError, ValueError: they are missing or damaged.
    """
    heads = []
    for entry in map(dict, card.pop("heads")):
        calibration, labels = entry.pop("calibration"), tuple(entry.pop("labels"))
        pair = None if calibration is None else (tuple(calibration[0]), tuple(calibration[1]))
        heads.append(StudentHead(**entry, labels=labels, calibration=pair))
    return tuple(heads)
