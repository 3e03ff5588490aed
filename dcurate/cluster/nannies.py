"""Worker processes of this machine, as specifications for Dask's `SpecCluster`."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import sys
import warnings
from collections.abc import Mapping
from multiprocessing import resource_tracker
from typing import Any

import dask
import psutil
from dask.system import CPU_COUNT
from distributed import Nanny, Scheduler, Status
from distributed.system import MEMORY_LIMIT
from tornado.ioloop import PeriodicCallback

from dcurate.cluster import fork_server
from dcurate.cluster.compat import ObservableNanny
from dcurate.errors import DcurateError, RunError
from dcurate.fs.temporary import folder_of_host

#: How long a worker may take to start, in seconds.
START_S = 120
#: How often in a row a worker is started that is killed before it is up.
STARTS = 4
#: How often a nanny checks its worker, in seconds.
LOOK_S = 0.5
#: A starting worker hangs if it gets no CPU time and is never woken between two looks, this many times in a row:
#: 15 seconds. (Looks are counted, because time also passes while all processes of a run are stopped.)
HANGING_LOOKS = 30
#: How often a worker may hang while it starts: it is started again once.
HANGS = 2
#: Share of the memory that workers may use together.
MEMORY_SHARE = 0.9
#: Worker processes per GPU, so that each can hold one operator, and threads of each: slots that it can run.
GPU_PROCESSES, GPU_THREADS = 4, 4
#: Share of that memory for the CPU workers where there are GPUs; the processes of GPUs have the rest.
CPU_MEMORY_SHARE = 0.6
#: What a process of a GPU takes that holds no model.
IDLE_GPU_PROCESS = 2**30

#: The message for a script without a main guard, which its workers began to run, too.
NO_GUARD = 'in a script, put the lines that run the pipeline under: if __name__ == "__main__":'

#: Name of a worker's process, given by its nanny.
WORKER_PROCESS = "Dask Worker process"
#: Exit code of a process of which Dask does not know how it ended.
UNKNOWN_EXIT = 255

#: Run first in each worker process. (Not in a worker within another process, such as a test.)
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

#: Dask settings that the engine relies on.
DASK_SETTINGS: dict[str, Any] = {
    "distributed.scheduler.work-stealing": True,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.worker.daemon": True,
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in fork_server.ALLOCATOR.items()},
    "distributed.worker.preload": WORKER_PRELOAD,
    # CUDA would number GPUs by their speed, and NVML numbers them by their bus.
    "distributed.nanny.environ.CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    # What Dask looks at many times a second whether or not there is work; together this took 4 % of the CPU.
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "250ms",
}

#: A process as specified for `SpecCluster`.
Spec = dict[str, Any]


class RestartingNanny(ObservableNanny):
    """A nanny that restarts its worker whenever it dies, also during its start, until that fails repeatedly.

    Dask's own restarts it only if it dies while nothing else is under way, and tries once.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.given_up: DcurateError | None = None
        self._starting = asyncio.Lock()
        self._exit_code = self._hangs = self._own_ends = 0
        self.periodic_callbacks["dcurate-keep"] = PeriodicCallback(self._restart_if_dead, LOOK_S * 1000)

    async def instantiate(self) -> Status:
        """Start the worker, unless it is up (called by Dask).

        Raises:
            RunError: it was killed as often as it was started, or hung; or what it raised itself while it started.
        """
        async with self._starting:
            self.given_up = None
            self._hangs = 0
            for _ in range(STARTS):
                self._exit_code = 0
                try:
                    status: Status = await self._start_watched()
                except TimeoutError as error:
                    self.given_up = RunError(f"a worker process did not start within {self.death_timeout:g} seconds")
                    raise self.given_up from error
                except (OSError, AttributeError):
                    if not self.died_before_start:
                        raise
                    self.process, status = None, Status.failed
                if self._hangs == HANGS:
                    break
                if status == Status.running:
                    self._own_ends = 0
                own_end = 0 < self._exit_code != UNKNOWN_EXIT  # it would end so again
                if status == Status.running or own_end or self.status not in (Status.init, Status.running):
                    return status
            if self._hangs == HANGS:
                self.given_up = RunError(
                    f"worker processes hang while they start, {HANGS} times in a row for {HANGING_LOOKS * LOOK_S:g} "
                    "seconds; find what they wait for, such as a file system that does not answer, and start the run "
                    "again with resume=True to go on"
                )
                raise self.given_up
            self.given_up = RunError(
                f"worker processes are killed while they start, {STARTS} times in a row; find what kills them, such as "
                "too little memory, and start the run again with resume=True to go on"
            )
            raise self.given_up

    async def _start_watched(self) -> Status:
        """Start the worker as Dask does; kill one that hangs."""
        watching = asyncio.create_task(self._kill_if_hanging())
        try:
            status: Status = await super().instantiate()
            return status
        finally:
            watching.cancel()

    async def _kill_if_hanging(self) -> None:
        before, looks = None, 0
        while looks < HANGING_LOOKS:
            await asyncio.sleep(LOOK_S)
            now = self._progress()
            looks = looks + 1 if now is not None and now == before else 0
            before = now
        self._hangs += 1
        await self.process.process.kill()

    def _progress(self) -> tuple[float, ...] | None:
        """CPU seconds and switches of the process so far, which grow while it starts; None where there is none yet."""
        process = None if self.process is None else self.process.process
        try:
            child = psutil.Process(process.pid) if process is not None and process.pid else None
            return None if child is None else (*child.cpu_times()[:2], *child.num_ctx_switches())
        except psutil.Error:
            return None

    def handles_exit(self, exitcode: int) -> bool:
        """Whether the worker is being started again."""
        self._exit_code = exitcode
        return self._starting.locked()

    async def _restart_if_dead(self) -> None:
        """Restart a worker that died unnoticed by Dask: just as the last start ended, or before all was up."""
        if self.status == Status.running and not self.is_up and self.given_up is None and not self._starting.locked():
            try:
                if await self.instantiate() != Status.running and self.status == Status.running:
                    self._own_ends += 1  # a stage that is set up at once may have ended it
                    if self._own_ends == STARTS:
                        self.given_up = RunError(
                            f"a worker process ends by itself while it starts, {STARTS} times in a row; see the "
                            "workers' log for what ends it, and start the run again with resume=True to go on"
                        )
            except Exception as error:  # of any library that a worker loads
                self.given_up = self.given_up or RunError(f"a worker process cannot be started again: {error!r}")


