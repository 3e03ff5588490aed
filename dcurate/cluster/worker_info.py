"""Detect what a worker process has: its host, its CPU cores, and the GPUs that it sees.

Detected on the worker itself. The user may override it, with options of ``--preload dcurate.preload`` or with
environment variables.
"""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import psutil

from dcurate.cluster.compat import extensions, memory_limit, own_resources, thread_count
from dcurate.core.gpu_memory import usable_memory
from dcurate.errors import ResourceError

if TYPE_CHECKING:
    from distributed import Worker

#: Default memory of a simulated GPU, in GB (10**9 bytes).
SIMULATED_GB = 80.0

#: A process belongs to Dask if one of its parents does, up to this one.
_GENERATIONS = 3

#: Key of the `WorkerInfo` among the extensions of a Dask worker.
_INFO = "dcurate-announcement"


class VisibleGpu(NamedTuple):
    """A GPU as a process sees it: a name that is the same in every process of the host, and its memory in bytes.

    The memory is what workers may use: see `dcurate.core.gpu_memory.usable_memory`.
    """

    name: str
    memory: float


@dataclass(frozen=True)
class WorkerInfo:
    """The resources of a worker process.

    Args:
        host: the machine it runs on.
        cpus: CPU cores that it counts for; 0 for a GPU worker, which uses cores of the CPU workers beside it.
        gpus: the GPUs that it sees, its own first; memory in bytes, 0 if unknown.
        kind: the cluster's name of this kind of worker.
        memory: bytes that it may use; 0 without a limit.

    Examples:
        >>> worker = WorkerInfo("h0", 0.0, (VisibleGpu("GPU-1", 8e9),), "gpu", 2**30)
        >>> worker.to_dict()["gpus"]
        [['GPU-1', 8000000000.0]]
        >>> WorkerInfo.from_dict(worker.to_dict()) == worker
        True
    """

    host: str
    cpus: float
    gpus: tuple[VisibleGpu, ...] = ()
    kind: str = "cpu"
    memory: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that Dask can send."""
        return {**asdict(self), "gpus": [list(gpu) for gpu in self.gpus]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WorkerInfo:
        """Build the info from the values of `to_dict`."""
        gpus = tuple(VisibleGpu(str(name), float(memory)) for name, memory in values["gpus"])
        host, kind = str(values["host"]), str(values["kind"])
        return cls(host, float(values["cpus"]), gpus, kind, int(values["memory"]))


@dataclass(frozen=True)
class WorkerOverrides:
    """What the user specifies of a worker; None for what is detected.

    Args:
        host: a name for the machine, so that processes of one machine can act as several.
        cpus: CPU cores that the process counts for.
        kind: ``"cpu"`` (no GPU, even if the process sees some), ``"gpu"``, or any other label.
        simulated_gpus: simulated GPUs, the worker's own first; workers of a host share those of one name.
        simulated_gpu_memory_gb: memory of each of these, in GB (10**9 bytes).

    Raises:
        ResourceError: a number that is negative, or simulated GPUs on a worker of kind ``"cpu"``.
    """

    host: str | None = None
    cpus: float | None = None
    kind: str | None = None
    simulated_gpus: tuple[str, ...] | None = None
    simulated_gpu_memory_gb: float | None = None

    def __post_init__(self) -> None:
        for name, amount in (("cpus", self.cpus), ("simulated_gpu_memory_gb", self.simulated_gpu_memory_gb)):
            if amount is not None and not 0 <= amount < float("inf"):
                raise ResourceError(f"{name}={amount:g} must be zero or more")
        if self.kind == "cpu" and self.simulated_gpus:
            raise ResourceError(
                f"a worker of kind 'cpu' has no GPUs, but {len(self.simulated_gpus)} are to be simulated on it; "
                "leave the kind out, or say 'gpu'"
            )

    @classmethod
    def in_environment(cls, environ: Mapping[str, str]) -> WorkerOverrides:
        """Read the overrides from environment variables.

        Raises:
            ResourceError: a value that is no number where one is needed; names the variable.

        Examples:
            >>> WorkerOverrides.in_environment({"DCURATE_HOST": "h1", "DCURATE_SIMULATED_GPUS": "1,0"}).simulated_gpus
            ('1', '0')
        """
        gpus = environ.get("DCURATE_SIMULATED_GPUS")
        return cls(
            host=environ.get("DCURATE_HOST") or None,
            cpus=_number(environ, "DCURATE_CPUS"),
            kind=environ.get("DCURATE_KIND") or None,
            simulated_gpus=None if gpus is None else names(gpus),
            simulated_gpu_memory_gb=_number(environ, "DCURATE_SIMULATED_GPU_MEMORY_GB"),
        )

    def over(self, other: WorkerOverrides) -> WorkerOverrides:
        """Merge with other overrides; these take precedence.

        Examples:
            >>> WorkerOverrides(host="a").over(WorkerOverrides(host="b", kind="gpu"))
            WorkerOverrides(host='a', cpus=None, kind='gpu', simulated_gpus=None, simulated_gpu_memory_gb=None)
        """
        overrides = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **overrides)


def names(listed: str) -> tuple[str, ...]:
    """Split a list such as ``"0,1"`` into names.

    Raises:
        ResourceError: the same name twice.

    Examples:
        >>> names("0, 1")
        ('0', '1')
        >>> names("")
        ()
    """
    gpu_names = tuple(name.strip() for name in listed.split(",") if name.strip())
    if len(set(gpu_names)) < len(gpu_names):
        raise ResourceError(f"GPUs {listed!r} name one of them twice; name each once")
    return gpu_names


def _number(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ResourceError(f"environment variable {name}={text!r} must be a number") from None


def set_worker_info(worker: Worker, info: WorkerInfo) -> None:
    """Set the info of a worker; several workers of one process may each have their own."""
    extensions(worker)[_INFO] = info


def worker_info(worker: Worker) -> WorkerInfo:
    """Return the info of a worker: as set, else as overridden by environment variables, else as detected.

    Raises:
        ResourceError: an environment variable holds what it cannot hold.
    """
    if _INFO not in extensions(worker):
        set_worker_info(worker, detect(worker, WorkerOverrides.in_environment(os.environ)))
    return cast(WorkerInfo, extensions(worker)[_INFO])


def detect(worker: Worker, overrides: WorkerOverrides) -> WorkerInfo:
    """Detect the resources of a worker, except those that are overridden."""
    gpus = _gpus_of(worker, overrides)
    threads = float(thread_count(worker))
    return WorkerInfo(
        host=overrides.host or socket.gethostname(),
        cpus=overrides.cpus if overrides.cpus is not None else 0.0 if gpus else threads,
        gpus=gpus,
        kind=overrides.kind or ("gpu" if gpus else "cpu"),
        memory=int(memory_limit(worker) or 0),
    )


def _gpus_of(worker: Worker, overrides: WorkerOverrides) -> tuple[VisibleGpu, ...]:
    """Return simulated GPUs, else those in CUDA_VISIBLE_DEVICES, else those of the worker's Dask resources."""
    if overrides.simulated_gpus is not None:
        gigabytes = SIMULATED_GB if overrides.simulated_gpu_memory_gb is None else overrides.simulated_gpu_memory_gb
        return tuple(VisibleGpu(f"simulated-{name}", gigabytes * 1e9) for name in overrides.simulated_gpus)
    if overrides.kind == "cpu":
        return ()
    # Without the variable every process of a host sees all of its GPUs, which makes none of them a GPU worker.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "" if overrides.kind is None else "all")
    gpus = visible_gpus(visible) if visible else ()
    if gpus:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as NVML counts them; CUDA has not been asked yet
    resources = own_resources(worker)
    memory = float(resources.get("GPU_MEMORY", 0))
    return gpus or tuple(
        VisibleGpu(f"{worker.name}/{number}", memory) for number in range(int(resources.get("GPU", 0)))
    )


