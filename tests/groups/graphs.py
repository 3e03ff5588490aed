"""Graphs of documents and their properties, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st

from dcurate.kernels.layout import Ints

Edge = tuple[int, int]


def columns(edges: Iterable[Edge]) -> tuple[Ints, Ints]:
    """Edges as arrays of their left and right ends."""
    both = np.array(list(edges), np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def component_of(edges: Iterable[Edge]) -> dict[int, int]:
    """The smallest number of the component of each number that has an edge to another."""
    graph: dict[int, set[int]] = {}
    for left, right in edges:
        if left != right:
            graph.setdefault(left, set()).add(right)
            graph.setdefault(right, set()).add(left)
    found: dict[int, int] = {}
    for start in sorted(graph):
        waiting = [start]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found[number] = start
                waiting += graph[number]
    return found


#: Numbers near each other, so that edges meet, and far from each other.
numbers = st.one_of(st.integers(0, 20), st.integers(0, 20).map(lambda number: number * 2**40 + 3))
graphs = st.lists(st.tuples(numbers, numbers), max_size=40)
