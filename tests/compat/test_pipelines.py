"""Pipelines of stages as people write them for NeMo Curator, on dcurate's engine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dcurate
import dcurate.text
from dcurate.compat.nemo import builtin, stages, tasks
from dcurate.compat.nemo.bridge import engine_stage
from dcurate.compat.nemo.executors import RayClient, XennaExecutor
from dcurate.compat.nemo.images import ImageDuplicatesRemovalStage
from dcurate.compat.nemo.pipeline import Pipeline

pytestmark = pytest.mark.cluster


@dataclass(repr=False)
class SampleTask(tasks.Task[pd.DataFrame]):
    """A task of a person's own."""

    data: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def num_items(self) -> int:
        return len(self.data)

    def validate(self) -> bool:
        return True


class Create(stages.ProcessingStage[tasks.EmptyTask, SampleTask]):
    """Begin a pipeline with tasks."""

    name = "create"

    def __init__(self, count: int) -> None:
        self.count = count

    def process(self, task: tasks.EmptyTask) -> list[SampleTask]:
        assert isinstance(task, tasks.EmptyTask)
        frames = [pd.DataFrame({"text": ["one two", "three"], "number": [n, n]}) for n in range(self.count)]
        return [SampleTask(dataset_name="mine", data=frame) for frame in frames]


class CountWords(stages.ProcessingStage[SampleTask, SampleTask]):
    """Change the frame of a task in place."""

    name = "count_words"

    def inputs(self) -> tuple[list[str], list[str]]:
        return ["data"], ["text"]

    def process(self, task: SampleTask) -> SampleTask:
        task.data["words"] = [len(text.split()) for text in task.data["text"]]
        self._log_metric("texts", len(task.data))
        return task


class ToDocuments(stages.ProcessingStage[SampleTask, tasks.DocumentBatch]):
    """Return documents, several tasks in one call, and one task of two not at all."""

    name = "to_documents"
    batch_size = 2

    def process(self, task: SampleTask) -> tasks.DocumentBatch:
        raise NotImplementedError

    def process_batch(self, given: list[SampleTask]) -> list[Any]:
        return [
            None if task.data.number[0] % 2 else tasks.DocumentBatch(dataset_name=task.dataset_name, data=task.data)
            for task in given
        ]


class Mark(stages.ProcessingStage[tasks.DocumentBatch, tasks.DocumentBatch]):
    """Add a column that ``outputs`` does not name to the frame that `to_pandas` returns."""

    name = "mark"

    def process(self, task: tasks.DocumentBatch) -> tasks.DocumentBatch:
        frame = task.to_pandas()
        frame["mark"] = task.task_id
        return task


def test_a_pipeline_of_own_stages_and_tasks_runs(client: RayClient) -> None:
    made = Pipeline("own", stages=[Create(3), CountWords()]).run()
    assert made is not None
    assert [type(task) for task in made] == [SampleTask] * 3
    assert [task.task_id for task in made] == ["0_0", "0_1", "0_2"]
    assert [list(task.data.words) for task in made] == [[2, 1]] * 3
    perf = {each.stage_name: each for each in made[0]._stage_perf}
    assert list(perf) == ["create", "count_words"]
    assert perf["count_words"].custom_metrics == {"texts": 6.0}
    assert sum(task._stage_perf[1].num_items_processed for task in made) == perf["count_words"].num_items_processed


def test_own_stages_and_built_in_ones_follow_each_other(client: RayClient) -> None:
    keep = builtin.ScoreFilter(dcurate.text.WordCountFilter(min_words=2), text_field="text", score_field="count")
    again = dcurate.text.WordCountFilter(min_words=1)
    stages_ = [Create(4), CountWords(), ToDocuments(), Mark(), keep, builtin.ScoreFilter(again, text_field="mark")]
    made = Pipeline("mixed", stages=stages_).run(XennaExecutor({"show_progress": True}))
    assert made is not None
    assert [task.data.to_dict("records") for task in made] == [
        [{"text": "one two", "number": n, "words": 2, "mark": f"0_{n}", "count": 2}] for n in (0, 2)
    ]
    assert {task.dataset_name for task in made} == {"mine"}


class WriteNames(stages.ProcessingStage[SampleTask, tasks.FileGroupTask]):
    """End a pipeline with a writer of a person's own, which leaves a file for each call."""

    name = "write_names"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, task: SampleTask) -> tasks.FileGroupTask:
        path = Path(self.folder) / f"{task.task_id}.txt"
        with path.open("a") as file:
            file.write("written\n")
        return tasks.FileGroupTask(dataset_name=task.dataset_name, data=[str(path)])


def test_a_run_with_a_checkpoint_path_does_finished_work_once(client: RayClient, tmp_path: Path) -> None:
    written = tmp_path / "written"
    written.mkdir()
    for _ in range(2):
        pipeline = Pipeline("kept", stages=[Create(2), WriteNames(str(written))])
        made = pipeline.run(checkpoint_path=tmp_path / "state")
        assert made is not None
        assert sorted(task.data for task in made) == [[f"{written}/0_0.txt"], [f"{written}/0_1.txt"]]
    assert [path.read_text() for path in sorted(written.iterdir())] == ["written\n"] * 2


def test_a_failed_stage_raises_what_nemo_scripts_catch(client: RayClient) -> None:
    class Fails(CountWords):
        def process(self, task: SampleTask) -> SampleTask:
            raise OSError("no such thing")

    with pytest.raises(RuntimeError, match="no such thing") as raised:
        Pipeline("fails", stages=[Create(1), Fails()]).run()
    assert isinstance(raised.value, dcurate.StageError)
    with pytest.raises(ValueError, match="has no stages"):
        Pipeline("empty").run()


