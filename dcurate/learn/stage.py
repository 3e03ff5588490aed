"""`Learn`: trains a student on the labels of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from dcurate.core.stage import BarrierStage, Spec, Stage
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.document import DocumentBatch
from dcurate.fs.stores import Directory
from dcurate.learn.examples import (
    SelectExamples,
)
from dcurate.learn.student import CARD
from dcurate.learn.thresholds import ThresholdRule
from dcurate.learn.train import TrainStudent
from dcurate.learn.training import TextFeatures, Training, check_whole
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
    label. Rows without any label, texts without words, and rows without features are dropped and counted. The model
    depends on the rows and the settings alone: it is the same to the bit for any number of workers, files, batches and
    kills.

    Afterwards there is one row for each head, with its figures on the examples that were held back. ``figures.json``
    beside the model has what `dcurate.ui.student_page` draws: curves, reliability, thresholds, and the most wrong
    examples with the beginnings of their texts.

    Args:
        path: the folder to write the model to, local or a URL.
        head_fields: the columns of labels.
        text_field: the column of texts.
        features: the features of a text.
        feature_fields: columns of numbers or of lists of numbers, such as signals, scores and embeddings, that are
            learned from instead of the texts. Texts then only say which rows are near-duplicates or contradictory, and
            are not read with ``HeldBack(near_duplicates=False)``.
        training: how it is trained.
        held_back: mask of the examples that are kept back.
        contradictions: ``"error"`` refuses a text with two labels of one head; ``"drop"`` leaves such texts out.
        positive: by head of two classes the one whose probability is the score, such as ``{"label": "good"}``.
        thresholds: chooses the threshold of each flag and each head with a positive class.
        group_field: a column, such as the language or the source: each of its values gets a threshold of its own.
        figure_fields: further columns, such as the source, by whose values figures are also given.
        max_examples: number of the most wrong held examples of each head that ``figures.json`` shows, at most.
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
    feature_fields: Sequence[str] = ()
    training: Training = field(default_factory=Training)
    held_back: HeldBack = field(default_factory=HeldBack)
    contradictions: Contradictions = "error"
    positive: Mapping[str, str] = field(default_factory=dict)
    thresholds: ThresholdRule | None = None
    group_field: str | None = None
    figure_fields: Sequence[str] = ()
    max_examples: int = 10
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
            raise PipelineError(f"{self.name}: positive names {listed(unknown)}, not in head_fields")
        for setting in ("figure_fields", "feature_fields"):
            columns = getattr(self, setting)
            if isinstance(columns, str) or len(set(columns)) < len(columns):
                raise PipelineError(f"{self.name}: {setting}={columns!r} must be a list of different columns")
        if set(self.feature_fields) & set(self.head_fields):
            both = listed(sorted(set(self.feature_fields) & set(self.head_fields)))
            raise PipelineError(f"{self.name}: {both} in feature_fields and head_fields; no column predicts itself")
        if self.feature_fields and self.features != TextFeatures():
            raise PipelineError(f"{self.name}: features are of texts, and feature_fields of columns; give one of them")
        check_whole("max_examples", self.max_examples, 0, 1000)
        if self.thresholds is not None and not isinstance(self.thresholds, ThresholdRule):
            raise PipelineError(f"{self.name}: thresholds must be KeepByFBeta, KeepFraction or KeepPrecision")

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "storage_options"}

    def inputs(self) -> Spec:
        return [], self._select().inputs()[1]

    @property
    def reads_text(self) -> bool:
        """Whether the texts are read."""
        return not self.feature_fields or self.held_back.near_duplicates

    def figure_columns(self) -> list[str]:
        """The columns by which figures are also given."""
        return list(dict.fromkeys([*filter(None, [self.group_field]), *self.figure_fields]))

    def _select(self) -> SelectExamples:
        return SelectExamples(
            head_fields=tuple(self.head_fields),
            text_field=self.text_field,
            site_field=self.held_back.site_field,
            group_field=self.group_field,
            figure_fields=tuple(self.figure_fields),
            feature_fields=tuple(self.feature_fields),
            near_duplicates=self.held_back.near_duplicates,
            name=self.name,  # so that the report counts what it drops
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
        return [TrainStudent(self, url, dict(options), files, name=f"{self.name}_train")]
