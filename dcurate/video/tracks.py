"""The tracks of films: what containers say of them, and the cues of subtitles. It runs in a child process.

Packets are read, but no picture and no sound is decoded. Times are in seconds from the start of the container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from dcurate.isolate.child import Answer
from dcurate.isolate.errors import MediaError
from dcurate.media.av_containers import tags
from dcurate.media.beside import LARGEST_TEXT
from dcurate.media.cues import decoded, plain_ass, plain_srt, plain_vtt
from dcurate.media.languages import language_key
from dcurate.video.containers import is_cover, open_film, packets, tracks
from dcurate.video.wvtt import CODEC as WVTT
from dcurate.video.wvtt import SpokenWords, cues_of_sample, wvtt_tracks

#: Packets after which the child process says that it goes on, cues of an answer, and those of a track, at most.
_PROGRESS, _PART, _MOST = 10_000, 1_000, 1_000_000
#: FFmpeg's AV_DISPOSITION_DEFAULT and AV_DISPOSITION_FORCED.
_DEFAULT, _FORCED = 0x1, 0x40


class FilmTrack(NamedTuple):
    """A track of a film.

    Args:
        stream: the same for PyAV.
        kind: ``video``, ``audio``, ``subtitle``, ``cover``, ``data`` or ``attachment``.
        codec: name of the codec; None if it is not known.
    """

    stream: Any
    kind: str
    codec: str | None


class _Cue(NamedTuple):
    """A cue as an answer has it."""

    start_s: float | None
    stop_s: float | None
    text: str
    speaker: str | None


def list_tracks(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield the tracks of a film for each clip, or only the one that is asked for."""
    container = open_film(source)
    wanted = [track for track in film_tracks(container, source) if request.get("track") in (None, track.stream.index)]
    timed = [track.stream for track in wanted if track.kind in ("video", "cover", "audio", "subtitle")]
    spans = TrackTimes(container, timed)
    for count, packet in enumerate(packets(container, spans.unread), 1):
        spans.see(packet)
        if count % _PROGRESS == 0:
            yield None
    tracks = [{**described(track), **spans.times(track.stream)} for track in wanted]
    for number in range(len(request["clips"])):
        yield {"clip": number, "tracks": tracks, "last": True}, []


def read_cues(source: BinaryIO, request: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Answer | None]:
    """Yield the cues of a track of subtitles, some at a time, then what is known of the track and the film's end.

    Args:
        source: the open file.
        request: ``track``, the number of the track, if it is there; otherwise one is chosen.
        options: ``language``, a code or None.

    Raises:
        MediaError: not a film, the track is not a track of subtitles, or it holds too much.
    """
    container = open_film(source)
    track = _chosen(film_tracks(container, source), request.get("track"), options.get("language"))
    spans = TrackTimes(container, [track for track in tracks(container, ["video", "audio"]) if not is_cover(track)])
    cues = None if track is None or subtitle_kind(track) != "text" else _CueReader(track, spans.origin_s)
    read = spans.unread if cues is None else [cues.stream, *spans.unread]
    for count, packet in enumerate(packets(container, read), 1):
        if cues is not None and packet.stream_index == cues.stream.index:
            yield from cues.take(packet)
        else:
            spans.see(packet)
        if count % _PROGRESS == 0:
            yield None
    remaining = [] if cues is None else cues.remaining()
    about = {} if track is None else described(track)
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
            if has_index and stream.duration and stream.codec_context is not None:
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


def film_tracks(container: Any, source: BinaryIO) -> list[FilmTrack]:
    """Return the tracks of a container, in the order of the file.

    Args:
        container: the open container.
        source: its file.
    """
    vtt = wvtt_tracks(source, container)
    return [_track(stream, is_vtt=stream.index in vtt) for stream in container.streams]


def _track(stream: Any, *, is_vtt: bool) -> FilmTrack:
    if is_vtt:
        return FilmTrack(stream, "subtitle", WVTT)
    kind = "cover" if stream.type == "video" and is_cover(stream) else stream.type
    return FilmTrack(stream, kind, stream.codec_context and str(stream.codec_context.codec.canonical_name))


def described(track: FilmTrack) -> dict[str, Any]:
    """Return what the container says of a track."""
    stream = track.stream
    pairs, flags = tags(stream), int(stream.disposition)
    return {
        "stream": stream.index,
        "kind": track.kind,
        "codec": track.codec,
        "language": _language(stream),
        "title": pairs.get("title") or pairs.get("name"),
        "default": bool(flags & _DEFAULT),
        "forced": bool(flags & _FORCED),
        "subtitle_kind": subtitle_kind(track) if track.kind == "subtitle" else None,
    }


