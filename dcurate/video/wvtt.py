"""WebVTT in MP4 (``wvtt``, ISO 14496-30), which FFmpeg takes for data: its tracks, and the cues of a sample.

It runs in child processes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from dcurate.media.cues import decoded, plain_vtt

#: FFmpeg's name of the demuxer, and the sample entry of tracks.
_DEMUXER, CODEC = "mov", "wvtt"
_HEAD = struct.Struct(">I4s")
#: Boxes of a track that hold others, down to that of sample entries.
_PATH = (b"mdia", b"minf", b"stbl", b"stsd")


class Mp4Box(NamedTuple):
    """A box of MP4.

    Args:
        kind: its four letters.
        start: offset of its content.
        stop: offset of its end.
    """

    kind: bytes
    start: int
    stop: int


class SpokenWords(NamedTuple):
    """The words of a cue in a packet of subtitles.

    Args:
        text: plain words.
        speaker: who says them, if that is known.
        source: number of a cue of which several packets have a part; None of a whole one.
    """

    text: str
    speaker: str | None = None
    source: int | None = None


def wvtt_tracks(source: BinaryIO, container: Any) -> set[int]:
    """Return the numbers of the tracks of WebVTT in MP4.

    Args:
        source: the open file; it is left where it was.
        container: the same, opened by PyAV.
    """
    unknown = {stream.id: stream.index for stream in container.streams if stream.codec_context is None}
    if not unknown or not container.format.name.startswith(_DEMUXER):
        return set()
    before = source.tell()
    ids = _ids(source, source.seek(0, io.SEEK_END))
    source.seek(before)
    return {unknown[number] for number in ids if number in unknown}


def cues_of_sample(data: bytes) -> list[SpokenWords]:
    r"""Return the cues of a sample; none in a pause.

    Examples:
        >>> cue = b"vttc" + b"\0\0\0\x0cpaylWord"
        >>> cues_of_sample(b"\0\0\0\x14" + cue), cues_of_sample(b"\0\0\0\x08vtte")
        ([SpokenWords(text='Word', speaker=None, source=None)], [])
    """
    file, cues = io.BytesIO(data), []
    for cue in _boxes(file, 0, len(data)):
        if cue.kind == b"vttc":
            content = {box.kind: data[box.start : box.stop] for box in _boxes(file, cue.start, cue.stop)}
            number = content.get(b"vsid")
            text, speaker = plain_vtt(decoded(content.get(b"payl", b"")))
            cues.append(SpokenWords(text, speaker, None if number is None else int.from_bytes(number, "big")))
    return cues


def _ids(source: BinaryIO, size: int) -> Iterator[int]:
    """Yield the ids of tracks whose sample entry is that of WebVTT."""
    for movie in _boxes(source, 0, size):
        for track in _boxes(source, movie.start, movie.stop) if movie.kind == b"moov" else ():
            if track.kind == b"trak" and CODEC.encode() in _entries(source, track, 0):
                yield from _track_ids(source, track)


def _entries(source: BinaryIO, outer: Mp4Box, depth: int) -> Iterator[bytes]:
    """Yield the kinds of the sample entries of a track, from a box on the path to them on."""
    if depth == len(_PATH):
        yield from (entry.kind for entry in _boxes(source, outer.start + 8, outer.stop))
        return
    for box in _boxes(source, outer.start, outer.stop):
        if box.kind == _PATH[depth]:
            yield from _entries(source, box, depth + 1)


def _track_ids(source: BinaryIO, track: Mp4Box) -> Iterator[int]:
    for box in _boxes(source, track.start, track.stop):
        if box.kind == b"tkhd":
            source.seek(box.start)
            data = source.read(24)
            at = 20 if data[:1] == b"\1" else 12
            yield int.from_bytes(data[at : at + 4], "big")


def _boxes(source: BinaryIO, start: int, stop: int) -> Iterator[Mp4Box]:
    """Yield the boxes of a part of a file, up to one that does not fit into it."""
    while start + _HEAD.size <= stop:
        source.seek(start)
        head = source.read(16)
        if len(head) < _HEAD.size:
            return
        (size, kind), content = _HEAD.unpack(head[:8]), start + _HEAD.size
        if size == 1:
            size, content = int.from_bytes(head[8:], "big"), start + 16
        end = stop if size == 0 else start + size
        if not content <= end <= stop:
            return
        yield Mp4Box(kind, content, end)
        start = end
