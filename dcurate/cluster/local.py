"""An embedded cluster: a scheduler in this process and worker processes on this machine."""

from __future__ import annotations

import logging
import math
import multiprocessing
from contextlib import AbstractContextManager, ExitStack
from typing import Any, cast

import dask
from dask.system import CPU_COUNT
from distributed import Client, Nanny, SpecCluster
from distributed import LocalCluster as DaskLocalCluster
from distributed.system import MEMORY_LIMIT

from dcurate.cluster import cuda
from dcurate.cluster.base import Cluster
from dcurate.errors import ResourceError, RunError

#: How long a worker may take to start, in seconds.
START_S = 45

#: What a script must do whose workers could not start because they began to run it, too.
NO_GUARD = 'in a script, put the lines that run the pipeline under: if __name__ == "__main__":'

#: Settings of Dask that the engine relies on.
DASK_SETTINGS: dict[str, Any] = {
    "distributed.scheduler.work-stealing": True,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.worker.daemon": True,
    # Dask has glibc give memory back at once, which also makes every allocation above 128 KiB a fresh mapping: batches
    # are made of such, and faulting their pages in again and again cost a sixth of the CPU of a filter run.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 << 20,
    # Ctrl-C reaches every process of a terminal; the driver alone acts on it and stops the workers.
    "distributed.worker.preload": ["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],
}


class LocalCluster(Cluster):
    """Workers on this machine: one process of one thread a CPU, and one a GPU where there are any.

    CPUs and memory are those that this process may really use, inside a container too.

    Args:
        n_workers: CPU worker processes; one for each CPU if not given.
        memory_limit: bytes that one worker may use; an equal share of the memory if not given.
        gpus: whether to start workers for GPUs; None means if there are any.
        cpu_share: share of the CPUs to use where ``n_workers`` is not given.
        dashboard: whether to serve Dask's dashboard, on a free port of this machine; needs bokeh.

    Raises:
        ResourceError: when opened: ``gpus=True`` and there is no GPU, or not the packages to use it.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        memory_limit: int | None = None,
        gpus: bool | None = None,
        cpu_share: float = 1.0,
        dashboard: bool = False,
    ) -> None:
        super().__init__()
        if n_workers is not None and n_workers < 1:
            raise ResourceError(f"n_workers={n_workers} must be at least 1")
        self.n_workers = n_workers or max(1, math.ceil(CPU_COUNT * cpu_share))
        self.memory_limit = memory_limit or int(MEMORY_LIMIT * 0.9 / self.n_workers)
        self.gpus = gpus
        self.dashboard = dashboard

    def _connect(self, stack: ExitStack) -> Client:
        if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker that imports the script anew
            raise RunError(NO_GUARD)
        stack.enter_context(dask.config.set(DASK_SETTINGS))
        devices = cuda.devices() if self.gpus is not False else []
        if self.gpus and not devices:
            raise ResourceError("gpus=True, but NVML finds no GPU on this machine; leave gpus out to run on CPUs")
        quiet = {
            "silence_logs": logging.CRITICAL,
            "dashboard_address": "127.0.0.1:0",
            "scheduler_kwargs": {"dashboard": self.dashboard},
        }
        try:
            cluster = stack.enter_context(self._started(devices, quiet))
        except RuntimeError as error:
            raise RunError(f"the worker processes did not start ({error}); {NO_GUARD}") from error
        return stack.enter_context(Client(cluster, direct_to_workers=True, set_as_default=False))

    def _started(self, devices: list[int], options: dict[str, Any]) -> AbstractContextManager[SpecCluster]:
        if devices:
            return cuda.hybrid_cluster(devices, self._cpu_worker(), self.n_workers, options)
        return cast(
            AbstractContextManager[SpecCluster],
            DaskLocalCluster(
                n_workers=self.n_workers,
                threads_per_worker=1,
                memory_limit=self.memory_limit,
                death_timeout=START_S,
                **options,
            ),
        )

    def _cpu_worker(self) -> dict[str, Any]:
        options = {"nthreads": 1, "memory_limit": self.memory_limit, "env": {"CUDA_VISIBLE_DEVICES": ""}}
        return {"cls": Nanny, "options": options}
