"""The time left of a run shrinks, and its percentage grows, between any two lines that a person sees."""

from __future__ import annotations

import io
import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcurate import DaskExecutor, DocumentBatch, InlineExecutor, JsonlReader, Pipeline, processing_stage
from dcurate.core.stage import Stage
from dcurate.events import Compiled, Compiling, RunEnded, RunStarted, SlotsChanged, SourceListed, SplitDone, TaskDone
from dcurate.runs.state import RunState
from dcurate.runs.time_left import RAISED, RAISED_S
from dcurate.ui import JsonProgress

pytestmark = pytest.mark.cluster

START = RunStarted(100.0, "7f3a", "demo", "streaming", (("read", "write"),))


@given(st.lists(st.floats(0.01, 1000.0), min_size=1, max_size=40), st.integers(1, 8))
@example([1.0, 1000.0, 1000.0], 1)
@example([60.0] * 10, 2)
def test_the_time_left_rises_at_the_end_of_a_split_alone_and_only_if_the_estimate_was_wrong(
    durations: list[float], workers: int
) -> None:
    state = RunState()
    for event in (START, SourceListed(100.0, len(durations), 0), SlotsChanged(100.0, "read-write", "a", 1, 1, 0.1)):
        state.apply(event)
    free = [100.0] * workers
    ends = []
    for seconds in durations:
        free.sort()
        free[0] += seconds
        ends.append(free[0])
    last, share = None, 0.0
    for number, end in enumerate(sorted(ends), start=1):
        begin = 100.0 if number == 1 else sorted(ends)[number - 2]
        for step in range(5):
            left = state.remaining(begin + (end - begin) * step / 4)
            if last is not None:
                assert left is not None
                assert left <= last
            last = left
        state.apply(SplitDone(end, f"part-{number}", ()))
        left = state.remaining(end)
        assert left is not None
        if last is not None and left > last:
            assert left > max(RAISED * last, last + RAISED_S)
        done = (state.splits_before + state.splits_done) / (state.splits or 1)
        assert done > share
        last, share = left, done
    assert (last, share) == (0.0, 1.0)


@given(
    st.lists(st.lists(st.floats(0.01, 1000.0), min_size=1, max_size=9), min_size=1, max_size=8),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_over_rounds_the_share_never_shrinks_and_the_time_left_rises_only_if_the_estimate_was_wrong(
    rounds: list[list[float]], unknown: list[int]
) -> None:
    state, now, share = RunState(), 100.0, 0.0
    last: float | None = None

    def look(may_rise: bool) -> None:
        nonlocal last, share
        left = state.run_remaining(now)
        if last is not None:
            assert left is not None
            assert left <= last + 1e-6 or (may_rise and left > max(RAISED * last, last + RAISED_S))
        assert share <= state.share <= 1.0
        last, share = left, state.share

    for phase, durations in enumerate(rounds):
        # How many rounds follow is not always known from the beginning.
        phases = max(phase + 1, len(rounds) - unknown[phase])
        state.apply(RunStarted(now, "7f3a", "demo", "streaming", (("read", "write"),), phase=phase, phases=phases))
        look(may_rise=False)
        state.apply(SourceListed(now, len(durations), 0))
        state.apply(SlotsChanged(now, "read-write", "a", 1, 1, 0.1))
        for number, seconds in enumerate(durations):
            for _ in range(4):
                now += seconds / 4
                look(may_rise=False)
            state.apply(SplitDone(now, f"part-{number}", ()))
            look(may_rise=True)
        state.apply(RunEnded(now, "", last=phase + 1 == len(rounds)))
        look(may_rise=True)
    assert state.share == 1.0


def test_the_share_grows_before_the_first_split_has_ended() -> None:
    state = RunState()
    state.apply(RunStarted(100.0, "7f3a", "demo", "streaming", (("read",), ("clean",), ("write",))))
    state.apply(SourceListed(100.0, 1, 0))
    shares = []
    for operator in ("read", "clean"):
        state.apply(TaskDone(101.0, operator, "a", (), 1.0))
        shares.append(state.share)
    assert 0 < shares[0] < shares[1] < 1
    state.apply(SplitDone(102.0, "part-0", ()))
    assert state.share == 1.0


def test_what_comes_before_the_first_slot_is_not_part_of_the_pace() -> None:
    state = RunState()
    for event in (
        START,
        Compiling(100.0, 9, 30.0),
        SourceListed(100.5, 10, 0),
        Compiled(140.0, 9, 40.0),
        SlotsChanged(150.0, "read-write", "a", 1, 1, 8.0),
        SplitDone(152.0, "part-0", ()),
    ):
        state.apply(event)
    assert state.remaining(152.0) == 18.0
    assert state.working(152.0) == 2.0
    assert state.snapshot(152.0).working == 12.0
    state.apply(SlotsChanged(160.0, "read-write", "b", 1, 2, 8.0))
    assert state.working(162.0) == 12.0


@processing_stage(name="slow")
def slow(batch: DocumentBatch) -> DocumentBatch:
    time.sleep(0.15)
    return batch


def lines_of_a_run(folder: Path, executor: InlineExecutor | DaskExecutor) -> list[dict[str, float | None]]:
    (folder / "in").mkdir()
    for number in range(30):
        (folder / "in" / f"{number:02}.jsonl").write_text('{"text": "a"}\n')
    file = io.StringIO()
    stages: list[Stage] = [JsonlReader(str(folder / "in"), files_per_partition=1), slow]
    Pipeline("demo", stages=stages).run(executor, observers=[JsonProgress(file, interval_s=0.05)])
    return [json.loads(line) for line in file.getvalue().splitlines()]


def check_lines(lines: list[dict[str, float | None]]) -> None:
    known = [line for line in lines if line["splits"]]
    left = [line["seconds_left"] for line in known if line["seconds_left"] is not None]
    assert len(left) >= 10
    for before, after in pairwise(left):
        assert after <= before or after > max(RAISED * before, before + RAISED_S)
    shares = [(line["splits_done"] or 0) / line["splits"] for line in known if line["splits"]]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert known[0]["splits_done"] == 0  # the source is listed before the first split is done


def test_the_lines_of_a_run_in_this_process_keep_the_law(tmp_path: Path) -> None:
    check_lines(lines_of_a_run(tmp_path, InlineExecutor()))


def test_the_lines_of_a_run_on_workers_keep_the_law(tmp_path: Path) -> None:
    check_lines(lines_of_a_run(tmp_path, DaskExecutor()))
