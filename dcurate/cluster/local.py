"""An embedded cluster: a scheduler in this process and worker processes on this machine."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import product
from typing import Any, cast

import dask
from dask.system import CPU_COUNT
from distributed import Client, Nanny, SpecCluster

from dcurate.cluster import cuda, fork_server
from dcurate.cluster.base import Cluster
from dcurate.cluster.compat import PatientSpecCluster, check_protocol, keep_preload_of_fork_server
from dcurate.cluster.nannies import (
    DASK_SETTINGS,
    GPU_PROCESSES,
    RestartingNanny,
    cause_of_start_failure,
    check_main_program,
    cpu_worker,
    dashboard_options,
    is_lost,
    local_scheduler,
    memory_share,
    memory_shares,
    simulated_gpu_worker,
    start_error,
    tolerate_resource_tracker_exit,
)
from dcurate.cluster.worker_info import SIMULATED_GB
from dcurate.errors import ResourceError, RunError

#: How often to check whether workers have started, in seconds.
SETTLE_S = 0.05
#: The message where the nannies do not know why their workers are gone.
LOST = "the worker processes are gone and did not come back; start the run again with resume=True to go on"


class LocalCluster(Cluster):
    """Workers on this machine: one process of one thread per CPU, and four of four threads per GPU if there are any.

    CPUs and memory are those that this process may use, also inside a container. A pipeline with GPU stages can be
    rehearsed with simulated GPUs: ``LocalCluster(simulate_gpus=2)``.

    Args:
        n_workers: CPU worker processes; one for each CPU if not given.
        memory_limit: bytes that one worker may use; an equal share of the memory if not given.
        gpus: whether to start workers for GPUs; None means if there are any.
        cpu_fraction: share of the CPUs to use where ``n_workers`` is not given.
        dashboard: whether to serve Dask's dashboard, on a free port of this machine; needs bokeh.
        simulate_gpus: number of simulated GPUs; real GPUs are then not used. Stages see no CUDA device there.
        simulated_gpu_memory_gb: memory of each simulated GPU, in GB (10**9 bytes).
        rmm_pool_size: amount of each GPU's memory that RMM allocates at the start, as bytes, text or a share. This and
            the following are named as for dask-cuda; the processes on a GPU share it evenly. Untested on a GPU.
        rmm_async: use CUDA's own pool, which grows and shrinks, instead of one of a fixed size; by default where cuDF
            is installed.
        rmm_allocator_external_lib_list: libraries that also allocate through RMM: ``"torch"``, ``"cupy"``.
        enable_cudf_spill: let cuDF spill to host memory when the GPU is full.
        device_memory_limit: amount of each GPU's memory above which results are spilled to host memory.
        protocol: ``"tcp"``, or ``"ucxx"`` to send data between GPUs directly; needs distributed-ucxx. Untested.

    Raises:
        ResourceError: less than one worker, GPUs both real and simulated, no amount of memory, another protocol; or
            when opened: ``gpus=True`` and there is no GPU, or not the packages to use it.

    Examples:
        >>> LocalCluster(n_workers=2, memory_limit=2**30).n_workers
        2
    """

    def __init__(
        self,
        n_workers: int | None = None,
        memory_limit: int | None = None,
        gpus: bool | None = None,
        cpu_fraction: float = 1.0,
        dashboard: bool = False,
        *,
        simulate_gpus: int = 0,
        simulated_gpu_memory_gb: float = SIMULATED_GB,
        rmm_pool_size: cuda.Amount | None = None,
        rmm_async: bool | None = None,
        rmm_allocator_external_lib_list: Sequence[str] = (),
        enable_cudf_spill: bool = False,
        device_memory_limit: cuda.Amount = 0.8,
        protocol: str = "tcp",
    ) -> None:
        super().__init__()
        if n_workers is not None and (isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1):
            raise ResourceError(f"n_workers={n_workers!r} must be a whole number of at least 1")
        if simulate_gpus < 0 or not 0 < simulated_gpu_memory_gb < math.inf:
            raise ResourceError(
                f"simulate_gpus={simulate_gpus} must be zero or more, and "
                f"simulated_gpu_memory_gb={simulated_gpu_memory_gb:g} more than zero"
            )
        if gpus and simulate_gpus:
            raise ResourceError(
                f"gpus=True asks for real GPUs and simulate_gpus={simulate_gpus} for GPUs that are not there; "
                "give one of them"
            )
        self.n_workers = n_workers or max(1, math.ceil(CPU_COUNT * cpu_fraction))
        self.gpus = gpus
        self.gpu_memory = cuda.GpuMemorySettings(
            rmm_pool_size, rmm_async, tuple(rmm_allocator_external_lib_list), enable_cudf_spill, device_memory_limit
        )
        self.protocol = check_protocol(protocol)
        self.dashboard = dashboard
        self.simulate_gpus = simulate_gpus
        self.simulated_gpu_memory_gb = simulated_gpu_memory_gb
        self.memory_limit = memory_limit or memory_share(self.n_workers + GPU_PROCESSES * simulate_gpus)
        self._gpu_memory_limit = self.memory_limit
        self._shares_memory = memory_limit is None

    @property
    def dashboard_link(self) -> str | None:
        """Address of the page that shows runs; None without ``dashboard=True``."""
        return super().dashboard_link if self.dashboard else None

    @property
    def memory(self) -> int | None:
        return memory_share(1) if self._shares_memory and self._gpu_memory_limit != self.memory_limit else None

    def trouble(self) -> str:
        """Why runs cannot continue; empty while there are workers of each kind, or they are being restarted."""
        kinds: defaultdict[str, list[Nanny | None]] = defaultdict(list)
        for name, nanny in self._nannies().items():
            kinds[str(name).partition("-")[0]].append(nanny)
        for nannies in kinds.values():
            if all(nanny is None or is_lost(nanny) for nanny in nannies):
                reasons = (
                    str(nanny.given_up) for nanny in nannies if isinstance(nanny, RestartingNanny) and nanny.given_up
                )
                return next(reasons, LOST)
        return ""

    def settle(self) -> None:
        """Wait until each worker process is up, or has failed for good.

        Raises:
            RunError: all of a kind have been given up.
        """
        while any(
            isinstance(nanny, RestartingNanny) and not (nanny.is_up or is_lost(nanny))
            for nanny in self._nannies().values()
        ):
            time.sleep(SETTLE_S)
        if trouble := self.trouble():
            raise RunError(trouble)

    def _nannies(self) -> dict[Any, Nanny | None]:
        """Return the nanny of each worker; None where Dask has given it up."""
        cluster = self.client.cluster
        return {name: cluster.workers.get(name) for name in list(cluster.worker_spec)}

    def _connect(self, stack: ExitStack) -> Client:
        check_main_program()
        tolerate_resource_tracker_exit()
        # The profile is a page of the dashboard.
        settings = {**DASK_SETTINGS, "distributed.worker.profile.enabled": self.dashboard}
        stack.enter_context(dask.config.set(settings))
        gpu_count = 0 if self.gpus is False or self.simulate_gpus else cuda.gpus_here()
        if self.gpus and not gpu_count:
            raise ResourceError("gpus=True, but NVML finds no GPU on this machine; leave gpus out to run on CPUs")
        if gpu_count and self._shares_memory:
            self.memory_limit, self._gpu_memory_limit = memory_shares(self.n_workers, gpu_count)
        # Libraries of GPUs have not been tried in forked processes.
        if not gpu_count and fork_server.start(dask.config.get("distributed.nanny.pre-spawn-environ")):
            keep_preload_of_fork_server()
            stack.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}))
        try:
            cluster = stack.enter_context(self._started(gpu_count))
            return stack.enter_context(Client(cluster, direct_to_workers=True, set_as_default=False))
        except ResourceError:
            raise
        except Exception as error:  # of Dask, and of any library that workers load as they start
            raise start_error(error) from cause_of_start_failure(error)

    def _started(self, gpus: int) -> AbstractContextManager[SpecCluster]:
        workers = {f"cpu-{number}": cpu_worker(self.memory_limit) for number in range(self.n_workers)}
        if gpus:
            options = {
                "silence_logs": logging.CRITICAL,
                "dashboard_address": "127.0.0.1:0",
                "scheduler_kwargs": dashboard_options(self.dashboard),
                "protocol": self.protocol,
            }
            return cuda.hybrid_cluster(workers, self._gpu_memory_limit, self.gpu_memory, options)
        gpus, gpu_gb = self.simulate_gpus, self.simulated_gpu_memory_gb
        for number, process in product(range(gpus), range(GPU_PROCESSES)):
            workers[f"gpu-{number}-{process}"] = simulated_gpu_worker(number, gpus, gpu_gb, self.memory_limit)
        scheduler = local_scheduler(self.dashboard, self.protocol)
        cluster = PatientSpecCluster(workers, scheduler, silence_logs=logging.CRITICAL)
        return cast(AbstractContextManager[SpecCluster], cluster)
