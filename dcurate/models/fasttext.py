"""Labels and scores of a fastText model: on CPUs, thousands of documents per second and core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dcurate.core.stage import CompositeStage, NodeInfo, ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError, nearest
from dcurate.frames.columns import with_column, with_text
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import text_column
from dcurate.models.classifiers.columns import distinct, record_labels
from dcurate.models.classifiers.labels import FilterByLabel, check_wanted, wanted_labels
from dcurate.text.fasttext import FastTextModel, compile_kernels

_PREFIX = "__label__"
#: Attributes made by `setup`, which are not pickled.
_OF_SLOT = ("_model", "_labels")


@dataclass(kw_only=True)
class RunFastText(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Add a fastText model's label for a text, and its probability; part of `FastTextClassifier`."""

    paths: ClassVar[tuple[str, ...]] = ("model",)

    model: str | os.PathLike[str]
    label_field: str = "label"
    score_field: str | None = "score"
    score_of: str | None = None
    text_field: str = "text"
    wanted: tuple[str, ...] = ()
    overwrite: bool = False
    name: str = "fasttext_model"

    def __post_init__(self) -> None:
        if not self.model:
            raise PipelineError(f"stage {self.name!r}: no model; give the path of a fastText model (.bin, .ftz)")
        if self.score_of is not None and self.score_field is None:
            raise PipelineError(
                f"stage {self.name!r}: score_of={self.score_of!r} without a score_field; name the column"
            )
        distinct(self.name, self.outputs()[1])

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [field for field in (self.label_field, self.score_field) if field is not None]

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in _OF_SLOT}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_SLOT}

    def setup_on_node(self, node_info: NodeInfo | None = None, worker_metadata: WorkerMetadata | None = None) -> None:
        if not os.path.isfile(self.model):
            raise DataError(
                f"stage {self.name!r}: no fastText model at {os.fspath(self.model)!r}; put it there on every "
                "host, or give the path where it is"
            )
        compile_kernels()

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        self.setup_on_node()
        self._model = FastTextModel.load(os.fspath(self.model))
        self._labels = [label.removeprefix(_PREFIX) for label in self._model.labels]
        check_wanted(self.name, self.wanted, self._labels)
        if self.score_of is not None and self.score_of not in self._labels:
            raise PipelineError(
                f"stage {self.name!r}: score_of={self.score_of!r} is not a label of the model"
                f"{nearest(self.score_of, self._labels)}"
            )

    def process(self, task: DocumentBatch) -> DocumentBatch:
        self.check_columns(task.get_columns())
        table = task.to_arrow()
        column = text_column(table, self.text_field)
        of = self._labels.index(self.score_of) if self.score_of is not None else -1
        predictions = self._model.classify(*column, np.arange(len(column)), of)
        names = [*self._labels, None]  # the last one for texts without known tokens
        table = with_text(table, self.label_field, [names[label] for label in predictions.label])
        if self.score_field is not None:
            scores = predictions.probability if of < 0 else predictions.wanted
            table = with_column(table, self.score_field, np.minimum(scores, 1.0))
        return record_labels(task.with_data(table), self.name, self.outputs()[1])


@dataclass(kw_only=True)
class FastTextClassifier(CompositeStage[DocumentBatch, DocumentBatch]):
    """Add the label of your own fastText model for each text, and its probability; runs on CPUs only.

    dcurate reads the model itself and runs it in compiled kernels, whose numbers equal fastText's. Labels have no
    ``__label__`` prefix. A text without known tokens has a null label and the score 0; a null text counts
    as empty. Newlines are like spaces. To keep texts by a draw, as GPT-3's rule does, use `FastTextQualityFilter`.

    Args:
        model: a supervised fastText model, ``.bin`` or ``.ftz``; it must be there on every host.
        label_field: the column for the label.
        score_field: the column for its probability, or None.
        score_of: the label whose probability the score is, such as ``"hq"``; by default that of the likeliest.
        text_field: the column that is classified.
        filter_by: labels to keep; rows with others, or none, are dropped and counted label by label. All by default.
        overwrite: replace columns of these names instead of refusing.
        name: name of the stage, and the prefix of the names of its two inner stages.

    Raises:
        PipelineError: no ``model``, a column that is there already, or a label that the model does not have.
        DataError: the file does not exist, or it is not a supervised fastText model.

    Examples:
        >>> stage = FastTextClassifier(model="quality.bin", filter_by=["hq"])
        >>> [inner.name for inner in stage.decompose()]
        ['fasttext_classifier_model', 'filter_fn']
    """

    paths: ClassVar[tuple[str, ...]] = ("model",)

    model: str | os.PathLike[str]
    label_field: str = "label"
    score_field: str | None = "score"
    score_of: str | None = None
    text_field: str = "text"
    filter_by: Sequence[str] | None = None
    overwrite: bool = False
    name: str = "fasttext_classifier"

    def __post_init__(self) -> None:
        self.decompose()

    def decompose(self) -> list[ProcessingStage[Any, Any]]:
        wanted = tuple(str(label).removeprefix(_PREFIX) for label in wanted_labels(self.filter_by))
        model = RunFastText(
            model=self.model,
            label_field=self.label_field,
            score_field=self.score_field,
            score_of=self.score_of.removeprefix(_PREFIX) if self.score_of is not None else None,
            text_field=self.text_field,
            wanted=wanted,
            overwrite=self.overwrite,
            name=f"{self.name}_model",
        )
        return [model, FilterByLabel(self.label_field, wanted, self.text_field)] if wanted else [model]
