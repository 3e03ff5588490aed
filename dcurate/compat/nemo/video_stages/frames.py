"""Frames of films and clips as arrays, with NeMo Curator's names and arguments."""

from __future__ import annotations

import enum
import io
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dcurate.compat.nemo.stages import Spec
from dcurate.compat.nemo.verbose import log_progress
from dcurate.compat.nemo.video_stages.films import FrameLooker, looked_at, said, taking_frames
from dcurate.compat.nemo.video_stages.tasks import VideoTask, VideoTaskStage
from dcurate.isolate.errors import MediaFault

_log = logging.getLogger("dcurate.compat.nemo")

Frames = npt.NDArray[np.uint8]


class SoftwareCodecMissingError(RuntimeError):
    """A codec cannot be decoded on CPUs. It is never raised: the FFmpeg of PyAV decodes them."""

    def __init__(self, message: str, codec: str | None = None) -> None:
        super().__init__(message)
        self.codec = codec


class Resolution(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int


class FrameExtractionPolicy(enum.Enum):
    """Which frames are taken."""

    first = 0
    middle = 1
    last = 2
    sequence = 3


class FramePurpose(enum.Enum):
    """What frames are taken for; the value is frames a second."""

    AESTHETICS = 1
    EMBEDDINGS = 2


@dataclass
class FrameExtractionSignature:
    """The name of frames of a clip.

    Args:
        extraction_policy: policy that says which frames.
        target_fps: frames a second.

    Examples:
        >>> FrameExtractionSignature(FrameExtractionPolicy.sequence, 2.0).to_str()
        'FrameExtractionPolicy.sequence-2000'
    """

    extraction_policy: FrameExtractionPolicy
    target_fps: float

    def to_str(self) -> str:
        """Return the name."""
        return f"{self.extraction_policy!s}-{int(self.target_fps * 1000)}"


def _size(target_res: tuple[int, int] | None) -> tuple[int, int] | None:
    """Width and height, of height and width that may be -1."""
    return None if target_res is None or min(target_res) <= 0 else (target_res[1], target_res[0])


def _looker(policy: FrameExtractionPolicy, fps: float, target_res: tuple[int, int] | None) -> FrameLooker:
    """The stage that takes frames.

    Raises:
        NotImplementedError: the policy is neither sequence nor middle.
    """
    if policy not in (FrameExtractionPolicy.sequence, FrameExtractionPolicy.middle):
        raise NotImplementedError("Extraction policies apart from Sequence and Middle not available yet")
    return taking_frames(policy.name, fps, _size(target_res))


@contextmanager
def save_stream_position(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Go back to where a stream was."""
    position = stream.tell()
    try:
        yield stream
    finally:
        stream.seek(position)


def _bytes_of(video: Path | str | BinaryIO | bytes) -> bytes:
    if isinstance(video, bytes):
        return video
    if isinstance(video, str | Path):
        return Path(video).read_bytes()
    if not isinstance(video, io.IOBase):
        raise ValueError(f"Invalid video type: {type(video)}")
    with save_stream_position(video):
        return bytes(video.read())


def extract_frames(  # noqa: PLR0913, PLR0917 - as in NeMo Curator
    video: Path | str | BinaryIO | bytes,
    extraction_policy: FrameExtractionPolicy,
    sample_rate_fps: float = 1.0,
    target_res: tuple[int, int] = (-1, -1),
    num_threads: int = 1,
    stream_idx: int = 0,
    video_format: str | None = None,
) -> Frames:
    """Return frames of a film, red first, of shape (frames, height, width, 3).

    Args:
        video: path, bytes or file object.
        extraction_policy: ``sequence``, the frames that are the nearest to times at a rate; or ``middle``.
        sample_rate_fps: frames a second.
        target_res: height and width in pixels; those of the film where one is not above 0.
        num_threads, stream_idx, video_format: without effect.

    Raises:
        NotImplementedError: the policy is another.
        ValueError: the film cannot be decoded.
    """
    with _ended(_looker(extraction_policy, sample_rate_fps, target_res)) as stage:
        [answer] = looked_at(stage, [_bytes_of(video)])
    if isinstance(answer, MediaFault):
        raise ValueError(f"Can't extract frames: {said(answer)}")
    frames: Frames = answer[0]
    return frames


@contextmanager
def _ended(stage: FrameLooker) -> Iterator[FrameLooker]:
    try:
        yield stage
    finally:
        stage.teardown()


@dataclass
class ClipFrameExtractionStage(VideoTaskStage):
    """Add frames of clips as arrays.

    A clip that cannot be decoded loses its file, so that later stages leave it alone, and has the reason in ``errors``.

    Args:
        extraction_policies: see `extract_frames`.
        extract_purposes: what for; they decide `target_fps` where that is not given.
        target_res: height and width in pixels; those of the clip where one is not above 0.
        verbose: whether numbers of frames are logged.
        num_cpus: without effect: a slot takes one CPU.
        target_fps: frames a second, of each set of frames; 2 if neither is given.
    """

    extraction_policies: tuple[FrameExtractionPolicy, ...] = (FrameExtractionPolicy.sequence,)
    extract_purposes: list[FramePurpose] | None = None
    target_res: tuple[int, int] | None = None
    verbose: bool = False
    num_cpus: int = 3
    target_fps: list[float | int] | None = None
    name: str = "clip_frame_extraction"
    _lookers: dict[tuple[str, float], FrameLooker] = field(default_factory=dict, init=False, repr=False, compare=False)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], ["clips.extracted_frames"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lookers": {}}

    def setup(self, worker_metadata: Any = None) -> None:
        """Set what is not given."""
        if self.target_fps is None:
            purposes = self.extract_purposes
            self.target_fps = [2] if purposes is None else [purpose.value for purpose in purposes]
        if self.target_res is None:
            self.target_res = (-1, -1)

    def teardown(self) -> None:
        """End the child processes."""
        for stage in self._lookers.values():
            stage.teardown()
        self._lookers = {}

    def lcm_multiple(self, fps: Sequence[float | int]) -> int:
        """Return the least common multiple of rates."""
        return math.lcm(*map(int, fps))

    def process(self, task: VideoTask) -> VideoTask:
        """Add the frames."""
        if self.target_fps is None:
            self.setup()
        rates = self.target_fps or []
        is_joint = len(rates) > 1 and all(float(rate).is_integer() for rate in rates)
        decoded = [self.lcm_multiple(rates)] if is_joint else rates
        with_file = []
        for clip in task.data.clips:
            if clip.buffer is None:
                _log.error("Clip %s has no buffer", clip.uuid)
                clip.errors["buffer"] = "empty"
            else:
                with_file.append(clip)
        for policy in self.extraction_policies:
            for rate in decoded:
                films = [clip.buffer for clip in with_file if clip.buffer is not None]
                answers = zip(list(with_file), looked_at(self._of(policy, rate), films), strict=True)
                for clip, answer in answers:
                    if isinstance(answer, MediaFault):
                        _log.error("Error extracting frames for clip %s: %s", clip.uuid, said(answer))
                        clip.errors["frame_extraction"] = "video_decode_failed"
                        clip.buffer = None
                        with_file.remove(clip)
                        continue
                    taken = {fps: answer[0][:: int(rate / fps)] for fps in rates} if is_joint else {rate: answer[0]}
                    self._keep(clip.extracted_frames, policy, taken)
        if self.verbose:
            log_progress("extracted frames of %d clips", len(with_file))
        return task

    def _of(self, policy: FrameExtractionPolicy, rate: float) -> FrameLooker:
        if (policy.name, rate) not in self._lookers:
            self._lookers[policy.name, rate] = _looker(policy, rate, self.target_res)
        return self._lookers[policy.name, rate]

    @staticmethod
    def _keep(extracted: dict[str, Frames], policy: FrameExtractionPolicy, taken: Mapping[float, Frames]) -> None:
        for fps, frames in taken.items():
            extracted[FrameExtractionSignature(policy, fps).to_str()] = frames
