from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcurate.kernels.longest_lines import longest_lines

TEXTS = st.lists(st.sampled_from(["\n", "a", "é", "中", "plain words ", "\r", "\n\n"]), max_size=60).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 4))
def test_the_length_is_that_of_the_so_many_th_longest_line(texts, number):
    offsets = np.cumsum([0, *(len(text.encode()) for text in texts)])
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    rows = np.arange(len(texts))[::-1].copy()
    longest = [heapq.nlargest(number, map(len, text.split("\n"))) for text in reversed(texts)]
    expected = [found[-1] if len(found) == number else 0 for found in longest]
    assert longest_lines(offsets, data, rows, number).tolist() == expected
