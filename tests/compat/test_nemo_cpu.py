"""``dcurate nemo --cpu``: scripts that ask for GPUs run on CPUs."""

import ast
import os
import subprocess
import sys

import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.forked import FORKS

pytest.importorskip("torch")
pytestmark = pytest.mark.cluster

#: A model on a GPU, in a pipeline that begins with tasks of a person's own.
SENTIMENT = """
import pandas as pd
import torch

from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.core.client import RayClient
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.resources import Resources
from nemo_curator.stages.text.filters import ScoreFilter
from nemo_curator.stages.text.filters.heuristic.string import WordCountFilter
from nemo_curator.tasks import DocumentBatch, EmptyTask


class Create(ProcessingStage[EmptyTask, DocumentBatch]):
    name = "create"

    def process(self, _):
        return [DocumentBatch(dataset_name="d", data=pd.DataFrame({"text": ["a b", "c"], "x": [n, 2]})) for n in (0, 1)]


class Model(ProcessingStage[DocumentBatch, DocumentBatch]):
    name = "model"
    resources = Resources(cpus=1.0, gpu_memory_gb=80.0)

    def setup_on_node(self, node_info, worker_metadata):
        torch.save(torch.ones(1), "offset.pt")

    def setup(self, _):
        self.model = torch.nn.Linear(1, 1)
        self.model.load_state_dict({"weight": torch.full((1, 1), 2.0), "bias": torch.zeros(1)})
        self.model.to("cuda")
        self.offset = torch.load("offset.pt", map_location="cuda")

    def process(self, task):
        with torch.no_grad():
            given = torch.tensor(task.data[["x"]].to_numpy(), dtype=torch.float32, device="cuda")
            task.data["y"] = (self.model(given) + self.offset.cuda()).cpu().numpy()[:, 0]
        return task


client = RayClient(num_gpus=2)
client.start()
long = ScoreFilter(WordCountFilter(min_words=2), text_field="text").with_(resources=Resources(gpus=1.0))
tasks = Pipeline("sentiment", stages=[Create(), Model(), long]).run(XennaExecutor())
print(sorted(row for task in tasks for row in task.data[["x", "y"]].to_numpy().tolist()))
client.stop()
"""

#: A join on a GPU with rows that Ray holds.
JOIN = """
import cudf
import pandas as pd
import ray

from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.file_partitioning import FilePartitioningStage
from nemo_curator.stages.resources import Resources
from nemo_curator.tasks import FileGroupTask


class Join(ProcessingStage[FileGroupTask, FileGroupTask]):
    name = "join"
    resources = Resources(gpus=1.0)

    def __init__(self, wanted: ray.ObjectRef):
        self.wanted = wanted
        self.rows: cudf.DataFrame | None = None

    def setup(self, _=None):
        self.rows = ray.get(self.wanted)

    def process(self, task):
        found = [cudf.read_parquet(file, columns=["url"]).merge(self.rows, on="url", how="inner") for file in task.data]
        count = sum(map(len, found))
        return FileGroupTask(dataset_name=task.dataset_name, data=task.data, _metadata={"count": count})


rows = cudf.DataFrame(pd.DataFrame({"url": ["a", "b", "e"]}))
tasks = Pipeline("join", stages=[FilePartitioningStage("in", files_per_partition=1), Join(ray.put(rows))]).run()
print(sorted(task._metadata["count"] for task in tasks))
"""

#: Devices of what is made or moved there, and what of Torch works as it does without a GPU.
DEVICES = """
import pickle

import torch

one, path = torch.ones(1), "one.pt"
made = [
    torch.zeros(2, device="cuda"),
    torch.tensor([1], device=torch.device("cuda", 0)),
    torch.empty(2, device="cuda", pin_memory=True),
    torch.zeros_like(one, device="cuda:1"),
    one.new_full((2,), 1.0, device="cuda"),
    one.to("cuda:0", torch.float16),
    one.to(device="cuda"),
    one.cuda(0, non_blocking=True),
    one.pin_memory(),
    torch.nn.Linear(1, 1).cuda().to("cuda", torch.float64).weight,
]
with torch.device("cuda"), torch.cuda.device(torch.device("cuda:0")), torch.inference_mode():
    made.append(torch.zeros(1))
torch.save(one, path)
made += [torch.load(path), torch.load(path, "cuda"), torch.load(path, map_location=torch.device("cuda"))]
torch.cuda.set_device(0)
torch.cuda.synchronize()


@torch.jit.script
def scripted(x: torch.Tensor, n: int):
    return x + torch.tensor(n)


assert scripted(one, 2).tolist() == [3]
assert pickle.loads(pickle.dumps(torch.zeros)) is torch.zeros
print(torch.cuda.is_available(), {str(tensor.device) for tensor in made}, made[5].dtype)
"""

NOT_THERE = [
    "import ray.data",
    "from ray import data",
    "import ray; ray.remote",
    "from cudf import no_such_name",
    "import cudf.core.series",
]


def nemo(here, script, *options):
    (here / "script.py").write_text(script)
    command = [sys.executable, "-m", "dcurate.cli", "nemo", *options, "script.py"]
    environment = {**os.environ, **FORKS, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_a_model_that_goes_to_a_gpu_runs_on_cpus(tmp_path):
    done = nemo(tmp_path, SENTIMENT, "--cpu")
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == [[0.0, 1.0], [1.0, 3.0]]
    assert done.stderr.count("stages request no GPU") == 1


def test_without_the_option_a_script_that_needs_a_gpu_names_it(tmp_path):
    script = SENTIMENT.replace("gpu_memory_gb=80.0", "gpus=1")
    done = nemo(tmp_path, script)
    assert done.returncode == 1
    assert "the workers have none" in done.stderr
    assert done.stderr.endswith("\ndcurate nemo --cpu SCRIPT runs what asks for a GPU on CPUs\n")


def test_rows_are_joined_by_pandas_with_those_that_ray_was_given(tmp_path):
    (tmp_path / "in").mkdir()
    for name, urls in {"one": ["a", "b", "c"], "two": ["a", "a", "d"], "three": ["c"]}.items():
        pd.DataFrame({"url": urls, "more": 1}).to_parquet(tmp_path / "in" / f"{name}.parquet")
    done = nemo(tmp_path, JOIN, "--cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[0, 2, 2]"


def test_what_is_made_on_or_moved_to_a_gpu_is_on_the_cpu(tmp_path):
    done = nemo(tmp_path, DEVICES, "--cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False {'cpu'} torch.float16\n"


def test_names_that_are_not_there_say_what_to_do(tmp_path):
    tries = "".join(f"try:\n    {each}\nexcept Exception as error:\n    print(error)\n" for each in NOT_THERE)
    lines = nemo(tmp_path, tries, "--cpu").stdout.splitlines()
    assert len(lines) == len(NOT_THERE)
    for line in lines:
        assert line.endswith(("install ray, and run without --cpu", "install cudf, and run without --cpu")), line
