"""Read what the header of a picture says, without decoding: format, size, bits, orientation, frames."""

from __future__ import annotations

import io
import re
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dcurate.core.extras import missing_dependency
from dcurate.isolate.errors import MediaError
from dcurate.media.names import described

try:
    from PIL import (
        AvifImagePlugin,
        BmpImagePlugin,
        GifImagePlugin,
        IcoImagePlugin,
        ImageFile,
        Jpeg2KImagePlugin,
        JpegImagePlugin,
        PngImagePlugin,
        PpmImagePlugin,
        QoiImagePlugin,
        TiffImagePlugin,
        WebPImagePlugin,
    )
except ImportError as error:
    raise missing_dependency("pictures", str(error), "images") from error

# Pillow warns about files with odd metadata, each with its own sentence.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

# A slot has one core, and to start threads for each picture takes longer than they save on small ones.
AvifImagePlugin.DEFAULT_MAX_THREADS = AvifImagePlugin.DEFAULT_MAX_THREADS or 1

#: Pillow's readers that decode pictures here. Those that start programs (EPS) or read vectors are left out.
_READERS: dict[str, Any] = {
    "avif": AvifImagePlugin.AvifImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "ico": IcoImagePlugin.IcoImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "jp2": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "png": PngImagePlugin.PngImageFile,
    "ppm": PpmImagePlugin.PpmImageFile,
    "qoi": QoiImagePlugin.QoiImageFile,
    "tiff": TiffImagePlugin.TiffImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
}
_SOF = frozenset((0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF))
_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_PPM_HEADER = 2**16


@dataclass(slots=True)
class Header:
    """What the header of a picture says.

    Attributes:
        format: ``jpeg``, ``png``, ``gif``, ``webp``, ``avif``, ``tiff``, ``bmp``, ``jp2``, ``ico``, ``ppm`` or ``qoi``.
        width: in stored pixels, before the orientation is applied.
        height: likewise.
        mode: Pillow's name of the colours: ``L``, ``RGB``, ``RGBA``, ``P``, ``CMYK``, ``I;16``, ...
        bits: bits of a channel.
        orientation: EXIF orientation, 1 to 8; 1 is upright.
        exif: the EXIF block from its byte order mark on, or nothing.
        icc: whether there is a colour profile.
        progressive: whether a JPEG is progressive.
        tables: the quantisation tables of a JPEG by number, 64 values each in zigzag order.
    """

    format: str
    width: int
    height: int
    mode: str = "RGB"
    bits: int = 8
    orientation: int = 1
    exif: bytes = b""
    icc: bool = False
    progressive: bool = False
    tables: dict[int, bytes] = field(default_factory=dict)

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height after the orientation is applied."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


def format_of(data: bytes) -> str:
    """The format of a picture by its first bytes; its name and suffix do not matter.

    Raises:
        MediaError: it has no bytes, or is not a picture of a known format.

    Examples:
        >>> format_of(b"GIF89a....")
        'gif'
        >>> format_of(b"<!DOCTYPE html>")
        Traceback (most recent call last):
        dcurate.isolate.errors.MediaError: not a picture: HTML or XML
    """
    head = bytes(data[:32])
    if not head:
        raise MediaError("empty")
    for name, starts in _STARTS:
        if head.startswith(starts):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[4:8] == b"ftyp" and (head[8:12] in (b"avif", b"avis") or b"avif" in data[16:64]):
        return "avif"
    if head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace():
        return "ppm"
    raise MediaError(f"not a picture: {described(head)}")


_STARTS = (
    ("jpeg", b"\xff\xd8\xff"),
    ("png", b"\x89PNG\r\n\x1a\n"),
    ("gif", (b"GIF87a", b"GIF89a")),
    ("bmp", b"BM"),
    ("tiff", (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")),
    ("jp2", (b"\x00\x00\x00\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")),
    ("ico", b"\x00\x00\x01\x00"),
    ("qoi", b"qoif"),
)


def read_header(data: bytes) -> Header:
    """Read the header of a picture; nothing is decoded.

    Raises:
        MediaError: ``empty``, ``not a picture: ...``, ``truncated``, ``damaged: ...`` or ``no pixels``.

    Examples:
        >>> import io
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("L", (30, 20)).save(file, "PNG")
        >>> header = read_header(file.getvalue())
        >>> header.format, header.width, header.height, header.mode
        ('png', 30, 20, 'L')
    """
    kind = format_of(data)
    header = _read_jpeg(data) if kind == "jpeg" else _read_png(data) if kind == "png" else opened(data, kind)[1]
    if header.width <= 0 or header.height <= 0:
        raise MediaError("no pixels", f"{header.width} x {header.height}")
    return header


def opened(data: bytes, kind: str) -> tuple[ImageFile.ImageFile, Header]:
    """Open a picture with Pillow, not decoded yet, and its header; JPEGs have a reader of their own.

    Raises:
        MediaError: ``damaged: ...``.
    """
    if kind == "ppm":
        data = _checked_ppm(data)
    try:
        image = _READERS[kind](io.BytesIO(data), "")
        bits = {"1": 1, "I": 32, "F": 32}.get(image.mode, 16 if "16" in image.mode else 8)
        width, height = image.size
        header = Header(kind, width, height, image.mode, bits, exif=_exif_of(image))
        header.icc = bool(image.info.get("icc_profile"))
    except Exception as error:  # Pillow raises all kinds for damaged files
        raise MediaError("damaged", str(error)) from error
    header.orientation = orientation_of(header.exif)
    return image, header


def _checked_ppm(data: bytes) -> bytes:
    """Refuse a PPM with a long header, and take comments from one in decimal digits.

    Pillow reads headers byte by byte, a second for each megabyte, and the time that it takes for comments among digits
    grows with the square of their number.
    """
    head = re.sub(rb"#[^\r\n]*", b"", data[:_PPM_HEADER])
    if len(data) > _PPM_HEADER and len(head.split(None, 3)) < 4:
        raise MediaError("damaged", f"the PPM has a header of more than {_PPM_HEADER:,} bytes")
    if data[1] in b"123" and b"#" in data:
        return data[:2] + re.sub(rb"#[^\r\n]*[\r\n]?", b"", data[2:])
    return data


def _exif_of(image: Any) -> bytes:
    exif = bytes(image.info.get("exif") or b"")
    return exif.removeprefix(b"Exif\0\0")


def _read_png(data: bytes) -> Header:
    if len(data) < 33:
        raise MediaError("truncated", "no PNG header")
    width, height, bits, colours = struct.unpack(">IIBB", data[16:26])
    if data[12:16] != b"IHDR" or colours not in _PNG_MODES:
        raise MediaError("damaged", "no PNG header")
    if not (0 < width < 2**31 and 0 < height < 2**31):
        raise MediaError("no pixels", f"{width} x {height}")
    header = Header("png", width, height, _PNG_MODES[colours], bits)
    if bits == 1 and colours == 0:
        header.mode = "1"
    elif bits == 16 and colours == 0:
        header.mode = "I;16"
    for kind, start, size in png_chunks(data):
        if kind == b"iCCP":
            header.icc = True
        elif kind == b"eXIf":
            header.exif = data[start : start + size]
            header.orientation = orientation_of(header.exif)
    return header


_PNG_MODES = {0: "L", 2: "RGB", 3: "P", 4: "LA", 6: "RGBA"}


def png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """List the chunks of a PNG: kind, where its content begins, and its size. It ends where the file ends."""
    place = 8
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4])
        yield data[place + 4 : place + 8], place + 8, size
        place += size + 12


