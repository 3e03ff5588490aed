"""k-means, piece by piece, beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.dedup.semantic.kmeans import Sums, distances, moved, nearest, seeds, sums_of
from dcurate.dedup.semantic.sample import drawn, edges
from dcurate.frames.vectors import Matrix


def directions(rows: int, dimensions: int, seed: int) -> Matrix:
    drawn = np.random.default_rng(seed).normal(size=(rows, dimensions))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def squares_of(vectors: Matrix, centroids: Matrix) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return ((vectors[:, None].astype(np.float64) - centroids[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize(("rows", "clusters"), [(1, 1), (300, 7), (5000, 3)])
def test_each_row_goes_to_the_nearest_centroid(rows: int, clusters: int) -> None:
    vectors, centroids = directions(rows, 8, 1), directions(clusters, 8, 2) * np.float32(0.7)
    labels, squares = nearest(vectors, centroids)
    expected = squares_of(vectors, centroids)
    assert np.allclose(expected[np.arange(rows), labels], expected.min(axis=1), atol=1e-6)
    assert np.allclose(squares, expected.min(axis=1), atol=1e-5)


def test_a_row_goes_to_the_same_centroid_with_any_other_rows() -> None:
    vectors, centroids = directions(10_000, 16, 3), directions(2500, 16, 4)
    whole = nearest(vectors, centroids)[0]
    assert (nearest(vectors[4096:], centroids)[0] == whole[4096:]).all()


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 70))
def test_sums_of_blocks_are_those_of_the_rows(rows: int, clusters: int, block: int) -> None:
    vectors, centroids = directions(rows, 4, rows), directions(clusters, 4, clusters)
    found = sums_of(vectors, centroids, block)
    labels, squares = nearest(vectors, centroids)
    for cluster in range(clusters):
        own = labels == cluster
        assert np.allclose(found.totals[cluster], vectors[own].astype(np.float64).sum(axis=0))
        assert found.counts[cluster] == own.sum()
        assert np.isclose(found.squares[cluster], squares[own].sum(), atol=1e-5)


def test_a_cluster_without_rows_stays_where_it_was() -> None:
    centroids = np.array([[1, 0], [0, 1]], np.float32)
    block = Sums(np.array([[0.5, 0.5], [0, 0]]), np.array([1, 0]), np.array([0.5, 0.0]))
    middles, still = moved(centroids, block, 0.0)
    assert middles.tolist() == [[0.5, 0.5], [0, 1]]
    assert not still
    assert moved(middles, block, 0.0)[1]


def test_every_step_brings_rows_nearer_to_their_centroids() -> None:
    vectors = directions(500, 6, 5)
    centroids = seeds(vectors, 12, 0, spread_out=True)
    before, still = np.inf, False
    while not still:
        block = sums_of(vectors, centroids, 100)
        assert block.squares.sum() <= before + 1e-6
        before = block.squares.sum()
        centroids, still = moved(centroids, block, 0.0)


@pytest.mark.parametrize("spread_out", [True, False])
@pytest.mark.parametrize("clusters", [1, 5, 200, 400])
def test_seeds_are_different_rows(clusters: int, spread_out: bool) -> None:
    vectors = directions(400, 5, 6)
    found = seeds(vectors, clusters, 7, spread_out)
    assert len(np.unique(found, axis=0)) == clusters
    assert (found[:, None] == vectors[None]).all(axis=2).any(axis=1).all()
    assert (seeds(vectors, clusters, 7, spread_out) == found).all()


def test_copies_are_seeds_only_when_nothing_else_is_left() -> None:
    vectors = np.repeat(directions(3, 4, 8), 20, axis=0)
    found = seeds(vectors, 3, 1, spread_out=True)
    assert len(np.unique(found, axis=0)) == 3
    assert len(seeds(vectors, 30, 1, spread_out=True)) == 30


def test_seeds_by_squared_distance_find_clusters_that_seeds_alike_miss() -> None:
    centers = directions(50, 24, 9)
    which = np.random.default_rng(1).choice(50, 4000, p=np.array([0.51, *[0.01] * 49]))
    vectors = centers[which]
    hit = [len(np.unique(seeds(vectors, 50, 3, spread_out), axis=0)) for spread_out in (True, False)]
    assert hit[0] == 50 > hit[1]


def test_distances_are_those_to_the_own_centroid() -> None:
    vectors, centroids = directions(30, 5, 10), directions(4, 5, 11) * np.float32(0.5)
    labels = np.arange(30, dtype=np.int32) % 4
    straight, cosine = distances(vectors, centroids, labels)
    own = centroids[labels].astype(np.float64)
    assert np.allclose(straight, np.linalg.norm(vectors - own, axis=1), atol=1e-6)
    assert np.allclose(cosine, 1 - (vectors * own).sum(axis=1) / np.linalg.norm(own, axis=1), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 500), st.data())
def test_a_sample_takes_one_row_of_each_stretch_and_can_be_drawn_in_pieces(total: int, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(1, total))
    cut = data.draw(st.integers(0, wanted))
    rows = drawn(total, wanted, 3, 0, wanted)
    bounds = edges(total, wanted, np.arange(wanted + 1))
    assert (rows >= bounds[:-1]).all()
    assert (rows < bounds[1:]).all()
    pieces = [drawn(total, wanted, 3, 0, cut), drawn(total, wanted, 3, cut, wanted)]
    assert np.concatenate(pieces).tolist() == rows.tolist()
