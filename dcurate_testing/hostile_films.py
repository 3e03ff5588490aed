"""Hostile films, made by PyAV: what a crawl of the web holds of films that are odd, cut or lie.

Each is made of a few frames of 64 x 48 pixels. `HOSTILE` says what a good reader does with each.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Change = Callable[[int, Any], Iterable[Any]]

#: Frames of a film, unless it says otherwise.
FRAMES = 50
_RATE = 25


@dataclass(frozen=True)
class FilmKind:
    """How a film is made.

    Args:
        codec, container: FFmpeg's names.
        pixel_format: of the frames.
        options: of the encoder.
        muxer: options of the container.
        rotation: degrees by which players turn it.
        times: time of each frame in seconds; at a constant rate where there is none.
    """

    codec: str = "mpeg4"
    container: str = "mp4"
    pixel_format: str = "yuv420p"
    options: dict[str, str] = field(default_factory=dict)
    muxer: dict[str, str] = field(default_factory=dict)
    rotation: int = 0
    times: tuple[float, ...] = ()


def hostile_film(kind: FilmKind, frames: int = FRAMES, change: Change | None = None) -> bytes:
    """Return the bytes of a film.

    Args:
        kind: how it is made.
        frames: number of frames that are encoded.
        change: what becomes of each packet, by its number: the packets that are written.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=kind.container, options=kind.muxer) as sink:
        stream: Any = sink.add_stream(kind.codec, rate=_RATE, options={"threads": "1", **kind.options})
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, kind.pixel_format, 12
        base = Fraction(1, 1000) if kind.times else Fraction(1, _RATE)
        stream.codec_context.time_base = base
        if kind.rotation:
            stream.set_display_rotation(kind.rotation)
        for number, packet in enumerate(_encoded(stream, kind, frames, base)):
            for written in (packet,) if change is None else change(number, packet):
                written.stream = stream
                sink.mux_one(written)
    return file.getvalue()


def _encoded(stream: Any, kind: FilmKind, frames: int, base: Fraction) -> Iterator[Any]:
    for number in range(frames):
        picture = av.VideoFrame.from_ndarray(_pixels(number), format="rgb24").reformat(format=kind.pixel_format)
        picture.pts = round(kind.times[number] * 1000) if kind.times else number
        picture.time_base = base
        yield from stream.encode(picture)
    yield from stream.encode(None)


def _pixels(number: int) -> npt.NDArray[np.uint8]:
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[:, :, 0] = 2 * (number % 120)
    pixels[:24, : number * 3 % 64, 1] = 200
    return pixels


# What is done to packets


def moved(seconds: float, *, from_number: int = 0) -> Change:
    """Show all frames from a number on earlier or later."""

    def change(number: int, packet: Any) -> Iterable[Any]:
        if number >= from_number:
            ticks = round(seconds / packet.time_base)
            packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
        return (packet,)

    return change


def without_first(number: int, packet: Any) -> Iterable[Any]:
    """Keep the packets between the second key frame and the third: no key frame comes before them."""
    return (packet,) if 1 < number < 13 else ()


def many(count: int) -> Change:
    """Write the first packet of three, and then the third, which is no key frame, until there are so many."""

    def change(number: int, packet: Any) -> Iterator[Any]:
        for place in {0: range(1), 1: range(0), 2: range(1, count)}[number]:
            packet.pts, packet.dts, packet.time_base = place, place, Fraction(1, _RATE)
            yield packet

    return change


# Films


def still(kind: str) -> bytes:
    """A picture, as JPEG or PNG."""
    context: Any = av.CodecContext.create("mjpeg" if kind == "jpeg" else "png", "w")
    context.width, context.height, context.time_base = 64, 48, Fraction(1, 25)
    context.pix_fmt = "yuvj420p" if kind == "jpeg" else "rgb24"
    picture = av.VideoFrame.from_ndarray(_pixels(9), format="rgb24").reformat(format=context.pix_fmt)
    return b"".join(bytes(packet) for packet in (*context.encode(picture), *context.encode(None)))


def huge(side: int = 16_000, *, says_so: bool) -> bytes:
    """A film of JPEG pictures whose headers claim a side of so many pixels.

    Args:
        side: pixels.
        says_so: whether the container claims it, too.
    """
    jpeg = bytearray(still("jpeg"))
    place = jpeg.index(b"\xff\xc0") + 5
    jpeg[place : place + 4] = side.to_bytes(2, "big") * 2

    def change(_: int, packet: Any) -> Iterable[Any]:
        replaced = av.Packet(bytes(jpeg))
        replaced.pts, replaced.dts, replaced.time_base = packet.pts, packet.dts, packet.time_base
        replaced.is_keyframe = True
        return (replaced,)

    data = hostile_film(FilmKind("mjpeg", "matroska", "yuvj420p"), 5, change)
    if not says_so:
        return data
    # PixelWidth and PixelHeight, as Matroska writes them
    return data.replace(b"\xb0\x81\x40\xba\x81\x30", b"\xb0\x82\x3e\x80\xba\x82\x3e\x80")


