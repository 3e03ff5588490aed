"""What is connected by edges has the label of its smallest number, wherever and in however many pieces it is joined."""

from __future__ import annotations

import resource
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import PipelineError, ResourceError
from dcurate.groups.components import Components, DiskForest, Edges, components, forest, merge_forests, positions
from tests.groups.graphs import Edge, columns, component_of, graphs

small_graphs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


def labels(found: Components) -> dict[int, int]:
    assert np.all(np.diff(found.members) > 0)
    return dict(zip(found.members.tolist(), found.labels.tolist(), strict=True))


def edges(made: Edges) -> list[Edge]:
    return list(zip(made.left.tolist(), made.right.tolist(), strict=True))


@settings(deadline=None)
@given(graphs)
def test_members_of_a_component_have_the_label_of_its_smallest_number(graph: list[Edge]) -> None:
    assert labels(components(*columns(graph))) == component_of(graph)


@settings(deadline=None)
@given(graphs, st.randoms(use_true_random=False))
def test_a_forest_connects_the_same_with_fewer_edges_than_numbers_in_any_order(graph: list[Edge], random) -> None:
    made = edges(forest(*columns(graph)))
    assert component_of(made) == component_of(graph)
    assert len(made) == len(component_of(graph)) - len(set(component_of(graph).values()))
    turned = [(right, left) if random.random() < 0.5 else (left, right) for left, right in [*graph, *graph[:5]]]
    random.shuffle(turned)
    assert edges(forest(*columns(turned))) == made


@settings(deadline=None)
@given(graphs, st.lists(st.integers(0, 40), max_size=5))
def test_merging_forests_of_parts_gives_the_forest_of_the_whole(graph: list[Edge], cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(graph)]
    parts = [forest(*columns(graph[start:stop])) for start, stop in pairwise(bounds)]
    pairs = [merge_forests(parts[at : at + 2]) for at in range(0, len(parts), 2)]
    assert edges(merge_forests(pairs)) == edges(forest(*columns(graph)))


@settings(deadline=None)
@given(small_graphs, st.integers(1, 40), st.integers(1, 40))
def test_a_forest_on_disk_gives_the_same_components_in_any_pieces(graph: list[Edge], piece: int, block: int) -> None:
    with DiskForest(tempfile.gettempdir(), 31) as joined:
        for start in range(0, len(graph), piece):
            joined.add(*columns(graph[start : start + piece]))
        found = [labels(each) for each in joined.components(block)]
        again = [labels(each) for each in joined.components(block)]
    assert found == again
    assert {number: label for each in found for number, label in each.items()} == component_of(graph)
    assert [sorted(number // block for number in each) for each in found] == [
        [place] * len(each) for place, each in enumerate(found)
    ]


def test_a_forest_on_disk_leaves_no_file(tmp_path: Path) -> None:
    with DiskForest(str(tmp_path), 2**20) as joined:
        joined.add(np.array([5, 2**20 - 1]), np.array([4, 5]))
        assert [each.labels.tolist() for each in joined.components(2**19)] == [[4, 4], [4]]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("edge", [(-1, 3), (3, 8)])
def test_an_edge_to_no_document_is_refused(edge: Edge, tmp_path: Path) -> None:
    with DiskForest(str(tmp_path), 8) as joined, pytest.raises(PipelineError, match="of 8 documents"):
        joined.add(*columns([edge]))


def test_more_documents_than_can_be_distinguished_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="more than the 4294967295"):
        DiskForest(str(tmp_path), 2**32)


def test_a_disk_without_room_is_reported_before_anything_is_joined(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    try:
        with pytest.raises(ResourceError, match="is too small for 4,000,000 bytes, four for each document .*TMPDIR"):
            DiskForest(str(tmp_path), 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_long_chain_from_its_end_is_one_component() -> None:
    chain = np.arange(200_000)[::-1] * 1000
    found = components(chain[:-1].copy(), chain[1:].copy())
    assert len(found.members) == 200_000
    assert not found.labels.any()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**62), unique=True, min_size=1, max_size=50), st.data())
def test_numbers_are_found_in_place(known: list[int], data: st.DataObject) -> None:
    place = np.array(sorted(known))
    wanted = np.array(data.draw(st.lists(st.sampled_from(known), max_size=30)), np.int64)
    assert positions(place, wanted)[0].tolist() == np.searchsorted(place, wanted).tolist()
