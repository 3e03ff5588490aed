"""The most similar of the rows before each, beside all products at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.dedup.semantic.clusters import ComparisonTask, packed
from dcurate.dedup.semantic.similar import most_similar
from dcurate.frames.vectors import Matrix
from tests.dedup.semantic.test_kmeans import directions


def by_all_products(vectors: Matrix) -> tuple[list[float], list[int]]:
    """NeMo's rule, with every product in memory."""
    products = np.triu(vectors @ vectors.T, 1)
    return products.max(axis=0).tolist(), products.argmax(axis=0).tolist()


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.integers(0, 9), st.integers(0, 2**20))
def test_blocks_and_portions_give_what_all_products_give(
    rows: int, block: int, portions: int, first: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    vectors = directions(12, 3, seed)[draw.integers(12, size=rows)]
    scores, places = by_all_products(vectors)
    start = min(first, (rows - 1) // block) * block
    found = most_similar(lambda start, stop: vectors[start:stop], (start, rows), block, portions * block)
    assert np.allclose(found[0], scores[start:], atol=1e-6)
    for row, (score, place) in enumerate(zip(*found, strict=True), start):
        assert place == row if score == 0 else place < row
        assert score == 0 or np.isclose(vectors[row] @ vectors[place], scores[row], atol=1e-6)
    assert len(places) == rows


def test_a_cluster_of_many_blocks_has_the_scores_of_one_block() -> None:
    vectors = directions(300, 4, 1)
    one = most_similar(lambda start, stop: vectors[start:stop], (0, 300), 512, 512)
    many = most_similar(lambda start, stop: vectors[start:stop], (0, 300), 32, 64)
    assert np.allclose(one[0], many[0], atol=1e-6)
    assert (one[1] == many[1]).mean() > 0.99


def test_no_more_rows_are_read_at_a_time_than_a_portion_has() -> None:
    vectors, asked = directions(100, 4, 2), []

    def read(start: int, stop: int) -> Matrix:
        asked.append(stop - start)
        return vectors[start:stop]

    most_similar(read, (80, 100), 4, 20)
    assert asked == [20, 20, 20, 20, 20]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(1, 20), st.integers(1, 6))
def test_tasks_cover_every_row_once_and_none_is_too_large(counts: list[int], most: int, block: int) -> None:
    bounds, tasks = packed(np.array(counts), most, block)
    assert bounds[0] == 0
    assert bounds[-1] == len(counts)
    parts = [sum(counts[first:last]) for first, last in pairwise(bounds)]
    covered: dict[int, list[ComparisonTask]] = {}
    for task in tasks:
        covered.setdefault(task.part, []).append(task)
        assert task.stop - task.start <= max(most, block)
        assert task.start % block == 0
    for part, rows in enumerate(parts):
        own = covered.get(part, [])
        assert [task.start for task in own] == [0, *(task.stop for task in own[:-1])][: len(own)]
        assert (own[-1].stop if own else 0) == rows
