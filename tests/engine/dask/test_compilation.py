"""Kernels that a stage names are compiled on the workers before its first batch."""

import os
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from dcurate import DaskExecutor, DocumentBatch, LocalCluster, Pipeline, ProcessingStage
from dcurate.core.kernels import Kernels
from dcurate.events import Compiled, Compiling, TaskDone

pytestmark = pytest.mark.cluster


def compile_into(path):
    Path(path).write_text(str(os.getpid()))


def fail():
    raise RuntimeError("no such instruction")


def absent(path):
    return int(not Path(path).exists())


class Compiles(ProcessingStage):
    def __init__(self, folder):
        self.folder = folder

    def kernels(self):
        paths = {name: f"{self.folder}/{name}" for name in ("a", "b")}
        made = [Kernels(name, partial(compile_into, path), partial(absent, path), 1.0) for name, path in paths.items()]
        return [*made, *made, Kernels("broken", fail, partial(absent, f"{self.folder}/never"), 0.1)]

    def process(self, task):
        return task


class Seen:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


def test_what_is_missing_is_compiled_once_before_the_first_batch_and_a_failure_is_left_to_the_stage(tmp_path):
    rows = DocumentBatch(data=pd.DataFrame({"text": ["one"]}))
    with LocalCluster(n_workers=2) as cluster:
        runs = []
        for _ in range(2):
            seen = Seen()
            pipeline = Pipeline("compiles", stages=[Compiles(str(tmp_path))])
            assert len(list(pipeline.run(DaskExecutor(cluster=cluster), [rows], observers=[seen]))) == 1
            runs.append([event for event in seen.events if isinstance(event, Compiling | Compiled | TaskDone)])
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    assert str(os.getpid()) not in {path.read_text() for path in tmp_path.iterdir()}
    first, second = runs
    assert [type(event) for event in first] == [Compiling, Compiling, Compiling, Compiled, TaskDone]
    assert [event.kernels for event in first[:4]] == [3, 2, 1, 3]
    assert [event.kernels for event in second[:2]] == [1, 1]


class CompilesGroup(Compiles):
    def kernels(self):
        paths = [f"{self.folder}/{name}" for name in "abc"]
        group = [Kernels(path, partial(compile_into, path), partial(absent, path), 1.0, "group") for path in paths]
        return [Kernels("broken", fail, partial(absent, f"{self.folder}/never"), 0.1, "group"), *group]


@pytest.mark.parametrize(("workers", "tasks"), [(2, 1), (3, 4)])
def test_two_workers_compile_a_group_in_one_process_and_more_of_them_at_once(tmp_path, workers, tasks):
    seen = Seen()
    with LocalCluster(n_workers=workers) as cluster:
        rows = [DocumentBatch(data=pd.DataFrame({"text": ["one"]}))]
        pipeline = Pipeline("compiles", stages=[CompilesGroup(str(tmp_path))])
        pipeline.run(DaskExecutor(cluster=cluster), rows, observers=[seen])
    processes = {path.read_text() for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 3
    assert workers > 2 or len(processes) == 1
    assert sum(isinstance(event, Compiling) for event in seen.events) == tasks
