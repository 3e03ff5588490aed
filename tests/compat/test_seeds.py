"""Scripts with the calls and arguments of NeMo Curator's pages on resources, streaming, executors and memory."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.forked import FORKS

pytestmark = pytest.mark.cluster

RESOURCES = """
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.core import ProcessingStage
from nemo_curator.stages.function_definitions import processing_stage
from nemo_curator.stages.resources import Resources
from nemo_curator.stages.text.io.reader import JsonlReader
from nemo_curator.tasks import DocumentBatch


class Split(ProcessingStage[DocumentBatch, DocumentBatch]):
    name: str = "Split"
    resources: Resources = Resources(cpus=1.0)

    def __init__(self):
        super().__init__()

    def inputs(self):
        return ["data"], ["text"]

    def outputs(self):
        return ["data"], ["tokens"]

    def process(self, task):
        task.data["tokens"] = task.data["text"].str.split()
        return task


class Count(ProcessingStage[DocumentBatch, DocumentBatch]):
    name: str = "Count"

    def __init__(self, model_path: str):
        super().__init__()
        self.model_path = model_path

    def inputs(self):
        return ["data"], []

    def outputs(self):
        return ["data"], []

    def process(self, task):
        assert self.model_path == "path/to/model"
        task.data["count"] = task.data["tokens"].str.len()
        return task


@processing_stage(name="longer", resources=Resources(cpus=1))
def longer(task: DocumentBatch) -> DocumentBatch:
    task.data = task.data[task.data["count"] > 1]
    return task


model = Count(model_path="path/to/model")
whole, part, memory = (
    Count(model_path="path/to/model").with_(resources=resources)
    for resources in (Resources(gpus=1), Resources(gpus=0.25), Resources(cpus=4.0, gpu_memory_gb=10))
)
assert (model.resources.gpus, whole.resources.gpus, part.resources.gpus) == (0, 1, 0.25)
assert (memory.resources.cpus, memory.resources.gpu_memory_gb) == (4.0, 10)
assert Split().with_(resources=Resources(cpus=2.0)).resources.cpus == 2.0

model = model.with_(batch_size=128)
assert model.batch_size == 128
tasks = Pipeline(name="resources", stages=[JsonlReader("input"), Split(), model, longer]).run()
print(sorted((row["text"], row["count"]) for task in tasks for row in task.data.to_dict("records")))
"""

MEMORY = """
from nemo_curator.backends.ray_actor_pool import RayActorPoolExecutor
from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.deduplication.exact.workflow import ExactDeduplicationWorkflow
from nemo_curator.stages.text.classifiers import QualityClassifier
from nemo_curator.stages.text.io import JsonlReader
from nemo_curator.stages.text.io.reader import ParquetReader
from nemo_curator.stages.text.io.writer import JsonlWriter

pipeline = Pipeline(name="my_pipeline", description="Process text documents")
pipeline.add_stage(JsonlReader(file_paths="input/", files_per_partition=50))
pipeline.add_stage(JsonlWriter(path="output/"))
pipeline.run()

streaming = {
    "execution_mode": "streaming",
    "cpu_allocation_percentage": 0.95,
    "autoscale_interval_s": 180,
    "logging_interval": 60,
}
for executor in (XennaExecutor(config=streaming), RayDataExecutor(), RayActorPoolExecutor()):
    pipeline.run(executor=executor)

reader = ParquetReader(file_paths="tables/", blocksize="1GB")
print(sum(task.num_items for task in Pipeline(name="tables", stages=[reader]).run()))
dedup = ExactDeduplicationWorkflow(
    input_path="tables/", output_path="duplicates/", text_field="text", input_blocksize="1GB"
)
print(dedup.run().metadata["num_duplicates"])
classifier = QualityClassifier(model_inference_batch_size=64, max_chars=3000)
print(len(classifier.decompose()))
"""


@pytest.fixture
def here(tmp_path):
    rows = pd.DataFrame({"text": ["one", "two words", "one"]})
    (tmp_path / "input").mkdir()
    (tmp_path / "tables").mkdir()
    rows.to_json(tmp_path / "input" / "a.jsonl", orient="records", lines=True)
    rows.to_parquet(tmp_path / "tables" / "a.parquet", index=False)
    return tmp_path


def nemo(here, script):
    (here / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "dcurate.cli", "nemo", "script.py"],
        cwd=here,
        env={**os.environ, **FORKS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_stages_with_resources_and_batch_sizes_run(here):
    assert nemo(here, RESOURCES)[-1] == "[('two words', 2)]"


def test_readers_executors_and_workflows_with_bounded_memory_run(here):
    assert nemo(here, MEMORY)[-3:] == ["3", "1", "2"]
    written = [json.loads(line) for path in (here / "output").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert [row["text"] for row in written] == ["one", "two words", "one"]
