"""Detectors of cuts by changes of colours and brightness, with the rules and defaults of PySceneDetect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.errors import PipelineError
from dcurate.kernels.hsv import BRIGHTNESS, COLOURS, HUE, SATURATION, hsv_changes
from dcurate.video.shots.transitions import Frames, ShotDetector, SmallSize, Transition, shots_between

Scores = npt.NDArray[np.float64]

#: Pixels of the longer side of frames that are looked at.
SIDE = 64
#: Largest ratio of a change to the changes around it, and the mean below which these count as none.
_LARGEST_RATIO, _NO_CHANGE = 255.0, 0.00001


@dataclass(frozen=True)
class ContentDetector(ShotDetector):
    """Finds cuts by how much hue, saturation and brightness change: PySceneDetect's ``ContentDetector``.

    The score of a frame is the mean of the three mean differences to the frame before, of pixels on a scale of 8 bits.
    Of frames above the threshold that are near each other, only the first and the last are cuts.

    Args:
        threshold: least score of a cut.
        min_shot_frames: frames of the shortest shot.

    Raises:
        PipelineError: a number is below 0.

    Examples:
        >>> frames = np.repeat(np.array([[40, 90, 200], [220, 180, 30]], np.uint8), 20, axis=0)
        >>> scan = ContentDetector().start()
        >>> scan.add(np.broadcast_to(frames[:, None, None], (40, 9, 16, 3)))
        >>> scan.shot_changes()
        [Transition(start=20, stop=20, kind='cut', score=41.0)]
    """

    threshold: float = 27.0
    min_shot_frames: int = 15

    def __post_init__(self) -> None:
        not_negative(self, "threshold", "min_shot_frames")

    @property
    def frames(self) -> SmallSize:
        return SmallSize(side=SIDE)

    def start(self, model: Any = None) -> ColourScan:
        return ColourScan(self)

    def cuts(self, changes: Scores, levels: Scores) -> list[int]:
        """Return the numbers of the frames that begin a shot."""
        return content_cuts(changes, self.threshold, self.min_shot_frames)


@dataclass(frozen=True)
class AdaptiveDetector(ShotDetector):
    """Finds cuts by changes that are large beside those around them: PySceneDetect's ``AdaptiveDetector``.

    Fast movement changes many frames in a row, so it is not taken for cuts as easily as by `ContentDetector`.

    Args:
        threshold: least ratio of the score of a frame to the mean score of its neighbours.
        min_shot_frames: frames of the shortest shot.
        min_change: least score of a cut, as in `ContentDetector`.
        window: neighbours on either side.

    Raises:
        PipelineError: a number is below 0, or `window` below 1.

    Examples:
        >>> frames = np.repeat(np.array([[40, 90, 200], [220, 180, 30]], np.uint8), 20, axis=0)
        >>> scan = AdaptiveDetector().start()
        >>> scan.add(np.broadcast_to(frames[:, None, None], (40, 9, 16, 3)))
        >>> [transition.start for transition in scan.shot_changes()]
        [20]
    """

    threshold: float = 3.0
    min_shot_frames: int = 15
    min_change: float = 15.0
    window: int = 2

    def __post_init__(self) -> None:
        not_negative(self, "threshold", "min_shot_frames", "min_change")
        if self.window < 1:
            raise PipelineError(f"AdaptiveDetector: window={self.window!r} must be 1 or more")

    @property
    def frames(self) -> SmallSize:
        return SmallSize(side=SIDE)

    def start(self, model: Any = None) -> ColourScan:
        return ColourScan(self)

    def cuts(self, changes: Scores, levels: Scores) -> list[int]:
        """Return the numbers of the frames that begin a shot."""
        return adaptive_cuts(changes, self)


@dataclass(frozen=True)
class ThresholdDetector(ShotDetector):
    """Finds fades through black by the mean brightness of frames: PySceneDetect's ``ThresholdDetector``.

    A cut is between the frame at which brightness falls below the threshold and that at which it is above it again.

    Args:
        threshold: mean of red, green and blue below which a frame is black.
        min_shot_frames: frames of the shortest shot.
        bias: place of the cut, from -1 where black begins to 1 where it ends.

    Raises:
        PipelineError: a number is below 0, or `bias` is not from -1 to 1.

    Examples:
        >>> levels = np.repeat(np.array([90, 0, 120], np.uint8), [20, 10, 20])
        >>> scan = ThresholdDetector().start()
        >>> scan.add(np.broadcast_to(levels[:, None, None, None], (50, 9, 16, 3)))
        >>> [transition.start for transition in scan.shot_changes()]
        [25]
    """

    threshold: float = 12.0
    min_shot_frames: int = 15
    bias: float = 0.0

    def __post_init__(self) -> None:
        not_negative(self, "threshold", "min_shot_frames")
        if not -1 <= self.bias <= 1:
            raise PipelineError(f"ThresholdDetector: bias={self.bias!r} must be from -1 to 1")

    @property
    def frames(self) -> SmallSize:
        return SmallSize(side=SIDE)

    def start(self, model: Any = None) -> ColourScan:
        return ColourScan(self)

    def cuts(self, changes: Scores, levels: Scores) -> list[int]:
        """Return the numbers of the frames that begin a shot."""
        return fades(levels, self.threshold, self.min_shot_frames, self.bias)


class ColourScan:
    """One pass over the frames of a video, of which it keeps two numbers each.

    Args:
        detector: the rule that makes cuts of the numbers.
    """

    def __init__(self, detector: ContentDetector | AdaptiveDetector | ThresholdDetector) -> None:
        self._detector = detector
        self._before: npt.NDArray[np.int32] | None = None
        self._changes: list[Scores] = []
        self._levels: list[Scores] = []

    def add(self, frames: Frames) -> None:
        if not len(frames):
            return
        pixels = frames.shape[1] * frames.shape[2]
        is_first = self._before is None or self._before.shape[1] != pixels
        if self._before is None or is_first:
            self._before = np.zeros((3, pixels), np.int32)
        sums = np.empty((len(frames), 4), np.int64)
        hsv_changes(np.ascontiguousarray(frames), self._before, sums)
        changes = (sums[:, HUE] + sums[:, SATURATION] + sums[:, BRIGHTNESS]) / (3.0 * pixels)
        if is_first:
            changes[0] = 0.0
        self._changes.append(changes)
        self._levels.append(sums[:, COLOURS] / (3.0 * pixels))

    def shot_changes(self) -> list[Transition]:
        if not self._changes:
            return []
        changes = np.concatenate(self._changes)
        cuts = self._detector.cuts(changes, np.concatenate(self._levels))
        return [Transition(cut, cut, "cut", float(changes[cut])) for cut in cuts]

    def shots(self) -> list[tuple[int, int]]:
        return shots_between(self.shot_changes(), sum(map(len, self._changes)))


def content_cuts(changes: Sequence[float] | Scores, threshold: float, min_frames: int) -> list[int]:
    """Return the frames at which shots begin, by the changes of frames to those before them.

    A change soon after a cut begins no shot, but one that would begin where changes have been small for `min_frames`.

    Args:
        changes: a score for each frame.
        threshold: least score of a cut.
        min_frames: frames of the shortest shot.

    Examples:
        >>> content_cuts([0, 0, 0, 50, 0, 0, 50, 50, 0, 0, 0, 0], 27, 3)
        [3, 6]
    """
    above = np.asarray(changes) >= threshold
    if min_frames <= 0:
        return np.flatnonzero(above).tolist()
    cuts: list[int] = []
    last, merge_start = 0, None
    for number, is_above in enumerate(above.tolist()):
        is_long = number - last >= min_frames
        if is_above:
            last = number
        if merge_start is not None:
            if is_long and not is_above and last - merge_start >= min_frames:
                merge_start = None
                cuts.append(last)
        elif is_above and is_long:
            cuts.append(number)
        elif is_above and cuts:
            merge_start = number
    return cuts


def adaptive_cuts(changes: Scores, rule: AdaptiveDetector) -> list[int]:
    """Return the frames at which shots begin: those whose change is large beside the changes around them.

    Args:
        changes: a score for each frame.
        rule: its numbers.

    Examples:
        >>> adaptive_cuts(np.array([0.0] * 20 + [50.0] + [9.0] * 20), AdaptiveDetector())
        [20]
    """
    width = 2 * rule.window + 1
    if len(changes) < width:
        return []
    windows = np.lib.stride_tricks.sliding_window_view(changes, width)
    target = changes[rule.window : len(changes) - rule.window]
    around = np.zeros(len(target))
    for place in range(width):
        if place != rule.window:
            around += windows[:, place]
    around /= 2.0 * rule.window
    still = np.abs(around) < _NO_CHANGE
    ratios = np.minimum(target / np.where(still, 1.0, around), _LARGEST_RATIO)
    ratios[still] = np.where(target[still] >= rule.min_change, _LARGEST_RATIO, 0.0)
    cuts: list[int] = []
    last = 0
    for place in np.flatnonzero((ratios >= rule.threshold) & (target >= rule.min_change)).tolist():
        number = place + rule.window
        if number - last >= rule.min_shot_frames:
            cuts.append(number)
            last = number
    return cuts


def fades(levels: Sequence[float] | Scores, threshold: float, min_frames: int, bias: float) -> list[int]:
    """Return the frames between where brightness falls below a threshold and where it rises above it.

    Args:
        levels: brightness of each frame.
        threshold: brightness below which a frame is black.
        min_frames: frames of the shortest shot, counted from where the last one came out of black.
        bias: place of the cut, from -1 where black begins to 1 where it ends.

    Examples:
        >>> fades([50, 50, 5, 5, 5, 5, 50], 12, 3, 0.0)
        [4]
    """
    cuts: list[int] = []
    dark = (np.asarray(levels, np.float64) < int(threshold)).tolist()
    last = fell = 0
    for number in range(1, len(dark)):
        if dark[number] and not dark[number - 1]:
            fell = number
        elif dark[number - 1] and not dark[number] and number - last >= min_frames:
            cuts.append(fell + round((number - fell) * (1.0 + bias) / 2.0))
            last = number
    return cuts


def not_negative(settings: object, *names: str) -> None:
    """Refuse numbers below 0.

    Raises:
        PipelineError: one is.
    """
    for name in names:
        if not getattr(settings, name) >= 0:
            value = getattr(settings, name)
            raise PipelineError(f"{type(settings).__name__}: {name}={value!r} must be 0 or more")
