"""The account of a scheduler: which threads and GPUs of which worker each run may use, and which it has in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dcurate.cluster import compat
from dcurate.engine.allocate.division import RunDemand, RunPart, devices_of, divide
from dcurate.engine.allocate.gpu_division import GpuId, pack
from dcurate.engine.allocate.model import MILLION
from dcurate.engine.allocate.requests import WorkerState, cpu_workers

#: Name of the plugin, and of the scheduler's extension that holds it.
PLUGIN = "dcurate-account"


class PartOwner(Protocol):
    """What the account needs of the slot manager of a run."""

    run: str
    client: str
    label: str
    limited: bool

    def part_changed(self) -> None:
        """Have the run read its part again."""

    def holds(self, worker: str) -> Collection[str]:
        """Return the names of the operators that have, set up or tear down slots on a worker."""

    def fits(self, worker: str) -> bool:
        """Return whether the slots of a worker are those of the last decision, and none is being torn down."""


@dataclass
class Lease:
    """Threads and GPUs that a run may have in use, and no other run.

    Attributes:
        threads: number of threads of each worker.
        gpus: share of each GPU, in millionths.
    """

    threads: dict[str, int] = field(default_factory=dict)
    gpus: dict[GpuId, int] = field(default_factory=dict)


@dataclass
class EndedRun:
    """A run that has ended, until its slots are torn down.

    Attributes:
        client: id of its Dask client.
        label: name of the run in sentences.
        lease: threads and GPUs that its slots may still use.
        slots: operators whose slots may not be torn down yet, by worker.
    """

    client: str
    label: str
    lease: Lease
    slots: dict[str, set[str]]


class Account(SchedulerPlugin):  # type: ignore[misc]
    """Divides workers among the runs of a scheduler, so that no two runs use the same threads or GPU memory.

    The part of a run is its share in the latest division; its lease is what it may use now. A lease grows into what no
    other run has a lease on, and shrinks to the part when the run has torn down the slots beyond it. So leases never
    exceed a worker, and the models of two runs never exceed the memory of a GPU. A run that is alone and without limits
    has all workers.

    Args:
        scheduler: the scheduler.
    """

    name = PLUGIN
    idempotent = True

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.owners: dict[str, PartOwner] = {}
        self.demands: dict[str, RunDemand] = {}
        self.workers: dict[str, WorkerState] = {}
        self.parts: dict[str, RunPart] = {}
        self.leases: dict[str, Lease] = {}
        self.ended: dict[str, EndedRun] = {}
        #: Number of the present division, and whether a new one is due.
        self.version = 0
        self._due = False

    @classmethod
    def of(cls, scheduler: Scheduler) -> Self:
        """Return the account of a scheduler; the first run opens it."""
        extensions = compat.extensions(scheduler)
        if PLUGIN not in extensions:
            extensions[PLUGIN] = cls(scheduler)
            scheduler.add_plugin(extensions[PLUGIN], name=PLUGIN)
        account: Self = extensions[PLUGIN]
        return account

    # Calls of slot managers: notes

    def join(self, owner: PartOwner, demand: RunDemand) -> None:
        """Add a run."""
        if self._is_whole():  # the run that was alone had everything
            for run in self.owners:
                threads = {address: worker.threads for address, worker in self.workers.items()}
                gpus = dict.fromkeys(devices_of(self.workers.values()), MILLION)
                self.leases[run], self.parts[run] = Lease(dict(threads), dict(gpus)), RunPart(threads, gpus)
        self.owners[owner.run], self.demands[owner.run] = owner, demand
        self.leases[owner.run] = Lease()
        self._divide_soon()

    def demand(self, demand: RunDemand) -> None:
        """Take the new demand of a run."""
        if demand.run in self.owners and demand != self.demands[demand.run]:
            self.demands[demand.run] = demand
            self._divide_soon()

    def register(self, worker: WorkerState) -> None:
        """Take a worker that has registered with a run."""
        if self.workers.get(worker.address) != worker:
            self.workers[worker.address] = worker
            self._divide_soon()

    def leave(self, run: str) -> None:
        """Remove a run that has ended; its threads and GPUs become free as its slots are torn down."""
        if run not in self.owners:
            return
        whole = self._is_whole()
        owner, lease = self.owners.pop(run), self.leases.pop(run)
        self.demands.pop(run)
        self.parts.pop(run, None)
        slots = {address: set(names) for address in self.workers if (names := owner.holds(address))}
        if whole:
            lease = Lease({}, dict.fromkeys(devices_of(self.workers.values()), MILLION))
        if slots:
            self.ended[run] = EndedRun(owner.client, owner.label, lease, slots)
            self._trim(run)
        self._divide_soon()
        self._close_if_unused()

    def torn_down(self, run: str, worker: str, operator: str) -> None:
        """Note that a worker has torn down the slots of an operator of a run that has ended."""
        ended = self.ended.get(run)
        if ended is not None and worker in ended.slots:
            ended.slots[worker].discard(operator)
            if not ended.slots[worker]:
                del ended.slots[worker]
                self._trim(run)

    def forget(self, run: str) -> None:
        """Note that all workers have torn down the slots of a run."""
        if self.ended.pop(run, None) is not None:
            self._tell()
        self._close_if_unused()

    def settle(self, run: str, version: int) -> None:
        """Free the threads and GPUs that a run has beyond its part, and no longer uses.

        Args:
            run: id of the run.
            version: number of the division that the last decision of the run was made for.
        """
        if self._due or version != self.version or run not in self.owners or self._is_whole():
            return
        owner, lease, part = self.owners[run], self.leases[run], self.parts[run]
        beyond = [address for address, threads in lease.threads.items() if threads > part.threads.get(address, 0)]
        unfit = {address for address in beyond if not owner.fits(address)}
        freed = False
        for address in set(beyond) - unfit:
            lease.threads[address] = part.threads.get(address, 0)
            freed = True
        too_many = [gpu for gpu, amount in lease.gpus.items() if amount > part.gpus.get(gpu, 0)]
        by_gpu = self._workers_of(too_many)
        for gpu in too_many:
            if all(owner.fits(address) for address in by_gpu.get(gpu, ())):
                lease.gpus[gpu] = part.gpus.get(gpu, 0)
                freed = True
        if freed:
            self._tell(but=run)

    # Calls of slot managers: questions

    @property
    def is_divided(self) -> bool:
        """Whether the workers are divided among runs, or limited for the only one."""
        return not self._is_whole()

    def worker_parts(self, run: str, workers: Iterable[WorkerState]) -> dict[str, WorkerState]:
        """Return what a run may use now of each worker, and lease it to the run."""
        self._divide()
        if self._is_whole():
            return {worker.address: worker for worker in workers}
        others = [lease for _, lease in self._others(run)]
        part, lease = self.parts[run], self.leases[run]
        planned: Counter[str] = Counter()
        for planned_part in self.parts.values():
            planned.update(planned_part.threads)
        threads: dict[str, int] = {}
        gpus: dict[GpuId, int] = {}
        for address, wanted in part.threads.items():
            if address in self.workers:
                # Where there are more runs than threads, some share one.
                most = max(self.workers[address].threads, planned[address])
                threads[address] = max(0, min(wanted, most - sum(other.threads.get(address, 0) for other in others)))
                lease.threads[address] = max(lease.threads.get(address, 0), threads[address])
        for gpu, wanted in part.gpus.items():
            gpus[gpu] = max(0, min(wanted, MILLION - sum(other.gpus.get(gpu, 0) for other in others)))
            lease.gpus[gpu] = max(lease.gpus.get(gpu, 0), gpus[gpu])
        now = RunPart(threads, gpus)
        return {worker.address: now.of(worker) for worker in workers}

    def waits(self, run: str, seen: Mapping[str, WorkerState]) -> str:
        """Return why a run cannot go on with what it may use now, as a sentence; empty if it can.

        Args:
            run: id of the run.
            seen: result of `worker_parts`.
        """
        if self._is_whole() or not seen:
            return ""
        demand, workers = self.demands[run], list(self.workers.values())
        devices, serving = devices_of(workers), cpu_workers(workers)
        free = {
            (worker.host, name): round(share * MILLION)
            for worker in seen.values()
            for (name, _), share in zip(worker.gpus, worker.gpu_shares or (1.0,) * len(worker.gpus), strict=True)
        }
        if pack(demand.gpu_slots, devices, free) is None:
            could = pack(demand.gpu_slots, devices, dict.fromkeys(devices, MILLION)) is not None
            held = {label: sum(lease.gpus.values()) / MILLION for label, lease in self._others(run)}
            return _sentence("GPU", held, len(devices)) if could else ""
        mine = sum(seen[worker.address].threads for worker in serving if worker.address in seen)
        total = sum(worker.threads for worker in serving)
        if mine < demand.least_cpus <= total:
            addresses = [worker.address for worker in serving]
            held = {
                label: float(sum(lease.threads.get(address, 0) for address in addresses))
                for label, lease in self._others(run)
            }
            return _sentence("CPU", held, total)
        return ""

    def memory_share(self, run: str) -> float:
        """Return the fraction of the memory of queues that a run may use: its share among the runs."""
        total = sum(demand.share for demand in self.demands.values())
        return self.demands[run].share / total if run in self.demands else 1.0

    # Calls of Dask

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Forget a worker that is gone."""
        if self.workers.pop(worker, None) is None:
            return
        for lease in self.leases.values():
            lease.threads.pop(worker, None)
        for run in list(self.ended):
            if self.ended[run].slots.pop(worker, None):
                self._trim(run)
        self._divide_soon()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Have workers tear down the slots of ended runs whose driver is gone, as it cannot ask them to."""
        for run, ended in self.ended.items():
            if ended.client == client:
                for worker, operators in ended.slots.items():
                    for operator in operators if worker in scheduler.workers else ():
                        order = {"run": run, "operator": operator, "slots": 0, "payload": b"", "gpus": ()}
                        compat.send_to_worker(scheduler, worker, {"op": "dcurate-set-slots", **order})

    # Division

    def _is_whole(self) -> bool:
        """Return whether a single run has all workers: there is no other, and it has no limits."""
        return not self.ended and len(self.owners) == 1 and not next(iter(self.owners.values())).limited

    def _divide_soon(self) -> None:
        """Have the workers divided again at the next question of a run."""
        self._due = True
        self._tell()

    def _divide(self) -> None:
        """Divide the workers again if that is due; tell the runs if that changes anything."""
        if not self._due or self._is_whole():
            return
        self._due = False
        parts = divide(list(self.workers.values()), list(self.demands.values()), self.parts)
        if parts != self.parts:
            self.parts = parts
            self.version += 1
            self._tell()

    def _others(self, run: str) -> list[tuple[str, Lease]]:
        """Return label and lease of all other runs."""
        live = [(self.owners[other].label, lease) for other, lease in self.leases.items() if other != run]
        return live + [(ended.label, ended.lease) for ended in self.ended.values()]

    def _tell(self, but: str = "") -> None:
        for run, owner in list(self.owners.items()):
            if run != but:
                owner.part_changed()

    def _trim(self, run: str) -> None:
        """Reduce the lease of an ended run to what its remaining slots may use."""
        ended = self.ended[run]
        gpus = {
            (self.workers[address].host, name)
            for address in ended.slots
            if address in self.workers
            for name, _ in self.workers[address].gpus
        }
        ended.lease.threads = {}  # calls of a run that has ended are cancelled
        ended.lease.gpus = {gpu: amount for gpu, amount in ended.lease.gpus.items() if gpu in gpus}
        if not ended.slots:
            del self.ended[run]
        self._tell()
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if not self.owners and not self.ended:
            compat.remove_plugin(self.scheduler, PLUGIN)
            compat.extensions(self.scheduler).pop(PLUGIN, None)

    def _workers_of(self, gpus: Collection[GpuId]) -> dict[GpuId, list[str]]:
        """Return the addresses of the workers that see each of some GPUs."""
        addresses: dict[GpuId, list[str]] = {gpu: [] for gpu in gpus}
        for address, worker in self.workers.items() if gpus else ():
            for name, _ in worker.gpus:
                if (worker.host, name) in addresses:
                    addresses[worker.host, name].append(address)
        return addresses


def _sentence(noun: str, held: Mapping[str, float], total: int) -> str:
    """Return what a run waits for and who holds it, as a sentence.

    Examples:
        >>> _sentence("GPU", {"run caption of alice": 1.5, "run ocr of bob": 0.5, "run text of eve": 0.0}, 2)
        'waits for a GPU: run caption of alice holds 1.5 of 2, run ocr of bob holds 0.5'
    """
    most = sorted((item for item in held.items() if item[1]), key=lambda item: -item[1])
    holders = [f"{label} holds {amount:g}" for label, amount in most[:3]]
    if not holders:
        return f"waits for a {noun}, which other runs are giving back"
    holders[0] += f" of {total}"
    return f"waits for a {noun}: {', '.join(holders)}"


def torn_down(scheduler: Scheduler, run: str, worker: str, operator: str) -> None:
    """Note that a worker has torn down the slots of an operator of a run that has ended."""
    account = compat.extensions(scheduler).get(PLUGIN)
    if account is not None:
        account.torn_down(run, worker, operator)


def forget(scheduler: Scheduler, run: str) -> None:
    """Note that all workers have torn down the slots of a run."""
    account = compat.extensions(scheduler).get(PLUGIN)
    if account is not None:
        account.forget(run)
