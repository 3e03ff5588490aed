"""Whether a picture that was decoded without an error has all of its pixels: some files end early, but well."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from dcurate.core.extras import missing_dependency
from dcurate.isolate.errors import MediaError
from dcurate.media.image.headers import png_chunks, read_header

try:
    import simplejpeg
    from PIL import Image
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
_JPEG, _GROUP_4 = 7, 4
_WIDTH, _HEIGHT, _FILL_ORDER = 256, 257, 266
#: What ends Group 4, in bits.
_END_OF_BLOCK, _END_BITS = 0x001001, 24
#: Two ways to go on with Group 4: as the row above, and in runs of one pixel (H, white 1, black 1, twice).
_ON = (b"\xff", bytes.fromhex("23a23a"))
#: The head of a TIFF with one strip of Group 4; each tag has a kind, a count and a value.
_TIFF_HEAD, _TIFF_TAG = struct.Struct("<4sIH"), struct.Struct("<HHII")
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
#: What ends a QOI.
_QOI_END = bytes(7) + b"\1"
#: More zeros than AV1 has at its end, where a bit of one comes last.
_ZEROS = bytes(16)


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
    if image.format == "TIFF" and image.mode == "1" and image.tag_v2.get(_COMPRESSION) == _GROUP_4:
        return any(_group_4_is_short(*part) for part in _group_4_of_tiff(data, image))
    if image.format == "AVIF":
        return _avif_is_short(data)
    return image.format == "QOI" and _QOI_END not in data


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
    tags = image.tag_v2
    height = tags[_HEIGHT]  # that of the picture may be turned
    tables = tags.get(_TABLES, b"")
    strips = _STRIPS[0] in tags
    offsets, lengths = (tags.get(tag, ()) for tag in (_STRIPS if strips else _TILES))
    rows = tags.get(_ROWS if strips else _TILE_ROWS, height)
    for number, (start, length) in enumerate(zip(offsets, lengths, strict=False)):
        part = data[start : start + length]
        wanted = min(rows, height - number * rows) if strips and tags.get(_PLANES, 1) == 1 else 0
        yield (tables[:-2] + part[2:] if tables else part), max(0, wanted)


def _group_4_of_tiff(data: bytes, image: Any) -> Iterator[tuple[bytes, int, int]]:
    """The strips of a TIFF of Group 4, with their first bits highest, and their columns and rows."""
    tags = image.tag_v2
    height = tags[_HEIGHT]
    rows = tags.get(_ROWS, height)
    for number, (start, length) in enumerate(zip(*(tags.get(tag, ()) for tag in _STRIPS), strict=False)):
        part = data[start : start + length]
        wanted = min(rows, height - number * rows)
        if wanted > 0:
            yield part.translate(_REVERSED) if tags.get(_FILL_ORDER) == 2 else part, tags[_WIDTH], wanted


def _group_4_is_short(part: bytes, columns: int, rows: int) -> bool:
    """Whether rows are missing: they are if what is written after the end has an effect.

    Libtiff reads Group 4 that ends early without an error. Where the end has no mark, the last row is not judged, as
    zeros that belong to its last code cannot be told from those that fill a byte.
    """
    bits = int.from_bytes(part)
    zeros = (bits & -bits).bit_length() - 1 if bits else 0
    marked = bits >> zeros & (1 << _END_BITS) - 1 == _END_OF_BLOCK
    dropped = zeros + _END_BITS if marked else zeros
    size = 3 * (columns // 3 + 2)
    decoded = []
    for way in _ON:
        more = (way * size)[:size]
        longer = (bits >> dropped << 8 * size | int.from_bytes(more)) << dropped % 8
        try:
            decoded.append(_decoded_group_4(longer.to_bytes(len(part) - dropped // 8 + size), columns, rows))
        except OSError:  # not even a row
            return True
    judged = rows if marked else rows - 1
    return not np.array_equal(decoded[0][:judged], decoded[1][:judged])


def _decoded_group_4(part: bytes, columns: int, rows: int) -> Any:
    """The pixels of a strip of Group 4."""
    values = {
        _WIDTH: columns,
        _HEIGHT: rows,
        258: 1,
        _COMPRESSION: _GROUP_4,
        262: 1,
        277: 1,
        _ROWS: rows,
        _STRIPS[1]: len(part),
    }
    values[_STRIPS[0]] = _TIFF_HEAD.size + _TIFF_TAG.size * (len(values) + 1) + 4
    head = _TIFF_HEAD.pack(b"II*\0", 8, len(values))
    tags = b"".join(_TIFF_TAG.pack(tag, 4, 1, values[tag]) for tag in sorted(values))
    return np.asarray(Image.open(io.BytesIO(head + tags + bytes(4) + part), formats=["TIFF"]))


def _avif_is_short(data: bytes) -> bool:
    """Whether the pixels of an AVIF end in zeros: the decoder makes pixels of them, too.

    Only where pixels come last in the file, which is so in those without metadata.
    """
    if not data.endswith(_ZEROS):
        return False
    start, kind, size = 0, b"", 0
    while start + 8 <= len(data):
        size, kind = int.from_bytes(data[start : start + 4]), data[start + 4 : start + 8]
        if size == 1:
            size = int.from_bytes(data[start + 8 : start + 16])
        if size < 8 or start + size >= len(data):
            break
        start += size
    return kind == b"mdat" and not any(word in data[:start] for word in (b"Exif", b"mime"))
