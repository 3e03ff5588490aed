"""`FindShots`: a column of the shots of each film."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dcurate.core.stage import WorkerMetadata
from dcurate.errors import PipelineError
from dcurate.isolate.errors import MediaError
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.video.shots.content import ContentDetector
from dcurate.video.shots.spans import Span
from dcurate.video.shots.transitions import Scan, ShotDetector, Transition
from dcurate.video.stage import VideoStage

#: A shot or a clip: seconds, and numbers of frames.
SHOT = pa.struct(
    [("start", pa.float64()), ("end", pa.float64()), ("start_frame", pa.int64()), ("end_frame", pa.int64())]
)
TRANSITION = pa.struct(
    [
        *(("start", pa.float64()), ("end", pa.float64()), ("start_frame", pa.int64()), ("end_frame", pa.int64())),
        *(("kind", pa.string()), ("score", pa.float64())),
    ]
)
#: Pixels of the longest side that a child process may say its frames have.
_MOST_PIXELS = 2**20


@dataclass
class FindShots(VideoStage):
    """Add the shots of each film or clip, and the transitions between them.

    Every frame is decoded, made small in the child process, and looked at by the detector. A shot is a structure with
    ``start`` and ``end`` in seconds and ``start_frame`` and ``end_frame``, of which the end is outside; so is a
    transition, with its ``kind``, ``"cut"`` or ``"gradual"``, and a ``score`` on the scale of the detector. Frames of a
    gradual transition are in no shot. Times count from the start of the clip where a row refers to one. They are up to
    two microseconds before the frame, so that rounding leaves no frame out of its shot. Memory does not grow with the
    film but for some numbers a frame.

    Args:
        detector: such as `ContentDetector`, `AdaptiveDetector`, `ThresholdDetector`, `GradualDetector` or
            `TransNetV2Detector`.
        shots_field: the new column of shots.
        transitions_field: the new column of transitions.
        fps_field: the new column of frames a second on average, as the file says.
        reading: limits, as in `VideoStage`.
        name: name of the stage.

    Raises:
        PipelineError: the detector is none.

    Examples:
        >>> import io, av
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(100):
        ...         pixels = np.full((48, 64, 3), 40 if number < 60 else 200, np.uint8)
        ...         _ = container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        ...     _ = container.mux(stream.encode())
        >>> stage = FindShots()
        >>> found = stage.process(DocumentBatch(data=pa.table({"bytes": [file.getvalue()]}))).to_arrow()
        >>> stage.teardown()
        >>> [(shot["start_frame"], shot["end_frame"]) for shot in found["shots"][0].as_py()]
        [(0, 60), (60, 100)]
    """

    detector: ShotDetector = field(default_factory=ContentDetector)
    shots_field: str = "shots"
    transitions_field: str = "transitions"
    fps_field: str = "shots_fps"
    name: str = "find_shots"

    _model: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.detector, ShotDetector):
            raise PipelineError(
                f"stage {self.name!r}: detector={self.detector!r} must be a detector such as ContentDetector()"
            )

    @property
    def function(self) -> str:
        return "dcurate.video.shots.watcher:watch"

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {
            self.shots_field: pa.list_(SHOT),
            self.transitions_field: pa.list_(TRANSITION),
            self.fps_field: pa.float64(),
        }

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return self.detector.frames.request

    def requires(self) -> dict[str, str]:
        return {**super().requires(), **self.detector.requires()}

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        super().setup(worker_metadata)
        self._model = self.detector.load(worker_metadata)

    def teardown(self) -> None:
        super().teardown()
        self._model = None

    def collector(self) -> _ShotCollector:
        return _ShotCollector(self.detector.start(self._model))


class _ShotCollector:
    """Has a detector look at the frames that come from the child process."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._times: list[float] = []

    def take(self, answer: ChildAnswer) -> None:
        """Look at some frames."""
        times, (width, height) = answer.value["times"], answer.value["size"]
        if not times:
            return
        shape = (len(times), height, width, 3)
        if width * height > _MOST_PIXELS or math.prod(shape) != len(answer.blobs[0]):
            raise MediaError("crashed: bad answer", f"{len(answer.blobs[0])} bytes for {shape}")
        self._times += times
        self._scan.add(np.frombuffer(answer.blobs[0], np.uint8).reshape(shape))

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        """Return shots, transitions and frames a second."""
        self.take(answer)
        fps = float(answer.value["fps"])
        times = [*self._times, (self._times[-1] if self._times else 0.0) + 1.0 / fps]
        shots = [_span(span, times) for span in self._scan.shots()]
        return shots, [_transition(transition, times) for transition in self._scan.shot_changes()], fps


def _span(span: Span, times: Sequence[float]) -> dict[str, Any]:
    start, stop = span
    return {
        "start": before(times[start]),
        "end": before(times[stop]),
        "start_frame": start,
        "end_frame": stop,
    }


def _transition(transition: Transition, times: Sequence[float]) -> dict[str, Any]:
    span = _span((transition.start, transition.stop), times)
    return {**span, "kind": transition.kind, "score": transition.score}


def before(time_s: float) -> float:
    """Return a time of whole microseconds, one or two before a frame.

    Examples:
        >>> before(0.04), before(0.0)
        (0.039999, 0.0)
    """
    return max(0.0, math.floor(time_s * 1e6 - 0.5) / 1e6)
