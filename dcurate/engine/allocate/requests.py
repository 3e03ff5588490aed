"""What operators ask for, what workers have, and how both become the balancer's units and hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dcurate.core.resources import Resources
from dcurate.engine.allocate.allocation import Card, Host, SchedulingUnit
from dcurate.engine.allocate.solve import shortfall
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class OperatorRequest:
    """What an operator asks for.

    Args:
        operator: its name.
        resources: what one slot takes.
        num_workers: a fixed number of slots.
        num_workers_per_node: a fixed number of slots on each host.
        max_workers: no more slots than this.
        light: whether a slot costs nothing to hold, so that it may stand in every worker.
    """

    operator: str
    resources: Resources
    num_workers: int | None = None
    num_workers_per_node: int | None = None
    max_workers: int | None = None
    light: bool = False

    @property
    def shares(self) -> bool:
        """Whether it is content to share worker processes in time with others like it."""
        limits = (self.num_workers, self.num_workers_per_node, self.max_workers)
        return self.light and not self.resources.requires_gpu and self.resources.cpus <= 1 and limits == (None,) * 3


@dataclass(frozen=True)
class WorkerState:
    """A worker process as it announced itself.

    Args:
        address: of the Dask worker.
        host: the machine it stands on.
        threads: calls that it can run at once.
        cpus: CPU cores that it stands for.
        cards: name and memory (bytes, 0 if not known) of the GPUs that it sees, its own first.
        kind: what its cluster calls workers of its sort.
    """

    address: str
    host: str = ""
    threads: int = 1
    cpus: float = 1.0
    cards: tuple[tuple[str, float], ...] = ()
    kind: str = "cpu"


@dataclass(frozen=True)
class SlotPoolSpec:
    """Operators that are given slots together: one, or several CPU operators that share theirs in time."""

    members: tuple[OperatorRequest, ...]
    cpus: float

    @property
    def name(self) -> str:
        """The names of its operators."""
        return "+".join(member.operator for member in self.members)

    def unit(self, seconds: float = 1.0, weight: float = 1.0) -> SchedulingUnit:
        """The group as the balancer sees it."""
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
            most=only.max_workers if only else None,
        )

    def slots_of(self, member: OperatorRequest, total: int) -> int:
        """How many of the group's slots an operator may use, where one alone would not get as many."""
        if len(self.members) == 1:
            return total
        allowed = int(total / member.resources.cpus) if member.resources.cpus > 1 else total
        return max(1, min(allowed, *(limit for limit in (member.num_workers, member.max_workers, total) if limit)))


def hosts_of(workers: Iterable[WorkerState]) -> list[Host]:
    """The hosts that worker processes stand on.

    Where there are no CPU workers at all, CPU operators use the threads of the GPU workers.

    Examples:
        >>> gpu_worker = WorkerState("g", "h", 4, 0, (("gpu0", 8e9),), "gpu")
        >>> hosts_of([WorkerState("a", "h"), WorkerState("b", "h"), gpu_worker])
        [Host(name='h', cpus=2.0, cards=(Card(name='gpu0', memory=8000000000.0, seats=4),), seats=2)]
    """
    every = list(workers)
    serving = {worker.address for worker in cpu_workers(every)}
    by_host: dict[str, list[WorkerState]] = {}
    for worker in every:
        by_host.setdefault(worker.host, []).append(worker)
    hosts = []
    for name, members in by_host.items():
        cards: dict[str, Card] = {}
        for worker in members:
            for place, (card, memory) in enumerate(worker.cards):
                seats = cards[card].seats if card in cards else 0
                cards[card] = Card(card, memory, seats + (worker.threads if place == 0 else 0))
        seats = sum(worker.threads for worker in members if worker.address in serving)
        cpus = sum(
            max(worker.cpus, float(worker.threads)) if worker.cards and worker.address in serving else worker.cpus
            for worker in members
        )
        hosts.append(Host(name, float(cpus), tuple(cards.values()), seats))
    return hosts


def cpu_workers(workers: Sequence[WorkerState]) -> list[WorkerState]:
    """The workers that serve CPU operators: those without GPUs, or all where there is none without."""
    return [worker for worker in workers if not worker.cards] or list(workers)


def form_pools(
    demands: Sequence[OperatorRequest], workers: Sequence[WorkerState], one_at_a_time: bool = False
) -> list[SlotPoolSpec]:
    """The operators as groups that fit on the workers.

    Light CPU operators share their slots. Where there are too few CPUs for a slot of each of the others, all CPU
    operators share theirs, and GPU slots do without CPUs of their own.

    Args:
        one_at_a_time: in batch mode only one group needs to be there at a time.

    Raises:
        ResourceError: an operator does not fit; says what is lacking.
    """
    hosts = hosts_of(workers)
    sharing = tuple(demand for demand in demands if demand.shares)
    alone = [demand for demand in demands if demand not in sharing]
    groups = [SlotPoolSpec((demand,), demand.resources.cpus) for demand in alone]
    if sharing:
        groups.append(SlotPoolSpec(sharing, max(demand.resources.cpus for demand in sharing)))
    if _lack(groups, hosts, one_at_a_time) is None:
        return groups
    on_cpus = tuple(demand for demand in demands if not demand.resources.requires_gpu)
    threads = sum(worker.threads for worker in cpu_workers(workers))
    for demand in on_cpus:
        if demand.resources.cpus > max(threads, sum(host.cpus for host in hosts)):
            raise ResourceError(
                f"operator {demand.operator!r} needs {demand.resources.cpus:g} CPUs a slot, but the workers have "
                f"{threads} in all; ask for fewer with .with_(resources=Resources(cpus=...)) or use a larger cluster"
            )
    groups = [SlotPoolSpec((demand,), 0.0) for demand in demands if demand.resources.requires_gpu]
    groups += [SlotPoolSpec(on_cpus, 0.0)] if on_cpus else []
    lack = _lack(groups, hosts, one_at_a_time)
    if lack is not None:
        raise ResourceError(lack)
    return groups


def _lack(groups: Sequence[SlotPoolSpec], hosts: Sequence[Host], one_at_a_time: bool) -> str | None:
    if not one_at_a_time:
        return shortfall([each.unit() for each in groups], hosts)
    return next((lack for each in groups if (lack := shortfall([each.unit()], hosts)) is not None), None)


def seconds_of(each: SlotPoolSpec, seconds: Mapping[str, float], weights: Mapping[str, float]) -> tuple[float, float]:
    """Seconds per item and items per source split of a group: of several operators, their work as one.

    Examples:
        >>> both = SlotPoolSpec((OperatorRequest("read", Resources()), OperatorRequest("write", Resources())), 1.0)
        >>> seconds_of(both, {"read": 2.0, "write": 1.0}, {"read": 1.0, "write": 3.0})
        (5.0, 1.0)
    """
    if len(each.members) == 1:
        return seconds[each.name], weights[each.name]
    return sum(seconds[one.operator] * weights[one.operator] for one in each.members), 1.0
