"""Scorers of educational texts with one number from 0 to 5: FineWeb-Edu's, and two by NVIDIA that follow it.

Everything here has run on CPUs only, with small random weights of the same layout; it is untested on a GPU, and the
published weights were not loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.core.stage import ProcessingStage
from dcurate.models.classifiers.base import Classifier
from dcurate.models.classifiers.labels import Label
from dcurate.models.classifiers.sequence import QUALITIES, ScoreModel


@dataclass
class FineWebModel(ScoreModel):
    """Add a score from 0 to 5, the nearest whole number, and ``high_quality`` from 2.5."""

    gpu_share: ClassVar[float] = 0.5


@dataclass(kw_only=True)
class _FineWebClassifier(Classifier):
    """Common settings of the three.

    The score is what the model says, cut to 0 to 5; the whole number nearest to it, from halfway the even one, as
    Python rounds; and ``high_quality`` from 2.5 on, else ``low_quality``. The first 512 tokens are looked at. Arguments
    that are not named here are those of every classifier (`Classifier`).

    Args:
        label_field: the column for ``high_quality`` or ``low_quality``.
        float_score_field: the column for the score.
        int_score_field: the column for the whole number.
        max_seq_length: tokens of a text that the model is shown.
    """

    label_field: str
    float_score_field: str
    int_score_field: str
    max_seq_length: int | None = 512

    @property
    def filtered_field(self) -> str:
        return self.label_field

    @property
    def known_labels(self) -> Sequence[Label] | None:
        return QUALITIES

    def tokenizer_settings(self) -> dict[str, Any]:
        return {**super().tokenizer_settings(), "max_seq_length": self.max_seq_length}

    def model_stage(self) -> ProcessingStage[Any, Any]:
        return FineWebModel(
            **self.model_settings(),
            max_seq_length=self.max_seq_length,
            label_field=self.label_field,
            float_score_field=self.float_score_field,
            int_score_field=self.int_score_field,
        )


@dataclass(kw_only=True)
class FineWebEduClassifier(_FineWebClassifier):
    """Score the educational value of a text from 0 to 5: the FineWeb-Edu classifier (Lozhkov et al., 2024; English).

    FineWeb-Edu keeps scores of 3 or more: ``Filter(lambda score: score >= 3, "fineweb-edu-score-int")``;
    ``filter_by=["high_quality"]`` keeps scores of 2.5 or more.

    Examples:
        >>> FineWebEduClassifier(filter_by=["high_quality"]).outputs()[1]
        ['fineweb-edu-score-label', 'fineweb-edu-score-float', 'fineweb-edu-score-int']
    """

    model: str = "HuggingFaceFW/fineweb-edu-classifier"
    label_field: str = "fineweb-edu-score-label"
    float_score_field: str = "fineweb-edu-score-float"
    int_score_field: str = "fineweb-edu-score-int"


@dataclass(kw_only=True)
class FineWebMixtralEduClassifier(_FineWebClassifier):
    """Like `FineWebEduClassifier`, with a model trained on labels of Mixtral 8x22B (NVIDIA).

    Examples:
        >>> FineWebMixtralEduClassifier().model_inference_batch_size
        1024
    """

    model: str = "nvidia/nemocurator-fineweb-mixtral-edu-classifier"
    label_field: str = "fineweb-mixtral-edu-score-label"
    float_score_field: str = "fineweb-mixtral-edu-score-float"
    int_score_field: str = "fineweb-mixtral-edu-score-int"
    model_inference_batch_size: int = 1024


@dataclass(kw_only=True)
class FineWebNemotronEduClassifier(_FineWebClassifier):
    """Like `FineWebEduClassifier`, with a model trained on labels of Nemotron-4 340B (NVIDIA).

    Examples:
        >>> FineWebNemotronEduClassifier().name
        'nemocurator_fineweb_nemotron_4_edu_classifier_classifier'
    """

    model: str = "nvidia/nemocurator-fineweb-nemotron-4-edu-classifier"
    label_field: str = "fineweb-nemotron-edu-score-label"
    float_score_field: str = "fineweb-nemotron-edu-score-float"
    int_score_field: str = "fineweb-nemotron-edu-score-int"
    model_inference_batch_size: int = 1024
