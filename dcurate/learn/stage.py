"""`Learn`: trains a student on the labels of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dcurate.core.batch import BatchKey, FileGroup, FilePart
from dcurate.core.stage import BarrierStage, SourceStage, Spec, Stage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import lists_of, numbers, table_of, values
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import TextColumn, text_column
from dcurate.fs.stores import Directory
from dcurate.fs.temporary import scratch_folder
from dcurate.learn.examples import (
    BANDS,
    LABELS,
    SITE,
    TEXT,
    SelectExamples,
    contradictory,
    targets_of,
)
from dcurate.learn.measures import measures
from dcurate.learn.split import split
from dcurate.learn.student import CARD, Student, StudentHead, layout_of
from dcurate.learn.thresholds import ThresholdRule, calibration_of, thresholds_of
from dcurate.learn.training import ExampleSplit, Fit, Floats, Ints, TextFeatures, Trained, Training
from dcurate.shuffle.chunks import read_parts
from dcurate.shuffle.spill import SpilledRows, SpillWriter

Contradictions = Literal["error", "drop"]


@dataclass(frozen=True)
class HeldBack:
    """Which examples are kept back from training.

    Args:
        validation_fraction: the part of the examples that says when to stop.
        held_fraction: the part that figures, thresholds and calibration come from, and that nothing else sees.
        site_field: a column with the URL or the site of each text: texts of a site are in one part.
        near_duplicates: keep near-duplicates in one part.

    Raises:
        PipelineError: fractions that leave nothing to train on.

    Examples:
        >>> HeldBack(held_fraction=0.2, site_field="url").validation_fraction
        0.1
    """

    validation_fraction: float = 0.1
    held_fraction: float = 0.1
    site_field: str | None = None
    near_duplicates: bool = True

    def __post_init__(self) -> None:
        for name in ("validation_fraction", "held_fraction"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 0.5:
                raise PipelineError(f"{name}={value!r} must be from 0 to 0.5")
        if self.validation_fraction + self.held_fraction > 0.9:
            raise PipelineError("validation_fraction and held_fraction leave too little to train on; lower one of them")


@dataclass
class Learn(BarrierStage[DocumentBatch]):
    """Train a student on labelled rows: a linear model on fastText's features with a head for each column of labels.

    A column of texts makes a head of classes, one of true and false a flag, one of numbers a regression; null means no
    label. Rows without any label, and texts without words, are dropped and counted. The model depends on the rows and
    the settings alone: it is the same to the bit for any number of workers, files, batches and kills.

    Afterwards there is one row for each head, with its figures on the examples that were held back.

    Args:
        path: the folder to write the model to, local or a URL.
        head_fields: the columns of labels.
        text_field: the column of texts.
        features: the features of a text.
        training: how it is trained.
        held_back: which examples are kept back.
        contradictions: ``"error"`` refuses a text with two labels of one head; ``"drop"`` leaves such texts out.
        positive: by head of two classes the one whose probability is the score, such as ``{"label": "good"}``.
        thresholds: chooses the threshold of each flag and each head with a positive class.
        group_field: a column, such as the language or the source: each of its values gets a threshold of its own.
        calibration: ``"isotonic"`` or ``"platt"`` makes scores of positive classes shares.
        licence: the licence of the labels, for the card.
        mode: ``"error"`` refuses a folder that has a model, ``"overwrite"`` replaces it.
        storage_options: for fsspec.
        name: name of the stage.

    Raises:
        PipelineError: settings that cannot be.
        DataError: labels of one class only, contradictory labels, or too few.

    Examples:
        >>> Learn("model", head_fields=["quality"], training=Training(epochs=3)).inputs()
        ([], ['text', 'quality'])
    """

    path: str
    head_fields: Sequence[str] = ("label",)
    text_field: str = "text"
    features: TextFeatures = field(default_factory=TextFeatures)
    training: Training = field(default_factory=Training)
    held_back: HeldBack = field(default_factory=HeldBack)
    contradictions: Contradictions = "error"
    positive: Mapping[str, str] = field(default_factory=dict)
    thresholds: ThresholdRule | None = None
    group_field: str | None = None
    calibration: Literal["isotonic", "platt"] | None = None
    licence: str = ""
    mode: Literal["error", "overwrite"] = "error"
    storage_options: dict[str, Any] | None = None
    name: str = "learn"

    uses_columns_again: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.path:
            raise PipelineError(f"{self.name}: no path; give the folder to write the model to")
        if isinstance(self.head_fields, str) or not self.head_fields:
            raise PipelineError(f"{self.name}: head_fields={self.head_fields!r} must be a list of columns")
        if len(set(self.head_fields)) < len(self.head_fields):
            raise PipelineError(f"{self.name}: head_fields={list(self.head_fields)!r} name a column twice")
        for setting, allowed in (
            ("contradictions", ("error", "drop")),
            ("mode", ("error", "overwrite")),
            ("calibration", ("isotonic", "platt", None)),
        ):
            if getattr(self, setting) not in allowed:
                raise PipelineError(f"{self.name}: {setting}={getattr(self, setting)!r} is not one of {allowed}")
        unknown = sorted(set(self.positive) - set(self.head_fields))
        if unknown:
            raise PipelineError(f"{self.name}: positive names {listed(unknown)}, which is none of head_fields")
        if self.thresholds is not None and not isinstance(self.thresholds, ThresholdRule):
            raise PipelineError(f"{self.name}: thresholds must be KeepByFBeta, KeepFraction or KeepPrecision")

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "storage_options"}

    def inputs(self) -> Spec:
        return [], self._select().inputs()[1]

    def _select(self) -> SelectExamples:
        return SelectExamples(
            head_fields=tuple(self.head_fields),
            text_field=self.text_field,
            site_field=self.held_back.site_field,
            group_field=self.group_field,
            near_duplicates=self.held_back.near_duplicates,
            name=f"{self.name}_select",
        )

    def map_stages(self, url: str, options: Mapping[str, Any]) -> list[Stage]:
        folder = Directory(str(self.path), self.storage_options or {})
        if self.mode == "error" and folder.has(CARD):
            raise DataError(f"{self.name}: there is a model in {self.path!r}; use mode='overwrite', or another folder")
        spill = SpillWriter(url, mode="overwrite", storage_options=dict(options), name=f"{self.name}_to_disk")
        return [self._select(), spill]

    def reduce_stages(
        self, url: str, options: Mapping[str, Any], splits: Sequence[tuple[str, Sequence[str]]]
    ) -> list[Stage]:
        folder = Directory(url, options)
        written = SpilledRows.written(folder, splits)
        files = tuple(zip(written.names, written.sizes, strict=True))
        return [TrainStudent(self, url, dict(options), files, name=self.name)]


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
        examples = _Examples.read(self.name, learn, task.parts, self.options)

        def texts() -> Iterator[TextColumn]:
            for part in task.parts:
                for table in read_parts([part], self.options, [learn.text_field]):
                    yield _chosen(text_column(table, learn.text_field))

        with scratch_folder() as folder:
            fit = Fit(texts, len(examples.targets), examples.parts, learn.features, folder)
            weights = _weights(examples, learn.training)
            trained = fit.run(layout_of(examples.heads), examples.targets, weights, learn.training)
        student, figures = _judged(learn, examples, trained)
        student.save(str(learn.path), learn.storage_options)
        return DocumentBatch(data=_table(figures), key=task.key)


def _chosen(column: TextColumn) -> TextColumn:
    return TextColumn(np.asarray(column.offsets, np.int64), column.data)


@dataclass
class _Examples:
    """The examples without their texts.

    Args:
        heads: the heads.
        targets: of each text and head.
        parts: the split.
        groups: the group of each text, if there is a column of groups.
        dropped: number of texts with contradictory labels.
    """

    heads: tuple[StudentHead, ...]
    targets: Floats
    parts: ExampleSplit
    groups: list[str | None] | None
    dropped: int

    @classmethod
    def read(cls, stage: str, learn: Learn, files: Sequence[FilePart], options: dict[str, Any]) -> _Examples:
        labels: dict[str, list[Any]] = {name: [] for name in learn.head_fields}
        groups: list[str | None] = []
        keys: dict[str, list[npt.NDArray[np.uint64]]] = {name: [] for name in (TEXT, LABELS, SITE, BANDS)}
        columns = list(dict.fromkeys([*labels, *filter(None, [learn.group_field]), TEXT, LABELS, SITE, BANDS]))
        for part in files:
            for table in read_parts([part], options, columns):
                for name in labels:
                    labels[name] += values(table, name)
                if learn.group_field:
                    names = values(table, learn.group_field)
                    groups += [None if name is None else str(name) for name in names]
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
        examples = cls(heads, made.targets, parts, groups or None, int(wrong.sum()))
        examples.check(stage, learn)
        return examples

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


def _weights(examples: _Examples, training: Training) -> Floats:
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


def _judged(learn: Learn, examples: _Examples, trained: Trained) -> tuple[Student, list[dict[str, Any]]]:
    """The student with thresholds, calibration and a card; and the figures of its heads."""
    held = examples.parts.held
    heads, figures, first = [], [], 0
    for number, head in enumerate(examples.heads):
        answers = trained.held[:, first : first + head.outputs]
        first += head.outputs
        targets = examples.targets[held, number]
        heads.append(_with_thresholds(learn, head, answers, targets, examples.groups and _at(examples.groups, held)))
        figures.append({"head": head.name, "kind": head.kind, **measures(head, answers, targets)})
    parts = examples.parts
    card = {
        "features": vars(learn.features),
        "training": {**vars(learn.training), "epochs_run": len(trained.history), "epoch_kept": trained.kept},
        "history": [list(epoch) for epoch in trained.history],
        "data": {
            "train": len(parts.train),
            "validation": len(parts.validation),
            "held": len(parts.held),
            "contradictory": examples.dropped,
            "site_field": learn.held_back.site_field,
            "near_duplicates_kept_together": learn.held_back.near_duplicates,
        },
        "licence": learn.licence,
        "figures": figures,
    }
    return Student(tuple(heads), trained.network, trained.counts, card), figures


def _at(groups: Sequence[str | None], rows: Ints) -> list[str | None]:
    return [groups[row] for row in rows.tolist()]


def _with_thresholds(
    learn: Learn, head: StudentHead, answers: Floats, targets: Floats, groups: Sequence[str | None] | None
) -> StudentHead:
    known = ~np.isnan(targets)
    if not head.positive or not known.any():
        return head
    scores = head.scores(answers)[known]
    truth = targets[known] == head.labels.index(head.positive)
    chosen = None if groups is None else [group for group, there in zip(groups, known, strict=True) if there]
    if learn.thresholds is not None:
        head = replace(head, thresholds=thresholds_of(learn.thresholds, scores, truth, chosen))
    if learn.calibration is not None:
        head = replace(head, calibration=calibration_of(learn.calibration, scores, truth))
    return head


def _table(figures: Sequence[Mapping[str, Any]]) -> Any:
    names = ("rows", "auc", "f1", "accuracy", "mean_absolute_error", "r2")
    columns: dict[str, Any] = {name: [figure[name] for figure in figures] for name in ("head", "kind")}
    for name in names:
        columns[name] = np.array([figure.get(name, np.nan) for figure in figures], np.float64)
    return table_of(columns)
