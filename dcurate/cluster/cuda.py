"""CUDA workers and CPU workers under one scheduler.

Untested on a GPU: only the absence of one has been tried. It follows dask-cuda 26.10, which starts one process a
GPU with that GPU first in CUDA_VISIBLE_DEVICES; CPU workers are then added to the same cluster.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from distributed import SpecCluster

from dcurate.cluster.nannies import GPU_THREADS, WORKER_PRELOAD, Spec
from dcurate.errors import ResourceError
from dcurate.worker.announce import visible_cards


def gpus_here() -> int:
    """How many GPUs workers of this machine could use: those that NVML finds and CUDA_VISIBLE_DEVICES allows."""
    return len(visible_cards(os.environ.get("CUDA_VISIBLE_DEVICES", "all")))


@contextmanager
def hybrid_cluster(
    more_workers: Mapping[str, Spec], gpu_memory_limit: int, options: Mapping[str, Any]
) -> Iterator[SpecCluster]:
    """A LocalCUDACluster to which workers are added: CPU workers, and more processes on its GPUs.

    Args:
        more_workers: by name.
        gpu_memory_limit: bytes of the machine's memory that each GPU worker may use.
        options: of `LocalCUDACluster`.

    Raises:
        ResourceError: dask-cuda is not installed.
    """
    try:
        local_cuda_cluster = importlib.import_module("dask_cuda").LocalCUDACluster
    except ImportError as error:
        raise ResourceError(
            f"NVML finds GPUs, but dask-cuda cannot be imported ({error}); "
            "install dcurate[cuda13], or use LocalCluster(gpus=False)"
        ) from error
    with local_cuda_cluster(
        threads_per_worker=GPU_THREADS,
        memory_limit=gpu_memory_limit,
        preload=WORKER_PRELOAD,  # its own preload would else take the place of the one in Dask's settings
        **options,
    ) as cluster:
        cluster.worker_spec.update(more_workers)
        cluster.sync(cluster._correct_state)
        yield cluster
