"""Sample the hosts of a cluster from what Dask's scheduler knows of their workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dcurate.engine.allocate.requests import WorkerState
from dcurate.events import GpuSample, HostSample


def host_samples(workers: Iterable[tuple[WorkerState, Any]]) -> list[dict[str, Any]]:
    """Return a `HostSample` of each host as plain values, sorted by name.

    Args:
        workers: info and the scheduler's ``WorkerState`` of each worker.
    """
    hosts: dict[str, HostSample] = {}
    gpus: dict[str, dict[str, GpuSample]] = {}
    for worker, state in workers:
        metrics = state.metrics
        before = hosts.get(worker.host, HostSample(worker.host, 0, 0, 0.0, 0, 0))
        hosts[worker.host] = HostSample(
            host=worker.host,
            workers=before.workers + 1,
            threads=before.threads + state.nthreads,
            cpu=before.cpu + metrics.get("cpu", 0.0) / 100,
            memory=before.memory + int(metrics.get("memory", 0)),
            memory_limit=before.memory_limit + int(state.memory_limit or 0),
            spilled=before.spilled + int(metrics.get("spilled_bytes", {}).get("disk", 0)),
        )
        if worker.gpus and "gpu" in metrics:
            name, memory_total = worker.gpus[0]
            gpus.setdefault(worker.host, {})[name] = _gpu_sample(
                name, int(memory_total), metrics["gpu"], state.extra.get("gpu", {})
            )
    return [
        {**host.to_dict(), "gpus": [dict(vars(gpu)) for _, gpu in sorted(gpus.get(name, {}).items())]}
        for name, host in sorted(hosts.items())
    ]


def _gpu_sample(name: str, memory_total: int, metrics: Mapping[str, Any], static: Mapping[str, Any]) -> GpuSample:
    """Sample a GPU as one of its workers sees it; untested on a GPU."""
    total = int(static.get("memory-total") or memory_total)
    return GpuSample(name, int(metrics.get("memory-used") or 0), total, (metrics.get("utilization") or 0) / 100)
