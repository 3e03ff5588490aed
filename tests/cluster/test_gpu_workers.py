"""Workers for GPUs, as far as a stand-in for dask-cuda tells that has its signature and starts real workers."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import pytest
from distributed import Nanny, SpecCluster, Worker
from distributed.diagnostics.plugin import WorkerPlugin

from dcurate import LocalCluster, ResourceError
from dcurate.cluster import Kind, cuda, nannies
from dcurate.cluster.nannies import GPU_PROCESSES, GPU_THREADS, local_scheduler
from dcurate.cluster.worker_info import VisibleGpu
from tests.frames.stand_in import signature_of

pytestmark = pytest.mark.cluster

CALLS: list[dict[str, Any]] = []


class Pool(WorkerPlugin):
    """What dask-cuda's ``RMMSetup`` is: a plugin that travels with the specification of a worker."""

    def __init__(self, size: Any) -> None:
        self.size = size

    def setup(self, worker: Worker) -> None:
        worker.pool = self.size


class LocalCUDACluster(SpecCluster):
    """Starts a worker for each of two GPUs, named and made as dask-cuda 26.10 names and makes them."""

    def __init__(self, **options: Any) -> None:
        bound = signature_of("dask_cuda.LocalCUDACluster.__init__").bind(self, **options)
        CALLS.append({name: value for name, value in bound.arguments.items() if name != "self"})
        specs = {}
        for number in range(2):
            seen = ",".join(map(str, [number, 1 - number]))
            own = {"nthreads": options["threads_per_worker"], "env": {"CUDA_VISIBLE_DEVICES": seen}}
            specs[number] = {
                "cls": Nanny,
                "options": {**own, "host": "127.0.0.1", "plugins": {Pool(options["rmm_pool_size"])}},
            }
        super().__init__(specs, local_scheduler(), silence_logs=options["silence_logs"])


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("dask_cuda")
    vars(module)["LocalCUDACluster"] = LocalCUDACluster
    monkeypatch.setitem(sys.modules, "dask_cuda", module)
    monkeypatch.setattr(cuda, "gpus_here", lambda: 2)


def seen(dask_worker: Worker) -> tuple[str, int, Any]:
    return os.environ["CUDA_VISIBLE_DEVICES"], dask_worker.state.nthreads, getattr(dask_worker, "pool", None)


def test_processes_on_a_gpu_are_like_its_first_and_share_its_memory(two_gpus: None) -> None:
    with LocalCluster(n_workers=1, rmm_pool_size=0.8, enable_cudf_spill=True, device_memory_limit="8GB") as cluster:
        every = sorted(cluster.client.run(seen).values(), key=str)
        limits = cluster.client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit).values()
        assert cluster.memory == nannies.memory_share(1), "the limits of processes of one GPU overlap"
    share = 0.8 / GPU_PROCESSES
    on_gpus = [(gpu, GPU_THREADS, share) for gpu in ("0,1", "1,0") for _ in range(GPU_PROCESSES)]
    assert every == sorted([("", 1, None), *on_gpus], key=str)
    given = CALLS[-1]
    assert nannies.memory_shares(1, 2) in {(limit, given["memory_limit"]) for limit in limits}
    assert (given["rmm_pool_size"], given["device_memory_limit"]) == (share, 8 * 10**9 // GPU_PROCESSES)
    assert (given["enable_cudf_spill"], given["rmm_async"], given["pre_import"]) == (True, False, "cudf")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rmm_pool_size": 1.5}, r"rmm_pool_size=1.5 must be bytes, a share from 0 to 1 such as 0.8, or text such as"),
        ({"rmm_pool_size": "much"}, "rmm_pool_size='much' must be bytes"),
        ({"device_memory_limit": 0}, "device_memory_limit=0 must be bytes"),
        ({"rmm_pool_size": 0.5, "rmm_async": True}, "rmm_pool_size and rmm_async exclude each other"),
        ({"rmm_allocator_external_lib_list": ["jax"]}, "has 'jax'; there are 'torch' and 'cupy'"),
        (
            {"rmm_allocator_external_lib_list": ["torch"], "rmm_async": False},
            "rmm_allocator_external_lib_list needs a pool, because RMM would else ask the driver for each tensor; give",
        ),
        ({"protocol": "ucx"}, "protocol='ucx' must be one of 'tcp', 'ucxx'"),
        ({"protocol": "ucxx"}, r"protocol='ucxx' needs distributed-ucxx: pip install distributed-ucxx-cu13, or"),
    ],
)
def test_memory_of_a_gpu_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ResourceError, match=said):
        LocalCluster(**options)


def test_libraries_that_allocate_from_rmm_have_it_take_memory_from_a_pool() -> None:
    options = cuda.GpuMemorySettings(rmm_allocator_external_lib_list=("torch",)).options()
    assert (options["rmm_async"], options["rmm_release_threshold"]) == (True, cuda.KEPT / GPU_PROCESSES)
    assert (options["rmm_pool_size"], options["pre_import"]) == (None, "cudf")
    fixed = cuda.GpuMemorySettings(rmm_pool_size=0.8, rmm_allocator_external_lib_list=("torch",)).options(processes=1)
    assert (fixed["rmm_async"], fixed["rmm_release_threshold"], fixed["rmm_pool_size"]) == (False, None, 0.8)


@pytest.mark.parametrize(("gib", "cpus", "gpus"), [(128, 16, 1), (2048, 224, 8), (16, 4, 1), (3, 2, 2)])
def test_processes_of_gpus_may_read_a_model_while_the_others_are_idle_and_all_fit(
    gib: int, cpus: int, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nannies, "MEMORY_LIMIT", gib * 2**30)
    cpu, gpu = nannies.memory_shares(cpus, gpus)
    idle = (GPU_PROCESSES - 1) * nannies.IDLE_GPU_PROCESS
    even = gpus * GPU_PROCESSES * gpu
    assert cpus * cpu + min(even, gpus * (gpu + idle)) <= gib * 2**30 * nannies.MEMORY_SHARE
    assert gib < 128 or gpu > 13.5e9, "Llama Guard of 7 B in bfloat16 is 13.5 GB"


@pytest.mark.parametrize(("number", "said"), [(0, "finds no GPUs"), (1, r"maximum=2.*finds 1 GPUs")])
def test_adaptive_workers_need_as_many_gpus_as_there_may_be_of_them(
    number: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "visible_gpus_here", lambda: [VisibleGpu("GPU-a", 8e9)] * number)
    with pytest.raises(ResourceError, match=said):
        Kind.gpus_here(maximum=2)


def test_without_dask_cuda_gpus_that_are_there_are_said_to_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    monkeypatch.setattr(cuda, "gpus_here", lambda: 1)
    with pytest.raises(ResourceError, match=r"NVML finds GPUs, but dask-cuda cannot be imported .*; install dcurate"):
        LocalCluster(n_workers=1).open()
