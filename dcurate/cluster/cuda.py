"""CUDA workers and CPU workers under one scheduler.

Untested on a GPU: only the absence of one has been tried. It follows dask-cuda 26.10, which starts one process a
GPU with that GPU first in CUDA_VISIBLE_DEVICES; CPU workers are then added to the same cluster.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import SpecCluster

from dcurate.errors import ResourceError


def devices() -> list[int]:
    """Memory in bytes of each GPU that NVML finds, in NVML's order; empty where there is none."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
        return [int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles]
    finally:
        nvml.nvmlShutdown()


@contextmanager
def hybrid_cluster(
    gpu_memory: Sequence[int], cpu_worker: dict[str, Any], cpu_workers: int, options: dict[str, Any]
) -> Iterator[SpecCluster]:
    """A LocalCUDACluster to which CPU workers are added.

    Raises:
        ResourceError: dask-cuda is not installed.
    """
    try:
        local_cuda_cluster = importlib.import_module("dask_cuda").LocalCUDACluster
    except ImportError as error:
        raise ResourceError(
            f"NVML finds {len(gpu_memory)} GPUs, but dask-cuda cannot be imported ({error}); "
            "install dcurate[cuda13], or use LocalCluster(gpus=False)"
        ) from error
    resources = {"GPU": 1, "GPU_MEMORY": min(gpu_memory)}
    with local_cuda_cluster(resources=resources, **options) as cluster:
        cluster.worker_spec.update({f"cpu-{number}": cpu_worker for number in range(cpu_workers)})
        cluster.sync(cluster._correct_state)
        yield cluster
