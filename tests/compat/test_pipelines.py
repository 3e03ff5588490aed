"""Pipelines of stages as people write them for NeMo Curator, on dcurate's engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dcurate
import dcurate.text
from dcurate.compat.nemo import builtin, stages, tasks
from dcurate.compat.nemo.executors import RayClient, XennaExecutor
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
