"""Hashes of like pictures differ in few bits, those of unlike ones in half of them; they are the same everywhere."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import DataError
from dcurate.images import ImageSignals
from dcurate.images.hashes import ahash64, dhash64, hamming, hashes_of, pdq256, phash64, thumbnail64
from tests.images.pictures import batch_of, photo, saved


def pixels(image):
    return np.asarray(image.convert("RGB"))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 200), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_a_thumbnail_has_the_means_of_its_cells(height, width, seed):
    plane = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    small = thumbnail64(plane)
    rows, columns = np.arange(65) * height / 64, np.arange(65) * width / 64

    def weights(edges, size):
        places = np.arange(size)
        return np.clip(np.minimum(edges[1:, None], places + 1) - np.maximum(edges[:-1, None], places), 0, None)

    whole = weights(rows, height) @ plane @ weights(columns, width).T / (height * width / 4096)
    assert np.abs(small - whole).max() <= (3 if min(height, width) < 64 else 1)  # places are 256ths of a pixel


def test_hashes_are_those_of_their_definitions():
    thumbnail = thumbnail64(pixels(photo()))
    found = hashes_of(thumbnail)
    frequency, place = np.arange(17)[:, None], np.arange(64)[None, :]
    waves = np.cos(np.pi * frequency * (2 * place + 1) / 128) * np.where(frequency == 0, 1 / 8, np.sqrt(2) / 8)
    transformed = waves @ thumbnail.astype(np.float64) @ waves.T
    low, high = transformed[:8, :8].ravel(), transformed[1:, 1:].ravel()
    assert found.pdq == np.packbits(high > np.median(high)).tobytes()
    assert found.phash == np.packbits(low > np.median(low)).tobytes()
    cells = thumbnail.reshape(8, 8, 8, 8).sum(axis=(1, 3))
    assert found.ahash == np.packbits(cells > cells.mean()).tobytes()
    ninths = np.repeat(thumbnail, 9, axis=1).reshape(8, 8, 9, 64).sum(axis=(1, 3))
    assert found.dhash == np.packbits(ninths[:, 1:] > ninths[:, :-1]).tobytes()


def test_changes_that_hardly_show_change_few_bits():
    base = photo(640, 480)
    like = [base.resize((320, 240)), base.point(lambda value: value * 0.8), base.crop((3, 3, 637, 477))]
    for other in like:
        assert hamming(pdq256(pixels(base)), pdq256(pixels(other))) <= 40
        assert hamming(phash64(pixels(base)), phash64(pixels(other))) <= 8
    unlike = [hamming(pdq256(pixels(base)), pdq256(pixels(photo(seed=seed)))) for seed in range(2, 12)]
    assert min(unlike) > 80


def test_hashes_of_a_file_survive_another_format():
    files = [saved(photo(), "PNG"), saved(photo(), "JPEG", quality=60), saved(photo(), "WEBP", quality=60)]
    rows = ImageSignals().process(batch_of(*files)).to_arrow().to_pylist()
    for other in rows[1:]:
        assert hamming(bytes.fromhex(rows[0]["image_pdq"]), bytes.fromhex(other["image_pdq"])) <= 30
    assert rows[0]["image_pixels"] != rows[1]["image_pixels"]


def test_pixels_are_hashed_without_their_metadata():
    image = photo()
    exif = image.getexif()
    exif[0x0132] = "2021:05:06 07:08:09"
    files = [saved(image), saved(image, compress_level=0), saved(image, exif=exif), saved(image, "BMP")]
    found = ImageSignals().process(batch_of(*files)).to_arrow()["image_pixels"].to_pylist()
    assert len(set(found)) == 1
    assert len(found[0]) == 32


def test_hashes_are_the_same_on_every_machine():
    """The bits of a picture made by whole numbers; written down on x86-64."""
    plane = (np.arange(90)[:, None] ** 2 * 7 + np.arange(120)[None, :] * 13) % 251
    hashes = b"".join(each(plane.astype(np.uint8)) for each in (ahash64, dhash64, phash64, pdq256))
    assert hashlib.sha256(hashes).hexdigest()[:16] == "f400d72ce92c889f"


def test_arrays_of_another_form_are_refused():
    for wrong in (np.zeros((3, 3)), np.zeros((0, 4), np.uint8), np.zeros((2, 2, 4), np.uint8), np.zeros(5, np.uint8)):
        with pytest.raises(DataError, match="give uint8, height x width"):
            thumbnail64(wrong)
