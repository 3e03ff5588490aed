"""Train a student on the examples that `Learn` selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import SourceStage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import lists_of, numbers, values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, text_column
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.learn.curves import moved_by_words
from dcurate.learn.examples import (
    BANDS,
    LABELS,
    SITE,
    TEXT,
    contradictory,
    targets_of,
)
from dcurate.learn.judged import ASKED, Held, Moved, at, table_of_figures, texts_at, wrong
from dcurate.learn.split import split
from dcurate.learn.student import CARD, FIGURES, PAGE, Student, StudentHead, layout_of
from dcurate.learn.training import Epoch, ExampleSplit, Fit, Floats, Training
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
    name: str = "learn"

    def splits(self) -> Iterator[FileGroup]:
        folder = Directory(self.url, self.options)
        listed_files = folder.files()
        parts = [
            FilePart(folder.path(name), 0, end, listed_files[name].size, listed_files[name].version, end)
            for name, end in self.files
        ]
        yield FileGroup(key=BatchKey(f"{self.name}-00000"), parts=tuple(parts))

    def settings(self) -> dict[str, Any]:
        return {}

    def process(self, task: FileGroup) -> DocumentBatch:
        learn = self.learn
        examples = ExampleSet.read(self.name, learn, task.parts, self.options)

        def texts() -> Iterator[TextColumn]:
            for part in task.parts:
                for table in read_parts([part], self.options, [learn.text_field]):
                    yield _chosen(text_column(table, learn.text_field))

        with scratch_folder() as folder:
            fit = Fit(texts, len(examples.targets), examples.parts, learn.features, folder)
            weights = _weights(examples, learn.training)
            trained = fit.run(layout_of(examples.heads), examples.targets, weights, learn.training)
        held = examples.held(learn, trained.held)
        heads = held.heads(examples.heads)
        figures = held.figures(heads)
        card = {**_card_of(learn, examples, trained.history, trained.kept), "figures": figures}
        student = Student(heads, trained.network, trained.counts, card)
        _write_figures(learn, held.page(heads, *_wrong_texts(learn, held, student, examples, texts)))
        student.save(str(learn.path), learn.storage_options)
        return DocumentBatch(data=table_of_figures(figures), key=task.key)


def _chosen(column: TextColumn) -> TextColumn:
    return TextColumn(np.asarray(column.offsets, np.int64), column.data)


@dataclass
class ExampleSet:
    """The examples without their texts.

    Args:
        heads: the heads.
        targets: of each text and head.
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
            raise DataError(f"stage {stage!r}: too few rows with a label and words to learn from: {count}; label more")
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
        "features": vars(learn.features),
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


def _wrong_texts(
    learn: Learn, held: Held, student: Student, examples: ExampleSet, texts: Callable[[], Iterator[TextColumn]]
) -> tuple[dict[int, str], Moved, int]:
    """The texts of wrong examples, by their places among those held back, and what moved the answers to them."""
    places = {place for part in held.parts(student.heads) for place in wrong(*part, learn.max_examples)}
    rows = {place: int(examples.parts.held[place]) for place in places}
    there = texts_at(texts(), rows.values()) if rows else {}
    by_place = {place: there[row] for place, row in rows.items()}

    def moved(place: int, head: StudentHead) -> list[tuple[str, float]]:
        def score(asked: list[str]) -> npt.NDArray[np.float64]:
            answers = student.answers(asked)[:, student.outputs_of(head.name)]
            if head.kind == "number":
                return head.scores(answers)
            return answers[:, int(np.argmax(np.nan_to_num(answers[0])))].astype(np.float64)

        return moved_by_words(by_place[place][:ASKED], score, WORDS)

    return by_place, moved, learn.max_examples
