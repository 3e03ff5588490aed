"""Boxes of MP4 files: edit lists that say what of a track is shown, and the index before the media."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from dcurate.isolate.errors import MediaError

#: Boxes on the way to what is changed; they hold boxes only.
_FOLDERS = (b"trak", b"mdia", b"minf", b"stbl")
_LARGEST = 2**32 - 1
#: How subtitles look, where their source does not say it: white, 18 points, at the bottom.
_TEXT_STYLE = bytes.fromhex("0000000001ff0000000000000000000000000000000000010012ffffffff") + (
    b"\0\0\0\x12ftab\0\1\0\1\5Serif"
)
#: Bytes of a description of subtitles from which on it says how they look.
_LONG_TEXT = 40


class Edit(NamedTuple):
    """What of a track is shown, in seconds of the source.

    Args:
        first_dts: decoding time of the first sample.
        start: time at which it begins to be shown.
        stop: time at which it ends.
        origin: time that is 0 in the clip, at or before `start`.
        matrix: 36 bytes of the display matrix; that of the track if None.
    """

    first_dts: Fraction
    start: Fraction
    stop: Fraction
    origin: Fraction
    matrix: bytes | None = None


def boxes(data: bytes | memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the boxes of an MP4 file or box, each with its content.

    Raises:
        MediaError: a box does not fit.

    Examples:
        >>> [(kind, bytes(content)) for kind, content in boxes(box(b"free", b"xy") + box(b"skip"))]
        [(b'free', b'xy'), (b'skip', b'')]
    """
    view, at = memoryview(data), 0
    while at < len(view):
        size, head = int.from_bytes(view[at : at + 4], "big"), 8
        if size == 1:
            size, head = int.from_bytes(view[at + 8 : at + 16], "big"), 16
        elif size == 0:
            size = len(view) - at
        if not head <= size <= len(view) - at:
            raise MediaError("damaged", f"a box of {size} bytes does not fit")
        yield bytes(view[at + 4 : at + 8]), view[at + head : at + size]
        at += size


def box(kind: bytes, *contents: bytes | memoryview) -> bytes:
    r"""Return a box.

    Examples:
        >>> box(b"free", b"xy")
        b'\x00\x00\x00\nfreexy'
    """
    return b"".join([struct.pack(">I4s", 8 + sum(map(len, contents)), kind), *contents])


def with_edits(data: memoryview, edits: Sequence[Edit]) -> list[bytes | memoryview]:
    """Return an MP4 file with edit lists and its index first, as pieces to be joined.

    Args:
        data: file with the index at the end, whose tracks have no edit lists.
        edits: what is shown of each track, in order.

    Raises:
        MediaError: it is not such a file, or is larger than 4 GiB.
    """
    if len(data) > _LARGEST:
        raise MediaError("too large", f"a clip of {len(data):,} bytes")
    parts = list(boxes(data))
    [index] = [content for kind, content in parts if kind == b"moov"]
    [head] = [content for kind, content in parts if kind == b"ftyp"]
    length = 8 + len(_moov(index, edits, 0))
    moov = box(b"moov", _moov(index, edits, length))
    return [box(b"ftyp", head), moov, data[8 + len(head) : len(data) - len(index) - 8]]


def _moov(index: memoryview, edits: Sequence[Edit], shift: int) -> bytes:
    children = list(boxes(index))
    [header] = [content for kind, content in children if kind == b"mvhd"]
    scale = _scale(header)
    pieces, durations = [], [0]
    remaining = iter(edits)
    for kind, content in children:
        if kind == b"trak":
            track, duration = _track(content, next(remaining), scale, shift)
            pieces.append(track)
            durations.append(duration)
        elif kind != b"mvhd":
            pieces.append(box(kind, content))
    return b"".join([box(b"mvhd", _with_duration(header, max(durations), 16)), *pieces])


def _track(content: memoryview, edit: Edit, scale: int, shift: int) -> tuple[bytes, int]:
    """A track with its edit list, and the duration of that in units of the movie."""
    children = dict(boxes(content))
    media = dict(boxes(children[b"mdia"]))
    entries, duration = _entries(edit, scale, _scale(media[b"mdhd"]))
    header = bytearray(_with_duration(children[b"tkhd"], duration, 20))
    if edit.matrix is not None:
        at = 52 if header[0] == 1 else 40
        header[at : at + 36] = edit.matrix
    rest = [_shifted(kind, part, shift) for kind, part in children.items() if kind not in (b"tkhd", b"edts")]
    return box(b"trak", box(b"tkhd", bytes(header)), box(b"edts", entries), *rest), duration


def _entries(edit: Edit, movie: int, media: int) -> tuple[bytes, int]:
    shown = max(0, round((edit.stop - edit.start) * movie))
    wait = round((edit.start - edit.origin) * movie)
    entries = [(wait, -1)] if wait > 0 else []
    entries.append((shown, max(0, round((edit.start - edit.first_dts) * media))))
    rows = b"".join(struct.pack(">QqI", duration, time, 0x10000) for duration, time in entries)
    return box(b"elst", struct.pack(">II", 1 << 24, len(entries)), rows), sum(duration for duration, _ in entries)


def _scale(header: memoryview) -> int:
    """Units of a second of `mvhd` or `mdhd`."""
    at = 20 if header[0] == 1 else 12
    scale = int.from_bytes(header[at : at + 4], "big")
    if not scale:
        raise MediaError("damaged", "a time scale of 0")
    return scale


def _with_duration(header: memoryview, duration: int, at: int) -> bytes:
    """`mvhd` or `tkhd` with a duration; `at` is where it is in version 0."""
    changed = bytearray(header)
    if changed[0] == 1:
        struct.pack_into(">Q", changed, at + 8, duration)
    else:
        struct.pack_into(">I", changed, at, min(duration, _LARGEST))
    return bytes(changed)


def _shifted(kind: bytes, content: memoryview, shift: int) -> bytes:
    """A box whose offsets of media are `shift` bytes higher."""
    if kind in _FOLDERS:
        return box(kind, *(_shifted(inner, part, shift) for inner, part in boxes(content)))
    if kind == b"stsd" and bytes(content[12:16]) == b"tx3g" and len(content) < _LONG_TEXT:
        return box(kind, content[:8], box(b"tx3g", content[16:24], _TEXT_STYLE))
    form = {b"stco": "I", b"co64": "Q"}.get(kind)
    if form is None:
        return box(kind, content)
    count = int.from_bytes(content[4:8], "big")
    offsets = struct.unpack(f">{count}{form}", content[8:])
    return box(kind, content[:8], struct.pack(f">{count}{form}", *(offset + shift for offset in offsets)))


#: What FFmpeg's muxer is asked for: no times of day, no edit lists of its own, times as they are.
def options(scale: int) -> Mapping[str, str]:
    """Return the options of FFmpeg's muxer for a file that `with_edits` takes.

    Args:
        scale: units of a second of the movie.
    """
    return {"use_editlist": "0", "movie_timescale": str(scale), "avoid_negative_ts": "disabled"}
