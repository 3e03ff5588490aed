"""The sound of MP4, M4A, Matroska, WebM, AVI and MPEG-TS files, decoded by PyAV behind the interface of soundfile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError

#: Demuxers that may read a file: none that follows references to other files or addresses.
_DEMUXERS = "mov,matroska,avi,mpegts,aac"


def is_video_container(data: bytes) -> bool:
    """Whether a file, by its first bytes, is a container that PyAV opens.

    Examples:
        >>> is_video_container(b"....ftypM4A "), is_video_container(b"RIFF....WAVE")
        (True, False)
    """
    return (
        data[4:8] in (b"ftyp", b"moov")
        or data[:4] == b"\x1aE\xdf\xa3"
        or (data[:4] == b"RIFF" and data[8:12] == b"AVI ")
        or (data[:1] == b"G" and data[188:189] == b"G")
        or (data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xF6 == 0xF0)
    )


def open_container(source: BinaryIO) -> Any:
    """Open the first sound track of a container.

    Raises:
        MediaError: there is no sound, or it cannot be read.
        ResourceError: PyAV is not installed.
    """
    av = needed("av", "decoding the sound of MP4, Matroska and AVI files", "video")
    options = {"format_whitelist": _DEMUXERS, "protocol_whitelist": "none"}
    try:
        container = av.open(source, options=options)
    except (av.error.FFmpegError, ValueError) as error:
        raise MediaError("damaged", str(error)) from error
    if not container.streams.audio:
        container.close()
        raise MediaError("no sound", "the file has no sound track")
    return _Track(av, container)


class _Track:
    """A sound track, with those parts of soundfile's interface that `dcurate.audio.decode` uses."""

    format, subtype = "AV", "AV"

    def __init__(self, av: Any, container: Any) -> None:
        self._av, self._container = av, container
        stream = container.streams.audio[0]
        self._layout, self.samplerate = stream.layout.name, int(stream.rate or 0)
        self.channels = len(stream.layout.channels)
        if not self.samplerate or not self.channels:
            raise MediaError("damaged", "the sound track has no sample rate or no channels")
        seconds = stream.duration * stream.time_base if stream.duration is not None else 0
        self.frames = 0 if container.format.name.startswith("matroska") else int(seconds * self.samplerate)
        self._pieces = self._decoded()
        self._rest: npt.NDArray[np.float32] = np.empty((0, self.channels), np.float32)

    def read(self, count: int, dtype: str, always_2d: bool) -> npt.NDArray[np.float32]:
        pieces, held = [self._rest], len(self._rest)
        while held < count and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            held += len(piece)
        samples = np.concatenate(pieces)
        self._rest = samples[count:]
        return samples[:count]

    def _decoded(self) -> Iterator[npt.NDArray[np.float32]]:
        even = self._av.AudioResampler(format="fltp", layout=self._layout, rate=self.samplerate)
        try:
            for frame in self._container.decode(audio=0):
                for piece in even.resample(frame):
                    yield np.ascontiguousarray(piece.to_ndarray().T)
            for piece in even.resample(None):
                yield np.ascontiguousarray(piece.to_ndarray().T)
        except self._av.error.FFmpegError as error:
            if isinstance(error, self._av.error.ExitError):
                raise
            return  # damage ends the sound, as the end of the file does
