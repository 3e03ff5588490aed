"""The tracks of films: what containers say of them, and the cues of subtitles. It runs in a child process.

Packets are read, but no picture and no sound is decoded. Times are in seconds from the start of the container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.media.beside import LARGEST_TEXT
from dcurate.media.cues import decoded, plain_ass, plain_srt, plain_vtt
from dcurate.media.languages import language_key
from dcurate.video.containers import is_cover, open_film, packets, tracks

#: Packets after which the child process says that it goes on, cues of an answer, and those of a track, at most.
_PROGRESS, _PART, _MOST = 10_000, 1_000, 1_000_000
#: FFmpeg's AV_DISPOSITION_DEFAULT and AV_DISPOSITION_FORCED.
_DEFAULT, _FORCED = 0x1, 0x40


class SpokenWords(NamedTuple):
    """The words of a packet of subtitles, and who says them."""

    text: str
    speaker: str | None = None


def list_tracks(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield the tracks of a film for each clip, or only the one that is asked for."""
    container = open_film(source)
    wanted = [stream for stream in container.streams if request.get("track") in (None, stream.index)]
    spans = TrackTimes(container, [stream for stream in wanted if stream.type in ("video", "audio", "subtitle")])
    for count, packet in enumerate(packets(container, spans.unread), 1):
        spans.see(packet)
        if count % _PROGRESS == 0:
            yield None
    tracks = [{**described(stream), **spans.times(stream)} for stream in wanted]
    for number in range(len(request["clips"])):
        yield {"clip": number, "tracks": tracks, "last": True}, []


