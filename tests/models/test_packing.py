from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.frames.tokens import Tokens
from dcurate.models.packing import BatchLimits, Ints, TokenRows, packed, padding, present

widths_of = st.lists(st.integers(1, 600), max_size=300).map(lambda found: np.array(found, np.int64))
limits_of = st.builds(BatchLimits, tokens=st.integers(1, 5000), rows=st.integers(1, 64), spare=st.integers(0, 200))


@given(widths=widths_of, limits=limits_of, by_length=st.booleans())
def test_each_row_is_in_one_batch_and_each_batch_within_the_limits(
    widths: Ints, limits: BatchLimits, by_length: bool
) -> None:
    batches = packed(widths, limits, by_length)
    assert sorted(np.concatenate(batches).tolist() if batches else []) == list(range(len(widths)))
    for rows in batches:
        assert 0 < len(rows) <= limits.rows
        assert len(rows) == 1 or len(rows) * widths[rows].max() <= limits.tokens


def cost(batches: list[Any], widths: Ints, limits: BatchLimits) -> int:
    return sum(len(rows) * int(widths[rows].max()) + limits.spare for rows in batches)


@given(
    widths=st.lists(st.integers(1, 12), min_size=1, max_size=9).map(lambda found: np.array(found, np.int64)),
    limits=st.builds(BatchLimits, tokens=st.integers(1, 60), rows=st.integers(1, 6), spare=st.integers(0, 12)),
)
def test_no_other_way_to_cut_rows_in_the_order_of_their_length_costs_less(widths: Ints, limits: BatchLimits) -> None:
    order, places = np.argsort(-widths), range(1, len(widths))
    cuts = itertools.chain.from_iterable(itertools.combinations(places, few) for few in range(len(widths)))
    ways = [np.split(order, list(cut)) for cut in cuts]
    allowed = [
        way
        for way in ways
        if all(len(rows) <= limits.rows for rows in way)
        and all(len(rows) == 1 or len(rows) * widths[rows].max() <= limits.tokens for rows in way)
    ]
    assert cost(packed(widths, limits), widths, limits) == min(cost(way, widths, limits) for way in allowed)


@given(widths=widths_of, limits=limits_of)
def test_a_batch_is_nowhere_cut_in_two_at_a_gain(widths: Ints, limits: BatchLimits) -> None:
    for rows in packed(widths, limits):
        halves = [[rows[:place], rows[place:]] for place in range(1, len(rows))]
        assert all(cost([rows], widths, limits) <= cost(two, widths, limits) for two in halves)


def test_the_longest_rows_come_first_and_like_lengths_together() -> None:
    batches = packed(np.array([5, 90, 5, 100, 95]), BatchLimits(tokens=300, rows=8, spare=10))
    assert [rows.tolist() for rows in batches] == [[3, 4, 1], [0, 2]]


def test_what_a_batch_costs_decides_how_many_there_are() -> None:
    widths = np.array([100, 90, 80, 70])
    ways = [[len(rows) for rows in packed(widths, BatchLimits(1000, 8, spare))] for spare in (5, 15, 50)]
    assert ways == [[1, 1, 1, 1], [2, 2], [4]]


def test_rows_that_keep_their_order_are_cut_into_stretches() -> None:
    batches = packed(np.array([5, 90, 5, 100, 95]), BatchLimits(tokens=200, rows=2), by_length=False)
    assert [rows.tolist() for rows in batches] == [[0, 1], [2, 3], [4]]


def test_a_row_longer_than_the_limit_has_a_batch_to_itself() -> None:
    assert [rows.tolist() for rows in packed(np.array([3, 900, 2]), BatchLimits(tokens=10, rows=8))] == [[1], [0, 2]]


def test_padding_counts_a_row_without_tokens_as_one() -> None:
    assert padding(np.array([0, 3]), [np.array([0, 1])]) == 2


def test_padding_counts_the_columns_that_make_a_width_a_multiple() -> None:
    rows = TokenRows.cut(Tokens(np.array([0, 0, 3, 12]), np.arange(12, dtype=np.int32))).widened(8)
    assert rows.padded(np.array([0, 1]), filler=-1).shape == (2, 8)
    assert padding(rows.lengths, [np.array([0, 1]), np.array([2])], rows.widths) == (8 - 1) + (8 - 3) + (16 - 9)


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"rows": 0}, {"spare": -1}])
def test_limits_below_one_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        BatchLimits(**{"tokens": 1, "rows": 1, **wrong})


@given(
    rows=st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=8),
    longest=st.none() | st.integers(1, 4),
    side=st.sampled_from(["left", "right"]),
)
def test_padded_rows_hold_their_tokens_at_the_side_away_from_the_padding(
    rows: list[list[int]], longest: int | None, side: Any
) -> None:
    bounds = np.cumsum([0, *map(len, rows)])
    tokens = Tokens(bounds, np.array([token for row in rows for token in row], np.int32))
    cut = TokenRows.cut(tokens, longest, side)
    order = np.arange(len(rows))[::-1]
    array = cut.padded(order, 0, side)
    most = longest or 99
    kept = [row[:most] if side == "right" else row[-most:] for row in rows]
    assert [[int(token) for token in row if token] for row in array] == kept[::-1]
    own = present(cut.lengths[order], array.shape[1], side)
    assert (own == (array > 0)).all()
