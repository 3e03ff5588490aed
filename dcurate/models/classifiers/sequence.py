"""Hugging Face classifiers and scorers: any `AutoModelForSequenceClassification`.

Everything here has run on CPUs only, with small random weights; it is untested on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, listed
from dcurate.hub.loading import pretrained
from dcurate.models.classifiers.base import Classifier, LabellingStage
from dcurate.models.classifiers.labels import Label, config_in, is_model_folder, labels_of, named

#: What the outputs of a model are: of labels that exclude each other, of labels that do not, or a number.
Task = Literal["single_label", "multi_label", "regression"]

_PROBLEMS = {
    "single_label_classification": "single_label",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}


@dataclass
class SequenceModel(LabellingStage):
    """Run a model with an output for each label, or one for a score."""

    def load_model(self, folder: str, device: Any) -> Any:
        model = pretrained("AutoModelForSequenceClassification", self.weights, folder, device)
        if model.config.pad_token_id is None:  # decoders without one refuse batches
            model.config.pad_token_id = 0
        return model

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"logits": outputs.logits.float()}


@dataclass
class ScoreModel(SequenceModel):
    """Run a model with one score per text, clipped to 0 to 5.

    Args:
        float_score_field: the column for the number, cut to that range.
        int_score_field: the column for the nearest whole number; from halfway to the even one.
        label_field: a column for the label, or None: ``high_quality`` from 2.5, or ``low_quality``.
    """

    float_score_field: str = "float_score"
    int_score_field: str = "int_score"
    label_field: str | None = "preds"

    def outputs(self) -> Spec:
        fields = (self.label_field, self.float_score_field, self.int_score_field)
        return ["data"], [name for name in fields if name is not None]

    def load_model(self, folder: str, device: Any) -> Any:
        model = super().load_model(folder, device)
        if model.config.num_labels != 1:
            raise DataError(
                f"{self.weights} has {model.config.num_labels} outputs, not the one of a scorer; use SequenceClassifier"
            )
        return model

    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        scores = np.clip(collected["logits"][:, 0], 0.0, 5.0)
        added = {self.float_score_field: scores, self.int_score_field: np.round(scores).astype(np.int64)}
        if self.label_field is None:
            return added
        return {self.label_field: [QUALITIES[int(score >= _HIGH)] for score in scores], **added}


#: What a score means.
QUALITIES = ("low_quality", "high_quality")
_HIGH = 2.5


@dataclass
class ClassifySequences(SequenceModel):
    """The stages of `SequenceClassifier`; its arguments are described there."""

    task: Task = "single_label"
    names: tuple[str, ...] = ()
    label_field: str = "label"
    score_field: str | None = "score"
    probabilities_field: str | None = None
    threshold: float = 0.5

    def outputs(self) -> Spec:
        if self.task == "regression":
            return ["data"], [name for name in (self.score_field,) if name is not None]
        fields = (self.label_field, self.score_field, self.probabilities_field)
        return ["data"], [name for name in fields if name is not None]

    def labels(self, folder: str) -> Sequence[Label] | None:
        return checked_labels(self.name, str(self.weights), config_in(folder), self.task, self.names)

    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        if self.task == "regression":
            return {self.score_field or "": collected["logits"][:, 0]}
        probabilities = collected["probabilities"]
        likeliest = probabilities.max(axis=1, initial=0.0)
        labels: Any = named(self._labels, probabilities.argmax(axis=1))
        if self.task == "multi_label":
            labels = tuple(named(self._labels, np.flatnonzero(row)) for row in probabilities >= self.threshold)
        added = {self.label_field: labels, self.score_field: likeliest, self.probabilities_field: probabilities}
        return {name: content for name, content in added.items() if name is not None}

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        logits = outputs.logits.float()
        if self.task == "regression":
            return {"logits": logits}
        return {"probabilities": logits.softmax(dim=1) if self.task == "single_label" else logits.sigmoid()}


def checked_labels(
    stage: str, model: str, config: Mapping[str, Any], task: Task, names: Sequence[str]
) -> Sequence[str] | None:
    """The labels of a model, checked against the task; None for a regression.

    Args:
        names: labels to use instead of those of the configuration, if not empty.

    Raises:
        PipelineError: the model is for another task, or has too few labels, or not as many as names were given.
        DataError: it names no labels.

    Examples:
        >>> checked_labels("mood", "a model", {"id2label": {"0": "sad", "1": "glad"}}, "single_label", ())
        ['sad', 'glad']
    """
    meant = _PROBLEMS.get(str(config.get("problem_type")), task)
    if meant != task:
        raise PipelineError(
            f"stage {stage!r}: config.json of {model} says that it is for {config['problem_type']!r}; "
            f"pass task={meant!r}"
        )
    model_labels = labels_of(config, model)
    if task == "regression":
        if model_labels is not None and len(model_labels) != 1:
            raise PipelineError(
                f"stage {stage!r}: {model} has {len(model_labels)} outputs, a regression has one; "
                "pass task='single_label'"
            )
        return None
    labels = list(names) or model_labels
    if labels is None:
        raise DataError(f"config.json of {model} has no id2label; pass labels=[...] in the order of its outputs")
    if model_labels is not None and len(labels) != len(model_labels):
        raise PipelineError(
            f"stage {stage!r}: {len(labels)} labels for the {len(model_labels)} outputs of {model}; give one each"
        )
    if len(labels) < (2 if task == "single_label" else 1):
        raise PipelineError(
            f"stage {stage!r}: {model} has one output, a number and no choice of labels; pass task='regression'"
        )
    return labels


@dataclass(kw_only=True)
class SequenceClassifier(Classifier):
    """Add labels or scores of any Hugging Face model for sequence classification.

    Other arguments are those of every classifier (`Classifier`).

    Args:
        model: an id at the Hugging Face hub, or a local folder that ``save_pretrained`` wrote.
        task: ``"single_label"`` gives the likeliest label (softmax), ``"multi_label"`` a list of all labels that are
            likely enough (sigmoid), ``"regression"`` a number and no label.
        labels: names of the outputs, in order; by default ``id2label`` of the model's ``config.json``.
        label_field: the column for the label, or for the list of labels.
        score_field: the column for the probability of the likeliest label, or for the number; or None.
        probabilities_field: a column for the probabilities of all labels, as lists of one length; or None.
        threshold: the least probability of a label in a list.
        max_seq_length: tokens of a text passed to the model; the tokenizer's limit by default.
        trust_remote_code: whether code that comes with the model may be run; one of the hub needs a commit as
            `revision`.

    Raises:
        PipelineError: the model has no labels such as the task asks for, or one of ``filter_by`` is not among them;
            when the stage is made if the model is a folder, else at set-up.
        DataError: ``config.json`` names no labels, and none are given.

    Examples:
        >>> stage = SequenceClassifier("org/mood", filter_by=["glad"])
        >>> [inner.name for inner in stage.decompose()], stage.outputs()[1]
        (['mood_tokenizer', 'mood_model', 'filter_fn'], ['label', 'score'])
    """

    model: str = field(kw_only=False)
    task: Task = "single_label"
    labels: Sequence[str] | None = None
    label_field: str = "label"
    score_field: str | None = "score"
    probabilities_field: str | None = None
    threshold: float = 0.5
    max_seq_length: int | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise PipelineError(f"stage {self.model!r}: task={self.task!r} must be one of {listed(get_args(Task))}")
        if not 0 <= self.threshold <= 1:
            raise PipelineError(f"stage {self.model!r}: threshold={self.threshold!r} must be from 0 to 1")
        if self.task == "regression" and (self.wanted or self.probabilities_field or not self.score_field):
            raise PipelineError(
                f"stage {self.model!r}: a regression has no labels, only a score; name score_field alone, and put "
                "Filter(lambda score: ..., score_field) after the stage in place of filter_by"
            )
        super().__post_init__()

    @property
    def filtered_field(self) -> str:
        return self.label_field

    @property
    def known_labels(self) -> Sequence[Label] | None:
        if not is_model_folder(self.model):
            return list(self.labels) if self.labels else None
        return checked_labels(self.model, repr(self.model), config_in(self.model), self.task, self.labels or ())

    def tokenizer_settings(self) -> dict[str, Any]:
        settings = {"max_seq_length": self.max_seq_length, "trust_remote_code": self.trust_remote_code}
        return {**super().tokenizer_settings(), **settings}

    def model_stage(self) -> ProcessingStage[Any, Any]:
        return ClassifySequences(
            **self.model_settings(),
            max_seq_length=self.max_seq_length if self.use_existing_tokens else None,
            trust_remote_code=self.trust_remote_code,
            task=self.task,
            names=tuple(self.labels or ()),
            label_field=self.label_field,
            score_field=self.score_field,
            probabilities_field=self.probabilities_field,
            threshold=self.threshold,
        )
