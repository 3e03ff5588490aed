"""Pictures are decoded upright, in RGB, at a reduced scale; what cannot be decoded is refused with a reason."""

import io
import struct
import subprocess
import sys
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from dcurate.isolate.errors import MediaError, MediaFault
from dcurate.media.image import pixels
from dcurate.media.image.headers import exif_values, format_of, read_header
from dcurate.media.image.pixels import checked_header, decode
from dcurate.media.interleaved.materialise import page_of


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(("before", "after"), [(0, 1), (3, 3)])
def test_a_picture_in_avif_takes_one_thread_unless_the_process_says_otherwise(before, after):
    code = (
        f"from PIL import AvifImagePlugin as avif; avif.DEFAULT_MAX_THREADS = {before}; "
        "import dcurate.media.image.headers; print(avif.DEFAULT_MAX_THREADS)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() == [
        b"%d" % after
    ]


def scene(width=64, height=48):
    """A picture whose four quarters differ: red, green, blue, gray."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, : width // 2] = (220, 20, 20)
    pixels[: height // 2, width // 2 :] = (20, 220, 20)
    pixels[height // 2 :, : width // 2] = (20, 20, 220)
    pixels[height // 2 :, width // 2 :] = (120, 120, 120)
    return Image.fromarray(pixels)


def corners(pixels):
    height, width = pixels.shape[:2]
    return [pixels[y, x].astype(int) for y in (height // 4, 3 * height // 4) for x in (width // 4, 3 * width // 4)]


def alike(first, second, tolerance=12):
    return all(np.abs(a - b).max() <= tolerance for a, b in zip(first, second, strict=True))


QUARTERS = [(220, 20, 20), (20, 220, 20), (20, 20, 220), (120, 120, 120)]


def png(width, height, rows, bits=8, colours=2):
    """A PNG of rows of pixels, as they are or compressed."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0)
    packed = zlib.compress(rows) if isinstance(rows, bytes) else b"".join(rows)
    palette = chunk(b"PLTE", bytes(3)) if colours == 3 else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "AVIF", "JPEG2000", "GIF"])
