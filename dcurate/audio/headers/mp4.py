"""The header of the sound in an M4A, MP4 or MOV file."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dcurate.audio.headers.header import AudioHeader, cut_short
from dcurate.isolate.errors import MediaError
from dcurate.media.heads import File

_CODECS = {
    b"mp4a": "aac",
    b"alac": "alac",
    b"Opus": "opus",
    b"fLaC": "flac",
    b".mp3": "mp3",
    b"ac-3": "ac3",
    b"ec-3": "eac3",
    b"sowt": "pcm",
    b"twos": "pcm",
    b"lpcm": "pcm",
    b"ipcm": "pcm",
}
#: Codecs of which the number of bits and of frames in the header is that of the sound.
_EXACT = frozenset(("alac", "flac", "pcm"))
#: Boxes that hold the boxes that are looked for.
_BOXES = b"moov", b"trak", b"mdia", b"minf", b"stbl"


def read_mp4(file: File) -> AudioHeader:
    """Read the header of the first sound track.

    Raises:
        MediaError: no sound, another codec, or a header that is damaged or cut.
    """
    header, has_sound = None, False
    for kind, start, stop in _boxes(file.data, 0, len(file.data), file.size):
        has_sound |= kind == b"mdat"
        if kind == b"moov" and header is None:
            if stop > len(file.data):
                raise cut_short()
            header = _movie(file.data, start, stop)
        if header is not None and has_sound:
            break
    if header is None:
        raise cut_short("it ends before its index")
    return header


def _movie(data: bytes, start: int, stop: int) -> AudioHeader:
    """The header of the first sound track of an index."""
    for kind, begin, end in _boxes(data, start, stop):
        if kind == b"trak" and (header := _track(data, begin, end)) is not None:
            return header
    raise MediaError("no sound", "no track of it is sound")


def _track(data: bytes, start: int, stop: int) -> AudioHeader | None:
    scale, length, entry, is_sound = 0, 0, b"", False
    for kind, begin, end in _nested(data, start, stop):
        content = data[begin : min(end, begin + 80)]
        if kind == b"mdhd" and len(content) >= (32 if content[:1] == b"\1" else 20):
            scale, length = struct.unpack_from(*((">IQ", content, 20) if content[0] == 1 else (">II", content, 12)))
        elif kind == b"hdlr":
            is_sound = content[8:12] == b"soun"
        elif kind == b"stsd":
            entry = content[8:]
    if not is_sound:
        return None
    if len(entry) < 36:
        raise MediaError("damaged", "a sound track that is not described")
    codec = _CODECS.get(entry[4:8])
    if codec is None:
        raise MediaError("unsupported codec", f"MP4 with {entry[4:8]!r}")
    channels, bits, rate = *struct.unpack_from(">HH", entry, 24), struct.unpack_from(">I", entry, 32)[0] >> 16
    exact = codec in _EXACT
    rate = rate or scale
    duration_s = length / scale if length and scale else None
    frames = length if exact and duration_s is not None and scale == rate else None
    return AudioHeader("mp4", codec, rate, channels, bits or None if exact else None, frames, duration_s)


def _nested(data: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the boxes of a track, those within others too, in order."""
    at = [_boxes(data, start, stop)]
    while at:
        box = next(at[-1], None)
        if box is None:
            at.pop()
            continue
        yield box
        if box[0] in _BOXES and len(at) < len(_BOXES):
            at.append(_boxes(data, box[1], box[2]))


def _boxes(data: bytes, start: int, stop: int, size: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Yield the boxes of a range: kind, and where the content begins and ends."""
    while start + 8 <= stop:
        length, kind = struct.unpack_from(">I4s", data, start)
        begin = start + 8
        if length == 1 and start + 16 <= stop:
            length, begin = struct.unpack_from(">Q", data, begin)[0], start + 16
        end = (size or stop) if length == 0 else start + length
        if end < begin or (not size and end > stop):
            raise MediaError("damaged", f"a box {kind!r} of {length:,} bytes")
        if size and end > size:
            raise cut_short(f"{size - start:,} of {length:,} bytes of {kind!r} are there")
        yield kind, begin, end
        start = end
