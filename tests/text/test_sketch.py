from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcurate.text.sketch import NumberSketch, TextSketch, histogram

floats = st.floats(allow_nan=False, width=64) | st.floats(0, 1) | st.integers(0, 300).map(float)


def sketch_of(values: Any) -> NumberSketch:
    sketch = NumberSketch()
    sketch.add(np.array(values))
    return sketch


@settings(deadline=None)
@given(st.lists(floats, min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_the_exact_one_or_at_most_half_a_percent_larger(values: list[float], level: float) -> None:
    exact = sorted(values)[max(1, math.ceil(level * len(values) - 1e-9)) - 1]
    found = sketch_of(values).quantile(level)
    assert found == exact or found >= exact - 1e-8 * abs(exact)
    assert found == exact or found <= exact + 0.0051 * abs(exact)


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=60), st.floats(0, 1))
def test_small_whole_numbers_are_exact(values: list[int], level: float) -> None:
    sketch = sketch_of(values)
    assert sketch.quantile(level) == sorted(values)[max(1, math.ceil(level * len(values) - 1e-9)) - 1]
    assert (sketch.total, sketch.least, sketch.most) == (sum(values), min(values), max(values))


@settings(deadline=None)
@given(st.lists(st.lists(floats | st.just(math.nan), max_size=12), max_size=6), st.randoms())
def test_sketches_add_up_in_any_order(parts: list[list[float]], draw: Any) -> None:
    whole = sketch_of([value for part in parts for value in part] or np.zeros(0))
    sketches = [sketch_of(part or np.zeros(0)) for part in parts]
    draw.shuffle(sketches)
    merged = NumberSketch()
    for sketch in sketches:
        merged.merge(sketch)
    assert merged == whole
    assert merged.count + merged.missing == sum(map(len, parts))


@settings(deadline=None)
@given(st.lists(floats, max_size=60), st.lists(floats, max_size=20))
@example([], [0.0, 1.7976931348622103e308])
@example([], [1.7964479161491737e308, float("inf")])  # whose bucket ends beyond the largest double
def test_every_number_is_in_one_bar_of_the_histogram(kept: list[float], dropped: list[float]) -> None:
    bars = histogram(sketch_of(kept or np.zeros(0)), sketch_of(dropped or np.zeros(0)))
    finite = [value for value in kept + dropped if math.isfinite(value)]
    assert sum(bar.count for bar in bars) == len(finite)
    assert sum(bar.dropped for bar in bars) == sum(map(math.isfinite, dropped))
    assert all(left.high == right.low for left, right in pairwise(bars))
    assert len(bars) <= 42


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=5), st.integers(1, 60))
def test_texts_are_counted_exactly_while_they_fit_and_by_a_sample_of_exact_counts_after(
    parts: list[list[int]], size: int
) -> None:
    merged = TextSketch(size=size)
    for part in parts:
        sketch = TextSketch(size=size)
        sketch.add(np.array(part, np.uint64))
        merged.merge(sketch)
    counts = Counter(value for part in parts for value in part)
    smallest = {value: counts[value] for value in sorted(counts)[:size]}
    assert dict(merged.counts) == smallest
    assert merged.exact == (len(counts) <= size)
    if smallest:
        assert merged.repeated == pytest.approx(1 - len(smallest) / sum(smallest.values()))
