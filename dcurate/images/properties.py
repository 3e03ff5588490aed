"""Properties of a picture that its file says without decoding: quality of a JPEG, frames, when it was taken."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterator

from dcurate.media.image.headers import Header, exif_values, png_chunks

#: The luminance table of the JPEG standard (annex K), the base of the tables of most encoders.
_LUMINANCE = (
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40,
    26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60, 57, 51,
    56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87,
    95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
)  # fmt: skip
#: EXIF tags of when a picture was taken, and changed.
_TAKEN, _CHANGED = 0x9003, 0x0132
_DATE = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)")
#: Most frames that are counted.
_MOST = 1_000_000


def _sum_at(quality: int) -> int:
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return sum(min(255, max(1, (value * scale + 50) // 100)) for value in _LUMINANCE)


#: Sums of the table for quality 100 down to 1, which grow.
_SUMS = [_sum_at(quality) for quality in range(100, 0, -1)]


def jpeg_quality(header: Header) -> int | None:
    """Estimate the quality, 1 to 100, that a JPEG was saved with, from its quantisation table; None for others.

    It is exact for encoders that scale the tables of the standard, as libjpeg and Pillow do.

    Examples:
        >>> import io
        >>> from PIL import Image
        >>> from dcurate.media.image.headers import read_header
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (8, 8)).save(file, "JPEG", quality=83)
        >>> jpeg_quality(read_header(file.getvalue()))
        83
    """
    table = header.tables.get(0)
    if table is None:
        return None
    total = sum(table)
    place = min(bisect_left(_SUMS, total), 99)
    if place and total - _SUMS[place - 1] < _SUMS[place] - total:
        place -= 1
    return 100 - place


def date_of(exif: bytes) -> str | None:
    """When a picture was taken, else changed, by its EXIF block: ``2021-05-06T07:08:09``; None if it does not say."""
    if not exif:
        return None
    tags = exif_values(exif)
    match = _DATE.match(str(tags.get(_TAKEN) or tags.get(_CHANGED) or ""))
    return f"{match[1]}-{match[2]}-{match[3]}T{match[4]}" if match else None


def count_frames(data: bytes, kind: str) -> int:
    """Count the frames of an animated GIF, PNG, WebP or AVIF, and the pages of a TIFF; 1 for other formats.

    Args:
        data: the bytes of the file.
        kind: its format, as `Header.format`.
    """
    counters = {
        "gif": _gif_frames, "png": _png_frames, "webp": _webp_frames, "avif": _avif_frames, "tiff": _tiff_pages
    }  # fmt: skip
    return max(1, counters[kind](data)) if kind in counters else 1


def _png_frames(data: bytes) -> int:
    for kind, start, _ in png_chunks(data):
        if kind == b"acTL":
            return int.from_bytes(data[start : start + 4])
        if kind == b"IDAT":
            break
    return 1


def _webp_frames(data: bytes) -> int:
    place, frames = 12, 0
    while place + 8 <= len(data) and frames < _MOST:
        frames += data[place : place + 4] == b"ANMF"
        size = int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8 + size + (size & 1)
    return frames


def _avif_frames(data: bytes) -> int:
    """The samples of the track that has most: an alpha channel is a track, too."""
    frames = 0
    for track in _boxes(data, b"moov", b"trak"):
        for table in _boxes(track, b"mdia", b"minf", b"stbl", b"stsz"):
            frames = max(frames, int.from_bytes(table[8:12]))
    return min(frames, _MOST)


def _boxes(data: bytes, *path: bytes) -> Iterator[bytes]:
    """The contents of the boxes of an ISO file at a path."""
    place = 0
    while place + 8 <= len(data):
        size, head = int.from_bytes(data[place : place + 4]), 8
        if size == 1:
            size, head = int.from_bytes(data[place + 8 : place + 16]), 16
        size = size or len(data) - place
        if size < head:
            return
        if data[place + 4 : place + 8] == path[0]:
            content = data[place + head : place + size]
            yield from _boxes(content, *path[1:]) if path[1:] else (content,)
        place += size


def _gif_frames(data: bytes) -> int:
    def table(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 128 else 0

    if len(data) < 13:
        return 1
    place, frames, end = 13 + table(data[10]), 0, len(data)
    while place < end:
        kind = data[place]
        if kind == 0x2C and place + 10 < end:
            frames += 1
            place += 11 + table(data[place + 9])
        elif kind == 0x21:
            place += 2
        else:
            break
        while place < end and data[place]:  # blocks of up to 255 bytes
            place += data[place] + 1
        place += 1
    return frames


def _tiff_pages(data: bytes) -> int:
    order = "<" if data[:2] == b"II" else ">"
    place, seen = _number(data, 4, order + "I"), set[int]()
    if data[2:4] not in (b"*\0", b"\0*"):  # a BigTIFF
        return 1
    while 8 <= place < len(data) and place not in seen:
        seen.add(place)
        place = _number(data, place + 2 + 12 * _number(data, place, order + "H"), order + "I")
    return len(seen)


def _number(data: bytes, place: int, form: str) -> int:
    return int(struct.unpack_from(form, data, place)[0]) if place + struct.calcsize(form) <= len(data) else 0