class Perf(stages.ProcessingStage[tasks.DocumentBatch, tasks.DocumentBatch]):
    """Add a column with the figures of the stages before; log a metric."""

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, task: tasks.DocumentBatch) -> tasks.DocumentBatch:
        before = [(each.stage_name, each.num_items_processed, each.custom_metrics) for each in task._stage_perf]
        assert all(each.process_time > 0 for each in task._stage_perf)
        self._log_metric("rows", len(task.data))
        return tasks.DocumentBatch(
            dataset_name=task.dataset_name,
            data=task.data.assign(**{self.name: repr(before)}),
            _metadata=task._metadata,
            _stage_perf=task._stage_perf,
        )


def test_a_stage_finds_the_figures_of_the_own_stages_before(client: RayClient) -> None:
    data = pd.DataFrame({"text": ["one", "two words"]})
    words = builtin.ScoreFilter(dcurate.text.WordCountFilter(min_words=2), text_field="text")
    pipeline = Pipeline("perf", stages=[Perf("first"), words, Perf("second"), Perf("third")])
    [task] = pipeline.run(initial_tasks=[tasks.DocumentBatch(dataset_name="mine", data=data)]) or []
    first, second = ("first", 2, {"rows": 2.0}), ("second", 1, {"rows": 1.0})
    assert task.data[["first", "second", "third"]].iloc[0].tolist() == ["[]", repr([first]), repr([first, second])]
    assert [each.stage_name for each in task._stage_perf] == ["first", words.name, "second", "third"]


class NameProcess(stages.ProcessingStage[SampleTask, SampleTask]):
    """Say in which process a task is."""

    name = "name_process"

    def process(self, task: SampleTask) -> SampleTask:
        task.data["process"] = os.getpid()
        return task


def test_a_stage_has_as_many_slots_on_each_host_as_it_asks_for(client: RayClient) -> None:
    made = Pipeline("pinned", stages=[Create(12), NameProcess().with_(num_workers_per_node=1)]).run()
    assert made is not None
    assert len(made) == 12
    assert len({int(task.data.process[0]) for task in made}) == 1


class TwoEach(NameProcess):
    """Ask for two slots on each host by its method."""

    def num_workers_per_node(self) -> float | None:
        return 2


SIZED = {
    "by the method": (TwoEach(), 2),
    "by with_": (NameProcess().with_(num_workers_per_node=3), 3),
    "reset by with_": (TwoEach().with_(num_workers_per_node=None), None),
    "a fraction": (NameProcess().with_(num_workers_per_node=1.5), 2),
    "by the settings for Xenna": (NameProcess().with_(xenna_stage_spec={"num_workers_per_node": 2}), 2),
    "a fraction for Xenna": (NameProcess().with_(xenna_stage_spec={"num_workers_per_node": 0.5}), 1),
    "built-in, by with_": (builtin.ScoreFilter(dcurate.text.WordCountFilter()).with_(num_workers_per_node=2), 2),
    "built-in, a fraction": (builtin.ScoreFilter(dcurate.text.WordCountFilter()).with_(num_workers_per_node=0.5), 1),
    "of 26.07": (ImageDuplicatesRemovalStage("ids", num_workers_per_node=2), 2),
}


@pytest.mark.parametrize(("stage", "slots"), SIZED.values(), ids=SIZED)
def test_the_engine_is_told_how_many_slots_a_host_gets(stage: Any, slots: int | None) -> None:
    assert engine_stage(stage).spec.num_workers_per_node == slots


def test_one_setting_says_how_many_slots_a_stage_has() -> None:
    pinned = NameProcess().with_(num_workers=2)
    with pytest.raises(
        ValueError, match=r"sets multiple worker-sizing options \(num_workers\(\), num_workers_per_node"
    ):
        pinned.with_(num_workers_per_node=1)
    with pytest.raises(ValueError, match="multiple worker-sizing options .*actor-pool sizing keys"):
        pinned.with_(ray_stage_spec={"min_workers": 1})
    assert pinned.with_(num_workers=None, num_workers_per_node=1).num_workers_per_node() == 1
    for stage in (pinned, TwoEach()):
        with pytest.raises(ValueError, match=r"sets both num_workers.*\(\) and xenna_stage_spec"):
            engine_stage(stage.with_(xenna_stage_spec={"num_workers_per_node": 1}))
    for wrong in (True, "2"):
        with pytest.raises(TypeError, match="must be a positive number"):
            NameProcess().with_(num_workers_per_node=wrong)  # type: ignore[arg-type]
    for out_of_range in (0, -1.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be finite and > 0"):
            NameProcess().with_(num_workers_per_node=out_of_range)
    with pytest.raises(TypeError, match="must not define 'num_workers_per_node' as a stage attribute"):
        type("Wrong", (NameProcess,), {"num_workers_per_node": 2})
    with pytest.raises(TypeError, match="must not define 'num_workers' as a stage attribute"):

        class Declared(NameProcess):
            num_workers: int  # type: ignore[assignment]


def test_the_number_of_slots_does_not_decide_the_rows() -> None:
    plain, sized = (
        NameProcess(),
        NameProcess().with_(num_workers_per_node=1, ray_stage_spec={"max_calls_per_worker": 2}),
    )
    assert engine_stage(plain).settings() == engine_stage(sized).settings()
