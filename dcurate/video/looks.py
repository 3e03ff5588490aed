"""What `VideoSignals` does with each clip. The kernels load with the module, before the first film."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.isolate.child import Answer
from dcurate.kernels.pictures import MEASURED, measure
from dcurate.media.ocr.share import text_share
from dcurate.video import changes, motion
from dcurate.video.changes import FrameChanges
from dcurate.video.film import FilmFrame, Pixels
from dcurate.video.motion import MotionRate, VectorMotion
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching

#: Pixels of the shorter side of the frames that are looked at alone.
_SIDE = 256
#: Signals of single frames, and their places among those that are measured.
LOOKS = ("brightness", "contrast", "saturation", "colourfulness", "sharpness")
_PLACES = [MEASURED.index(name) for name in LOOKS]
#: The most frames of a clip in which text is looked for, and the seconds of the clip for each of them.
_TEXTS, _TEXT_S = 3, 5.0
#: No cosines: hashes are not made.
_NO_WAVES = np.zeros((17, 64), np.float32), np.zeros((64, 32), np.float32)


class SignalsWatcher:
    """Measures the frames of a clip.

    Args:
        clip: the clip.
        options: ``frames``: the policy; ``looks``: frames a second that are looked at alone; ``motion``: frames a
            second and share of the duration, or None; ``text``: whether to look for text; ``text_models``: the folder.
    """

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self.policy = FramePolicy(*options["frames"])
        self._changes = FrameChanges(clip.film.frame_s)
        self._motion = None if options["motion"] is None else VectorMotion(clip, MotionRate(*options["motion"]))
        self._start_s, self._rate = clip.start_s, options["looks"]
        self._looked, self._next_s = list[npt.NDArray[np.float64]](), -math.inf
        self._text = _Texts(clip, options["text_models"]) if options["text"] else None

    def see(self, frame: FilmFrame) -> Answer | None:
        """Measure a frame."""
        self._changes.see(frame)
        if self._motion is not None:
            self._motion.see(frame)
        is_due = frame.time_s >= self._next_s
        if is_due or (self._text is not None and self._text.is_due(frame.time_s)):
            pixels = reduced(frame)
            if is_due:
                self._looked.append(looked(pixels))
                steps = math.floor((frame.time_s - self._start_s) * self._rate + 1e-6) + 1
                self._next_s = self._start_s + steps / self._rate - 1e-6
            if self._text is not None:
                self._text.see(frame.time_s, pixels)
        return None

    def end(self) -> Answer:
        """Return the signals of the clip."""
        values = self._changes.result() if self._looked else {}
        if self._motion is not None:
            values["motion_global_mean"], values["motion_per_patch_min_256"] = self._motion.result()
        if self._looked:
            means = np.mean(self._looked, axis=0).tolist()
            values |= {name: None if math.isnan(mean) else mean for name, mean in zip(LOOKS, means, strict=True)}
        if self._text is not None:
            values["text"] = self._text.result()
        return values, []


class _Texts:
    """The share of text in the middle frames of one to three parts of a clip: one for each five seconds."""

    def __init__(self, clip: WatchedClip, models: str | None) -> None:
        end_s = clip.film.duration_s if clip.stop_s is None else min(clip.stop_s, clip.film.duration_s)
        seconds = max(0.0, end_s - clip.start_s)
        parts = min(_TEXTS, max(1, round(seconds / _TEXT_S)))
        self._times = [clip.start_s + seconds * (part + 0.5) / parts for part in range(parts)]
        self._models = models
        self._shares = list[float]()
        self._last: Pixels | None = None

    def is_due(self, time_s: float) -> bool:
        return bool(self._times) and time_s >= self._times[0]

    def see(self, time_s: float, pixels: Pixels) -> None:
        self._last = pixels
        if self.is_due(time_s):
            self._times = [later_s for later_s in self._times if later_s > time_s]
            self._shares.append(text_share(pixels, self._models))

    def result(self) -> float | None:
        if not self._shares and self._last is not None:  # a film that ends before its header says
            self._shares.append(text_share(self._last, self._models))
        return sum(self._shares) / len(self._shares) if self._shares else None


def reduced(frame: FilmFrame) -> Pixels:
    """Return the pixels of a frame, upright, the shorter side reduced to 256 pixels; smaller ones as they are."""
    width, height = frame.size
    part = min(1.0, _SIDE / min(width, height))
    return frame.pixels(max(1, round(width * part)), max(1, round(height * part)))


def looked(pixels: Pixels) -> npt.NDArray[np.float64]:
    """Return the signals of a single frame, in the order of `LOOKS`; NaN for sharpness where it is too small."""
    found = np.empty(len(MEASURED))
    measure(pixels, 0, _NO_WAVES, found, np.empty(0, np.uint8))
    return found[_PLACES]


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache on disk."""
    looked(np.zeros((8, 8, 3), np.uint8))
    changes.warm_up()
    motion.warm_up()


warm_up()
watch = watching(SignalsWatcher)
