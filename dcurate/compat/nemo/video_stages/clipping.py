"""Stages that find clips in films, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dcurate.compat.nemo.errors import as_nemo_raises
from dcurate.compat.nemo.image_models import has_gpu
from dcurate.compat.nemo.stages import Resources, Spec
from dcurate.compat.nemo.video_stages.films import FrameLooker, looked_at, said, taking_small_frames
from dcurate.compat.nemo.video_stages.tasks import Clip, Video, VideoTask, VideoTaskStage
from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.video.shots.clips import FixedStrideClips
from dcurate.video.shots.network import ShotNetwork
from dcurate.video.shots.spans import ClipLengths, clip_spans, fixed_spans, scenes
from dcurate.video.shots.transnet import TransNetV2Detector

_log = logging.getLogger("dcurate.compat.nemo")

_MODEL, _WEIGHTS = "Sn4kehead/TransNetV2", "transnetv2-pytorch-weights.pth"


def _clip(video: Video, first: int, last: int, span: tuple[float, float]) -> Clip:
    """A clip; its id follows from the film and its frames."""
    name = str(video.input_video)
    return Clip(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}_{first}_{last}"), source_video=name, span=span)


@dataclass
class FixedStrideExtractorStage(VideoTaskStage):
    """Add clips of one length at fixed steps, as `dcurate.video.FixedStrideClips` does.

    Args:
        clip_len_s: seconds of a clip.
        clip_stride_s: seconds from the start of a clip to that of the next.
        min_clip_length_s: seconds of the shortest clip.
        limit_clips: a film that has so many clips already gets no others; 0 or less for no limit.
        verbose: not used.

    Raises:
        ValueError: a length or stride is not above 0.
    """

    clip_len_s: float
    clip_stride_s: float
    min_clip_length_s: float
    limit_clips: int
    verbose: bool = False
    name: str = "fixed_stride_extractor"

    def __post_init__(self) -> None:
        with as_nemo_raises():
            FixedStrideClips(self.clip_len_s, self.clip_stride_s, self.min_clip_length_s, name=self.name)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def process(self, task: VideoTask) -> VideoTask:
        """Add the clips.

        Raises:
            ValueError: the film was not read.
        """
        video = task.data
        if video.source_bytes is None:
            raise ValueError("Video source bytes are not available")
        if not video.has_metadata():
            _log.warning("Incomplete metadata for %s. Skipping...", video.input_video)
            video.errors.setdefault("metadata", "incomplete")
            return task
        if 0 < self.limit_clips <= len(video.clips):
            _log.warning("Skipping %s because it has already been clipped", video.input_video)
            return task
        frames, fps = video.metadata.num_frames or 0, video.metadata.framerate or 0.0
        try:
            spans = fixed_spans(frames / fps, self.clip_len_s, self.clip_stride_s, self.min_clip_length_s)
        except MediaError as error:
            video.errors["clipping"] = said(error.fault)
            return task
        video.clips += [_clip(video, int(span[0] * fps), int(span[1] * fps), span) for span in spans]
        return task


@dataclass
class VideoFrameExtractionStage(VideoTaskStage):
    """Decode all frames of films, and make them small.

    Args:
        output_hw: height and width of frames.
        pyncv_batch_size, ray_data_num_cpus: without effect.
        decoder_mode: without effect: frames are decoded on CPUs, and are the same.
        verbose: not used.
    """

    output_hw: tuple[int, int] = (27, 48)
    pyncv_batch_size: int = 64
    decoder_mode: str = "pynvc"
    verbose: bool = False
    name: str = "video_frame_extraction"
    ray_data_num_cpus: float | None = None
    _frames: FrameLooker = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        height, width = self.output_hw
        self._frames = taking_small_frames(width, height)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def teardown(self) -> None:
        """End the child process."""
        self._frames.teardown()

    def process(self, task: VideoTask) -> VideoTask:
        """Add the frames; a film that cannot be decoded gets none, and the reason in ``errors``.

        Raises:
            ValueError: the film was not read.
        """
        video = task.data
        if video.source_bytes is None:
            raise ValueError("Video source bytes are not available")
        if not video.has_metadata():
            _log.warning("Incomplete metadata for %s. Skipping...", video.input_video)
            video.errors.setdefault("metadata", "incomplete")
            return task
        [answer] = looked_at(self._frames, [video.source_bytes])
        if isinstance(answer, MediaFault):
            _log.error("Frame extraction failed for %s: %s", video.input_video, said(answer))
            video.errors["frame_extraction"] = said(answer)
        else:
            video.frame_array = answer[0]
        return task


@dataclass
class TransNetV2ClipExtractionStage(VideoTaskStage):
    """Add clips within the shots that TransNetV2 finds, on a GPU where there is one.

    Args:
        model_dir: folder in which the weights are looked for first; else they come from the package
            `transnetv2-pytorch`, see `dcurate.video.TransNetV2Detector`.
        threshold: probability above which a frame is one of a transition.
        min_length_s, max_length_s, max_length_mode, crop_s: lengths of clips, see `dcurate.video.ClipLengths`.
        entire_scene_as_clip: whether a film without transitions is a shot.
        gpu_memory_gb: memory of a GPU, where there is one.
        limit_clips: clips of a film at most; 0 or less for no limit.
        verbose: not used.

    Raises:
        ValueError: a number is out of range.
    """

    model_dir: str | None = None
    threshold: float = 0.4
    min_length_s: float | None = 2.0
    max_length_s: float | None = 10.0
    max_length_mode: Literal["truncate", "stride"] = "stride"
    crop_s: float | None = 0.5
    entire_scene_as_clip: bool = True
    gpu_memory_gb: float = 10
    limit_clips: int = -1
    verbose: bool = False
    name: str = "transnetv2_clip_extraction"
    _network: ShotNetwork | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with as_nemo_raises():
            self._lengths = ClipLengths(self.min_length_s, self.max_length_s, self.max_length_mode, self.crop_s)
            self._detector()
        self.resources = Resources(gpu_memory_gb=self.gpu_memory_gb) if has_gpu() else Resources()

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], ["clips.extracted_frames"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_network": None}

    def _detector(self) -> TransNetV2Detector:
        folder = Path(self.model_dir or "") / _MODEL / _WEIGHTS
        weights = str(folder) if self.model_dir is not None and folder.is_file() else None
        return TransNetV2Detector(self.threshold, weights)

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the network."""
        self._network = self._detector().load()

    def teardown(self) -> None:
        """Free the memory of the network."""
        self._network = None

    def process(self, task: VideoTask) -> VideoTask:
        """Add the clips.

        Raises:
            ValueError: the film has no frames of 27 x 48 pixels.
        """
        video, frames = task.data, task.data.frame_array
        if not video.has_metadata() or not video.metadata.framerate:
            _log.warning("Incomplete metadata for %s. Skipping...", video.input_video)
            return task
        if frames is None:
            if "frame_extraction" in video.errors:
                return task
            raise ValueError("Run `FrameExtractionStage` stage prior to `TransNetV2ClipExtractionStage`!")
        if frames.shape[1:4] == (48, 27, 3):
            frames = frames.transpose(0, 2, 1, 3)
        if frames.shape[1:4] != (27, 48, 3):
            raise ValueError(f"Expected frames of shape 27x48x3, got {frames.shape[1:4]}.")
        if self._network is None:
            self.setup()
        scan = self._detector().start(self._network)
        scan.add(frames)
        rate = video.metadata.framerate
        shots = scenes(scan.probabilities() > self.threshold, whole=self.entire_scene_as_clip)
        for first, stop in clip_spans(shots, self._lengths.frames(rate)):
            video.clips.append(_clip(video, first, stop, (first / rate, stop / rate)))
            if 0 < self.limit_clips <= len(video.clips):
                break
        video.frame_array = None
        if not video.clips:
            _log.warning("No scene cut predicted for %s.", video.input_video)
        return task
