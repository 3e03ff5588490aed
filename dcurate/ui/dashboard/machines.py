"""The current state of workers and hosts, from the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcurate.events import GpuSample, HostSample

if TYPE_CHECKING:
    from distributed import Scheduler


@dataclass(frozen=True)
class WorkerLook:
    """A worker process, as the scheduler last heard of it; ``cpu`` counts CPUs in use, memory is in bytes."""

    name: str
    host: str
    state: str
    threads: int
    cpu: float
    memory: int
    memory_limit: int


def workers(scheduler: Scheduler) -> list[WorkerLook]:
    """The scheduler's workers, those of one host side by side."""
    looks = [
        WorkerLook(
            name=str(worker.name),
            host=worker.host,
            state=worker.status.name,
            threads=worker.nthreads,
            cpu=worker.metrics.get("cpu", 0.0) / 100,
            memory=worker.metrics.get("memory", 0),
            memory_limit=worker.memory_limit or 0,
        )
        for worker in scheduler.workers.values()
    ]
    return sorted(looks, key=lambda look: (look.host, look.name))


def hosts(scheduler: Scheduler) -> tuple[HostSample, ...]:
    """The hosts of the scheduler's workers, with the GPUs that Dask measures there, until a run reports them.

    Dask names no GPU; two workers that report the same values are taken to share one.
    """
    looks_by_host: dict[str, list[WorkerLook]] = {}
    for look in workers(scheduler):
        looks_by_host.setdefault(look.host, []).append(look)
    gpus = _gpus(scheduler)
    return tuple(
        HostSample(
            host=host,
            workers=len(looks),
            threads=sum(look.threads for look in looks),
            cpu=sum(look.cpu for look in looks),
            memory=sum(look.memory for look in looks),
            memory_limit=sum(look.memory_limit for look in looks),
            gpus=gpus.get(host, ()),
        )
        for host, looks in looks_by_host.items()
    )


def _gpus(scheduler: Scheduler) -> dict[str, tuple[GpuSample, ...]]:
    gpus_by_host: dict[str, dict[tuple[int, int, float], None]] = {}
    for worker in scheduler.workers.values():
        memory = worker.metrics.get("gpu_memory_used")
        if memory is not None:
            busy = (worker.metrics.get("gpu_utilization") or 0) / 100
            gpus_by_host.setdefault(worker.host, {})[memory, worker.metrics.get("gpu-memory-total", 0), busy] = None
    return {
        host: tuple(GpuSample(str(number), *gpu) for number, gpu in enumerate(gpus))
        for host, gpus in gpus_by_host.items()
    }
