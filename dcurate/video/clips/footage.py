"""The packets of a film from the key frame before a time on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.video.containers import tracks
from dcurate.video.film import MAX_PIXELS, Film

#: Seconds that packets of sound may lie before those of the picture of the same time in a file.
_INTERLEAVING = 1
#: Seconds behind the end of a clip in which frames are decoded that are shown before others.
_REORDERING = Fraction(1, 2)
#: Seconds behind the end of a clip in which packets of other streams are looked for.
_AFTER = 10
#: Times that an earlier key frame is looked for, each twice as far back.
_TRIES = 24


class TimedPacket(NamedTuple):
    """A packet with its times, in units of its stream.

    Args:
        packet: packet of PyAV.
        pts: time at which it is shown.
        dts: time at which it is decoded; None where the container does not say.
        duration: duration, 0 if unknown.
    """

    packet: Any
    pts: int
    dts: int | None
    duration: int

    @property
    def is_key(self) -> bool:
        """Whether decoding may start with it."""
        return bool(self.packet.is_keyframe)


@dataclass
class Footage:
    """A film of which packets are copied.

    Args:
        file: the open file.
        max_pixels: pixels of the largest frame.
        track: number of the track that is copied alone; None for the first of pictures, and all of other kinds.

    Raises:
        MediaError: it is not a film, or has no picture.
    """

    file: BinaryIO
    max_pixels: int = MAX_PIXELS
    track: int | None = None
    film: Film = field(init=False)
    others: list[Any] = field(init=False)
    _target: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        library = needed("av", "cutting clips", "video")
        self.errors = (library.FFmpegError, ValueError, OSError)
        self._open()

    def _open(self) -> None:
        self.file.seek(0)
        self.film = Film(self.file, self.max_pixels, self.track)
        others = tracks(self.film.container, ("audio", "subtitle")) if self.track is None else []
        self.others = [stream for stream in others if stream.codec_context is not None]

    @property
    def picture(self) -> Any:
        """Stream of the picture."""
        return self.film.stream

    @property
    def codec(self) -> str:
        """Name of the codec of the picture, such as ``"h264"``."""
        return str(self.picture.codec_context.codec.canonical_name)

    @property
    def tick(self) -> Fraction:
        """Seconds of a unit of the times of the picture."""
        return Fraction(self.picture.time_base)

    @property
    def origin(self) -> Fraction:
        """Time that is 0 s of the film, on the clock of its container."""
        return Fraction(self.film.container.start_time or 0, 10**6)

    @property
    def frame_s(self) -> Fraction:
        """Usual seconds from one frame to the next."""
        rate = self.picture.average_rate or self.picture.guessed_rate
        return 1 / Fraction(rate) if rate else Fraction(1, 25)

    def is_picture(self, item: TimedPacket) -> bool:
        """Whether a packet is of the picture."""
        return bool(item.packet.stream_index == self.picture.index)

    def key_before(self, start: Fraction) -> int:
        """Return the time of a key frame at or before a time, mostly the last; of the first frame, if all are later.

        Raises:
            MediaError: there is none.
        """
        wanted = start // self.tick
        target: int | None = wanted
        step = max(1, self.frame_s // self.tick)
        for number in range(_TRIES):
            key = next((item.pts for item in self._from(target, alone=True) if item.is_key), None)
            if key is not None and (key <= wanted or target is None):
                self._target = target
                return key
            if target is None:
                break
            is_last = key is None or number == _TRIES - 2
            target = None if is_last else min(target, key or 0) - step * 2**number
        raise MediaError("no key frame", "its picture cannot be decoded from anywhere")

    def packets(self, key: int, stop: Fraction) -> Iterator[TimedPacket]:
        """Yield packets, in the order of the file, until all came by that are shown before a time.

        Those of the picture begin with a key frame; those of sound and subtitles may begin before it.

        Args:
            key: time of the key frame that `key_before` returned, in units of the stream.
            stop: time in seconds.
        """
        waiting = {stream.index for stream in (self.picture, *self.others) if stream.type != "subtitle"}
        has_begun = False
        for item in self._around(key):
            is_picture = self.is_picture(item)
            has_begun = has_begun or (is_picture and item.is_key and item.pts == key)
            if is_picture and not has_begun:
                continue
            time = (item.pts if item.dts is None else item.dts) * Fraction(item.packet.stream.time_base)
            if time >= stop + (_REORDERING if is_picture else 0):
                waiting.discard(item.packet.stream_index)
                if not waiting or (is_picture and time >= stop + _AFTER):
                    return
            yield item

    def _around(self, key: int) -> Iterator[TimedPacket]:
        """Packets from some time before a key frame on, so that no sound of its time is missing."""
        if self._target is not None:
            before = Fraction(_INTERLEAVING) // self.tick if self.others else 0
            items = self._from(min(self._target, key) - before)
            held: list[TimedPacket] = []
            for item in items:
                held.append(item)
                if self.is_picture(item) and item.is_key and item.pts >= key:
                    if item.pts > key:
                        break  # the seek went too far
                    yield from held
                    yield from items
                    return
        yield from self._from(None)

    def _from(self, target: int | None, *, alone: bool = False) -> Iterator[TimedPacket]:
        """Packets from the key frame before a time on; from the first if the target is None.

        Args:
            target: time in units of the picture.
            alone: whether only those of the picture are wanted.
        """
        try:
            if target is None:
                self._open()
            else:
                self.film.container.seek(target, stream=self.picture, backward=True)
        except self.errors:
            self._open()
        streams = [self.picture] if alone else [self.picture, *self.others]
        with suppress(*self.errors):  # what comes behind damage is lost, as at the end of a file that was cut
            for packet in self.film.container.demux(*streams):
                timed = _timed(packet)
                if timed is not None:
                    yield timed


def _timed(packet: Any) -> TimedPacket | None:
    """A packet with its times; None for one that ends the stream, or has neither bytes nor a time."""
    pts = packet.dts if packet.pts is None else packet.pts
    if pts is None or not packet.size:
        return None
    if packet.pts is None and packet.stream.type == "video" and packet.stream.codec_context.has_b_frames:
        raise MediaError("no times", "frames are stored in another order than they are shown in, without their times")
    return TimedPacket(packet, pts, packet.dts, packet.duration or 0)


def with_decoding_times(items: Sequence[TimedPacket], longest: int) -> list[TimedPacket]:
    """Return packets all of which have a time of decoding, each later than the one before.

    Args:
        items: packets of a stream, in the order of decoding.
        longest: units of time that a frame may wait for others, at most.

    Raises:
        MediaError: times jump.

    Examples:
        >>> [item.dts for item in with_decoding_times([TimedPacket(None, pts, None, 1) for pts in (0, 30, 10, 20)], 99)]
        [-10, 0, 10, 20]
    """
    times = [item.dts for item in items]
    if all(later is not None and sooner is not None and sooner < later for sooner, later in pairwise(times)) and all(
        item.dts is not None and item.dts <= item.pts for item in items
    ):
        return list(items)
    shown = sorted(item.pts for item in items)
    shift = max((time - item.pts for time, item in zip(shown, items, strict=True)), default=0)
    if shift > longest or any(sooner == later for sooner, later in pairwise(shown)):
        raise MediaError("jumping times", "frames have equal times, or times that go back")
    return [item._replace(dts=time - shift) for time, item in zip(shown, items, strict=True)]
