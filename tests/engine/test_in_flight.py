from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.flow import MAX_PER_SLOT, MIN_PER_SLOT, InFlightLimit


@given(slots=st.integers(1, 100), seconds=st.lists(st.floats(0, 1000), max_size=20))
def test_a_window_holds_between_two_and_many_tasks_a_slot(slots: int, seconds: list[float]) -> None:
    limit = InFlightLimit(slots)
    for one in seconds:
        limit.record(one)
    assert MIN_PER_SLOT * slots <= limit.size <= MAX_PER_SLOT * slots
    assert 0 <= limit.refill_threshold < limit.size


def test_more_wait_at_slots_where_durations_vary() -> None:
    even, uneven = InFlightLimit(slots=4), InFlightLimit(slots=4)
    for _ in range(32):
        even.record(0.6)
        even.record(0.6)
        uneven.record(0.1)
        uneven.record(1.1)
    assert (even.size, uneven.size) == (8, 10)


def test_long_tasks_are_not_queued_up() -> None:
    limit = InFlightLimit(slots=4)
    limit.record(10.0)
    assert limit.size == 8


def test_an_operator_that_must_not_queue_has_one_task_a_slot() -> None:
    limit = InFlightLimit(slots=3, most=1)
    limit.record(0.001)
    assert limit.size == 3


def test_without_slots_nothing_is_sent() -> None:
    assert InFlightLimit().size == 0
