"""What a recording is compared by: up to 1,024 of its landmarks, in 8 KiB, and the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcurate.audio.decode import Samples, Sound
from dcurate.audio.stage import Mono
from dcurate.kernels.landmarks import NEAR_FRAMES, TRIPLETS, align, find_landmarks, find_peaks
from dcurate.kernels.layout import Ints

#: Column of fingerprints.
FINGERPRINT = "_dcurate_fingerprint"

#: Samples a second of what is compared; frames of the spectrogram, and the step from one to the next.
_RATE, _FRAME, _STEP = 8000, 1024, 128
#: Frequencies that are compared: 190 to 2,000 Hz, which telephones, noise and codecs leave alone best.
_LOW, _HIGH = 190 * _FRAME // _RATE, 2000 * _FRAME // _RATE
#: Logarithm of the lowest level, and of the part of the highest that a peak has at least: 35 dB.
_FLOOR, _BELOW = -12.0, 35 / 20 * np.log(10)
#: Landmarks of a fingerprint, and the fewest that say something.
_MOST, _FEWEST = 1024, 16
#: Frames that are transformed at a time.
_BLOCK = 512

_WINDOW = np.hanning(_FRAME).astype(np.float32)
_HEADER = np.dtype([("duration_s", "<f8"), ("start_s", "<f8"), ("stop_s", "<f8")])
_LANDMARK = np.dtype([("hash", "<u4"), ("moment", "<f4")])

Floats = npt.NDArray[np.float64]


class Fingerprint(NamedTuple):
    """The fingerprint of a recording.

    Args:
        duration_s: duration in seconds.
        extent: seconds of the first and the last peak.
        hashes: landmarks, in order, each once.
        moments: seconds of them.
    """

    duration_s: float
    extent: Floats
    hashes: npt.NDArray[np.uint32]
    moments: npt.NDArray[np.float32]

    @classmethod
    def read(cls, data: bytes) -> Fingerprint:
        """Read a fingerprint from the column."""
        header = np.frombuffer(data, _HEADER, 1)[0]
        landmarks = np.frombuffer(data, _LANDMARK, offset=_HEADER.itemsize)
        extent = np.array([header["start_s"], header["stop_s"]])
        moments = landmarks["moment"].astype(np.float32)
        return cls(float(header["duration_s"]), extent, landmarks["hash"].astype(np.uint32), moments)


class Landmarks:
    """Listens to a recording for its fingerprint.

    Examples:
        >>> import io, soundfile
        >>> file, noise = io.BytesIO(), np.random.default_rng(1).uniform(-0.5, 0.5, 24_000)
        >>> soundfile.write(file, noise, 8000, format="FLAC")
        >>> sound = Sound(file)
        >>> landmarks = Landmarks(sound)
        >>> for samples in sound.windows(0, None):
        ...     landmarks.hear(samples)
        >>> print = Fingerprint.read(landmarks.values(False)[0])
        >>> print.duration_s, len(print.hashes) == len(print.moments) > 500
        (3.0, True)
    """

    def __init__(self, sound: Sound) -> None:
        self._rate, self._frames = sound.rate, 0
        self._mono = Mono(sound.rate, _RATE)
        self._samples = np.zeros(_FRAME // 2, np.float32)
        self._levels = np.full((NEAR_FRAMES, _FRAME // 2), -np.inf, np.float32)
        self._first = -NEAR_FRAMES  # number of the first frame of the levels
        self._peaks: list[Floats] = []

    def hear(self, samples: Samples) -> None:
        self._frames += len(samples)
        self._take(self._mono.take(samples))

    def values(self, truncated: bool) -> Sequence[Any]:
        self._take(self._mono.rest())
        self._take(np.zeros(_FRAME // 2 + _STEP, np.float32), last=True)
        peaks = np.concatenate(self._peaks)
        peaks = peaks[peaks[:, 2] > peaks[:, 2].max(initial=_FLOOR) - _BELOW]
        peaks = peaks[np.lexsort((peaks[:, 1], peaks[:, 0]))]
        times, frequencies = peaks[:, 0] * (_STEP / _RATE), np.log(peaks[:, 1] * (_RATE / _FRAME))
        hashes, moments = np.empty(TRIPLETS * len(peaks), np.uint32), np.empty(TRIPLETS * len(peaks), np.float32)
        count = find_landmarks(np.ascontiguousarray(times), frequencies, hashes, moments)
        kinds, places = np.unique(hashes[:count], return_index=True)
        if len(kinds) < _FEWEST:
            return (None,)
        header = np.array([(self._frames / self._rate, times[0], times[-1])], _HEADER)
        landmarks = np.empty(min(len(kinds), _MOST), _LANDMARK)
        landmarks["hash"], landmarks["moment"] = kinds[:_MOST], moments[places[:_MOST]]
        return (header.tobytes() + landmarks.tobytes(),)

    def _take(self, samples: npt.NDArray[np.float32], last: bool = False) -> None:
        self._samples = np.concatenate([self._samples, samples])
        while (count := min(_BLOCK, (len(self._samples) - _FRAME) // _STEP + 1)) > 0 and (count == _BLOCK or last):
            frames = np.lib.stride_tricks.sliding_window_view(self._samples, _FRAME)[::_STEP][:count]
            levels = np.log(np.abs(np.fft.rfft(frames * _WINDOW, axis=1))[:, : _FRAME // 2] + 1e-7)
            self._samples = self._samples[count * _STEP :]
            self._look(levels.astype(np.float32))
        if last:
            self._look(np.full((NEAR_FRAMES, _FRAME // 2), -np.inf, np.float32))

    def _look(self, levels: npt.NDArray[np.float32]) -> None:
        """Find the peaks of frames that are known with their neighbours."""
        levels = np.concatenate([self._levels, levels])
        out = np.empty((len(levels) * (_HIGH - _LOW) // 4, 3))
        peaks = out[: find_peaks(levels, _LOW, _HIGH, _FLOOR, out)].copy()
        peaks[:, 0] += self._first
        self._peaks.append(peaks)
        self._first += len(levels) - 2 * NEAR_FRAMES
        self._levels = levels[-2 * NEAR_FRAMES :]


@dataclass(frozen=True)
class Alignment:
    """The similarity of pairs of recordings: the part of the longer one that is the same sound, 0 to 1.

    Args:
        prints: fingerprints of the recordings.
    """

    prints: Sequence[Fingerprint]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Alignment:
        """Read the fingerprints of a column."""
        return cls([Fingerprint.read(data) for data in column.to_pylist()])

    def __call__(self, left: Ints, right: Ints) -> Floats:
        """Compare the recordings of these numbers, pair by pair."""
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        return np.array([self._pair(self.prints[here], self.prints[there]) for here, there in pairs], np.float64)

    @staticmethod
    def _pair(here: Fingerprint, there: Fingerprint) -> float:
        similarity: float = align(
            (here.hashes, there.hashes), (here.moments, there.moments), (here.extent, there.extent)
        )
        return similarity
