from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.shuffle.random_streams import Stream, shares

TOP = 2**64 - 1
halves = st.sampled_from([0, 1, 2**52, 2**63 - 1, 2**63, TOP - 1, TOP]) | st.integers(0, TOP)
keys_ = st.lists(st.tuples(halves, st.sampled_from([0, 1, TOP])), min_size=1, max_size=30)


def stream_of(keys: list[tuple[int, int]], wanted: int) -> Stream:
    """What an exchange makes of the keys of a dataset, in plain Python."""
    rest = sorted(keys)[: wanted % len(keys)]
    return Stream(len(keys), wanted, rest[-1] if rest else None, rest.count(rest[-1]) if rest else 0)


def sequence(stream: Stream, keys: list[tuple[int, int]], parts: int) -> list[tuple[int, int]]:
    """The keys of the rows that come, in order, part by part."""
    array = np.array(sorted(keys), np.uint64).reshape(-1, 2)
    found: list[tuple[int, int]] = []
    for part in range(parts):
        rows, positions = stream.positions(array, part, parts)
        order = np.lexsort((array[rows, 1], array[rows, 0], positions))
        found += [tuple(key) for key in array[rows[order]].tolist()]
    return found


@settings(deadline=None)
@given(keys_, st.integers(0, 90), st.integers(1, 40))
def test_a_stream_has_each_row_as_often_as_it_should_and_one_order_however_it_is_cut(
    keys: list[tuple[int, int]], wanted: int, parts: int
) -> None:
    stream = stream_of(keys, wanted)
    whole = sequence(stream, keys, 1)
    assert len(whole) == wanted
    assert Counter(whole) == Counter((sorted(keys) * (wanted // len(keys) + 1))[:wanted])
    assert sequence(stream, keys, parts) == whole


@settings(deadline=None)
@given(keys_, st.integers(1, 90), st.integers(1, 40))
def test_the_rows_of_a_part_have_keys_in_the_shares_that_are_read_for_it(
    keys: list[tuple[int, int]], wanted: int, parts: int
) -> None:
    stream = stream_of(keys, wanted)
    array = np.array(sorted(keys), np.uint64)
    for part in range(parts):
        spans = [(start, stop) for _, start, stop in stream.turns(part, parts)]
        for row in stream.positions(array, part, parts)[0]:
            share = int(array[row, 0]) / 2**64
            assert any(start <= share <= stop for start, stop in spans)


@settings(deadline=None)
@given(st.integers(0, 10**9), st.lists(st.floats(0, 1e6) | st.integers(0, 100), min_size=1, max_size=8).filter(any))
def test_shares_are_less_than_one_off_and_add_up(target: int, weights: list[Any]) -> None:
    counts = shares(target, weights)
    total = sum(map(Fraction, weights))
    assert sum(counts) == target
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - target * Fraction(weight) / total) < 1
        assert weight or not count
