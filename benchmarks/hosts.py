"""Hosts that are not there: processes that hold many real Dask workers each, around a real scheduler, over TCP.

``with Hosts([...]) as hosts`` starts them here. ``python -m benchmarks.hosts --scheduler ADDRESS --spec JSON`` starts
one host elsewhere (with ``--part`` some of its workers). A host declares what it pretends to have, so a laptop can
stand for machines with 128 cores and 8 GPUs, for stages that only sleep. What idle workers do to watch themselves is
turned off: a hundred of them must not take the machine from what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dask
import psutil
from distributed import Client, Scheduler, Worker

import benchmarks.sleeping  # noqa: F401  a run is not to wait until every host has imported what it needs
from benchmarks.measure import ROOT
from dcurate.cluster.nannies import GPU_PROCESSES, GPU_THREADS
from dcurate.cluster.worker_info import VisibleGpu, WorkerInfo, set_worker_info

#: Where dcurate keeps what it measured, for later runs.
CACHE = "DCURATE_CACHE"

#: Seconds between the heartbeats of a worker, and between whatever else it does by the clock.
QUIET_S = 20

#: Memory that each worker is allowed by name; nobody looks whether it keeps to it.
WORKER_MEMORY = 2 * 2**30

#: Workers that share a process: they share its lock, too, and would wait for each other if there were many more.
PER_PROCESS = 16
#: Seconds after which Python passes its lock on between threads: these Workers share one process, real ones do not.
SWITCH_S = 0.0005

#: Seconds to wait for a host to stand.
PATIENCE_S = 90

#: Environment of these processes: of what workers say when they come and go only warnings.
QUIET_LOGS = {"DASK_LOGGING__DISTRIBUTED": "warning"}

#: Dask settings for a process that holds many workers.
SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.tick.interval": f"{QUIET_S}s",
    "distributed.admin.tick.cycle": f"{QUIET_S}s",
    "distributed.admin.tick.limit": f"{10 * QUIET_S}s",
    "distributed.admin.system-monitor.interval": f"{QUIET_S}s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.disk": False,
}


@dataclass(frozen=True)
class HostSpec:
    """A host to pretend.

    Args:
        name: of the host.
        cpus: CPU cores, however many worker processes stand for them.
        cpu_workers: CPU workers, of one thread each; no more than that many CPU slots can be used.
        gpus: GPUs; each has as many workers and threads as on a cluster that dcurate starts.
        gpu_memory: bytes of each GPU.
    """

    name: str
    cpus: int
    cpu_workers: int
    gpus: int = 0
    gpu_memory: float = 0.0

    @property
    def workers(self) -> int:
        """How many Dask workers it holds."""
        return self.cpu_workers + GPU_PROCESSES * self.gpus

    def worker_infos(self) -> list[tuple[str, int, WorkerInfo]]:
        """Name, threads and info of each of its workers; their CPUs add up to the host's.

        Examples:
            >>> [(name, info.cpus) for name, _, info in HostSpec("h", cpus=5, cpu_workers=2, gpus=1).worker_infos()][:3]
            [('h-cpu-0', 3.0), ('h-cpu-1', 2.0), ('h-gpu-0-0', 0.0)]
        """
        whole, more = divmod(self.cpus, self.cpu_workers)
        on_cpus = [
            (
                f"{self.name}-cpu-{worker}",
                1,
                WorkerInfo(self.name, float(whole + (worker < more)), memory=WORKER_MEMORY),
            )
            for worker in range(self.cpu_workers)
        ]
        gpus = [VisibleGpu(f"{self.name}-gpu-{gpu}", self.gpu_memory) for gpu in range(self.gpus)]
        on_gpus = [
            (
                f"{self.name}-gpu-{gpu}-{number}",
                GPU_THREADS,
                WorkerInfo(self.name, 0.0, own_first, "gpu", WORKER_MEMORY),
            )
            for gpu in range(self.gpus)
            for number in range(GPU_PROCESSES)
            for own_first in [(*gpus[gpu:], *gpus[:gpu])]
        ]
        return on_cpus + on_gpus


class QuietWorker(Worker):
    """A worker that seldom says that it is well; whatever happens to it is still heard at once."""

    async def heartbeat(self) -> None:
        await super().heartbeat()
        self.periodic_callbacks["heartbeat"].callback_time = QUIET_S * 1000


async def _run_workers(scheduler: str, spec: HostSpec, part: slice) -> None:
    with tempfile.TemporaryDirectory(prefix=f"dcurate-{spec.name}-") as folder:
        workers = []
        for name, threads, info in spec.worker_infos()[part]:
            worker = QuietWorker(
                scheduler,
                name=name,
                nthreads=threads,
                memory_limit=WORKER_MEMORY,
                local_directory=folder,
                host="127.0.0.1",
                dashboard=False,
                heartbeat_interval=f"{QUIET_S}s",
            )
            set_worker_info(worker, info)
            workers.append(worker)
        for start in range(0, len(workers), 16):
            await asyncio.gather(*workers[start : start + 16])
        print("ready", flush=True)
        await _until_stopped()
        await asyncio.gather(*(worker.close(timeout=2, nanny=False) for worker in workers), return_exceptions=True)


async def _run_scheduler() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0") as scheduler:
        print(scheduler.address, flush=True)
        await _until_stopped()


async def _until_stopped() -> None:
    """Until standard input ends: whoever started this process ended it, or is gone itself."""
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


class Hosts:
    """A scheduler and pretended hosts, in processes of their own, for as long as a ``with`` statement lasts.

    Args:
        specs: the hosts.
        modules: modules that each process imports before it is ready, as a run is not to wait for that.

    Raises:
        RuntimeError: when entered: a process ended, or did not come up in time.
    """

    def __init__(self, specs: Sequence[HostSpec], modules: Sequence[str] = ()) -> None:
        self.specs, self.modules = tuple(specs), tuple(modules)
        self._stack = ExitStack()
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.address = self._start(stack, "--serve")
            for spec in self.specs:
                for first in range(0, spec.workers, PER_PROCESS):
                    whose = ("--spec", json.dumps(asdict(spec)), "--part", str(first), str(first + PER_PROCESS))
                    self._start(stack, "--scheduler", self.address, *whose, "--import", *self.modules, wait=False)
            for process in self.processes[1:]:
                _first_line(process)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def client(self) -> Client:
        """A client to close when it is not needed any more."""
        return Client(self.address, direct_to_workers=True, set_as_default=False)

    def cpu_seconds(self) -> list[float]:
        """CPU that each process has used so far, the scheduler's first."""
        return [sum(psutil.Process(process.pid).cpu_times()[:2]) for process in self.processes]

    def _start(self, stack: ExitStack, *options: str, wait: bool = True) -> str:
        command = [sys.executable, "-m", "benchmarks.hosts", *options]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **QUIET_LOGS},
        )
        stack.callback(_end, process)
        self.processes.append(process)
        return _first_line(process) if wait else ""


