"""Containers of films and their tracks, opened by PyAV; it runs in child processes only."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable, Sequence
from typing import Any, BinaryIO

from dcurate.core.extras import needed
from dcurate.isolate.errors import MediaError
from dcurate.media.av_containers import DEMUXERS, open_av
from dcurate.media.names import described

#: FFmpeg's names of the formats that are read.
_DEMUXERS = f"{DEMUXERS},flv,ogg,mpeg,asf,mpegvideo,h264,hevc,ivf,gif"
#: First bytes of pictures, which FFmpeg would take for films of a frame.
_PICTURES = {b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG", b"BM": "BMP", b"II*\0": "TIFF", b"MM\0*": "TIFF"}
#: FFmpeg's AV_DISPOSITION_ATTACHED_PIC.
_ATTACHED = 0x0400


def open_film(source: BinaryIO) -> Any:
    """Open the container of a film.

    Raises:
        MediaError: the file is empty, no film, or damaged.
        ResourceError: PyAV is not installed.
    """
    source.seek(0)
    head = source.read(4096)
    source.seek(0)
    if not head:
        raise MediaError("empty", "the file has no bytes")
    try:
        return open_av(source, "decoding films", _DEMUXERS)
    except MediaError as error:
        raise (_without_format(head) or error) from error


def picture_of(container: Any, track: int | None = None) -> Any:
    """Return a track of pictures.

    Args:
        container: the open container.
        track: number of the track among all of the container; None for the first that is not a cover.

    Raises:
        MediaError: there is none, or its codec is unknown.
    """
    streams = [
        stream
        for stream in container.streams.video
        if (not is_cover(stream) if track is None else stream.index == track)
    ]
    if not streams:
        missing = (
            "the file has no track of pictures" if track is None else f"track {track} of the file is not one of them"
        )
        raise MediaError("no pictures", missing)
    if streams[0].codec_context is None:
        raise MediaError("unsupported codec", "the codec of its pictures is not known, or its header is cut")
    return streams[0]


def is_cover(stream: Any) -> bool:
    """Whether a track of pictures is a cover."""
    return bool(int(stream.disposition) & _ATTACHED)


def tracks(container: Any, kinds: Iterable[str]) -> list[Any]:
    """Return the tracks of kinds, such as ``"audio"``, in the order of the file."""
    wanted = set(kinds)
    return [stream for stream in container.streams if stream.type in wanted]


def _without_format(head: bytes) -> MediaError | None:
    """Say what a file is that FFmpeg does not read, if its first bytes tell."""
    for begin, name in _PICTURES.items():
        if head.startswith(begin):
            return MediaError(f"not a film: {name}")
    kind = described(head)
    return None if kind == "unknown format" else MediaError(f"not a film: {kind}")


def ends_early(source: BinaryIO) -> bool:
    """Whether an MP4 or QuickTime file ends within a box or a fragment: it was cut, maybe while it was written.

    Only the heads of boxes are read. What are no boxes, such as bytes behind the last one, ends them.

    Args:
        source: the open file; it is left where it was.

    Examples:
        >>> import io, struct
        >>> data = struct.pack(">I4s4xI4s8x", 12, b"free", 16, b"mdat")
        >>> [ends_early(io.BytesIO(data[:size])) for size in (28, 27, 15, 12)]
        [False, True, True, False]
    """
    before = source.tell()
    size = source.seek(0, io.SEEK_END)
    at, kind = 0, b""
    while at < size:
        source.seek(at)
        head = source.read(16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if len(head) >= 8 and length < 8:  # 0 is a box up to the end, all else none
            at = size
        else:
            at += max(length, 8)
    source.seek(before)
    return at > size or kind == b"moof"


def packets(container: Any, streams: Sequence[Any]) -> Generator[Any, None, bool]:
    """Yield the packets of tracks in the order of the file; none is decoded.

    Returns:
        Whether the file ended as it should; False where damage ended it.
    """
    errors = needed("av", "reading films", "video").error
    try:
        for packet in container.demux(*streams) if streams else ():
            if packet.size:
                yield packet
    except errors.ExitError:
        raise
    except (errors.FFmpegError, ValueError):
        return False
    return True
