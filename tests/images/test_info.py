"""Properties of files are what Pillow says of them, read without decoding."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from dcurate.images import ImageInfo
from dcurate.images.properties import count_frames
from tests.images.pictures import batch_of, photo, saved


def info(data):
    found = ImageInfo().process(batch_of(data)).to_arrow().to_pylist()[0]
    return {name.removeprefix("image_"): value for name, value in found.items()}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "JPEG2000", "PPM", "ICO", "QOI"])
def test_sizes_are_those_of_pillow(kind):
    data = saved(photo(64, 48), kind)
    found = info(data)
    with Image.open(io.BytesIO(data)) as opened:
        assert (found["width"], found["height"]) == opened.size
        assert found["mode"] == opened.mode
    assert found["format"] == {"jpeg2000": "jp2"}.get(kind.lower(), kind.lower())
    assert found["bytes"] == len(data)
    assert found["bytes_per_pixel"] == len(data) / (found["width"] * found["height"])
    assert found["frames"] == 1


@pytest.mark.parametrize("quality", [1, 10, 30, 49, 50, 51, 75, 83, 95, 100])
def test_the_quality_of_a_jpeg_is_found(quality):
    assert info(saved(photo(64, 48), "JPEG", quality=quality))["quality"] == quality


def test_other_formats_have_no_quality():
    assert info(saved(photo(64, 48)))["quality"] is None


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_frames_are_counted(kind, frames):
    others = [photo(64, 48, seed) for seed in range(2, frames + 1)]
    data = saved(photo(64, 48), kind, save_all=True, append_images=others)
    assert info(data)["frames"] == frames


def test_pages_that_point_at_each_other_are_counted_once():
    looped = b"II*\0" + struct.pack("<I", 8) + struct.pack("<HI", 0, 14) + struct.pack("<HI", 0, 8)
    assert count_frames(looped, "tiff") == 2
    assert count_frames(b"GIF89a", "gif") == count_frames(b"II*\0", "tiff") == 1


def test_sizes_are_those_of_the_upright_picture():
    exif = Image.Exif()
    exif[0x0112] = 6
    found = info(saved(photo(64, 48), "JPEG", exif=exif))
    assert (found["width"], found["height"], found["orientation"]) == (48, 64, 6)
    assert (found["short_side"], found["aspect"]) == (48, 0.75)


def test_dates_are_read_and_places_are_not():
    exif = Image.Exif()
    exif[0x0132] = "2021:05:06 07:08:09"
    exif.get_ifd(0x8825)[1] = "N"
    found = info(saved(photo(64, 48), "JPEG", exif=exif))
    assert found["taken"] == "2021-05-06T07:08:09"
    assert not any("gps" in name or "place" in name for name in found)


def test_deep_and_profiled_pictures_are_known():
    deep = info(saved(Image.fromarray(np.zeros((4, 5), np.uint16))))
    assert (deep["bits"], deep["mode"]) == (16, "I;16")
    assert info(saved(photo(8, 8), icc_profile=b"profile"))["icc"]
    assert not info(saved(photo(8, 8)))["icc"]
