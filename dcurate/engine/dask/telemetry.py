"""How the machines of a cluster stand, as its scheduler knows: their workers' last reports added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dcurate.core.events import GpuSample, HostSample
from dcurate.engine.allocate.requests import WorkerState

#: Seconds between two times that a driver is told.
TELL_S = 2.0


def machines(workers: Iterable[tuple[WorkerState, Any]]) -> list[dict[str, Any]]:
    """A `HostSample` of each machine, in plain values and in order of their names.

    Args:
        workers: what each worker announced, and the scheduler's ``WorkerState`` of it.
    """
    hosts: dict[str, HostSample] = {}
    cards: dict[str, dict[str, GpuSample]] = {}
    for view, state in workers:
        said = state.metrics
        before = hosts.get(view.host, HostSample(view.host, 0, 0, 0.0, 0, 0))
        hosts[view.host] = HostSample(
            host=view.host,
            workers=before.workers + 1,
            threads=before.threads + state.nthreads,
            cpu=before.cpu + said.get("cpu", 0.0) / 100,
            memory=before.memory + int(said.get("memory", 0)),
            memory_limit=before.memory_limit + int(state.memory_limit or 0),
            spilled=before.spilled + int(said.get("spilled_bytes", {}).get("disk", 0)),
        )
        if view.cards and "gpu" in said:
            name, memory_total = view.cards[0]
            cards.setdefault(view.host, {})[name] = _card(
                name, int(memory_total), said["gpu"], state.extra.get("gpu", {})
            )
    return [
        {**host.to_dict(), "gpus": [dict(vars(card)) for _, card in sorted(cards.get(name, {}).items())]}
        for name, host in sorted(hosts.items())
    ]


def _card(name: str, memory_total: int, said: Mapping[str, Any], known: Mapping[str, Any]) -> GpuSample:
    """A card as one of its workers sees it; untested on a GPU."""
    total = int(known.get("memory-total") or memory_total)
    return GpuSample(name, int(said.get("memory-used") or 0), total, (said.get("utilization") or 0) / 100)
