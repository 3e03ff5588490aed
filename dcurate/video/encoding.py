"""Frames of films as image files; it runs in a child process."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.film import FilmFrame
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching


def encoded(frame: FilmFrame, options: Mapping[str, Any]) -> bytes:
    """Return a frame as a JPEG or PNG file, upright.

    Args:
        frame: the frame.
        options: ``height``, to which a higher frame is reduced; ``image_format``; ``quality`` of a JPEG.
    """
    width, height = frame.size
    most = options["height"]
    if most is not None and height > most:
        width, height = max(1, round(width * most / height)), most
    file = io.BytesIO()
    image = Image.fromarray(frame.pixels(width, height))
    if options["image_format"] == "png":
        image.save(file, "PNG", compress_level=3)
    else:
        image.save(file, "JPEG", quality=options["quality"])
    return file.getvalue()


class FrameBudget:
    """Bytes of frames of a clip that may still be sent.

    Args:
        most: bytes of all frames of a clip.
    """

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0

    @property
    def is_spent(self) -> bool:
        """Whether the frames so far are more than may be sent."""
        return self._size > self._most

    def take(self, data: bytes) -> None:
        """Count the bytes of a frame."""
        self._size += len(data)

    def check(self) -> None:
        """Refuse a clip whose frames are too large.

        Raises:
            MediaError: they are more than may be sent.
        """
        if self.is_spent:
            raise MediaError(
                "too many frames", f"more than {self._most:,} bytes of frames; take fewer, or reduce their height"
            )


class FrameEncoder:
    """A watcher that sends each frame as a file, with its time."""

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self.policy = FramePolicy(*options["policy"])
        self._options = options
        self._frames, self._budget = 0, FrameBudget(options["max_bytes"])

    def see(self, frame: FilmFrame) -> Answer | None:
        if self._budget.is_spent:
            return None
        data = encoded(frame, self._options)
        self._frames += 1
        self._budget.take(data)
        return None if self._budget.is_spent else ({"frame_s": frame.time_s}, [data])

    def end(self) -> Answer:
        self._budget.check()
        if not self._frames:
            raise MediaError("no frames", "the policy chose none")
        return {}, []


watch = watching(FrameEncoder)
