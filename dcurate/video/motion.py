"""The motion of a clip by the vectors of its codec, by NeMo Curator's formula. It runs in child processes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.kernels.frames import VECTOR, draw_motion
from dcurate.video.film import FilmFrame
from dcurate.video.watch import WatchedClip

#: Pixels of the shorter side of a film whose motion is measured, at least; and of the patches.
_SIDE = 256
#: Frames that are measured at least, and seconds of a film whose header does not say them.
_FRAMES, _SECONDS = 10, 30


@dataclass(frozen=True)
class MotionRate:
    """Which frames of a clip motion is measured of.

    Args:
        fps: frames a second.
        ratio: share of the duration, from the start on.
    """

    fps: float
    ratio: float


class VectorMotion:
    """The motion of a clip by the vectors of its codec.

    The formula is that of NeMo Curator's ``MotionVectorDecodeStage`` and ``MotionFilterStage``, down to its roundings:
    of all frames, from the first on, every ``round(rate of the film / fps)``-th is taken; those that have vectors are
    measured, at most ``max(10, round(fps * whole seconds * ratio))`` of them.

    Args:
        clip: the clip; its film keeps motion vectors.
        rate: which frames are measured.
    """

    def __init__(self, clip: WatchedClip, rate: MotionRate) -> None:
        film = clip.film
        film.export_motion()
        source_fps = float(film.stream.average_rate or film.stream.base_rate or 30)
        end_s = film.promised_s if clip.stop_s is None else min(clip.stop_s, film.promised_s or clip.stop_s)
        seconds = int(end_s - clip.start_s) if end_s is not None else 0
        self._step = max(1, round(source_fps / rate.fps))
        self._most = max(_FRAMES, round(rate.fps * ((seconds if seconds > 0 else _SECONDS) * rate.ratio)))
        self._seen, self._measured, self._sum = 0, 0, 0.0
        self._plane: npt.NDArray[np.float32] | None = None
        self._is_done = False

    def see(self, frame: FilmFrame) -> None:
        """Measure a frame if it is its turn."""
        number, self._seen = self._seen, self._seen + 1
        if self._is_done or number % self._step:
            return
        if self._plane is None:
            self._begin(frame.picture.width, frame.picture.height)
        vectors = None if self._is_done else vectors_of(frame.picture)
        if vectors is None:
            return
        assert self._plane is not None
        self._sum += float(draw_motion(vectors, self._plane, self._taps, self._sums))
        self._measured += 1
        self._is_done = self._measured >= self._most

    def _begin(self, width: int, height: int) -> None:
        if min(width, height) < _SIDE:
            self._is_done = True
            return
        self._plane = np.empty((height, width), np.float32)
        self._taps = _taps(height), _taps(width)
        self._sums = np.zeros((len(self._taps[0]), len(self._taps[1])), np.float64)

    def result(self) -> tuple[float | None, float | None]:
        """Return the mean over frames and pixels, and the least of the patches; None where nothing was measured."""
        if not self._measured or self._plane is None:
            return None, None
        mean = self._sum / (self._measured * self._plane.size)
        return mean, float(self._sums.min()) / self._measured


def vectors_of(picture: Any) -> npt.NDArray[np.int32] | None:
    """Return the motion vectors of a frame, see `VECTOR` for the columns; None if it has none."""
    data = picture.side_data.get("MOTION_VECTORS")
    if data is None:
        return None
    vectors = data.to_ndarray()
    return np.ascontiguousarray(np.stack([vectors[name] for name in VECTOR], axis=1), np.int32)


def _taps(size: int) -> npt.NDArray[np.int64]:
    """The pixels along a side that a bilinear filter takes to reduce it to 1/256: the two in the middle of each."""
    first = np.minimum(np.arange(round(size / _SIDE), dtype=np.int64) * _SIDE + _SIDE // 2 - 1, size - 1)
    return np.stack([first, np.minimum(first + 1, size - 1)], axis=1)


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache on disk."""
    taps = _taps(_SIDE)
    plane = np.empty((_SIDE, _SIDE), np.float32)
    draw_motion(np.zeros((1, len(VECTOR)), np.int32), plane, (taps, taps), np.zeros((1, 1)))