def is_lost(nanny: Nanny) -> bool:
    """Whether a nanny's worker is gone for good."""
    if isinstance(nanny, RestartingNanny) and (nanny.is_up or nanny.given_up is not None):
        return not nanny.is_up
    return nanny.status in (Status.closing, Status.closed, Status.failed)


def _unregister(name: str, sort: str) -> None:
    """Have the resource tracker forget a resource, also if it was killed and another took its place."""
    resource_tracker.register(name, sort)
    _UNREGISTER(name, sort)


_UNREGISTER = resource_tracker.unregister


def tolerate_resource_tracker_exit() -> None:
    """Make the end of multiprocessing's resource tracker harmless and silent.

    Another is started when one is needed. It does not know the earlier semaphores, and would print a traceback for each
    that is released.
    """
    warnings.filterwarnings("ignore", "resource_tracker: process died unexpectedly", UserWarning)
    vars(resource_tracker)["unregister"] = _unregister


def check_main_program() -> None:
    """Refuse to start workers in a process that imports its parent's script again.

    Workers do not run the main program again where it was read from standard input: there is no file of it.

    Raises:
        SystemExit: this is a worker of Dask; the process that started it reports the missing guard.
        RunError: this is another process; says which guard is missing.
    """
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) == "<stdin>":
        del main.__file__
    process = multiprocessing.current_process()
    if not getattr(process, "_inheriting", False):
        return
    if process.name.startswith(WORKER_PROCESS):
        raise SystemExit(1)  # an error would be shown once for each worker, above the sentence
    raise RunError(NO_GUARD)