def sound_only(cover: bytes | None = None) -> bytes:
    """Two seconds of a tone in MP4.

    Args:
        cover: a picture of it.
    """
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as sink:
        tone: Any = sink.add_stream("aac", rate=16_000, layout="mono")
        if cover is not None:
            picture: Any = sink.add_stream("mjpeg", rate=_RATE)
            picture.width, picture.height, picture.pix_fmt = 64, 48, "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
        for number in range(32):
            samples = np.sin(np.arange(1024) * 0.1).astype(np.float32)[None] * 0.5
            piece = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 16_000, number * 1024, Fraction(1, 16_000)
            sink.mux(tone.encode(piece))
        sink.mux(tone.encode(None))
        if cover is not None:
            packet = av.Packet(cover)
            packet.stream, packet.pts, packet.dts = picture, 0, 0
            sink.mux(packet)
    return file.getvalue()


def _cut(data: bytes, mark: bytes) -> bytes:
    """The file as it stood when its last piece, which begins with a mark, had been begun."""
    return data[: data.rindex(mark) + 8]


def fragmented() -> bytes:
    muxer = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    return hostile_film(FilmKind(muxer=muxer))


def _jumping() -> bytes:
    """Two recordings behind each other: times jump back by 100 s."""
    later = hostile_film(FilmKind("mpeg2video", "mpegts"), change=moved(100))
    return later + hostile_film(FilmKind("mpeg2video", "mpegts"))


@dataclass(frozen=True)
class HostileFilm:
    """A film, and what a good reader does with it.

    Args:
        make: function that makes it.
        expect: ``decode``, ``partial``, ``bounded`` or ``error``, as in the truth of the set.
        frames: frames that can be decoded, where it is known.
    """

    make: Callable[[], bytes]
    expect: str = "decode"
    frames: int | None = FRAMES


#: Hostile films by name.
HOSTILE: dict[str, HostileFilm] = {
    "negative times": HostileFilm(
        lambda: hostile_film(FilmKind(muxer={"avoid_negative_ts": "disabled"}), change=moved(-1)), frames=FRAMES // 2
    ),
    "late start": HostileFilm(lambda: hostile_film(FilmKind(container="matroska"), change=moved(3600))),
    "jumping times": HostileFilm(_jumping, frames=2 * FRAMES),
    "times that jump ahead": HostileFilm(
        lambda: hostile_film(FilmKind("mpeg2video", "mpegts"), change=moved(3600, from_number=25))
    ),
    "times that wrap": HostileFilm(
        lambda: hostile_film(FilmKind("mpeg2video", "mpegts"), change=moved(2**33 / 90_000 - 1))
    ),
    "no key frame": HostileFilm(
        lambda: hostile_film(FilmKind(container="matroska"), change=without_first), "error", None
    ),
    "late key frame": HostileFilm(
        lambda: hostile_film(FilmKind(container="matroska"), change=lambda number, packet: (packet,) * (number > 1)),
        frames=FRAMES - 13,
    ),
    "large header": HostileFilm(lambda: huge(says_so=True), "error", None),
    "large frames": HostileFilm(lambda: huge(says_so=False), "error", None),
    "rotated": HostileFilm(lambda: hostile_film(FilmKind(rotation=90))),
    "interlaced": HostileFilm(
        lambda: hostile_film(FilmKind("mpeg2video", "mpegts", options={"flags": "+ildct+ilme", "field_order": "tt"}))
    ),
    "4:4:4": HostileFilm(lambda: hostile_film(FilmKind("ffv1", "matroska", "yuv444p"))),
    "10 bit": HostileFilm(lambda: hostile_film(FilmKind("ffv1", "matroska", "yuv420p10le"))),
    "16 bit grey": HostileFilm(lambda: hostile_film(FilmKind("ffv1", "matroska", "gray16le"))),
    "JPEG named .mp4": HostileFilm(lambda: still("jpeg"), "error", None),
    "PNG named .mp4": HostileFilm(lambda: still("png"), "error", None),
    "cut while written, MP4": HostileFilm(lambda: _cut(fragmented(), b"moof"), "partial", FRAMES - 1),
    "fragments": HostileFilm(fragmented),
    "cut while written, Matroska": HostileFilm(
        lambda: _cut(hostile_film(FilmKind(container="matroska", muxer={"live": "1"})), b"\x00\x00\x01\xb6"),
        frames=FRAMES - 1,
    ),
    "no index, Matroska": HostileFilm(lambda: hostile_film(FilmKind(container="matroska", muxer={"live": "1"}))),
    "variable rate": HostileFilm(
        lambda: hostile_film(FilmKind("mjpeg", "matroska", "yuvj420p", times=(0.0, 0.04, 0.3, 1.1, 2.9)), 5), frames=5
    ),
    "sound alone": HostileFilm(sound_only, "error", None),
    "cover alone": HostileFilm(lambda: sound_only(still("jpeg")), "error", None),
}


def is_right(truth: Mapping[str, Any], looked: Any) -> bool:
    """Whether a film was treated as its truth expects.

    Args:
        truth: what is expected.
        looked: frames and whether it is cut, or a reason; None if nothing is known of it.

    Examples:
        >>> is_right({"expect": "decode", "frames": 9}, {"frames": 8, "truncated": False})
        False
        >>> is_right({"expect": "error"}, "damaged"), is_right({"expect": "error"}, None)
        (True, False)
    """
    expect, frames = truth["expect"], truth.get("frames")
    if looked is None:
        return False
    if isinstance(looked, str):
        return expect != "decode"
    if expect == "decode":
        return not looked["truncated"] and frames in (None, looked["frames"])
    return expect == "bounded" or (expect == "partial" and bool(looked["truncated"]))
