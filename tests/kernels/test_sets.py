"""Sets of shingles are as similar as plain Python finds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.sets import Sets, jaccard_of_sets, shingle_sets
from dcurate.kernels.shingles import Rule
from tests.kernels.shingle_oracle import layout, shingle_set
from tests.kernels.test_shingles import TEXTS

PAIRS = np.array([0]), np.array([1])


def words(rng: np.random.Generator, count: int) -> str:
    return " ".join(f"w{number}" for number in rng.integers(0, 50_000, count))


def share(left: set[int], right: set[int]) -> float:
    return len(left & right) / len(left | right) if left | right else 1.0


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, st.integers(1, 4), st.sampled_from(["words", "characters"]))
def test_the_similarity_of_whole_sets_is_that_of_sets_of_shingles(left: str, right: str, size: int, unit: str) -> None:
    sets = shingle_sets(*layout(left, right), Rule(size, unit == "words", np.uint64(1)), None)
    one, other = shingle_set(left, size, unit), shingle_set(right, size, unit)
    assert jaccard_of_sets(sets, *PAIRS)[0] == (len(one & other) / len(one | other) if one | other else 1.0)


@pytest.mark.parametrize("most", [1, 100, 4096, 100_000])
def test_a_cut_set_holds_the_least_hashes_of_the_whole_one(most: int) -> None:
    rng = np.random.default_rng(2)
    column = layout(*(words(rng, count) for count in (0, 1, 99, 104, 105, 500, 4100, 30_000)))
    rule = Rule(5, words=True, seed=np.uint64(1))
    whole, cut = shingle_sets(*column, rule, None), shingle_sets(*column, rule, most)
    assert whole.whole.all()
    for number in range(len(whole)):
        values, least = (sets.values[sets.bounds[number] : sets.bounds[number + 1]] for sets in (whole, cut))
        assert np.array_equal(values, np.unique(values))
        assert np.array_equal(least, values[:most])
        assert cut.whole[number] == (len(values) <= most)


def test_a_text_that_repeats_itself_is_whole_however_long_it_is() -> None:
    sets = shingle_sets(*layout("so it goes " * 20_000), Rule(5, words=True, seed=np.uint64(1)), 16)
    assert len(sets.values) == 3
    assert sets.whole.all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=12), st.booleans()), min_size=2, max_size=6), st.data())
def test_the_similarity_of_cut_sets_is_that_among_the_least_of_both(
    given_sets: list[tuple[set[int], bool]], data: st.DataObject
) -> None:
    sizes = [len(values) for values, _ in given_sets]
    whole = [kept or not values for values, kept in given_sets]
    values = np.array([value for part, _ in given_sets for value in sorted(part)], np.uint32)
    sets = Sets(np.cumsum([0, *sizes]), values, np.array(whole))
    numbers = st.integers(0, len(given_sets) - 1)
    one, other = data.draw(numbers), data.draw(numbers)
    left, right = given_sets[one][0], given_sets[other][0]
    limits = [len(part) for part, kept in ((left, whole[one]), (right, whole[other])) if not kept]
    least = set(sorted(left | right)[: min(limits)] if limits else left | right)
    found = jaccard_of_sets(sets, np.array([one]), np.array([other]))[0]
    assert found == (share(left & least, right & least) if least else 1.0)


def test_cut_sets_estimate_the_similarity_within_the_error_that_is_stated() -> None:
    rng = np.random.default_rng(3)
    parts = words(rng, 6000).split()
    texts = [" ".join(parts), *(" ".join(parts[:keep]) for keep in (5700, 5400, 4800))]
    column, rule = layout(*texts), Rule(5, words=True, seed=np.uint64(1))
    left, right = np.zeros(4, np.int64), np.arange(4)
    exact = jaccard_of_sets(shingle_sets(*column, rule, None), left, right)
    cut = jaccard_of_sets(shingle_sets(*column, rule, 1024), left, right)
    assert cut[0] == exact[0] == 1.0
    assert (np.abs(cut - exact) <= 4 * np.sqrt(exact * (1 - exact) / 1024)).all()
