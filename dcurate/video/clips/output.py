"""Packets of a clip in a file: MP4 with edit lists, WebM or Matroska."""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.media.av_containers import tags
from dcurate.video.clips import mp4

#: Codecs of subtitles that are plain text, which MP4 holds as its own kind.
_TEXTS = {"mov_text", "subrip", "webvtt", "text"}
#: Codecs that each format holds: of the picture, of sound and of subtitles.
_MP4 = (
    {"h264", "hevc", "av1", "mpeg4", "vp9", "mpeg2video"},
    {"aac", "mp3", "mp2", "opus", "flac", "alac", "ac3", "eac3"},
    _TEXTS,
)
_MOV = (
    {"h264", "hevc", "mpeg4", "mpeg2video", "prores", "mjpeg"},
    {"aac", "mp3", "mp2", "alac", "ac3", "pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_f32le", "pcm_u8"},
    _TEXTS,
)
_WEBM = ({"vp8", "vp9", "av1"}, {"opus", "vorbis"}, {"webvtt"})
_SUFFIXES = {"mp4": "mp4", "mov": "mov", "webm": "webm", "matroska": "mkv"}
#: Formats with edit lists.
HIDING = ("mp4", "mov")
_OPTIONS = {"fflags": "+bitexact"}


class Muxed(NamedTuple):
    """A packet of a clip.

    Args:
        data: bytes, or a packet of PyAV.
        pts: time at which it is shown, in units of the stream.
        dts: time at which it is decoded.
        duration: duration, 0 if unknown.
        is_key: whether decoding may start with it.
    """

    data: Any
    pts: int
    dts: int
    duration: int
    is_key: bool


@dataclass
class ClipTrack:
    """A stream of a clip.

    Args:
        stream: stream of the source that it is like.
        packets: packets in the order of decoding; taken out as they are written.
        start: time from which it is shown, in seconds of the source.
        stop: time until which it is shown.
        extradata: configuration of its decoder; that of the stream if None.
        tick: seconds of a unit of the times of its packets; that of the stream if None.
        matrix: 36 bytes of the display matrix, where the stream does not carry it on.
    """

    stream: Any
    packets: list[Muxed]
    start: Fraction
    stop: Fraction
    extradata: bytes | None = None
    tick: Fraction = Fraction(0)
    matrix: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.tick = self.tick or Fraction(self.stream.time_base)


def format_of(picture: str, streams: Sequence[Any], *, webm_first: bool = True) -> str:
    """Return the format for a clip: the first of MP4, MOV, WebM and Matroska that holds all of its codecs.

    Args:
        picture: codec of the picture, such as ``"h264"``.
        streams: other streams.
        webm_first: whether WebM comes first for VP8 and VP9.
    """
    codecs = [(stream.type, stream.codec_context.codec.canonical_name) for stream in streams]

    def holds(kinds: tuple[set[str], set[str], set[str]]) -> bool:
        return picture in kinds[0] and all(codec in kinds[1 if kind == "audio" else 2] for kind, codec in codecs)

    if webm_first and picture in ("vp8", "vp9") and holds(_WEBM):
        return "webm"
    forms = (("mp4", _MP4), ("mov", _MOV), ("webm", _WEBM))
    return next((form for form, kinds in forms if holds(kinds)), "matroska")


def suffix_of(form: str) -> str:
    """Return the suffix of files of a format, such as ``"mkv"``."""
    return _SUFFIXES[form]


def written(form: str, tracks: Sequence[ClipTrack], origin: Fraction) -> list[bytes | memoryview]:
    """Return a file with the packets of tracks, as pieces to be joined. Equal packets make equal bytes.

    Args:
        form: name of the format.
        tracks: picture, then others.
        origin: time of the source that is 0 in the clip.

    Raises:
        MediaError: the format cannot hold them.
    """
    library = needed("av", "cutting clips", "video")
    begins = [Fraction(track.packets[0].dts) * track.tick for track in tracks]
    edits = [
        # FFmpeg puts an empty subtitle before the first, from the start of the file on.
        mp4.Edit(
            min(begins) if track.stream.type == "subtitle" else begin, track.start, track.stop, origin, track.matrix
        )
        for begin, track in zip(begins, tracks, strict=True)
    ]
    is_mp4 = form in HIDING
    zero = min(begins) if is_mp4 else origin
    options = {**_OPTIONS, **(mp4.options(_movie_scale(tracks[0].tick)) if is_mp4 else {})}
    file = io.BytesIO()
    try:
        with library.open(file, "w", format=form, container_options=options) as container:
            streams = [_added(container, track, form) for track in tracks]
            for number, packet in _in_order(tracks):
                container.mux(_packet(library, packet, streams[number], tracks[number].tick, zero))
    except (library.FFmpegError, ValueError) as error:
        raise MediaError("cannot be written", f"{form}: {error}") from error
    data = file.getbuffer()
    return mp4.with_edits(data, edits) if is_mp4 else [data]


def _movie_scale(tick: Fraction) -> int:
    """Units of a second of a movie in which frames of the picture begin."""
    scale = tick.denominator
    return scale if 1000 <= scale < 2**31 else scale * -(-1000 // scale) if scale < 1000 else 90_000


def _added(container: Any, track: ClipTrack, form: str) -> Any:
    source = track.stream
    if form in HIDING and source.type == "subtitle" and source.codec_context.codec.canonical_name != "mov_text":
        stream = container.add_mux_stream("mov_text")
        track.packets = [packet._replace(data=_as_mov_text(bytes(packet.data))) for packet in track.packets]
    else:
        stream = container.add_stream_from_template(source, opaque=True)
    stream.time_base = track.tick
    if track.extradata is not None:
        stream.codec_context.extradata = track.extradata
    if source.codec_context.codec_tag in ("hvc1", "hev1", "avc1", "avc3"):
        stream.codec_context.codec_tag = source.codec_context.codec_tag
    language = tags(source).get("language")
    if language:
        stream.metadata["language"] = language
    stream.disposition = source.disposition
    return stream


def _as_mov_text(data: bytes) -> bytes:
    return len(data[:65535]).to_bytes(2, "big") + data[:65535]


def _in_order(tracks: Sequence[ClipTrack]) -> Iterator[tuple[int, Muxed]]:
    """The packets of all tracks by their times of decoding."""

    def timed(number: int, track: ClipTrack) -> Iterator[tuple[Fraction, int, Muxed]]:
        track.packets.reverse()
        while track.packets:
            packet = track.packets.pop()
            yield packet.dts * track.tick, number, packet

    for _, number, packet in heapq.merge(
        *(timed(number, track) for number, track in enumerate(tracks)), key=lambda item: item[:2]
    ):
        yield number, packet


def _packet(library: Any, packet: Muxed, stream: Any, tick: Fraction, zero: Fraction) -> Any:
    made = library.Packet(packet.data) if isinstance(packet.data, bytes) else packet.data
    offset = round(zero / tick)
    made.time_base = tick
    made.pts, made.dts, made.duration = packet.pts - offset, packet.dts - offset, packet.duration
    made.is_keyframe = packet.is_key
    made.stream = stream
    return made
