"""Workers of dask-cuda itself, on GPUs that only NVML has, with stand-ins for CUDA, RMM and cuDF."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import pyarrow as pa
from distributed import Worker

from dcurate import DocumentBatch, ElasticCluster, LocalCluster
from dcurate.cluster import GpuMemorySettings, Kind, cuda
from dcurate.cluster.worker_info import worker_info
from dcurate.engine.dask.gpu_results import register_results
from dcurate.engine.worker.operator_task import TaskResult

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


def main() -> None:
    vars(cuda)["GPU_PROCESSES"] = 2  # two processes show what four would
    with LocalCluster(n_workers=1, memory_limit=2**31, gpus=True, device_memory_limit=0.5) as cluster:
        every = cluster.client.run(seen)
        local = sorted(every.values(), key=lambda one: (one["kind"], one["visible"]))
        own = next(address for address, one in every.items() if one["kind"] == "gpu")
        (results,) = cluster.client.run(kept, workers=[own]).values()
        # Workers of GPUs import this module as they start, and most of them need no Torch.
        slots = importlib.import_module("tests.cluster.together").two_slots(cluster)
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
