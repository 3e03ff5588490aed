"""Transitions between shots, and what finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

#: Frames in RGB, of shape (frames, height, width, 3).
Frames = npt.NDArray[np.uint8]


class Transition(NamedTuple):
    """A transition between shots.

    Args:
        start: number of the first frame that is no longer of the shot before alone.
        stop: number of the first frame of the next shot alone; equal to `start` at a cut.
        kind: ``"cut"`` or ``"gradual"``.
        score: how sure it is; larger is surer, on a scale of the detector.

    Examples:
        >>> Transition(30, 30, "cut", 41.5).is_cut
        True
    """

    start: int
    stop: int
    kind: str
    score: float

    @property
    def is_cut(self) -> bool:
        """Whether no frame is of both shots."""
        return self.start == self.stop


class Scan(Protocol):
    """One pass of a detector over the frames of a video; it holds numbers of frames, and at most a few frames."""

    def add(self, frames: Frames) -> None:
        """Look at the next frames."""

    def transitions(self) -> list[Transition]:
        """Return all transitions, sorted, after the last frame."""

    def shots(self) -> list[tuple[int, int]]:
        """Return the shots as numbers of their first frame and of the frame after their last, after the last frame."""


class ShotDetector(Protocol):
    """Finds transitions between shots in small frames."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height of the frames that it looks at, for a video of this size."""

    def start(self) -> Scan:
        """Begin a video."""


def shots_between(transitions: Sequence[Transition], frames: int) -> list[tuple[int, int]]:
    """Return the shots of a video as numbers of their first frame and of the frame after their last.

    Frames of a gradual transition are in no shot, and shots without a frame are left out.

    Args:
        transitions: sorted transitions.
        frames: number of frames of the video.

    Examples:
        >>> shots_between([Transition(30, 30, "cut", 1.0), Transition(50, 60, "gradual", 1.0)], 80)
        [(0, 30), (30, 50), (60, 80)]
    """
    shots, start = [], 0
    for transition in transitions:
        if transition.start > start:
            shots.append((start, min(transition.start, frames)))
        start = max(start, transition.stop)
    if start < frames:
        shots.append((start, frames))
    return shots


def longest_side(width: int, height: int, side: int) -> tuple[int, int]:
    """Return width and height of a picture whose longer side is at most this long, in the same proportion.

    Examples:
        >>> longest_side(1920, 1080, 96)
        (96, 54)
        >>> longest_side(4, 1000, 96)
        (1, 96)
        >>> longest_side(64, 36, 96)
        (64, 36)
    """
    scale = min(1.0, side / max(width, height, 1))
    return max(1, round(width * scale)), max(1, round(height * scale))
