"""Hashes are those that the package xxhash gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from dcurate.frames.text import column_of
from dcurate.kernels.xxh3 import text_digests


def by_xxhash(texts: list[bytes]) -> bytes:
    return b"".join(map(xxh3_128_digest, texts))


def of_lengths(lengths: list[int]) -> list[bytes]:
    draw = np.random.default_rng(len(lengths))
    return [draw.bytes(length) for length in lengths]


def test_texts_of_all_lengths_up_to_some_blocks_have_the_digests_of_xxhash() -> None:
    texts = of_lengths(list(range(1101)))
    assert text_digests(*column_of(texts)).tobytes() == by_xxhash(texts)


def test_texts_around_the_ends_of_blocks_and_long_ones_have_the_digests_of_xxhash() -> None:
    ends = [1024 * blocks + more for blocks in range(1, 12) for more in (-65, -64, -63, -1, 0, 1, 63, 64, 65)]
    texts = of_lengths([*ends, 100_000, 999_999, 2**20, 3_000_001])
    assert text_digests(*column_of(texts)).tobytes() == by_xxhash(texts)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=400) | st.builds(bytes.__mul__, st.binary(max_size=30), st.integers(0, 200))))
def test_any_texts_have_the_digests_of_xxhash_wherever_they_stand(texts: list[bytes]) -> None:
    offsets, data = column_of([b"what is before", *texts, b"and after"])
    assert text_digests(offsets[1:-1], data).tobytes() == by_xxhash(texts)


def test_nothing_has_the_digest_that_is_published() -> None:
    assert text_digests(*column_of([b""])).tobytes().hex() == "99aa06d3014798d86001c324468d497f"
    assert text_digests(*column_of([])).shape == (0, 2)
