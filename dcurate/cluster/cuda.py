"""CUDA workers and CPU workers under one scheduler.

Untested on a GPU: dask-cuda 26.10 itself was tried with GPUs that only NVML has. It starts one process a GPU, with that
GPU first in CUDA_VISIBLE_DEVICES; CPU workers, and further processes on each GPU, are then added to the same cluster.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dask.utils import parse_bytes
from distributed import SpecCluster

from dcurate.cluster.compat import reconcile
from dcurate.cluster.nannies import (
    GPU_PROCESSES,
    GPU_THREADS,
    START_S,
    WORKER_PRELOAD,
    RestartingNanny,
    Spec,
    gpu_process,
)
from dcurate.cluster.worker_info import VisibleGpu, visible_gpus
from dcurate.errors import ResourceError


def visible_gpus_here() -> tuple[VisibleGpu, ...]:
    """Return the GPUs that workers of this machine could use: found by NVML, and allowed by CUDA_VISIBLE_DEVICES."""
    return visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))


def gpus_here() -> int:
    """Count the GPUs that workers of this machine could use."""
    return len(visible_gpus_here())


#: Of GPU memory: bytes, a share from 0 to 1, or text such as ``"8GB"``.
Amount = int | float | str
#: Of each GPU: what unused memory of CUDA's own pools may stay with its processes, which others then do not have.
KEPT = 0.25


@dataclass(frozen=True)
class GpuMemorySettings:
    """Settings of GPU memory, under the names of dask-cuda; amounts are of a whole GPU.

    The processes on a GPU share it: each has an equal part, where dask-cuda would give each the whole amount.

    Args:
        rmm_pool_size: memory that RMM allocates at the start, and serves allocations from.
        rmm_async: use CUDA's own pool, which grows and shrinks, instead of one of a fixed size; by default where cuDF
            is installed. Without a pool each array is allocated and freed by the driver, which waits for the GPU.
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
    rmm_async: bool | None = None
    rmm_allocator_external_lib_list: tuple[str, ...] = ()
    enable_cudf_spill: bool = False
    device_memory_limit: Amount = 0.8

    def __post_init__(self) -> None:
        if self.rmm_async and self.rmm_pool_size is not None:
            raise ResourceError("rmm_pool_size and rmm_async exclude each other; give one of them")
        unknown = set(self.rmm_allocator_external_lib_list) - {"torch", "cupy"}
        if unknown:
            raise ResourceError(f"rmm_allocator_external_lib_list has {unknown.pop()!r}; there are 'torch' and 'cupy'")
        if self.rmm_allocator_external_lib_list and self.rmm_async is False and self.rmm_pool_size is None:
            raise ResourceError(
                "rmm_allocator_external_lib_list needs a pool, because RMM would else ask the driver for each tensor; "
                "give rmm_pool_size, or leave rmm_async out"
            )
        self.options()

    @property
    def has_async_pool(self) -> bool:
        """Whether memory comes from CUDA's own pool."""
        if self.rmm_async is not None or self.rmm_pool_size is not None:
            return bool(self.rmm_async)
        return bool(self.rmm_allocator_external_lib_list) or importlib.util.find_spec("cudf") is not None

    def options(self, processes: int = GPU_PROCESSES) -> dict[str, Any]:
        """Return the options of `LocalCUDACluster` for each of the processes of a GPU."""
        pool = self.rmm_pool_size
        wants_rmm = pool is not None or self.has_async_pool or self.enable_cudf_spill
        return {
            # It has numba and CuPy take their memory from RMM, too: else they would look for it beside the pool.
            "pre_import": "cudf" if wants_rmm else None,
            "rmm_pool_size": None if pool is None else part_of("rmm_pool_size", pool, processes),
            "rmm_async": self.has_async_pool,
            "rmm_release_threshold": KEPT / processes if self.has_async_pool else None,
            "rmm_allocator_external_lib_list": list(self.rmm_allocator_external_lib_list) or None,
            "enable_cudf_spill": self.enable_cudf_spill,
            "device_memory_limit": part_of("device_memory_limit", self.device_memory_limit, processes),
        }


