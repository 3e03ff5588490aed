"""Films and clips as tasks."""

from __future__ import annotations

import logging
import os
import pathlib
import sys
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from dask.sizeof import sizeof

from dcurate.compat.nemo.stages import ProcessingStage
from dcurate.compat.nemo.tasks import Task
from dcurate.compat.nemo.video_stages.films import extract_video_metadata

_log = logging.getLogger("dcurate.compat.nemo")


@dataclass
class CaptionWindow:
    """Frames of a clip that get a caption.

    Args:
        start_frame, end_frame: numbers of its first and last frame.
        mp4_bytes: the window as a file.
        llm_inputs: what a model is asked, by name of the model.
        x1_input: not used.
        caption, enhanced_caption: captions, by name of the model.
        webp_bytes: its preview.
    """

    start_frame: int
    end_frame: int
    mp4_bytes: bytes | None = None
    llm_inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    x1_input: Any | None = None
    caption: dict[str, str] = field(default_factory=dict)
    enhanced_caption: dict[str, str] = field(default_factory=dict)
    webp_bytes: bytes | None = None

    def get_major_size(self) -> int:
        """Return the bytes that it holds, about."""
        held = [*self.llm_inputs.values(), self.caption, self.enhanced_caption]
        return len(self.mp4_bytes or b"") + sum(map(sys.getsizeof, held)) + len(self.webp_bytes or b"")


@dataclass
class Clip:
    """A clip of a film.

    Args:
        uuid: id that follows from the film and the frames of the clip.
        source_video: path of the film.
        span: start and end, in seconds.
        buffer: the clip as a file.
        extracted_frames: frames by signature, of shape (frames, height, width, 3).
        decoded_motion_data: what `MotionVectorDecodeStage` found.
        motion_score_global_mean, motion_score_per_patch_min_256: motion.
        aesthetic_score: score of its frames.
        cosmos_embed1_frames, cosmos_embed1_embedding, cosmos_embed1_text_match: results of Cosmos-Embed1.
        windows: windows for captions.
        egomotion: not used.
        errors: what went wrong, by step.
    """

    uuid: UUID
    source_video: str
    span: tuple[float, float]
    buffer: bytes | None = None
    extracted_frames: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    decoded_motion_data: Any = None
    motion_score_global_mean: float | None = None
    motion_score_per_patch_min_256: float | None = None
    aesthetic_score: float | None = None
    cosmos_embed1_frames: npt.NDArray[np.float32] | None = None
    cosmos_embed1_embedding: npt.NDArray[np.float32] | None = None
    windows: list[CaptionWindow] = field(default_factory=list)
    egomotion: dict[str, bytes] = field(default_factory=dict)
    cosmos_embed1_text_match: tuple[str, float] | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def extract_metadata(self) -> dict[str, Any] | None:
        """Return what the container of the clip says; None without `buffer`.

        Raises:
            ValueError: it is not a film.
        """
        return None if self.buffer is None else about_clip(extract_video_metadata(self.buffer), self.buffer)

    @property
    def duration(self) -> float:
        """Seconds of the clip."""
        return self.span[1] - self.span[0]

    def get_major_size(self) -> int:
        """Return the bytes that it holds, about."""
        arrays = [*self.extracted_frames.values(), self.cosmos_embed1_frames, self.cosmos_embed1_embedding]
        size = len(self.uuid.bytes) + len(self.buffer or b"") + sum(a.nbytes for a in arrays if a is not None)
        if self.decoded_motion_data is not None:
            size += self.decoded_motion_data.get_major_size()
        return size + sum(window.get_major_size() for window in self.windows)


def about_clip(metadata: Any, buffer: bytes) -> dict[str, Any]:
    """Return what the document of a clip says of its file.

    Args:
        metadata: what `extract_video_metadata` returns.
        buffer: the file.
    """
    names = {"width": "width", "height": "height", "framerate": "fps", "num_frames": "num_frames"}
    properties = {name: getattr(metadata, source) for name, source in names.items()}
    return {**properties, "video_codec": metadata.video_codec, "num_bytes": len(buffer)}


@dataclass
class ClipStats:
    """Numbers of clips, and their seconds."""

    num_filtered_by_motion: int = 0
    num_filtered_by_aesthetic: int = 0
    num_passed: int = 0
    num_transcoded: int = 0
    num_with_embeddings: int = 0
    num_with_caption: int = 0
    num_with_webp: int = 0
    total_clip_duration: float = 0.0
    max_clip_duration: float = 0.0

    def combine(self, other: ClipStats) -> None:
        """Add those of others."""
        for name in (number.name for number in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, theirs) if name == "max_clip_duration" else mine + theirs)


