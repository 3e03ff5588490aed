"""Operators' requests and workers' resources, converted to the allocator's units and hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dcurate.core.resources import Resources
from dcurate.engine.allocate.allocation import Gpu, Host, SchedulingUnit
from dcurate.engine.allocate.explain import explain_infeasible
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class OperatorRequest:
    """What an operator asks for.

    Args:
        operator: its name.
        resources: resources of one slot.
        num_workers: a fixed number of slots.
        num_workers_per_node: a fixed number of slots on each host.
        max_workers: the largest number of slots.
        cheap_setup: whether a slot costs nothing to keep, so that every worker may have one.
    """

    operator: str
    resources: Resources
    num_workers: int | None = None
    num_workers_per_node: int | None = None
    max_workers: int | None = None
    cheap_setup: bool = False

    def shares(self, threads: int) -> bool:
        """Whether it may share worker processes with other such operators, on workers with `threads` threads."""
        pinned = self.num_workers is not None or self.num_workers_per_node is not None
        limited = self.max_workers is not None and self.max_workers < threads
        light = self.cheap_setup and not self.resources.requires_gpu and self.resources.cpus <= 1
        return light and not pinned and not limited


@dataclass(frozen=True)
class WorkerState:
    """A worker process as it registered.

    Args:
        address: address of the Dask worker.
        host: the machine it runs on.
        threads: calls that it can run at once.
        cpus: CPU cores that it counts for.
        gpus: name and memory (bytes, 0 if unknown) of the GPUs that it sees, its own first.
        kind: the cluster's name of this kind of worker.
        gpu_shares: the share of each of these GPUs that the run may use; all of each if not given.
    """

    address: str
    host: str = ""
    threads: int = 1
    cpus: float = 1.0
    gpus: tuple[tuple[str, float], ...] = ()
    kind: str = "cpu"
    gpu_shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class SlotPoolSpec:
    """Operators that share slots: one, or several CPU operators."""

    members: tuple[OperatorRequest, ...]
    cpus: float

    @property
    def name(self) -> str:
        """The names of its operators."""
        return "+".join(member.operator for member in self.members)

    def unit(self, seconds: float = 1.0, weight: float = 1.0) -> SchedulingUnit:
        """The pool as a scheduling unit."""
        only = self.members[0] if len(self.members) == 1 else None
        resources = self.members[0].resources
        return SchedulingUnit(
            self.name,
            cpus=self.cpus,
            gpus=resources.gpus,
            gpu_memory=resources.gpu_memory_gb * 1e9,
            seconds=seconds,
            weight=weight,
            fixed=only.num_workers if only else None,
            fixed_per_host=only.num_workers_per_node if only else None,
            max_slots=only.max_workers if only else None,
        )

    def slots_of(self, member: OperatorRequest, total: int) -> int:
        """How many of the pool's slots an operator may use, where it would get fewer by itself."""
        if len(self.members) == 1:
            return total
        allowed = int(total / member.resources.cpus) if member.resources.cpus > 1 else total
        return max(1, min(allowed, *(limit for limit in (member.num_workers, member.max_workers, total) if limit)))


def hosts_of(workers: Iterable[WorkerState]) -> list[Host]:
    """The hosts of worker processes.

    Where there are no CPU workers at all, CPU operators use the threads of the GPU workers.

    Examples:
        >>> gpu_worker = WorkerState("g", "h", 4, 0, (("gpu0", 8e9),), "gpu")
        >>> (host,) = hosts_of([WorkerState("a", "h"), WorkerState("b", "h"), gpu_worker])
        >>> host.cpus, host.max_slots, host.shared, host.gpus
        (2.0, 2, False, (Gpu(name='gpu0', memory=8000000000.0, max_slots=4, share=1.0),))
    """
    every = list(workers)
    serving = {worker.address for worker in cpu_workers(every)}
    by_host: dict[str, list[WorkerState]] = {}
    for worker in every:
        by_host.setdefault(worker.host, []).append(worker)
    hosts = []
    for name, members in by_host.items():
        gpus: dict[str, Gpu] = {}
        for worker in members:
            for position, (gpu, memory) in enumerate(worker.gpus):
                slots = gpus[gpu].max_slots if gpu in gpus else 0
                announced = memory, gpus[gpu].memory if gpu in gpus else 0.0  # 0 if unknown
                least = min(filter(None, announced), default=0.0)
                share = worker.gpu_shares[position] if worker.gpu_shares else 1.0
                gpus[gpu] = Gpu(gpu, least, slots + (worker.threads if position == 0 else 0), share)
        slots = sum(worker.threads for worker in members if worker.address in serving)
        cpus = sum(
            max(worker.cpus, float(worker.threads)) if worker.gpus and worker.address in serving else worker.cpus
            for worker in members
        )
        shared = any(worker.gpus and worker.address in serving for worker in members)
        hosts.append(Host(name, float(cpus), tuple(gpus.values()), slots, shared))
    return hosts


def cpu_workers(workers: Sequence[WorkerState]) -> list[WorkerState]:
    """The workers that serve CPU operators: those without GPUs, or all if there are none."""
    return [worker for worker in workers if not worker.gpus] or list(workers)


def form_pools(
    requests: Sequence[OperatorRequest], workers: Sequence[WorkerState], sequential: bool = False
) -> list[SlotPoolSpec]:
    """Group the operators into pools that fit on the workers.

    Light CPU operators share their slots, unless a limit of theirs is below what the workers can hold. Where there are
    too few CPUs for a slot of each of the others, all CPU operators share theirs, and GPU slots get no CPUs of their
    own.

    Args:
        sequential: in batch mode only one pool needs to fit at a time.

    Raises:
        ResourceError: an operator does not fit; says what is missing.
    """
    hosts, threads = hosts_of(workers), sum(worker.threads for worker in cpu_workers(workers))
    sharing = tuple(request for request in requests if request.shares(threads))
    not_sharing = [request for request in requests if request not in sharing]
    pools = [SlotPoolSpec((request,), request.resources.cpus) for request in not_sharing]
    if sharing:
        pools.append(SlotPoolSpec(sharing, max(request.resources.cpus for request in sharing)))
    if _infeasible(pools, hosts, sequential) is None:
        return pools
    on_cpus = tuple(request for request in requests if not request.resources.requires_gpu)
    for request in on_cpus:
        if request.resources.cpus > max(threads, sum(host.cpus for host in hosts)):
            raise ResourceError(
                f"operator {request.operator!r} needs {request.resources.cpus:g} CPUs a slot, but the workers have "
                f"{threads} in all; ask for fewer with .with_(resources=Resources(cpus=...)) or use a larger cluster"
            )
    pools = [SlotPoolSpec((request,), 0.0) for request in requests if request.resources.requires_gpu]
    pools += [SlotPoolSpec(on_cpus, 0.0)] if on_cpus else []
    problem = _infeasible(pools, hosts, sequential)
    if problem is not None:
        raise ResourceError(problem)
    return pools


def _infeasible(pools: Sequence[SlotPoolSpec], hosts: Sequence[Host], sequential: bool) -> str | None:
    if not sequential:
        return explain_infeasible([pool.unit() for pool in pools], hosts)
    return next((problem for pool in pools if (problem := explain_infeasible([pool.unit()], hosts)) is not None), None)
