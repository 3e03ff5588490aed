"""Train a student on the examples that `Learn` selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import lists_of, numbers, values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, text_column
from dcurate.frames.vectors import features
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.learn.columns import ColumnFit, ColumnStudent, joined_features, moved_by_columns
from dcurate.learn.curves import moved_by_words
from dcurate.learn.examples import (
    BANDS,
    LABELS,
    SITE,
    TEXT,
    contradictory,
    targets_of,
)
from dcurate.learn.head import StudentHead, layout_of
from dcurate.learn.judged import ASKED, Held, Moved, at, table_of_figures, texts_at, wrong
from dcurate.learn.split import split
from dcurate.learn.student import CARD, FIGURES, PAGE, Student
from dcurate.learn.training import Epoch, ExampleSplit, Fit, Floats, Training, output_weights
from dcurate.shuffle.chunks import read_parts

if TYPE_CHECKING:
    from dcurate.learn.stage import Learn

#: Words of a wrong example that are shown.
WORDS = 8


@dataclass
class TrainStudent(SourceStage[FileGroup, DocumentBatch]):
    """Trains on the examples of all files in one task; gives a row for each head.

    Args:
        learn: the settings.
        url: the folder of the files.
        options: fsspec's ``storage_options`` for it.
        files: their names, and where the rows of each end, in bytes.
    """

    lists_ahead: ClassVar[bool] = True
    learn: Learn
    url: str
    options: dict[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    name: str = "learn_train"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        listed_files = folder.files()
        parts = [
            FilePart(folder.path(name), 0, end, listed_files[name].size, listed_files[name].version, end)
            for name, end in self.files
        ]
        yield FileGroup(key=BatchKey(f"{self.learn.name}-00000"), parts=tuple(parts))

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch:
        learn = self.learn
        examples = ExampleSet.read(learn.name, learn, task.parts, self.options)
        source = ExampleSource(learn, task.parts, self.options)
        fitted = source.fit_columns(examples) if learn.feature_fields else source.fit_texts(examples)
        held = examples.held(learn, fitted.held)
        heads = held.heads(examples.heads)
        figures = held.figures(heads)
        card = {**_card_of(learn, examples, fitted.history, fitted.kept), "figures": figures}
        student = fitted.made(heads, card)
        places = {place for part in held.parts(heads) for place in wrong(*part, learn.max_examples)}
        rows = {place: int(examples.parts.held[place]) for place in sorted(places)}
        texts = source.shown(rows)
        moved = source.moved_by(student, texts, rows)
        _write_figures(learn, held.page(heads, texts, moved, learn.max_examples))
        student.save(str(learn.path), learn.storage_options)
        return DocumentBatch(data=table_of_figures(figures), key=task.key)


class Fitted(NamedTuple):
    """What training made.

    Attributes:
        held: answers to the held examples.
        history: losses of each epoch.
        kept: number of the epoch that is kept.
        made: makes the student of its heads and its card.
    """

    held: Floats
    history: list[Epoch]
    kept: int
    made: Callable[[tuple[StudentHead, ...], Mapping[str, Any]], Student | ColumnStudent]


@dataclass
class ExampleSource:
    """Reads what a student is trained on out of files.

    Args:
        learn: the settings.
        files: the files.
        options: fsspec's ``storage_options`` for them.
    """

    learn: Learn
    files: Sequence[FilePart]
    options: dict[str, Any]

    def texts(self) -> Iterator[TextColumn]:
        """The texts of all files, in the order of the examples."""
        for table in self._tables([self.learn.text_field]):
            column = text_column(table, self.learn.text_field)
            yield TextColumn(np.asarray(column.offsets, np.int64), column.data)

    def _tables(self, columns: Sequence[str]) -> Iterator[Any]:
        for part in self.files:
            yield from read_parts([part], self.options, list(columns))

    @cached_property
    def numbers(self) -> tuple[tuple[int, ...], npt.NDArray[np.float64]]:
        """How many numbers the columns of features have, and the numbers of each example.

        Raises:
            DataError: a column has lists of several lengths, or holds no numbers.
        """
        fields = self.learn.feature_fields
        tables = [table for table in self._tables(fields) if table.num_rows]
        sizes = [tuple(matrix.shape[1] for matrix in features(table, fields)) for table in tables]
        most = tuple(map(max, zip(*sizes, strict=True)))
        return most, np.vstack([joined_features(table, fields, most) for table in tables])

    def fit_texts(self, examples: ExampleSet) -> Fitted:
        """Train on texts."""
        learn, targets = self.learn, examples.targets
        with scratch_folder() as folder:
            fit = Fit(self.texts, len(targets), examples.parts, learn.features, folder)
            weights = _weights(examples, learn.training)
            trained = fit.run(layout_of(examples.heads), targets, weights, learn.training)

        def made(heads: tuple[StudentHead, ...], card: Mapping[str, Any]) -> Student:
            return Student(heads, trained.network, trained.counts, card, learn.features.weighting)

        return Fitted(trained.held, trained.history, trained.kept, made)

    def fit_columns(self, examples: ExampleSet) -> Fitted:
        """Train on columns."""
        learn, (sizes, numbers_) = self.learn, self.numbers
        fit = ColumnFit(numbers_, examples.parts)
        if not np.isfinite(fit.deviations).all():
            place = int(np.argmin(np.isfinite(fit.deviations)))
            name = learn.feature_fields[int(np.searchsorted(np.cumsum(sizes), place, side="right"))]
            raise DataError(
                f"column {name!r} has numbers that are too large to be scaled; give them in another unit, or "
                "as logarithms"
            )
        weights = _weights(examples, learn.training)
        rows, history, kept, held = fit.run(examples.heads, examples.targets, weights, learn.training)

        def made(heads: tuple[StudentHead, ...], card: Mapping[str, Any]) -> ColumnStudent:
            arrays = fit.means, fit.deviations, rows, output_weights(layout_of(heads))
            return ColumnStudent(heads, tuple(learn.feature_fields), sizes, *arrays, card)

        return Fitted(held, history, kept, made)

    def shown(self, rows: Mapping[int, int]) -> dict[int, str]:
        """What a page shows of examples, by place: their texts, or their numbers where no text is read.

        Args:
            rows: by place the number of the example.
        """
        if not rows:
            return {}
        if self.learn.reads_text:
            texts = texts_at(self.texts(), rows.values())
            return {place: texts[row] for place, row in rows.items()}
        sizes, all_numbers = self.numbers
        firsts = np.cumsum([0, *sizes]).tolist()
        named = list(zip(self.learn.feature_fields, firsts, sizes, strict=False))
        return {
            place: ", ".join(f"{name} {all_numbers[row, at]:g}{'…' * (size > 1)}" for name, at, size in named)
            for place, row in rows.items()
        }

    def moved_by(self, student: Student | ColumnStudent, texts: Mapping[int, str], rows: Mapping[int, int]) -> Moved:
        """What says which words or columns moved the answer of a head to an example."""

        def moved(place: int, head: StudentHead) -> list[tuple[str, float]]:
            def score(answers: Floats) -> npt.NDArray[np.float64]:
                answers = answers[:, student.outputs_of(head.name)]
                if head.kind == "number":
                    return head.scores(answers)
                return answers[:, int(np.argmax(np.nan_to_num(answers[0])))].astype(np.float64)

            if isinstance(student, Student):
                return moved_by_words(texts[place][:ASKED], lambda asked: score(student.answers(asked)), WORDS)
            return moved_by_columns(self.numbers[1][rows[place]], student, score)[:WORDS]

        return moved


@dataclass
class ExampleSet:
    """The examples without their texts.

    Args:
        heads: the heads.
        targets: answers of each text and head.
        parts: the split.
        columns: values of the columns by which figures are also given.
        dropped: number of texts with contradictory labels.
    """

    heads: tuple[StudentHead, ...]
    targets: Floats
    parts: ExampleSplit
    columns: dict[str, list[str | None]]
    dropped: int

    @classmethod
    def read(cls, stage: str, learn: Learn, files: Sequence[FilePart], options: dict[str, Any]) -> ExampleSet:
        labels: dict[str, list[Any]] = {name: [] for name in learn.head_fields}
        also: dict[str, list[str | None]] = {name: [] for name in learn.figure_columns()}
        keys: dict[str, list[npt.NDArray[np.uint64]]] = {name: [] for name in (TEXT, LABELS, SITE, BANDS)}
        columns = list(dict.fromkeys([*labels, *also, TEXT, LABELS, SITE, BANDS]))
        for part in files:
            for table in read_parts([part], options, columns):
                for name in labels:
                    labels[name] += values(table, name)
                for name, content in also.items():
                    content += [None if value is None else str(value) for value in values(table, name)]
                for name in (TEXT, LABELS, SITE):
                    keys[name].append(numbers(table, name).astype(np.uint64))
                if table.num_rows:
                    keys[BANDS].append(lists_of(table, BANDS)[1].reshape(table.num_rows, -1).astype(np.uint64))
        count = sum(map(len, keys[TEXT]))
        if count < 2:
            needed = "all features" if learn.feature_fields else "words"
            raise DataError(
                f"stage {stage!r}: too few rows with a label and {needed} to learn from: {count}; label more"
            )
        text, label, site = (np.concatenate(keys[name]) for name in (TEXT, LABELS, SITE))
        made = targets_of(stage, labels)
        order = np.lexsort((label, text))
        wrong = contradictory(text, made.targets)
        if wrong.any() and learn.contradictions == "error":
            raise DataError(
                f"stage {stage!r}: {len(np.unique(text[wrong])):,} texts have contradictory labels; correct them, or "
                "leave these texts out with contradictions='drop'"
            )
        made.targets[wrong] = np.nan
        order = order[~wrong[order]]
        joined = np.column_stack([text, site, *(np.concatenate(keys[BANDS]).T)])
        held_back = learn.held_back
        parts = split(order, joined, (held_back.validation_fraction, held_back.held_fraction), learn.training.seed)
        heads = tuple(_with_positive(stage, head, learn.positive) for head in made.heads)
        examples = cls(heads, made.targets, parts, also, int(wrong.sum()))
        examples.check(stage, learn)
        return examples

    def held(self, learn: Learn, answers: Floats) -> Held:
        """The held examples with their answers."""
        rows = self.parts.held
        columns = {name: at(column, rows) for name, column in self.columns.items()}
        chosen = learn.group_field, learn.thresholds, learn.calibration
        return Held(self.targets[rows], answers, columns, *chosen)

    def check(self, stage: str, learn: Learn) -> None:
        """Refuse a split that cannot be learned from.

        Raises:
            DataError: a class is missing where it is learned, or no example could be held back.
        """
        for number, head in enumerate(self.heads):
            there = self.targets[self.parts.train, number]
            missing = [name for place, name in enumerate(head.labels) if not (there == place).any()]
            if missing:
                raise DataError(
                    f"stage {stage!r}: no example of {listed(missing)} of head {head.name!r} is left to train on; "
                    "label more texts, or hold back fewer"
                )
        if learn.held_back.held_fraction and not len(self.parts.held):
            raise DataError(
                f"stage {stage!r}: no example could be held back, as texts share sites or are near-duplicates; label "
                "texts of more sites, or give HeldBack(held_fraction=0)"
            )


def _with_positive(stage: str, head: StudentHead, positive: Mapping[str, str]) -> StudentHead:
    wanted = positive.get(head.name)
    if wanted is None:
        return head
    if len(head.labels) != 2 or wanted not in head.labels:
        raise PipelineError(
            f"{stage}: positive={{{head.name!r}: {wanted!r}}} must be one of two classes; "
            f"the labels are {listed(head.labels) or 'numbers'}"
        )
    return replace(head, positive=wanted)


def _weights(examples: ExampleSet, training: Training) -> Floats:
    """The weight of each example and head, 1 in the mean of those that are trained on."""
    weights = np.ones_like(examples.targets)
    wanted = training.class_weights
    if wanted is None:
        return weights
    known = {label for head in examples.heads for label in head.labels}
    if isinstance(wanted, dict) and set(wanted) - known:
        raise PipelineError(f"class_weights names {listed(sorted(set(wanted) - known))}, which no label is")
    for number, head in enumerate(examples.heads):
        if not head.labels:
            continue
        targets = examples.targets[:, number]
        counts = np.bincount(targets[examples.parts.train][~np.isnan(targets[examples.parts.train])].astype(int))
        if isinstance(wanted, dict):
            by_class = np.array([wanted.get(label, 1.0) for label in head.labels])
        else:
            by_class = counts.sum() / (len(counts) * counts)
        by_class = by_class * counts.sum() / (by_class * counts).sum()
        weights[:, number] = by_class[np.nan_to_num(targets).astype(int)]
    return weights


def _card_of(learn: Learn, examples: ExampleSet, history: Sequence[Epoch], kept: int) -> dict[str, Any]:
    """What a student was trained on, and how."""
    parts = examples.parts
    return {
        "features": {"fields": list(learn.feature_fields)} if learn.feature_fields else vars(learn.features),
        "training": {**vars(learn.training), "epochs_run": len(history), "epoch_kept": kept},
        "history": [list(epoch) for epoch in history],
        "data": {
            "train": len(parts.train),
            "validation": len(parts.validation),
            "held": len(parts.held),
            "contradictory": examples.dropped,
            "site_field": learn.held_back.site_field,
            "near_duplicates_kept_together": learn.held_back.near_duplicates,
        },
        "licence": learn.licence,
    }


def _write_figures(learn: Learn, page: Mapping[str, Any]) -> None:
    folder = Directory(str(learn.path), learn.storage_options or {})
    folder.remove([name for name in (PAGE, CARD) if folder.has(name)])  # those of the model that is replaced
    folder.write(FIGURES, orjson.dumps(page, option=orjson.OPT_INDENT_2) + b"\n")
