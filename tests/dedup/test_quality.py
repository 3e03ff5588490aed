"""What there is to be found is found by exhaustive search, and scores say what of it was."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.dedup.quality import Pairs, score_groups, score_pairs, similar_pairs

SETS = st.lists(st.sets(st.integers(0, 20), max_size=14), max_size=14)


def pairs_of(*rows: tuple[int, int, float]) -> Pairs:
    left, right, similarity = zip(*rows, strict=True) if rows else ((), (), ())
    return Pairs(np.array(left, np.int64), np.array(right, np.int64), np.array(similarity, np.float64))


def found_in(sets: list[set[int]], least: float) -> list[tuple[int, int, float]]:
    bounds = np.cumsum([0, *map(len, sets)])
    values = np.array([value for each in sets for value in sorted(each)], np.uint32)
    return list(zip(*(column.tolist() for column in similar_pairs(bounds, values, least)), strict=True))


def brute(sets: list[set[int]], least: float) -> list[tuple[int, int, float]]:
    every = [
        (a, b, len(sets[a] & sets[b]) / max(1, len(sets[a] | sets[b]))) for a, b in combinations(range(len(sets)), 2)
    ]
    return [pair for pair in every if pair[2] >= least]


@settings(max_examples=300, deadline=None)
@given(SETS, st.sampled_from([0.05, 0.2, 1 / 3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0]))
def test_the_exhaustive_search_finds_the_pairs_that_comparing_each_with_each_finds(
    sets: list[set[int]], least: float
) -> None:
    assert found_in(sets, least) == brute(sets, least)


def test_many_similar_sets_are_all_paired() -> None:
    sets = [{*range(50), 100 + number} for number in range(80)]
    assert found_in(sets, 0.9) == brute(sets, 0.9)
    assert len(found_in(sets, 0.9)) == 80 * 79 // 2


def test_a_similarity_that_is_none_is_refused() -> None:
    for least in (0.0, 1.1, -1.0):
        with pytest.raises(PipelineError, match="not a similarity"):
            found_in([{1}], least)


TRUTH = pairs_of((0, 1, 1.0), (0, 2, 0.8), (1, 2, 0.84), (2, 3, 0.85), (3, 4, 0.55))


def test_scores_of_pairs_count_what_was_found_and_what_was_right() -> None:
    left, right = np.array([1, 0, 4, 5]), np.array([0, 2, 3, 6])  # in any order; the last is no pair at all
    scores = score_pairs(left, right, TRUTH, threshold=0.8)
    assert (scores.duplicates, scores.found, scores.right) == (4, 4, 2)
    assert (scores.precision, scores.recall, scores.recall_above) == (0.5, 0.5, 0.5)
    bands = {band.low: (band.pairs, band.found) for band in scores.bands if band.pairs}
    assert bands == {0.55: (1, 1), 0.8: (2, 1), 0.85: (1, 0), 0.95: (1, 1)}


def test_nothing_found_and_nothing_to_find_have_no_shares() -> None:
    nothing = np.zeros(0, np.int64)
    scores = score_pairs(nothing, nothing, TRUTH, threshold=0.8)
    assert (scores.precision, scores.recall) == (None, 0.0)
    scores = score_pairs(np.array([0]), np.array([9]), pairs_of(), threshold=0.8)
    assert (scores.precision, scores.recall, scores.recall_above) == (0.0, None, None)


def test_scores_of_groups_show_chains_and_what_is_left() -> None:
    groups, kept = np.array([0, 0, 0, 3, 4]), np.array([True, False, False, True, True])
    scores = score_groups(groups, kept, TRUTH, threshold=0.8)
    assert (scores.recall, scores.precision) == (0.75, 1.0)
    assert (scores.removed, scores.removed_rightly, scores.duplicates_left) == (2, 1.0, 0)
    chained = score_groups(np.zeros(5, np.int64), np.array([False, False, False, False, True]), TRUTH, threshold=0.8)
    assert (chained.recall, chained.precision, chained.removed_rightly) == (1.0, 0.4, 0.0)
    alone = score_groups(np.arange(5), np.ones(5, np.bool_), TRUTH, threshold=0.8)
    assert (alone.recall, alone.precision, alone.removed_rightly, alone.duplicates_left) == (0.0, None, None, 4)
