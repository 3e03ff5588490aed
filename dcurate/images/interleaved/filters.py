"""Filters for interleaved documents, with NeMo Curator's names, defaults and verdicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.core.batch import Rejection, Scored
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.images.interleaved.materialise import Ints, bytes_of
from dcurate.images.interleaved.schema import IMAGE, METADATA, REQUIRED, TEXT, check
from dcurate.images.interleaved.verdicts import aspect_ratio, colours, sharpness
from dcurate.images.qr import qr_share
from dcurate.media.errors import MediaError, MediaFault

Mask = npt.NDArray[np.bool_]

#: Reasons for rows that go for the sake of others.
INVALID, ORPHAN = "invalid row", "no content left"


class Verdicts:
    """Which rows of a batch go, and why; what is left is made whole.

    Args:
        batch: interleaved rows.
        stage: the name of the stage.
    """

    def __init__(self, batch: DocumentBatch, stage: str) -> None:
        self.batch, self.stage = batch, stage
        self.table = batch.to_arrow()
        check(self.table.column_names)
        self.modality = self.table["modality"].to_numpy(zero_copy_only=False)
        self.position = self.table["position"].to_numpy(zero_copy_only=False)
        self.sample = pc.dictionary_encode(self.table["sample_id"].combine_chunks()).indices.to_numpy()
        self._faults: dict[int, MediaFault] = {}
        self._why = np.full(self.table.num_rows, "", object)

    def rows(self, modality: str) -> Ints:
        """The numbers of the rows of a modality."""
        return np.flatnonzero(self.modality == modality)

    @property
    def kept(self) -> Mask:
        """Which rows do not go."""
        return np.asarray(self._why == "")

    def drop(self, rows: Ints, reason: str) -> None:
        """Drop rows, unless they go for another reason."""
        self._why[rows[self._why[rows] == ""]] = reason

    def fail(self, row: int, fault: MediaFault) -> None:
        """Send a row to quarantine."""
        if not self._why[row]:
            self._why[row] = fault.reason
            self._faults[row] = fault

    def drop_invalid(self) -> None:
        """Drop rows of an unknown modality, and those whose position does not go with theirs."""
        is_before = self.modality == METADATA
        known = np.isin(self.modality, (TEXT, IMAGE, METADATA))
        self.drop(
            np.flatnonzero(~known | (is_before & (self.position != -1)) | (~is_before & (self.position < 0))), INVALID
        )

    def result(self, added: Mapping[str, pa.Array] | None = None) -> DocumentBatch:
        """Return the rows that are left, with their positions counted from 0 in each sample.

        Metadata of samples without other rows goes as well.

        Args:
            added: columns to add to all rows.
        """
        kept = self.kept
        content = kept & (self.modality != METADATA)
        full = np.zeros(int(self.sample.max(initial=-1)) + 1, np.bool_)
        full[self.sample[content]] = True
        self.drop(np.flatnonzero(kept & ~content & ~full[self.sample]), ORPHAN)
        table = self.table
        for name, column in (added or {}).items():
            place = table.schema.get_field_index(name)
            table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
        rejections = tuple(self._rejections(table))
        kept = self.kept
        numbered = self._numbered(kept & (self.modality != METADATA))
        if not np.array_equal(numbered, self.position):
            field = table.schema.field("position")
            column = pa.array(numbered).cast(field.type)
            table = table.set_column(table.schema.get_field_index("position"), field, column)
        table = table if kept.all() else table.filter(pa.array(kept))
        return replace(self.batch.with_data(table), rejections=rejections)

    def _numbered(self, content: Mask) -> Ints:
        rows = np.flatnonzero(content)
        order = rows[np.lexsort((rows, self.position[rows], self.sample[rows]))]
        samples = self.sample[order]
        starts = np.flatnonzero(np.r_[True, samples[1:] != samples[:-1]]) if len(order) else np.zeros(0, np.int64)
        numbers = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        numbered: Ints = self.position.astype(np.int64)
        numbered[order] = numbers
        return numbered

    def _rejections(self, table: pa.Table) -> list[Rejection]:
        rejections = []
        for reason in dict.fromkeys(why for why in self._why if why):
            for fault in (False, True):
                rows = np.flatnonzero(self._why == reason)
                rows = rows[[(row in self._faults) == fault for row in rows.tolist()]]
                if not len(rows):
                    continue
                gone = table.take(pa.array(rows))
                if fault and "materialize_error" in gone.column_names:
                    errors = pa.array([str(self._faults[row].detail or reason) for row in rows.tolist()], pa.string())
                    place = gone.schema.get_field_index("materialize_error")
                    gone = gone.set_column(place, "materialize_error", errors)
                rejections.append(Rejection(self.stage, reason, gone.num_rows, gone.nbytes, gone, fault=fault))
        return rejections


@dataclass
class FilterInterleaved(ProcessingStage[DocumentBatch, DocumentBatch]):
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
        scores = self.judge(verdicts)
        added = {}
        if self.score_field is not None:
            column = [scores.get(row) for row in range(verdicts.table.num_rows)]
            added[self.score_field] = pa.array(column, pa.float64())
        made = verdicts.result(added)
        return replace(made, scored=(Scored(self.name, self.reason, list(scores.values())),) if scores else ())

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
        rows = verdicts.rows(TEXT)
        texts = verdicts.table["text_content"].take(pa.array(rows)).to_pylist() if len(rows) else []
        counts = [0 if text is None else len(str(text).split()) for text in texts]
        words = np.bincount(verdicts.sample[rows], counts, minlength=size)
        ratios = images / np.maximum(words, 1)
        bad = (ratios < self.min_ratio) | (ratios > self.max_ratio)
        verdicts.drop(np.flatnonzero(bad[verdicts.sample]), self.reason)
        return {row: float(ratios[verdicts.sample[row]]) for row in verdicts.rows(IMAGE).tolist()}
