"""Interleaved documents as NeMo Curator has them: the task, and the stages that annotate and filter."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dcurate.compat.nemo.stages import ProcessingStage, Resources, Spec
from dcurate.compat.nemo.tasks import Task
from dcurate.errors import DataError
from dcurate.frames.document import DocumentBatch
from dcurate.images.interleaved import filters
from dcurate.isolate.errors import MediaFault
from dcurate.media.interleaved.materialise import bytes_of
from dcurate.media.interleaved.schema import RESERVED, SCHEMA, SourceRef, aligned
from dcurate.media.interleaved.verdicts import Verdicts
from dcurate.media.stage import FileReading
from dcurate.models.vision import interleaved as vision

INTERLEAVED_SCHEMA = SCHEMA
RESERVED_COLUMNS = RESERVED
DEFAULT_BLUR_SCORE_THRESHOLD = 100.0
DEFAULT_CLIP_MIN_SCORE = 0.15
DEFAULT_IMAGE_TO_TEXT_MIN_RATIO = 0.0
DEFAULT_IMAGE_TO_TEXT_MAX_RATIO = float("inf")
DEFAULT_QRCODE_SCORE_THRESHOLD = 0.05

_PARTS = ("path", "member", "byte_offset", "byte_size", "frame_index")


@dataclass(repr=False)
class InterleavedBatch(Task[Any]):
    """Rows of interleaved documents, in an Arrow table or a pandas frame.

    Examples:
        >>> rows = [{"sample_id": "a", "position": 0, "modality": "text", "text_content": "Hi"}]
        >>> batch = InterleavedBatch(dataset_name="mine", data=pa.Table.from_pylist(rows, schema=INTERLEAVED_SCHEMA))
        >>> batch.num_items, batch.count(modality="image")
        (1, 0)
    """

    dataset_name: str = ""
    data: Any = field(default_factory=SCHEMA.empty_table)

    REQUIRED_COLUMNS = frozenset(("sample_id", "position", "modality"))

    def to_pyarrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Raises:
            TypeError: they are neither a table nor a frame.
        """
        self._check_kind("Cannot convert {} to a table")
        return self.data if isinstance(self.data, pa.Table) else pa.Table.from_pandas(self.data, preserve_index=False)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame.

        Raises:
            TypeError: they are neither a table nor a frame.
        """
        self._check_kind("Cannot convert {} to a frame")
        return self.data if isinstance(self.data, pd.DataFrame) else self.data.to_pandas(types_mapper=pd.ArrowDtype)

    @property
    def num_items(self) -> int:
        """The number of samples."""
        if isinstance(self.data, pa.Table):
            return int(pc.count_distinct(self.data["sample_id"]).as_py())
        return int(self.data["sample_id"].nunique())

    def count(self, *, modality: str | None = None) -> int:
        """The number of rows, or of those of a modality."""
        if modality is None:
            return len(self.data)
        return int(pc.sum(pc.equal(self.to_pyarrow()["modality"], modality)).as_py() or 0)

    def get_columns(self) -> list[str]:
        """The names of the columns.

        Raises:
            TypeError: the rows are neither a table nor a frame.
        """
        self._check_kind("Unsupported data type {}")
        return list(self.data.columns) if isinstance(self.data, pd.DataFrame) else list(self.data.column_names)

    def _check_kind(self, message: str) -> None:
        if not isinstance(self.data, pa.Table | pd.DataFrame):
            raise TypeError(message.format(type(self.data).__name__))

    def add_rows(self, *_args: Any, **_options: Any) -> NoReturn:
        """Refuse; rows are added by `with_rows`."""
        raise NotImplementedError("add rows to the table, and call with_rows()")

    def delete_rows(self, *_args: Any, **_options: Any) -> NoReturn:
        """Refuse; rows are deleted by `with_rows`."""
        raise NotImplementedError("delete rows of the table, and call with_rows()")

    def validate(self) -> bool:
        """Whether there are samples and all required columns."""
        return set(self.get_columns()) >= self.REQUIRED_COLUMNS and self.num_items > 0

    @staticmethod
    def build_source_ref(
        path: str | None,
        member: str | None,
        byte_offset: int | None = None,
        byte_size: int | None = None,
        frame_index: int | None = None,
    ) -> str:
        """Return a value of the column ``source_ref``."""
        return SourceRef(path, member, byte_offset, byte_size, frame_index).json

    @staticmethod
    def parse_source_ref(source_value: str | None) -> dict[str, Any]:
        """Return the parts of a value of the column ``source_ref``.

        Raises:
            TypeError: it is JSON, and not an object.
        """
        text = None if source_value is None or pd.isna(source_value) else source_value
        if text and not isinstance(json.loads(text), dict):
            raise TypeError("source_ref must decode to a JSON object")
        ref = SourceRef.of(text)
        return {name: getattr(ref, name) for name in _PARTS}

    def with_parsed_source_ref_columns(self, prefix: str = "_src_") -> pd.DataFrame:
        """Return the rows with a column for each part of ``source_ref``."""
        frame = self.to_pandas().copy()
        parsed = pd.DataFrame.from_records(
            [self.parse_source_ref(text) for text in frame["source_ref"]], columns=_PARTS
        )
        for name in _PARTS:
            frame[f"{prefix}{name}"] = parsed[name].to_numpy(copy=False)
        return frame

    def with_rows(self, data: Any) -> InterleavedBatch:
        """The same batch with other rows."""
        return InterleavedBatch(
            dataset_name=self.dataset_name, data=data, _metadata=self._metadata, _stage_perf=self._stage_perf
        )


def storage_options(task: Any = None, io_kwargs: Any = None) -> dict[str, Any]:
    """The options for fsspec: those that a reader left in the task, else those of a writer."""
    options = task._metadata.get("source_storage_options") if task is not None else None
    return dict(options or (io_kwargs or {}).get("storage_options") or {})


def materialize_task_binary_content(
    task: InterleavedBatch,
    *,
    io_kwargs: dict[str, Any] | None = None,
    only_missing_binary: bool = True,
    image_content_types: tuple[str, ...] | None = None,
) -> InterleavedBatch:
    """Return the batch with the bytes of its images, or with the error of those that cannot be had."""
    table = aligned(task.to_pyarrow())
    wanted = pc.equal(table["modality"], "image")
    if image_content_types is not None:
        wanted = pc.and_(wanted, pc.is_in(table["content_type"], pa.array(image_content_types)))
    if only_missing_binary:
        wanted = pc.and_(wanted, pc.is_null(table["binary_content"]))
    rows = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
    if not len(rows):
        return task
    names = ("binary_content", "materialize_error", "source_ref")
    data, errors, texts = (table[name].to_pylist() for name in names)
    emptied = table if only_missing_binary else table.set_column(5, "binary_content", pa.nulls(len(data), pa.binary()))
    for row, outcome in bytes_of(emptied, rows, storage_options=storage_options(task, io_kwargs)):
        if isinstance(outcome, bytes):
            data[row], errors[row] = outcome, None
        else:
            errors[row] = _error(outcome, texts[row])
    for name, values in (("binary_content", data), ("materialize_error", errors)):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    return task.with_rows(table)


def _error(fault: MediaFault, text: str | None) -> str:
    """The message of NeMo Curator for a missing path or member; else the message of dcurate."""
    try:
        ref = SourceRef.of(text)
    except DataError:
        ref = SourceRef()
    description = f"{fault.reason}: {fault.detail}" if fault.detail else fault.reason
    if fault.reason != "missing" or (ref.path is not None and ref.member is None):
        return description
    return f"missing path ({description})" if ref.path is None else f"missing member {ref.member!r} ({description})"


@dataclass
class BaseInterleavedAnnotatorStage(ProcessingStage[InterleavedBatch, InterleavedBatch], ABC):
    """A stage that changes the rows of a batch as a pandas frame; write ``annotate``."""

    name: str = "base_interleaved_annotator"

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    @abstractmethod
    def annotate(self, task: InterleavedBatch, df: pd.DataFrame) -> pd.DataFrame:
        """Return the new rows."""

    def process(self, task: InterleavedBatch) -> InterleavedBatch:
        """Change the rows of a batch."""
        frame = task.to_pandas().copy()
        return task if frame.empty else task.with_rows(self.annotate(task, frame).reset_index(drop=True))


@dataclass
class BaseInterleavedFilterStage(BaseInterleavedAnnotatorStage, ABC):
    """A stage that keeps some rows; write ``content_keep_mask``. The rest of a sample is numbered from 0."""

    drop_invalid_rows: bool = True
    name: str = "base_interleaved_filter"

    @abstractmethod
    def content_keep_mask(self, task: InterleavedBatch, df: pd.DataFrame) -> pd.Series[bool]:
        """Return which rows are kept, by the index of the frame."""

    @staticmethod
    def _basic_row_validity_mask(df: pd.DataFrame) -> pd.Series[bool]:
        before = df["modality"] == "metadata"
        placed = (before & (df["position"] == -1)) | (~before & (df["position"] >= 0))
        return (df["modality"].isin({"text", "image", "metadata"}) & placed).astype(bool)

    def keep_mask(self, task: InterleavedBatch, df: pd.DataFrame) -> pd.Series[bool]:
        """Return which rows are kept."""
        mask = self.content_keep_mask(task, df).astype(bool)
        return mask & self._basic_row_validity_mask(df) if self.drop_invalid_rows else mask

    def iter_materialized_bytes(
        self, task: InterleavedBatch, df: pd.DataFrame, row_mask: pd.Series[bool]
    ) -> Iterator[tuple[Any, bytes | None]]:
        """Yield the index and the bytes of each of some rows; None for those that cannot be had."""
        chosen = df[row_mask]
        table = pa.Table.from_pandas(chosen, preserve_index=False)
        places = np.arange(len(chosen), dtype=np.int64)
        for row, data in bytes_of(table, places, storage_options=storage_options(task)) if len(chosen) else ():
            yield chosen.index[row], data if isinstance(data, bytes) else None

    def annotate(self, task: InterleavedBatch, df: pd.DataFrame) -> pd.DataFrame:
        kept = df[self.keep_mask(task, df)].copy()
        content = kept["modality"] != "metadata"
        if content.any():
            numbers = kept[content].sort_values("position", kind="stable").groupby("sample_id", sort=False).cumcount()
            kept.loc[content, "position"] = numbers.astype(kept["position"].dtype)
        full = kept["sample_id"].isin(set(kept.loc[content, "sample_id"]))
        return kept[content | full].sort_values(["sample_id", "position"], kind="stable")


@dataclass
class _Filter(BaseInterleavedFilterStage):
    """A filter whose verdicts are those of a filter of dcurate."""

    def _own(self, options: dict[str, Any]) -> filters.FilterInterleaved:
        raise NotImplementedError

    def content_keep_mask(self, task: InterleavedBatch, df: pd.DataFrame) -> pd.Series[bool]:
        verdicts = Verdicts(DocumentBatch(data=pa.Table.from_pandas(df, preserve_index=False)), self.name)
        self._own(storage_options(task)).judge(verdicts)
        return pd.Series(verdicts.kept, index=df.index)


@dataclass
class InterleavedAspectRatioFilterStage(_Filter):
    """Keep images of some shapes: width divided by height."""

    min_aspect_ratio: float = 1.0
    max_aspect_ratio: float = 2.0
    name: str = "interleaved_aspect_ratio_filter"

    def _own(self, options: dict[str, Any]) -> filters.FilterInterleaved:
        return filters.FilterInterleavedByAspectRatio(
            min_aspect_ratio=self.min_aspect_ratio, max_aspect_ratio=self.max_aspect_ratio, storage_options=options
        )


@dataclass
class InterleavedBlurFilterStage(_Filter):
    """Keep sharp images: the variance of their Laplacian is the threshold or more."""

    score_threshold: float = DEFAULT_BLUR_SCORE_THRESHOLD
    name: str = "interleaved_blur_filter"

    def _own(self, options: dict[str, Any]) -> filters.FilterInterleaved:
        return filters.FilterInterleavedByBlur(score_threshold=self.score_threshold, storage_options=options)


@dataclass
class InterleavedQRCodeFilterStage(_Filter):
    """Keep images of which QR codes cover less than the threshold."""

    score_threshold: float = DEFAULT_QRCODE_SCORE_THRESHOLD
    name: str = "interleaved_qrcode_filter"

    def _own(self, options: dict[str, Any]) -> filters.FilterInterleaved:
        return filters.FilterInterleavedByQrCode(score_threshold=self.score_threshold, storage_options=options)


@dataclass
class InterleavedImageToTextRatioFilterStage(_Filter):
    """Keep samples with some number of images for each word."""

    min_ratio: float = DEFAULT_IMAGE_TO_TEXT_MIN_RATIO
    max_ratio: float = DEFAULT_IMAGE_TO_TEXT_MAX_RATIO
    name: str = "interleaved_image_to_text_ratio_filter"

    def _own(self, options: dict[str, Any]) -> filters.FilterInterleaved:
        return filters.FilterInterleavedByImageToTextRatio(min_ratio=self.min_ratio, max_ratio=self.max_ratio)


@dataclass
class InterleavedCLIPScoreFilterStage(BaseInterleavedFilterStage):
    """Keep images that go with any of the texts of their sample, by OpenAI's CLIP ViT-L/14. Untested on a GPU.

    Args:
        model_dir: folder of the model, as in `ImageEmbeddingStage`.
        min_score: the least cosine of both embeddings.
    """

    model_dir: str | None = None
    min_score: float = DEFAULT_CLIP_MIN_SCORE
    name: str = "interleaved_clip_score_filter"
    resources: Any = field(default_factory=Resources)
    _model: Any = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}

    def _stage(self) -> vision.FilterInterleavedByClipScore:
        if self.model_dir is None:
            raise RuntimeError("InterleavedCLIPScoreFilterStage requires model_dir to be set")
        return vision.FilterInterleavedByClipScore.in_folder(self.model_dir, min_score=self.min_score)

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the model to this host, if it is not there."""
        self._stage().setup_on_node()

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the model."""
        self._model = self._stage()
        self._model.setup()

    def teardown(self) -> None:
        """Free the memory of the model."""
        if self._model is not None:
            self._model.teardown()
            self._model = None

    def content_keep_mask(self, task: InterleavedBatch, df: pd.DataFrame) -> pd.Series[bool]:
        verdicts = Verdicts(DocumentBatch(data=pa.Table.from_pandas(df, preserve_index=False)), self.name)
        self._model.reading = FileReading(storage_options=storage_options(task))
        self._model.judge(verdicts)
        return pd.Series(verdicts.kept, index=df.index)
