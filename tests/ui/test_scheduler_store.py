import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from dcurate import AttachedCluster, DaskExecutor, JsonlReader, JsonlWriter, LocalCluster, Pipeline, ScoreFilter
from dcurate.core.pipeline import AnyStage
from dcurate.events import HostSample, HostsSampled, RunEnded, RunStarted
from dcurate.runs.history import History
from dcurate.runs.snapshot import RunSnapshot
from dcurate.text import WordCountFilter
from dcurate.ui import publisher
from dcurate.ui.scheduler_store import DRIVER_GONE, PLUGIN, RUNS, SchedulerStore, store_of
from tests.conftest import ROOT, scheduler_and_workers, wait_until

pytestmark = pytest.mark.cluster


def snapshot_of(run, time=1.0):
    return RunSnapshot(run, "demo", "streaming", started=0.0, time=time).to_dict()


def test_the_newest_runs_are_kept_and_those_that_go_are_told_of_first():
    store, gone = SchedulerStore(), []
    store.leaving.append(gone.append)
    for number in range(RUNS + 3):
        store.take(snapshot_of(f"run-{number}"))
    assert list(store.runs) == [f"run-{number}" for number in range(3, RUNS + 3)]
    assert [history.snapshot().run for history in gone] == ["run-0", "run-1", "run-2"]


def test_a_scheduler_that_somebody_can_look_at_knows_how_a_run_stands_and_how_it_ended(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "one two"}\n{"text": "one"}\n' * 50)
    pipeline = Pipeline("seen")
    for stage in (JsonlReader(str(tmp_path / "in.jsonl")), ScoreFilter(WordCountFilter(min_words=2))):
        pipeline.add_stage(stage)
    with LocalCluster(n_workers=1, dashboard=True) as cluster:
        first = pipeline.add_stage(JsonlWriter(str(tmp_path / "one"))).run(DaskExecutor(cluster=cluster))
        pipeline.stages[-1] = JsonlWriter(str(tmp_path / "two"))
        second = pipeline.run(DaskExecutor(cluster=cluster))
        store = store_of(cluster.client.cluster.scheduler)
        until = time.monotonic() + 120
        while [run.snapshot().ended is None for run in store.runs.values()] != [False] * 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert list(store.runs) == [first.report.run, second.report.run]
        there, here = store.runs[second.report.run].snapshot(), second.history.snapshot()
        assert (there.rows_in, there.rows_out, there.ended) == (100, 50, here.ended)
        assert [stage.dropped for stage in there.stages] == [{}, {"word_count": 50}, {}]
        assert there.operators == here.operators


def test_a_scheduler_that_nobody_can_look_at_is_told_nothing(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "one two"}\n')
    with LocalCluster(n_workers=1) as cluster:
        stages: list[AnyStage] = [JsonlReader(str(tmp_path / "in.jsonl")), JsonlWriter(str(tmp_path / "out"))]
        result = Pipeline("unseen", stages=stages).run(DaskExecutor(cluster=cluster))
        assert PLUGIN not in cluster.client.cluster.scheduler.plugins
    assert result.history.snapshot().rows_out == 1


def test_all_phases_of_a_run_have_one_id_and_one_history():
    history = History()
    history.on_event(RunStarted(1.0, "7f3a", "demo", "inline", (("read",),)))
    history.on_event(RunEnded(2.0, "", last=False))
    store = SchedulerStore()
    store.take(history.snapshot(2.0).to_dict())
    history.on_event(RunStarted(3.0, "7f3a", "demo", "inline", (("mark",),), phase=1))
    store.take(history.snapshot(4.0).to_dict())
    assert [(one.name, one.phase) for one in store.runs["7f3a"].snapshot().operators] == [("read", 0), ("mark", 1)]


def test_a_snapshot_without_hosts_has_those_of_the_one_before():
    host = HostSample("a", workers=1, threads=2, cpu=0.5, memory=3, memory_limit=4)
    store = SchedulerStore()
    store.take(snapshot_of("7f3a") | {"hosts": [host.to_dict()]})
    store.take({name: value for name, value in snapshot_of("7f3a", time=2.0).items() if name != "hosts"})
    assert (store.runs["7f3a"].snapshot().time, store.runs["7f3a"].snapshot().hosts) == (2.0, (host,))
    store.take(snapshot_of("7f3a", time=3.0))
    assert store.runs["7f3a"].snapshot().hosts == ()


def test_a_run_whose_driver_is_gone_has_ended_and_those_of_others_have_not():
    store = SchedulerStore()
    for run, client in (("mine", "a"), ("done", "a"), ("other", "b")):
        store.take(snapshot_of(run), client=client)
    store.take(RunSnapshot("done", "demo", "streaming", time=2.0, ended=2.0).to_dict(), client="a")
    store.remove_client(SimpleNamespace(), "a")
    ended = {
        run: (history.snapshot().ended is not None, history.snapshot().error) for run, history in store.runs.items()
    }
    assert ended == {"mine": (True, DRIVER_GONE), "done": (True, ""), "other": (False, "")}


DRIVER = """
import sys
from dcurate import DaskExecutor, Pipeline
from tests.stages import Numbers, Sleep
stream = Pipeline("killed", stages=[Numbers(1000, 1), Sleep(0.05)]).stream(DaskExecutor(cluster=sys.argv[1]))
next(stream)
print("running", flush=True)
list(stream)
"""


def test_a_killed_driver_is_no_silent_run_but_a_failed_one(tmp_path):
    with scheduler_and_workers(tmp_path) as address, AttachedCluster(address) as cluster:
        command = [sys.executable, "-c", DRIVER, address]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as driver:
            assert driver.stdout.readline() == "running\n"
            wait_until(lambda: cluster.client.run_on_scheduler(errors_of_runs) == [None])
            driver.kill()
        wait_until(lambda: cluster.client.run_on_scheduler(errors_of_runs) == [DRIVER_GONE])


def errors_of_runs(dask_scheduler):
    present = [history.snapshot() for history in store_of(dask_scheduler).runs.values()]
    return [None if run.ended is None else run.error for run in present]


def test_hosts_are_sent_once_until_they_change(monkeypatch):
    sent = []
    monkeypatch.setattr(publisher, "send_to_scheduler", lambda client, message: sent.append(message["snapshot"]))
    history = History()
    history.on_event(RunStarted(1.0, "7f3a", "demo", "inline", (("read",),)))
    one = publisher.SnapshotPublisher(SimpleNamespace(status="running"), history)
    host = HostSample("a", workers=1, threads=2, cpu=0.5, memory=3, memory_limit=4)
    one._publish()
    for now in (2.0, 3.0):
        history.on_event(HostsSampled(now, (host,)))
        one._publish()
        one._publish()
    store = SchedulerStore()
    for snapshot in sent:
        store.take(snapshot)
    assert ["hosts" in snapshot for snapshot in sent] == [False, True, False, True, False]
    assert store.runs["7f3a"].snapshot().hosts == (host,)
