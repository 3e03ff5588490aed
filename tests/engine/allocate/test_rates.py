"""Estimates of rates: right on the mean, blind to heavy tails, awake to drifts."""

import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.allocate.rates import MOST_CALLS, Rate, Ratio, Setup

durations = st.lists(st.tuples(st.floats(1e-3, 1e3), st.integers(1, 50)), min_size=1, max_size=15)


def lognormal(seed: int, cv: float, mean: float = 1.0) -> Iterator[float]:
    """Durations with this mean and cv, for ever."""
    order = random.Random(seed)
    variance = math.log(1 + cv * cv)
    while True:
        yield mean * math.exp(order.gauss(-variance / 2, math.sqrt(variance)))


def take(rate: Rate, seconds: Iterator[float], calls: int) -> Rate:
    for _ in range(calls):
        rate.record(next(seconds))
    return rate


def calls_until_noticed(rate: Rate, seconds: Iterator[float]) -> int:
    changes, calls = rate.changes, 0
    while rate.changes == changes:
        rate.record(next(seconds))
        calls += 1
    return calls


def test_nothing_is_known_before_the_first_call() -> None:
    rate = Rate()
    assert rate.seconds is None
    assert rate.error == math.inf
    assert rate.samples == 0


@given(durations)
def test_seconds_an_item_are_all_seconds_by_all_items_while_nothing_changes(calls: list[tuple[float, int]]) -> None:
    rate = Rate()
    for seconds, items in calls:
        rate.record(seconds, items)
    if not rate.changes:
        assert rate.samples == len(calls)
        assert rate.seconds == pytest.approx(sum(seconds for seconds, _ in calls) / sum(items for _, items in calls))


@given(st.lists(st.floats(0, 1e6), max_size=400), st.integers(1, 8))
def test_estimates_are_finite_whatever_comes(seconds: list[float], items: int) -> None:
    rate, ratio = Rate(), Ratio()
    for number, each in enumerate(seconds):
        rate.record(each, items)
        ratio.record(items, int(each) % 7)
        assert rate.seconds is not None
        assert 0 < rate.seconds < 2e6
        assert 0 <= rate.cv < math.inf
        assert 0 < rate.samples <= number + 1
        assert 0 <= ratio.value <= 7


@pytest.mark.parametrize("cv", [0.0, 0.3, 1.0, 2.5])
def test_steady_durations_are_never_taken_for_a_change_and_their_mean_is_met(cv: float) -> None:
    for seed in range(5):
        rate = take(Rate(), lognormal(seed, cv), 3000)
        assert rate.changes == 0
        assert rate.seconds == pytest.approx(1.0, rel=max(1e-9, 4 * cv / math.sqrt(3000)))
        assert rate.cv == pytest.approx(max(cv, 0.01), rel=0.4)


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
@pytest.mark.parametrize(("cv", "within"), [(0.0, 16), (0.3, 16), (1.0, 80), (2.5, 160)])
def test_a_drift_by_three_is_noticed_within_twenty_samples_a_slot_of_eight(
    cv: float, within: int, factor: float
) -> None:
    for seed in range(5):
        rate = take(Rate(), lognormal(seed, cv), 1000)
        after = lognormal(seed + 100, cv, factor)
        assert calls_until_noticed(rate, after) <= within
        take(rate, after, 1000)
        assert rate.samples < 1200
        assert rate.seconds == pytest.approx(factor, rel=max(0.02, 4 * cv / math.sqrt(1000)))


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5])
def test_calls_of_many_slots_that_begin_together_are_no_drift_because_the_short_ones_end_first(cv: float) -> None:
    seconds, rate, slots = lognormal(0, cv), Rate(), 200
    for _ in range(40):
        for took in sorted(next(seconds) for _ in range(slots)):
            rate.record(took, slots=slots)
    assert rate.changes == 0


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_but_a_drift_of_all_slots_is_noticed_within_twenty_samples_of_each(factor: float) -> None:
    before, after, rate, slots = lognormal(0, 0.5), lognormal(1, 0.5, factor), Rate(), 40
    for _ in range(40 * slots):
        rate.record(next(before), slots=slots)
    for _ in range(20 * slots):
        rate.record(next(after), slots=slots)
    assert rate.changes >= 1
    assert rate.seconds == pytest.approx(factor, rel=0.1)


def test_a_slow_first_call_is_forgotten_soon() -> None:
    rate = Rate()
    for seconds in (10.0, 0.1, 0.1, 0.1, 0.1):
        rate.record(seconds)
    assert rate.seconds == pytest.approx(0.1)


