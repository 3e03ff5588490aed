"""Frames of films as rows with images, and back to a row for each film."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.core.batch import Rejection
from dcurate.core.stage import ProcessingStage, Spec
from dcurate.errors import DataError, PipelineError, nearest
from dcurate.frames.columns import column_of, numbers
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES, REF, refs_of
from dcurate.media.stage import with_columns
from dcurate.video.frame_batches import (
    COLUMNS,
    FRAME_COUNT,
    FRAME_NUMBER,
    FRAME_S,
    FrameBatches,
    FrameStore,
    KeptFrame,
    frames_table,
)
from dcurate.video.policy import FramePolicy
from dcurate.video.stage import Collector, VideoStage

ImageFormat = Literal["jpeg", "png"]
Reduction = Literal["mean", "min", "max"]

#: Rows whose films are decoded before their frames are put into batches, at least.
_ROWS = 8

_REDUCTIONS: Mapping[str, Any] = {"mean": np.mean, "min": np.min, "max": np.max}


def check_images(stage: str, height: int | None, image_format: str, quality: int) -> None:
    """Refuse settings of images that do not exist.

    Raises:
        PipelineError: one of them is out of range.
    """
    if image_format not in get_args(ImageFormat):
        raise PipelineError(
            f"{stage}: no image_format {image_format!r}{nearest(str(image_format), get_args(ImageFormat))}"
        )
    if height is not None and (type(height) is not int or height < 1):
        raise PipelineError(f"{stage}: height={height!r} must be a whole number from 1 on")
    if type(quality) is not int or not 1 <= quality <= 100:
        raise PipelineError(f"{stage}: quality={quality!r} must be a whole number from 1 to 100")


@dataclass
class ExtractFrames(VideoStage):
    """Make a row of each chosen frame of a film or clip, so that stages for images apply to frames.

    A row has the frame, upright, as a file in ``bytes``, its time in ``frame_s`` (seconds from the start of the film),
    its number in ``frame_number`` (from 0, within its film) and the number of all frames of its film in
    ``frame_count``. Other columns are repeated, `media_ref` among them; stages for images take ``bytes`` before it.
    `PoolFrames` leads back to a row for each film.

    A batch has about 64 MiB of frames and whole films, in order; with `max_films_per_batch` fewer, so that the clips of
    a film, or films, spread over slots of the stages that follow. A film or clip whose frames take more than
    `max_frame_bytes` goes to quarantine as ``too many frames``, and one of which no frame is chosen as ``no frames``;
    other faults are those of `VideoStage`. Frames beyond 64 MiB wait in temporary files for their batch, and batches
    beyond 256 MiB stay in such files, however long a film is.

    Args:
        policy: which frames. NeMo Curator's ``sequence`` at a ``target_fps`` is ``FramePolicy("per_second",
            target_fps)``.
        height: height in pixels to which higher frames are reduced, in their proportions; None for their own.
        image_format: ``"jpeg"``, or ``"png"``, which loses nothing.
        quality: quality of a JPEG, 1 to 100.
        max_frame_bytes: bytes of the frames of a film, at most, as a number or text such as ``"256MiB"``.
        max_films_per_batch: largest number of films or clips whose frames are in one batch; None for any number.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: an unknown format, or a number out of range.

    Examples:
        >>> import io, av
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         _ = container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        ...     _ = container.mux(stream.encode())
        >>> film = pa.table({"file_name": ["a.mp4"], "bytes": [file.getvalue()]})
        >>> stage = ExtractFrames(height=24)
        >>> [frames] = stage.process(DocumentBatch(data=film))
        >>> stage.teardown()
        >>> frames.to_arrow().select(["file_name", "frame_s"]).to_pylist()
        [{'file_name': 'a.mp4', 'frame_s': 0.0}, {'file_name': 'a.mp4', 'frame_s': 1.0}]
    """

    policy: FramePolicy = field(default_factory=lambda: FramePolicy("per_second", 1))
    height: int | None = None
    image_format: ImageFormat = "jpeg"
    quality: int = 90
    max_frame_bytes: int | str = "256MiB"
    max_films_per_batch: int | None = None
    name: str = "extract_frames"
    _store: FrameStore | None = field(default=None, init=False, repr=False, compare=False)

    columns: ClassVar[Mapping[str, pa.DataType]] = COLUMNS
    function: ClassVar[str] = "dcurate.video.encoding:watch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.policy, FramePolicy):
            raise PipelineError(f"{self.name}: policy={self.policy!r} must be a FramePolicy(...)")
        check_images(self.name, self.height, self.image_format, self.quality)
        self.max_frame_bytes = parse_bytes(self.max_frame_bytes, "max_frame_bytes")
        most = self.max_films_per_batch
        if most is not None and (type(most) is not int or most < 1):
            raise PipelineError(f"{self.name}: max_films_per_batch={most!r} must be a whole number from 1 on, or None")

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return {
            "policy": self.policy.request,
            "height": self.height,
            "image_format": self.image_format,
            "quality": self.quality,
            "max_bytes": self.max_frame_bytes,
        }

    def requires(self) -> dict[str, str]:
        return {"av": "video", "PIL": "video"}

    def optional_inputs(self) -> list[str]:
        return [BYTES, REF]

    def is_fanout_stage(self) -> bool:
        return True

    def collector(self) -> Collector:
        return _Frames(self._store or FrameStore())

    def process(self, task: DocumentBatch) -> list[DocumentBatch]:  # type: ignore[override]
        self._store = FrameStore()
        try:
            return self._batches(DocumentBatch.given(task), self._store)
        finally:
            self._store.close()
            self._store = None

    def _batches(self, task: DocumentBatch, store: FrameStore) -> list[DocumentBatch]:
        table = task.to_arrow()
        batches, rejections = FrameBatches(store, self.max_films_per_batch), list[Rejection]()
        for rows in _parts(table):
            rejections += self._add(task.with_data(rows), batches)
            store.forget_all_but(batches.waiting())
        made = [task.with_data(rows) for rows in batches.all() or [_no_frames(table)]]
        return [replace(made[0], rejections=tuple(rejections)), *made[1:]]

    def _add(self, task: DocumentBatch, batches: FrameBatches) -> Sequence[Rejection]:
        """Add the frames of films to batches, and return the rows without."""
        answers = self.answers(task.to_arrow())
        kept = quarantined(task, answers, self.name)
        films = [answer for answer in answers if not isinstance(answer, MediaFault)]
        for number, film in enumerate(films):
            batches.add(kept.to_arrow().slice(number, 1), film)
        return kept.rejections


class _Frames:
    """Collects the frames of a clip: times and files."""

    def __init__(self, store: FrameStore) -> None:
        self._store = store
        self._times: list[float] = []
        self._files: list[KeptFrame] = []

    def take(self, answer: ChildAnswer) -> None:
        self._times.append(float(answer.value["frame_s"]))
        self._files += map(self._store.keep, answer.blobs[:1])

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return self._times, self._files


def _no_frames(table: pa.Table) -> pa.Table:
    """The table of frames of no film."""
    return frames_table([(table.slice(0, 0), ([], []))], pa.array([], COLUMNS[BYTES]))


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Yield parts of a table, in order, of at least `_ROWS` rows, where no two parts refer to one file."""
    refs = refs_of(table.select([REF])) if REF in table.column_names else [None] * table.num_rows
    last = {ref.file: number for number, ref in enumerate(refs) if ref is not None}
    start, closed = 0, 0
    for number, ref in enumerate(refs):
        closed = max(closed, number if ref is None else last[ref.file])
        if closed == number and number + 1 - start >= _ROWS:
            yield table.slice(start, number + 1 - start)
            start = number + 1
    if start < table.num_rows:
        yield table.slice(start)


