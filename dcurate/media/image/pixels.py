"""Decode pictures, at a reduced scale where that is enough: upright, in RGB, and never a bomb."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcurate.core.extras import missing_dependency
from dcurate.isolate.errors import MediaError
from dcurate.media.image.headers import Header, format_of, opened, read_header
from dcurate.media.image.whole import covered, lacks_pixels

try:
    import simplejpeg
    from PIL import Image, ImageFile
except ImportError as error:
    raise missing_dependency("pictures", str(error), "images") from error

Pixels = npt.NDArray[np.uint8]

#: Most pixels of a picture that is decoded, as Pillow's default.
MAX_PIXELS = 178_000_000
#: Pixels that a file of any size may have (A4 at 600 dpi has 35 million), and those that a larger picture may have for
#: each byte of its file. A PNG of one colour has up to 1,030, other files fewer; each pixel takes up to 13 bytes here.
_FREE_PIXELS, _PIXELS_PER_BYTE = 40_000_000, 1_100
#: Most scans of a progressive JPEG: each takes a pass over all of its pixels.
_MAX_SCANS = 200
#: What the decoder writes for pixels that a JPEG lacks.
_JPEG_FILLING = 128
#: Pixels along a side that bits past the end of a JPEG change: one unit of it, and what smoothing spreads of that.
_JPEG_FIRST = 48
_NO_PIXELS = "none of its pixels could be decoded"


@dataclass(slots=True)
class Picture:
    """A decoded picture.

    Attributes:
        pixels: height x width x 3, uint8, RGB, upright, contiguous. What is transparent is white.
        header: what the header says.
        scale: stored pixels for each decoded pixel along a side: 1, 2, 4, 8, ...
        truncated: whether the file ends early or is damaged, and the rest of the pixels was made up.
        gray: whether it is stored without colours.
    """

    pixels: Pixels
    header: Header
    scale: int = 1
    truncated: bool = False
    gray: bool = False


def checked_header(data: bytes, max_pixels: int = MAX_PIXELS) -> Header:
    """Read the header of a picture, and refuse one with too many pixels, or far too many for so small a file.

    Args:
        data: the bytes of the whole file.
        max_pixels: most pixels, width times height.

    Raises:
        MediaError: as `read_header`, and ``too many pixels``.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> Image.new("L", (30, 20)).save(file, "PNG")
        >>> checked_header(file.getvalue(), max_pixels=500)
        Traceback (most recent call last):
        dcurate.isolate.errors.MediaError: too many pixels: 30 x 20, more than 500
    """
    header = read_header(data)
    check_pixels((header.width, header.height), len(data), max_pixels)
    return header


def decode(data: bytes, short_side: int | None = None, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """Decode a picture, of an animation the first frame.

    Pictures are reduced by a power of two: JPEGs by their cosine transform, which is quick (up to 8), others by
    averages of pixels after decoding. A file that ends early is decoded as far as it goes, see `Picture.truncated`; it
    is refused if that is nothing.

    Args:
        data: the bytes of the file.
        short_side: least pixels of the shorter side that are enough; all pixels if not given. A picture is never
            enlarged, and the shorter side of one that is reduced has less than twice as many.
        max_pixels: most pixels of a picture; the header of a larger one is all that is read of it. So it is with one
            of more than 40 million pixels that has more than 1,100 for each byte of its file.

    Raises:
        MediaError: the file is not a picture that can be decoded; its ``reason`` is short and can be counted.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (1000, 600), (250, 0, 0)).save(file, "JPEG")
        >>> picture = decode(file.getvalue(), short_side=256)
        >>> picture.pixels.shape, picture.scale, picture.header.width
        ((300, 500, 3), 2, 1000)
    """
    kind = format_of(data)
    if kind in ("jpeg", "png"):
        header = checked_header(data, max_pixels)
        if kind == "jpeg" and header.mode != "CMYK" and header.bits == 8:
            return _decode_jpeg(data, header, short_side)
        image = opened(data, kind)[0]
    else:
        image, header = opened(data, kind)
        check_pixels((header.width, header.height), len(data), max_pixels)
    try:
        return _decode_pillow(data, image, header, short_side)
    except MediaError:
        raise
    except Exception as error:  # Pillow raises all kinds for damaged files
        raise MediaError("damaged", str(error)) from error


def check_pixels(size: tuple[int, int], nbytes: int, max_pixels: int = MAX_PIXELS) -> None:
    """Refuse a picture, or a page of one, that would be too much work to decode.

    Args:
        size: width and height.
        nbytes: bytes of its file.
        max_pixels: most pixels, width times height.

    Raises:
        MediaError: ``no pixels`` or ``too many pixels``.

    Examples:
        >>> check_pixels((1, 177_000_000), nbytes=74)
        Traceback (most recent call last):
        dcurate.isolate.errors.MediaError: too many pixels: 1 x 177000000 in 74 bytes
    """
    width, height = size
    if width <= 0 or height <= 0:
        raise MediaError("no pixels", f"{width} x {height}")
    if width * height > max_pixels:
        raise MediaError("too many pixels", f"{width} x {height}, more than {max_pixels:,}")
    if width * height > max(_FREE_PIXELS, _PIXELS_PER_BYTE * nbytes):
        raise MediaError("too many pixels", f"{width} x {height} in {nbytes:,} bytes")


def _factor(header: Header, short_side: int | None, most: int = 2**15) -> int:
    """The largest power of two by which a picture can be reduced."""
    if not short_side:
        return 1
    return max(1, min(most, 1 << (min(header.width, header.height) // short_side).bit_length() >> 1))


def _decode_jpeg(data: bytes, header: Header, short_side: int | None) -> Picture:
    if header.progressive and data.count(b"\xff\xda") > _MAX_SCANS:
        raise MediaError("damaged", f"a progressive JPEG of more than {_MAX_SCANS} scans")
    gray, reduction = header.mode == "L", _factor(header, short_side)
    factor = min(reduction, 8)
    sides = -(-header.height // factor), -(-header.width // factor)
    options: dict[str, Any] = {
        "colorspace": "GRAY" if gray else "RGB",
        "min_height": sides[0] if factor > 1 else 0,
        "min_width": sides[1] if factor > 1 else 0,
    }
    truncated = False
    try:
        pixels = simplejpeg.decode_jpeg(data, **options)
    except ValueError:
        truncated = True
        try:
            pixels = simplejpeg.decode_jpeg(data, strict=False, **options)
        except ValueError as error:
            raise MediaError("damaged", str(error)) from error
        first = _JPEG_FIRST // factor
        tail = pixels[first:], pixels[:first, first:]
        if any(part.size for part in tail) and all((part == _JPEG_FILLING).all() for part in tail):
            raise MediaError("truncated", _NO_PIXELS) from None
    if gray:
        pixels = np.repeat(pixels, 3, axis=2)
    if reduction > factor:
        pixels = np.array(Image.fromarray(pixels).reduce(reduction // factor))
    return Picture(upright(pixels, header.orientation), header, reduction, truncated, gray)


def _decode_pillow(data: bytes, image: ImageFile.ImageFile, header: Header, short_side: int | None) -> Picture:
    if image.format == "JPEG" and short_side:
        factor = _factor(header, short_side, 8)
        image.draft(None, (-(-header.width // factor), -(-header.height // factor)))
    complete = covered(image)
    truncated = _load(image) or not complete or lacks_pixels(data, image)
    if header.format == "tiff":  # Pillow has turned it upright
        header.orientation, (header.width, header.height) = 1, image.size
    decoded = Header(header.format, *image.size)
    reduction = _factor(decoded, short_side)
    pixels = _rgb(image, reduction)
    scale = max(1, round(header.width / decoded.width)) * reduction
    gray = image.mode in ("1", "L", "LA", "La", "F", "I") or image.mode.startswith("I;")
    return Picture(upright(pixels, header.orientation), header, scale, truncated, gray)


def _load(image: ImageFile.ImageFile) -> bool:
    """Decode a picture; return whether it is only a part."""
    try:
        image.load()
    except OSError as error:
        part = getattr(image, "_im", None) is not None and re.search("truncated|broken|unrecognized", str(error))
        if not part:
            raise MediaError("truncated" if "truncated" in str(error) else "damaged", str(error)) from error
        image.tile = []  # or the next use would decode it again
        clear = image.info.get("transparency")
        if (np.asarray(image) == (clear if image.format == "GIF" and clear else 0)).all():
            raise MediaError("truncated", _NO_PIXELS) from error
        return True
    return False


def _rgb(image: Any, factor: int) -> Pixels:
    """The pixels of a decoded picture in RGB, averaged by a whole factor."""
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
    elif image.mode not in ("L", "RGB", "CMYK"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    if factor > 1:
        image = image.reduce(factor)
    if image.mode == "RGBA":
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        image = white
    if image.mode == "L":  # as three bytes for each pixel, not in between as four
        return np.repeat(np.asarray(image)[..., None], 3, axis=2)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _eight_bits(values: npt.NDArray[Any]) -> Pixels:
    """Values of more than 8 bits as 8: 16-bit ones by their upper half, others between their least and greatest."""
    if values.dtype in (np.uint16, np.dtype(">u2")):
        return (values >> 8).astype(np.uint8)
    numbers = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    least, most = float(numbers.min()), float(numbers.max())
    if least >= 0 and most <= 1 and values.dtype.kind == "f":
        least, most = 0.0, 1.0
    elif least >= 0 and most <= 255:
        least, most = 0.0, 255.0
    elif least >= 0 and most <= 65535 and values.dtype.kind != "f":
        least, most = 0.0, 65535.0
    return np.round((numbers - least) * (255 / (most - least or 1))).astype(np.uint8)


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """Turn and flip the pixels as the EXIF orientation says, 1 to 8.

    Examples:
        >>> upright(np.array([[[1], [2]]], np.uint8), 6)[..., 0].tolist()
        [[1], [2]]
        >>> upright(np.array([[[1], [2]]], np.uint8), 2)[..., 0].tolist()
        [[2, 1]]
    """
    if orientation == 1:
        return pixels
    turned = pixels.transpose(1, 0, 2) if orientation >= 5 else pixels
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(turned[::rows, ::columns])


def colours(data: bytes) -> Pixels:
    """Decode a picture at its full size: upright, in RGB; how transparent it is does not count.

    Raises:
        MediaError: it cannot be decoded, or not as a whole.
    """
    kind = format_of(data)
    if kind == "jpeg":
        return _whole(data)
    header = checked_header(data)
    image = opened(data, kind)[0]
    try:
        if not image.has_transparency_data:
            return _whole(data)
        image.load()
        plain = image.convert("RGBA") if image.mode in ("LA", "La", "PA") else image
        orientation = 1 if kind == "tiff" else header.orientation  # Pillow has turned a TIFF upright
        return np.ascontiguousarray(upright(np.array(plain.convert("RGB")), orientation))
    except MediaError:
        raise
    except Exception as error:  # Pillow raises all kinds for damaged files
        raise MediaError("damaged", str(error)) from error


def _whole(data: bytes) -> Pixels:
    picture = decode(data)
    if picture.truncated:
        raise MediaError("truncated", "the rest of the picture is missing")
    return picture.pixels
