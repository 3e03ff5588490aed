"""Films and clips that child processes look at for the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.isolate.errors import MediaFault
from dcurate.isolate.sandbox import ChildAnswer
from dcurate.media.refs import BYTES, REF, Ref, ref_array
from dcurate.video.clips.stage import CutVideo
from dcurate.video.stage import Collector, VideoStage

#: Bytes of the frames of a clip that are held, at most.
MOST_BYTES = 2**31

_WATCHERS = "dcurate.compat.nemo.video_stages.watchers"


@dataclass
class FilmLooker(VideoStage):
    """A function of a child process, with its options, that looks at films one by one."""

    looks_with: str = f"{_WATCHERS}:probe"
    given: Mapping[str, Any] = field(default_factory=dict)
    name: str = "film_looker"

    columns: ClassVar[Mapping[str, pa.DataType]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sandbox": None}

    @property
    def function(self) -> str:
        return self.looks_with

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return self.given

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return [answer.value.get("found"), *answer.blobs]


class FrameLooker(FilmLooker):
    """As `FilmLooker`, for watchers that send pixels."""

    def collector(self) -> Collector:
        return _Pixels()


class _Pixels:
    """Collects the frames of a film as one array."""

    def __init__(self) -> None:
        self._frames: list[npt.NDArray[np.uint8]] = []

    def take(self, answer: ChildAnswer) -> None:
        """Keep the frames of an answer."""
        pixels = np.frombuffer(answer.blobs[0], np.uint8)
        if "size" in answer.value:
            width, height = answer.value["size"]
            self._frames.append(pixels.reshape(-1, height, width, 3))
        else:
            frame = pixels.reshape(1, *answer.value["shape"])
            self._frames.append(np.repeat(frame, answer.value["count"], axis=0))

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        if answer.blobs and answer.blobs[0]:
            self.take(answer)
        return [np.concatenate(self._frames) if self._frames else np.empty((0, 0, 0, 3), np.uint8)]


def probing() -> FilmLooker:
    """Return the stage that says what containers say."""
    return FilmLooker()


def measuring_motion(fps: float, ratio: float) -> FilmLooker:
    """Return the stage that measures motion by the vectors of codecs."""
    return FilmLooker(looks_with=f"{_WATCHERS}:watch_motion", given={"fps": fps, "ratio": ratio})


def taking_frames(policy: str, fps: float, size: tuple[int, int] | None) -> FrameLooker:
    """Return the stage that gives frames as arrays."""
    options = {"policy": policy, "fps": fps, "size": size, "max_bytes": MOST_BYTES}
    return FrameLooker(looks_with=f"{_WATCHERS}:watch_frames", given=options)


def taking_small_frames(width: int, height: int) -> FrameLooker:
    """Return the stage that gives all frames of films as arrays, made small as `TransNetV2Detector` has them."""
    options = {"size": [width, height], "interpolation": "BICUBIC"}
    return FrameLooker(looks_with="dcurate.video.shots.watcher:watch", given=options)


def making_previews(fps: float, height: int, quality: int, method: int) -> FilmLooker:
    """Return the stage that makes animated WebP files."""
    options = {"fps": fps, "height": height, "quality": quality, "method": method, "max_bytes": 2**28}
    return FilmLooker(looks_with="dcurate.video.preview_encoding:watch", given=options)


@dataclass
class ClipRecoder(CutVideo):
    """Encode all frames of clips, in the codec `fallback_codec`."""

    name: str = "clip_recoder"

    @property
    def watch_options(self) -> Mapping[str, Any]:
        return {**super().watch_options, "cut": "encode"}


def looked_at(stage: VideoStage, films: Sequence[bytes]) -> list[Any]:
    """Return what a stage says of each film, or the fault of it.

    Args:
        stage: the stage.
        films: films as files.
    """
    return stage.answers(pa.table({BYTES: pa.array(films, pa.large_binary())})) if films else []


def clips_of_file(stage: VideoStage, path: Path, spans: Sequence[tuple[float, float]]) -> list[Any]:
    """Return what a stage says of each clip of a film, or the fault of it.

    Args:
        stage: the stage.
        path: path of the film.
        spans: start and end of each clip, in seconds.
    """
    refs = [Ref(str(path), start_s=start, stop_s=stop) for start, stop in spans]
    return stage.answers(pa.table({REF: ref_array(refs, segments=True)})) if refs else []


def said(fault: MediaFault) -> str:
    """Return a fault as a line of text."""
    return ": ".join(part for part in map(str, fault) if part)


@dataclass
class ContainerMetadata:
    """What a container says of its film.

    Args:
        height, width: pixels, as encoded.
        fps: frames a second on average.
        num_frames: duration times frames a second, rounded down.
        video_codec, audio_codec: names of codecs.
        pixel_format: name of the format of pixels.
        video_duration: seconds.
        bit_rate_k: bit rate of the pictures in K; 2000 if unknown.
    """

    height: int | None = None
    width: int | None = None
    fps: float | None = None
    num_frames: int | None = None
    video_codec: str | None = None
    pixel_format: str | None = None
    video_duration: float | None = None
    audio_codec: str | None = None
    bit_rate_k: int | None = None


def extract_video_metadata(video: str | bytes | Path) -> ContainerMetadata:
    """Return what the container of a film says.

    Args:
        video: path or bytes of the film.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: it is not a film, or says nothing of rate and duration.
    """
    stage = probing()
    try:
        if isinstance(video, bytes):
            [answer] = looked_at(stage, [video])
        else:
            if not Path(video).exists():
                raise FileNotFoundError(f"{video} not found!")
            [answer] = stage.answers(pa.table({REF: ref_array([Ref(str(video))])}))
    finally:
        stage.teardown()
    return metadata_of(answer)


def metadata_of(answer: Any) -> ContainerMetadata:
    """Return what `probing` said of a film.

    Raises:
        ValueError: it was a fault.
    """
    if isinstance(answer, MediaFault):
        raise ValueError(f"No video stream found! {said(answer)}")
    return ContainerMetadata(**answer[0])
