"""`VideoSignals`: signals of films and clips, from one decode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.ocr.files import model_files
from dcurate.video.policy import FramePolicy
from dcurate.video.stage import VideoStage

_MOTION = ("motion_global_mean", "motion_per_patch_min_256", "motion_luma")
_SHARES = ("black", "frozen", "letterbox", "flicker", "cuts_per_minute")
_LOOKS = ("brightness", "contrast", "saturation", "colourfulness", "sharpness")
#: Kinds in the report for films that were decoded in part.
_CUT_OFF, _DAMAGED = "films that end early", "damaged films"


@dataclass
class VideoSignals(VideoStage):
    """Add signals of each film or clip; all come from one decode.

    Signals, after ``video_``:

    * ``motion_global_mean``, ``motion_per_patch_min_256``: motion by the vectors of the codec, as NeMo Curator's
      ``MotionVectorDecodeStage`` and ``MotionFilterStage`` compute it: length of the vectors as a share of width +
      height, the mean over frames and pixels, and the least of the means over time of patches of 256 x 256. Null for
      codecs without vectors (VP9, AV1, HEVC), and where a side has less than 256 pixels.
    * ``motion_luma``: an estimate of the same length for all codecs, by how much brightness changes between frames for
      how much it changes between neighbours in a frame: right for small moves, too low for large ones.
    * ``black``: share of the time in which 98 % of the pixels are darker than 10 %, as FFmpeg's ``blackdetect`` has it.
    * ``frozen``: share of the time in which the picture stays for half a second or longer.
    * ``letterbox``: share of the area in rows and columns along the sides that are dark in all frames: bars.
    * ``flicker``: how far the brightness of a frame is from the middle of the two beside it, on average, 0 to 1.
    * ``cuts_per_minute``: sudden changes of the picture. Flashes and fades are none.
    * ``brightness`` and ``contrast`` (0 to 1), ``saturation`` (0 to 1), ``colourfulness`` (Hasler and Suesstrunk, 2003)
      and ``sharpness`` (variance of the Laplacian of the brightness, 0 to 255): as `ImageSignals` has them, of frames
      reduced to 256 pixels along the shorter side, on average.
    * ``text``: with ``text=True``, the share of the area in lines of text, on average over one to three
      frames: one for each five seconds, in the middle of equal parts.
    * ``decoded_frames``: frames that were measured. ``cut_off``: the film ends before its header says, so far as it was
      read. ``damaged``: packets that could not be decoded.

    Frames are compared at 160 pixels along the longer side, by brightness. What is left of a film that is cut or
    damaged is measured. Memory does not grow with the length of a film, but for 4 MB an hour. Rows whose film cannot be
    decoded go to quarantine with the reason, as with `VideoStage`.

    Args:
        prefix: comes before the name of every column.
        frames: the frames that are compared. All are, unless given: then cuts, flicker and frozen pictures are right.
            Fewer cost less: ``FramePolicy("key")`` decodes key frames alone. Then motion is that between the frames
            that are compared, and motion by vectors is null.
        looks: frames a second that are looked at alone, for brightness and so on, of those that are compared.
        motion_fps: frames a second for motion by vectors; None to leave it out. NeMo Curator's ``target_fps``.
        motion_ratio: share of the clip for motion by vectors. NeMo Curator's ``target_duration_ratio``.
        text: whether to look for lines of text. It takes as long as decoding some hundred frames.
        text_models: the folder of PP-OCR models in ONNX format; None for those of the package `rapidocr`, which need
            no other package: ``pip install --no-deps rapidocr``.
        reading: limits.
        name: name of the stage.

    Raises:
        PipelineError: a rate or share that is not above zero.
        ResourceError: from `setup`, if there are no models that find text.

    Examples:
        >>> import io, av
        >>> import numpy as np
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):  # black, all the time
        ...         picture = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24")
        ...         _ = container.mux(stream.encode(picture))
        ...     _ = container.mux(stream.encode())
        >>> batch = DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))
        >>> stage = VideoSignals()
        >>> row = stage.process(batch).to_arrow().to_pylist()[0]
        >>> stage.teardown()
        >>> row["video_black"], row["video_frozen"], row["video_decoded_frames"], row["video_cut_off"]
        (1.0, 1.0, 50, False)
    """

    prefix: str = "video_"
    frames: FramePolicy = field(default_factory=FramePolicy)
    looks: float = 2.0
    motion_fps: float | None = 2.0
    motion_ratio: float = 0.5
    text: bool = False
    text_models: str | None = None
    name: str = "video_signals"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.frames, FramePolicy):
            raise PipelineError(f"{self.name}: frames={self.frames!r} must be a FramePolicy(...)")
        for name in ("looks", "motion_fps", "motion_ratio"):
            value = getattr(self, name)
            is_out = name == "motion_fps" and value is None
            if not is_out and (isinstance(value, bool) or not isinstance(value, int | float) or not _is_rate(value)):
                raise PipelineError(f"{self.name}: {name}={value!r} must be a number above 0, up to 1,000")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        texts = ("text",) if self.text else ()
        names: dict[str, pa.DataType] = dict.fromkeys([*_MOTION, *_SHARES, *_LOOKS, *texts], pa.float64())
        names |= {"decoded_frames": pa.int64(), "cut_off": pa.bool_(), "damaged": pa.int64()}
        return {self.prefix + name: kind for name, kind in names.items()}

    @property
    def function(self) -> str:
        return "dcurate.video.looks:watch"

    @property
    def watch_options(self) -> Mapping[str, Any]:
        is_measured = self.motion_fps is not None and self.frames.kind == "all"
        return {
            "frames": self.frames.request,
            "looks": self.looks,
            "motion": [self.motion_fps, self.motion_ratio] if is_measured else None,
            "text": self.text,
            "text_models": self.text_models,
        }

    def requires(self) -> dict[str, str]:
        return super().requires() | ({"onnxruntime": "images"} if self.text else {})

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if self.text:
            model_files(self.text_models)  # raises here if there are none
        super().setup(worker_metadata)

    def counted(self, rows: Sequence[Any]) -> dict[str, int]:
        counts = {_CUT_OFF: sum(bool(row[-2]) for row in rows), _DAMAGED: sum(bool(row[-1]) for row in rows)}
        return {kind: count for kind, count in counts.items() if count}

    def remarks(self, found: Mapping[str, int]) -> list[str]:
        remarks = super().remarks(found)
        for kind, column in ((_CUT_OFF, "cut_off"), (_DAMAGED, "damaged")):
            if count := found.get(kind, 0):
                which = f"what is left was measured; the column {self.prefix}{column} says which"
                remarks.append(f"{self.name}: {kind}: {count:,}, and {which}")
        return remarks

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        values = {**answer.value, "cut_off": answer.value["truncated"]}
        return [values.get(name.removeprefix(self.prefix)) for name in self.columns]


def _is_rate(value: float) -> bool:
    return math.isfinite(value) and 0 < value <= 1_000
