"""Signals mean what they say, hold one row for each picture, and are the same for every way to run them."""

import numpy as np
import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from dcurate import PipelineError
from dcurate.images import ImageInfo, ImageReading, ImageSignals
from dcurate.images.duplicates.reading import FingerprintStage, PixelDigest
from dcurate.images.signals import measured_picture
from dcurate.kernels.pictures import MEASURED, _border
from dcurate.media import FileReading
from dcurate.media.image.headers import Header
from dcurate.media.image.pixels import Picture
from tests.images.pictures import batch_of, blurred, photo, saved
from tests.media.test_pixels import CLAIMS


def signals(image, kind="PNG", stage=None, **options):
    found = (stage or ImageSignals()).process(batch_of(saved(image, kind, **options)))
    return {name.removeprefix("image_"): value for name, value in found.to_arrow().to_pylist()[0].items()}


def in_numpy(pixels):
    """The signals of a picture of few pixels, from their definitions."""
    values = pixels.astype(np.float64)
    red, green, blue = values[..., 0], values[..., 1], values[..., 2]
    gray = (
        77 * pixels[..., 0].astype(int) + 150 * pixels[..., 1].astype(int) + 29 * pixels[..., 2].astype(int) + 128
    ) >> 8
    most, least = values.max(axis=2), values.min(axis=2)
    levels = np.bincount(gray.ravel(), minlength=256) / gray.size
    laplacian = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:] - 4 * gray[1:-1, 1:-1]
    across, along = red - green, (red + green) / 2 - blue
    bins = np.bincount(((pixels >> 4).astype(int) @ [256, 16, 1]).ravel())
    steps = np.abs(gray[1:-1, 2:] - gray[1:-1, :-2]) + np.abs(gray[2:, 1:-1] - gray[:-2, 1:-1])
    return {
        "brightness": gray.mean() / 255,
        "contrast": gray.std() / 255,
        "entropy": -sum(level * np.log2(level) for level in levels if level),
        "saturation": ((most - least) / np.maximum(most, 1)).mean(),
        "colourfulness": np.hypot(across.std(), along.std()) + 0.3 * np.hypot(across.mean(), along.mean()),
        "one_colour": bins.max() / gray.size,
        "sharpness": laplacian.var(),
        "edges": (steps > 40).mean(),
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 70), st.integers(3, 80), st.integers(0, 2**32 - 1), st.integers(1, 255))
def test_signals_are_those_of_their_definitions(height, width, seed, spread):
    random = np.random.default_rng(seed)
    pixels = random.integers(0, spread + 1, (height, width, 3), dtype=np.uint8)
    pixels = np.minimum(255, pixels + random.integers(0, 256 - spread, dtype=np.uint8))
    found = dict(zip(MEASURED, measured_picture(Picture(pixels, Header("png", width, height)))[0], strict=True))
    for name, value in in_numpy(pixels).items():
        assert found[name] == pytest.approx(value, rel=1e-3, abs=2e-3), name


