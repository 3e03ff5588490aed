"""Signatures hold the bits that plain Python computes, and estimate what they should."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.minhash import band_keys, equal_shares, one_permutation
from dcurate.kernels.permutations import Permutations, Window, as_cudf, permuted
from dcurate.kernels.shingles import Rule
from tests.kernels import shingle_oracle as oracle
from tests.kernels.shingle_oracle import layout
from tests.kernels.test_shingles import TEXTS

WORDS = Rule(2, words=True, seed=np.uint64(42))


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 40), st.sampled_from(["words", "characters"]))
def test_one_permutation_is_that_of_plain_python(text: str, bins: int, unit: str) -> None:
    rule = Rule(2, unit == "words", np.uint64(7))
    expected = oracle.one_permutation(oracle.shingle_hashes(text, 2, unit, 7), bins)
    assert one_permutation(*layout(text), rule, bins)[0].tolist() == expected


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 9), st.integers(0, 2**64 - 1))
def test_permutations_are_those_of_plain_python(text: str, count: int, seed: int) -> None:
    chosen = Permutations.seeded(count, seed)
    expected = oracle.permuted(oracle.shingle_hashes(text, 2, "words", 42), *(array.tolist() for array in chosen))
    assert permuted(*layout(text), WORDS, chosen)[0].tolist() == expected


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_signatures_of_cudf_are_those_of_murmur3_in_plain_python(text: str, width: int, seed: int) -> None:
    chosen = Permutations.of_nemo(5, seed)
    windows = [text[at : at + width] for at in range(max(1, len(text) - width + 1))] if text else []
    hashes = [max(mmh3.hash(window.encode(), seed, signed=False), 1) for window in windows]
    expected = [
        min(((int(a) * value + int(b)) & 0xFFFFFFFF for value in hashes), default=0)
        for a, b in zip(*chosen, strict=True)
    ]
    assert as_cudf(*layout(text), Window(width, np.uint32(seed)), chosen)[0].tolist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("this is my", [1305480171, 462824409, 74608232]), ("favorite book", [32665388, 65330773, 97996158])],
)
def test_signatures_of_cudf_are_those_of_its_documentation(text: str, expected: list[int]) -> None:
    chosen = Permutations(np.array([1, 2, 3], np.uint32), np.array([4, 5, 6], np.uint32))
    assert as_cudf(*layout(text), Window(5, np.uint32(0)), chosen)[0].tolist() == expected


def test_nemo_curator_draws_its_permutations_from_the_seed_42_like_this() -> None:
    factors, summands = Permutations.of_nemo(260, 42)
    assert (factors[:3].tolist(), summands[:3].tolist()) == (
        [1608637543, 1935803229, 996406379],
        [1273642419, 787846414, 1201263687],
    )


def test_a_text_of_one_shingle_a_million_times_has_the_signature_of_one_of_it() -> None:
    once, often = layout("so"), layout("so " * 300_000)
    rule = Rule(1, words=True, seed=np.uint64(1))
    assert np.array_equal(one_permutation(*once, rule, 256), one_permutation(*often, rule, 256))


def test_order_and_number_of_shingles_make_no_difference() -> None:
    rng = np.random.default_rng(5)
    words = [f"w{number}" for number in range(3000)]
    rule = Rule(1, words=True, seed=np.uint64(1))
    shuffled = [*words, *words, *words[:100]]
    rng.shuffle(shuffled)
    column = layout(" ".join(words), " ".join(shuffled), " ".join(words[:30]), " ".join(words[29::-1] * 2))
    for signatures in (one_permutation(*column, rule, 512), permuted(*column, rule, Permutations.seeded(64, 1))):
        assert np.array_equal(signatures[0], signatures[1])
        assert np.array_equal(signatures[2], signatures[3])


@pytest.mark.parametrize("shared", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("size", [10, 100, 1000])
def test_equal_places_are_an_unbiased_estimate_with_at_most_the_error_of_independent_hashes(
    shared: float, size: int
) -> None:
    both = round(size * shared)
    similarity = both / (2 * size - both)
    rule, pairs, places = Rule(1, words=True, seed=np.uint64(3)), 300, 128
    texts = []
    for pair in range(pairs):
        for side in "ab":
            texts.append(" ".join(f"{pair}_{n}" if n < both else f"{pair}_{side}_{n}" for n in range(size)))
    column = layout(*texts)
    left = np.arange(0, 2 * pairs, 2)
    error = np.sqrt(similarity * (1 - similarity) / places)
    for signatures in (one_permutation(*column, rule, places), permuted(*column, rule, Permutations.seeded(places, 9))):
        estimates = equal_shares(signatures, left, left + 1)
        assert abs(estimates.mean() - similarity) < 4 * error / np.sqrt(pairs)
        assert estimates.std() < 1.25 * error


def test_keys_of_bands_differ_by_band_and_by_place_and_are_never_zero() -> None:
    signatures = np.array([[1, 2, 1, 2], [2, 1, 1, 2], [1, 2, 2, 1]], np.uint32)
    keys = band_keys(signatures, 2, 2)
    assert keys.dtype == np.uint64
    assert len(set(keys.ravel().tolist())) == 4
    assert keys[0, 0] == keys[2, 0]
    assert keys[0, 1] == keys[1, 1]
    assert keys.all()
