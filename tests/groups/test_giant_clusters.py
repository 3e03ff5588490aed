"""A group that holds too much of a dataset or of a source is reported."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.groups.giant_clusters import WHOLE, GiantCluster, giant_clusters_of, large_groups


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=60), st.integers(1, 8))
def test_documents_of_groups_are_counted_over_all_sources_and_in_each(rows: list[tuple[int, int]], least: int) -> None:
    groups, sources = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    found = large_groups(groups, sources, least)
    counted = zip(found.group.tolist(), found.source.tolist(), found.documents.tolist(), strict=True)
    expected = Counter((group, WHOLE) for group, _ in rows) + Counter(rows)
    assert {(group, source): count for group, source, count in counted} == {
        key: count for key, count in expected.items() if count >= least
    }


def test_a_group_is_an_alarm_if_it_holds_more_than_the_share_of_all_or_of_one_source() -> None:
    groups = np.repeat([3, 5, 8], [100, 101, 99])
    sources = np.repeat([0, 1, 0], [100, 101, 99])
    parts = [large_groups(groups[:100], sources[:100]), large_groups(groups[100:], sources[100:])]
    assert giant_clusters_of(parts, 10_100, {"a": 10_000, "b": 100}) == [GiantCluster(5, 101, 1.01, "b")]
    assert giant_clusters_of(parts, 10_099, {"a": 9_999, "b": 100}) == [
        GiantCluster(5, 101, 1.01, "b"),
        GiantCluster(3, 100, 100 / 9_999, "a"),
        GiantCluster(5, 101, 101 / 10_099, None),
    ]


def test_groups_without_sources_are_held_against_the_whole() -> None:
    found = large_groups(np.repeat([3, 5], [300, 100]))
    assert giant_clusters_of([found], 20_000) == [GiantCluster(3, 300, 0.015)]
    assert giant_clusters_of([found], 20_000, share=0.1) == []


def test_an_alarm_says_what_and_how_much_and_shows_a_text() -> None:
    assert str(GiantCluster(4, 1234, 0.5)) == "group 4 holds 1,234 documents, 50 % of all; are these duplicates?"
    assert str(GiantCluster(4, 200, 0.021, "web", "Log in")).endswith(
        "2.1 % of source 'web'; are these duplicates? 'Log in'"
    )
