"""Open films and decode their frames. It runs in child processes only, and nothing else decodes pictures of films."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.video.containers import ends_early, open_film, packets, picture_of
from dcurate.video.selection import FrameSelector

#: Pixels of uint8, of shape (height, width, 3), red first.
Pixels = npt.NDArray[np.uint8]

#: Pixels of the largest frame that is decoded: 8192 x 8192.
MAX_PIXELS = 2**26
#: Seconds of a gap from which on it is skipped by a seek; a shorter one is skipped by reading packets.
_GAP_S = 20.0
#: Bytes of packets that wait for a decision whether they are decoded.
_WAITING = 2**25
#: Frames after which `Film.chosen` says that it goes on.
_PROGRESS = 16
#: FFmpeg's AV_CODEC_FLAG2_EXPORT_MVS.
_EXPORT_MOTION = 1 << 28
#: Seconds before the end in its header from which on a film counts as cut.
_CUT_S = 0.5
#: What is asked of each selector after each packet.
_IS_DONE, _NEEDED_S = attrgetter("is_done"), attrgetter("needed_s")
#: Codecs of films that may refresh their pictures without key frames; their decoders tell which frames are whole.
_REFRESHED = ("h264", "hevc")


@dataclass(slots=True)
class FilmFrame:
    """A frame of a film.

    Args:
        time_s: time at which it is shown, in seconds from the start of the film.
        is_key: whether it is a key frame.
        picture: the frame as PyAV holds it, not turned upright.
        reformatter: PyAV's ``VideoReformatter``, one for all frames of a film: what it prepares for a size is kept.
    """

    time_s: float
    is_key: bool
    picture: Any
    reformatter: Any

    @property
    def is_sideways(self) -> bool:
        """Whether width and height change places when the frame is turned upright."""
        return bool(self.picture.rotation % 180)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, upright."""
        size = (int(self.picture.width), int(self.picture.height))
        return (size[1], size[0]) if self.is_sideways else size

    def pixels(self, width: int | None = None, height: int | None = None) -> Pixels:
        """Return the pixels, upright, in a size if one is given; without it as they are.

        Args:
            width: width in pixels.
            height: height in pixels.
        """
        turned = (height, width) if self.is_sideways else (width, height)
        is_scaled = (turned[0] or self.picture.width) < self.picture.width
        way = "AREA" if is_scaled else "BICUBIC"
        scaled = self.reformatter.reformat(self.picture, *turned, format="rgb24", interpolation=way, threads=1)
        return np.ascontiguousarray(np.rot90(scaled.to_ndarray(), self.picture.rotation // 90))


@dataclass
class Film:
    """An open film: a picture track of a container, the first that is not a cover unless one is named.

    Times are in seconds from the start of the container, so that the tracks of a file have one clock.

    Args:
        source: the open file.
        max_pixels: pixels of the largest frame that is decoded.
        track: number of the track among all of the container; None for the first with pictures.

    Raises:
        MediaError: not a film, or damaged, or without pictures, or with larger ones.
    """

    source: BinaryIO
    max_pixels: int = MAX_PIXELS
    track: int | None = None
    container: Any = field(init=False)
    stream: Any = field(init=False)
    #: Packets that could not be decoded.
    damaged: int = field(default=0, init=False)
    #: Packets before the first key frame, which are not decoded: what they refer to is missing.
    skipped: int = field(default=0, init=False)
    #: Whether the film ends before its header says, as far as it was read.
    truncated: bool = field(default=False, init=False)
    _keeps_motion: bool = field(default=False, init=False)
    _reformatter: Any = field(init=False)

    def __post_init__(self) -> None:
        self._av = needed("av", "decoding films", "video")
        self.container = open_film(self.source)
        self.stream = picture_of(self.container, self.track)
        self._check_size(self.stream.codec_context.width, self.stream.codec_context.height)
        self._reformatter = reformatter()
        self._prepare()

    def export_motion(self) -> None:
        """Let frames carry the motion vectors of their codec, where it has some; call it before any is decoded."""
        self._keeps_motion = True
        self._prepare()

    def _prepare(self) -> None:
        """Decode on one thread, and no frame that is too large, for any size that the container states."""
        context = self.stream.codec_context
        context.thread_count, self.stream.thread_type = 1, "NONE"
        context.options = {**context.options, "max_pixels": str(self.max_pixels)}
        if self._keeps_motion:
            context.flags2 |= _EXPORT_MOTION

    @cached_property
    def start_s(self) -> float:
        """Time of the start of the container on its own clock, in seconds."""
        return (self.container.start_time or 0) / 1e6

    @cached_property
    def promised_s(self) -> float | None:
        """Duration by the header, in seconds."""
        seconds = (self.container.duration or 0) / 1e6
        if self.container.format.name.startswith("matroska"):
            seconds -= max(self.start_s, 0.0)  # there the header states the end, by the clock of the container
        return seconds if seconds > 0 else None

    @cached_property
    def duration_s(self) -> float:
        """Duration in seconds: by the header, or else by the times of the packets, all of which are read."""
        if self.promised_s is not None:
            return self.promised_s
        ends = [(packet.pts or packet.dts or 0) + (packet.duration or 0) for packet in self.packets()]
        self._rewind()
        return max((float(end * self.stream.time_base) for end in ends), default=0.0) - self.start_s

    @cached_property
    def packet_times_s(self) -> list[float]:
        """Times of all packets of pictures, in the order of the file, in seconds; all are read, and none decoded."""
        times = [max(self._time(packet, 0.0), 0.0) for packet in self.packets()]
        self._rewind()
        return times

    @cached_property
    def frame_s(self) -> float:
        """Seconds of a frame, by the header."""
        rate = self.stream.average_rate or self.stream.guessed_rate
        return float(1 / rate) if rate else 0.04

    def packets(self) -> Iterator[Any]:
        """Yield the packets of pictures; damage ends them."""
        if not (yield from packets(self.container, [self.stream])):
            self.truncated = True

    def chosen(self, selectors: Sequence[FrameSelector[FilmFrame]]) -> Iterator[tuple[int, FilmFrame] | None]:
        """Decode once, and yield the frames that selectors choose, each with the number of the selector.

        None comes between them after each 16 frames that were decoded, as a sign of progress.

        Packets that no selector needs are not decoded: those before the last key frame that comes before all that is
        still needed, and all but key frames where only these are wanted. Frames of a selector come in order.

        Raises:
            MediaError: no frame can be decoded.
        """
        frames = 0
        for frames, frame in enumerate(self._frames(selectors), 1):
            if frames % _PROGRESS == 0:
                yield None
            for number, selector in enumerate(selectors):
                for chosen in selector.offer(frame):
                    yield number, chosen
        if not frames and any(not selector.is_done for selector in selectors):
            self._check_any(selectors)
        for number, selector in enumerate(selectors):
            for chosen in selector.rest():
                yield number, chosen

    def _check_any(self, selectors: Sequence[FrameSelector[FilmFrame]]) -> None:
        """Refuse a film of which nothing can be decoded; a clip behind its end is another matter."""
        if self.skipped and not self.damaged:
            raise MediaError("no key frame", f"{self.skipped} frames, of which none can be decoded by itself")
        if self.damaged or min(selector.start_s for selector in selectors) <= self.frame_s:
            raise MediaError("damaged" if self.damaged or self.truncated else "no pictures", "no frame can be decoded")

    def _frames(self, selectors: Sequence[FrameSelector[FilmFrame]]) -> Iterator[FilmFrame]:
        """Decode what may be needed; stop where nothing is."""
        last_s, packet = -math.inf, None
        self._seek(min(selector.needed_s for selector in selectors))
        for packet in self._needed_packets(selectors):
            for picture in self._decoded(packet):
                frame = self._frame(picture, last_s)
                last_s = frame.time_s
                yield frame
            if all(map(_IS_DONE, selectors)):
                return
        for picture in self._decoded(None):
            frame = self._frame(picture, last_s)
            last_s = frame.time_s
            yield frame
        self.truncated |= self.is_cut(last_s if packet is None else max(last_s, self._time(packet, -math.inf)))

    def _frame(self, picture: Any, last_s: float) -> FilmFrame:
        """Return a picture with its time; times that jump back stand still."""
        self._check_size(picture.width, picture.height)
        time_s = self._picture_time(picture, last_s)
        return FilmFrame(max(time_s, last_s), picture.key_frame, picture, self._reformatter)

    def is_cut(self, last_s: float) -> bool:
        """Whether the header promises pictures after the last frame, or the file ends within a fragment.

        Only the header of the container may tell it.

        Args:
            last_s: time of the last frame, in seconds.
        """
        stream = self.stream
        if stream.duration is not None:
            end_s = float((stream.duration + (stream.start_time or 0)) * stream.time_base) - self.start_s
        else:
            has_others = any(track.type == "audio" for track in self.container.streams)
            end_s = 0.0 if has_others else (self.promised_s or 0.0)
        if last_s + 2 * self.frame_s + _CUT_S < end_s:
            return True
        return self.container.format.name.startswith("mov") and ends_early(self.source)

    def _needed_packets(self, selectors: Sequence[FrameSelector[FilmFrame]]) -> Iterator[Any]:
        """Yield the packets to decode: from the last key frame on before what is needed.

        Packets wait until a later one shows that no key frame comes before what is needed.
        """
        waiting: list[Any] = []
        size = 0
        is_waiting, only_keys = True, all(selector.only_keys for selector in selectors)
        needs_all_to_come = len(selectors) == 1 and selectors[0].needs_all_to_come
        packets = self._from_key_frame()
        for packet in packets:
            if only_keys and not packet.is_keyframe:
                continue
            needed_s = min(map(_NEEDED_S, selectors))
            dts_s = self._dts(packet)
            is_waiting = is_waiting or dts_s < needed_s - self.frame_s
            if not is_waiting:
                yield packet
                if needs_all_to_come:
                    yield from packets
                continue
            if packet.is_keyframe and self._time(packet, -math.inf) <= needed_s:
                if waiting:
                    self.stream.codec_context.flush_buffers()
                waiting, size = [], 0
            waiting.append(packet)
            size += packet.size
            if dts_s >= needed_s or size > _WAITING:
                yield from waiting
                waiting, size, is_waiting = [], 0, False
        yield from waiting

    def _from_key_frame(self) -> Iterator[Any]:
        """Yield the packets from the first key frame on."""
        packets = self.packets()
        for packet in packets:
            if packet.is_keyframe or self.stream.codec_context.name in _REFRESHED:
                yield packet
                break
            self.skipped += 1
        yield from packets

    def _decoded(self, packet: Any) -> list[Any]:
        try:
            return self.stream.codec_context.decode(packet)  # type: ignore[no-any-return]
        except self._av.error.EOFError:
            return []
        except self._av.error.ExitError:
            raise
        except (self._av.error.FFmpegError, ValueError):
            self.damaged += 1
            return []

    @cached_property
    def _base(self) -> tuple[int, int]:
        """Numerator and denominator of the time base: whole numbers, as fractions are slow, and floats not exact."""
        base = self.stream.time_base
        return base.numerator, base.denominator

    def _seconds(self, ticks: int) -> float:
        numerator, denominator = self._base
        return ticks * numerator / denominator - self.start_s

    def _time(self, packet: Any, default: float) -> float:
        ticks = packet.pts if packet.pts is not None else packet.dts
        return default if ticks is None else self._seconds(ticks)

    def _dts(self, packet: Any) -> float:
        ticks = packet.dts
        return math.inf if ticks is None else self._seconds(ticks)

    def _picture_time(self, picture: Any, last_s: float) -> float:
        ticks = picture.pts if picture.pts is not None else picture.dts
        if ticks is None:
            return 0.0 if math.isinf(last_s) else last_s + self.frame_s
        return self._seconds(ticks)  # PyAV gives pictures the time base of their packets

    def _seek(self, time_s: float) -> None:
        """Go to the key frame before a time, or to the start where it is close or a seek goes wrong."""
        if not _GAP_S < time_s < math.inf:
            return
        target = int((time_s - self.frame_s + self.start_s) / self.stream.time_base)
        try:
            self.container.seek(target, stream=self.stream, backward=True)
            first = next(self.packets(), None)
        except self._av.error.FFmpegError:
            first = None
        came_s = math.inf if first is None else self._time(first, math.inf)
        if came_s > time_s or first is None or not first.is_keyframe:
            self._rewind()
        else:
            self.container.seek(target, stream=self.stream, backward=True)

    def _rewind(self) -> None:
        """Open the container again: not every demuxer can go back to its start."""
        self.container.close()
        self.source.seek(0)
        self.container = open_film(self.source)
        self.stream = picture_of(self.container, self.track)
        self._prepare()
        self.truncated, self.skipped = False, 0

    def _check_size(self, width: int, height: int) -> None:
        if width * height > self.max_pixels:
            raise MediaError("too many pixels", f"{width} x {height}, more than {self.max_pixels:,}")


def reformatter() -> Any:
    """Return PyAV's converter of frames. What it prepares for a size is kept: use one for all frames of a size."""
    reformatting: Any = needed("av.video.reformatter", "decoding films", "video")
    return reformatting.VideoReformatter()
