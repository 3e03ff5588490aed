"""Filters of clips, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dcurate.compat.nemo.image_models import gpu_share
from dcurate.compat.nemo.stages import Spec
from dcurate.compat.nemo.verbose import log_progress
from dcurate.compat.nemo.video_stages.films import FilmLooker, looked_at, measuring_motion, said
from dcurate.compat.nemo.video_stages.frames import FrameExtractionPolicy, FrameExtractionSignature
from dcurate.compat.nemo.video_stages.tasks import Clip, VideoTask, VideoTaskStage
from dcurate.isolate.errors import MediaFault
from dcurate.models.vision import heads
from dcurate.models.vision import stage as vision

_log = logging.getLogger("dcurate.compat.nemo")

#: Score of clips without one.
_NONE = -1.0


@dataclass
class MeasuredMotion:
    """The motion of a clip, see `dcurate.video.VideoSignals`.

    Args:
        global_mean: mean over frames and pixels.
        per_patch_min_256: least of the means over time of patches of 256 x 256 pixels.
    """

    global_mean: float
    per_patch_min_256: float

    def get_major_size(self) -> int:
        """Return 0: it holds two numbers."""
        return 0


@dataclass
class MotionVectorDecodeStage(VideoTaskStage):
    """Measure the motion of clips by the vectors of their codec, by NeMo Curator's formula.

    Clips in VP9 and AV1 have no vectors, and so no motion.

    Args:
        num_cpus_per_worker: without effect: a slot takes one CPU.
        verbose: whether clips without motion are logged.
        target_fps: frames a second that are measured.
        target_duration_ratio: share of the clip that is measured.
    """

    num_cpus_per_worker: float = 6.0
    verbose: bool = False
    target_fps: float = 2.0
    target_duration_ratio: float = 0.5
    name: str = "motion_vector_decoding"
    _looker: FilmLooker | None = field(default=None, init=False, repr=False, compare=False)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], ["decoded_motion_data"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looker": None}

    def teardown(self) -> None:
        """End the child process."""
        if self._looker is not None:
            self._looker.teardown()
            self._looker = None

    def process(self, task: VideoTask) -> VideoTask:
        """Add the motion, or in ``errors`` why there is none."""
        if self._looker is None:
            self._looker = measuring_motion(self.target_fps, self.target_duration_ratio)
        with_file = [(clip, clip.buffer) for clip in task.data.clips if clip.buffer]
        for clip in task.data.clips:
            if not clip.buffer:
                _log.warning("Clip %s has no buffer. Skipping...", clip.uuid)
                clip.errors["buffer"] = "empty"
        answers = looked_at(self._looker, [data for _, data in with_file])
        for (clip, _), answer in zip(with_file, answers, strict=True):
            clip.decoded_motion_data = self._motion(clip, answer)
        return task

    def _motion(self, clip: Clip, answer: Any) -> MeasuredMotion | None:
        if isinstance(answer, MediaFault):
            is_small = answer.reason == "resolution_too_small"
            clip.errors["motion_decode"] = answer.reason if is_small else "decode_failed"
            if self.verbose:
                _log.warning("Clip %s has no motion: %s", clip.uuid, said(answer))
            return None
        if answer[0]["global_mean"] is None:
            clip.errors["motion_decode"] = "no_motion_frames"
            return None
        return MeasuredMotion(**answer[0])


def _sort(task: VideoTask, dropped: list[Clip], score: str, *, verbose: bool) -> None:
    """Set aside clips of a film."""
    video, gone = task.data, {id(clip) for clip in dropped}
    video.clips = [clip for clip in video.clips if id(clip) not in gone]
    video.filtered_clips += dropped
    if verbose:
        for clip in dropped:
            log_progress("Clip %s is filtered: %s is %s", clip.uuid, score, getattr(clip, score))


@dataclass
class MotionFilterStage(VideoTaskStage):
    """Set aside clips with little motion, and those without a figure of it.

    Args:
        score_only: whether all clips stay.
        global_mean_threshold, per_patch_min_256_threshold: least motion.
        num_gpus_per_worker, motion_filter_batch_size: without effect: motion was measured as clips were decoded.
        verbose: whether filtered clips are logged.
    """

    score_only: bool = False
    global_mean_threshold: float = 0.00098
    per_patch_min_256_threshold: float = 0.000001
    num_gpus_per_worker: float = 0
    motion_filter_batch_size: int = 256
    verbose: bool = False
    name: str = "motion_filter"

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        scores = ["motion_score_global_mean", "motion_score_per_patch_min_256"]
        return ["data"], ["decoded_motion_data", *scores, "filtered_clips", "clip_stats"]

    def process(self, task: VideoTask) -> VideoTask:
        """Score the clips, and set aside those with little motion."""
        dropped = []
        for clip in task.data.clips:
            motion = clip.decoded_motion_data or MeasuredMotion(_NONE, _NONE)
            clip.motion_score_global_mean = motion.global_mean
            clip.motion_score_per_patch_min_256 = motion.per_patch_min_256
            clip.decoded_motion_data = None
            is_small = motion.global_mean < self.global_mean_threshold
            if is_small or motion.per_patch_min_256 < self.per_patch_min_256_threshold:
                dropped.append(clip)
        if not self.score_only:
            task.data.clip_stats.num_filtered_by_motion += len(dropped)
            _sort(task, dropped, "motion_score_global_mean", verbose=self.verbose)
        return task


@dataclass
class ClipAestheticFilterStage(VideoTaskStage):
    """Set aside clips whose frames have a bad aesthetic score, by OpenAI's CLIP ViT-L/14 and LAION's network upon it.

    `ClipFrameExtractionStage` has to take the frames before, at `target_fps`. Untested on a GPU.

    Args:
        model_dir: folder of the models, as for ``ImageEmbeddingStage`` and ``ImageAestheticFilterStage``.
        score_threshold: least score.
        reduction: ``"mean"`` or ``"min"`` over the frames.
        target_fps: frames a second.
        num_gpus_per_worker: the share of a GPU, where there is one.
        verbose: whether filtered clips are logged.
    """

    model_dir: str = "models/clip_aesthetic"
    score_threshold: float = 0.5
    reduction: Literal["mean", "min"] = "min"
    target_fps: float = 1.0
    num_gpus_per_worker: float = 0.25
    verbose: bool = False
    name: str = "clip_aesthetic_filter"
    _models: tuple[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.resources = gpu_share(self.num_gpus_per_worker)

    def inputs(self) -> Spec:
        return ["data"], ["clips"]

    def outputs(self) -> Spec:
        return ["data"], ["decoded_motion_data"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_models": None}

    def _stages(self) -> tuple[Any, Any]:
        return vision.ImageEmbedding.in_folder(self.model_dir), heads.FilterByAesthetics(self.model_dir)

    def setup_on_node(self, node_info: Any = None, worker_metadata: Any = None) -> None:
        """Download the models to this host, if they are not there."""
        for stage in self._stages():
            stage.setup_on_node()

    def setup(self, worker_metadata: Any = None) -> None:
        """Load the models.

        Raises:
            ValueError: there is no such reduction.
        """
        if self.reduction not in ("mean", "min"):
            raise ValueError(f"Invalid reduction: {self.reduction}")
        self._models = self._stages()
        for stage in self._models:
            stage.setup()

    def teardown(self) -> None:
        """Free the memory of the models."""
        if self._models is not None:
            self._models[0].teardown()
            self._models = None

    def process(self, task: VideoTask) -> VideoTask:
        """Score the clips, and set aside those with a bad score."""
        signature = FrameExtractionSignature(FrameExtractionPolicy.sequence, self.target_fps).to_str()
        for clip in task.data.clips:
            clip.aesthetic_score = _NONE
            if not clip.buffer:
                _log.warning("Clip %s has no buffer.", clip.uuid)
                clip.errors["buffer"] = "empty"
            elif signature not in clip.extracted_frames:
                clip.errors[f"frames-{signature}"] = "missing"
                _log.error("Clip %s has buffer but no extracted frames for %s", clip.uuid, signature)
            else:
                clip.aesthetic_score = self._score(clip.extracted_frames.pop(signature))
        dropped = [clip for clip in task.data.clips if (clip.aesthetic_score or 0.0) < self.score_threshold]
        task.data.clip_stats.num_filtered_by_aesthetic += len(dropped)
        _sort(task, dropped, "aesthetic_score", verbose=self.verbose)
        return task

    def _score(self, frames: Any) -> float:
        if self._models is None:
            self.setup()
        assert self._models is not None
        embedding, scorer = self._models
        vectors = embedding.embed([embedding.encoder.prepared(frame) for frame in frames])
        scores = scorer.scores_of(np.asarray(vectors, np.float32))
        return float(np.mean(scores) if self.reduction == "mean" else np.min(scores))
