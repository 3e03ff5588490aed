"""Divide the workers of a cluster among the runs on it. Pure.

GPUs are divided first, then threads, which stand for CPUs, each by weighted max-min fairness: no run can have more
unless one that has less for its share gets less. Runs of a higher priority are served before all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf

from dcurate.engine.allocate.fairness import ShareClaim, fair_units
from dcurate.engine.allocate.gpu_division import GpuClaim, GpuId, divide_gpus
from dcurate.engine.allocate.model import MILLION, Item
from dcurate.engine.allocate.requests import WorkerState, cpu_workers


@dataclass(frozen=True)
class RunDemand:
    """The demand of a run.

    Args:
        run: id of the run.
        share: weight among the runs of its priority.
        priority: priority of the run; higher ones are served first.
        least_cpus: number of threads without which it cannot go on.
        most_cpus: largest number of threads that it can or may use.
        gpu_slots: one slot of each of its GPU operators, which it needs at the same time.
        most_gpus: largest number of GPUs that it can or may use.
    """

    run: str
    share: float = 1.0
    priority: int = 0
    least_cpus: int = 1
    most_cpus: float = inf
    gpu_slots: tuple[Item, ...] = ()
    most_gpus: float = inf


@dataclass(frozen=True)
class RunPart:
    """The part of a cluster that a run gets.

    Attributes:
        threads: number of threads of each worker process.
        gpus: share of each GPU and of its memory, in millionths.
        missing: resource that the run has to wait for, ``CPUs`` or ``GPUs``; empty if it can go on.
    """

    threads: Mapping[str, int] = field(default_factory=dict)
    gpus: Mapping[GpuId, int] = field(default_factory=dict)
    missing: str = ""

    def of(self, worker: WorkerState) -> WorkerState:
        """Return a worker as the run sees it: with the threads and GPU memory of its part.

        Examples:
            >>> worker = WorkerState("a", "h", threads=4, cpus=2.0, gpus=(("gpu0", 8e9),))
            >>> part = RunPart({"a": 2}, {("h", "gpu0"): 250_000}).of(worker)
            >>> part.threads, part.cpus, part.gpus, part.gpu_shares
            (2, 1.0, (('gpu0', 2000000000.0),), (0.25,))
        """
        threads = min(worker.threads, self.threads.get(worker.address, 0))
        shares = [self.gpus.get((worker.host, name), 0) for name, _ in worker.gpus]
        if threads == worker.threads and all(share == MILLION for share in shares):
            return worker
        return replace(
            worker,
            threads=threads,
            cpus=worker.cpus * (threads / worker.threads if worker.threads else 0.0),
            # A memory of 0 would mean that it is not known.
            gpus=tuple(
                (name, memory * share / MILLION if share else 1.0)
                for (name, memory), share in zip(worker.gpus, shares, strict=True)
            ),
            gpu_shares=tuple(share / MILLION for share in shares),
        )


def divide(
    workers: Sequence[WorkerState], demands: Sequence[RunDemand], before: Mapping[str, RunPart] | None = None
) -> dict[str, RunPart]:
    """Divide workers among runs.

    A run keeps what it had as far as its new part allows, and shares no worker process where there are enough.

    Args:
        workers: the worker processes.
        demands: demands of the runs, in the order in which they came.
        before: parts of the runs so far, by run.

    Examples:
        >>> workers = [WorkerState("a", threads=2), WorkerState("b", threads=2)]
        >>> parts = divide(workers, [RunDemand("deep"), RunDemand("small")])
        >>> parts["deep"].threads, parts["small"].threads
        ({'a': 2}, {'b': 2})
    """
    before = before or {}
    workers = sorted(workers, key=lambda worker: (worker.host, worker.address))
    devices = devices_of(workers)
    free = dict.fromkeys(devices, MILLION)
    gpus: dict[str, dict[GpuId, int] | None] = {}
    by_priority = sorted(demands, key=lambda demand: -demand.priority)
    classes = [list(members) for _, members in groupby(by_priority, key=lambda demand: demand.priority)]
    for members in classes:
        on_gpus = [demand for demand in members if demand.gpu_slots]
        claims = [
            GpuClaim(demand.gpu_slots, demand.share, demand.most_gpus, before.get(demand.run, RunPart()).gpus)
            for demand in on_gpus
        ]
        gpus |= zip((demand.run for demand in on_gpus), divide_gpus(devices, free, claims), strict=True)
    # A run that waits for GPUs needs no CPUs meanwhile.
    threads = _divide_threads(
        workers,
        [[demand for demand in members if gpus.get(demand.run, {}) is not None] for members in classes],
        before,
        {run: part or {} for run, part in gpus.items()},
    )
    parts = {}
    for demand in demands:
        gpu_part, cpu_part = gpus.get(demand.run, {}), threads.get(demand.run)
        missing = "GPUs" if gpu_part is None else "" if cpu_part else "CPUs"
        parts[demand.run] = RunPart(missing=missing) if missing else RunPart(cpu_part or {}, gpu_part or {})
    going = [demand for demand in demands if parts[demand.run].missing != "CPUs"]
    if len(going) < len(demands):  # runs that have to wait for CPUs leave their GPUs to others
        parts |= divide(workers, going, before)
    return parts


def devices_of(workers: Iterable[WorkerState]) -> dict[GpuId, float]:
    """Return the memory of each GPU in bytes, the smallest value that a worker announces; 0 if unknown."""
    devices: dict[GpuId, float] = {}
    for worker in workers:
        for name, memory in worker.gpus:
            known = devices.get((worker.host, name), 0.0)
            devices[worker.host, name] = min(filter(None, (known, memory)), default=0.0)
    return devices


# Threads


def _divide_threads(
    workers: Sequence[WorkerState],
    classes: Sequence[Sequence[RunDemand]],
    before: Mapping[str, RunPart],
    gpus: Mapping[str, Mapping[GpuId, int]],
) -> dict[str, dict[str, int]]:
    """Return the threads of each run by worker; a run that is missing has to wait."""
    serving = cpu_workers(workers)
    shared = any(worker.gpus for worker in serving)
    placer = _Placer(serving, before, gpus)
    left = sum(worker.threads for worker in serving)
    numbers: dict[str, int] = {}
    for first, members in zip((True, *[False] * len(classes)), classes, strict=False):
        served = _admitted(members, left, first)
        claims = [
            ShareClaim(
                demand.share,
                demand.least_cpus,
                max(demand.least_cpus, demand.most_cpus),
                sum(before.get(demand.run, RunPart()).threads.get(worker.address, 0) for worker in serving),
            )
            for demand in served
        ]
        numbers |= zip((demand.run for demand in served), fair_units(left, claims), strict=True)
        left = max(0, left - sum(numbers[demand.run] for demand in served))
    parts = placer.place(numbers)
    if not shared:
        for worker in workers:
            for run, part in parts.items():
                if worker.gpus and (amount := gpus.get(run, {}).get((worker.host, worker.gpus[0][0]), 0)):
                    part[worker.address] = max(1, worker.threads * amount // MILLION)
    return parts


def _admitted(members: Sequence[RunDemand], threads: int, first: bool) -> list[RunDemand]:
    """Return the runs that get threads: those that came first, as long as there are enough.

    If there are not, runs of the highest priority that need one thread only share some, so that none has to wait.
    """
    admitted, left = [], threads
    for demand in members:
        if demand.least_cpus <= left or (first and threads and demand.least_cpus == 1):
            admitted.append(demand)
            left -= demand.least_cpus
    return admitted


class _Placer:
    """Places the threads of runs on workers.

    Args:
        workers: workers that serve CPU operators, sorted by host.
        before: parts of the runs so far.
        gpus: GPUs of each run; its threads are placed on the same hosts where possible.
    """

    def __init__(
        self,
        workers: Sequence[WorkerState],
        before: Mapping[str, RunPart],
        gpus: Mapping[str, Mapping[GpuId, int]],
    ) -> None:
        self.workers = {worker.address: worker for worker in workers}
        self.before = before
        self.gpus = gpus
        self.free = {worker.address: worker.threads for worker in workers}
        self.parts: dict[str, dict[str, int]] = {}

    def place(self, numbers: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Return the threads of each run by worker.

        Args:
            numbers: number of threads of each run.
        """
        missing = dict(numbers)
        for run in numbers:
            self.parts[run] = {}
            for worker in self.workers.values():  # a slot on a GPU takes a thread of its process
                if missing[run] and worker.gpus and self.gpus.get(run, {}).get((worker.host, worker.gpus[0][0])):
                    missing[run] -= self._take(run, worker.address, 1)
        for run in numbers:
            had = self.before.get(run, RunPart()).threads
            kept = [address for address in self.workers if had.get(address)]
            whole_first = sorted(kept, key=lambda address: had[address] < self.workers[address].threads)
            for address in whole_first:
                more = min(had[address] - self.parts[run].get(address, 0), missing[run])
                missing[run] -= self._take(run, address, more)
        for run in sorted(numbers, key=lambda run: -missing[run]):
            hosts = {host for host, _ in self.gpus.get(run, {})}
            for address in sorted(self.workers, key=lambda address: self._rank(address, hosts)):
                if not missing[run]:
                    break
                missing[run] -= self._take(run, address, missing[run])
        self._overlap(missing)
        return self.parts

    def _rank(self, address: str, hosts: set[str]) -> tuple[bool, bool]:
        """Rank workers on the hosts of a run's GPUs first, and then workers that no run has."""
        worker = self.workers[address]
        return worker.host not in hosts, self.free[address] < worker.threads

    def _take(self, run: str, address: str, threads: int) -> int:
        threads = max(0, min(threads, self.free[address]))
        if threads:
            self.parts[run][address] = self.parts[run].get(address, 0) + threads
            self.free[address] -= threads
        return threads

    def _overlap(self, missing: Mapping[str, int]) -> None:
        """Where there are more runs than threads, give some runs the same thread, as few runs each as possible."""
        runs = [run for run, threads in missing.items() if threads and not self.parts[run]]
        for run, address in zip(runs, list(self.workers) * len(runs), strict=False):
            self.parts[run][address] = 1
