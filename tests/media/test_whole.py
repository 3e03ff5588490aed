"""A picture of which the file has only some pixels counts as truncated, also where the file ends well."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from dcurate import DocumentBatch
from dcurate.images import ImageSignals
from dcurate.media.image.pixels import decode
from dcurate.media.image.whole import _png_is_short

WIDTH, HEIGHT, FEW = 80, 100, 10


def noise(mode: str = "RGB", height: int = HEIGHT, width: int = WIDTH) -> Image.Image:
    pixels = np.random.default_rng(0).integers(1, 256, (height, width, 3), dtype=np.uint8)
    if mode == "I;16":
        return Image.fromarray(pixels[..., 0].astype(np.uint16) * 256)
    return Image.fromarray(pixels).convert(mode)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 8
    while place < len(data):
        size = int.from_bytes(data[place : place + 4])
        yield data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        place += 12 + size


def shortened_png(data: bytes, keep: Callable[[int], int]) -> bytes:
    """A PNG of which the compressed rows end early, with a right end and right checksums."""
    found = list(chunks(data))
    raw = zlib.decompress(b"".join(body for name, body in found if name == b"IDAT"))
    before = [chunk(name, body) for name, body in found if name not in (b"IDAT", b"IEND")]
    rows = [chunk(b"IDAT", zlib.compress(raw[: keep(len(raw))])), chunk(b"IEND", b"")]
    return data[:8] + b"".join(before + rows)


def interlaced(height: int = HEIGHT, width: int = WIDTH) -> bytes:
    """A gray PNG in seven passes."""
    pixels = np.asarray(noise("L", height, width))
    rows = b""
    for x, y, across, down in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        part = pixels[y::down, x::across]
        rows += b"".join(b"\0" + line.tobytes() for line in part) if part.size else b""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def part_of(share: float, size: int) -> int:
    return int(size * share)


def with_height(data: bytes, place: int, form: str) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, place, HEIGHT)
    return bytes(changed)


def jpeg(mode: str, **options: Any) -> bytes:
    data = saved(noise(mode, 16), "JPEG", **options)
    frame = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    return with_height(data, frame + 5, ">H")


def tiff(tags: tuple[int, ...], compression: str | None) -> bytes:
    """A TIFF of few rows, whose tags say more."""
    mode = "1" if compression == "group4" else "RGB"
    data = bytearray(saved(noise(mode, FEW), "TIFF", compression=compression))
    order = "<" if data[:2] == b"II" else ">"
    (directory,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, directory)
    for at in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(order + "HH", data, at)
        if tag in tags:
            struct.pack_into(order + ("H" if kind == 3 else "I"), data, at + 8, HEIGHT)
    return bytes(data)


def gif() -> bytes:
    data = saved(noise("P", FEW), "GIF")
    frame = data.index(b",\0\0\0\0")
    return with_height(with_height(data, 8, "<H"), frame + 7, "<H")


def bilevel() -> Image.Image:
    return noise("L").point(lambda value: 255 * (value > 200)).convert("1")


def group_4(end: Callable[[bytes], bytes], tags: dict[int, int] | None = None) -> bytes:
    """A TIFF of Group 4 of a pattern, whose last strip ends in another way."""
    data = saved(bilevel(), "TIFF", compression="group4", tiffinfo=tags or {})
    image = Image.open(io.BytesIO(data))
    assert isinstance(image, TiffImageFile)
    found = image.tag_v2
    start, length = found[273][-1], found[279][-1]
    changed = end(data[start : start + length])
    assert len(changed) <= length
    return data[:start] + changed.ljust(length, b"\0") + data[start + length :]


def with_end(share: float, end: bytes, part: bytes) -> bytes:
    return part[: part_of(share, len(part))] + end


def without_end(part: bytes) -> bytes:
    """A strip of Group 4 without its mark, the last 24 bits before those that fill a byte."""
    bits = int.from_bytes(part)
    end = (bits & -bits).bit_length() + 23
    return (bits >> end << end % 8).to_bytes(len(part) - end // 8)


def zeroed(data: bytes, share: float = 0.5) -> bytes:
    return data[: part_of(share, len(data))].ljust(len(data), b"\0")


def icon(short: bool) -> bytes:
    image = saved(noise("RGBA"), "PNG")
    image = shortened_png(image, lambda size: size // 4) if short else image
    return b"\0\0\1\0\1\0" + struct.pack("<BBBBHHII", WIDTH, HEIGHT, 0, 0, 1, 32, len(image), 22) + image


def ppm() -> bytes:
    return saved(noise(height=FEW), "PPM").replace(b"80 10", b"80 100")


PNG_MODES = ("RGB", "RGBA", "P", "L", "1", "LA", "I;16")
SHORT: dict[str, bytes] = {
    **{f"png {mode} {share}": shortened_png(saved(noise(mode), "PNG"), partial(part_of, share))
       for mode in PNG_MODES for share in (0.1, 0.5, 0.99)},
    **{f"png interlaced {share}": shortened_png(interlaced(), partial(part_of, share))
       for share in (0.3, 0.6, 0.9, 0.995)},
    **{f"jpeg {mode} {options}": jpeg(mode, **options)
       for mode in ("RGB", "L", "CMYK") for options in ({}, {"progressive": True}, {"restart_marker_rows": 1})},
    "gif": gif(),
    "tiff, rows without a strip": tiff((257,), None),
    "tiff, a long strip": tiff((257, 278), None),
    "tiff of jpeg": tiff((257, 278), "jpeg"),
    "tiff of group 4, rows": tiff((257, 278), "group4"),
    **{f"tiff of group 4 {tags} {share} {end.hex()}":
       group_4(partial(with_end, share, end), tags)
       for tags in ({}, {278: 50}, {266: 2}, {274: 6}) for share in (0.1, 0.5, 0.9)
       for end in (b"", b"\0\x08\x80" if 266 in tags else b"\0\x10\1")},
    **{f"{kind} zeros {share}": zeroed(saved(noise(), kind), share)
       for kind in ("AVIF", "QOI") for share in (0.6, 0.9)},
    "ico": icon(short=True),
    "bmp": with_height(saved(noise(height=FEW), "BMP"), 22, "<i"),
    "ppm": ppm(),
}  # fmt: skip
WHOLE: dict[str, bytes] = {
    **{f"png {mode}": saved(noise(mode), "PNG") for mode in PNG_MODES},
    **{f"png black {mode}": saved(Image.new(mode, (WIDTH, HEIGHT)), "PNG") for mode in PNG_MODES},
    "png interlaced": interlaced(),
    **{f"jpeg {mode}": saved(noise(mode), "JPEG") for mode in ("RGB", "L", "CMYK")},
    "gif": saved(noise("P"), "GIF"),
    **{f"tiff {way}": saved(noise(), "TIFF", compression=way) for way in (None, "jpeg", "tiff_lzw", "packbits")},
    **{f"tiff group 4 {tags}": group_4(bytes, tags) for tags in ({}, {278: 50}, {266: 2}, {274: 6})},
    "tiff group 4 without an end": group_4(without_end),
    **{
        f"tiff group 4 {colour}": saved(Image.new("1", (WIDTH, HEIGHT), colour), "TIFF", compression="group4")
        for colour in (0, 1)
    },
    "tiff of jpeg, turned": saved(noise(height=40), "TIFF", compression="jpeg", tiffinfo={274: 6, 278: 16}),
    "ico": icon(short=False),
    **{kind: saved(noise(), kind) for kind in ("BMP", "PPM", "QOI", "WEBP", "AVIF", "JPEG2000")},
}


@pytest.mark.parametrize("short_side", [None, 32])
@pytest.mark.parametrize("name", SHORT)
def test_a_picture_without_some_of_its_pixels_is_truncated(name: str, short_side: int | None) -> None:
    assert decode(SHORT[name], short_side).truncated


@pytest.mark.parametrize("short_side", [None, 32])
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_picture_is_not_truncated(name: str, short_side: int | None) -> None:
    assert not decode(WHOLE[name], short_side).truncated


@settings(deadline=None, max_examples=50)
@given(width=st.integers(1, 20), height=st.integers(1, 20), missing=st.integers(0, 3))
def test_missing_bytes_of_interlaced_rows_are_counted(width: int, height: int, missing: int) -> None:
    data = shortened_png(interlaced(height, width), lambda size: max(0, size - missing))
    assert _png_is_short(data) is (missing > 0)
    assert not decode(interlaced(height, width)).truncated


def test_truncated_pictures_are_in_the_report_and_a_notice() -> None:
    files = [WHOLE["gif"], SHORT["gif"], SHORT["ico"]]
    stage = ImageSignals()
    result = stage.process(DocumentBatch(data=pa.table({"bytes": pa.array(files, pa.large_binary())})))
    assert result.to_arrow()["image_truncated"].to_pylist() == [False, True, True]
    assert result.found == {"truncated pictures": 2}
    assert stage.remarks(result.found) == [
        "image_signals: 2 pictures end early or are damaged, and some of their pixels were made up; "
        "the column image_truncated says which"
    ]
    assert stage.remarks({}) == []
