"""The FineMath classifier in NeMo Curator's parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dcurate.compat.nemo.models import (
    ATTENTION_MASK_FIELD,
    ModelStage,
    TokenizerStage,
    format_name_with_suffix,
    model_device,
)
from dcurate.compat.nemo.rows import with_rows
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Spec
from dcurate.compat.nemo.tasks import DocumentBatch
from dcurate.hub.loading import pretrained
from dcurate.models.classifiers.finemath import centre
from dcurate.models.tokenizer import INPUT_ID_FIELD

FINEMATH_MODEL_ID = "HuggingFaceTB/finemath-classifier"
HIGHEST = 5.0


class CenterCropTextStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Put the middle of each text in its place.

    Args:
        text_field: the column with the text.
        center_crop_chars: characters on each side of the middle; 0 for the whole text.
    """

    def __init__(self, text_field: str = "text", center_crop_chars: int = 10_000) -> None:
        self.text_field = text_field
        self.center_crop_chars = max(0, int(center_crop_chars))
        self.name = format_name_with_suffix(FINEMATH_MODEL_ID, "_center_crop")

    def inputs(self) -> Spec:
        return ["data"], [self.text_field]

    def outputs(self) -> Spec:
        return ["data"], [self.text_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        """Crop each text."""
        frame = task.to_pandas()
        if self.text_field not in frame or not self.center_crop_chars:
            return task
        texts = [centre(str(text), self.center_crop_chars) for text in frame[self.text_field]]
        return with_rows(task, frame.assign(**{self.text_field: texts}))


class FineMathModelStage(ModelStage):
    """Add a score from 0 to 5, and the nearest whole number.

    Args:
        float_score_column: the column for the score.
        int_score_column: the column for the whole number.
        model_identifier and all others: the same settings as in `ModelStage`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - NeMo Curator's order
        self,
        model_identifier: str,
        cache_dir: str | None = None,
        float_score_column: str = "finemath_scores",
        int_score_column: str = "finemath_int_scores",
        model_inference_batch_size: int = 256,
        has_seq_order: bool = True,
        autocast: bool = True,
    ) -> None:
        super().__init__(
            model_identifier,
            cache_dir,
            model_inference_batch_size=model_inference_batch_size,
            has_seq_order=has_seq_order,
            unpack_inference_batch=True,
            autocast=autocast,
        )
        self.float_score_column = float_score_column
        self.int_score_column = int_score_column

    def outputs(self) -> Spec:
        return ["data"], [self.float_score_column, self.int_score_column]

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the model."""
        device = model_device(self, worker_metadata)
        folder = self.weights.folder()
        self.model = pretrained("AutoModelForSequenceClassification", self.weights, folder, device).to(device).eval()

    def _model_forward(self, model_input_batch: dict[str, Any]) -> Any:
        return super()._model_forward(model_input_batch).logits.squeeze(-1).float()

    def process_model_output(self, outputs: Any, model_input_batch: Any = None) -> dict[str, Any]:
        """The scores of a batch."""
        scores = np.clip(outputs.cpu().numpy(), 0.0, HIGHEST)
        return {self.float_score_column: scores, self.int_score_column: np.round(scores).astype(int)}

    def create_output_dataframe(self, df_cpu: pd.DataFrame, collected_output: Any) -> pd.DataFrame:
        """The rows with their scores, without tokens."""
        frame = df_cpu.drop(columns=[INPUT_ID_FIELD, ATTENTION_MASK_FIELD])
        return frame.assign(**{name: collected_output[name] for name in self.outputs()[1]})


@dataclass(kw_only=True)
class FineMathClassifier(CompositeStage[DocumentBatch, DocumentBatch]):
    """Score the educational value of mathematical texts from 0 to 5; a long text is cut to its middle.

    `dcurate.models.FineMathClassifier` leaves the text as it is.

    Args:
        model_identifier: the model, or a local folder with the same files.
        center_crop_chars: characters on each side of the middle of a text; None or 0 for the whole text.
        float_score_column and all others: the same settings as in the inner stages.
    """

    cache_dir: str | None = None
    float_score_column: str = "finemath_scores"
    int_score_column: str = "finemath_int_scores"
    text_field: str = "text"
    max_chars: int | None = None
    max_seq_length: int = 512
    sort_by_length: bool = False
    model_inference_batch_size: int = 1024
    autocast: bool = True
    center_crop_chars: int | None = 10_000
    model_identifier: str = FINEMATH_MODEL_ID

    def __post_init__(self) -> None:
        self.name = format_name_with_suffix(self.model_identifier)
        crop = [CenterCropTextStage(self.text_field, self.center_crop_chars)] if self.center_crop_chars else []
        self.stages: list[Any] = [
            *crop,
            TokenizerStage(
                self.model_identifier,
                cache_dir=self.cache_dir,
                text_field=self.text_field,
                max_chars=self.max_chars,
                max_seq_length=self.max_seq_length,
                sort_by_length=self.sort_by_length,
            ),
            FineMathModelStage(
                self.model_identifier,
                cache_dir=self.cache_dir,
                float_score_column=self.float_score_column,
                int_score_column=self.int_score_column,
                model_inference_batch_size=self.model_inference_batch_size,
                has_seq_order=self.sort_by_length,
                autocast=self.autocast,
            ),
        ]

    def decompose(self) -> list[Any]:
        """The inner stages."""
        return self.stages
