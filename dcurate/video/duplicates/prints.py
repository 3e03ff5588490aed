"""What a film is compared by: hashes of two frames a second, and their times; it runs in a child process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from dcurate.isolate.child import Answer
from dcurate.kernels.structure import BITS, GRID, structure_hash
from dcurate.video.film import FilmFrame, Pixels
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching

#: Column of fingerprints.
FINGERPRINT: Final = "_dcurate_fingerprint"
#: Frames a second, and of a film: of a longer one, every second frame is left out until it has no more.
RATE, MOST = 2, 2**14

_SHORT_SIDE = 144
#: Brightness of a bar, its mean and its brightest pixel; and the share of a side that bars may take.
_BAR, _BAR_PIXEL, _BAR_SHARE = 24, 48, 0.45
#: Share of what is left that is cut off at each edge, where codecs and croppings differ.
_EDGE = 0.02
#: Bits of the hash of a frame that says something: black and plain frames have fewer.
_FEWEST_BITS = 8

_HEADER = np.dtype([("duration_s", "<f8"), ("step_s", "<f8")])
_FRAME = np.dtype([("time_s", "<f4"), ("hash", "<u8", (BITS // 64,))])


class FilmPrint(NamedTuple):
    """The fingerprint of a film or clip.

    Args:
        duration_s: duration in seconds.
        step_s: seconds from frame to frame.
        times: seconds of the frames from its start.
        hashes: hashes of them, of shape (frames, 2).
    """

    duration_s: float
    step_s: float
    times: npt.NDArray[np.float64]
    hashes: npt.NDArray[np.uint64]

    @classmethod
    def read(cls, data: bytes) -> FilmPrint:
        """Read a fingerprint from the column."""
        header = np.frombuffer(data, _HEADER, 1)[0]
        frames = np.frombuffer(data, _FRAME, offset=_HEADER.itemsize)
        hashes = np.ascontiguousarray(frames["hash"]).astype(np.uint64)
        return cls(float(header["duration_s"]), float(header["step_s"]), frames["time_s"].astype(np.float64), hashes)


def without_bars(light: Pixels) -> Pixels:
    """Cut off black bars around a picture; they take at most 45 % of a side at each edge.

    Args:
        light: brightness, of shape (height, width).

    Examples:
        >>> light = np.full((90, 160), 16, np.uint8)
        >>> light[12:-12] = 130
        >>> without_bars(light).shape
        (66, 160)
    """
    for _ in range(2):
        dark = (light.mean(axis=1) <= _BAR) & (light.max(axis=1) <= _BAR_PIXEL)
        most = int(len(dark) * _BAR_SHARE)
        first, last = (int(np.argmin(np.append(edge[:most], False))) for edge in (dark, dark[::-1]))
        light = light[first : len(dark) - last].T
    return light


def frame_hash(pixels: Pixels) -> npt.NDArray[np.uint64]:
    """Return the hash of a frame without its bars, in any proportions.

    Args:
        pixels: array of shape (height, width, 3), uint8, RGB.
    """
    light = without_bars(np.asarray(Image.fromarray(pixels).convert("L")))
    height, width = light.shape
    box = (width * _EDGE, height * _EDGE, width * (1 - _EDGE), height * (1 - _EDGE))
    return structure_hash(
        np.asarray(Image.fromarray(np.ascontiguousarray(light)).resize((GRID, GRID), Image.Resampling.BOX, box))
    )


class PrintWatcher:
    """A watcher that hashes two frames a second."""

    policy = FramePolicy("per_second", RATE)

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self._start_s = clip.start_s
        self._times: list[float] = []
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._every, self._number, self._last_s = 1, 0, 0.0

    def see(self, frame: FilmFrame) -> None:
        self._last_s = frame.time_s - self._start_s
        self._number += 1
        if (self._number - 1) % self._every:
            return
        width, height = frame.size
        scale = min(1.0, _SHORT_SIDE / min(width, height))
        self._times.append(self._last_s)
        self._hashes.append(frame_hash(frame.pixels(max(1, round(width * scale)), max(1, round(height * scale)))))
        if len(self._times) > MOST:
            self._times, self._hashes = self._times[::2], self._hashes[::2]
            self._every *= 2

    def end(self) -> Answer:
        hashes = np.array(self._hashes, np.uint64).reshape(-1, BITS // 64)
        bits = np.unpackbits(hashes.view(np.uint8), axis=1).sum(axis=1)
        chosen = np.flatnonzero(bits >= _FEWEST_BITS)
        if not len(chosen):
            return {}, []
        header = np.array([(self._last_s + 1 / RATE, self._every / RATE)], _HEADER)
        frames = np.empty(len(chosen), _FRAME)
        frames["time_s"], frames["hash"] = np.array(self._times)[chosen], hashes[chosen]
        return {}, [header.tobytes() + frames.tobytes()]


watch = watching(PrintWatcher)