def read_cues(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield the cues of a track of subtitles, some at a time, then what is known of the track and the film's end.

    Args:
        source: the open file.
        request: ``track``, the number of the track, if it is there; otherwise one is chosen.
        options: ``language``, a code or None.

    Raises:
        MediaError: not a film, the track is none of subtitles, or it holds too much.
    """
    container = open_film(source)
    stream = _chosen(container, request.get("track"), options.get("language"))
    spans = TrackTimes(container, [track for track in tracks(container, ["video", "audio"]) if not is_cover(track)])
    cues = None if stream is None or subtitle_kind(stream) != "text" else _CueReader(stream, spans.origin_s)
    read = spans.unread if cues is None else [cues.stream, *spans.unread]
    for count, packet in enumerate(packets(container, read), 1):
        if cues is not None and packet.stream_index == cues.stream.index:
            yield from cues.take(packet)
        else:
            spans.see(packet)
        if count % _PROGRESS == 0:
            yield None
    remaining = [] if cues is None else cues.held
    about = {} if stream is None else described(stream)
    yield {"clip": 0, "cues": remaining, "end_s": spans.end_s, "track": about, "last": True}, []


class TrackTimes:
    """First and last times of tracks: by the index of MP4 and QuickTime, otherwise by the packets, which are read.

    Args:
        container: the open container.
        streams: the tracks.
    """

    def __init__(self, container: Any, streams: Sequence[Any]) -> None:
        #: The start of the container on its own clock, in seconds.
        self.origin_s = (container.start_time or 0) / 1e6
        #: Tracks of which all packets must be seen.
        self.unread: list[Any] = []
        self._streams = {stream.index: stream for stream in streams}
        self._ticks: dict[int, tuple[int, int]] = {}
        has_index = container.format.name.startswith("mov")
        for stream in streams:
            if has_index and stream.duration:
                start = stream.start_time or 0
                self._ticks[stream.index] = start, start + stream.duration
            else:
                self.unread.append(stream)

    def see(self, packet: Any) -> None:
        """Take the times of a packet of a track."""
        start = packet.pts if packet.pts is not None else packet.dts
        if start is None:
            return
        first, last = self._ticks.get(packet.stream_index, (start, start))
        self._ticks[packet.stream_index] = min(first, start), max(last, start + (packet.duration or 0))

    @property
    def end_s(self) -> float | None:
        """End of the last track, in seconds from the start of the container; None if there is no packet."""
        ends = [float(last * self._streams[number].time_base) for number, (_, last) in self._ticks.items()]
        return round(max(ends) - self.origin_s, 6) if ends else None

    def times(self, stream: Any) -> dict[str, float]:
        """Start of a track in seconds from that of the container, and its duration; nothing if it has no packet."""
        if stream.index not in self._ticks:
            return {}
        first, last = (float(ticks * stream.time_base) for ticks in self._ticks[stream.index])
        return {"start_s": round(first - self.origin_s, 6), "duration_s": round(last - first, 6)}


def described(stream: Any) -> dict[str, Any]:
    """Return what the container says of a track."""
    pairs, flags = dict(stream.metadata), int(stream.disposition)
    is_subtitle = stream.type == "subtitle"
    return {
        "stream": stream.index,
        "kind": "cover" if stream.type == "video" and is_cover(stream) else stream.type,
        "codec": _codec(stream),
        "language": _language(stream),
        "title": pairs.get("title") or pairs.get("name"),
        "default": bool(flags & _DEFAULT),
        "forced": bool(flags & _FORCED),
        "subtitle_kind": subtitle_kind(stream) if is_subtitle else None,
    }


def subtitle_kind(stream: Any) -> str:
    """Return ``"text"`` of a track that is read, ``"images"`` of one of pictures, and ``"other"``."""
    if stream.codec_context is None:
        return "other"
    if _codec(stream) in _READ:
        return "text"
    return "images" if stream.codec_context.codec.bitmap_sub else "other"


def _codec(stream: Any) -> str | None:
    return None if stream.codec_context is None else str(stream.codec_context.codec.canonical_name)


def _language(stream: Any) -> str | None:
    code = stream.metadata.get("language")
    return None if code in (None, "", "und") else str(code)


def _chosen(container: Any, track: int | None, language: str | None) -> Any:
    """The track that is asked for, or the best: of text, not forced, and the default."""
    streams = tracks(container, ["subtitle"])
    if track is not None:
        streams = [stream for stream in streams if stream.index == track]
        if not streams:
            raise MediaError("no subtitles", f"track {track} of the file is none of subtitles")
    elif language is not None:
        streams = [s for s in streams if language_key(_language(s) or "") == language_key(language)]
    return min(streams, key=_order, default=None)


def _order(stream: Any) -> tuple[bool, bool, bool, int]:
    flags = int(stream.disposition)
    return subtitle_kind(stream) != "text", bool(flags & _FORCED), not flags & _DEFAULT, stream.index


class _CueReader:
    """Reads the packets of a track of text: start, end, words and speaker of each cue.

    Args:
        stream: the track.
        origin_s: start of the container on its own clock, in seconds.
    """

    def __init__(self, stream: Any, origin_s: float) -> None:
        self.stream, self.held = stream, list[list[Any]]()
        self._origin_s, self._read = origin_s, _READ[_codec(stream) or ""]
        self._base, self._count, self._size = stream.time_base, 0, 0

    def take(self, packet: Any) -> Iterator[Answer]:
        """Take a packet, and yield the cues that are ready.

        Raises:
            MediaError: there are too many.
        """
        words = self._read(bytes(packet))
        if words is None:
            return
        self._count, self._size = self._count + 1, self._size + packet.size
        if self._count > _MOST or self._size > LARGEST_TEXT:
            raise MediaError("too many cues", f"more than {_MOST:,}, or {LARGEST_TEXT:,} bytes")
        start = stop = None
        if packet.pts is not None:
            start = self._seconds(packet.pts)
            stop = self._seconds(packet.pts + (packet.duration or 0))
        self.held.append([start, stop, *words])
        if len(self.held) == _PART:
            yield {"clip": 0, "cues": self.held}, []
            self.held = []

    def _seconds(self, ticks: int) -> float:
        return round(float(ticks * self._base) - self._origin_s, 6)


def _of_mov_text(data: bytes) -> SpokenWords | None:
    size = int.from_bytes(data[:2], "big")
    return SpokenWords(" ".join(decoded(data[2 : 2 + size]).split())) if size else None  # an empty one is a pause


def _of_srt(data: bytes) -> SpokenWords:
    return SpokenWords(plain_srt(decoded(data)))


def _of_ass(data: bytes) -> SpokenWords:
    fields = decoded(data).split(",", 8)
    return SpokenWords(plain_ass(fields[-1]), fields[3].strip() or None if len(fields) == 9 else None)


def _of_vtt(data: bytes) -> SpokenWords:
    return SpokenWords(*plain_vtt(decoded(data)))


#: The codecs that are read, by FFmpeg's names.
_READ: Mapping[str, Callable[[bytes], SpokenWords | None]] = {
    "ass": _of_ass,
    "mov_text": _of_mov_text,
    "ssa": _of_ass,
    "subrip": _of_srt,
    "text": _of_srt,
    "webvtt": _of_vtt,
}