@dataclass
class PoolFrames(ProcessingStage[DocumentBatch, DocumentBatch]):
    """Make a row of the frames of each film again, with the mean, least or greatest of what stages said of them.

    Rows are those of `ExtractFrames`, after stages for images. Frames that follow each other, by ``frame_number`` and
    with one `media_ref`, are of one film. Its row has the pooled columns, and the others as the first frame has them,
    without ``bytes``, ``frame_s`` and ``frame_number``. Nulls and NaN do not count; where there is nothing else, the
    result is null.

    Every film keeps its frames in one batch as long as no stage in between cuts or mixes batches, as `Shuffle` does. So
    frames of a film of which some are missing go to quarantine as ``frames missing``: a mean over a part of a film is
    never taken for that of the whole. With ``all_frames=False`` the frames that are there are pooled, for
    pipelines that filter frames.

    Args:
        fields: the columns to pool and how: ``"mean"``, ``"min"`` or ``"max"``, of numbers, or of embeddings
            coordinate by coordinate. NeMo Curator's ``ClipAestheticFilterStage`` is ``{"aesthetic_score": "min"}``,
            with `NumberRangeFilter` behind it.
        all_frames: whether all frames of a film must be there.
        name: name of the stage.

    Raises:
        PipelineError: no columns, or an unknown reduction.
        DataError: the rows are no frames, or a column does not hold numbers or vectors.

    Examples:
        >>> frames = {"file_name": ["a", "a", "b"], "frame_number": [0, 1, 0], "frame_count": [2, 2, 1]}
        >>> scored = pa.table({**frames, "score": [0.5, 0.1, 0.7], "v": [[0.0, 1.0], [1.0, 0.0], [3.0, 4.0]]})
        >>> pooled = PoolFrames({"score": "min", "v": "mean"}).process(DocumentBatch(data=scored))
        >>> pooled.to_arrow().drop_columns(["frame_count"]).to_pylist()
        [{'file_name': 'a', 'score': 0.1, 'v': [0.5, 0.5]}, {'file_name': 'b', 'score': 0.7, 'v': [3.0, 4.0]}]
    """

    fields: Mapping[str, Reduction]
    all_frames: bool = True
    name: str = "pool_frames"

    def __post_init__(self) -> None:
        if not isinstance(self.fields, Mapping) or not self.fields:
            raise PipelineError(f'{self.name}: fields={self.fields!r} must name columns, as in {{"score": "mean"}}')
        for reduction in self.fields.values():
            if reduction not in get_args(Reduction):
                raise PipelineError(
                    f"{self.name}: no reduction {reduction!r}{nearest(str(reduction), get_args(Reduction))}"
                )

    def inputs(self) -> Spec:
        return ["data"], [FRAME_NUMBER, FRAME_COUNT, *self.fields]

    def outputs(self) -> Spec:
        return ["data"], [FRAME_COUNT, *self.fields]

    def dropped_columns(self) -> list[str]:
        return [BYTES, FRAME_S, FRAME_NUMBER]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        self.check_columns(table.column_names)
        order, counts = numbers(table, FRAME_NUMBER), numbers(table, FRAME_COUNT)
        starts = _starts(table, order, counts)
        stops = np.append(starts[1:], table.num_rows)
        whole = np.ones(len(starts), np.bool_)
        if self.all_frames:
            whole = stops - starts == counts[starts]
        rejections: tuple[Rejection, ...] = ()
        if not whole.all():
            missing = np.repeat(~whole, stops - starts)
            fault = MediaFault("frames missing", "not all frames of its film are in the batch")
            faults = dict.fromkeys(np.flatnonzero(missing).tolist(), fault)
            rejections = quarantined(task, faults, self.name).rejections
        spans = list(zip(starts[whole].tolist(), stops[whole].tolist(), strict=True))
        rows = table.take(pa.array(starts[whole], pa.int64()))
        rows = rows.drop_columns([name for name in (BYTES, FRAME_S, FRAME_NUMBER) if name in rows.column_names])
        pooled = {name: _pooled(column_of(table, name), name, spans, how) for name, how in self.fields.items()}
        return replace(task.with_data(with_columns(rows, pa.table(pooled))), rejections=rejections)


