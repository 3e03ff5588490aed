"""The code samples of NeMo Curator's pages on resources, streaming, memory, executors: only imports changed."""

import json
from pathlib import Path

import pytest

from dcurate import (
    DaskExecutor,
    DocumentBatch,
    JsonlReader,
    JsonlWriter,
    LocalCluster,
    ParquetReader,
    Pipeline,
    ProcessingStage,
    Resources,
    processing_stage,
)

pytestmark = pytest.mark.cluster


class Tokenize(ProcessingStage[DocumentBatch, DocumentBatch]):
    name: str = "Tokenize"
    resources: Resources = Resources(cpus=1.0)  # CPU-only — no GPU needed

    def __init__(self):
        super().__init__()

    def process(self, task):
        return task


class ModelStage(ProcessingStage[DocumentBatch, DocumentBatch]):
    name: str = "ModelStage"

    def __init__(self, model_path: str):
        super().__init__()
        self.model_path = model_path

    def process(self, task):
        return task


@processing_stage(name="custom_filter", resources=Resources(cpus=1))
def custom_filter_stage(task: DocumentBatch) -> DocumentBatch:  # type: ignore[empty-body]
    # ... filter logic ...
    pass


def test_stages_and_resources() -> None:
    model_stage = ModelStage(model_path="path/to/model").with_(resources=Resources(gpus=1))
    assert (model_stage.resources, Tokenize().resources) == (Resources(gpus=1), Resources(cpus=1))
    quarter = ModelStage(model_path="path/to/model").with_(resources=Resources(gpus=0.25))
    memory = ModelStage(model_path="path/to/model").with_(resources=Resources(gpu_memory_gb=10))
    assert quarter.resources.requires_gpu
    assert memory.resources.requires_gpu
    assert (model_stage.name, custom_filter_stage.name) == ("ModelStage", "custom_filter")
    assert Resources(cpus=4.0, gpu_memory_gb=8.0).requires_gpu
    assert Resources(cpus=8.0, gpus=2.0).requires_gpu


def test_batch_size() -> None:
    assert Tokenize().with_(batch_size=128).batch_size == 128


def test_readers_with_partition_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = JsonlReader(file_paths="jsonl_input/", files_per_partition=50)
    assert reader.files_per_partition == 50
    assert ParquetReader(file_paths="parquet_input/", files_per_partition=50).files_per_partition == 50
    assert JsonlReader(file_paths="jsonl_input/", blocksize="1GB").blocksize == "1GB"


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").mkdir()
    for number in range(3):
        (tmp_path / "input" / f"{number}.jsonl").write_text(json.dumps({"text": f"document {number}"}) + "\n")
    return tmp_path


def test_a_pipeline_with_the_default_executor(working_directory: Path) -> None:
    pipeline = Pipeline(name="my_pipeline", description="Process text documents")
    pipeline.add_stage(JsonlReader(file_paths="input/"))

    # Add text processing stages
    pipeline.add_stage(Tokenize())
    pipeline.add_stage(ModelStage("path").with_(resources=Resources(cpus=2.0)))

    pipeline.add_stage(JsonlWriter(path="output/"))

    # Execute the pipeline
    results = pipeline.run()
    assert len(results) == 3
    written = [path.read_text() for path in sorted((working_directory / "output").glob("*.jsonl"))]
    assert written == ['{"text": "document 0"}\n', '{"text": "document 1"}\n', '{"text": "document 2"}\n']


def test_the_executor_takes_the_settings_of_the_original(working_directory: Path, cluster: LocalCluster) -> None:
    executor = DaskExecutor(
        config={
            "execution_mode": "streaming",  # or "batch"
            "cpu_allocation_percentage": 0.95,  # Reserve 5% for system
            "autoscale_interval_s": 180,  # Adjust workers every 3 minutes
            "logging_interval": 60,  # Log status every minute
        },
        cluster=cluster,
    )
    pipeline = Pipeline("my_pipeline", stages=[JsonlReader("input/"), custom_filter_stage, JsonlWriter("output/")])
    results = pipeline.run(executor=executor)
    assert (len(results), results.report.stages[1].dropped) == (0, {"custom_filter": 3})
