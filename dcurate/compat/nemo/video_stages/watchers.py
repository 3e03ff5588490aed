"""What the stages have child processes look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dcurate.compat.nemo.video_stages.sampling import sample_closest
from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.video.containers import tracks
from dcurate.video.encoding import FrameBudget
from dcurate.video.film import MAX_PIXELS, Film, FilmFrame
from dcurate.video.motion import MotionRate, VectorMotion
from dcurate.video.policy import FramePolicy
from dcurate.video.watch import WatchedClip, watching

#: Bit rate in K of films whose container does not say it.
_BIT_RATE_K = 2000
#: Pixels of a side below which motion is not measured.
_SIDE = 256


def probe(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer]:
    """Yield what FFmpeg's ``ffprobe`` says of a film, as far as NeMo Curator takes it."""
    film = Film(source, options.get("max_pixels", MAX_PIXELS))
    stream, context = film.stream, film.stream.codec_context
    if not stream.average_rate:
        raise MediaError("no frame rate", "the container has none")
    if stream.duration is not None:
        duration_s = float(stream.duration * stream.time_base)
    elif film.container.duration:
        duration_s = film.container.duration / 1e6
    else:
        raise MediaError("no duration", "the container has none")
    sounds = [sound.codec_context.codec.canonical_name for sound in tracks(film.container, ("audio",))]
    properties = {
        "height": context.height,
        "width": context.width,
        "fps": float(stream.average_rate),
        "num_frames": int(duration_s * float(stream.average_rate)),
        "video_codec": context.codec.canonical_name,
        "pixel_format": context.pix_fmt,
        "video_duration": duration_s,
        "audio_codec": sounds[-1] if sounds else None,
        "bit_rate_k": int(context.bit_rate / 1024) if context.bit_rate else _BIT_RATE_K,
    }
    for number in range(len(request["clips"])):
        yield {"found": properties, "clip": number, "last": True}, []


class MotionWatcher:
    """Measures motion by the vectors of the codec.

    Args:
        clip: the clip.
        options: ``fps`` and ``ratio``, of `MotionRate`.
    """

    policy = FramePolicy("all")

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        self._motion = VectorMotion(clip, MotionRate(options["fps"], options["ratio"]))
        self._side: int | None = None

    def see(self, frame: FilmFrame) -> None:
        """Measure a frame, if it is its turn."""
        self._side = self._side or min(frame.picture.width, frame.picture.height)
        self._motion.see(frame)

    def end(self) -> Answer:
        """Return the motion."""
        if (self._side or 0) < _SIDE:
            raise MediaError("resolution_too_small", f"a side has {self._side} pixels, and {_SIDE} are needed")
        global_mean, per_patch_min_256 = self._motion.result()
        return {"found": {"global_mean": global_mean, "per_patch_min_256": per_patch_min_256}}, []


class RawFrames:
    """Sends the pixels of frames that are the nearest to times at a rate.

    Args:
        clip: a whole film.
        options: ``fps``; ``policy``, of which ``"middle"`` takes one frame; ``size``, width and height, or None for
            those of the film; ``max_bytes``.
    """

    policy = FramePolicy("all")

    def __init__(self, clip: WatchedClip, options: Mapping[str, Any]) -> None:
        times = np.sort(np.array(clip.film.packet_times_s, np.float32))
        if not len(times):
            raise MediaError("no frames", "the film has none")
        if options["policy"] == "middle" and len(times) > 1:
            numbers, counts = np.array([(len(times) - 1) // 2]), np.array([1])
        else:
            numbers, counts, _ = sample_closest(times, options["fps"])
        self._counts = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._size, self._budget, self._number = options["size"], FrameBudget(options["max_bytes"]), -1

    def see(self, frame: FilmFrame) -> Answer | None:
        """Return a frame that is wanted."""
        self._number += 1
        if self._number not in self._counts or self._budget.is_spent:
            return None
        size = {} if self._size is None else {"width": self._size[0], "height": self._size[1]}
        how = {} if self._size is None else {"interpolation": "BICUBIC"}
        pixels: npt.NDArray[np.uint8] = frame.picture.reformat(**size, format="rgb24", **how).to_ndarray()
        data, count = pixels.tobytes(), self._counts[self._number]
        for _ in range(count):
            self._budget.take(data)
        return None if self._budget.is_spent else ({"shape": list(pixels.shape), "count": count}, [data])

    def end(self) -> Answer:
        """Refuse a film whose frames are too large."""
        self._budget.check()
        return {}, []


watch_motion = watching(MotionWatcher)
watch_frames = watching(RawFrames)
