"""Students that read columns: signals, scores and embeddings that earlier stages made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.vectors import features
from dcurate.fs.stores import Directory
from dcurate.kernels.dense_training import ask_dense, loss_of_dense, train_dense
from dcurate.learn.head import Answering, StudentHead, heads_of, layout_of
from dcurate.learn.student import COLUMNS_FORMAT, Student, read_array, read_card, write_model_folder
from dcurate.learn.training import Epoch, ExampleSplit, Floats, Training, output_weights

#: A number counts as at most this many standard deviations from the mean.
FARTHEST = 8.0
_ARRAYS = ("means", "deviations", "rows", "weights")

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ColumnStudent(Answering):
    """A linear model that judges rows by columns of numbers and of lists of numbers, with one head or several.

    Numbers are scaled to mean 0 and deviation 1 of the training split, and cut at 8 deviations.

    Args:
        heads: what it answers.
        fields: the columns, in order.
        sizes: how many numbers each has in a row.
        means, deviations: mean and standard deviation of each number in the training split.
        rows: what each number adds to the columns of the outputs, and a constant.
        weights: the weights of the outputs.
        card: further entries of its card.

    Examples:
        >>> numbers = np.zeros(1), np.ones(1), np.array([[2.0], [0.0]], np.float32)
        >>> head = StudentHead("quality", "classes", ("bad", "good"), positive="good")
        >>> student = ColumnStudent((head,), ("words",), (1,), *numbers, np.array([[-0.5], [0.5]], np.float32))
        >>> student.score(np.array([[-2.0], [0.0], [np.nan]])).round(1).tolist()
        [[1.0, 0.0], [0.5, 0.5], [nan, nan]]
    """

    heads: tuple[StudentHead, ...]
    fields: tuple[str, ...]
    sizes: tuple[int, ...]
    means: Matrix
    deviations: Matrix
    rows: Floats
    weights: Floats
    card: Mapping[str, Any] = field(default_factory=dict)

    def score(self, numbers: Matrix) -> Floats:
        """Return the answers of all heads to rows of numbers; NaN for rows with a number that is not finite."""
        scaled = _scaled(numbers, self.means, self.deviations)
        return ask_dense(scaled, np.arange(len(scaled)), layout_of(self.heads), (self.rows, self.weights))

    def answers_of(self, table: Any, columns: Sequence[str]) -> Floats:
        """Return the answers of all heads to the rows of a table.

        Args:
            columns: its columns in the order of `fields`, which may have other names.

        Raises:
            PipelineError: there are more or fewer of them than in training.
            DataError: a column has lists of another length, or holds no numbers.
        """
        if len(columns) != len(self.fields):
            raise PipelineError(
                f"the model reads {len(self.fields)} columns ({listed(self.fields)}); give these in feature_fields"
            )
        return self.score(joined_features(table, columns, self.sizes))

    def save(self, path: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write the folder of the model; nothing in it is a pickle.

        Raises:
            DataError: it cannot be written.
        """
        folder = Directory(str(path), dict(storage_options or {}))
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        card = {**self.card, "fields": list(self.fields), "sizes": list(self.sizes)}
        write_model_folder(folder, arrays, COLUMNS_FORMAT, self.heads, card)

    @classmethod
    def load(cls, path: str, storage_options: Mapping[str, Any] | None = None) -> ColumnStudent:
        """Read the folder of a model.

        Raises:
            DataError: there is none, it is of another kind or version, or damaged.
        """
        folder = Directory(str(path), dict(storage_options or {}))
        card = read_card(folder, str(path), COLUMNS_FORMAT)
        try:
            heads, arrays = heads_of(card), [read_array(folder, name) for name in _ARRAYS]
            means, deviations, rows, weights = arrays
            fields, sizes = tuple(card.pop("fields")), tuple(map(int, card.pop("sizes")))
            student = cls(heads, fields, sizes, means, deviations, rows, weights, card)
            width, columns = sum(sizes), int(layout_of(heads).columns[-1])
            shapes = [(width,), (width,), (width + 1, columns), (sum(head.outputs for head in heads), columns)]
            if [array.shape for array in arrays] != shapes or not heads or len(fields) != len(sizes):
                raise ValueError("its parts are inconsistent")
            return student
        except (ValueError, KeyError, TypeError, EOFError, OSError) as error:
            raise DataError(f"the model in {str(path)!r} is damaged ({error}); train or copy it again") from error


