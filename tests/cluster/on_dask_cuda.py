"""Workers of dask-cuda itself, on GPUs that only NVML has, with stand-ins for CUDA, RMM and cuDF."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from distributed import Worker

from dcurate import (
    DocumentBatch,
    ElasticCluster,
    GpuMemorySettings,
    InlineExecutor,
    JsonlReader,
    Kind,
    LocalCluster,
    Pipeline,
    Resources,
)
from dcurate.cluster import cuda
from dcurate.cluster.worker_info import worker_info
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.engine.dask.gpu_results import register_results
from dcurate.engine.worker.operator_task import TaskResult
from dcurate.models.tokenizer import TokenizerStage
from tests.cluster.together import ClassifyTogether
from tests.models.stages import Classify
from tests.models.tiny import tiny_classifier

MB = 2**20


def seen(dask_worker: Worker) -> dict[str, Any]:
    """What a worker process has."""
    rmm, info = sys.modules.get("rmm"), worker_info(dask_worker)
    core = sys.modules.get("cuda.core")
    return {
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "order": os.environ.get("CUDA_DEVICE_ORDER"),
        "no_initialize": os.environ.get("RAPIDS_NO_INITIALIZE"),
        "kind": info.kind,
        "gpus": [gpu.name[:6] for gpu in info.gpus],
        "threads": dask_worker.state.nthreads,
        "memory": dask_worker.memory_manager.memory_limit,
        "data": type(dask_worker.data).__name__,
        "cpus": sorted(os.sched_getaffinity(0)),
        "rmm": [] if rmm is None else rmm.ASKED,
        "has_context": core is not None and core.CURRENT == [0],
        "spills": "cudf" in sys.modules and sys.modules["cudf"].get_option("spill"),
    }


def kept(dask_worker: Worker) -> dict[str, Any]:
    """Where a worker of dask-cuda keeps results, with room for two of the three that are on its GPU."""
    frame = importlib.import_module("cudf").DataFrame
    files = importlib.import_module("dask_cuda.device_host_file")
    data = files.DeviceHostFile(dask_worker.local_directory, device_memory_limit=2.5 * MB, memory_limit=64 * MB)
    before = files.is_device_object(_result(frame(1, MB)))
    register_results()
    for number in range(3):
        data[f"gpu-{number}"] = _result(frame(1, MB))
    data["batch"] = DocumentBatch(data=frame(1, 8))
    data["host"] = _result(pa.table({"n": [1]}))
    where = {"device": sorted(data.device), "host": sorted(data.host)}
    where["others"] = sorted(data.others)
    back = data["gpu-0"].outputs[0][0].data
    return {"before": before, **where, "back": [type(back).__module__, back.size], "after": sorted(data.device)}


def _result(frame: Any) -> TaskResult:
    batch = DocumentBatch(data=frame)
    return TaskResult(outputs=[[batch]], stats=[[]], files=[[]], sizes=[[batch.nbytes]])


def two_slots(cluster: LocalCluster) -> dict[str, Any]:
    """A small model in two slots of one process of a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_classifier(Path(folder, "model"), ["yes", "no"])
        Path(folder, "in").mkdir()
        for file in range(8):
            rows = [{"id": 10 * file + row, "text": "the fox " * (row + 1)} for row in range(10)]
            Path(folder, "in", f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        half = Resources(cpus=1, gpus=0.5)
        labels: list[dict[int, str]] = []
        for stage, executor in (
            (
                ClassifyTogether(str(model), device="cpu", folder=folder).with_(resources=half),
                DaskExecutor(cluster=cluster),
            ),
            (Classify(str(model), device="cpu"), InlineExecutor()),
        ):
            stages: list[Any] = [JsonlReader(f"{folder}/in", files_per_partition=1), TokenizerStage(str(model)), stage]
            found = Pipeline("slots", stages=stages).run(executor).to_pandas()
            labels.append(dict(zip(found["id"].tolist(), found["label"].tolist(), strict=True)))
        notes = [path.name.split("-")[1:] for path in Path(folder).glob("note-*")]
    processes, slots, models = zip(*notes, strict=True)
    counts = {"processes": len({*processes}), "slots": len({*slots}), "models": len({*models})}
    return {**counts, "rows": len(labels[0]), "equal": labels[0] == labels[1]}


def main() -> None:
    vars(cuda)["GPU_PROCESSES"] = 2  # two processes show what four would
    with LocalCluster(n_workers=1, memory_limit=2**31, gpus=True, device_memory_limit=0.5) as cluster:
        every = cluster.client.run(seen)
        local = sorted(every.values(), key=lambda one: (one["kind"], one["visible"]))
        own = next(address for address, one in every.items() if one["kind"] == "gpu")
        (results,) = cluster.client.run(kept, workers=[own]).values()
        slots = two_slots(cluster)
    settings = GpuMemorySettings(rmm_pool_size="8GB", enable_cudf_spill=True)
    kinds = {"card": Kind.gpus_here(minimum=1, memory_limit=2**31, gpu_memory=settings)}
    with ElasticCluster(kinds) as elastic:
        client = elastic.client
        client.wait_for_workers(1)
        shape = elastic.shapes["card"].to_dict()
        (alone,), (spilling,) = client.run(seen).values(), client.run(kept).values()
    said = {"local": local, "alone": alone, "shape": shape, "results": results, "spilling": spilling, "slots": slots}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
