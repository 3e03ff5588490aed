"""Documents that share a bucket are paired, and no bucket costs more than a constant number of pairs a document."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.groups.candidates import Candidates, candidate_pairs, pairs_once
from dcurate.groups.components import components
from tests.groups.graphs import Edge, columns, graphs

Row = tuple[int, int]

#: Contents of documents; two documents may have the same.
documents = st.lists(st.integers(0, 6), min_size=1, max_size=20)


def pairs(found: Candidates) -> list[Edge]:
    return list(zip(found.left.tolist(), found.right.tolist(), strict=True))


def paired(rows: list[Row], contents: list[int], far: int = 1, **options: int) -> Candidates:
    """The pairs of rows of key and document."""
    keys, docs = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return candidate_pairs(keys.astype(np.uint64), docs * far, np.array(contents, np.uint32)[docs], **options)


def expected(rows: list[Row], contents: list[int]) -> set[Edge]:
    """Of each bucket: copies with the first of them, and the first ones each with each."""
    found: set[Edge] = set()
    for key in {key for key, _ in rows}:
        bucket = sorted(doc for other, doc in rows if other == key)
        firsts: dict[int, int] = {}
        for doc in bucket:
            first = firsts.setdefault(contents[doc], doc)
            found |= {(first, doc)} - {(doc, doc)}
        found |= set(combinations(firsts.values(), 2))
    return found


@settings(deadline=None)
@given(documents, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 19)), min_size=1, unique=True, max_size=60))
def test_first_copies_are_paired_each_with_each_and_others_with_their_first(
    contents: list[int], rows: list[Row]
) -> None:
    rows = sorted({(key, doc % len(contents)) for key, doc in rows})
    found = paired(rows, contents)
    assert pairs(found) == sorted(expected(rows, contents))
    assert found.short == 0


@settings(deadline=None)
@given(documents, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 19)), min_size=1, unique=True, max_size=60))
def test_numbers_that_are_far_apart_are_paired_as_near_ones(contents: list[int], rows: list[Row]) -> None:
    rows = sorted({(key, doc % len(contents)) for key, doc in rows})
    near, far = paired(rows, contents), paired(rows, contents, far=2**45)
    assert [(left * 2**45, right * 2**45) for left, right in pairs(near)] == pairs(far)


def test_no_rows_have_no_pairs() -> None:
    found = candidate_pairs(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.uint32))
    assert pairs(found) == []


def test_a_million_copies_in_each_of_four_buckets_are_a_pair_each() -> None:
    size = 1_000_000
    keys, docs = np.repeat(np.arange(4, dtype=np.uint64), size), np.tile(np.arange(size), 4)
    found = candidate_pairs(keys, docs, np.zeros(4 * size, np.uint32))
    assert len(found.left) == size - 1
    assert not found.left.any()
    assert np.array_equal(found.right, np.arange(1, size))
    assert found.short == 0


def test_a_bucket_of_many_different_documents_costs_sixteen_pairs_each_and_stays_connected() -> None:
    size = 200_000
    found = candidate_pairs(np.zeros(size, np.uint64), np.arange(size), np.arange(size, dtype=np.uint32))
    assert len(found.left) == 8 * 7 // 2 + 8 * (size - 8) + 8 * (size - 8) - 8 * 9 // 2
    assert found.short == 1
    members, labels = components(found.left, found.right)
    assert len(members) == size
    assert not labels.any()


def test_a_bucket_is_cut_short_from_the_number_of_contents_on_that_was_asked_for() -> None:
    for size, count in ((20, 190), (21, 8 * 7 // 2 + 8 * 13 + 8 * 13 - 8 * 9 // 2)):
        found = paired([(3, doc) for doc in range(size)], list(range(size)), most_contents=20)
        assert (len(found.left), found.short) == (count, int(size > 20))


def test_pairs_of_a_cut_bucket_do_not_depend_on_the_buckets_beside_it() -> None:
    large = [(7, doc) for doc in range(100)]
    alone, beside = paired(large, list(range(100))), paired([*large, (3, 5), (3, 2), (9, 1)], list(range(100)))
    assert set(pairs(beside)) == set(pairs(alone)) | {(2, 5)}


def test_other_keys_give_other_followers_so_that_several_buckets_pair_more() -> None:
    counts = [
        len(paired([(key, doc) for key in range(keys) for doc in range(500)], list(range(500))).left)
        for keys in (1, 2, 4)
    ]
    assert counts[1] > 1.45 * counts[0]
    assert counts[2] > 2.2 * counts[0]


def test_as_many_pairs_as_need_several_turns_are_all_found_once() -> None:
    size = 2**20 + 3
    keys, docs = np.repeat(np.arange(size, dtype=np.uint64), 2), np.arange(2 * size)
    twice = candidate_pairs(
        np.concatenate([keys, keys + np.uint64(size)]), np.tile(docs, 2), np.tile(docs, 2).astype(np.uint32)
    )
    assert np.array_equal(twice.left, docs[::2])
    assert np.array_equal(twice.right, docs[1::2])


def test_of_cut_buckets_of_several_kinds_few_documents_meet_none_of_their_kind() -> None:
    kinds, size = 12, 6000
    for keys in (1, 3):
        found = paired([(key, doc) for key in range(keys) for doc in range(size)], list(range(size)))
        alike = (found.left % kinds == found.right % kinds) & (found.left >= 8)
        alone = size - 8 - len(np.union1d(found.left[alike], found.right[alike]))
        assert alone / size == pytest.approx((1 - 1 / kinds) ** (16 * keys), rel=0.1)


def test_fewer_contents_than_are_paired_with_all_cannot_be_asked_for() -> None:
    with pytest.raises(PipelineError, match="most_contents=7 must be at least 8"):
        paired([(1, 0)], [0], most_contents=7)


@settings(deadline=None)
@given(graphs)
def test_pairs_that_come_again_are_there_once(graph: list[Edge]) -> None:
    left, right = pairs_once(*columns(graph))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == sorted(set(graph))
