"""Signatures and similarities of texts as a user of them sees them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dcurate import PipelineError
from dcurate.dedup import Bands, MinHash, Shingles
from dcurate.dedup.minhash import estimated, jaccard
from dcurate.frames.text import TextColumn, column_of

TEXTS = [b"once upon a time there was a king", b"", b"...", b"Once upon a time, there was a king!", b"two words"]
HASHERS = [
    MinHash(num_hashes=32),
    MinHash(num_hashes=30, method="permutations"),
    MinHash(Shingles(24, "characters"), num_hashes=10, method="cudf"),
]


@pytest.mark.parametrize("minhash", HASHERS, ids=lambda minhash: minhash.method)
def test_signatures_are_a_row_of_32_bit_numbers_for_each_text(minhash: MinHash) -> None:
    signatures = minhash.signatures(column_of(TEXTS))
    assert signatures.shape == (5, minhash.num_hashes)
    assert signatures.dtype == np.uint32
    assert minhash.signatures(column_of([])).shape == (0, minhash.num_hashes)


@pytest.mark.parametrize("minhash", HASHERS, ids=lambda minhash: minhash.method)
def test_a_signature_does_not_depend_on_the_texts_around(minhash: MinHash) -> None:
    column = column_of(TEXTS)
    later = TextColumn(column.offsets[2:], column.data)
    assert np.array_equal(minhash.signatures(column)[2:], minhash.signatures(later))


@pytest.mark.parametrize("minhash", HASHERS, ids=lambda minhash: minhash.method)
def test_a_signature_is_the_same_in_another_process_and_for_an_equal_minhash(minhash: MinHash) -> None:
    again = pickle.loads(pickle.dumps(minhash))
    assert again == minhash
    assert np.array_equal(again.signatures(column_of(TEXTS)), minhash.signatures(column_of(TEXTS)))


def test_texts_that_differ_in_case_and_punctuation_have_all_keys_in_common() -> None:
    for minhash in HASHERS[:2]:
        signatures = minhash.signatures(column_of(TEXTS))
        keys = Bands(6, 5).keys(signatures)
        assert np.array_equal(keys[0], keys[3])
        assert estimated_of(signatures, 0, 3) == 1.0
        assert not np.intersect1d(keys[0], keys[4]).size


def estimated_of(signatures: np.ndarray, left: int, right: int) -> float:
    return float(estimated(signatures, np.array([left]), np.array([right]))[0])


def test_a_text_without_a_shingle_is_like_another_one_and_like_nothing_else() -> None:
    minhash = HASHERS[0]
    signatures = minhash.signatures(column_of(TEXTS))
    assert (signatures[1] == 2**32 - 1).all()
    assert [estimated_of(signatures, 1, other) for other in (0, 2, 4)] == [0.0, 1.0, 0.0]
    sets = minhash.sets(column_of(TEXTS), np.arange(5))
    assert jaccard(sets, np.array([1, 1, 1]), np.array([0, 2, 4])).tolist() == [0.0, 1.0, 0.0]


def test_sets_are_made_of_the_rows_asked_for_in_their_order() -> None:
    sets = MinHash().sets(column_of(TEXTS), np.array([4, 0, 3]))
    assert np.diff(sets.bounds).tolist() == [1, 4, 4]
    assert jaccard(sets, np.array([1, 0]), np.array([2, 1])).tolist() == [1.0, 0.0]


def test_another_seed_makes_other_signatures_of_the_same_similarity() -> None:
    left, right = (MinHash(Shingles(seed=seed)).signatures(column_of(TEXTS)) for seed in (1, 2))
    assert not (left[0] == right[0]).any()
    assert estimated_of(left, 0, 3) == estimated_of(right, 0, 3) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MinHash(num_hashes=0), "num_hashes=0 is not a whole number from 1 to 4096"),
        (lambda: MinHash(method="simhash"), "not one of one_permutation, permutations, cudf"),  # type: ignore[arg-type]
        (lambda: MinHash(method="cudf"), r'needs shingles of characters .*Shingles\(24, "characters"\)'),
        (lambda: MinHash().sets(column_of(TEXTS), np.arange(2), 0), "keep at least one hash"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        make()  # type: ignore[operator]
