"""How well captions go with their pictures: `FilterByClipScore`. Untested on a GPU."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dcurate.core.batch import Scored
from dcurate.core.stage import Spec
from dcurate.errors import PipelineError
from dcurate.frames.columns import rows_at, values, with_column
from dcurate.frames.document import DocumentBatch
from dcurate.isolate.errors import MediaFault
from dcurate.media.faults import quarantined
from dcurate.models.vision.stage import VisionStage


@dataclass
class FilterByClipScore(VisionStage):
    """Drop pictures that their captions do not describe: the cosine of both embeddings, from -1 to 1, is small.

    Rows without a caption, and pictures that cannot be decoded, go to quarantine.

    Untested on a GPU.

    Args:
        model: an id at the Hugging Face hub, or a local folder, of a model of pictures and texts: CLIP,
            SigLIP.
        caption_field: the column of captions.
        min_score: the least cosine that is kept. It goes with the model: 0.28 is LAION-2B's for English and CLIP
            ViT-B/32.
        score_field: a column for the cosine, or None.
        cache_dir, hf_token, model_inference_batch_size, autocast, revision, trust_remote_code, device: settings of the
            model, as in `ModelStage`.
        reading: limits of each file.

    Raises:
        PipelineError: a setting that cannot be.

    Examples:
        >>> stage = FilterByClipScore("openai/clip-vit-base-patch32", caption_field="txt", score_field="clip_score")
        >>> stage.name, stage.inputs()[1], stage.outputs()[1]
        ('clip_vit_base_patch32_score', ['txt'], ['clip_score'])
    """

    _: KW_ONLY
    caption_field: str = "caption"
    min_score: float = 0.28
    score_field: str | None = None

    suffix: ClassVar[str] = "_score"
    embeds_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -1 <= self.min_score <= 1:
            raise PipelineError(f"{self.name}: min_score={self.min_score!r} must be a cosine, from -1 to 1")

    def inputs(self) -> Spec:
        return ["data"], [self.caption_field]

    def outputs(self) -> Spec:
        return ["data"], [] if self.score_field is None else [self.score_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = task.to_arrow()
        captions = [None if text is None else str(text).strip() for text in values(table, self.caption_field)]
        faults: dict[int, MediaFault] = {
            row: MediaFault("no caption") for row, caption in enumerate(captions) if not caption
        }
        wanted = np.array([row for row in range(len(captions)) if row not in faults], np.int64)
        results: dict[int, Any] = dict(zip(wanted.tolist(), self.answers(rows_at(table, wanted)), strict=True))
        faults |= {row: result for row, result in results.items() if isinstance(result, MediaFault)}
        rows = [row for row in range(table.num_rows) if row not in faults]
        remaining = quarantined(task, faults, self.name)
        if not rows:
            return remaining
        texts = self.embed_texts([str(captions[row]) for row in rows])
        scores = np.einsum("ij,ij->i", np.stack([results[row] for row in rows]), texts).astype(np.float64)
        if self.score_field is not None:
            remaining = replace(remaining, data=with_column(remaining.to_arrow(), self.score_field, scores))
        kept = remaining.keep(scores >= self.min_score, self.name, "clip_score")
        return replace(
            kept,
            rejections=(*remaining.rejections, *kept.rejections),
            scored=(Scored(self.name, "clip_score", scores),),
        )