def visible_gpus(visible: str) -> tuple[VisibleGpu, ...]:
    """Return the GPUs that a process sees, from NVML; none without NVML.

    Args:
        visible: GPUs in the format of CUDA_VISIBLE_DEVICES: indices, UUIDs (or their beginnings), in order; ``"all"``
            for all.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        gpus, parts = [], []
        for number in range(nvml.nvmlDeviceGetCount()):
            gpu = _handle(nvml, nvml.nvmlDeviceGetHandleByIndex, number)
            if gpu is not None:
                gpus.append(_visible_gpu(nvml, gpu))
                parts += [_visible_gpu(nvml, part) for part in _parts(nvml, gpu)]
        return choose(visible, gpus, parts)
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Ask NVML; return None for a GPU that this process may not use, or that does not exist."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return None


def _parts(nvml: Any, gpu: Any) -> list[Any]:
    """Return the MIG instances of a GPU."""
    most = _handle(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, gpu) or 0
    parts = [_handle(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, number) for number in range(most)]
    return [part for part in parts if part is not None]


def _visible_gpu(nvml: Any, handle: Any) -> VisibleGpu:
    memory = _handle(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    usable = usable_memory(memory.total, _held_by_others(nvml, handle)) if memory is not None else 0.0
    return VisibleGpu(str(nvml.nvmlDeviceGetUUID(handle)), usable)


def _held_by_others(nvml: Any, handle: Any) -> int:
    """Bytes of a GPU that processes hold which are not of Dask; 0 where NVML does not say."""
    held: dict[int, int] = {}
    for ask in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        for process in _handle(nvml, ask, handle) or ():
            if not _is_of_dask(process.pid):
                held[process.pid] = process.usedGpuMemory or 0
    return sum(held.values())


def _is_of_dask(pid: int) -> bool:
    """Whether a process is a worker of Dask, or was started by one; siblings of this process are workers."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        family = [process, *process.parents()[:_GENERATIONS]]
        own_pids = {os.getpid(), *(parent.pid for parent in psutil.Process().parents()[:1])}
        return any(member.pid in own_pids or any("dask" in word for word in member.cmdline()[:3]) for member in family)
    return False


def choose(visible: str, gpus: Sequence[VisibleGpu], parts: Sequence[VisibleGpu] = ()) -> tuple[VisibleGpu, ...]:
    """Return the GPUs that CUDA shows a process: those listed, up to the first that does not exist.

    Args:
        visible: GPUs in the format of CUDA_VISIBLE_DEVICES, or ``"all"``.
        gpus: the GPUs of the machine, in order.
        parts: MIG instances.

    Examples:
        >>> two = [VisibleGpu("GPU-aa", 8e9), VisibleGpu("GPU-bb", 8e9)]
        >>> [gpu.name for gpu in choose("1,0", two)]
        ['GPU-bb', 'GPU-aa']
        >>> [gpu.name for gpu in choose("GPU-b,7,0", two)]
        ['GPU-bb']
        >>> choose("", two)
        ()
    """
    if visible == "all":
        return tuple(gpus)
    chosen: list[VisibleGpu] = []
    for token in (part.strip() for part in visible.split(",")):
        if token.isdigit():
            meant = list(gpus[int(token) :][:1])
        else:
            meant = [gpu for gpu in (*gpus, *parts) if token and gpu.name.startswith(token)]
        if len(meant) != 1:
            break
        chosen += meant
    return tuple(chosen)
