import io
import json
import threading
import time

import pytest
from rich.console import Console

from dcurate.events import (
    Compiled,
    Compiling,
    Decided,
    OperatorSample,
    RunEnded,
    RunStarted,
    Sampled,
    SlotsChanged,
    SourceListed,
    SplitDone,
    StageStats,
    TaskDone,
    WorkerLost,
)
from dcurate.runs.state import RunState
from dcurate.ui import JsonProgress, Progress
from dcurate.ui.pace import Pace
from dcurate.ui.progress import SETTING_UP, live_view, progress_line

EVENTS = [
    RunStarted(100.0, "7f3a", "demo", "streaming", (("read", "clean"), ("write",))),
    SourceListed(100.1, splits=8, finished_before=2),
    SlotsChanged(100.2, "read-clean", "a", 2, 2, 0.1),
    TaskDone(
        101.0,
        "read-clean",
        "part-2",
        (StageStats("read", rows_in=1000, rows_out=990, bytes_in=4_000_000), StageStats("clean", rows_out=900)),
        0.25,
    ),
    TaskDone(101.5, "write", "part-2", (StageStats("write", rows_in=900, rows_out=900),), 0.1),
    SplitDone(101.6, "part-2", ("part-2.jsonl",)),
    SplitDone(101.7, "part-3", ()),
]


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def seen(state: RunState, *moments: float) -> Pace:
    pace = Pace()
    for moment in moments:
        pace.see(state.snapshot(moment))
    return pace


@pytest.fixture
def state():
    state = RunState()
    for event in EVENTS:
        state.apply(event)
    return state


def test_a_line_says_how_far_the_run_is(state):
    assert progress_line(state, seen(state, 102.0), 102.0) == (
        "demo: 2.0 s | 4 of 8 splits (50 %) | 1,000 rows in (500/s), 900 out (450/s) | 2.0 MB/s | 2.7 s left"
        " | tasks read to clean 1, write 1"
    )


def test_a_line_without_a_known_total_counts_splits_and_names_lost_workers():
    state = RunState()
    state.apply(RunStarted(100.0, "7f3a", "demo", "batch", (("read",),)))
    state.apply(SplitDone(101.0, "part-0", ()))
    state.apply(WorkerLost(102.0, "a"))
    assert (
        progress_line(state, seen(state, 103.0), 103.0)
        == "demo: 3.0 s | 1 split | 0 rows in (0/s), 0 out (0/s) | 0 bytes/s | 1 worker lost"
    )


def test_rates_are_those_of_the_last_seconds_and_hold_when_all_is_read(state: RunState) -> None:
    pace = Pace()
    state.apply(TaskDone(102.0, "read-clean", "part-4", (StageStats("read", rows_in=8000, rows_out=8000),), 1.0))
    for second in range(120, 160):
        state.apply(TaskDone(second, "write", "part-4", (StageStats("write", rows_in=60, rows_out=60),), 1.0))
        pace.see(state.snapshot(second))
    assert "9,000 rows in (0/s), 3,300 out (60/s)" in progress_line(state, pace, 160.0)


def test_rounds_of_an_exchange_have_no_documents_to_tell_of() -> None:
    state = RunState()
    stages, owners = ("read", "dedup", "write"), {"bands": "dedup", "pairs": "dedup"}
    state.apply(RunStarted(100.0, "7f3a", "demo", "streaming", (("read",), ("bands",)), 0, stages, owners))
    state.apply(TaskDone(101.0, "read", "part-0", (StageStats("read", rows_in=10, rows_out=10),), 1.0))
    state.apply(TaskDone(101.0, "bands", "part-0", (StageStats("bands", rows_in=10, rows_out=90),), 1.0))
    assert "| 10 rows in (5/s) |" in progress_line(state, seen(state, 102.0), 102.0)
    state.apply(RunEnded(102.0, "", last=False))
    state.apply(RunStarted(102.0, "7f3a", "demo", "streaming", (("bands",), ("pairs",)), 1, stages, owners))
    state.apply(TaskDone(103.0, "bands", "0", (StageStats("bands", rows_in=90, rows_out=90),), 1.0))
    assert "rows" not in progress_line(state, seen(state, 104.0), 104.0)
    state.apply(RunEnded(104.0, "", last=False))
    state.apply(RunStarted(104.0, "7f3a", "demo", "streaming", (("pairs", "dedup"), ("write",)), 2, stages, owners))
    done = (StageStats("pairs", rows_in=10, rows_out=10), StageStats("dedup", rows_in=10, rows_out=9, dropped={"d": 1}))
    state.apply(TaskDone(105.0, "pairs-dedup", "part-0", done, 1.0))
    state.apply(TaskDone(105.0, "write", "part-0", (StageStats("write", rows_in=9, rows_out=9),), 1.0))
    assert "| 9 out (" in progress_line(state, seen(state, 106.0), 106.0)


def test_the_live_view_has_a_bar_a_line_per_operator_and_the_latest_notes(state):
    state.apply(
        Sampled(
            101.8,
            (OperatorSample("read-clean", 2, 1, 3, 0), OperatorSample("write", 0, 0, 12, 5_000_000)),
            5_000_000,
            80_000_000,
        )
    )
    state.apply(Decided(101.9, "write", 1, 2, "write is what others wait for: 2 slots"))
    pace = Pace()
    pace.see(state.snapshot(102.2))
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(live_view(state, pace, 102.0))
    lines = [line.rstrip() for line in printed(console).splitlines()]
    assert lines == [
        f"demo  {'━' * 20}{' ' * 20}  4 of 8 splits (50 %)  2.0 s, 2.7 s left",
        "  1,000 rows in (455/s), 900 out (409/s)   1.8 MB/s",
        "                 slots  busy  batches  a second    each         wait for it",
        "  read to clean      2   6 %        1       0.5  250 ms",
        "  write              0              1       0.5  100 ms  12 batches, 5.0 MB",
        "  5.0 MB between operators, of at most 80.0 MB",
        "  write is what others wait for: 2 slots",
    ]


