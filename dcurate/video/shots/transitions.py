"""Transitions between shots, and what finds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dcurate.core.stage import WorkerMetadata

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

    def shot_changes(self) -> list[Transition]:
        """Return all transitions, sorted, after the last frame."""

    def shots(self) -> list[tuple[int, int]]:
        """Return the shots as numbers of their first frame and of the frame after their last, after the last frame."""


class SmallSize(NamedTuple):
    """Which frames a detector looks at.

    Args:
        side: pixels of the longer side, if frames keep their proportion.
        size: width and height, if all frames have one size.
        interpolation: FFmpeg's name of the way in which frames are made small.
    """

    side: int | None = None
    size: tuple[int, int] | None = None
    interpolation: str = "FAST_BILINEAR"

    @property
    def request(self) -> dict[str, Any]:
        """The settings for the child process, as JSON."""
        return {"side": self.side, "size": list(self.size) if self.size else None, "interpolation": self.interpolation}


class ShotDetector(ABC):
    """Finds transitions between shots in small frames."""

    @property
    @abstractmethod
    def frames(self) -> SmallSize:
        """Which frames it looks at."""

    @abstractmethod
    def start(self, model: Any = None) -> Scan:
        """Begin a film.

        Args:
            model: what `load` returned; None to load it.
        """

    def requires(self) -> dict[str, str]:
        """Return the libraries that it needs, and their extras; by default none."""
        return {}

    def load(self, slot: WorkerMetadata | None = None) -> Any:
        """Load what all films share; by default nothing.

        Args:
            slot: the argument of ``setup``.
        """
        return None


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
