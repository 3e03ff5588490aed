from dcurate.events import (
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
    WorkerRecycled,
)
from dcurate.runs.state import RunState

START = RunStarted(100.0, "7f3a", "demo", "streaming", (("read", "clean"), ("write",)))


def counted(*events):
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def task(operator, *stats, seconds=1.0):
    return TaskDone(101.0, operator, "part-0", stats, seconds)


def test_rows_are_counted_where_they_enter_and_where_they_leave():
    state = counted(
        START,
        task("read-clean", StageStats("read", rows_in=10, rows_out=9, bytes_in=400), StageStats("clean", rows_out=8)),
        task("write", StageStats("write", rows_in=8, rows_out=8)),
        task("read-clean", StageStats("read", rows_in=5, bytes_in=100), StageStats("clean", rows_out=4)),
    )
    assert (state.rows_in, state.bytes_in, state.rows_out) == (15, 500, 8)


def test_operators_stand_in_the_order_of_the_pipeline_whichever_works_first():
    state = counted(START, task("write", seconds=3.0), task("write", seconds=1.0))
    assert list(state.operators) == ["read-clean", "write"]
    assert (state.operators["write"].tasks, state.operators["write"].mean_seconds) == (2, 2.0)
    assert state.operators["read-clean"].mean_seconds == 0.0


def test_the_slots_of_a_lost_worker_are_gone():
    state = counted(
        START,
        SlotsChanged(101, "write", "a", 2, 2, 0.1),
        SlotsChanged(101, "write", "b", 3, 5, 0.1),
        WorkerLost(102, "b"),
    )
    assert state.operators["write"].slots == {"a": 2}
    assert state.workers_lost == 1


def test_the_time_left_follows_from_the_splits_of_this_run_alone():
    state = counted(START, SourceListed(100.5, splits=10, finished_before=4))
    assert state.remaining(110.0) is None
    state.apply(SplitDone(101, "part-4", ()))
    state.apply(SplitDone(102, "part-5", ()))
    assert state.remaining(102.0) == 4.0
    assert [state.remaining(now) for now in (103.0, 104.5, 110.0)] == [3.0, 1.5, 1.0]


def test_the_clock_stops_with_the_run():
    state = counted(START, RunEnded(107.0, "worker gone"))
    assert (state.elapsed(500.0), state.error) == (7.0, "worker gone")


def test_slots_stand_idle_for_the_time_that_they_do_not_work():
    state = counted(START, SlotsChanged(100.0, "write", "a", 2, 2, 0.1), task("write", seconds=3.0))
    figures = state.snapshot(104.0).operators[1]
    assert (figures.slot_seconds, figures.seconds, figures.busy) == (8.0, 3.0, 0.375)
    state.apply(SlotsChanged(104.0, "write", "a", 0, 0, 0.0))
    assert state.snapshot(200.0).operators[1].slot_seconds == 8.0


def test_durations_are_counted_by_bucket():
    state = counted(START, task("write", seconds=0.01), task("write", seconds=0.3), task("write", seconds=1e6))
    latency = state.snapshot(200.0).operators[1].latency
    assert (latency[0], latency[5], latency[-1], sum(latency)) == (1, 1, 1, 3)


def test_phases_of_a_run_add_up_and_those_of_another_begin_anew():
    first = [
        START,
        task("write", StageStats("write", rows_out=5)),
        SplitDone(101, "part-0", ()),
        RunEnded(102, "", False),
    ]
    second = RunStarted(103, "7f3a", "demo", "streaming", (("mark",), ("write_2",)), phase=1)
    state = counted(
        *first, second, task("mark", StageStats("mark", rows_in=5, rows_out=4)), SplitDone(104, "part-0", ())
    )
    present = state.snapshot(105)
    assert [(one.name, one.phase, one.calls) for one in present.operators] == [
        ("read-clean", 0, 0),
        ("write", 0, 1),
        ("mark", 1, 1),
        ("write_2", 1, 0),
    ]
    assert (present.started, present.ended, present.splits_done, present.splits_finished) == (100.0, None, 1, 2)
    assert [stage.name for stage in present.stages] == ["read", "clean", "write", "mark", "write_2"]
    state.apply(RunStarted(200, "8888", "demo", "streaming", (("read",),)))
    assert [one.name for one in state.snapshot(201).operators] == ["read"]


def test_between_two_phases_a_run_goes_on():
    state = counted(START, RunEnded(102, "", last=False))
    assert (state.snapshot(103).ended, state.elapsed(200)) == (None, 2.0)


def test_what_waits_is_what_was_sampled_last():
    state = counted(START, Sampled(101, (OperatorSample("write", 1, 2, 3, 4096),), 4096, 9000))
    write = state.snapshot(101).operators[1]
    assert (write.running, write.waiting, write.waiting_bytes, write.slots) == (2, 3, 4096, 1)
    state.apply(RunEnded(102, ""))
    write = state.snapshot(102).operators[1]
    assert (write.running, write.waiting, write.slots, state.snapshot(102).held_bytes) == (0, 0, 0, 0)


