"""Cut a clip exactly: only the frames between its start and the next key frame are encoded."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import xxhash

from dcurate.isolate.errors import MediaError
from dcurate.video.clips.encoders import ClipEncoder, Codec, encoder_for
from dcurate.video.clips.footage import Footage, TimedPacket, with_decoding_times
from dcurate.video.clips.output import HIDING, ClipTrack, Muxed, format_of, suffix_of, written
from dcurate.video.clips.remux import LONGEST_WAIT, PROGRESS, CutClip, Stretch, copied, muxed
from dcurate.video.clips.stitching import CannotStitchError, configuration, stitched

_FALLBACKS: tuple[Codec, ...] = ("av1", "vp9", "h264")


@dataclass
class Head:
    """Frames of a clip that are encoded, and those behind them that the result is checked by.

    Args:
        stretch: what is read of the film.
        codecs: codecs to encode with, the preferred first.
        until: time, in units of the stream, of the first frame that is copied; None if none is.
        encoder: encoder, once there is a frame.
        matrix: display matrix of the frames, as MP4 has it.
        times: times of the frames that were encoded.
        copied: times and digests of frames that are copied, up to the second key frame among them.
        following: time of the first frame behind the clip.
        webm_first: whether WebM is preferred for what it holds.
    """

    stretch: Stretch
    codecs: Sequence[str]
    until: int | None = None
    encoder: ClipEncoder | None = None
    matrix: bytes | None = field(default=None, repr=False)
    times: list[int] = field(default_factory=list)
    copied: list[tuple[int, bytes]] = field(default_factory=list)
    following: int | None = None
    webm_first: bool = True

    def decode(self, packet: Any) -> None:
        """Decode a packet of the picture; None for the last frames."""
        footage = self.stretch.footage
        with suppress(*footage.errors):  # as players do: what is damaged is missing
            for frame in footage.picture.codec_context.decode(packet):
                self._take(frame)

    def _take(self, frame: Any) -> None:
        stretch = self.stretch
        if frame.pts is None or frame.pts * stretch.footage.tick < stretch.start:
            return
        if frame.pts * stretch.footage.tick >= stretch.stop:
            self.following = frame.pts if self.following is None else min(self.following, frame.pts)
            return
        if self.until is not None and frame.pts >= self.until:
            self.copied.append((frame.pts, _digest(frame)))
            return
        if self.times and frame.pts <= self.times[-1]:
            raise MediaError("jumping times", "frames have equal times, or times that go back")
        if self.encoder is None:
            codec, name = encoder_for(self.codecs, frame.format.name)
            self.encoder = ClipEncoder(codec, name, stretch.footage.picture, frame)
            self.matrix = _matrix(frame)
        elif (frame.width, frame.height) != (self.encoder.like.width, self.encoder.like.height):
            raise MediaError("changing size", f"a frame of {frame.width} x {frame.height} pixels follows others")
        self.times.append(frame.pts)
        self.encoder.encode(frame)


def exact(stretch: Stretch, fallback: Codec = "vp9") -> Generator[None, None, CutClip]:
    """Return a clip of exactly the frames that begin in it.

    The frames from the start up to the next key frame are decoded and encoded in the codec of the film; the rest is
    copied, packet for packet (``stitched``). If the clip begins with a key frame, nothing is encoded (``remux``). Where
    there is no key frame in the clip, no encoder of the codec, or no way to put both into one stream, the whole clip is
    encoded (``encoded``), in the codec of the film or in `fallback`. A stitched clip is decoded up to its second
    copied key frame, and encoded instead if a frame is missing or a copied one differs.

    Args:
        stretch: film, start and end of the clip.
        fallback: codec where there is no encoder of the film's.

    Raises:
        MediaError: as `remux`, or no encoder takes such frames.
    """
    footage = stretch.footage
    key = footage.key_before(stretch.start)
    try:
        clip = yield from _cut(stretch, Head(stretch, [footage.codec]), key)
    except (CannotStitchError, MediaError) as error:
        if isinstance(error, MediaError) and error.fault.reason not in ("cannot be encoded", "cannot be written"):
            raise
        clip = None
    if clip is not None:
        return clip
    stretch.forget()
    return (yield from _encoded(Head(stretch, [footage.codec, fallback, *_FALLBACKS]), key))


def encoded(stretch: Stretch, codec: Codec) -> Generator[None, None, CutClip]:
    """Return a clip of exactly the frames that begin in it, all of them encoded; as MP4, where that holds its sound.

    Args:
        stretch: film, start and end of the clip.
        codec: codec of the clip.

    Raises:
        MediaError: as `exact`.
    """
    head = Head(stretch, [codec], webm_first=False)
    return (yield from _encoded(head, stretch.footage.key_before(stretch.start)))


def _cut(stretch: Stretch, head: Head, key: int) -> Generator[None, None, CutClip | None]:
    """The clip with as many packets of the film as possible; None if its frames are not right."""
    footage, has_later_key = stretch.footage, False
    for number, item in enumerate(footage.packets(key, stretch.stop)):
        if number % PROGRESS == 0:
            yield
        if not footage.is_picture(item):
            stretch.keep(item)
            continue
        if head.until is not None:
            has_later_key = has_later_key or item.is_key
        elif item.is_key and stretch.start <= item.pts * footage.tick < stretch.stop:
            head.until = item.pts
        if head.until is not None:
            stretch.keep(item)
        if not has_later_key:
            head.decode(item.packet)
    head.decode(None)
    if head.encoder is None:
        if head.until is not None and _ends_too_late(stretch, head.until):
            raise CannotStitchError("frames behind the end cannot be hidden")
        return copied(stretch)
    packets = head.encoder.finish()
    if head.until is None:
        return _of_encoder(head, packets)
    return (yield from _stitched(head, head.until, packets))


def _ends_too_late(stretch: Stretch, until: int) -> bool:
    """Whether frames behind the end would be shown, as those before it need them."""
    if format_of(stretch.footage.codec, stretch.footage.others) in HIDING:
        return False
    items = stretch.until_last_shown(hides=True)
    return any(item.pts >= until and item.pts * stretch.footage.tick >= stretch.stop for item in items)


def _stitched(head: Head, until: int, encoded: list[Muxed]) -> Generator[None, None, CutClip | None]:
    stretch, footage = head.stretch, head.stretch.footage
    tick, form = footage.tick, format_of(footage.codec, footage.others)
    if _ends_too_late(stretch, until):
        raise CannotStitchError("frames behind the end cannot be hidden")
    shown = [*head.times, *sorted(item.pts for item in stretch.picture if stretch.is_shown(item) and item.pts >= until)]
    start, stop = head.times[0] * tick, stretch.end(shown)
    tail = [item for item in stretch.until_last_shown(hides=True) if item.pts >= until]
    begin = [TimedPacket(None, packet.pts, None, packet.duration) for packet in encoded]
    timed = with_decoding_times([*begin, *tail], round(LONGEST_WAIT / tick))
    encoded = [packet._replace(dts=item.dts or 0) for packet, item in zip(encoded, timed, strict=False)]
    packets, extradata = stitched(footage.picture.codec_context, encoded, muxed(timed[len(encoded) :]))
    others = stretch.tracks(start, stop, hides=form in HIDING)
    tracks = [ClipTrack(footage.picture, packets, start, stop, extradata), *others]
    wanted = [*((pts, None) for pts in head.times), *((pts, digest) for pts, digest in sorted(head.copied))]
    stretch.forget()
    pieces = written(form, tracks, start)
    if not (yield from _is_right(pieces, wanted, tick)):
        return None
    must = len(head.times)
    times = stretch.film_s(start), stretch.film_s(stop)
    return CutClip(pieces, suffix_of(form), "stitched", *times, len(shown), must, must)


def _encoded(head: Head, key: int) -> Generator[None, None, CutClip]:
    """The clip with all of its frames encoded."""
    stretch, footage = head.stretch, head.stretch.footage
    following: int | None = None
    for number, item in enumerate(footage.packets(key, stretch.stop)):
        if number % PROGRESS == 0:
            yield
        if not footage.is_picture(item):
            stretch.keep(item)
            continue
        if following is None and item.is_key and item.pts * footage.tick >= stretch.start:
            following = item.pts
        head.decode(item.packet)
    head.decode(None)
    if head.encoder is None:
        raise MediaError("bad segment", f"no frame begins {stretch.times}")
    clip = _of_encoder(head, head.encoder.finish())
    must = sum(following is None or pts < following for pts in head.times)
    return replace(clip, frames_that_must=must)


def _of_encoder(head: Head, packets: list[Muxed]) -> CutClip:
    stretch, encoder, footage = head.stretch, head.encoder, head.stretch.footage
    assert encoder is not None
    tick, codec = footage.tick, encoder.codec
    start, last = head.times[0] * tick, head.times[-1]
    stop = last * tick + footage.frame_s if head.following is None else head.following * tick
    packets[-1] = packets[-1]._replace(duration=max(1, round(stop / tick) - last))
    is_same = codec == footage.codec
    form = format_of(codec, footage.others, webm_first=head.webm_first)
    track = ClipTrack(footage.picture if is_same else encoder.template, packets, start, stop, tick=tick)
    track.extradata = configuration(codec, packets[0].data)
    track.matrix = None if is_same else head.matrix
    tracks = [track, *stretch.tracks(start, stop, hides=form in HIDING)]
    stretch.forget()
    count = len(head.times)
    pieces = written(form, tracks, start)
    times = stretch.film_s(start), stretch.film_s(stop)
    return CutClip(pieces, suffix_of(form), "encoded", *times, count, count, count)


def _is_right(
    pieces: Sequence[bytes | memoryview], wanted: Sequence[tuple[int, bytes | None]], tick: Fraction
) -> Generator[None, None, bool]:
    """Whether a clip begins with frames of some times, and with pixels of some digests."""
    clip = Footage(io.BytesIO(b"".join(pieces)))
    frames = _frames(clip)
    for number, (pts, digest) in enumerate(wanted):
        if number % PROGRESS == 0:
            yield
        frame = next(frames, None)
        if frame is None or abs(frame.pts * clip.tick - (pts - wanted[0][0]) * tick) > clip.tick:
            return False
        if digest is not None and digest != _digest(frame):
            return False
    return True


def _frames(clip: Footage) -> Iterator[Any]:
    with suppress(*clip.errors):
        yield from clip.film.container.decode(clip.picture)


def _digest(frame: Any) -> bytes:
    """A digest of the pixels of a frame."""
    state = xxhash.xxh3_128()
    wide = 2 if any(component.bits > 8 for component in frame.format.components) else 1
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, -1)
        state.update(np.ascontiguousarray(rows[:, : min(rows.shape[1], plane.width * wide)]).data)
    return state.digest()


def _matrix(frame: Any) -> bytes | None:
    """The display matrix of a frame, as MP4 has it."""
    data = frame.side_data.get("DISPLAYMATRIX")
    return None if data is None else np.frombuffer(bytes(data), "=i4").astype(">i4").tobytes()
