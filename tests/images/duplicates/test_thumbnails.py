"""Fingerprints of changed pictures stay close, and their thumbnails tell different pictures apart."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from dcurate.images import ImageNearDuplicates
from dcurate.images.duplicates.fingerprint import SIZE, Fingerprints, read_fingerprint, read_pixel_digest
from dcurate.images.duplicates.thumbnails import ThumbnailSimilarity
from dcurate.isolate.errors import MediaError
from tests.images.duplicates.pictures import CHANGES, form, saved, scene

OPTIONS = {"max_pixels": 10**6}


def prints_of(*files: bytes) -> Fingerprints:
    return Fingerprints.of(b"".join(read_fingerprint(data, OPTIONS)[1][0] for data in files))


def similarity(one: bytes, other: bytes, flips: bool = False) -> float:
    return float(ThumbnailSimilarity(prints_of(one, other), flips)(np.array([0]), np.array([1]))[0])


def distance(one: bytes, other: bytes) -> int:
    hashes = prints_of(one, other).hashes
    return int(np.bitwise_count(hashes[0] ^ hashes[1]).sum())


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_picture_is_the_same(change: str) -> None:
    for seed in range(5):
        picture = scene(seed)
        one, other = saved(picture), CHANGES[change](picture)
        assert distance(one, other) <= ImageNearDuplicates().max_distance
        assert similarity(one, other) > 0.5
        assert similarity(other, one) == pytest.approx(similarity(one, other), abs=0.2)


def test_other_pictures_are_different() -> None:
    files = [saved(scene(seed)) for seed in range(12)]
    left, right = np.triu_indices(len(files), 1)
    assert ThumbnailSimilarity(prints_of(*files))(left, right).max() < 0.01


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["Anna Berg 4711", "Paris", "2021"], ["Hugo Lind 8052", "Turin", "1998"]),
        (["Jonas 14", "Greta 9006", "Ines 77"], ["Emma 14", "Farid 2315", "Boris 604"]),
    ],
)
def test_forms_with_other_words_are_different(one: list[str], other: list[str]) -> None:
    assert similarity(saved(form(*one)), saved(form(*other))) < 0.5
    again = saved(form(*one).resize((360, 255)), "JPEG", quality=60)
    assert similarity(saved(form(*one)), again) > 0.5


def test_plain_pictures_are_told_apart_by_their_colour() -> None:
    colours = [(250, 250, 250), (200, 30, 30), (30, 30, 200), (0, 0, 0), (251, 249, 250)]
    found = prints_of(*(saved(Image.new("RGB", (60, 40), colour)) for colour in colours))
    assert (found.hashes == 0).all()  # noise makes no bits
    near = ThumbnailSimilarity(found)(np.zeros(4, np.int64), np.arange(1, 5))
    assert (near > 0.5).tolist() == [False, False, False, True]


def test_a_mirror_image_is_the_same_where_that_is_wanted() -> None:
    one, other = saved(scene(3)), saved(ImageOps.mirror(scene(3)))
    assert similarity(one, other) < 0.5 < similarity(one, other, flips=True)
    found = prints_of(one, other)
    assert np.bitwise_count(found.hashes[0] ^ found.mirrored[1]).sum() <= 10


def test_equal_pictures_have_equal_fingerprints_and_a_similarity_of_one() -> None:
    png, webp = saved(scene(1)), saved(scene(1), "WEBP", lossless=True)
    one, other = (read_fingerprint(data, OPTIONS)[1][0] for data in (png, webp))
    assert one == other
    assert len(one) == SIZE
    assert similarity(png, webp) == 1.0
    assert read_pixel_digest(png, OPTIONS) == read_pixel_digest(webp, OPTIONS)
    assert Fingerprints.of(one).pixels.tolist() == [320 * 240]


def test_numbers_of_thumbnails_are_equal_for_equal_ones_only() -> None:
    found = prints_of(saved(scene(1)), saved(scene(1), "BMP"), saved(scene(2)))
    assert found.contents[0] == found.contents[1] != found.contents[2]


@pytest.mark.parametrize("data", [b"", b"<html>", saved(scene(0))[:40]])
def test_what_is_no_picture_has_no_fingerprint(data: bytes) -> None:
    with pytest.raises(MediaError):
        read_fingerprint(data, OPTIONS)


def test_a_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(MediaError, match="too many pixels"):
        read_fingerprint(saved(Image.new("1", (2000, 2000))), OPTIONS)
