from dcurate.core.events import (
    RunEnded,
    RunStarted,
    SlotsChanged,
    SourceListed,
    SplitDone,
    StageStats,
    TaskDone,
    WorkerLost,
)
from dcurate.observe.tally import Tally

START = RunStarted(100.0, "7f3a", "demo", "streaming", (("read", "clean"), ("write",)))


def counted(*events):
    tally = Tally()
    for event in events:
        tally.count(event)
    return tally


def task(operator, *stats, seconds=1.0):
    return TaskDone(101.0, operator, "part-0", stats, seconds)


def test_rows_are_counted_where_they_enter_and_where_they_leave():
    tally = counted(
        START,
        task("read-clean", StageStats("read", rows_in=10, rows_out=9, bytes_in=400), StageStats("clean", rows_out=8)),
        task("write", StageStats("write", rows_in=8, rows_out=8)),
        task("read-clean", StageStats("read", rows_in=5, bytes_in=100), StageStats("clean", rows_out=4)),
    )
    assert (tally.rows_in, tally.bytes_in, tally.rows_out) == (15, 500, 8)


def test_operators_stand_in_the_order_of_the_pipeline_whichever_works_first():
    tally = counted(START, task("write", seconds=3.0), task("write", seconds=1.0))
    assert list(tally.operators) == ["read-clean", "write"]
    assert (tally.operators["write"].tasks, tally.operators["write"].mean_seconds) == (2, 2.0)
    assert tally.operators["read-clean"].mean_seconds == 0.0


def test_the_slots_of_a_lost_worker_are_gone():
    tally = counted(
        START,
        SlotsChanged(101, "write", "a", 2, 2, 0.1),
        SlotsChanged(101, "write", "b", 3, 5, 0.1),
        WorkerLost(102, "b"),
    )
    assert tally.operators["write"].slots == {"a": 2}
    assert tally.workers_lost == 1


def test_the_time_left_follows_from_the_splits_of_this_run_alone():
    tally = counted(START, SourceListed(100.5, splits=10, finished_before=4))
    assert tally.remaining(110.0) is None
    tally.count(SplitDone(101, "part-4", ()))
    tally.count(SplitDone(102, "part-5", ()))
    assert tally.remaining(110.0) == 20.0


def test_the_clock_stops_with_the_run():
    tally = counted(START, RunEnded(107.0, "worker gone"))
    assert (tally.elapsed(500.0), tally.error) == (7.0, "worker gone")