def subtitle_kind(track: FilmTrack) -> str:
    """Return ``"text"`` of a track that is read, ``"images"`` of one of pictures, and ``"other"``."""
    if track.codec in _READ:
        return "text"
    context = track.stream.codec_context
    return "images" if context is not None and context.codec.bitmap_sub else "other"


def _language(stream: Any) -> str | None:
    code = tags(stream).get("language")
    return None if code in (None, "", "und") else str(code)


def _chosen(every: Sequence[FilmTrack], number: int | None, language: str | None) -> FilmTrack | None:
    """The track that is asked for, or the best: of text, not forced, and the default."""
    subtitles = [track for track in every if track.kind == "subtitle"]
    if number is not None:
        subtitles = [track for track in subtitles if track.stream.index == number]
        if not subtitles:
            raise MediaError("no subtitles", f"track {number} of the file is not a track of subtitles")
    elif language is not None:
        wanted = language_key(language)
        subtitles = [track for track in subtitles if language_key(_language(track.stream) or "") == wanted]
    return min(subtitles, key=_order, default=None)


def _order(track: FilmTrack) -> tuple[bool, bool, bool, int]:
    flags = int(track.stream.disposition)
    return subtitle_kind(track) != "text", bool(flags & _FORCED), not flags & _DEFAULT, track.stream.index


class _CueReader:
    """Reads the packets of a track of text: start, end, words and speaker of each cue.

    Args:
        stream: the track.
        origin_s: start of the container on its own clock, in seconds.
    """

    def __init__(self, track: FilmTrack, origin_s: float) -> None:
        self.stream = track.stream
        self._origin_s, self._read = origin_s, _READ[track.codec or ""]
        self._base, self._count, self._size = self.stream.time_base, 0, 0
        self._held = list[_Cue]()
        self._parts: dict[int, _Cue] = {}  # cues that may go on in the next packet, by their number

    def take(self, packet: Any) -> Iterator[Answer]:
        """Take a packet, and yield the cues that are ready.

        Raises:
            MediaError: there are too many.
        """
        cues = self._read(bytes(packet))
        self._count, self._size = self._count + len(cues), self._size + packet.size
        if self._count > _MOST or self._size > LARGEST_TEXT:
            raise MediaError("too many cues", f"more than {_MOST:,}, or {LARGEST_TEXT:,} bytes")
        start = stop = None
        if packet.pts is not None:
            start = self._seconds(packet.pts)
            stop = self._seconds(packet.pts + (packet.duration or 0))
        before, self._parts = self._parts, {}
        for cue in cues:
            self._add(_Cue(start, stop, cue.text, cue.speaker), cue.source, before)
        self._held += before.values()
        while len(self._held) >= _PART:
            yield {"clip": 0, "cues": list(map(list, self._held[:_PART]))}, []
            del self._held[:_PART]

    def _add(self, cue: _Cue, source: int | None, before: dict[int, _Cue]) -> None:
        """Add a cue, or prolong the one of the packet before that it is a further part of."""
        if source is None or source in self._parts:
            self._held.append(cue)
            return
        begun = before.get(source)
        if begun is not None and begun.stop_s == cue.start_s and begun[2:] == cue[2:]:
            cue = before.pop(source)._replace(stop_s=cue.stop_s)
        self._parts[source] = cue

    def remaining(self) -> list[list[Any]]:
        """Return the cues that were not yielded."""
        return list(map(list, [*self._held, *self._parts.values()]))

    def _seconds(self, ticks: int) -> float:
        return round(float(ticks * self._base) - self._origin_s, 6)


def _of_mov_text(data: bytes) -> list[SpokenWords]:
    size = int.from_bytes(data[:2], "big")
    return [SpokenWords(" ".join(decoded(data[2 : 2 + size]).split()))] if size else []  # an empty one is a pause


def _of_srt(data: bytes) -> list[SpokenWords]:
    return [SpokenWords(plain_srt(decoded(data)))]


def _of_ass(data: bytes) -> list[SpokenWords]:
    fields = decoded(data).split(",", 8)
    return [SpokenWords(plain_ass(fields[-1]), fields[3].strip() or None if len(fields) == 9 else None)]


def _of_vtt(data: bytes) -> list[SpokenWords]:
    return [SpokenWords(*plain_vtt(decoded(data)))]


#: The codecs that are read, by FFmpeg's names, and `WVTT`.
_READ: Mapping[str, Callable[[bytes], Sequence[SpokenWords]]] = {
    "ass": _of_ass,
    "mov_text": _of_mov_text,
    "ssa": _of_ass,
    "subrip": _of_srt,
    "text": _of_srt,
    "webvtt": _of_vtt,
    WVTT: cues_of_sample,
}
