"""What the benchmark of shares counts."""

from __future__ import annotations

import pytest

from benchmarks.jobs_shares import CASES, HOSTS, WORKERS, jain, seconds_within
from benchmarks.sleeping import DiaryLine


def test_jains_index_is_1_only_for_equal_parts() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([4.0, 4.0, 4.0, 3.0]) < 0.99


def test_calls_count_for_what_lies_in_the_window() -> None:
    calls = [DiaryLine("call", number, begin, begin + 2.0, 2.0) for number, begin in enumerate((0.0, 4.0, 9.0))]
    assert seconds_within(calls, 1.0, 10.0) == 1.0 + 2.0 + 1.0


def test_whole_threads_can_be_divided_within_the_goal_in_every_case() -> None:
    for case in CASES:
        fair = [HOSTS * WORKERS * share / sum(case.shares) for share in case.shares]
        assert jain([int(part) / share for part, share in zip(fair, case.shares, strict=True)]) >= 0.99
