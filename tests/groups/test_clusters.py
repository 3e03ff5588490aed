"""Groups of verified pairs: connected ones, and stars in which none goes that is not similar to what stays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.groups.clusters import Groups, clustered
from tests.groups.graphs import Edge, columns, component_of, graphs

ranks_of = st.lists(st.sampled_from([0.0, 1.0, 2.5, math.inf, math.nan]), min_size=42, max_size=42)


def similarity(one: int, other: int, same: int) -> float:
    """A similarity of two documents that is the same for documents that are the same: every ``same``-th is."""
    one, other = sorted((one % same, other % same))
    return 1.0 if one == other else 0.8 + ((one * 7 + other) % 19) / 100


def grouped(graph: list[Edge], ranks: list[float], how: Any, same: int = 10**18) -> Groups:
    members = sorted({number for edge in graph for number in edge})
    close = np.array([similarity(*edge, same) for edge in graph], np.float32)
    return clustered(np.array(members, np.int64), np.array(ranks[: len(members)]), *columns(graph), close, how=how)


def order_of(graph: list[Edge], ranks: list[float]) -> dict[int, tuple[bool, float, int]]:
    """What stays before what: by rank, NaN last, and by number."""
    members = sorted({number for edge in graph for number in edge})
    pairs = zip(members, ranks, strict=False)
    return {member: (math.isnan(rank), 0.0 if math.isnan(rank) else rank, member) for member, rank in pairs}


def check_groups(found: Groups, kept: dict[int, int], order: dict[int, Any]) -> None:
    """Whether groups agree with the kept member that each member names."""
    sizes = {one: list(kept.values()).count(one) for one in kept.values()}
    smallest: dict[int, int] = {}
    for member in sorted(kept):
        smallest.setdefault(kept[member], member)
    members = [member for member in sorted(kept) if sizes[kept[member]] > 1]
    assert found.member.tolist() == members
    assert found.kept_member.tolist() == [kept[member] for member in members]
    assert found.kept.tolist() == [kept[member] == member for member in members]
    assert found.group.tolist() == [smallest[kept[member]] for member in members]
    assert found.size.tolist() == [sizes[kept[member]] for member in members]
    for member, one in zip(found.member.tolist(), found.kept_member.tolist(), strict=True):
        assert order[one] <= order[member]


@settings(deadline=None)
@given(graphs, ranks_of)
def test_connected_documents_are_a_group_of_which_the_smallest_rank_stays(
    graph: list[Edge], ranks: list[float]
) -> None:
    order, component = order_of(graph, ranks), component_of(graph)
    kept: dict[int, int] = {}
    for label in set(component.values()):
        inside = [member for member in component if component[member] == label]
        kept |= dict.fromkeys(inside, min(inside, key=lambda member: order[member]))
    found = grouped(graph, ranks, "connected")
    check_groups(found, kept, order)
    linked = {frozenset(edge) for edge in graph}
    for member, one, close in zip(found.member.tolist(), found.kept_member.tolist(), found.similarity, strict=True):
        direct = frozenset((member, one)) in linked or member == one
        assert np.isnan(close) if not direct else close == np.float32(similarity(member, one, 10**18))


def stars(graph: list[Edge], order: dict[int, Any]) -> dict[int, int]:
    """The rule, step by step."""
    kept: dict[int, int] = {}
    for centre in sorted(order, key=lambda member: order[member]):
        if centre in kept:
            continue
        kept[centre] = centre
        for left, right in graph:
            for one, other in ((left, right), (right, left)):
                if one == centre:
                    kept.setdefault(other, centre)
    return kept


@settings(deadline=None)
@given(graphs, ranks_of)
def test_a_star_is_a_document_and_all_that_are_similar_to_it_and_in_no_star_yet(
    graph: list[Edge], ranks: list[float]
) -> None:
    graph = [edge for edge in graph if edge[0] != edge[1]]
    order = order_of(graph, ranks)
    found = grouped(graph, ranks, "star")
    check_groups(found, stars(graph, order), order)
    linked = {frozenset(edge) for edge in graph}
    for member, one, close in zip(found.member.tolist(), found.kept_member.tolist(), found.similarity, strict=True):
        assert member == one or frozenset((member, one)) in linked
        assert close == np.float32(similarity(member, one, 10**18))


@settings(deadline=None)
@given(graphs, ranks_of, st.sampled_from(["connected", "star"]), st.randoms(use_true_random=False))
def test_order_direction_and_repetition_of_pairs_do_not_matter(
    graph: list[Edge], ranks: list[float], how: str, random: Any
) -> None:
    found = grouped(graph, ranks, how, same=5)
    turned = [(right, left) if random.random() < 0.5 else (left, right) for left, right in [*graph, *graph[:5]]]
    random.shuffle(turned)
    for one, other in zip(found, grouped(turned, ranks, how, same=5), strict=True):
        np.testing.assert_array_equal(one, other)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=40), ranks_of)
def test_documents_that_are_the_same_go_together_and_are_as_similar_to_what_stays(
    graph: list[Edge], ranks: list[float]
) -> None:
    """Documents are the same if their numbers are modulo five; copies are paired with the first only."""
    graph = [*[(number % 5, number) for edge in graph for number in edge], *graph]
    found = grouped(graph, ranks, "star", same=5)
    kept = dict(zip(found.member.tolist(), found.kept_member.tolist(), strict=True))
    for member, one in kept.items():
        assert all(
            kept.get(other) == one
            for other in {number for edge in graph for number in edge if number % 5 == member % 5}
        )
    linked = {frozenset((left % 5, right % 5)) for left, right in graph}
    for (member, one), close in zip(kept.items(), found.similarity, strict=True):
        assert member % 5 == one % 5 or frozenset((member % 5, one % 5)) in linked
        assert close == np.float32(similarity(member, one, 5))


def test_a_chain_of_small_differences_is_one_group_if_connected_and_many_stars() -> None:
    chain = [(number, number + 1) for number in range(99)]
    assert grouped(chain, [0.0] * 100, "connected").size.tolist() == [100] * 100
    assert set(grouped(chain, [0.0] * 100, "star").size.tolist()) == {2}


def test_what_was_not_compared_makes_groups_without_a_similarity() -> None:
    nan = np.full(2, np.nan, np.float32)
    for how in ("connected", "star"):
        found = clustered(np.arange(3), np.array([1.0, 0.0, 2.0]), np.array([0, 1]), np.array([1, 2]), nan, how=how)
        assert found.kept_member.tolist() == [1, 1, 1]
        np.testing.assert_array_equal(found.similarity, np.array([np.nan, 1, np.nan], np.float32))


def test_no_pairs_make_no_groups() -> None:
    for members in ([], [3, 9]):
        found = clustered(np.array(members, np.int64), np.zeros(len(members)), *columns([]), np.zeros(0, np.float32))
        assert [len(column) for column in found] == [0] * 6


def test_a_way_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(PipelineError, match=r"unknown clustering='stars'; did you mean 'star'\?"):
        clustered(*columns([]), *columns([]), np.zeros(0, np.float32), how="stars")  # type: ignore[arg-type]
