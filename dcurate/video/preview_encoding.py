"""Clips as animated WebP; it runs in a child process."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.encoding import FrameBudget
from dcurate.video.film import FilmFrame
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching


class PreviewWatcher:
    """Makes an animated WebP of the frames of a clip.

    Args:
        clip: the clip.
        options: ``fps``, ``height`` in pixels, ``quality``, 0 to 100, ``method``, 0 to 6, and ``max_bytes`` of pixels.
    """

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self.policy = FramePolicy("per_second", options["fps"])
        self._options, self._budget = options, FrameBudget(options["max_bytes"])
        self._pictures: list[Image.Image] = []

    def see(self, frame: FilmFrame) -> None:
        """Keep a frame, small."""
        width, height = frame.size
        high = self._options["height"]
        pixels = frame.pixels(max(1, round(width * high / height)), high)
        self._budget.take(pixels.tobytes())
        if not self._budget.is_spent:
            self._pictures.append(Image.fromarray(pixels))

    def end(self) -> Answer:
        """Return the file."""
        self._budget.check()
        if not self._pictures:
            raise MediaError("no frames", "none for a preview")
        file, options = io.BytesIO(), self._options
        first, *others = self._pictures
        how = {"quality": options["quality"], "method": options["method"], "duration": round(1000 / options["fps"])}
        first.save(file, "WEBP", save_all=True, append_images=others, loop=0, **how)
        return {}, [file.getvalue()]


watch = watching(PreviewWatcher)
