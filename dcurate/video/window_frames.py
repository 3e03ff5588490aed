"""Frames of the windows of a clip; it runs in a child process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.encoding import FrameBudget, encoded
from dcurate.video.film import FilmFrame
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching
from dcurate.video.windows import MIN_FRAMES, sampled_frames, windows_of


class WindowWatcher:
    """A watcher that sends the sampled frames of each window of a clip.

    Frames are counted by their packets before any is decoded, as NeMo Curator counts them; of frames that turn out to
    be damaged, none is sent.
    """

    policy = FramePolicy("all")

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self._options, self._budget = options, FrameBudget(options["max_bytes"])
        self._count = _frames_of(clip)
        windows = windows_of(self._count, options["window_size"], options["remainder_threshold"])
        fps = 1 / clip.film.frame_s
        self._windows = [
            (window.start, window.end, sampled_frames(window, fps, options["sampling_fps"])) for window in windows
        ]
        self._wanted = {number for _, _, sampled in self._windows for number in sampled}
        self._number = -1

    def see(self, frame: FilmFrame) -> Answer | None:
        self._number += 1
        if self._number not in self._wanted or self._budget.is_spent:
            return None
        data = encoded(frame, self._options)
        self._budget.take(data)
        return None if self._budget.is_spent else ({"number": self._number, "frame_s": frame.time_s}, [data])

    def end(self) -> Answer:
        if not self._windows:
            raise MediaError("too few frames", f"{self._count}, and a window has at least {MIN_FRAMES}")
        self._budget.check()
        return {"windows": self._windows}, []


def _frames_of(clip: WatchedClip) -> int:
    """Count the frames of a clip by its packets."""
    stop_s = math.inf if clip.stop_s is None else clip.stop_s
    return sum(clip.start_s <= time_s < stop_s for time_s in clip.film.packet_times_s)


watch = watching(WindowWatcher)