def test_formats_are_known_by_their_bytes(kind):
    picture = decode(saved(scene(), kind))
    assert picture.pixels.shape == (48, 64, 3)
    assert picture.pixels.dtype == np.uint8
    assert picture.pixels.flags.c_contiguous
    assert alike(corners(picture.pixels), np.array(QUARTERS), 25)
    assert not picture.truncated


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_pictures_are_turned_upright(kind, orientation):
    """The stored picture is the scene turned away; decoding gives the scene again."""
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # numbers of Image.Transpose
    stored = scene() if orientation == 1 else scene().transpose(Image.Transpose(undo[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = decode(saved(stored, kind, exif=exif))
    assert picture.pixels.shape == (48, 64, 3)
    assert alike(corners(picture.pixels), np.array(QUARTERS), 25)
    assert picture.header.upright == (64, 48)


@pytest.mark.parametrize(("kind", "scale"), [("JPEG", 4), ("PNG", 4), ("WEBP", 4)])
def test_the_short_side_bounds_the_scale(kind, scale):
    picture = decode(saved(scene(1600, 1203), kind), short_side=240)
    assert picture.scale == scale
    assert min(picture.pixels.shape[:2]) >= 240
    assert alike(corners(picture.pixels), np.array(QUARTERS), 25)
    assert (picture.header.width, picture.header.height) == (1600, 1203)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_all_formats_are_reduced_by_the_same_powers_of_two(kind):
    for side, scale in [(31, 1), (32, 2), (63, 2), (64, 4), (511, 16), (512, 32)]:
        picture = decode(saved(Image.new("RGB", (side, side + 5), "red"), kind), short_side=16)
        assert picture.scale == scale
        assert 16 <= min(picture.pixels.shape[:2]) <= 32


def test_small_pictures_are_not_enlarged():
    assert decode(saved(scene(), "JPEG"), short_side=256).pixels.shape == (48, 64, 3)


def test_cmyk_is_decoded_at_a_reduced_scale():
    picture = decode(saved(scene(1600, 1200).convert("CMYK"), "JPEG"), short_side=240)
    assert min(picture.pixels.shape[:2]) == 300
    assert picture.scale == 4
    assert alike(corners(picture.pixels), np.array(QUARTERS), 25)


def test_clear_pixels_are_white():
    clear = scene().convert("RGBA")
    clear.putalpha(Image.new("L", (64, 48), 0))
    assert (decode(saved(clear)).pixels == 255).all()
    palette = scene().convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    red = int(np.asarray(palette)[0, 0])
    assert tuple(decode(saved(palette, transparency=red)).pixels[0, 0]) == (255, 255, 255)


def test_deep_pixels_keep_their_brightness():
    ramp = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (8, 1))
    picture = decode(saved(Image.fromarray(ramp)))
    assert picture.gray
    assert np.abs(picture.pixels[0, :, 0].astype(int) - np.linspace(0, 255, 64)).max() <= 1
    floats = decode(saved(Image.fromarray((ramp / 65535).astype(np.float32)), "TIFF"))
    assert np.abs(floats.pixels[0, :, 0].astype(int) - np.linspace(0, 255, 64)).max() <= 1


def test_one_bit_pictures_are_black_and_white():
    picture = decode(saved(scene().convert("1")))
    assert set(np.unique(picture.pixels)) == {0, 255}


def test_of_an_animation_the_first_frame_is_decoded():
    second = Image.new("RGB", (64, 48), "black")
    picture = decode(saved(scene(), "GIF", save_all=True, append_images=[second]))
    assert alike(corners(picture.pixels), np.array(QUARTERS), 25)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_file_that_ends_early_is_decoded_as_far_as_it_goes(kind):
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    noise[:16] = 200
    whole = saved(Image.fromarray(noise), kind)
    picture = decode(whole[: len(whole) * 2 // 3])
    assert picture.truncated
    assert np.abs(picture.pixels[:8].astype(int) - 200).max() <= 12


def cut_after_headers(data, kind):
    """A file that ends within its pixels, of which a decoder makes none: at a length found by its marks."""
    marks = {"PNG": b"IDAT", "GIF": b",\0\0\0\0", "JPEG": b"\xff\xda", "JPEG2000": b"\xff\x93"}
    return data[: data.index(marks[kind]) + 20] if kind in marks else data[:80]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("PNG", "RGB"),
        ("PNG", "RGBA"),
        ("PNG", "P"),
        ("PNG", "I;16"),
        ("JPEG", "CMYK"),
        ("GIF", "P"),
        ("BMP", "RGB"),
        ("JPEG2000", "RGB"),
        ("WEBP", "RGB"),
    ],
)
def test_a_file_that_ends_before_its_pixels_is_refused(kind, mode):
    noise = Image.fromarray(np.random.default_rng(1).integers(1, 256, (90, 90, 3), dtype=np.uint8))
    noise = Image.fromarray(np.full((90, 90), 9000, np.uint16)) if mode == "I;16" else noise.convert(mode)
    options = {"transparency": 5} if kind == "GIF" else {}
    whole = saved(noise, kind, **options)
    assert not decode(whole).truncated
    with pytest.raises(MediaError, match="damaged" if kind == "WEBP" else "truncated: none of its pixels could be"):
        decode(cut_after_headers(whole, kind), short_side=32)


@pytest.mark.parametrize("short_side", [None, 16])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_jpeg_that_ends_before_its_pixels_is_refused(mode, progressive, short_side):
    noise = Image.fromarray(np.random.default_rng(1).integers(1, 256, (200, 200, 3), dtype=np.uint8))
    whole = saved(noise.convert(mode), "JPEG", progressive=progressive)
    scan = whole.index(b"\xff\xda") + 2
    start = scan + int.from_bytes(whole[scan : scan + 2], "big")
    for end in (b"", b"\xff", b"\xff\xd9"):
        with pytest.raises(MediaError, match="truncated: the JPEG ends before its pixels"):
            decode(whole[:start] + end, short_side)
    with pytest.raises(MediaError, match="truncated: none of its pixels could be decoded"):
        decode(whole[: start + 1], short_side)
    assert decode(whole[: len(whole) // 2], short_side).truncated


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_file_of_one_colour_that_ends_early_is_a_part(kind):
    whole = saved(Image.new("RGB", (400, 400), "red"), kind)
    picture = decode(whole[: len(whole) - (40 if kind == "PNG" else 2)])
    assert picture.truncated
    assert abs(int(picture.pixels[0, 0, 0]) - 255) < 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><p>not found</p>", "not a picture: HTML or XML"),
        (b"%PDF-1.7", "not a picture: PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "not a picture: PostScript"),
        (b"\x00" * 100, "not a picture: unknown format"),
        (b"\xff\xd8\xff\xe0", "truncated"),
        (png(0, 5, b""), "no pixels"),
        (png(30_000, 30_000, b"\0" * 90_001), "too many pixels"),
        (b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x01\x00", "too many pixels"),
        (b"RIFF\x40\x00\x00\x00WEBPVP8 " + b"\x07" * 60, "damaged"),
    ],
)
def test_what_cannot_be_decoded_is_refused_with_a_reason(data, reason):
    with pytest.raises(MediaError) as error:
        decode(data)
    assert error.value.fault.reason == reason


def test_the_limit_of_pixels_can_be_set():
    file = saved(scene(), "JPEG")
    assert checked_header(file, max_pixels=64 * 48).format == "jpeg"
    with pytest.raises(MediaError, match="too many pixels: 64 x 48, more than 3,000"):
        decode(file, max_pixels=3000)


def changed(kind, *changes):
    """A picture of one pixel whose header is changed."""
    data = bytearray(saved(Image.new("RGB", (1, 1)), kind))
    for place, value in changes:
        data[place : place + len(value)] = value
    return bytes(data)


def tiff(width, height):
    data = bytearray(saved(Image.new("RGB", (1, 1)), "TIFF"))
    (directory,) = struct.unpack_from("<I", data, 4)
    for place in range(directory + 2, directory + 2 + 12 * 2, 12):  # ImageWidth and ImageLength come first
        data[place + 2 : place + 12] = struct.pack("<HII", 4, 1, width if data[place] == 0 else height)
    return bytes(data)


#: Small files that claim large pictures.
CLAIMS = {
    "PNG": lambda width, height: png(width, height, bytes(4), 8, 0),
    "PNG in colours": lambda width, height: png(width, height, bytes(4), 16, 6),
    "PNG of bits": lambda width, height: png(width, height, bytes(4), 1, 0),
    "PNG with a palette": lambda width, height: png(width, height, bytes(4), 8, 3),
    "BMP": lambda width, height: changed("BMP", (18, struct.pack("<ii", width, height))),
    "QOI": lambda width, height: b"qoif" + struct.pack(">II", width, height) + b"\3\0" + b"\xfd" * 40,
    "PPM": lambda width, height: b"P5 %d %d 255\n" % (width, height),
    "TIFF": tiff,
    "JPEG": lambda width, height: changed("JPEG", (163, struct.pack(">HH", height, width))),
    "GIF": lambda width, height: changed("GIF", (6, struct.pack("<HH", width, height))),
}


SIZES = [(1, 177_000_000), (177_000_000, 1), (65_000, 2_700), (2_700, 65_000), (13_000, 13_000), (40_001, 1_000)]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(kind, size) for kind in CLAIMS for size in SIZES if kind not in ("JPEG", "GIF") or max(size) < 2**16],
)
def test_a_small_file_that_claims_a_large_picture_is_refused_before_it_is_decoded(kind, size, monkeypatch):
    monkeypatch.setattr(pixels, "_decode_pillow", None)
    monkeypatch.setattr(pixels, "_decode_jpeg", None)
    data = CLAIMS[kind](*size)
    assert len(data) < 2000
    for refuse in (decode, checked_header):
        with pytest.raises(MediaError, match=f"too many pixels: {size[0]} x {size[1]} in {len(data)} bytes"):
            refuse(data)


@pytest.mark.parametrize(("channels", "bits", "side"), [(1, 8, 13_300), (3, 8, 13_300), (1, 1, 6_272)])
def test_the_smallest_files_of_large_pictures_are_not_refused(channels, bits, side):
    row = bytes(1 + -(-side * bits * channels // 8))
    packer = zlib.compressobj(9)
    data = png(side, side, [*(packer.compress(row) for _ in range(side)), packer.flush()], bits, channels - 1)
    assert checked_header(data).width == side
    assert side > 7_000 or decode(data, short_side=256).pixels.shape == (side // 16, side // 16, 3)


def test_a_page_of_a_tiff_that_claims_to_be_large_is_refused():
    first, second = Image.new("L", (1, 1)), Image.new("L", (1, 1))
    data = bytearray(saved(first, "TIFF", save_all=True, append_images=[second]))
    (directory,) = struct.unpack_from("<I", data, 4)
    (directory,) = struct.unpack_from("<I", data, directory + 2 + 12 * struct.unpack_from("<H", data, directory)[0])
    for place in (directory + 2, directory + 14):
        data[place + 2 : place + 12] = struct.pack("<HII", 4, 1, 13_000)
    assert isinstance(page_of(bytes(data), 0), bytes)
    assert page_of(bytes(data), 1) == MediaFault("too many pixels", f"13000 x 13000 in {len(data)} bytes")


def test_a_ppm_with_a_long_header_is_refused():
    with pytest.raises(MediaError, match="damaged: the PPM has a header of more than 65,536 bytes"):
        decode(b"P6 #" + b"a" * 100_000 + b"\n2 2 255\n" + b"\x07" * 12)


def test_comments_in_a_ppm_of_digits_are_passed_over():
    file = b"P3 #a\n2 2 #b\n\n255\n250 0 0 # red\r0 0 250 #blue\n#\n##\n9 9 9 1#\n7 7 7"
    assert decode(file).pixels.tolist() == [[[250, 0, 0], [0, 0, 250]], [[9, 9, 9], [17, 7, 7]]]


def test_a_jpeg_of_endless_scans_is_refused():
    file = saved(scene(), "JPEG", progressive=True)
    scan = file[file.index(b"\xff\xda") : -2]
    with pytest.raises(MediaError, match="scans"):
        decode(file[:-2] + scan * 200 + file[-2:])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "JPEG2000", "AVIF", "ICO"])
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_damage_is_an_error_with_a_reason_or_a_part(kind):
    """Bytes are cut and changed at random: whatever Pillow makes of it, only a MediaError comes out."""
    random = np.random.default_rng(7)
    whole = saved(scene(), kind)
    for _ in range(40):
        changed = bytearray(whole)
        for place in random.integers(0, min(len(whole), 400), 3):
            changed[place] = random.integers(0, 256)
        data = bytes(changed[: random.integers(1, len(whole) + 1)])
        with suppress(MediaError):
            assert decode(data, short_side=32, max_pixels=1_000_000).pixels.ndim == 3


def test_headers_say_what_the_files_hold():
    exif = Image.Exif()
    exif[0x0132] = "2021:05:06 07:08:09"
    header = read_header(saved(scene(), "JPEG", exif=exif, progressive=True, icc_profile=b"profile" * 20))
    assert (header.width, header.height, header.mode, header.bits) == (64, 48, "RGB", 8)
    assert header.progressive
    assert header.icc
    assert sorted(header.tables) == [0, 1]
    assert exif_values(header.exif)[0x0132] == "2021:05:06 07:08:09"
    assert read_header(saved(Image.new("1", (3, 2)))).bits == 1


def test_a_directory_of_exif_that_points_at_itself_ends():
    looped = b"II*\0\x08\0\0\0\x02\0" + struct.pack("<HHII", 0x8769, 4, 1, 8) + struct.pack("<HHII", 0x0112, 3, 1, 6)
    assert exif_values(looped)[0x0112] == 6


def test_names_and_suffixes_do_not_matter():
    assert format_of(b"\x89PNG\r\n\x1a\n....") == "png"
    assert format_of(b"....ftypavif") == "avif"
