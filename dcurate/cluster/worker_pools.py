"""Start and end the workers of each kind."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask
from dask.system import CPU_COUNT
from dask.utils import parse_timedelta
from distributed import Nanny, SpecCluster

from dcurate.cluster import cuda
from dcurate.cluster.compat import call_scheduler, forget_refused, reconcile
from dcurate.cluster.nannies import GPU_THREADS, Spec, cpu_worker, memory_shares, simulated_gpu_worker
from dcurate.cluster.worker_info import SIMULATED_GB
from dcurate.cluster.worker_shape import Shape
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class Kind:
    """One kind of workers.

    Args:
        shape: the resources of one worker, and how many there may be.
        worker: class and options, as Dask's `SpecCluster` takes them: ``{"cls": Nanny, "options": {...}}``; or a
            function that gives them for the number of a worker, which is less than the maximum. For jobs of several
            worker processes it says ``"group"``, too, as `SpecCluster` has it. Workers must announce the kind by the
            name that it has in the cluster (``--kind NAME``); those whose class is `Nanny` get it.

    Examples:
        >>> Kind.cpus_here(maximum=4).shape.max_slots
        1
    """

    shape: Shape
    worker: Mapping[str, Any] | Callable[[int], Mapping[str, Any]]

    def spec(self, name: str, number: int) -> Spec:
        """Return the class and options of a worker of this kind, named as in the cluster."""
        spec = dict(self.worker(number) if callable(self.worker) else self.worker)
        if isinstance(spec["cls"], type) and issubclass(spec["cls"], Nanny):
            options = dict(spec.get("options", {}))
            spec["options"] = {**options, "env": {**options.get("env", {}), "DCURATE_KIND": name}}
        return spec

    @classmethod
    def cpus_here(cls, maximum: int = CPU_COUNT, minimum: int = 0, memory_limit: int | None = None) -> Kind:
        """Processes of one thread on this machine; ``memory_limit`` in bytes."""
        return cls(Shape(1.0, maximum=maximum, minimum=minimum, host="here"), cpu_worker(memory_limit))

    @classmethod
    def gpus_here(
        cls,
        maximum: int | None = None,
        minimum: int = 0,
        memory_limit: int | None = None,
        gpu_memory: cuda.GpuMemorySettings | None = None,
    ) -> Kind:
        """Processes of four threads on this machine, each with a GPU of its own. Untested on a GPU.

        A process runs one operator that loads a model. dask-cuda gives it its memory pool, spilling, and the CPUs
        beside its GPU.

        Args:
            maximum: number of GPUs to use at most; all that this process may use if not given.
            minimum: number of processes that are always there.
            memory_limit: bytes of host memory that each may use.
            gpu_memory: settings of GPU memory.

        Raises:
            ResourceError: there are no GPUs, or not as many; or when a process is started: dask-cuda is not installed.
        """
        gpus = cuda.visible_gpus_here()
        if not gpus or (maximum or 0) > len(gpus):
            raise ResourceError(
                f"gpus_here(maximum={maximum}): NVML finds {len(gpus) or 'no'} GPUs that this process may use; "
                "give a smaller maximum, or use Kind.simulated_gpus_here()"
            )
        settings = gpu_memory or cuda.GpuMemorySettings()
        limit = memory_limit or memory_shares(CPU_COUNT, len(gpus))[1]
        number = maximum or len(gpus)
        shape = Shape(0.0, 1, min(gpu.memory for gpu in gpus), GPU_THREADS, number, minimum, host="here")
        return cls(shape, lambda worker: cuda.cuda_worker(worker, limit, settings))

    @classmethod
    def simulated_gpus_here(
        cls, maximum: int, minimum: int = 0, memory_gb: float = SIMULATED_GB, memory_limit: int | None = None
    ) -> Kind:
        """Processes on this machine that each announce a simulated GPU of ``memory_gb`` GB."""
        shape = Shape(0.0, 1, memory_gb * 1e9, GPU_THREADS, maximum=maximum, minimum=minimum, host="here")
        return cls(shape, lambda number: simulated_gpu_worker(number, maximum, memory_gb, memory_limit))


class Supply(ABC):
    """Starts and ends the workers of one kind.

    Args:
        shape: the resources of one worker, and how many there may be.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @abstractmethod
    async def entries(self) -> Mapping[Any, Sequence[Any]]:
        """Return the names of the workers of each entry that was started and not ended, whether they joined or not."""

    @abstractmethod
    async def start(self, number: int) -> None:
        """Request more entries."""

    @abstractmethod
    async def end(self, entries: Sequence[Any]) -> None:
        """End entries; their workers have left the scheduler."""

    async def replace_lost(self) -> None:  # noqa: B027
        """Request lost entries again; do nothing where that happens by itself."""


class SpecSupply(Supply):
    """Workers of one kind within a `SpecCluster`, such as dask-jobqueue's: those named after the kind.

    Args:
        cluster: an open cluster.
        name: name of the kind.
        kind: kind of the workers.
    """

    def __init__(self, cluster: SpecCluster, name: str, kind: Kind) -> None:
        super().__init__(kind.shape)
        self.cluster = cluster
        self.name = name
        self.kind = kind
        self._last_here: dict[Any, float] = {}
        self._arrivals: dict[Any, int] = {}

    async def entries(self) -> Mapping[Any, Sequence[Any]]:
        names = {f"{self.name}-{number}" for number in range(self.shape.maximum)}
        specs = {entry: spec for entry, spec in self.cluster.worker_spec.items() if entry in names}
        return {entry: [f"{entry}{suffix}" for suffix in spec.get("group", [""])] for entry, spec in specs.items()}

    async def start(self, number: int) -> None:
        free = [index for index in range(self.shape.maximum) if f"{self.name}-{index}" not in self.cluster.worker_spec]
        for index in free[:number]:
            self.cluster.worker_spec[f"{self.name}-{index}"] = self.kind.spec(self.name, index)
        await reconcile(self.cluster)

    async def end(self, entries: Sequence[Any]) -> None:
        for entry in entries:
            self.cluster.worker_spec.pop(entry, None)
            self._last_here.pop(entry, None)
        await reconcile(self.cluster)

    async def replace_lost(self) -> None:
        forget_refused(self.cluster)
        for entry in await self._lost():
            await self.cluster.workers.pop(entry).close()
        if set(self.cluster.worker_spec) - set(self.cluster.workers):
            await reconcile(self.cluster)

    async def _lost(self) -> list[Any]:
        """Return entries whose workers joined, and have all been gone for too long: jobs that were ended, for example.

        Workers that joined and left between two checks count. `SpecCluster` does this itself, but not for entries of
        several workers.
        """
        present = {str(worker["name"]) for worker in self.cluster.scheduler_info["workers"].values()}
        patience_s = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))
        arrivals = await call_scheduler(self.cluster, "dcurate_arrivals")
        now = time.monotonic()
        for entry, workers in (await self.entries()).items():
            arrived = sum(arrivals.get(worker, 0) for worker in workers)
            if present & set(workers) or arrived > self._arrivals.get(entry, 0):
                self._last_here[entry] = now
            self._arrivals[entry] = arrived
        lost = [entry for entry, last in self._last_here.items() if now - last > patience_s]
        for entry in lost:
            del self._last_here[entry]
        return [entry for entry in lost if entry in self.cluster.workers]