def cause_of_start_failure(error: BaseException) -> BaseException | None:
    """Return the error with which workers failed to start; None if they ended silently."""
    chain = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    for cause in chain:
        if isinstance(cause, RunError):
            return cause
        if isinstance(cause, TimeoutError):
            return RunError(
                f"the worker processes did not start within {START_S} seconds, as on a machine that does much else; "
                "start fewer of them with n_workers, or start again later"
            )
    silent = isinstance(chain[-1], AssertionError) or str(chain[-1]).startswith("Nanny failed to start")
    return None if silent else chain[-1]


def start_error(error: BaseException) -> RunError:
    """Return the error for a cluster whose workers did not start."""
    why = cause_of_start_failure(error)
    if isinstance(why, RunError):
        return why
    return RunError(f"the worker processes did not start; {NO_GUARD if why is None else repr(why)}")


def memory_share(processes: int) -> int:
    """Bytes for each of `processes` worker processes."""
    return int(MEMORY_LIMIT * MEMORY_SHARE / processes)


def memory_shares(cpu_workers: int, gpus: int) -> tuple[int, int]:
    """Bytes for each CPU worker, and for each process of a GPU, on a machine with GPUs.

    Limits of the processes of one GPU overlap: the files of a model are memory of the one that loads it, while the
    others need little.
    """
    total = MEMORY_LIMIT * MEMORY_SHARE
    part = total * (1 - CPU_MEMORY_SHARE) / gpus
    per_process = max(part / GPU_PROCESSES, part - (GPU_PROCESSES - 1) * IDLE_GPU_PROCESS)
    return int(total * CPU_MEMORY_SHARE / cpu_workers), int(per_process)


def local_scheduler(dashboard: bool = False, protocol: str = "tcp") -> Spec:
    """Specify a scheduler in this process, reachable from this machine only; its dashboard is on a free port."""
    options = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0", **dashboard_options(dashboard)}
    return {"cls": Scheduler, "options": {**options, "protocol": protocol, **_local_directory()}}


def dashboard_options(dashboard: bool) -> dict[str, Any]:
    """Options of a scheduler with a dashboard, which shows the page of runs from the start."""
    return {"dashboard": dashboard, "preload": ["dcurate.preload"] if dashboard else []}


def cpu_worker(memory_limit: int | None = None) -> Spec:
    """Specify a process of one thread that sees no GPU."""
    return _process(1, memory_limit, {"CUDA_VISIBLE_DEVICES": "", "DCURATE_KIND": "cpu", "DCURATE_SIMULATED_GPUS": ""})


def simulated_gpu_worker(number: int, gpus: int, gpu_gb: float, memory_limit: int | None = None) -> Spec:
    """Specify a process that announces a simulated GPU.

    Args:
        number: position of its GPU; it also sees the others, as a worker of dask-cuda does.
        gpus: number of GPUs.
        gpu_gb: memory of each, in GB (10**9 bytes).
    """
    seen = [*range(number, gpus), *range(number)]
    variables = {
        "CUDA_VISIBLE_DEVICES": "",
        "DCURATE_KIND": "gpu",
        "DCURATE_SIMULATED_GPUS": ",".join(map(str, seen)),
        "DCURATE_SIMULATED_GPU_MEMORY_GB": str(gpu_gb),
    }
    return _process(GPU_THREADS, memory_limit, variables)


def gpu_process(memory_limit: int | None, environment: Mapping[str, str]) -> Spec:
    """Specify a process of a GPU, without what dask-cuda adds to it."""
    return _process(GPU_THREADS, memory_limit, {**environment, "DCURATE_KIND": "gpu"})


def _process(threads: int, memory_limit: int | None, environment: dict[str, str]) -> Spec:
    options = {
        "nthreads": threads,
        "memory_limit": memory_limit or memory_share(CPU_COUNT),
        "host": "127.0.0.1",
        "death_timeout": START_S,
        "silence_logs": logging.CRITICAL,
        "env": environment,
    }
    return {"cls": RestartingNanny, "options": {**options, **_local_directory()}}


def _local_directory() -> dict[str, str]:
    """The spill directory, unless Dask's configuration has one: a folder that nobody else may read."""
    return {} if dask.config.get("temporary-directory", None) else {"local_directory": str(folder_of_host("dask"))}