def test_a_creeping_change_is_followed() -> None:
    rate = Rate()
    for call in range(4 * MOST_CALLS):
        rate.record(1.0 + call / MOST_CALLS)
    assert rate.samples <= 1.1 * MOST_CALLS
    assert rate.seconds is not None
    assert rate.seconds > 4.0


def test_few_samples_of_a_heavy_tail_are_not_trusted() -> None:
    hidden = [take(Rate(), lognormal(seed, 2.5), 8).error for seed in range(50)]
    assert sum(error > 0.3 for error in hidden) >= 45


def test_even_samples_are_soon_trusted() -> None:
    assert take(Rate(), lognormal(0, 0.0), 100).error < 0.01


def test_the_error_shrinks_with_the_root_of_the_samples() -> None:
    errors = [take(Rate(), lognormal(0, 1.0), calls).error for calls in (400, 1600)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.2)


def test_a_remembered_rate_counts_until_it_is_contradicted() -> None:
    rate = Rate(prior=1.0)
    assert rate.seconds == 1.0
    assert rate.cached
    assert rate.error == pytest.approx(0.5 / math.sqrt(3))
    for _ in range(3):
        rate.record(1.1)
    assert rate.seconds == pytest.approx(1.05)
    for _ in range(20):
        rate.record(5.0)
    assert not rate.cached
    assert rate.seconds == pytest.approx(5.0)  # type: ignore[unreachable]


def test_a_remembered_rate_is_given_up_when_there_are_enough_samples() -> None:
    rate = take(Rate(prior=1.0), lognormal(3, 0.0), 30)
    assert not rate.cached


def test_ratio_is_outputs_by_inputs() -> None:
    ratio = Ratio()
    for inputs, outputs in ((1, 0), (4, 2), (5, 1)):
        ratio.record(inputs, outputs)
    assert ratio.value == pytest.approx(0.3)
    assert ratio.samples == 3


def test_ratio_notices_that_more_is_filtered_than_before() -> None:
    order, ratio = random.Random(0), Ratio()
    for _ in range(1000):
        ratio.record(1, order.random() < 0.9)
    for _ in range(100):
        ratio.record(1, order.random() < 0.2)
    assert ratio.value == pytest.approx(0.2, abs=0.15)
    assert ratio.error < 0.4


def test_a_remembered_ratio_fades() -> None:
    ratio = Ratio(prior=0.5)
    assert ratio.value == 0.5
    for _ in range(3):
        ratio.record(1, 1)
    assert ratio.value == pytest.approx(0.75)
    for _ in range(30):
        ratio.record(1, 1)
    assert ratio.value == 1.0


def test_setup_is_the_mean_of_what_was_seen_else_what_is_remembered() -> None:
    assert Setup().seconds is None
    setup = Setup(prior=9.0)
    assert setup.seconds == 9.0
    setup.record(2.0)
    setup.record(4.0)
    assert setup.seconds == 3.0


# Disturbances


def calls(rate: Rate, seconds: float, number: int = 30) -> None:
    for place in range(number):
        rate.record(seconds * (1.02 if place % 2 else 0.98))


def test_a_change_for_good_is_followed_and_one_that_goes_back_is_a_disturbance() -> None:
    rate = Rate()
    calls(rate, 1.0)
    calls(rate, 1.5)
    assert rate.seconds == pytest.approx(1.5, rel=0.02)
    assert (rate.shifts, rate.wobble) == (1, 0.0)
    calls(rate, 1.1)
    assert rate.seconds == pytest.approx(1.2, rel=0.02)
    assert rate.shifts == 1
    assert 0.05 < rate.wobble < 0.15
    calls(rate, 4.0)
    assert rate.seconds == pytest.approx(4.0, rel=0.02)
    assert (rate.shifts, rate.wobble) == (2, 0.0)


def test_a_period_that_lasts_ends_a_disturbance() -> None:
    rate = Rate()
    for seconds in (1.0, 1.5, 1.0):
        calls(rate, seconds)
    assert rate.wobble > 0
    calls(rate, 1.0, 70)
    assert rate.wobble == 0
    assert rate.seconds == pytest.approx(1.0, rel=0.02)


def test_what_was_long_before_a_change_is_no_disturbance() -> None:
    rate = Rate()
    for seconds in (1.0, 1.5, 1.0):
        calls(rate, seconds, 100)
    assert rate.seconds == pytest.approx(1.0, rel=0.02)
    assert (rate.shifts, rate.wobble) == (2, 0.0)