def test_lines_of_json_say_how_the_run_stands_and_what_is_new():
    file = io.StringIO()
    progress = JsonProgress(file, interval_s=1.0)
    decided = Decided(101.2, "write", 1, 2, "write is what others wait for: 2 slots")
    for event in [*EVENTS[:3], decided, *EVENTS[3:], RunEnded(103.0, "stage 'write' failed")]:
        progress.on_event(event)
    first, last = map(json.loads, file.getvalue().splitlines())
    assert (first["state"], first["rows_in"], first["notes"]) == (
        "running",
        0,
        ["write is what others wait for: 2 slots"],
    )
    assert (last["state"], last["error"]) == ("stopped", "stage 'write' failed")
    assert (last["rows_in"], last["rows_out"], last["splits_done"], last["splits"]) == (1000, 900, 4, 8)
    assert last["notes"] == ["stage 'write' failed"]
    assert last["operators"]["read-clean"]["calls"] == 1


def test_off_a_terminal_lines_come_by_the_clock_and_one_at_the_end():
    console = Console(file=io.StringIO())
    progress = Progress(console, interval_s=0.05)
    began = time.monotonic()
    for event in EVENTS:
        progress.on_event(event)
    told = len(printed(console).splitlines())
    while len(printed(console).splitlines()) < told + 3:
        assert time.monotonic() < began + 60, "no lines come"
        time.sleep(0.01)
    progress.on_event(RunEnded(102.0, ""))
    lines = printed(console).splitlines()
    assert len(lines) <= (time.monotonic() - began) / 0.05 + 1
    assert all(line.startswith("demo: ") for line in lines)
    assert all("4 of 8 splits (50 %)" in line for line in lines[told + 1 :])  # one was made while events came
    assert (
        lines[-1]
        == "demo: read to write done | 2.0 s | 4 of 8 splits (50 %) | 1,000 rows in, 900 out | 556 rows/s | 2.2 MB/s"
    )


def test_on_a_terminal_the_display_leaves_one_line_behind():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Progress(console) as progress:
        for event in [*EVENTS, RunEnded(102.0, "")]:
            progress.on_event(event)
    shown = printed(console)
    assert "━━━" in shown
    assert shown.splitlines()[-1].endswith(
        "demo: read to write done | 2.0 s | 4 of 8 splits (50 %) | 1,000 rows in, 900 out | 556 rows/s | 2.2 MB/s"
    )


def test_a_notebook_gets_plain_lines():
    console = Console(file=io.StringIO(), force_jupyter=True, force_terminal=True)
    with Progress(console) as progress:
        for event in [*EVENTS, RunEnded(102.0, "")]:
            progress.on_event(event)
    assert printed(console) == (
        "demo: read to write done | 2.0 s | 4 of 8 splits (50 %) | 1,000 rows in, 900 out | 556 rows/s | 2.2 MB/s\n"
    )


def test_a_run_that_failed_is_stopped():
    console = Console(file=io.StringIO())
    progress = Progress(console)
    progress.on_event(EVENTS[0])
    progress.on_event(RunEnded(101.0, "stage 'clean' failed"))
    assert printed(console).startswith("demo: read to write stopped | 1.0 s")


def test_no_thread_outlives_a_run_that_never_said_that_it_ended():
    with Progress(Console(file=io.StringIO())) as progress:
        progress.on_event(EVENTS[0])
        assert "dcurate-progress" in [thread.name for thread in threading.enumerate()]
    assert "dcurate-progress" not in [thread.name for thread in threading.enumerate()]


def test_one_observer_may_follow_several_runs():
    console = Console(file=io.StringIO())
    progress = Progress(console)
    for _ in range(2):
        for event in [*EVENTS, RunEnded(102.0, "")]:
            progress.on_event(event)
    assert [line.count("1,000 rows in") for line in printed(console).splitlines()] == [1, 1]


def test_before_the_first_slot_it_says_that_things_are_set_up():
    state = RunState()
    state.apply(RunStarted(100.0, "r1", "demo", "streaming", (("read", "write"),)))
    assert progress_line(state, seen(state, 103.0), 103.0) == f"demo: 3.0 s | {SETTING_UP}"
    state.apply(SlotsChanged(103.0, "read-write", "tcp://a", 1, 1, 2.5))
    assert SETTING_UP not in progress_line(state, seen(state, 103.0), 103.0)


def test_what_is_compiled_is_counted_down_and_then_noted():
    state, pace = RunState(), Pace()
    state.apply(EVENTS[0])
    state.apply(Compiling(100.5, kernels=14, seconds=20.0))
    assert progress_line(state, pace, 103.5) == (
        "demo: 3.5 s | compiling 14 kernels, about 17 s left, once on this machine"
    )
    page = io.StringIO()
    Console(file=page, width=100).print(live_view(state, pace, 103.5))
    assert "compiling 14 kernels, about 17 s left" in page.getvalue()
    state.apply(Compiled(121.0, kernels=14, seconds=20.4))
    assert SETTING_UP in progress_line(state, pace, 121.0)
    assert [note.text for note in state.latest] == ["compiled 14 kernels in 20 s, once on this machine"]