@contextmanager
def nothing_remembered() -> Iterator[None]:
    """For as long as it lasts, runs of this process know nothing of earlier ones."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory(prefix="dcurate-cache-") as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            del os.environ[CACHE]
            os.environ.update({CACHE: before} if before else {})


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """An empty folder beside what is remembered; its path is the same for each run, as rates are kept by settings."""
    folder = Path(os.environ[CACHE], "diaries")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def busy_cpu() -> float:
    """CPU seconds that this machine has spent so far, on anything."""
    times = psutil.cpu_times()
    return float(times.user + times.system)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    line = process.stdout.readline().strip() if ready else ""
    if not line:
        raise RuntimeError(f"a process of the pretended hosts ended or hung before it was ready: {process.args!s:.300}")
    return line


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.hosts", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--serve", action="store_true", help="be the scheduler")
    parser.add_argument("--scheduler", metavar="ADDRESS")
    parser.add_argument("--spec", type=json.loads, help="fields of HostSpec as JSON")
    parser.add_argument("--part", type=int, nargs=2, default=(0, None), help="of its workers those from one to another")
    parser.add_argument("--import", nargs="*", default=(), dest="modules", metavar="MODULE", help="to import first")
    options = parser.parse_args()
    for module in options.modules:
        importlib.import_module(module)
    dask.config.set(SETTINGS)
    if options.serve:
        running: Any = _run_scheduler()
    else:
        running = _run_workers(options.scheduler, HostSpec(**options.spec), slice(*options.part))
    sys.setswitchinterval(SWITCH_S)
    asyncio.run(running)


if __name__ == "__main__":
    main()