@settings(max_examples=60, deadline=None)
@given(st.integers(256, 511), st.integers(256, 700), st.integers(2, 9), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_a_fine_pattern_of_any_period_has_its_own_brightness(height, width, across, down, seed):
    """Places at equal distances met only one part of it."""
    part = np.random.default_rng(seed).integers(0, 2, (down, across), dtype=np.uint8) * 255
    pixels = np.tile(part, (height // down + 1, width // across + 1))[:height, :width, None].repeat(3, axis=2)
    picture = Picture(np.ascontiguousarray(pixels), Header("png", width, height))
    found = dict(zip(MEASURED, measured_picture(picture)[0], strict=True))
    assert found["brightness"] == pytest.approx(pixels.mean() / 255, abs=0.04)
    assert found["contrast"] == pytest.approx(pixels.std() / 255, abs=0.04)


def test_rows_of_any_length_stay_within_the_range_of_the_sums():
    """Black and white checks are the extreme of each sum."""
    checks = np.zeros((3, 40_000, 3), np.uint8)
    checks[::2, ::2], checks[1::2, 1::2] = 255, 255
    found = dict(zip(MEASURED, measured_picture(Picture(checks, Header("png", 40_000, 3)))[0], strict=True))
    assert found["sharpness"] == pytest.approx(1020.0**2, rel=1e-3)
    red = np.zeros((2, 60_000, 3), np.uint8)
    red[..., 0] = 255
    found = dict(zip(MEASURED, measured_picture(Picture(red, Header("png", 60_000, 2)))[0], strict=True))
    assert found["saturation"] == 1
    assert found["colourfulness"] == pytest.approx(0.3 * np.hypot(255, 127.5))


def test_large_pictures_are_measured_as_their_parts_say():
    """Grids of pixels and rows stand for all: within a few per cent."""
    pixels = np.asarray(photo(640, 480))
    found = dict(zip(MEASURED, measured_picture(Picture(pixels, Header("png", 640, 480)))[0], strict=True))
    for name, value in in_numpy(pixels).items():
        assert found[name] == pytest.approx(value, rel=0.05, abs=0.01), name


def test_blur_lowers_the_sharpness_and_keeps_the_brightness():
    sharp, soft = signals(photo()), signals(blurred(photo()))
    assert soft["sharpness"] < sharp["sharpness"] / 10
    assert soft["edges"] < sharp["edges"]
    assert soft["brightness"] == pytest.approx(sharp["brightness"], abs=0.01)


def test_sharpness_hardly_depends_on_the_size_of_the_file():
    large = photo(1536, 1152)
    small = signals(large.reduce(4))["sharpness"]
    assert signals(large)["sharpness"] == small
    assert signals(large, "JPEG", quality=95)["sharpness"] == pytest.approx(small, rel=0.35)


def test_borders_are_shares_of_the_area():
    framed = Image.new("RGB", (400, 400), "black")
    framed.paste(photo(300, 200), (50, 100))
    assert signals(framed)["border"] == pytest.approx(1 - 300 * 200 / 400**2, abs=0.02)
    assert signals(photo())["border"] < 0.02
    assert signals(Image.new("RGB", (30, 20), "red"))["border"] == 1


def test_colours_are_told_from_gray():
    coloured, gray = signals(photo()), signals(photo().convert("L").convert("RGB"))
    assert not coloured["gray"]
    assert gray["gray"]
    assert gray["saturation"] == gray["colourfulness"] == 0


def test_blocks_of_a_poor_jpeg_show():
    poor = signals(photo(), "JPEG", quality=5)
    assert poor["blockiness"] > 1.5
    assert signals(photo())["blockiness"] < 1.2
    assert signals(photo().crop((3, 5, 300, 200)), "JPEG", quality=5)["blockiness"] > 1.5


def test_a_tiny_picture_has_no_sharpness():
    found = signals(Image.new("RGB", (1, 1), "white"))
    assert found["sharpness"] is None
    assert found["blockiness"] is None
    assert found["brightness"] == 1


def test_qr_codes_are_measured_by_their_area():
    code = Image.fromarray(
        np.array(zxingcpp.create_barcode("dcurate", zxingcpp.BarcodeFormat.QRCode).to_image(scale=6))
    )
    page = Image.new("RGB", (600, 400), "white")
    page.paste(code.convert("RGB"), (100, 100))
    found = signals(page, stage=ImageSignals(qr=True))["qr"]
    assert found == pytest.approx(code.width * code.height / (600 * 400), rel=0.5)
    assert signals(photo(), stage=ImageSignals(qr=True))["qr"] == 0


def test_text_is_measured_by_the_area_of_its_lines():
    page, font = photo(480, 320, 2), ImageFont.load_default(24)
    lines = ["Boats leave the harbour", "before the sun is up", "and return at noon."]
    boxes = [ImageDraw.Draw(page).textbbox((30, 30 + 60 * number), line, font) for number, line in enumerate(lines)]
    for (left, top, *_), line in zip(boxes, lines, strict=True):
        ImageDraw.Draw(page).text((30, top), line, "white", font, anchor="lt", stroke_width=2, stroke_fill="black")
        assert left >= 30
    stage = ImageSignals(text=True, hashes=False)
    area = sum((right - left) * (bottom - top) for left, top, right, bottom in boxes)
    assert 1 < signals(page, stage=stage)["text"] * 480 * 320 / area < 2  # boxes leave room around the letters
    assert signals(photo(), stage=stage)["text"] == 0
    thing = Image.new("RGB", (250, 250), "white")
    ImageDraw.Draw(thing).ellipse((60, 50, 190, 210), "black")
    assert signals(thing, stage=stage)["text"] == 0
    assert "image_text" not in ImageSignals().outputs()[1]


def test_missing_models_are_an_error_before_the_first_picture(tmp_path):
    with pytest.raises(PipelineError, match="give the folder of a detector and a reader"):
        ImageSignals(text=True, text_models=str(tmp_path)).setup()


def test_every_row_comes_out_or_goes_to_quarantine_with_its_reason():
    """Conservation and order, with good and bad files mixed; bytes and other columns stay as they are."""
    files = [saved(photo(80, 60, seed)) for seed in range(6)]
    files[1], files[3], files[4] = b"", b"<html>", files[4][:20]
    given = batch_of(*files, None)
    for stage in (ImageInfo(), ImageSignals()):
        found = stage.process(given)
        table = found.to_arrow()
        assert table["id"].to_pylist() == [0, 2, 5]
        assert table["bytes"].to_pylist() == [files[0], files[2], files[5]]
        assert table.column_names[2:] == stage.outputs()[1]
        gone = {row: one.reason for one in found.rejections for row in one.data["id"].to_pylist()}
        assert gone == {1: "empty", 3: "not a picture: HTML or XML", 4: "truncated", 6: "no reference"}
        assert all(one.fault for one in found.rejections)


def test_a_batch_without_rows_gets_the_columns():
    for stage in (ImageInfo(), ImageSignals(qr=True)):
        table = stage.process(batch_of()).to_arrow()
        assert table.column_names == ["id", "bytes", *stage.outputs()[1]]


def test_a_child_process_finds_the_same():
    files = [saved(photo(90, 70, 3), "JPEG"), b"no picture", saved(photo(50, 50, 4), "WEBP")]
    stage = ImageSignals(qr=True, text=True, reading=ImageReading(sandbox=True))
    stage.setup()
    try:
        found = stage.process(batch_of(*files))
    finally:
        stage.teardown()
    here = ImageSignals(qr=True, text=True).process(batch_of(*files))
    assert found.to_arrow().equals(here.to_arrow())
    assert [one.reason for one in found.rejections] == [one.reason for one in here.rejections]


def test_pictures_above_the_limit_are_refused_by_their_header():
    found = ImageSignals(reading=ImageReading(max_pixels=10_000)).process(
        batch_of(saved(photo(300, 200), "JPEG"), saved(photo(90, 90)))
    )
    assert found.to_arrow()["id"].to_pylist() == [1]
    assert found.rejections[0].reason == "too many pixels"


@pytest.mark.parametrize("sandbox", [True, False])
def test_small_files_that_claim_large_pictures_go_to_quarantine(sandbox):
    """Whatever the stage that decodes."""
    claims = [claim(65_000, 2_700) for claim in CLAIMS.values()]
    reading = ImageReading(sandbox=sandbox)
    for stage in (ImageSignals(reading=reading), FingerprintStage(reading=reading), PixelDigest(reading=reading)):
        stage.setup()
        try:
            found = stage.process(batch_of(*claims, saved(photo(90, 90))))
        finally:
            stage.teardown()
        assert found.to_arrow()["id"].to_pylist() == [len(claims)]
        assert [(one.reason, one.rows) for one in found.rejections] == [("too many pixels", len(claims))]


def test_columns_and_limits_are_checked():
    with pytest.raises(PipelineError, match="max_pixels=0 must be above zero"):
        ImageReading(max_pixels=0)
    with pytest.raises(PipelineError, match="image_signals: timeout_s and memory .* give sandbox=True, too"):
        ImageSignals(reading=ImageReading(timeout_s=5))
    with pytest.raises(PipelineError, match="image_info: it does not decode files in a child process"):
        ImageInfo(reading=FileReading(sandbox=True))
    with pytest.raises(PipelineError, match="read the files with MediaReader or WebDatasetReader"):
        ImageInfo().check_columns(["text"])
    assert "image_pdq" not in ImageSignals(hashes=False).outputs()[1]


@pytest.mark.parametrize("rows", [(100, 115, 110), (95, 106, 104)])
def test_rows_of_a_border_are_counted_within_the_picture(rows):
    """All rows are even with the last one, but not with the first one; interpreted, so that indices are checked."""
    plane = np.repeat(np.array(rows, np.uint8)[:, None], 50, axis=1)
    assert _border.py_func(plane) == 1.0


@pytest.mark.parametrize(("left", "right"), [(0, 0), (3, 0), (0, 40), (32, 33), (70, 1)])
def test_even_columns_are_counted_from_both_sides(left, right):
    plane = np.random.default_rng(1).permuted(np.tile(np.arange(0, 200, 20, dtype=np.uint8), (150, 15)), axis=1)
    plane[:, :left], plane[:, 150 - right :] = 250, 230
    plane[:, left], plane[:, 149 - right] = np.arange(150), np.arange(150)[::-1]
    assert _border(plane) == pytest.approx(1 - (150 - left - right) / 150)
