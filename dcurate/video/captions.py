"""Windows of films as rows with the frames that a vision model gets, for captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.errors import PipelineError
from dcurate.frames.document import DocumentBatch
from dcurate.io.partition import parse_bytes
from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.faults import quarantined
from dcurate.media.refs import BYTES
from dcurate.media.stage import with_columns
from dcurate.video.frames import check_images
from dcurate.video.stage import Collector, VideoStage


@dataclass
class CaptionWindows(VideoStage):
    """Make a row of each window of a film or clip, with the frames that a vision model is asked about.

    Windows are those of NeMo Curator's ``CaptionPreparationStage``: 256 frames each; what is left behind the last is a
    window of its own from 128 frames on, and else a part of that. Of a window, two frames a second are taken, spread
    evenly from its first to its last, at least 4. A clip of fewer than 4 frames goes to quarantine as ``too few
    frames``; other faults are those of `VideoStage`, and ``too many frames`` as with `ExtractFrames`.

    A row has the frames as JPEG files in ``window_frames``, a list, their times in ``window_frames_s`` (seconds from
    the start of the film), the numbers of the first and last frame of the window within the clip in ``window_start``
    and ``window_end``, and its number in ``window_number``. Other columns are repeated, but for ``bytes``. `Generate`
    with ``images_field="window_frames"`` asks a model about them; its prompt sees all columns.

    Args:
        window_size: frames of a window.
        remainder_threshold: frames that are enough for a window of their own at the end.
        sampling_fps: frames a second that are taken.
        height: height in pixels to which higher frames are reduced; None for their own.
        quality: quality of the JPEGs, 1 to 100.
        max_frame_bytes: bytes of the frames of a film, at most, as a number or text such as ``"256MiB"``.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: a number is out of range.

    Examples:
        >>> import io, av
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         _ = container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        ...     _ = container.mux(stream.encode())
        >>> stage = CaptionWindows()
        >>> windows = stage.process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]})))
        >>> stage.teardown()
        >>> windows.to_arrow().drop_columns(["window_frames"]).to_pylist()
        [{'window_frames_s': [0.0, 0.64, 1.32, 1.96], 'window_number': 0, 'window_start': 0, 'window_end': 49}]
    """

    window_size: int = 256
    remainder_threshold: int = 128
    sampling_fps: float = 2.0
    height: int | None = 480
    quality: int = 90
    max_frame_bytes: int | str = "256MiB"
    name: str = "caption_windows"

    columns: ClassVar[Mapping[str, pa.DataType]] = {
        "window_frames": pa.list_(pa.large_binary()),
        "window_frames_s": pa.list_(pa.float64()),
        "window_number": pa.int64(),
        "window_start": pa.int64(),
        "window_end": pa.int64(),
    }
    function: ClassVar[str] = "dcurate.video.window_frames:watch"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_images(self.name, self.height, "jpeg", self.quality)
        for setting, least in (("window_size", 4), ("remainder_threshold", 1)):
            value = getattr(self, setting)
            if type(value) is not int or value < least:
                raise PipelineError(f"{self.name}: {setting}={value!r} must be a whole number from {least} on")
        if isinstance(self.sampling_fps, bool) or not isinstance(self.sampling_fps, int | float):
            raise PipelineError(f"{self.name}: sampling_fps={self.sampling_fps!r} must be a number above 0")
        if not 0 < self.sampling_fps < 2**31:
            raise PipelineError(f"{self.name}: sampling_fps={self.sampling_fps!r} must be a number above 0")
        self.max_frame_bytes = parse_bytes(self.max_frame_bytes, "max_frame_bytes")

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return {
            "window_size": self.window_size,
            "remainder_threshold": self.remainder_threshold,
            "sampling_fps": self.sampling_fps,
            "height": self.height,
            "image_format": "jpeg",
            "quality": self.quality,
            "max_bytes": self.max_frame_bytes,
        }

    def requires(self) -> dict[str, str]:
        return {"av": "video", "PIL": "video"}

    def dropped_columns(self) -> list[str]:
        return [BYTES]

    def collector(self) -> Collector:
        return _Windows()

    def process(self, task: DocumentBatch) -> DocumentBatch:
        answers = self.answers(DocumentBatch.given(task).to_arrow())
        kept = quarantined(task, answers, self.name)
        clips = [answer for answer in answers if not isinstance(answer, MediaFault)]
        windows = [window for clip in clips for window in clip]
        values = list(zip(*windows, strict=True)) or [()] * len(self.columns)
        added = pa.table(
            {name: pa.array(list(values[place]), kind) for place, (name, kind) in enumerate(self.columns.items())}
        )
        origin = [row for row, clip in enumerate(clips) for _ in clip]
        table = kept.to_arrow()
        carried = table.drop_columns([name for name in (BYTES, *added.column_names) if name in table.column_names])
        rows = with_columns(carried.take(pa.array(origin, pa.int64())), added) if carried.column_names else added
        return replace(kept.with_data(rows), rejections=kept.rejections)


class _Windows:
    """Collects the frames of the windows of a clip."""

    def __init__(self) -> None:
        self._frames: dict[int, bytes] = {}
        self._times: dict[int, float] = {}

    def take(self, answer: ChildAnswer) -> None:
        number = int(answer.value["number"])
        self._frames[number], self._times[number] = answer.blobs[0], float(answer.value["frame_s"])

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        rows = []
        for number, (start, end, sampled) in enumerate(answer.value["windows"]):
            there = [frame for frame in sampled if frame in self._frames]
            files, times = [self._frames[frame] for frame in there], [self._times[frame] for frame in there]
            rows.append((files, times, number, start, end))
        return rows
