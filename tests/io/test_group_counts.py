"""Counts by name are the same however few names are held in memory."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dcurate.io.group_counts import Count, GroupCounts

ADDED = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "z", "ä", ""]), st.integers(0, 2**40)))


@given(added=ADDED, held=st.integers(1, 4))
def test_counts_do_not_depend_on_how_many_names_are_held(added: list[tuple[str, str, int]], held: int) -> None:
    rows, nbytes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with GroupCounts(held) as counts:
        for kind, name, size in added:
            counts.add(kind, name, 1, size)
            rows[kind, name] += 1
            nbytes[kind, name] += size
        for kind in "ab":
            wanted = [Count(name, rows[kind, name], nbytes[kind, name]) for of, name in rows if of == kind]
            wanted.sort(key=lambda count: (-count.nbytes, -count.rows, count.name))
            assert list(counts.largest(kind)) == wanted
            assert list(counts.largest(kind, 2)) == wanted[:2]
            assert counts.names(kind) == len(wanted)
            assert counts.total(kind)[1:] == (
                sum(count.rows for count in wanted),
                sum(count.nbytes for count in wanted),
            )
        assert counts.kinds() == sorted({kind for kind, _, _ in added})
