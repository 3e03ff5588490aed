"""The filter of interleaved documents by how well an image goes with the texts around it. Untested on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from dcurate.core.stage import Spec
from dcurate.frames.columns import rows_at
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaFault
from dcurate.media.heads import File
from dcurate.media.image.pixels import Pixels, colours
from dcurate.media.interleaved.materialise import bytes_of
from dcurate.media.interleaved.schema import IMAGE, REQUIRED, check
from dcurate.media.interleaved.verdicts import Verdicts
from dcurate.models.vision.encoder import Vectors
from dcurate.models.vision.stage import VisionStage


@dataclass
class FilterInterleavedByClipScore(VisionStage):
    """Drop images that go with none of the texts of their sample: the cosine of the embeddings is small with each.

    Images of a sample without text are dropped; those that cannot be had or decoded go to quarantine.

    Untested on a GPU.

    Args:
        model: an id at the Hugging Face hub, or a local folder, of a model of pictures and texts.
        min_score: the least cosine with any of the texts that is kept.
        drop_invalid_rows: same setting as in `FilterInterleavedByAspectRatio`, as is ``score_field``.
        cache_dir, hf_token, model_inference_batch_size, autocast, revision, trust_remote_code, device: same settings as
            in `ModelStage`.
        reading: limits of each image.

    Examples:
        >>> FilterInterleavedByClipScore("openai/clip-vit-base-patch32").name
        'clip_vit_base_patch32_interleaved_filter'
    """

    _: KW_ONLY
    min_score: float = 0.15
    drop_invalid_rows: bool = True
    score_field: str | None = None

    suffix: ClassVar[str] = "_interleaved_filter"
    embeds_texts: ClassVar[bool] = True

    def requires(self) -> dict[str, str]:
        return {**super().requires(), "zxingcpp": "images"}

    def inputs(self) -> Spec:
        return ["data"], list(REQUIRED)

    def outputs(self) -> Spec:
        return ["data"], [] if self.score_field is None else [self.score_field]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        verdicts = Verdicts(DocumentBatch.given(task), self.name)
        if self.drop_invalid_rows:
            verdicts.drop_invalid()
        return verdicts.scored(self.judge(verdicts), "clip_score", self.score_field)

    def check_media(self, columns: Sequence[str]) -> None:
        check(columns)

    def files(self, rows: Any) -> Iterator[list[File | MediaFault]]:
        limit, options = parse_bytes(self.reading.max_file_bytes), self.reading.storage_options
        for _, data in bytes_of(rows, np.arange(rows.num_rows), limit=limit, storage_options=options):
            yield [data if isinstance(data, MediaFault) else File(data, len(data))]

    def pixels(self, data: bytes) -> Pixels:
        return colours(data)

    def judge(self, verdicts: Verdicts) -> Mapping[int, float]:
        """Drop images that go with no text; return the scores of those that were scored."""
        scores = self._scores(verdicts)
        bad = [row for row, score in scores.items() if score < self.min_score]
        verdicts.drop(np.array(bad, np.int64), "clip_score")
        return scores

    def _scores(self, verdicts: Verdicts) -> Mapping[int, float]:
        texts = self._texts(verdicts)
        images = verdicts.rows(IMAGE)
        alone = np.array([row for row in images.tolist() if int(verdicts.sample[row]) not in texts], np.int64)
        scores: dict[int, float] = {}
        judged = np.setdiff1d(images, alone)
        for row, answer in zip(judged.tolist(), self.answers(rows_at(verdicts.table, judged)), strict=True):
            if isinstance(answer, MediaFault):
                verdicts.fail(row, answer)
            else:
                scores[row] = float((texts[int(verdicts.sample[row])] @ answer).max())
        for row, files in zip(alone.tolist(), self.files(rows_at(verdicts.table, alone)), strict=True):
            if isinstance(files[0], MediaFault):
                verdicts.fail(row, files[0])
        verdicts.drop(alone, "no text")
        return scores

    def _texts(self, verdicts: Verdicts) -> dict[int, Vectors]:
        """The embeddings of the texts of each sample that has any."""
        kept = [(sample, text.strip()) for sample, text in verdicts.texts() if text]
        kept = [(sample, text) for sample, text in kept if text]
        images = {int(sample) for sample in verdicts.sample[verdicts.rows(IMAGE)]}
        kept = [(sample, text) for sample, text in kept if sample in images]
        if not kept:
            return {}
        distinct = list(dict.fromkeys(text for _, text in kept))
        vectors = dict(zip(distinct, self.embed_texts(distinct), strict=True))
        by_sample: dict[int, list[Any]] = {}
        for sample, text in kept:
            by_sample.setdefault(sample, []).append(vectors[text])
        return {sample: np.stack(sample_vectors) for sample, sample_vectors in by_sample.items()}
