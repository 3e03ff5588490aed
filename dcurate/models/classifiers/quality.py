"""Single-label classifiers with an encoder and one layer: quality, domain, content type.

Everything here has run on CPUs only, with small random weights of the same layout; it is untested on a GPU, and the
published weights were not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError
from dcurate.models.classifiers.base import Classifier, LabellingStage
from dcurate.models.classifiers.checkpoint import linear, network, weights_in
from dcurate.models.classifiers.labels import Label, config_in, labels_of, named


@dataclass
class ClassifierModel(LabellingStage):
    """Add the most likely label, and optionally all probabilities, by an encoder and a layer over its first token.

    Args:
        label_field: the column for the label.
        score_field: a column for the probabilities of all labels, in the order of ``config.json``; None by default.
    """

    gpu_share: ClassVar[float] = 0.5

    label_field: str = "preds"
    score_field: str | None = None

    def outputs(self) -> Spec:
        return ["data"], [field for field in (self.label_field, self.score_field) if field is not None]

    def labels(self, folder: str) -> Sequence[Label]:
        labels = labels_of(config_in(folder), repr(folder))
        if labels is None:
            raise DataError(
                f"config.json of {folder!r} has no id2label; add the labels in the order of the model's outputs"
            )
        return labels

    def load_model(self, folder: str, device: Any) -> Any:
        tensors = weights_in(self.weights, folder)
        layer = linear(self.weights, tensors, "fc")
        labels = self.labels(folder)
        if len(labels) != layer.out_features:
            raise DataError(
                f"config.json of {self.weights} has {len(labels)} labels in id2label, but the model has "
                f"{layer.out_features} outputs; copy it from the model"
            )
        return network(self.weights, folder, tensors, "model", {"fc": layer}, _over_first_token)

    def process_model_output(self, outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"probabilities": outputs.float().softmax(dim=1)}

    def columns(self, collected: Mapping[str, Any]) -> dict[str, Any]:
        probabilities = collected["probabilities"]
        added: dict[str, Any] = {self.label_field: named(self._labels, probabilities.argmax(axis=1))}
        return added if self.score_field is None else {**added, self.score_field: probabilities}


def _over_first_token(module: Any, states: Any, mask: Any) -> Any:
    return module.fc(states[:, 0].float())


@dataclass(kw_only=True)
class DistributedDataClassifier(Classifier):
    """A classifier with an encoder and one layer over its first token, in NVIDIA's checkpoint format.

    The label of a text is the likeliest; ``score_field`` names a column for the probabilities of all labels, as lists
    of one length in the order of ``id2label`` in the model's ``config.json``. Arguments that are not named here are
    those of every classifier (`Classifier`).

    Args:
        label_field: the column for the label.
        score_field: a column for the probabilities, or None.
        max_seq_length: tokens of a text passed to the model; the tokenizer's limit by default.

    Examples:
        >>> stage = DistributedDataClassifier(model="org/my-classifier", filter_by=["good"])
        >>> stage.name, [inner.name for inner in stage.decompose()]
        ('my_classifier_classifier', ['my_classifier_tokenizer', 'my_classifier_model', 'filter_fn'])
    """

    label_field: str = "preds"
    score_field: str | None = None
    max_seq_length: int | None = None

    @property
    def filtered_field(self) -> str:
        return self.label_field

    def tokenizer_settings(self) -> dict[str, Any]:
        return {**super().tokenizer_settings(), "max_seq_length": self.max_seq_length}

    def model_stage(self) -> ProcessingStage[Any, Any]:
        settings = {
            **self.model_settings(),
            "max_seq_length": self.max_seq_length if self.use_existing_tokens else None,
        }
        return ClassifierModel(**settings, label_field=self.label_field, score_field=self.score_field)


@dataclass(kw_only=True)
class QualityClassifier(DistributedDataClassifier):
    """Classify the quality of a text: ``High``, ``Medium`` or ``Low`` (NVIDIA's model, for English).

    The first 6,000 characters and 1,024 tokens are looked at.

    Examples:
        >>> QualityClassifier(filter_by=["High", "Medium"]).outputs()[1]
        ['quality_pred']
        >>> QualityClassifier(filter_by=["high"])
        Traceback (most recent call last):
        ...
        dcurate.errors.PipelineError: stage 'quality_classifier_deberta_classifier': filter_by has an ...
    """

    model: str = "nvidia/quality-classifier-deberta"
    label_field: str = "quality_pred"
    max_chars: int | None = 6000
    max_seq_length: int | None = 1024

    hub_labels: ClassVar[Mapping[str, Sequence[Label]]] = {
        "nvidia/quality-classifier-deberta": ("High", "Medium", "Low")
    }


_DOMAINS = (
    "Adult",
    "Arts_and_Entertainment",
    "Autos_and_Vehicles",
    "Beauty_and_Fitness",
    "Books_and_Literature",
    "Business_and_Industrial",
    "Computers_and_Electronics",
    "Finance",
    "Food_and_Drink",
    "Games",
    "Health",
    "Hobbies_and_Leisure",
    "Home_and_Garden",
    "Internet_and_Telecom",
    "Jobs_and_Education",
    "Law_and_Government",
    "News",
    "Online_Communities",
    "People_and_Society",
    "Pets_and_Animals",
    "Real_Estate",
    "Science",
    "Sensitive_Subjects",
    "Shopping",
    "Sports",
    "Travel_and_Transportation",
)


@dataclass(kw_only=True)
class DomainClassifier(DistributedDataClassifier):
    """Classify the topic of a text: one of 26 domains such as ``Finance`` or ``Science`` (NVIDIA's model, for English).

    The first 2,000 characters and 512 tokens are looked at.

    Examples:
        >>> DomainClassifier(score_field="domains").outputs()[1]
        ['domain_pred', 'domains']
    """

    model: str = "nvidia/domain-classifier"
    label_field: str = "domain_pred"
    max_chars: int | None = 2000
    max_seq_length: int | None = 512

    hub_labels: ClassVar[Mapping[str, Sequence[Label]]] = {"nvidia/domain-classifier": _DOMAINS}


@dataclass(kw_only=True)
class MultilingualDomainClassifier(DistributedDataClassifier):
    """Classify the topic of a text in one of 52 languages: the 26 domains of `DomainClassifier` (NVIDIA's model).

    The first 2,000 characters and 512 tokens are looked at.

    Examples:
        >>> MultilingualDomainClassifier().outputs()[1]
        ['multilingual_domain_pred']
    """

    model: str = "nvidia/multilingual-domain-classifier"
    label_field: str = "multilingual_domain_pred"
    max_chars: int | None = 2000
    max_seq_length: int | None = 512

    hub_labels: ClassVar[Mapping[str, Sequence[Label]]] = {"nvidia/multilingual-domain-classifier": _DOMAINS}


@dataclass(kw_only=True)
class ContentTypeClassifier(DistributedDataClassifier):
    """Classify the content type of a text: one of 11 such as ``News`` or ``Boilerplate Content`` (NVIDIA's, English).

    The first 6,000 characters and 1,024 tokens are looked at.

    Examples:
        >>> ContentTypeClassifier().outputs()[1]
        ['content_pred']
    """

    model: str = "nvidia/content-type-classifier-deberta"
    label_field: str = "content_pred"
    max_chars: int | None = 6000
    max_seq_length: int | None = 1024

    hub_labels: ClassVar[Mapping[str, Sequence[Label]]] = {
        "nvidia/content-type-classifier-deberta": (
            "Product/Company/Organization/Personal Websites",
            "Explanatory Articles",
            "News",
            "Blogs",
            "MISC",
            "Boilerplate Content",
            "Analytical Exposition",
            "Online Comments",
            "Reviews",
            "Books and Literature",
            "Conversational",
        )
    }
