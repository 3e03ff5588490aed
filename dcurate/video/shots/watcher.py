"""The part of `FindShots` that runs in a child process: it sends small frames, some at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dcurate.isolate.child import Answer
from dcurate.video.film import FilmFrame, reformatter
from dcurate.video.policy import FramePolicy
from dcurate.video.shots.transitions import longest_side
from dcurate.video.watch import WatchedClip, watching

#: Frames that are sent at a time.
TOGETHER = 64


class SmallFrames:
    """Sends small frames with their times, counted from the start of the clip.

    Args:
        clip: the clip.
        options: ``size``, the width and height of frames; or ``side``, pixels of the longer side; and
            ``interpolation``, FFmpeg's name of the way in which frames are made small.
    """

    policy = FramePolicy("all")

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self._clip, self._options = clip, options
        self._reformatter = reformatter()
        self._size: tuple[int, int] | None = None
        self._times: list[float] = []
        self._frames: list[bytes] = []

    def see(self, frame: FilmFrame) -> Answer | None:
        """Take a frame; return some when there are enough."""
        if self._size is None:
            size = self._options.get("size")
            self._size = (size[0], size[1]) if size else longest_side(*frame.size, self._options["side"])
        width, height = self._size[::-1] if frame.is_sideways else self._size
        small = self._reformatter.reformat(
            frame.picture, width, height, format="rgb24", interpolation=self._options["interpolation"], threads=1
        ).to_ndarray()
        turns = frame.picture.rotation // 90
        self._frames.append((np.rot90(small, turns) if turns else small).tobytes())
        self._times.append(frame.time_s - self._clip.start_s)
        return self._some() if len(self._times) == TOGETHER else None

    def end(self) -> Answer:
        """Return the last frames, and the frames a second by the header."""
        value, blobs = self._some()
        return {**value, "fps": 1.0 / self._clip.film.frame_s}, blobs

    def _some(self) -> Answer:
        answer = {"times": self._times, "size": list(self._size or (0, 0))}, [b"".join(self._frames)]
        self._times, self._frames = [], []
        return answer


watch = watching(SmallFrames)