def _starts(table: pa.Table, order: npt.NDArray[Any], counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The rows with which films begin.

    Raises:
        DataError: rows are no frames.
    """
    if not (np.isfinite(order).all() and np.isfinite(counts).all()):
        raise DataError(
            f"rows without {FRAME_NUMBER!r} or {FRAME_COUNT!r} are not frames; make them with ExtractFrames"
        )
    begins = np.ones(table.num_rows, np.bool_)
    begins[1:] = (order[1:] <= order[:-1]) | (counts[1:] != counts[:-1])
    if REF in table.column_names:
        refs = table[REF].to_pylist()
        begins[1:] |= np.array([here != before for before, here in pairwise(refs)], np.bool_)
    return np.flatnonzero(begins)


def _pooled(
    column: pa.ChunkedArray | pa.Array, name: str, spans: Sequence[tuple[int, int]], reduction: Reduction
) -> pa.Array:
    """Reduce a column over spans of rows.

    Raises:
        DataError: it holds neither numbers nor lists of one length.
    """
    kind, reduce = column.type, _REDUCTIONS[reduction]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        vectors = column.to_pylist()
        made = [_mean_vector(vectors[start:stop], name, reduce) for start, stop in spans]
        return pa.array(made, pa.list_(pa.float32() if kind.value_type == pa.float32() else pa.float64()))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"column {name!r} holds {kind}, not numbers or vectors; PoolFrames cannot take its {reduction}")
    values = [np.nan if value is None else float(value) for value in column.to_pylist()]
    return pa.array(list(_reduced(np.array(values, np.float64), spans, reduce)), pa.float64())


def _reduced(values: npt.NDArray[np.float64], spans: Sequence[tuple[int, int]], reduce: Any) -> Iterator[float | None]:
    for start, stop in spans:
        here = values[start:stop]
        here = here[~np.isnan(here)]
        yield float(reduce(here)) if len(here) else None


def _mean_vector(vectors: Sequence[Any], name: str, reduce: Any) -> list[float] | None:
    there = [vector for vector in vectors if vector is not None]
    if not there:
        return None
    if len({len(vector) for vector in there}) > 1:
        raise DataError(f"column {name!r} holds vectors of several lengths in one film; PoolFrames needs one length")
    try:
        pooled: list[float] = reduce(np.array(there, np.float64), axis=0).tolist()
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} does not hold vectors of numbers: {error}") from None
    return pooled
