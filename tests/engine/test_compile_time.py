from hypothesis import given
from hypothesis import strategies as st

from dcurate.engine.compile_time import CompileTime


@given(st.lists(st.floats(0.1, 20.0), min_size=1, max_size=12), st.integers(1, 4), st.floats(1.0, 8.0))
def test_after_the_first_group_the_estimate_is_right_on_a_machine_that_is_slower_all_the_time(
    groups: list[float], workers: int, slower: float
) -> None:
    groups = sorted(groups, reverse=True)
    estimate = CompileTime(groups, workers, scale=1.0)
    free, ends = dict.fromkeys(range(workers), 0.0), []
    for number, seconds in enumerate(groups):
        worker = min(free, key=lambda worker: (free[worker], worker))
        free[worker] += seconds * slower
        ends.append((free[worker], number))
    end = max(ends)[0]
    for at, number in sorted(ends):
        estimate.done(number, at)
        left = end - at
        assert left / 2 - 1e-6 <= estimate.left(at) <= left + 1e-6  # within what dividing groups among workers may cost
    assert estimate.left(end) == 0.0