def _read_jpeg(data: bytes) -> Header:
    header = Header("jpeg", 0, 0)
    place, end = 2, len(data)
    while place + 4 <= end:
        if data[place] != 0xFF:
            raise MediaError("damaged", f"no JPEG marker at byte {place}")
        marker = data[place + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD8:  # fill bytes, and markers without content
            place += 1 if marker == 0xFF else 2
            continue
        if marker == 0xD9:
            break
        size = data[place + 2] << 8 | data[place + 3]
        if size < 2:
            raise MediaError("damaged", f"JPEG segment of {size} bytes at byte {place}")
        if marker == 0xDA:
            if not header.mode or header.width == 0:
                break
            if data[place + size + 2 : place + size + 4] in (b"", b"\xff", b"\xff\xd9"):
                raise MediaError("truncated", "the JPEG ends before its pixels")
            return header
        _jpeg_segment(header, marker, data[place + 4 : place + 2 + size])
        place += size + 2
    if header.height or header.width:
        raise MediaError("no pixels" if not (header.height and header.width) else "truncated", "the JPEG has no scan")
    raise MediaError("truncated" if place + 4 > end else "no pixels", "the JPEG has no frame")


def _jpeg_segment(header: Header, marker: int, body: bytes) -> None:
    if marker in _SOF:
        if len(body) < 6 or body[5] not in _MODES:
            raise MediaError("damaged", "bad JPEG frame")
        header.bits, header.height, header.width = body[0], body[1] << 8 | body[2], body[3] << 8 | body[4]
        header.mode, header.progressive = _MODES[body[5]], marker in (0xC2, 0xC6, 0xCA, 0xCE)
        if not (header.width and header.height):
            raise MediaError("no pixels", f"{header.width} x {header.height}")
    elif marker == 0xE1 and body[:6] == b"Exif\0\0" and not header.exif:
        header.exif = body[6:]
        header.orientation = orientation_of(header.exif)
    elif marker == 0xE2 and body[:12] == b"ICC_PROFILE\0":
        header.icc = True
    elif marker == 0xDB:
        _add_tables(header.tables, body)


def _add_tables(tables: dict[int, bytes], body: bytes) -> None:
    while body:
        wide, number = body[0] >> 4, body[0] & 15
        size = 128 if wide else 64
        values = body[1 : 1 + size]
        if len(values) < size:
            return
        tables[number] = bytes(min(255, values[n] << 8 | values[n + 1]) for n in range(0, 128, 2)) if wide else values
        body = body[1 + size :]


def exif_values(exif: bytes) -> dict[int, Any]:
    r"""Read the tags of the first directory of an EXIF block that are texts or whole numbers; nothing if it is damaged.

    Examples:
        >>> exif_values(b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0")
        {274: 6}
    """
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 14:
        return {}
    values: dict[int, Any] = {}
    try:
        directories = [struct.unpack_from(order + "I", exif, 4)[0]]
        for directory in directories:
            (count,) = struct.unpack_from(order + "H", exif, directory)
            for place in range(directory + 2, directory + 2 + 12 * count, 12):
                tag, kind, size = struct.unpack_from(order + "HHI", exif, place)
                if kind in (3, 4) and size == 1:
                    (values[tag],) = struct.unpack_from(order + ("H" if kind == 3 else "I"), exif, place + 8)
                    if tag == 0x8769 and len(directories) == 1:
                        directories.append(values[tag])
                elif kind == 2 and size <= 256:
                    start = place + 8 if size <= 4 else struct.unpack_from(order + "I", exif, place + 8)[0]
                    values[tag] = exif[start : start + size].split(b"\0")[0].decode("latin-1").strip()
    except struct.error:
        pass
    return values


def orientation_of(exif: bytes) -> int:
    """The orientation of an EXIF block: 1 to 8, and 1 if there is none."""
    orientation = exif_values(exif).get(0x0112, 1) if exif else 1
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1
