"""Filters for interleaved documents, with NeMo Curator's names, defaults and verdicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from dcurate.core.stage import Spec
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.images.interleaved.measures import aspect_ratio, sharpness
from dcurate.images.interleaved.stage import InterleavedStage
from dcurate.images.qr import qr_share
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.image.pixels import colours
from dcurate.media.interleaved.materialise import bytes_of
from dcurate.media.interleaved.schema import IMAGE, REQUIRED
from dcurate.media.interleaved.verdicts import Verdicts


@dataclass
class FilterInterleaved(InterleavedStage):
    """Drop rows of interleaved documents by a score; the base of the filters.

    Dropped rows leave the batch with their reason; images that cannot be had or decoded go to quarantine. What is left
    of a sample is numbered again from 0, and its metadata goes when nothing else is left. Write `judge`.
    """

    drop_invalid_rows: bool = True
    _: KW_ONLY
    score_field: str | None = None
    storage_options: dict[str, Any] | None = None

    #: What rows are dropped for.
    reason: ClassVar[str]

    def inputs(self) -> Spec:
        return ["data"], list(REQUIRED)

    def outputs(self) -> Spec:
        return ["data"], [] if self.score_field is None else [self.score_field]

    def settings(self) -> dict[str, Any]:
        """All settings but those of the storage."""
        return {name: value for name, value in super().settings().items() if name != "storage_options"}

    def requires(self) -> dict[str, str]:
        return {"PIL": "images", "simplejpeg": "images", "zxingcpp": "images"}

    @abstractmethod
    def judge(self, verdicts: Verdicts) -> Mapping[int, float]:
        """Drop rows by `Verdicts.drop` and `Verdicts.fail`; return the scores of rows that have one."""

    def process(self, task: DocumentBatch) -> DocumentBatch:
        verdicts = Verdicts(DocumentBatch.given(task), self.name)
        if self.drop_invalid_rows:
            verdicts.drop_invalid()
        return verdicts.scored(self.judge(verdicts), self.reason, self.score_field)

    def _judge_images(
        self, verdicts: Verdicts, score: Callable[[bytes], float], keep: Callable[[float], bool]
    ) -> dict[int, float]:
        """Score each image by its bytes, and drop it if the score is bad."""
        scores: dict[int, float] = {}
        rows = verdicts.rows(IMAGE)
        for row, data in bytes_of(verdicts.table, rows, storage_options=self.storage_options):
            if isinstance(data, MediaFault):
                verdicts.fail(row, data)
                continue
            try:
                scores[row] = score(data)
            except MediaError as error:
                verdicts.fail(row, error.fault)
                continue
            if not keep(scores[row]):
                verdicts.drop(np.array([row]), self.reason)
        return scores


def _check_bounds(stage: Any, least: str, most: str) -> None:
    low, high = getattr(stage, least), getattr(stage, most)
    if not low <= high:
        raise PipelineError(f"{stage.name}: {least}={low!r} is above {most}={high!r}, which keeps nothing")


@dataclass
class FilterInterleavedByAspectRatio(FilterInterleaved):
    """Drop images that are too high or too wide: width divided by height, as stored.

    Args:
        drop_invalid_rows: whether rows of an unknown modality, or with a position that theirs cannot have, are dropped.
        min_aspect_ratio: the least ratio that is kept.
        max_aspect_ratio: the greatest ratio that is kept.
        score_field: a column for the ratio; null for rows that are no images.
        storage_options: for fsspec, where images are fetched.

    Raises:
        PipelineError: the least is above the greatest.

    Examples:
        >>> FilterInterleavedByAspectRatio(max_aspect_ratio=3.0).name
        'interleaved_aspect_ratio_filter'
    """

    min_aspect_ratio: float = 1.0
    max_aspect_ratio: float = 2.0
    name: str = "interleaved_aspect_ratio_filter"

    reason: ClassVar[str] = "aspect_ratio"

    def __post_init__(self) -> None:
        _check_bounds(self, "min_aspect_ratio", "max_aspect_ratio")

    def judge(self, verdicts: Verdicts) -> Mapping[int, float]:
        least, most = self.min_aspect_ratio, self.max_aspect_ratio
        return self._judge_images(verdicts, aspect_ratio, lambda ratio: least <= ratio <= most)


@dataclass
class FilterInterleavedByBlur(FilterInterleaved):
    """Drop blurred images: those whose Laplacian, over all pixels and colours, has a small variance.

    Args:
        drop_invalid_rows: same setting as in `FilterInterleavedByAspectRatio`, as are ``score_field`` and
            ``storage_options``.
        score_threshold: the least variance that is kept.

    Examples:
        >>> FilterInterleavedByBlur().score_threshold
        100.0
    """

    score_threshold: float = 100.0
    name: str = "interleaved_blur_filter"

    reason: ClassVar[str] = "blur"

    def judge(self, verdicts: Verdicts) -> Mapping[int, float]:
        least = self.score_threshold
        return self._judge_images(verdicts, lambda data: sharpness(colours(data)), lambda score: score >= least)


@dataclass
class FilterInterleavedByQrCode(FilterInterleaved):
    """Drop images of which QR codes cover a large share.

    Args:
        drop_invalid_rows: same setting as in `FilterInterleavedByAspectRatio`, as are ``score_field`` and
            ``storage_options``.
        score_threshold: images with this share of their area, or more, are dropped.

    Examples:
        >>> FilterInterleavedByQrCode(score_threshold=0.1).reason
        'qr_code'
    """

    score_threshold: float = 0.05
    name: str = "interleaved_qrcode_filter"

    reason: ClassVar[str] = "qr_code"

    def judge(self, verdicts: Verdicts) -> Mapping[int, float]:
        most = self.score_threshold
        return self._judge_images(
            verdicts, lambda data: qr_share(colours(data), unread=True), lambda share: share < most
        )


@dataclass
class FilterInterleavedByImageToTextRatio(FilterInterleaved):
    """Drop samples with too few or too many images for their words; words are parted by white space.

    Args:
        drop_invalid_rows: same setting as in `FilterInterleavedByAspectRatio`.
        min_ratio: the least number of images a word.
        max_ratio: the greatest.
        score_field: a column for the ratio of the sample; null for rows that are no images.

    Raises:
        PipelineError: the least is above the greatest.

    Examples:
        >>> import pyarrow as pa
        >>> rows = [("s", 0, "text", "three words here"), ("s", 1, "image", None), ("t", 0, "image", None)]
        >>> names = ["sample_id", "position", "modality", "text_content"]
        >>> table = pa.table(dict(zip(names, map(list, zip(*rows)), strict=True)))
        >>> kept = FilterInterleavedByImageToTextRatio(max_ratio=0.5).process(DocumentBatch(data=table))
        >>> kept.to_arrow()["sample_id"].to_pylist(), kept.rejections[0].reason
        (['s', 's'], 'image_to_text_ratio')
    """

    min_ratio: float = 0.0
    max_ratio: float = float("inf")
    name: str = "interleaved_image_to_text_ratio_filter"

    reason: ClassVar[str] = "image_to_text_ratio"

    def __post_init__(self) -> None:
        _check_bounds(self, "min_ratio", "max_ratio")

    def judge(self, verdicts: Verdicts) -> Mapping[int, float]:
        size = int(verdicts.sample.max(initial=-1)) + 1
        images = np.bincount(verdicts.sample[verdicts.rows(IMAGE)], minlength=size)
        texts = verdicts.texts()
        counts = [0 if text is None else len(str(text).split()) for _, text in texts]
        words = np.bincount(np.array([sample for sample, _ in texts], np.int64), counts, minlength=size)
        ratios = images / np.maximum(words, 1)
        bad = (ratios < self.min_ratio) | (ratios > self.max_ratio)
        verdicts.drop(np.flatnonzero(bad[verdicts.sample]), self.reason)
        return {row: float(ratios[verdicts.sample[row]]) for row in verdicts.rows(IMAGE).tolist()}