@dataclass
class VideoMetadata:
    """What the container of a film says."""

    size: int | None = None
    height: int | None = None
    width: int | None = None
    framerate: float | None = None
    num_frames: int | None = None
    duration: float | None = None
    video_codec: str | None = None
    pixel_format: str | None = None
    audio_codec: str | None = None
    bit_rate_k: int | None = None


@dataclass
class Video:
    """A film with its clips.

    Args:
        input_video: path.
        source_bytes: the film as a file.
        metadata: what its container says.
        frame_array: all frames, made small.
        clips, filtered_clips: clips that stay, and that a filter set aside.
        num_total_clips, num_clip_chunks, clip_chunk_index: part of the clips of the film that these are.
        clip_stats: numbers of clips.
        errors: what went wrong, by step.
    """

    input_video: pathlib.Path
    source_bytes: bytes | None = None
    metadata: VideoMetadata = field(default_factory=VideoMetadata)
    frame_array: npt.NDArray[np.uint8] | None = None
    clips: list[Clip] = field(default_factory=list)
    filtered_clips: list[Clip] = field(default_factory=list)
    num_total_clips: int = 0
    num_clip_chunks: int = 0
    clip_chunk_index: int = 0
    clip_stats: ClipStats = field(default_factory=ClipStats)
    errors: dict[str, str] = field(default_factory=dict)

    def populate_metadata(self) -> None:
        """Set `metadata` from the container.

        Raises:
            ValueError: there is no film, or it cannot be read.
        """
        if self.source_bytes is None:
            raise ValueError("No video data available: source_bytes is None")
        self.set_metadata(extract_video_metadata(self.source_bytes))

    def set_metadata(self, found: Any) -> None:
        """Set `metadata`.

        Args:
            found: what `extract_video_metadata` returns.
        """
        about = self.metadata
        about.size = len(self.source_bytes or b"")
        about.framerate, about.duration = found.fps, found.video_duration
        for name in ("height", "width", "num_frames", "video_codec", "pixel_format", "audio_codec", "bit_rate_k"):
            setattr(about, name, getattr(found, name))

    @property
    def fraction(self) -> float:
        """Share of the clips of the film that are here."""
        if self.num_total_clips == 0:
            return 1.0
        return (len(self.clips) + len(self.filtered_clips)) / self.num_total_clips

    @property
    def weight(self) -> float:
        """Five minutes of film count 1.

        Raises:
            ValueError: its duration is unknown.
        """
        if self.metadata.size is None:
            return 0
        if self.metadata.duration is None:
            raise ValueError("metadata.duration is None")
        return self.metadata.duration / 300 * self.fraction

    def get_major_size(self) -> int:
        """Return the bytes that it holds, about."""
        array = 0 if self.frame_array is None else self.frame_array.nbytes
        held = len(self.source_bytes or b"") + sys.getsizeof(self.frame_array) + array
        return held + sum(clip.get_major_size() for clip in self.clips)

    def has_metadata(self) -> bool:
        """Whether size, duration, rate, frames and codec are known."""
        about = self.metadata
        known = about.height, about.width, about.duration, about.framerate, about.num_frames, about.video_codec
        return all(known)

    def is_10_bit_color(self) -> bool | None:
        """Whether samples have 10 bits; None if unknown."""
        pixels = self.metadata.pixel_format
        return None if pixels is None else "10le" in pixels or "10be" in pixels

    @property
    def input_path(self) -> str:
        """Path of the film."""
        return self.input_video.as_posix()


def _video_size(video: Video) -> int:
    return video.get_major_size() + sum(clip.get_major_size() for clip in video.filtered_clips)


sizeof.register(Video, _video_size)


@dataclass
class VideoTask(Task[Video]):
    """A film.

    Examples:
        >>> VideoTask(dataset_name="mine", data=Video(input_video="talk.mp4")).num_items
        1
    """

    data: Video = field(default_factory=Video)  # type: ignore[arg-type]  # as in NeMo Curator: it has to be given

    @property
    def num_items(self) -> int:
        return 1

    def validate(self) -> bool:
        """Whether the film is there, where its path is a local one."""
        path = self.data.input_video
        if isinstance(path, pathlib.Path) and not os.path.exists(path):
            _log.warning("Video %s does not exist", path)
            return False
        return True


#: A stage from a film to a film.
VideoTaskStage = ProcessingStage[VideoTask, VideoTask]
