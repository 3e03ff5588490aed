"""The parts of the examples share no near-duplicate and no site."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.frames.text import column_of
from dcurate.learn.split import bands_of, groups_of, split


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60), st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_no_two_parts_share_a_key_and_none_is_larger_than_asked(pairs, seed):
    keys = np.array(pairs, np.uint64)
    order = np.random.default_rng(seed).permutation(len(keys))
    parts = split(order, keys, (0.2, 0.3), seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(keys)))
    assert len(parts.validation) <= round(0.2 * len(keys))
    assert len(parts.held) <= round(0.3 * len(keys))
    for column in keys.T:
        seen = [set(column[part].tolist()) - {0} for part in parts]
        assert not (seen[0] & seen[1])
        assert not (seen[0] & seen[2])
        assert not (seen[1] & seen[2])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_groups_are_the_connected_texts(pairs):
    group = list(range(len(pairs)))
    for _ in pairs:
        for left, first in enumerate(pairs):
            for right, second in enumerate(pairs):
                if any(a == b != 0 for a, b in zip(first, second, strict=True)):
                    group[left] = group[right] = min(group[left], group[right])
    assert groups_of(np.array(pairs, np.uint64)).tolist() == group


def test_near_duplicates_share_a_band_and_others_do_not():
    words = [f"word{number}" for number in range(100)]
    near = [*words]
    near[50] = "changed"
    other = [f"other{number}" for number in range(100)]
    keys = bands_of(column_of([" ".join(text).encode() for text in (words, near, other, ["short"], [])]))
    groups = groups_of(keys).tolist()
    assert groups == [0, 0, 2, 3, 4]
