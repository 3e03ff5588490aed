"""CUDA workers and CPU workers under one scheduler.

Untested on a GPU: only the absence of one, and the test mode of dask-cuda that needs none, have been tried. It follows
dask-cuda 26.10, which starts one process a GPU with that GPU first in CUDA_VISIBLE_DEVICES; CPU workers, and further
processes on each GPU, are then added to the same cluster.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dask.utils import parse_bytes
from distributed import SpecCluster

from dcurate.cluster.compat import reconcile
from dcurate.cluster.nannies import GPU_PROCESSES, GPU_THREADS, WORKER_PRELOAD, Spec
from dcurate.cluster.worker_info import visible_gpus
from dcurate.errors import ResourceError


def gpus_here() -> int:
    """Count the GPUs that workers of this machine could use: found by NVML, and allowed by CUDA_VISIBLE_DEVICES."""
    return len(visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES", "all")))


#: Of GPU memory: bytes, a share from 0 to 1, or text such as ``"8GB"``.
Amount = int | float | str


@dataclass(frozen=True)
class GpuMemorySettings:
    """Settings of GPU memory, under the names of dask-cuda; amounts are of a whole GPU.

    The processes on a GPU share it: each has an equal part, where dask-cuda would give each the whole amount.

    Args:
        rmm_pool_size: memory that RMM allocates at the start, and serves allocations from.
        rmm_async: use CUDA's own pool, which grows and shrinks, instead of one of a fixed size.
        rmm_allocator_external_lib_list: libraries that also allocate through RMM: ``"torch"``, ``"cupy"``.
        enable_cudf_spill: let cuDF spill to host memory when the GPU is full.
        device_memory_limit: above this amount, results are spilled to host memory.

    Raises:
        ResourceError: an invalid amount, or settings that exclude each other.

    Examples:
        >>> [GpuMemorySettings(rmm_pool_size=size).options()["rmm_pool_size"] for size in (0.8, "8GB")]
        [0.2, 2000000000]
    """

    rmm_pool_size: Amount | None = None
    rmm_async: bool = False
    rmm_allocator_external_lib_list: tuple[str, ...] = ()
    enable_cudf_spill: bool = False
    device_memory_limit: Amount = 0.8

    def __post_init__(self) -> None:
        if self.rmm_async and self.rmm_pool_size is not None:
            raise ResourceError("rmm_pool_size and rmm_async exclude each other; give one of them")
        unknown = set(self.rmm_allocator_external_lib_list) - {"torch", "cupy"}
        if unknown:
            raise ResourceError(f"rmm_allocator_external_lib_list has {unknown.pop()!r}; there are 'torch' and 'cupy'")
        self.options()

    def options(self) -> dict[str, Any]:
        """Return the options of `LocalCUDACluster` for one of the processes of a GPU."""
        pool = self.rmm_pool_size
        wants_rmm = pool is not None or self.rmm_async or self.enable_cudf_spill
        return {
            # It has numba and CuPy take their memory from RMM, too: else they would look for it beside the pool.
            "pre_import": "cudf" if wants_rmm else None,
            "rmm_pool_size": None if pool is None else part_of("rmm_pool_size", pool),
            "rmm_async": self.rmm_async,
            "rmm_allocator_external_lib_list": list(self.rmm_allocator_external_lib_list) or None,
            "enable_cudf_spill": self.enable_cudf_spill,
            "device_memory_limit": part_of("device_memory_limit", self.device_memory_limit),
        }


def part_of(name: str, amount: Amount) -> int | float:
    """Return the part of an amount for one of the processes of a GPU: a share, or bytes.

    Examples:
        >>> part_of("rmm_pool_size", 0.8), part_of("rmm_pool_size", 2**30), part_of("rmm_pool_size", "4 GiB")
        (0.2, 268435456, 1073741824)
    """
    if isinstance(amount, float) and 0 < amount <= 1:
        return amount / GPU_PROCESSES
    try:
        whole = parse_bytes(amount) if isinstance(amount, str) else amount
    except ValueError:
        whole = 0
    if type(whole) is not int or whole < GPU_PROCESSES:
        raise ResourceError(f"{name}={amount!r} must be bytes, a share from 0 to 1 such as 0.8, or text such as '8GB'")
    return whole // GPU_PROCESSES // 256 * 256  # what RMM takes comes in units of 256


@contextmanager
def hybrid_cluster(
    cpu_workers: Mapping[str, Spec], gpu_memory_limit: int, gpu_memory: GpuMemorySettings, options: Mapping[str, Any]
) -> Iterator[SpecCluster]:
    """Yield a LocalCUDACluster with additional workers: CPU workers, and more processes on its GPUs.

    Args:
        cpu_workers: by name.
        gpu_memory_limit: bytes of host memory that each GPU worker may use.
        gpu_memory: settings of GPU memory.
        options: more of `LocalCUDACluster`.

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
        **gpu_memory.options(),
        **options,
    ) as cluster:
        cluster.worker_spec.update({**more_processes(cluster.worker_spec), **cpu_workers})
        cluster.sync(reconcile, cluster)
        yield cluster


def more_processes(first: Mapping[Any, Spec]) -> dict[str, Spec]:
    """Specify the other processes of each GPU like the first one, which dask-cuda made.

    They have the same GPU, pool and settings.
    """
    made = {}
    for number, spec in enumerate(first.values()):
        for process in range(1, GPU_PROCESSES):
            twin = copy.deepcopy(spec)
            twin["options"]["env"] = {**twin["options"].get("env", {}), "DCURATE_KIND": "gpu"}
            made[f"gpu-{number}-{process}"] = twin
    return made
