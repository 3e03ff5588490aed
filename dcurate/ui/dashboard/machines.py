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
            name=str(one.name),
            host=one.host,
            state=one.status.name,
            threads=one.nthreads,
            cpu=one.metrics.get("cpu", 0.0) / 100,
            memory=one.metrics.get("memory", 0),
            memory_limit=one.memory_limit or 0,
        )
        for one in scheduler.workers.values()
    ]
    return sorted(looks, key=lambda one: (one.host, one.name))


def hosts(scheduler: Scheduler) -> tuple[HostSample, ...]:
    """The hosts of the scheduler's workers, with the GPUs that Dask measures there, until a run reports them.

    Dask names no GPU; two workers that report the same values are taken to share one.
    """
    found: dict[str, list[WorkerLook]] = {}
    for look in workers(scheduler):
        found.setdefault(look.host, []).append(look)
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
        for host, looks in found.items()
    )


def _gpus(scheduler: Scheduler) -> dict[str, tuple[GpuSample, ...]]:
    found: dict[str, dict[tuple[int, int, float], None]] = {}
    for one in scheduler.workers.values():
        memory = one.metrics.get("gpu_memory_used")
        if memory is not None:
            busy = (one.metrics.get("gpu_utilization") or 0) / 100
            found.setdefault(one.host, {})[memory, one.metrics.get("gpu-memory-total", 0), busy] = None
    return {
        host: tuple(GpuSample(str(number), *gpu) for number, gpu in enumerate(gpus)) for host, gpus in found.items()
    }
