"""Worker processes of this machine, as Dask's `SpecCluster` takes them."""

from __future__ import annotations

import logging
import multiprocessing
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Nanny, Scheduler
from distributed.system import MEMORY_LIMIT

from dcurate.core.temporary import folder_of_host
from dcurate.errors import RunError

#: How long a worker may take to start, in seconds.
START_S = 120
#: Share of the memory that workers may use together.
MEMORY_SHARE = 0.9
#: Worker processes on each GPU, so that each can hold one operator, and their threads: so many slots can each run.
GPU_PROCESSES, GPU_THREADS = 4, 4

#: What a script must do whose workers could not start because they began to run it, too.
NO_GUARD = 'in a script, put the lines that run the pipeline under: if __name__ == "__main__":'

#: How the process of a worker is named by its nanny.
WORKER_PROCESS = "Dask Worker process"

#: What each worker process does first. (Not a worker within a process of something else, such as a test.)
WORKER_PRELOAD = [
    """
import logging, signal, threading
if threading.current_thread() is threading.main_thread():
    # Ctrl-C reaches every process of a terminal; the driver alone acts on it and stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A worker that leaves would else say so on the terminal.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
"""
]

#: Settings of Dask that the engine relies on.
DASK_SETTINGS: dict[str, Any] = {
    "distributed.scheduler.work-stealing": True,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.worker.daemon": True,
    # Dask has glibc give memory back at once, which also makes every allocation above 128 KiB a fresh mapping: batches
    # are made of such, and faulting their pages in again and again cost a sixth of the CPU of a filter run.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "distributed.worker.preload": WORKER_PRELOAD,
    # What Dask looks at many times a second whether or not there is work; together this took 4 % of the CPU.
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "250ms",
}

#: A process as `SpecCluster` takes it.
Spec = dict[str, Any]


def refuse_inside_a_worker() -> None:
    """Refuse to start workers in a process that imports its parent's script anew.

    Raises:
        SystemExit: this is a worker of Dask; the process that started it says what the script lacks.
        RunError: this is a process of something else; says what the script lacks.
    """
    process = multiprocessing.current_process()
    if not getattr(process, "_inheriting", False):
        return
    if process.name.startswith(WORKER_PROCESS):
        raise SystemExit(1)  # an error would be shown once for each worker, above the sentence
    raise RunError(NO_GUARD)


def said_why(error: BaseException) -> BaseException | None:
    """Why workers did not start, where one of them said so; None where the processes ended without a word."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__ or first
    silent = isinstance(first, AssertionError) or str(first).startswith("Nanny failed to start")
    return None if silent else first


def memory_share(processes: int) -> int:
    """Bytes for each of so many worker processes."""
    return int(MEMORY_LIMIT * MEMORY_SHARE / processes)


def local_scheduler(dashboard: bool = False) -> Spec:
    """A scheduler in this process that this machine alone can reach; the dashboard is on a free port."""
    options = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0", **dashboard_options(dashboard)}
    return {"cls": Scheduler, "options": {**options, **_local_directory()}}


def dashboard_options(dashboard: bool) -> dict[str, Any]:
    """What a scheduler is told of its dashboard: where there is one, it has the page of runs from the beginning."""
    return {"dashboard": dashboard, "preload": ["dcurate.preload"] if dashboard else []}


def cpu_worker(memory_limit: int | None = None) -> Spec:
    """A process of one thread that sees no GPU, whatever there is."""
    return _process(1, memory_limit, {"CUDA_VISIBLE_DEVICES": "", "DCURATE_KIND": "cpu", "DCURATE_SIMULATED_GPUS": ""})


def simulated_gpu_worker(number: int, cards: int, card_gb: float, memory_limit: int | None = None) -> Spec:
    """A process that says it has a GPU that is not there.

    Args:
        number: of its card; it sees the others, too, as a worker of dask-cuda does.
        cards: how many there are.
        card_gb: memory of each, in GB (10**9 bytes).
    """
    seen = [*range(number, cards), *range(number)]
    said = {
        "CUDA_VISIBLE_DEVICES": "",
        "DCURATE_KIND": "gpu",
        "DCURATE_SIMULATED_GPUS": ",".join(map(str, seen)),
        "DCURATE_SIMULATED_GPU_MEMORY_GB": str(card_gb),
    }
    return _process(GPU_THREADS, memory_limit, said)


def _process(threads: int, memory_limit: int | None, environment: dict[str, str]) -> Spec:
    options = {
        "nthreads": threads,
        "memory_limit": memory_limit or memory_share(CPU_COUNT),
        "host": "127.0.0.1",
        "death_timeout": START_S,
        "silence_logs": logging.CRITICAL,
        "env": environment,
    }
    return {"cls": Nanny, "options": {**options, **_local_directory()}}


def _local_directory() -> dict[str, str]:
    """Where rows are spilled to, if Dask's configuration says nothing: a folder that nobody else may read."""
    return {} if dask.config.get("temporary-directory", None) else {"local_directory": str(folder_of_host("dask"))}
