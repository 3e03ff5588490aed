"""How fast requests may go."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcurate import PipelineError
from dcurate.endpoints.rate_limit import FIRST_GUESS, Limits, RateLimiter, TokenBucket


@given(st.floats(0.5, 5000), st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_no_minute_has_more_requests_than_are_allowed(per_minute: float, waits: list[float]) -> None:
    bucket = TokenBucket(per_minute, max(1.0, per_minute / 60))
    now, taken = 0.0, []
    for wait in waits:
        now += wait
        for _ in range(200):
            seconds = bucket.take(1, now)
            if seconds:
                now += min(seconds, wait)  # some ask again before it is worth it
                continue
            taken.append(now)
            break
    for start in taken:
        assert sum(start <= when < start + 60 for when in taken) <= max(1, per_minute)


def test_whoever_waits_as_told_may_go() -> None:
    bucket = TokenBucket(6, 1)
    assert bucket.take(1, 0.0) == 0
    wait = bucket.take(1, 0.0)
    assert wait == pytest.approx(12)
    assert bucket.take(1, wait) == 0


def test_what_costs_more_than_the_bucket_holds_goes_when_it_is_full_and_is_paid_for_after() -> None:
    bucket = TokenBucket(600, 60)
    assert bucket.take(600, 0.0) == 0
    assert bucket.level == -540
    assert bucket.take(60, 0.0) == pytest.approx(600 / 9)


def test_tokens_that_an_answer_did_not_take_are_given_back() -> None:
    pace = RateLimiter(Limits(tokens_per_minute=10_000), clock=lambda: 0.0)
    seconds, cost = pace.wait(100)
    assert (seconds, cost) == (0.0, 100 + FIRST_GUESS)
    pace.settle(cost, 100, 10)
    assert pace._tokens is not None
    assert pace._tokens.level == 1000 - 110


def test_the_next_answer_is_taken_to_be_as_long_as_those_before() -> None:
    pace = RateLimiter(Limits(), clock=lambda: 0.0)
    for _ in range(100):
        pace.settle(0, 10, 40)
    assert pace.wait(0)[1] == pytest.approx(40, abs=1)


def test_a_pause_holds_all_requests() -> None:
    clock = iter([0.0, 1.0, 5.0])
    pace = RateLimiter(Limits(), clock=lambda: next(clock))
    pace.hold(3.0)
    assert pace.wait(1)[0] == 2.0
    assert pace.wait(1)[0] == 0.0


def test_turns_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    async def turns() -> list[int]:
        pace, order = RateLimiter(Limits(requests_per_minute=60_000)), []

        async def one(number: int) -> None:
            await pace.turn(1, 10)
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(1010)))
        return order

    assert asyncio.run(turns()) == list(range(1010))


def test_slots_share_the_limits() -> None:
    assert Limits(600, None).shared(4) == Limits(150, None)
    assert not Limits()


def test_limits_below_zero_are_refused() -> None:
    with pytest.raises(PipelineError, match="requests_per_minute=0 must be above zero"):
        Limits(0)
