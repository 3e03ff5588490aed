"""Workers for GPUs, as far as a stand-in for dask-cuda tells that has its signature and starts real workers."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import pytest
from distributed import Nanny, SpecCluster, Worker
from distributed.diagnostics.plugin import WorkerPlugin

from dcurate import LocalCluster
from dcurate.cluster import cuda
from dcurate.cluster.nannies import GPU_PROCESSES, GPU_THREADS, local_scheduler
from dcurate.errors import ResourceError
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
    """Starts a worker for each of two cards, named and made as dask-cuda 26.10 names and makes them."""

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
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("dask_cuda")
    vars(module)["LocalCUDACluster"] = LocalCUDACluster
    monkeypatch.setitem(sys.modules, "dask_cuda", module)
    monkeypatch.setattr(cuda, "gpus_here", lambda: 2)


def seen(dask_worker: Worker) -> tuple[str, int, Any]:
    return os.environ["CUDA_VISIBLE_DEVICES"], dask_worker.state.nthreads, getattr(dask_worker, "pool", None)


def test_processes_on_a_card_are_like_its_first_and_share_its_memory(two_cards: None) -> None:
    with LocalCluster(n_workers=1, rmm_pool_size=0.8, enable_cudf_spill=True, device_memory_limit="8GB") as cluster:
        every = sorted(cluster.client.run(seen).values(), key=str)
    share = 0.8 / GPU_PROCESSES
    on_cards = [(card, GPU_THREADS, share) for card in ("0,1", "1,0") for _ in range(GPU_PROCESSES)]
    assert every == sorted([("", 1, None), *on_cards], key=str)
    given = CALLS[-1]
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
    ],
)
def test_memory_of_a_card_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ResourceError, match=said):
        LocalCluster(**options)


def test_without_dask_cuda_gpus_that_are_there_are_said_to_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    monkeypatch.setattr(cuda, "gpus_here", lambda: 1)
    with pytest.raises(ResourceError, match=r"NVML finds GPUs, but dask-cuda cannot be imported .*; install dcurate"):
        LocalCluster(n_workers=1).open()
