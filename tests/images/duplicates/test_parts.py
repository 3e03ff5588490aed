"""Pairs of hashes within a distance: none is missed, and time is linear in the worst case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.groups.components import Edges, components
from dcurate.groups.parts import Hashes, Parts
from dcurate.images.duplicates.fingerprint import Fingerprints
from dcurate.images.duplicates.groups import guarded
from dcurate.images.duplicates.thumbnails import ThumbnailSimilarity
from dcurate.kernels.hamming import FOLLOWERS, LEADERS, MOST_COMPARED, MOST_CONTENTS
from dcurate.kernels.structure import structure_hash


def near_hashes(seed: int, bits: int, number: int, most: int) -> Hashes:
    """Hashes in a few families, in which they differ from the first in up to `most` bits."""
    draw = np.random.default_rng(seed)
    families = draw.integers(0, 2, (max(1, number // 8), bits), dtype=np.uint8)
    found = families[draw.integers(0, len(families), number)]
    for row in found:
        row[draw.integers(0, bits, draw.integers(0, most + 1))] ^= 1
    return np.packbits(found, axis=1).view("<u8").astype(np.uint64)


def brute_force(hashes: Hashes, distance: int) -> set[tuple[int, int]]:
    apart = np.bitwise_count(hashes[:, None] ^ hashes[None]).sum(axis=2)
    return {(one, other) for one, other in np.argwhere(apart <= distance).tolist() if one < other}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([64, 128, 256]),
    distance=st.integers(0, 9),
    together=st.integers(1, 3),
    number=st.integers(0, 60),
)
def test_finds_every_pair_within_the_distance(seed: int, bits: int, distance: int, together: int, number: int) -> None:
    hashes = near_hashes(seed, bits, number, distance)
    left, right, short, _ = Parts(bits, distance, together).pairs(hashes)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == sorted(brute_force(hashes, distance))
    assert not short


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), number=st.integers(1, 50))
def test_pairs_copies_with_the_first_of_them(seed: int, number: int) -> None:
    draw = np.random.default_rng(seed)
    hashes, contents = near_hashes(seed, 128, number, 0), draw.integers(0, 4, number).astype(np.uint64)
    left, right, *_ = Parts(128, 0, 1).pairs(hashes, contents)
    firsts: dict[tuple[object, ...], int] = {}
    for row, key in enumerate(zip(*hashes.T.tolist(), contents.tolist(), strict=True)):
        firsts.setdefault(key, row)
    pairs = set(zip(left.tolist(), right.tolist(), strict=True))
    for row, key in enumerate(zip(*hashes.T.tolist(), contents.tolist(), strict=True)):
        assert firsts[key] == row or (firsts[key], row) in pairs
    kinds = {hash_: len({key for key in firsts if key[:2] == hash_}) for hash_ in {key[:2] for key in firsts}}
    assert len(pairs) == number - len(firsts) + sum(count * (count - 1) // 2 for count in kinds.values())


@pytest.mark.parametrize("distinct", [1, 10**9])
def test_stays_linear_with_many_pictures_of_one_hash(distinct: int) -> None:
    """A million white pictures: one representative for equal ones, a few neighbours for the others."""
    number = 20_000
    contents = np.arange(number).astype(np.uint64) % np.uint64(distinct)
    left, right, short, _ = Parts(128, 10, 1).pairs(np.zeros((number, 2), np.uint64), contents)
    assert len(left) <= number * (1 if distinct == 1 else LEADERS + FOLLOWERS)
    assert len(components(left, right).members) == number  # all are still connected
    assert len(set(components(left, right).labels.tolist())) == 1
    assert bool(short) == (distinct > 1)


def noisy_white(number: int) -> Fingerprints:
    """Fingerprints of white pictures with faint noise: one hash, and no two thumbnails equal."""
    random = np.random.default_rng(number)
    hashes = np.zeros((number, 2), np.uint64)
    grays = random.integers(253, 256, (number, 32, 32), dtype=np.uint8)
    return Fingerprints(hashes, hashes, np.full(number, 9216), grays, np.zeros((number, 2, 8, 8), np.int8))


def test_pictures_of_one_hash_are_paired_and_grouped_in_linear_time() -> None:
    """Of more than 512 pictures under a key each is paired with some, so that twice the pictures have twice the pairs.

    What follows compares each pair once, in constant time.
    """
    few, many = (
        len(Parts(128, 10, 2).pairs(prints.hashes, prints.contents).left)
        for prints in (noisy_white(4_000), noisy_white(16_000))
    )
    assert few <= 16 * 4_000
    assert many <= 4.1 * few
    prints = noisy_white(700)
    left, right, short, _ = Parts(128, 10, 2).pairs(prints.hashes, prints.contents)
    assert short
    compare = ThumbnailSimilarity(prints)
    groups = guarded(np.arange(700.0), Edges(left, right), compare(left, right).astype(np.float32), compare)
    assert (len(groups.member), groups.kept.sum()) == (700, 1)


def noisy_hashes(number: int) -> Hashes:
    """Hashes of white pictures with noise: some bits are set by chance, so that next to all are near to all."""
    random = np.random.default_rng(number)
    return np.stack([structure_hash(np.rint(random.normal(240, 5, (64, 64)))) for _ in range(number)])


def test_stays_linear_with_pictures_whose_hashes_are_near_by_chance() -> None:
    parts, hashes = Parts(128, 10), noisy_hashes(16_000)
    few, many = parts.pairs(hashes[:8_000]), parts.pairs(hashes)
    for found, number in ((few, 8_000), (many, 16_000)):
        assert found.compared <= parts.keys_each * MOST_COMPARED * number
        assert len(found.left) <= 3 * MOST_CONTENTS * number
        assert found.short
    assert many.compared <= 2.5 * few.compared
    assert len(many.left) <= 2.5 * len(few.left)
    groups = components(many.left, many.right)
    assert len(groups.members) > 15_000
    assert len(set(groups.labels.tolist())) == 1


def test_pairs_are_found_among_many_that_are_near_by_chance() -> None:
    """Pictures with many bits, and copies of them that differ in up to ten."""
    draw = np.random.default_rng(1)
    pictures = draw.permuted(np.repeat([[1] * 40 + [0] * 88], 200, axis=0), axis=1).astype(np.uint8)
    copies = pictures.copy()
    for row in copies:
        row[draw.choice(128, 10, replace=False)] ^= 1
    planted = np.packbits(np.concatenate([pictures, copies]), axis=1).view("<u8").astype(np.uint64)
    left, right, *_ = Parts(128, 10).pairs(np.concatenate([planted, noisy_hashes(4_000)]))
    assert {(row, row + 200) for row in range(200)} <= set(zip(left.tolist(), right.tolist(), strict=True))


def test_pairs_are_found_under_the_key_that_few_hashes_have() -> None:
    """All hashes agree in two parts, so that one bucket has all of them; those of a pair agree in others, too."""
    draw, number = np.random.default_rng(2), 24_000
    bits = (draw.random((number, 128)) < 0.3).astype(np.uint8)
    parts = Parts(128, 10)
    for mask in parts.scheme.masks[:2]:
        bits[:, np.unpackbits(mask.view(np.uint8), bitorder="little") == 1] = 0
    copies = bits[:200].copy()
    for row in copies:
        row[draw.choice(128, 3, replace=False)] ^= 1
    hashes = np.packbits(np.concatenate([bits, copies]), axis=1, bitorder="little").view("<u8").astype(np.uint64)
    left, right, short, _ = parts.pairs(hashes)
    assert short
    assert {(row, number + row) for row in range(200)} <= set(zip(left.tolist(), right.tolist(), strict=True))


def test_stays_linear_with_many_hashes_in_one_bucket() -> None:
    number = 2 * MOST_COMPARED
    hashes = np.zeros((number, 2), np.uint64)
    for bit in range(number.bit_length()):  # they differ in the first of three parts only
        hashes[:, 0] |= (np.arange(number).astype(np.uint64) >> np.uint64(bit) & np.uint64(1)) << np.uint64(3 * bit)
    left, _, short, _ = Parts(128, 2, 1).pairs(hashes)
    assert short
    assert len(left) <= 3 * 16 * number


@pytest.mark.parametrize(
    ("bits", "distance", "together"), [(100, 3, 1), (64, -1, 1), (64, 3, 0), (64, 64, 1), (128, 60, 3)]
)
def test_refuses_numbers_that_do_not_go_together(bits: int, distance: int, together: int) -> None:
    with pytest.raises(PipelineError):
        Parts(bits, distance, together)
