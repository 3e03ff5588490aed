"""`AudioInfo`: what the headers of recordings say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from dcurate.audio.headers.formats import is_enough, needs_tail, read_header
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import File
from dcurate.media.stage import FileStage

_COLUMNS: dict[str, pa.DataType] = {
    "container": pa.string(),
    "codec": pa.string(),
    "sample_rate": pa.int64(),
    "channels": pa.int64(),
    "bits": pa.int64(),
    "frames": pa.int64(),
    "duration_s": pa.float64(),
}


@dataclass
class AudioInfo(FileStage):
    """Add what the header of each recording says; no sound is decoded.

    The columns, after ``audio_``: ``container`` (``wav``, ``flac``, ``mp3``, ``ogg``, ``mp4``: by content, not by
    name), ``codec`` (``pcm``, ``float``, ``flac``, ``vorbis``, ``opus``, ``aac``, ...), ``sample_rate`` in samples a
    second, ``channels``, ``bits`` of a sample (null for codecs that have none), ``frames`` (samples of a channel, null
    if the header does not tell them exactly) and ``duration_s`` in seconds (null if it does not tell that). Where a
    row refers to a segment, the last two are those of the segment.

    The duration of an MP3 file is that of its Xing or VBRI tag, or else an estimate from its size and the frames
    in its first 64 KiB; of MP3 files that were joined, it is that of the first. The sample rate of Opus is that of what
    was encoded, if Opus decodes to it, else 48,000. An Ogg file with several recordings has no duration. A WAV file of
    a stream, with a size of 0 or 2**32 - 1, is as long as its bytes. A FLAC file that was cut is not noticed, as its
    header is whole, nor an Ogg file that was cut between two pages; stages that decode notice both.

    Of a file of more than 128 KiB, in a folder or a plain tar archive, the first 64 KiB are fetched, of Ogg also the
    last, and all of it only if its header is longer or, as in some MP4 files, at the end.

    A row whose file is not a recording goes to quarantine with the reason, such as ``empty``, ``truncated``,
    ``damaged``, ``no sound``, ``unsupported codec`` or ``not a recording: HTML or XML``; so does a segment that begins
    behind the end, ``bad segment``.

    Args:
        prefix: comes before the name of every column.
        reading: limits; a head is read of files of any size, and there is no child process.
        name: name of the stage.

    Examples:
        >>> import io, wave
        >>> from dcurate import DocumentBatch
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as sound:
        ...     sound.setparams((2, 2, 8000, 0, "NONE", ""))
        ...     sound.writeframes(bytes(4 * 4000))
        >>> batch = DocumentBatch(data=pa.table({"bytes": [file.getvalue(), b"<html></html>"]}))
        >>> heard = AudioInfo().process(batch)
        >>> heard.to_arrow().select(["audio_codec", "audio_channels", "audio_duration_s"]).to_pylist()
        [{'audio_codec': 'pcm', 'audio_channels': 2, 'audio_duration_s': 0.5}]
        >>> heard.rejections[0].reason
        'not a recording: HTML or XML'
    """

    prefix: str = "audio_"
    name: str = "audio_info"

    reads_heads: ClassVar[bool] = True

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {self.prefix + name: kind for name, kind in _COLUMNS.items()}

    def is_enough(self, head: bytes) -> bool:
        return is_enough(head)

    def needs_tail(self, head: bytes) -> bool:
        return needs_tail(head)

    def read(self, file: File) -> Sequence[Any]:
        header = read_header(file)
        frames, duration_s = _of_segment(file, header.sample_rate, header.frames, header.duration_s)
        return (
            header.container,
            header.codec,
            header.sample_rate,
            header.channels,
            header.bits,
            frames,
            duration_s,
        )


def _of_segment(file: File, rate: int, frames: int | None, duration_s: float | None) -> tuple[int | None, float | None]:
    """Frames and duration of the segment that the row means."""
    if file.start_s is None and file.stop_s is None:
        return frames, duration_s
    start_s = file.start_s or 0.0
    ends = [end for end in (file.stop_s, duration_s) if end is not None]
    stop_s = min(ends) if ends else None
    if not start_s >= 0 or (stop_s is not None and not stop_s > start_s):
        raise MediaError("bad segment", f"from {start_s} to {file.stop_s} s, of a recording of {duration_s} s")
    if stop_s is None:
        return None, None
    return None if frames is None else round(stop_s * rate) - round(start_s * rate), stop_s - start_s