def joined_features(table: Any, columns: Sequence[str], sizes: Sequence[int]) -> Matrix:
    """Return the numbers of columns side by side.

    Args:
        sizes: how many numbers each column has in a row.

    Raises:
        DataError: a column has lists of another length, or holds no numbers.
    """
    matrices = []
    for name, matrix, size in zip(columns, features(table, columns), sizes, strict=True):
        if matrix.shape[1] not in (0, size):
            raise DataError(f"column {name!r} holds {matrix.shape[1]} numbers in a row, and {size} were trained on")
        matrices.append(matrix if matrix.shape[1] else np.full((len(matrix), size), np.nan))
    return np.hstack(matrices)


def _scaled(numbers: Matrix, means: Matrix, deviations: Matrix) -> Floats:
    """Numbers by deviations from their means, of mean squared length 1 together with the constant."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.clip((numbers - means) / deviations, -FARTHEST, FARTHEST)
    scaled[~np.isfinite(numbers)] = np.nan
    return np.asarray(scaled / math.sqrt(max(numbers.shape[1], 1)), np.float32)


@dataclass
class ColumnFit:
    """Trains on rows of numbers.

    Args:
        numbers: numbers of each example.
        split: part, training or validation, of each of them.
    """

    numbers: Matrix
    split: ExampleSplit

    def __post_init__(self) -> None:
        train = self.numbers[self.split.train]
        with np.errstate(over="ignore", invalid="ignore"):
            self.means = train.mean(axis=0)
            deviations = train.std(axis=0)
        self.deviations = np.where(deviations == 0, 1.0, deviations)
        self.scaled = _scaled(self.numbers, self.means, self.deviations)

    def run(
        self, heads: Sequence[StudentHead], targets: Floats, weights: Floats, training: Training
    ) -> tuple[Floats, list[Epoch], int, Floats]:
        """Train; returns the rows, the losses of each epoch, the number of the one kept, and answers to held examples.

        Args:
            targets: answer of each example and head, or NaN.
            weights: weight of each example and head.
        """
        layout, outputs = layout_of(heads), output_weights(layout_of(heads))
        rows = np.zeros((self.scaled.shape[1] + 1, int(layout.columns[-1])), np.float32)
        mean = np.zeros_like(rows)
        validation = self.split.validation
        checks = len(validation) > 0 and training.patience is not None

        def run_epoch(order: npt.NDArray[np.int64], rates: Matrix) -> Epoch:
            lost, mean[:] = train_dense((self.scaled, targets, weights), order, layout, (rows, outputs), rates)
            checked = None
            if checks:
                answers = ask_dense(self.scaled, validation, layout, (mean, outputs))
                checked = loss_of_dense(answers, targets[validation], weights[validation], layout) / len(validation)
            return Epoch(lost / max(len(order), 1), checked)

        kept, history, at = training.best(self.split.train, run_epoch, mean)
        return kept, history, at, ask_dense(self.scaled, self.split.held, layout, (kept, outputs))


def moved_by_columns(
    numbers: Matrix, student: ColumnStudent, score: Callable[[Floats], Matrix]
) -> list[tuple[str, float]]:
    """Return by how much each column moved the score of a row: the score less that with the mean of the column.

    Args:
        numbers: numbers of one row.
        score: gives scores of the answers of all heads.
    """
    bounds = np.cumsum([0, *student.sizes])
    asked = np.repeat(numbers[None], len(student.fields) + 1, axis=0)
    for place, (first, last) in enumerate(pairwise(bounds.tolist())):
        asked[place + 1, first:last] = student.means[first:last]
    scores = score(student.score(asked))
    changes = scores[0] - scores[1:]
    order = np.argsort(-np.abs(changes), kind="stable")
    return [(student.fields[place], round(float(changes[place]), 4)) for place in order.tolist()]


@lru_cache(maxsize=4)
def loaded(path: str, stamp: str) -> Student | ColumnStudent:
    """Return the model of a folder, read once by each process; `stamp` changes when the folder does."""
    return load_model(path)


def load_model(path: str) -> Student | ColumnStudent:
    """Return the model of a folder, of either kind.

    Raises:
        DataError: the model is missing or damaged.
    """
    card = Directory(str(path)).read("card.json") or b""
    return ColumnStudent.load(path) if f'"{COLUMNS_FORMAT}"'.encode() in card else Student.load(path)
