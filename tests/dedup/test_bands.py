"""Bands find pairs as often as their S-curve says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.dedup import Bands


@given(st.floats(0.3, 0.95), st.sampled_from([64, 128, 256, 512]), st.floats(0.5, 0.99))
def test_bands_for_a_threshold_fit_the_signature_and_reach_the_recall(
    threshold: float, num_hashes: int, recall: float
) -> None:
    bands = Bands.for_threshold(threshold, num_hashes, recall)
    assert bands.bands * bands.rows <= num_hashes
    assert bands.probability(threshold) >= recall or bands == Bands(num_hashes, 1)


def test_more_places_let_fewer_dissimilar_pairs_through() -> None:
    chances = [float(Bands.for_threshold(0.8, count).probability(0.5)) for count in (32, 64, 128, 256, 512)]
    assert chances == sorted(chances, reverse=True)


def test_the_curve_rises_from_never_to_always() -> None:
    chances = Bands(20, 13).probability(np.linspace(0, 1, 101))
    assert chances[0] == 0.0
    assert chances[-1] == 1.0
    assert (np.diff(chances) >= 0).all()


def test_pairs_of_signatures_share_a_key_as_often_as_the_curve_says() -> None:
    rng = np.random.default_rng(4)
    bands, pairs, similarity = Bands(8, 4), 4000, 0.7
    left = rng.integers(0, 2**32, (pairs, 32), dtype=np.uint32)
    right = np.where(rng.random((pairs, 32)) < similarity, left, left ^ np.uint32(1))
    found = (bands.keys(left) == bands.keys(right)).any(axis=1).mean()
    chance = float(bands.probability(similarity))
    assert abs(found - chance) < 4 * np.sqrt(chance * (1 - chance) / pairs)


def test_keys_are_taken_from_as_many_places_as_the_bands_need() -> None:
    signatures = np.arange(20, dtype=np.uint32).reshape(2, 10)
    assert np.array_equal(Bands(3, 3).keys(signatures), Bands(3, 3).keys(signatures[:, :9]))
    with pytest.raises(PipelineError, match="4 bands of 3 need signatures of 12 places, not 10"):
        Bands(4, 3).keys(signatures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 128), "threshold=0.0"),
        ((1.0, 128), "threshold=1.0"),
        ((0.8, 0), "num_hashes=0"),
        ((0.8, 128, 1.0), "recall=1.0"),
    ],
)
def test_a_threshold_that_is_none_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Bands.for_threshold(*arguments)


@pytest.mark.parametrize("numbers", [(0, 5), (5, 0), (2.0, 3)])
def test_bands_that_are_none_are_refused(numbers: tuple[Any, Any]) -> None:
    with pytest.raises(PipelineError, match="is not a whole number from 1 on"):
        Bands(*numbers)
