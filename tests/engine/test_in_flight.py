from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.in_flight import LEAST, MOST, InFlightLimit


@given(slots=st.integers(1, 100), seconds=st.lists(st.floats(0, 1000), max_size=20))
def test_a_window_holds_between_two_and_many_tasks_a_slot(slots: int, seconds: list[float]) -> None:
    window = InFlightLimit(slots)
    for one in seconds:
        window.took(one)
    assert LEAST * slots <= window.size <= MOST * slots
    assert 0 <= window.low_water < window.size


def test_more_wait_at_slots_where_durations_vary() -> None:
    even, uneven = InFlightLimit(slots=4), InFlightLimit(slots=4)
    for _ in range(32):
        even.took(0.6)
        even.took(0.6)
        uneven.took(0.1)
        uneven.took(1.1)
    assert (even.size, uneven.size) == (8, 10)


def test_long_tasks_are_not_queued_up() -> None:
    window = InFlightLimit(slots=4)
    window.took(10.0)
    assert window.size == 8


def test_an_operator_that_must_not_queue_has_one_task_a_slot() -> None:
    window = InFlightLimit(slots=3, most=1)
    window.took(0.001)
    assert window.size == 3


def test_without_slots_nothing_is_sent() -> None:
    assert InFlightLimit().size == 0
