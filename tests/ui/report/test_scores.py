import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.core.report import Threshold
from dcurate.ui.report.scores import bars_of, goes_by_factors, is_kept, is_whole, numbers_of
from dcurate.ui.svg import histogram

RATIOS = {number / 100: 1 for number in range(101)}


@given(
    st.dictionaries(
        st.one_of(st.floats(-1e15, 1e15), st.integers(0, 10**9).map(float), st.floats(0, 1)),
        st.integers(1, 10**6),
        min_size=1,
    ),
    st.lists(st.floats(-100, 100), max_size=2),
)
def test_every_score_stands_in_one_bar_and_bars_lie_side_by_side(numbers, cuts: list[float]) -> None:
    marks = [Threshold(f"<= {value}", value) for value in sorted(cuts)]
    bars = bars_of(numbers, marks)
    assert sum(bar.count for bar in bars) == sum(numbers.values())
    assert all(0 <= bar.dropped <= bar.count and bar.low < bar.high for bar in bars)
    assert [bar.high for bar in bars[:-1]] == [bar.low for bar in bars[1:]]
    assert len(bars) <= 120
    assert histogram(bars, whole=is_whole(numbers), across=goes_by_factors(numbers)).startswith("<svg")


def test_scores_of_two_digits_fall_evenly_into_bars() -> None:
    counts = [bar.count for bar in bars_of(RATIOS)]
    assert counts == [2] * 49 + [3]  # the last holds 1 itself


def test_scores_beyond_a_threshold_are_dropped_and_those_at_it_as_it_says() -> None:
    dropped = sum(bar.dropped for bar in bars_of(RATIOS, [Threshold(">= 0.3", 0.3)]))
    assert dropped == 30
    counts = {float(number): 1 for number in range(10)}
    assert sum(bar.dropped for bar in bars_of(counts, [Threshold("<= 5", 5.0)])) == 4
    assert sum(bar.dropped for bar in bars_of(counts, [Threshold("< 5", 5.0)])) == 5


@pytest.mark.parametrize(("value", "kept"), [(40, True), (50, True), (60, False), (1000, False), (1001, True)])
def test_a_filter_may_keep_both_ends(value: float, kept: bool) -> None:
    assert is_kept(value, [Threshold("<= 50", 50.0), Threshold("> 1000", 1000.0)]) is kept


def test_numbers_over_many_decades_are_shown_by_factors() -> None:
    words = {float(number): 1 for number in np.unique(np.geomspace(1, 90_000, 60).astype(int))}
    assert goes_by_factors(words)
    ratios = {round(bar.high / bar.low, 6) for bar in bars_of(words) if bar.low > 0}
    assert len(ratios) == 1


def test_what_is_infinite_or_a_label_is_in_no_bar() -> None:
    assert bars_of({float("inf"): 3}) == ()
    assert numbers_of({"en": 1, "5": 2}) is None