def part_of(name: str, amount: Amount, processes: int = GPU_PROCESSES) -> int | float:
    """Return the part of an amount for each of the processes of a GPU: a share, or bytes.

    Examples:
        >>> part_of("rmm_pool_size", 0.8), part_of("rmm_pool_size", 2**30), part_of("rmm_pool_size", "4 GiB")
        (0.2, 268435456, 1073741824)
    """
    if isinstance(amount, float) and 0 < amount <= 1:
        return amount / processes
    try:
        total = parse_bytes(amount) if isinstance(amount, str) else amount
    except ValueError:
        total = 0
    if type(total) is not int or total < processes:
        raise ResourceError(f"{name}={amount!r} must be bytes, a share from 0 to 1 such as 0.8, or text such as '8GB'")
    return total // processes // 256 * 256  # what RMM takes comes in units of 256


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
    with _dask_cuda("").LocalCUDACluster(
        threads_per_worker=GPU_THREADS,
        memory_limit=gpu_memory_limit,
        worker_class=RestartingNanny,
        death_timeout=START_S,
        preload=WORKER_PRELOAD,  # its own preload would else take the place of the one in Dask's settings
        **gpu_memory.options(),
        **options,
    ) as cluster:
        cluster.worker_spec.update({**more_processes(cluster.worker_spec), **cpu_workers})
        cluster.sync(reconcile, cluster)
        yield cluster


def _dask_cuda(module: str) -> Any:
    """Import a module of dask-cuda.

    Raises:
        ResourceError: dask-cuda is not installed, or cannot import what it needs itself.
    """
    try:
        return importlib.import_module(f"dask_cuda{module}")
    except ImportError as error:
        raise ResourceError(
            f"NVML finds GPUs, but dask-cuda cannot be imported ({error}); "
            "install dcurate[cuda13], or use LocalCluster(gpus=False)"
        ) from error


def cuda_worker(number: int, memory_limit: int, gpu_memory: GpuMemorySettings) -> Spec:
    """Specify the only process of a GPU as dask-cuda does: with its plugins for RMM, spilling and CPU affinity.

    Args:
        number: position of its GPU among those that this process may use; it also sees the others.
        memory_limit: bytes of host memory.
        gpu_memory: settings of GPU memory.

    Raises:
        ResourceError: dask-cuda is not installed.
    """
    common, utils = _dask_cuda(".worker_common"), _dask_cuda(".utils")
    visible = [utils.parse_cuda_visible_device(name) for name in _visible_devices()]
    seen = utils.cuda_visible_devices(number, visible)
    index, options = utils.nvml_device_index(0, seen), gpu_memory.options(processes=1)
    data = common.worker_data_function(options["device_memory_limit"], memory_limit, options["enable_cudf_spill"])
    plugins = common.worker_plugins(
        device_index=index,
        rmm_initial_pool_size=options["rmm_pool_size"],
        rmm_maximum_pool_size=None,
        rmm_managed_memory=False,
        rmm_async_alloc=options["rmm_async"],
        rmm_release_threshold=options["rmm_release_threshold"],
        rmm_log_directory=None,
        rmm_track_allocations=False,
        rmm_allocator_external_lib_list=options["rmm_allocator_external_lib_list"],
        pre_import=options["pre_import"],
        enable_cudf_spill=options["enable_cudf_spill"],
        cudf_spill_stats=0,
    )
    # No library may have begun to use a GPU before the process knows which is its own.
    spec = gpu_process(memory_limit, {"CUDA_VISIBLE_DEVICES": seen, "RAPIDS_NO_INITIALIZE": "True"})
    preload = {"preload": [*WORKER_PRELOAD, "dask_cuda.initialize"], "preload_argv": ["--create-cuda-context"]}
    return {**spec, "options": {**spec["options"], **preload, "data": data(index), "plugins": plugins}}


def _visible_devices() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return list(map(str, range(gpus_here()))) if visible is None else visible.split(",")[: gpus_here()]


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
