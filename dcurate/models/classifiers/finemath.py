"""FineMath's scorer of mathematical texts.

Everything here has run on CPUs only, with small random weights of the same layout; it is untested on a GPU, and the
published weights were not loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dcurate.core.stage import ProcessingStage
from dcurate.errors import PipelineError
from dcurate.models.classifiers.base import Classifier
from dcurate.models.classifiers.labels import Label
from dcurate.models.classifiers.sequence import ScoreModel
from dcurate.models.tokenizer import Tokenize


def centre(text: str, chars: int) -> str:
    """The middle of a text: up to a number of characters on each side of the centre.

    Examples:
        >>> centre("0123456789", 2), centre("abc", 2)
        ('3456', 'abc')
    """
    middle = len(text) // 2
    return text[max(0, middle - chars) : middle + chars]


@dataclass
class CentreTokenizer(Tokenize):
    """Tokenize the middle of each text.

    Args:
        center_crop_chars: characters on each side of the middle; None takes the whole text.
    """

    center_crop_chars: int | None = None

    def texts(self, table: Any) -> list[str]:
        texts = super().texts(table)
        return texts if self.center_crop_chars is None else [centre(text, self.center_crop_chars) for text in texts]


@dataclass
class FineMathModel(ScoreModel):
    """Add a score from 0 to 5, and the nearest whole number."""

    gpu_share: ClassVar[float] = 0.5


@dataclass(kw_only=True)
class FineMathClassifier(Classifier):
    """Score the educational value of mathematical texts from 0 to 5: the FineMath classifier (Allal et al., 2025).

    The score is what the model says, cut to 0 to 5, and the whole number nearest to it. The middle of a text is looked
    at, up to 20,000 characters, of these 512 tokens; the column itself stays as it is. (NeMo Curator puts the middle in
    its place.) Arguments that are not named here are those of every classifier (`Classifier`); there are no labels to
    filter by.

    Args:
        float_score_field: the column for the score.
        int_score_field: the column for the whole number.
        center_crop_chars: characters on each side of the middle of a text that are looked at; None or 0 for all.
        max_seq_length: tokens of a text that the model is shown.

    Examples:
        >>> stage = FineMathClassifier()
        >>> stage.name, stage.outputs()[1]
        ('finemath_classifier_classifier', ['finemath_scores', 'finemath_int_scores'])
    """

    model: str = "HuggingFaceTB/finemath-classifier"
    float_score_field: str = "finemath_scores"
    int_score_field: str = "finemath_int_scores"
    max_seq_length: int | None = 512
    sort_by_length: bool = True
    model_inference_batch_size: int = 1024
    center_crop_chars: int | None = 10_000

    def __post_init__(self) -> None:
        if self.wanted:
            raise PipelineError(
                "FineMathClassifier has scores and no labels to filter by; put "
                f"Filter(lambda score: score >= 3, {self.int_score_field!r}) after it"
            )
        if self.center_crop_chars is not None and self.center_crop_chars < 0:
            raise PipelineError(f"center_crop_chars={self.center_crop_chars} must not be below 0")
        super().__post_init__()

    @property
    def filtered_field(self) -> str:
        return self.int_score_field

    @property
    def known_labels(self) -> Sequence[Label] | None:
        return None

    def before_model(self) -> list[ProcessingStage[Any, Any]]:
        settings = {**self.tokenizer_settings(), "max_seq_length": self.max_seq_length}
        return [CentreTokenizer(**settings, center_crop_chars=self.center_crop_chars or None)]

    def model_stage(self) -> ProcessingStage[Any, Any]:
        return FineMathModel(
            **self.model_settings(),
            max_seq_length=self.max_seq_length,
            label_field=None,
            float_score_field=self.float_score_field,
            int_score_field=self.int_score_field,
        )
