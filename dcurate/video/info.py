"""`VideoInfo`: what the containers of films say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dcurate.isolate.sandbox import ChildAnswer
from dcurate.video.stage import VideoStage

_COLUMNS: dict[str, pa.DataType] = {
    "container": pa.string(),
    "codec": pa.string(),
    "width": pa.int64(),
    "height": pa.int64(),
    "rotation": pa.int64(),
    "fps": pa.float64(),
    "variable_rate": pa.bool_(),
    "frames": pa.int64(),
    "duration_s": pa.float64(),
    "first_frame_s": pa.float64(),
    "key_frames": pa.int64(),
    "longest_gop_s": pa.float64(),
    "longest_gap_s": pa.float64(),
    "bit_rate": pa.int64(),
    "pixel_format": pa.string(),
    "bits": pa.int64(),
    "hdr": pa.string(),
    "interlaced": pa.bool_(),
    "sounds": pa.int64(),
    "sound_codec": pa.string(),
    "sound_rate": pa.int64(),
    "sound_channels": pa.int64(),
    "subtitles": pa.int64(),
    "truncated": pa.bool_(),
}


@dataclass
class VideoInfo(VideoStage):
    """Add what the container of each film says; one frame is decoded, for what the container does not tell.

    The columns, after ``video_``: ``container`` (``mov`` for MP4 and QuickTime, ``matroska`` for WebM, too, ``avi``,
    ``mpegts``, ...: by content, not by name), ``codec`` (``h264``, ``hevc``, ``av1``, ``vp9``, ``mpeg4``, ...),
    ``width`` and ``height`` in pixels, upright, ``rotation`` in degrees by which players turn the frames
    counter-clockwise, ``fps`` (frames a second on average), ``variable_rate`` (whether the time between frames varies
    by more than 1 ms), ``frames``, ``duration_s`` in seconds, ``first_frame_s`` (when the pictures begin on the clock
    of the container), ``key_frames``, ``longest_gop_s`` (seconds between key frames, at most), ``longest_gap_s``
    (seconds between pictures, at most: times that jump ahead, as where recordings were joined, are in ``duration_s``),
    ``bit_rate`` of the file in bits a second, ``pixel_format``, ``bits`` of a sample, ``hdr`` (``pq``, ``hlg`` or
    null), ``interlaced``, ``sounds`` and ``subtitles`` (numbers of such tracks), ``sound_codec``, ``sound_rate``
    (samples a second) and ``sound_channels`` of the first, ``truncated`` (whether the file ends before its index or
    container says).

    Where a row refers to a clip, durations, frames and key frames are those of the clip.

    MP4, QuickTime and AVI files tell all of it by their index; of others, all packets are read, but none decoded. A
    cover picture is no film. Faults go to quarantine as with `VideoStage`.

    Args:
        prefix: comes before the name of every column.
        reading: limits.
        name: name of the stage.

    Examples:
        >>> import io, av
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> with av.open(file, "w", format="mp4") as container:
        ...     stream = container.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height = 64, 48
        ...     for number in range(50):
        ...         picture = av.VideoFrame(64, 48, "yuv420p")
        ...         _ = container.mux(stream.encode(picture))
        ...     _ = container.mux(stream.encode())
        >>> batch = DocumentBatch(data=pa.table({"bytes": [file.getvalue(), b"<html></html>"]}))
        >>> stage = VideoInfo()
        >>> looked = stage.process(batch)
        >>> stage.teardown()
        >>> looked.to_arrow().select(["video_codec", "video_frames", "video_duration_s"]).to_pylist()
        [{'video_codec': 'mpeg4', 'video_frames': 50, 'video_duration_s': 2.0}]
        >>> looked.rejections[0].reason
        'not a film: HTML or XML'
    """

    prefix: str = "video_"
    name: str = "video_info"

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: kind for name, kind in _COLUMNS.items()}

    @property
    def function(self) -> str:
        return "dcurate.video.probe:probe"

    def row(self, answer: ChildAnswer) -> Sequence[Any]:
        return [answer.value.get(name) for name in _COLUMNS]
