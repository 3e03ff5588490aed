"""How the frames of a clip differ from each other, at a small size. It runs in child processes only."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.kernels.frames import COMPARED, compare
from dcurate.video.film import FilmFrame, reformatter

#: Pixels of the longer side of the frames that are compared.
SIDE = 160
#: Share of black pixels of a black frame, as FFmpeg's ``blackdetect`` has it.
_BLACK = 0.98
#: Levels of brightness by which a frozen picture may change, and seconds that it lasts at least.
_STILL, _FROZEN_S = 8, 0.5
#: Mean difference of brightness of a cut, at least; how much more it is than at the frames near it, and how near.
_CUT, _CUT_RATIO, _NEAR = 12.0, 2.0, 3
#: Most brightness of a bar, and most that it may vary.
_DARK, _EVEN = 32, 16
#: What is added to the mean difference of neighbours, so that pictures without any do not move endlessly.
_NOISE = 0.5

Floats = npt.NDArray[np.float64]


class FrameChanges:
    """What changes from frame to frame of a clip: brightness alone, reduced to 160 pixels along the longer side.

    Args:
        frame_s: seconds that the last frame is shown.
    """

    def __init__(self, frame_s: float) -> None:
        self._reformatter = reformatter()
        self._frame_s = frame_s
        self._times, self._compared = array("d"), array("d")
        self._found = np.empty(len(COMPARED))
        self._before: npt.NDArray[np.uint8] | None = None
        self._frozen_s = 0.0

    def see(self, frame: FilmFrame) -> None:
        """Compare a frame with the one before."""
        if self._before is None:
            picture = frame.picture
            part = min(1.0, SIDE / max(picture.width, picture.height))
            self._size = max(1, round(picture.width * part)), max(1, round(picture.height * part))
            self._extremes = np.repeat(np.array([[255], [0]], np.uint8), sum(self._size), axis=1)
        small = self._reformatter.reformat(
            frame.picture, *self._size, format="gray", interpolation="AREA", threads=1
        ).to_ndarray()
        if self._before is None:
            self._before = self._anchor = small
            self._anchor_s = frame.time_s
        compare(small, self._before, self._anchor, self._extremes, self._found)
        if self._found[4] > _STILL:
            self._end_run(frame.time_s)
            self._anchor, self._anchor_s = small, frame.time_s
        self._before = small
        self._times.append(frame.time_s)
        self._compared.frombytes(self._found[:4].tobytes())

    def _end_run(self, time_s: float) -> None:
        if time_s - self._anchor_s >= _FROZEN_S:
            self._frozen_s += time_s - self._anchor_s

    def result(self) -> dict[str, Any]:
        """Return the signals of the clip."""
        times = np.array([*self._times, self._times[-1] + self._frame_s])
        shown, duration = np.diff(times), float(times[-1] - times[0])
        self._end_run(float(times[-1]))
        brightness, black, change, slope = np.frombuffer(self._compared).reshape(-1, 4).T
        cuts = cuts_of(change)
        moved = 2 * change / (slope + _NOISE) / sum(self._size)
        moved = moved[1:][~cuts[1:]]
        return {
            "motion_luma": float(moved.mean()) if len(moved) else None,
            "black": float(shown[black >= _BLACK].sum()) / duration,
            "frozen": min(1.0, self._frozen_s / duration),
            "letterbox": _bars(self._extremes, self._size[1]),
            "flicker": _flicker(brightness, cuts),
            "cuts_per_minute": int(cuts.sum()) * 60 / duration,
            "decoded_frames": len(self._times),
        }


def cuts_of(change: Floats) -> npt.NDArray[np.bool_]:
    """Return which frames are the first after a cut.

    The difference of a cut is at least 12 levels, and twice that of each of the three frames before and after it: so a
    flash is none, and neither is a shaking camera.

    Args:
        change: mean difference of brightness of each frame to the one before, 0 to 255.

    Examples:
        >>> cuts_of(np.array([0.0, 1, 1, 40, 1, 2, 1, 1, 50, 1, 50, 1, 1, 1])).nonzero()[0].tolist()
        [3]
    """
    cuts = change >= _CUT
    for shift in range(1, _NEAR + 1):
        cuts[shift:] &= change[shift:] >= _CUT_RATIO * change[:-shift]
        cuts[:-shift] &= change[:-shift] >= _CUT_RATIO * change[shift:]
    return cuts


def _flicker(brightness: Floats, cuts: npt.NDArray[np.bool_]) -> float | None:
    """How far the brightness of a frame is from the middle of those beside it, 0 to 1; None without such frames."""
    off = np.abs(brightness[1:-1] - (brightness[:-2] + brightness[2:]) / 2) / 255
    off = off[~(cuts[1:-1] | cuts[2:])]
    return float(off.mean()) if len(off) else None


def _bars(extremes: npt.NDArray[np.uint8], height: int) -> float:
    """The share of the area in rows and columns along the sides that stay dark."""
    is_bar = (extremes[1] <= _DARK) & (extremes[1] - extremes[0].astype(np.int64) <= _EVEN)
    inner = 1.0
    for bars in (is_bar[:height], is_bar[height:]):
        open_places = np.flatnonzero(~bars)
        inner *= (open_places[-1] - open_places[0] + 1) / len(bars) if len(open_places) else 0.0
    return 1.0 - inner


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache on disk."""
    small = np.zeros((4, 4), np.uint8)
    compare(small, small, small, np.zeros((2, 8), np.uint8), np.empty(len(COMPARED)))
