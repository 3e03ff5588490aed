"""Readers of films, with NeMo Curator's names and arguments."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcurate.compat.nemo.files import FSPath, has_extension, is_remote_url
from dcurate.compat.nemo.partitioning import ClientPartitioningStage, FilePartitioningStage
from dcurate.compat.nemo.stages import CompositeStage, ProcessingStage, Spec
from dcurate.compat.nemo.tasks import EmptyTask, FileGroupTask
from dcurate.compat.nemo.verbose import log_progress
from dcurate.compat.nemo.video_stages.films import FilmLooker, looked_at, metadata_of, probing
from dcurate.compat.nemo.video_stages.tasks import Video, VideoTask

_log = logging.getLogger("dcurate.compat.nemo")

_EXTENSIONS = (".mp4", ".mov", ".avi", ".mkv", ".webm")


@dataclass
class VideoReaderStage(ProcessingStage[FileGroupTask, VideoTask]):
    """Read films, and what their containers say.

    A film that cannot be read stays, without metadata, and with the reason in ``errors``; it has no clips.

    Args:
        input_path: not used.
        verbose: whether films are logged.
    """

    input_path: str | None = None
    verbose: bool = False
    name: str = "video_reader"
    _probe: FilmLooker = field(default_factory=probing, init=False, repr=False, compare=False)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], ["source_bytes", "metadata"]

    def teardown(self) -> None:
        """End the child process."""
        self._probe.teardown()

    def process(self, task: FileGroupTask) -> VideoTask:
        """Read the film.

        Raises:
            ValueError: the task is not one of one file.
        """
        if len(task.data) != 1:
            raise ValueError(f"Expected exactly 1 video file, got {len(task.data)}")
        path: Any = task.data[0]
        video = Video(input_video=Path(path) if isinstance(path, str) else path)
        made = VideoTask(
            dataset_name=task.dataset_name,
            data=video,
            _metadata=deepcopy(task._metadata),
            _stage_perf=deepcopy(task._stage_perf),
        )
        try:
            video.source_bytes = _contents(video.input_video)
        except (OSError, TypeError, ValueError) as error:
            _log.error("Got an exception %s when trying to read %s", error, video.input_video)
            video.errors["download"] = str(error)
            return made
        try:
            video.set_metadata(metadata_of(looked_at(self._probe, [video.source_bytes])[0]))
        except ValueError as error:
            _log.warning("Failed to extract metadata for %s: %s", video.input_video, error)
            video.errors["metadata"] = str(error)
            return made
        if self.verbose:
            about = video.metadata
            size = f"{about.size:,} bytes, {about.width}x{about.height}"
            log_progress("Read %s: %s, %.1f fps, %.1f s", video.input_video, size, about.framerate, about.duration)
        return made


def _contents(path: Any) -> bytes:
    if isinstance(path, FSPath):
        return bytes(path.get_bytes_cat_ranges())
    if not isinstance(path, Path):
        raise TypeError(f"Unsupported input type: {type(path)}")
    return path.read_bytes()


@dataclass
class VideoReader(CompositeStage[EmptyTask, VideoTask]):
    """Read the films of a folder: files with the endings of MP4, QuickTime, AVI, Matroska and WebM.

    Args:
        input_video_path: path or address of the folder, or of a film.
        video_limit: films that are read, at most.
        verbose: whether films are logged.

    Raises:
        FileNotFoundError: there are no films.
    """

    input_video_path: str
    video_limit: int | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        self.name = "video_reader"
        if is_remote_url(self.input_video_path):
            return
        path = Path(self.input_video_path)
        if not path.exists():
            raise FileNotFoundError(f"Video directory does not exist: {self.input_video_path}")
        if path.is_file() and not has_extension(path.name, _EXTENSIONS):
            raise FileNotFoundError(
                f"Not a supported video file: {self.input_video_path}. Supported formats: {', '.join(_EXTENSIONS)}"
            )
        if path.is_dir() and not any(has_extension(file.name, _EXTENSIONS) for file in path.rglob("*")):
            raise FileNotFoundError(f"No video files found in: {self.input_video_path}")

    def decompose(self) -> list[Any]:
        """Return the stage that lists the films, and the one that reads them."""
        kind = ClientPartitioningStage if is_remote_url(self.input_video_path) else FilePartitioningStage
        files = kind(
            file_paths=self.input_video_path,
            files_per_partition=1,
            file_extensions=list(_EXTENSIONS),
            limit=self.video_limit,
        )
        return [files, VideoReaderStage(input_path=self.input_video_path, verbose=self.verbose)]

    def get_description(self) -> str:
        limit = self.video_limit if self.video_limit is not None else "unlimited"
        return (
            f"Reads video files from '{self.input_video_path}' (limit: {limit}) and downloads/processes them with "
            "metadata extraction"
        )