def test_the_first_slots_of_an_operator_are_no_news_but_changes_are():
    state = counted(START, Decided(101, "write", 0, 2, "first"), Decided(102, "write", 2, 3, "more"))
    (note,) = state.snapshot(103).latest
    assert (note.kind, note.text, note.before, note.after, note.operator) == ("decision", "more", 2, 3, "write")


def test_rounds_of_an_exchange_count_as_in_the_report_with_their_seconds_and_what_they_found_alone():
    stages, owners = ("read", "dedup", "write"), {"bands": "dedup", "pairs": "dedup"}
    first = RunStarted(100.0, "7f3a", "demo", "streaming", (("read",), ("bands",)), 0, stages, owners)
    second = RunStarted(102.0, "7f3a", "demo", "streaming", (("pairs", "dedup"), ("write",)), 1, stages, owners)
    state = counted(
        first,
        task("read", StageStats("read", rows_in=10, rows_out=10, bytes_in=400)),
        task("bands", StageStats("bands", rows_in=10, rows_out=90, seconds=2.0, dropped={"candidates": 80})),
        RunEnded(102.0, "", last=False),
    )
    assert (state.rows_in, state.rows_out, state.reads, state.writes) == (10, 0, True, False)
    assert state.snapshot(102.0).kept is None
    state.apply(second)
    state.apply(task("pairs-dedup", StageStats("pairs", rows_in=90, seconds=1.0, found={"pairs": 7})))
    state.apply(task("pairs-dedup", StageStats("dedup", rows_in=10, rows_out=9, dropped={"duplicate": 1}, seconds=0.5)))
    state.apply(task("write", StageStats("write", rows_in=9, rows_out=9)))
    present = state.snapshot(104.0)
    read, dedup, write = present.stages
    assert [one.name for one in present.stages] == list(stages)
    assert (dedup.rows_in, dedup.rows_out, dedup.dropped, dedup.found) == (10, 9, {"duplicate": 1}, {"pairs": 7})
    assert dedup.seconds == 3.5
    assert (present.rows_in, present.rows_out, read.rows_out, write.rows_in) == (10, 9, 10, 9)
    assert (state.rows_in, state.rows_out, state.reads, state.writes) == (0, 9, False, True)


def test_what_is_still_on_its_way_is_neither_kept_nor_dropped():
    state = counted(
        START,
        task("read-clean", StageStats("read", rows_in=1000, rows_out=1000)),
        task("read-clean", StageStats("clean", rows_in=1000, rows_out=900, dropped={"short": 100})),
    )
    assert state.snapshot(102.0).kept is None
    state.apply(task("write", StageStats("write", rows_in=18, rows_out=18)))
    assert state.snapshot(102.0).kept == 0.9
    state.apply(task("write", StageStats("write", rows_in=882, rows_out=882)))
    state.apply(RunEnded(103.0, ""))
    assert state.snapshot(103.0).kept == 0.9


def test_a_run_that_stopped_early_has_kept_the_share_that_its_stages_let_through():
    state = counted(
        START,
        task(
            "read-clean", StageStats("read", rows_in=100, rows_out=100), StageStats("clean", rows_in=100, rows_out=50)
        ),
        task("write", StageStats("write", rows_in=5, rows_out=5)),
        RunEnded(105.0, "the disk is full"),
    )
    assert state.snapshot(105.0).kept == 0.5


def test_an_operator_of_an_inner_round_has_its_barrier_as_owner_and_others_have_none():
    owners = {"spill": "dedup", "pairs": "dedup", "read_back": "dedup"}
    stages = ("read", "dedup", "write")
    rounds = [(("read", "spill"),), (("pairs",),), (("read_back", "write"),)]
    state = RunState()
    inner = []
    for phase, operators in enumerate(rounds):
        state.apply(RunStarted(100.0, "7f3a", "demo", "streaming", operators, phase, stages, owners, "out"))
        inner.append(state.inner_of)
    assert inner == ["", "dedup", ""]
    assert [one.owner for one in state.snapshot(101.0).operators] == ["", "dedup", ""]
    assert state.snapshot(101.0).output == "out"


def test_a_worker_that_is_gone_or_restarted_goes_by_its_name_if_it_has_one():
    named = (WorkerLost(101.0, "tcp://10.0.0.7:1", "gpu-3"), WorkerRecycled(102.0, "tcp://10.0.0.8:1", "why", "cpu-1"))
    texts = [note.text for note in counted(START, *named, WorkerLost(103.0, "tcp://10.0.0.9:1")).latest]
    (why,) = counted(START, WorkerLost(101.0, "a", reason="its memory was nearly full")).latest
    assert why.text == "worker a is gone, as its memory was nearly full; what was there is made again"
    assert texts[0].startswith("worker gpu-3 is gone")
    assert texts[1] == "worker cpu-1 is restarted: why"
    assert texts[2].startswith("worker tcp://10.0.0.9:1 is gone")
