import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dcurate.events import (
    GpuSample,
    HostSample,
    HostsSampled,
    OperatorSample,
    RunEnded,
    RunStarted,
    Sampled,
    StageStats,
    TaskDone,
    WorkerLost,
)
from dcurate.runs.history import NOTES, POINTS, History
from dcurate.runs.snapshot import RunSnapshot

START = RunStarted(100.0, "7f3a", "demo", "streaming", (("read",), ("write",)))
HOST = HostSample("a", 2, 2, 1.5, 100, 1000, 0, (GpuSample("GPU-1", 10, 80, 0.5), GpuSample("GPU-2", 30, 80, 1.0)))


def sampled(now):
    return Sampled(now, (OperatorSample("read", 1, 1, 0, 0), OperatorSample("write", 1, 0, 2, 512)), 512, 4096)


def fed(*events):
    history = History()
    for event in events:
        history.on_event(event)
    return history


def test_it_says_how_the_run_stood_and_what_the_machines_were():
    history = fed(START, HostsSampled(100.5, (HOST,)), sampled(101.0), RunEnded(103.0, ""))
    middle = history.points[1]
    assert (middle.time, middle.held_bytes, middle.cpu) == (101.0, 512, 1.5)
    assert (middle.memory, middle.memory_limit) == (100, 1000)
    assert (middle.gpu_memory, middle.gpu_memory_total, middle.gpu_busy) == (40, 160, 0.75)
    assert [(one.name, one.slots, one.waiting) for one in middle.operators] == [("read", 1, 0), ("write", 1, 2)]
    assert history.points[-1].time == 103.0


@given(st.integers(0, 3000), st.floats(0.01, 20))
def test_its_size_does_not_grow_with_the_run_and_no_part_of_it_is_left_out(samples, step):
    history = fed(
        START, *(sampled(100 + number * step) for number in range(samples)), RunEnded(100 + samples * step, "")
    )
    times = [point.time for point in history.points]
    assert len(times) <= POINTS
    assert times == sorted(times)
    assert times[-1] == 100 + samples * step
    assert max((b - a for a, b in pairwise(times)), default=0) <= 2 * max(history.interval_s, step) + step


def test_it_is_the_same_after_json():
    history = fed(
        START,
        HostsSampled(100.5, (HOST,)),
        sampled(101.0),
        TaskDone(101.5, "read", "part-0", (StageStats("read", rows_in=3, metrics={"tokens": 9.0}),), 0.2),
        WorkerLost(102.0, "tcp://a"),
        RunEnded(103.0, "it broke"),
    )
    again = History.from_dict(json.loads(json.dumps(history.to_dict())))
    assert again.snapshot() == history.snapshot()
    assert again.points == history.points
    assert [note.kind for note in again.notes] == ["lost", "error"]


def test_snapshots_of_another_process_make_the_same_history_as_its_events():
    events = [START, HostsSampled(100.5, (HOST,)), sampled(101.0), WorkerLost(102.0, "tcp://a"), RunEnded(103.0, "")]
    here, there = History(), History()
    for event in events:
        here.on_event(event)
        there.take(RunSnapshot.from_dict(json.loads(json.dumps(here.snapshot(event.time).to_dict()))))
    assert there.snapshot() == here.snapshot()
    assert there.notes == here.notes


def test_a_snapshot_that_comes_late_changes_nothing():
    history = fed(START)
    late, last = history.snapshot(101.0), history.snapshot(102.0)
    there = History()
    there.take(last)
    there.take(late)
    assert there.snapshot() == last


def test_the_first_notes_are_kept_and_all_are_counted():
    history = fed(START, *(WorkerLost(101.0 + number, f"tcp://{number}") for number in range(NOTES + 5)))
    assert (len(history.notes), history.snapshot(9999.0).notes) == (NOTES, NOTES + 5)
