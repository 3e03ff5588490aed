"""Pipelines on real Dask processes; the same laws for every way of running them."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Scheduler
from distributed import LocalCluster as DaskCluster
from distributed.diagnostics.plugin import SchedulerPlugin

from dcurate import (
    AttachedCluster,
    DaskExecutor,
    DocumentBatch,
    InlineExecutor,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    Pipeline,
    PipelineError,
    ProcessingStage,
    ResourceError,
    Resources,
    RunError,
    StageError,
    processing_stage,
)
from dcurate.engine.dask import backend
from dcurate.events import Event, RunEnded, RunStarted, SlotsChanged, SourceListed, SplitDone, TaskDone, WorkerLost
from dcurate.run import Executor
from tests.conftest import scheduler_and_workers
from tests.engine.worker.failing import EndsInSetUp, Holds, LoadsBadly, Poisoned, RaisesUnsendable
from tests.stages import Append, Diary, DieOnce, FailOn, KeepEvery, Numbers, OneByOne, Sleep

pytestmark = pytest.mark.cluster

MODES = ["inline", "streaming", "batch"]
INLINE = InlineExecutor()


@pytest.fixture(params=MODES)
def executor(request: pytest.FixtureRequest, cluster: LocalCluster) -> Executor:
    return executor_of(request.param, cluster)


def executor_of(mode: str, cluster: LocalCluster, **settings: Any) -> Executor:
    return InlineExecutor(settings) if mode == "inline" else DaskExecutor({"execution_mode": mode, **settings}, cluster)


def pipeline(*stages: ProcessingStage[Any, Any]) -> Pipeline:
    return Pipeline("test", stages=stages)


def rows(batches: Any) -> list[tuple[str, list[str]]]:
    return sorted((str(batch.key), batch.to_arrow()["text"].to_pylist()) for batch in batches)


CHAIN = [
    Numbers(6, 7),
    Append("a"),
    OneByOne(),
    Append("b").with_(name="in_pairs", batch_size=2),
    KeepEvery(3, 1),
    Append("c").with_(name="pinned", num_workers=1),
]


def test_an_executor_shows_what_it_was_given() -> None:
    assert repr(DaskExecutor()) == "DaskExecutor()"
    given = DaskExecutor({"execution_mode": "batch", "memory_share": 0.3}, LocalCluster(n_workers=2))
    assert repr(given) == "DaskExecutor(config={'execution_mode': 'batch'}, cluster=<LocalCluster, not open>)"
    assert "secret" not in repr(DaskExecutor(cluster="tcp://user:secret@10.0.0.1:8786"))


def test_every_mode_gives_the_same_rows_under_the_same_keys(cluster: LocalCluster) -> None:
    inline, streaming, batch = (rows(pipeline(*CHAIN).run(executor_of(mode, cluster))) for mode in MODES)
    assert inline == streaming == batch
    assert [texts for _, texts in inline][:2] == [["10abc"], ["11abc"]]


class GraphSizes(SchedulerPlugin):
    """Notes how many tasks each graph adds."""

    name = "graph-sizes"

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def update_graph(self, scheduler: Scheduler, *, keys: set[Any], **_: Any) -> None:
        self.sizes.append(len(keys))


def test_many_tasks_are_submitted_as_several_graphs(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "GRAPH_TASKS", 1)
    cluster.client.register_plugin(GraphSizes())
    batches = list(
        pipeline(Numbers(40, 2), Append("a"), Append("b").with_(num_workers=1)).run(DaskExecutor({}, cluster))
    )
    sizes = cluster.client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["graph-sizes"].sizes)
    cluster.client.unregister_scheduler_plugin("graph-sizes")
    assert len(batches) == 40
    assert set(sizes) == {1}


def test_counts_are_the_same_in_every_mode(cluster: LocalCluster) -> None:
    counts = [
        [(one.name, one.rows_in, one.rows_out, one.dropped) for one in result.report.stages]
        for result in (pipeline(*CHAIN).run(executor_of(mode, cluster)) for mode in MODES)
    ]
    assert counts[0] == counts[1] == counts[2]
    assert counts[0][4] == ("keep_every", 42, 32, {"keep_every": 10})


@pytest.mark.parametrize("mode", ["inline", "streaming"])
def test_batches_come_out_long_before_the_last_is_read(mode: str, cluster: LocalCluster, tmp_path: Path) -> None:
    @processing_stage(name="mark")
    def mark(batch: DocumentBatch) -> DocumentBatch:
        (tmp_path / str(batch.key)).touch()
        return batch

    stream = pipeline(Numbers(2000, 1), mark, Sleep(0.02)).stream(executor_of(mode, cluster))
    first = next(stream)
    read = len(list(tmp_path.iterdir()))
    stream.close()
    assert first.num_items == 1
    assert read < 1000


def test_a_stage_that_raises_ends_the_run_with_one_sentence(executor: Executor) -> None:
    with pytest.raises(StageError, match="^stage 'fail_on' failed on batch 'split-0001': ValueError: cannot take 7"):
        pipeline(Numbers(4, 5), FailOn("7")).run(executor)


@pytest.mark.parametrize("mode", MODES)
def test_a_row_on_which_a_stage_raises_is_kept_apart_if_the_executor_ignores_failures(
    mode: str, cluster: LocalCluster
) -> None:
    result = pipeline(Numbers(4, 5), FailOn("7")).run(executor_of(mode, cluster, ignore_failures=True))
    assert (result.report.stages[-1].rows_out, result.report.stages[-1].faulty) == (19, {"ValueError": 1})


@pytest.mark.parametrize("length", [3, 20_000])
def test_an_error_that_cannot_be_pickled_or_is_long_keeps_its_name(length: int, executor: Executor) -> None:
    with pytest.raises(StageError, match="^stage 'raises_unsendable' failed on batch 'split-000[01]': Unsendable: xxx"):
        pipeline(Numbers(2, 5), RaisesUnsendable(length)).run(executor)


def test_a_stage_that_exits_has_raised(executor: Executor) -> None:
    stage = Poisoned(always="sys.exit")
    with pytest.raises(StageError, match="^stage 'poisoned' failed on batch 'split-000[01]': SystemExit: 4"):
        pipeline(Numbers(2, 5), stage).run(executor)
    result = pipeline(Numbers(2, 5), stage.with_(ignore_failures=True)).run(executor)
    assert result.report.stages[-1].faulty == {"SystemExit": 10}
    assert not [note for note in result.history.notes if note.kind == "lost"]


def test_a_stage_that_exits_as_it_is_set_up_has_raised(executor: Executor, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"^stage 'ends_in_set_up': setup\(\) failed: SystemExit: 4"):
        pipeline(Numbers(2, 5), EndsInSetUp("sys.exit", str(tmp_path))).run(executor)


@pytest.mark.timeout(60)
def test_a_stage_that_cannot_be_loaded_ends_the_run(cluster: LocalCluster) -> None:
    with pytest.raises(StageError, match=r"^a stage cannot be loaded: ValueError: cannot be loaded here \("):
        pipeline(Numbers(2, 5), Holds(LoadsBadly())).run(DaskExecutor(cluster=cluster))


def test_set_up_and_tear_down_are_called_for_every_slot_also_after_an_error(executor: Executor, tmp_path: Path) -> None:
    with pytest.raises(StageError):
        pipeline(Numbers(4, 5), Diary(str(tmp_path)), FailOn("7")).run(executor)
    calls = [path.name.split("-")[0] for path in tmp_path.iterdir()]
    slots = calls.count("setup")
    assert sorted(calls) == ["node"] + ["setup"] * slots + ["teardown"] * slots
    assert 1 <= slots <= 2


def test_closing_a_stream_tears_down_and_leaves_nothing_behind(cluster: LocalCluster, tmp_path: Path) -> None:
    stream = pipeline(Numbers(50, 5), Diary(str(tmp_path)), Sleep(0.01)).stream(DaskExecutor(cluster=cluster))
    for _ in range(20):
        next(stream)
    stream.close()
    calls = sorted(path.name.split("-")[0] for path in tmp_path.iterdir())
    slots = calls.count("setup")  # whether a second one opens before the end is a matter of speed
    assert calls == ["node"] + ["setup"] * slots + ["teardown"] * slots
    assert 1 <= slots <= 2
    tasks = cluster.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    assert tasks == 0


def test_an_empty_source_is_an_empty_run(executor: Executor) -> None:
    result = pipeline(Numbers(0), Append()).run(executor)
    assert (len(result), result.report.splits, result.report.stages[1].rows_in) == (0, 0, 0)


@dataclass
class Heard:
    events: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        self.events.append(event)


def test_observers_hear_the_run_from_start_to_end(executor: Executor) -> None:
    heard = Heard()
    pipeline(Numbers(5), Append()).run(executor, observers=[heard])
    kinds = [type(event) for event in heard.events]
    assert (kinds[0], kinds[-1]) == (RunStarted, RunEnded)
    assert kinds.count(SplitDone) == kinds.count(TaskDone) == 5
    assert kinds.count(SourceListed) == 1
    assert kinds.count(SlotsChanged) in ((0,) if executor.mode == "inline" else (1, 2))


def positions(events: list[Event]) -> tuple[int, int]:
    """The number of splits that were finished when the source was listed to its end, and of all."""
    kinds = [type(event) for event in events]
    return kinds[: kinds.index(SourceListed)].count(SplitDone), kinds.count(SplitDone)


def test_a_source_that_may_wait_is_listed_only_as_far_as_there_is_room(cluster: LocalCluster) -> None:
    heard = Heard()
    pipeline(Numbers(60), Sleep(0.05)).run(DaskExecutor(cluster=cluster), observers=[heard])
    before, splits = positions(heard.events)
    assert before > 0
    assert splits == 60


def test_readers_of_files_say_how_many_splits_there_are_before_one_is_finished(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}.jsonl").write_text('{"text": "a"}\n')
    heard = Heard()
    reader = JsonlReader(str(tmp_path))
    pipeline(reader, Sleep(0.05)).run(DaskExecutor(cluster=cluster), observers=[heard])
    assert positions(heard.events) == (0, 60)


def test_batches_may_be_given_instead_of_a_reader(executor: Executor) -> None:
    batches = list(pipeline(Numbers(3, 2)).run(InlineExecutor()))
    result = pipeline(Append("!")).run(executor, initial_tasks=batches)
    assert [batch.to_arrow()["text"].to_pylist() for batch in result] == [["0!", "1!"], ["2!", "3!"], ["4!", "5!"]]  # type: ignore[attr-defined]


# On Dask


def test_a_stage_that_cannot_be_pickled_is_named_with_its_attribute(cluster: LocalCluster) -> None:
    stage = Append()
    stage.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(StageError, match=r"stage 'append' cannot be sent to workers: its attribute 'lock' \(lock\)"):
        pipeline(Numbers(), stage).run(DaskExecutor(cluster=cluster))


def test_gpus_that_are_not_there_are_refused_before_anything_runs(cluster: LocalCluster, tmp_path: Path) -> None:
    stages = [Numbers(), Diary(str(tmp_path)), Append().with_(resources=Resources(gpus=1))]
    with pytest.raises(ResourceError, match="operator 'append' needs 1 GPU a slot, but the workers have none"):
        pipeline(*stages).run(DaskExecutor(cluster=cluster))
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_refused_leaves_an_earlier_output_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    pipeline(Numbers(), JsonlWriter(output)).run(InlineExecutor())
    before = sorted(tmp_path.rglob("*.jsonl"))
    refused: list[Any] = [Numbers(), Append().with_(resources=Resources(gpus=1)), JsonlWriter(output, mode="overwrite")]
    with pytest.raises(ResourceError):
        pipeline(*refused).run(DaskExecutor(cluster=cluster))
    assert sorted(tmp_path.rglob("*.jsonl")) == before != []


def test_more_cpus_than_there_are_are_refused_before_anything_runs(cluster: LocalCluster) -> None:
    with pytest.raises(ResourceError, match="operator 'append' needs 64 CPUs a slot, but the workers have 2 in all"):
        pipeline(Numbers(), Append().with_(resources=Resources(cpus=64))).run(DaskExecutor(cluster=cluster))


def test_eight_operators_that_cannot_be_fused_run_on_two_workers(cluster: LocalCluster) -> None:
    stages = [Append(letter).with_(name=letter, batch_size=2) for letter in "abcdefgh"]
    result = pipeline(Numbers(10, 2), *stages).run(DaskExecutor(cluster=cluster))
    assert rows(result)[0] == ("split-0000", ["0abcdefgh", "1abcdefgh"])
    assert len(result) == 10


def test_a_killed_worker_costs_no_row(tmp_path: Path) -> None:
    with LocalCluster(n_workers=2, gpus=False) as cluster:
        heard = Heard()
        stages = [Numbers(40, 5), Sleep(0.01), DieOnce(str(tmp_path), "77"), Append().with_(batch_size=3)]
        result = pipeline(*stages).run(DaskExecutor(cluster=cluster), observers=[heard])
    assert rows(result) == rows(pipeline(Numbers(40, 5), Append()).run(InlineExecutor()))
    lost = [event for event in heard.events if isinstance(event, WorkerLost)]
    assert lost
    assert {event.name for event in lost} <= {"cpu-0", "cpu-1"}
    assert result.report.stages[0].rows_out == 200


@dataclass
class AlwaysDies(DieOnce):
    def process(self, task: DocumentBatch) -> DocumentBatch:
        Path(self.folder, "died").unlink(missing_ok=True)
        return super().process(task)


def test_a_batch_that_kills_every_worker_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    with (
        LocalCluster(n_workers=1, gpus=False) as cluster,
        pytest.raises(StageError, match="stage 'always_dies' failed on batch 'split-0001': killed by SIGKILL"),
    ):
        pipeline(Numbers(2, 5), AlwaysDies(str(tmp_path), "7")).run(DaskExecutor(cluster=cluster))


def test_a_cluster_started_elsewhere_serves_by_its_address(tmp_path: Path) -> None:
    with scheduler_and_workers(tmp_path, "--nworkers", "2") as address:
        result = pipeline(*CHAIN).run(DaskExecutor(cluster=AttachedCluster(address)))
        with Client(address, set_as_default=False) as client:
            again = pipeline(*CHAIN).run(DaskExecutor(cluster=client))
    assert rows(result) == rows(again) == rows(pipeline(*CHAIN).run(InlineExecutor()))


def test_workers_may_stand_in_for_gpus_that_are_not_there(tmp_path: Path) -> None:
    stages = [Numbers(4, 2), Append("g").with_(resources=Resources(gpus=1)), Append("c").with_(name="after")]
    with scheduler_and_workers(tmp_path, "--nworkers", "2", "--resources", "GPU=1") as address:
        result = pipeline(*stages).run(DaskExecutor(cluster=AttachedCluster(address)))
    assert rows(result)[0] == ("split-0000", ["0gc", "1gc"])


def test_a_cluster_of_dask_s_own_serves_and_is_left_running() -> None:
    with DaskCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as started:
        for cluster in (started, started.scheduler_address):
            assert rows(pipeline(*CHAIN).run(DaskExecutor(cluster=cluster))) == rows(pipeline(*CHAIN).run(INLINE))
        with Client(started, set_as_default=False) as client:
            assert client.submit(abs, -1).result() == 1
    with pytest.raises(RunError, match="the cluster '.*' is closed; start a new one"):
        pipeline(Numbers(1, 1)).run(DaskExecutor(cluster=started))


@pytest.mark.parametrize("given", [LocalCluster, 8786])
def test_what_is_no_cluster_is_refused_when_given(given: Any) -> None:
    message = r"cluster=.* is not a cluster; give LocalCluster\(\), the address of a scheduler such as 'tcp://"
    with pytest.raises(PipelineError, match=message):
        DaskExecutor(cluster=given)


def test_an_address_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(RunError, match="^no Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        pipeline(Numbers()).run(DaskExecutor(cluster=AttachedCluster("tcp://127.0.0.1:9", timeout_s=2)))


def test_a_scheduler_in_place_of_settings_and_a_number_as_text_are_refused_with_what_to_write() -> None:
    settings: Any = "localhost:8786"
    with pytest.raises(PipelineError, match=r"are a dict.* for a scheduler or a cluster write DaskExecutor\(cluster="):
        DaskExecutor(settings)
    workers: Any = "two"
    with pytest.raises(ResourceError, match="n_workers='two' must be a whole number of at least 1"):
        LocalCluster(n_workers=workers)
