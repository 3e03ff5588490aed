"""How many slots of each operator each worker holds. Pure: from a snapshot of workers to an allocation.

This is the seam for a balancer that shifts slots while a run goes on. Today's decider gives fixed shares: CPU
workers are shared in time by all CPU operators (one slot a thread for each, never more than the CPUs that the
operator needs allow), and GPU workers are dealt out to GPU operators in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcurate.core.resources import Resources
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class Demand:
    """What an operator asks for."""

    operator: str
    resources: Resources
    num_workers: int | None = None


@dataclass(frozen=True)
class WorkerKind:
    """What a worker process has: threads, and GPUs with their memory (per card, in bytes; 0 if not known)."""

    address: str
    threads: int
    gpus: int = 0
    gpu_memory: int = 0


#: Slots by worker address, then by operator.
Allocation = dict[str, dict[str, int]]


def allot(demands: Sequence[Demand], workers: Sequence[WorkerKind]) -> Allocation:
    """Slots for every operator on the workers that there are.

    Raises:
        ResourceError: an operator does not fit anywhere; says what it lacks.

    Examples:
        >>> two = [WorkerKind("a", threads=1), WorkerKind("b", threads=1)]
        >>> allot([Demand("read", Resources()), Demand("write", Resources(), num_workers=1)], two)
        {'a': {'read': 1, 'write': 1}, 'b': {'read': 1}}
    """
    gpu_workers = [worker for worker in workers if worker.gpus]
    allocation = _deal_gpus([demand for demand in demands if demand.resources.requires_gpu], gpu_workers)
    for demand in demands:
        if not demand.resources.requires_gpu:
            shared = [worker for worker in workers if not worker.gpus] or workers
            for address, slots in _share_cpus(demand, shared).items():
                allocation.setdefault(address, {})[demand.operator] = slots
    return {worker.address: allocation.get(worker.address, {}) for worker in workers}


def _share_cpus(demand: Demand, workers: Sequence[WorkerKind]) -> dict[str, int]:
    """Slots of a CPU operator by worker: a slot a thread, as many as its needs or its fixed number allow."""
    threads = sum(worker.threads for worker in workers)
    slots = int(threads / demand.resources.cpus) if demand.resources.cpus > 1 else threads
    if slots < 1:
        raise ResourceError(
            f"operator {demand.operator!r} needs {demand.resources.cpus:g} CPUs a slot, but the workers have {threads} "
            "in all; ask for fewer with .with_(resources=Resources(cpus=...)) or use a larger cluster"
        )
    free = {worker.address: worker.threads for worker in workers}
    held: dict[str, int] = {}
    for _ in range(min(slots, demand.num_workers or slots)):
        address = max(free, key=lambda name: free[name])
        free[address] -= 1
        held[address] = held.get(address, 0) + 1
    return held


def _gpu_share(demand: Demand, worker: WorkerKind) -> float:
    """The GPUs of the worker that one slot takes."""
    if demand.resources.gpu_memory_gb and worker.gpu_memory:
        return demand.resources.gpu_memory_gb * 1e9 / worker.gpu_memory
    return demand.resources.gpus or 1.0


def _deal_gpus(demands: Sequence[Demand], workers: Sequence[WorkerKind]) -> Allocation:
    """Slots of GPU operators: one after the other takes what fits best, until nothing fits."""
    allocation: Allocation = {worker.address: {} for worker in workers}
    free = {worker.address: float(worker.gpus) for worker in workers}
    held = {demand.operator: 0 for demand in demands}

    def fits(demand: Demand, worker: WorkerKind) -> bool:
        room = sum(allocation[worker.address].values()) < max(worker.threads, 1)
        return room and free[worker.address] + 1e-9 >= _gpu_share(demand, worker)

    growing = list(demands)
    while growing:
        demand = min(growing, key=lambda one: held[one.operator])
        candidates = [worker for worker in workers if fits(demand, worker)]
        if not candidates or held[demand.operator] == demand.num_workers:
            growing.remove(demand)
            continue
        worker = max(candidates, key=lambda one: (not allocation[one.address], free[one.address]))
        free[worker.address] -= _gpu_share(demand, worker)
        held[demand.operator] += 1
        slots = allocation[worker.address]
        slots[demand.operator] = slots.get(demand.operator, 0) + 1
    for demand in demands:
        if not held[demand.operator]:
            have = sum(worker.gpus for worker in workers)
            raise ResourceError(
                f"operator {demand.operator!r} needs {demand.resources} a slot, but after the other GPU operators "
                f"nothing is left of the {have} GPU{'s' if have != 1 else ''} of the workers; use smaller or fewer "
                "GPU stages, execution_mode='batch', or a cluster with more GPUs"
            )
    return allocation
