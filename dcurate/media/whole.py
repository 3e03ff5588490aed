"""Whether a picture that was decoded without an error has all of its pixels: some files end early, but well."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from dcurate.core.extras import missing_dependency
from dcurate.media.errors import MediaError
from dcurate.media.headers import png_chunks, read_header

try:
    import simplejpeg
except ImportError as error:
    raise missing_dependency("pictures", str(error), "images") from error

_PNG = b"\x89PNG\r\n\x1a\n"
#: Bytes that are unpacked at a time.
_PIECE = 2**22
#: Values of a pixel of a PNG by its kind of colours.
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
#: The passes of an interlaced PNG: first column, first row, and the steps across and down.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
#: Tags of a TIFF: compression, rows of a strip, offsets and sizes of strips and of tiles, the height of tiles, tables
#: of JPEG, and whether each channel has strips of its own.
_COMPRESSION, _ROWS, _STRIPS, _TILES, _TILE_ROWS, _TABLES, _PLANES = 259, 278, (273, 279), (324, 325), 323, 347, 284
_JPEG = 7


def covered(image: Any) -> bool:
    """Whether the parts that a picture is decoded from cover all of it; called before it is decoded.

    Args:
        image: picture opened by Pillow. Of a GIF, whose frames may be smaller than the picture, nothing is known.
    """
    if image.format == "GIF" or not image.tile:
        return True
    areas: dict[str, int] = {}
    for _, box, _, about in image.tile:
        plane = str(about[0] if isinstance(about, tuple) else about)
        left, top, right, bottom = box or (0, 0, *image.size)
        areas[plane] = areas.get(plane, 0) + (right - left) * (bottom - top)
    width, height = image.size
    return min(areas.values()) >= int(width) * int(height)


def lacks_pixels(data: bytes, image: Any) -> bool:
    """Whether a decoded picture has pixels that are not in its file.

    Args:
        data: the bytes of the file.
        image: picture of Pillow, decoded.
    """
    if image.format == "PNG":
        return _ends_black(image) and _png_is_short(data)
    if image.format == "ICO":
        return any(map(_png_is_short, _pngs_of_icon(data, image.size)))
    if image.format == "JPEG":
        return _jpeg_is_short(data, 0)
    if image.format == "TIFF" and image.tag_v2.get(_COMPRESSION) == _JPEG:
        return any(_jpeg_is_short(part, rows) for part, rows in _jpegs_of_tiff(data, image))
    return False


def _ends_black(image: Any) -> bool:
    """Whether the last row, or of an interlaced picture that before it, is what Pillow writes for missing rows."""
    width, height = image.size
    rows = np.asarray(image.crop((0, max(0, height - 2), width, height)))
    return not rows[-1].any() or bool(image.info.get("interlace") and not rows[0].any())


def _png_is_short(data: bytes) -> bool:
    """Whether the compressed rows of a PNG are fewer than it should have; they are counted, not kept."""
    width, height, bits, colours, _, _, interlaced = struct.unpack_from(">IIBBBBB", data, 16)
    missing = sum(
        rows * (1 + (columns * bits * _CHANNELS.get(colours, 1) + 7) // 8)
        for columns, rows in (_sizes(width, height) if interlaced else [(width, height)])
        if columns
    )
    unpacked = zlib.decompressobj()
    with suppress(zlib.error):
        for kind, start, size in png_chunks(data):
            part = data[start : start + size] if kind == b"IDAT" else b""
            while part and missing > 0:
                missing -= len(unpacked.decompress(part, min(missing, _PIECE)))
                part = unpacked.unconsumed_tail
    return bool(missing > 0)


def _sizes(width: int, height: int) -> Iterator[tuple[int, int]]:
    """Columns and rows of the passes of an interlaced PNG."""
    for x, y, across, down in _PASSES:
        yield max(0, -(-(width - x) // across)), max(0, -(-(height - y) // down))


def _pngs_of_icon(data: bytes, size: tuple[int, int]) -> Iterator[bytes]:
    """The PNGs of an icon that have a size."""
    for at in range(6, 6 + 16 * int.from_bytes(data[4:6], "little"), 16):
        length, start = struct.unpack_from("<II", data.ljust(at + 16, b"\0"), at + 8)
        part = data[start : start + length]
        if part.startswith(_PNG) and len(part) >= 29 and struct.unpack_from(">II", part, 16) == size:
            yield part


def _jpeg_is_short(data: bytes, rows: int) -> bool:
    """Whether a JPEG ends before its pixels, or has fewer rows than a number."""
    try:
        header = read_header(data)
        simplejpeg.decode_jpeg(data, colorspace="GRAY", min_height=1, min_width=1)
    except (MediaError, ValueError):
        return True
    return header.height < rows


def _jpegs_of_tiff(data: bytes, image: Any) -> Iterator[tuple[bytes, int]]:
    """The JPEGs that a TIFF consists of, and the rows that each must have."""
    tags, height = image.tag_v2, image.size[1]
    tables = tags.get(_TABLES, b"")
    strips = _STRIPS[0] in tags
    offsets, lengths = (tags.get(tag, ()) for tag in (_STRIPS if strips else _TILES))
    rows = tags.get(_ROWS if strips else _TILE_ROWS, height)
    for number, (start, length) in enumerate(zip(offsets, lengths, strict=False)):
        part = data[start : start + length]
        wanted = min(rows, height - number * rows) if strips and tags.get(_PLANES, 1) == 1 else 0
        yield (tables[:-2] + part[2:] if tables else part), max(0, wanted)
