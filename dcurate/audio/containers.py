"""The sound of MP4, M4A, Matroska, WebM, AVI and MPEG-TS files, decoded by PyAV behind the interface of soundfile.

Times count from the start of the container, as those of its pictures: a track that begins later begins with silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.media.av_containers import open_av


def open_container(source: BinaryIO, stream: int | None = None) -> Any:
    """Open a sound track of a container.

    Args:
        source: the open file.
        stream: number of the track among all of the container; None for the first with sound.

    Raises:
        MediaError: there is no sound, or it cannot be read.
        ResourceError: PyAV is not installed.
    """
    container = open_av(source, "decoding the sound of MP4, Matroska and AVI files")
    tracks = [track for track in container.streams.audio if stream is None or track.index == stream]
    if not tracks:
        container.close()
        raise MediaError("no sound", "the file has no sound track" if stream is None else no_track(stream))
    return _Track(needed("av", "decoding sound", "video"), container, tracks[0])


def no_track(stream: int) -> str:
    """What is wrong with a file of which no track with sound has a number."""
    return f"track {stream} of the file is none with sound"


#: Seconds of silence before a track, at most: times of damaged files may jump by years.
_MOST_SILENCE_S = 3600.0


class _Track:
    """A sound track, with those parts of soundfile's interface that `dcurate.audio.decode` uses."""

    format, subtype = "AV", "AV"

    def __init__(self, av: Any, container: Any, stream: Any) -> None:
        self._av, self._container, self._stream = av, container, stream
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
        is_first = True
        try:
            for frame in self._container.decode(self._stream):
                if is_first:
                    yield np.zeros((self._silence(frame), self.channels), np.float32)
                    is_first = False
                for piece in even.resample(frame):
                    yield np.ascontiguousarray(piece.to_ndarray().T)
            for piece in even.resample(None):
                yield np.ascontiguousarray(piece.to_ndarray().T)
        except self._av.error.FFmpegError as error:
            if isinstance(error, self._av.error.ExitError):
                raise
            return  # damage ends the sound, as the end of the file does

    def _silence(self, frame: Any) -> int:
        """Samples between the start of the container and the first frame of sound."""
        if frame.pts is None:
            return 0
        seconds = float(frame.pts * frame.time_base) - (self._container.start_time or 0) / 1e6
        return round(seconds * self.samplerate) if 0 < seconds <= _MOST_SILENCE_S else 0
