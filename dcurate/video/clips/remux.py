"""Cut a clip packet for packet, from the key frame before its start on."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dcurate.isolate.errors import MediaError
from dcurate.video.clips.footage import Footage, TimedPacket, with_decoding_times
from dcurate.video.clips.output import HIDING, ClipTrack, Muxed, format_of, suffix_of, written

#: Seconds that a frame may wait for others to be decoded, at most.
LONGEST_WAIT = 4
#: Seconds of sound before a cut that its decoders need to start with: two packets of AAC or MP3, 80 ms of Opus.
PREROLL = Fraction(1, 10)
#: Seconds by which times may be inexact.
_INEXACT = Fraction(1, 10**6)
#: Packets after which a sign of progress is given.
PROGRESS = 16
#: Seconds that no film lasts.
_FOREVER = 2**40


@dataclass
class CutClip:
    """A clip as a file.

    Args:
        pieces: bytes of the file, to be joined.
        suffix: suffix of its name: ``mp4``, ``mov``, ``webm`` or ``mkv``.
        how: ``"remux"``, ``"stitched"`` or ``"encoded"``.
        start_s: time of the film at which the clip begins to be shown, in seconds.
        stop_s: time at which it ends.
        frames: frames that are shown.
        frames_encoded: frames that were encoded.
        frames_that_must: frames from the start of the clip up to the next key frame.
    """

    pieces: list[bytes | memoryview] = field(repr=False)
    suffix: str
    how: str
    start_s: float
    stop_s: float
    frames: int
    frames_encoded: int = 0
    frames_that_must: int = 0


@dataclass
class Stretch:
    """What is read of a film for a clip.

    Args:
        footage: film.
        start: time from which frames are wanted, in seconds on the clock of the container.
        stop: time until which they are.
        limit: bytes of packets that are held, at most.
    """

    footage: Footage
    start: Fraction
    stop: Fraction
    limit: int
    picture: list[TimedPacket] = field(default_factory=list)
    others: dict[int, list[TimedPacket]] = field(default_factory=dict)
    _size: int = 0

    @classmethod
    def of(cls, footage: Footage, start_s: float, stop_s: float | None, limit: int) -> Stretch:
        """Return an empty stretch.

        Args:
            footage: film.
            start_s: start of the clip in seconds of the film.
            stop_s: end of the clip; None for the end of the film.
            limit: bytes of packets that are held, at most.
        """
        stop = Fraction(_FOREVER if stop_s is None or math.isinf(stop_s) else stop_s)
        shift = footage.origin - _INEXACT
        return cls(footage, Fraction(start_s) + shift, stop + shift, limit)

    @property
    def times(self) -> str:
        """Start and end, for messages."""
        shift = _INEXACT - self.footage.origin
        stop = "its end" if self.stop > _FOREVER / 2 else f"{float(self.stop + shift):g} s"
        return f"from {float(self.start + shift):g} s to {stop}"

    def film_s(self, time: Fraction) -> float:
        """Return a time in seconds of the film."""
        return float(time - self.footage.origin)

    def keep(self, item: TimedPacket) -> None:
        """Keep a packet.

        Raises:
            MediaError: there are more than the limit.
        """
        if self.footage.is_picture(item):
            self.picture.append(item)
        elif self._is_heard(item):
            self.others.setdefault(item.packet.stream_index, []).append(item)
        else:
            return
        self._size += item.packet.size
        if self._size > self.limit:
            raise MediaError("too large", f"the clip has more than {self.limit:,} bytes")

    def forget_picture(self) -> None:
        """Drop the packets of the picture so far."""
        self._size -= sum(item.packet.size for item in self.picture)
        self.picture = []

    def forget(self) -> None:
        """Drop all packets."""
        self.picture, self.others, self._size = [], {}, 0

    def is_shown(self, item: TimedPacket) -> bool:
        """Whether the frame of a packet begins in the clip."""
        return self.start <= item.pts * self.footage.tick < self.stop and not item.packet.is_discard

    def end(self, shown: Sequence[int]) -> Fraction:
        """Return when the last frame ends: when the next one begins, if it was read."""
        last, tick = max(shown), self.footage.tick
        later = [item.pts for item in self.picture if item.pts > last]
        duration = next((item.duration for item in self.picture if item.pts == last), 0)
        return (min(later) if later else last + (duration or max(1, round(self.footage.frame_s / tick)))) * tick

    def until_last_shown(self, *, hides: bool) -> list[TimedPacket]:
        """Return the packets of the picture up to the last, in the order of decoding, that is shown.

        Args:
            hides: whether the format can hide frames behind the end. If not, frames between those that are kept are
                kept, too, so that none is missing.
        """
        count = 1 + max(number for number, item in enumerate(self.picture) if self.is_shown(item))
        while not hides:
            last = max(item.pts for item in self.picture[:count])
            further = [number for number, item in enumerate(self.picture) if number >= count and item.pts < last]
            if not further:
                break
            count = further[-1] + 1
        return self.picture[:count]

    def tracks(self, start: Fraction, stop: Fraction, *, hides: bool) -> Iterator[ClipTrack]:
        """Yield the tracks other than the picture.

        Args:
            start: time at which the clip begins to be shown, in seconds.
            stop: time at which it ends.
            hides: whether the format can hide what is before the start.
        """
        for stream in self.footage.others:
            tick = Fraction(stream.time_base)
            items = [
                item
                for item in self.others.get(stream.index, [])
                if item.pts * tick < stop
                and ((item.pts + item.duration) * tick > start - PREROLL if hides else item.pts * tick >= start)
            ]
            if stream.type == "subtitle":
                items = list(_trimmed(items, -(-start // tick), stop // tick))
            if not items or not any((item.pts + item.duration) * tick > start for item in items):
                continue
            packets = muxed(with_decoding_times(items, 0))
            first, last = items[0].pts * tick, (items[-1].pts + items[-1].duration) * tick
            yield ClipTrack(stream, packets, max(first, start), max(start, min(last, stop)))

    def _is_heard(self, item: TimedPacket) -> bool:
        tick = Fraction(item.packet.stream.time_base)
        return (item.pts + item.duration) * tick > self.start - 1 and item.pts * tick < self.stop + 1


def _trimmed(items: Sequence[TimedPacket], start: int, stop: int) -> Iterator[TimedPacket]:
    """Subtitles that are seen between two times, and only there."""
    for item in items:
        first, last = max(item.pts, start), min(item.pts + item.duration, stop)
        if first < last:
            yield item._replace(pts=first, dts=first, duration=last - first)


def muxed(items: Sequence[TimedPacket]) -> list[Muxed]:
    """Return packets of a film as packets of a clip."""
    return [Muxed(item.packet, item.pts, item.dts or 0, item.duration, item.is_key) for item in items]


def remux(stretch: Stretch) -> Generator[None, None, CutClip]:
    """Return a clip with the packets of the film, from the key frame before its start on; nothing is encoded.

    A frame belongs to a clip if it begins in it. MP4 and MOV have edit lists, so that players and decoders show these
    frames only; the clip begins with the first of them. WebM and Matroska have none: there the clip is shown from the
    key frame on. Sound and subtitles keep their times to the picture. The packets of a clip are in memory.

    Args:
        stretch: film, start and end of the clip.

    Raises:
        MediaError: no frame begins in the clip, its times jump, or it is too large.
    """
    footage = stretch.footage
    for number, item in enumerate(footage.packets(footage.key_before(stretch.start), stretch.stop)):
        if footage.is_picture(item) and item.is_key and item.pts * footage.tick <= stretch.start:
            stretch.forget_picture()
        stretch.keep(item)
        if number % PROGRESS == 0:
            yield
    return copied(stretch)


def copied(stretch: Stretch) -> CutClip:
    """Return the clip of what was read, packet for packet.

    Raises:
        MediaError: no frame begins in it, or its times jump.
    """
    footage, tick = stretch.footage, stretch.footage.tick
    shown = sorted(item.pts for item in stretch.picture if stretch.is_shown(item))
    if not shown:
        raise MediaError("bad segment", f"no frame begins {stretch.times}")
    stop = stretch.end(shown)
    form = format_of(footage.codec, footage.others)
    hides = form in HIDING
    items = stretch.until_last_shown(hides=hides)
    keys = [number for number, item in enumerate(items) if item.is_key and item.pts <= shown[0]]
    items = items[keys[-1] if keys else 0 :]
    first = items[0].pts
    if not hides:  # frames that are decoded after the key frame and shown before it need what was before it
        items = [item for item in items if item.pts >= first]
        shown = sorted(item.pts for item in items)
    elif any(item.packet.is_discard and shown[0] <= item.pts <= shown[-1] for item in items):
        raise MediaError("edit list", "its own edit list hides frames within the clip")
    start = shown[0] * tick
    items = with_decoding_times(items, round(LONGEST_WAIT / tick))
    end = stop if hides else max(item.pts + item.duration for item in items) * tick
    tracks = [ClipTrack(footage.picture, muxed(items), start, end), *stretch.tracks(start, stop, hides=hides)]
    stretch.forget()
    pieces = written(form, tracks, start)
    return CutClip(pieces, suffix_of(form), "remux", stretch.film_s(start), stretch.film_s(end), len(shown))
