"""Assign the slots of an allocation to worker processes, with the fewest changes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dcurate.engine.allocate.allocation import Allocation, SlotLocation
from dcurate.engine.allocate.requests import SlotPoolSpec, WorkerState, cpu_workers
from dcurate.errors import ResourceError


@dataclass(frozen=True)
class SlotClaim:
    """Slots of one operator in one worker process.

    Args:
        slots: how many.
        gpus: the names of the GPUs of each slot, the process's own first; none for CPU slots.
    """

    slots: int
    gpus: tuple[str, ...] = ()


#: By worker address, then by operator.
Assignment = dict[str, dict[str, SlotClaim]]


def assign_slots(
    pools: Sequence[SlotPoolSpec],
    workers: Sequence[WorkerState],
    allocation: Allocation,
    current: Assignment,
    recycling: Collection[str] = (),
) -> Assignment:
    """Assign the slots of each location to worker processes of its host.

    GPU slots come first: each fits only in the processes of its GPU, where CPU slots may be, too. A process keeps its
    slots where it can, and holds one pool where there are enough processes. A process that is being recycled takes
    slots only where no other has a free thread, as it is long until they work.

    Args:
        pools: the pools of operators.
        workers: the worker processes.
        allocation: the slots of each location.
        current: the slots that the processes have.
        recycling: addresses of the processes that are being recycled.

    Raises:
        ResourceError: the workers cannot hold a slot of the allocation, so it was not made for them.

    Examples:
        >>> from collections import Counter
        >>> from dcurate.core.resources import Resources
        >>> from dcurate.engine.allocate.requests import OperatorRequest
        >>> read, write = (SlotPoolSpec((OperatorRequest(name, Resources()),), 1.0) for name in ("read", "write"))
        >>> two = [WorkerState("a", "h"), WorkerState("b", "h")]
        >>> allocation = Counter({SlotLocation("h", "read"): 1, SlotLocation("h", "write"): 1})
        >>> assign_slots([read, write], two, allocation, {"b": {"read": SlotClaim(1)}})
        {'b': {'read': SlotClaim(slots=1, gpus=())}, 'a': {'write': SlotClaim(slots=1, gpus=())}}
    """
    by_name = {pool.name: pool for pool in pools}
    assigner = _SlotAssigner(workers, {pool.name: pool.members[0].operator for pool in pools}, current, recycling)
    locations = sorted(
        (location for location, slots in allocation.items() if slots > 0),
        key=lambda location: (location.unit, location.gpus),
    )
    for on_gpus in (True, False):
        here = [location for location in locations if bool(location.gpus) is on_gpus]
        remaining = {location: assigner.keep_current(location, allocation[location]) for location in here}
        for location in here:
            assigner.fill(location, remaining[location])
    return _by_operator(by_name, assigner.assigned)


class _SlotAssigner:
    """The worker processes, and the slots that are assigned so far."""

    def __init__(
        self,
        workers: Sequence[WorkerState],
        first: Mapping[str, str],
        current: Assignment,
        recycling: Collection[str],
    ) -> None:
        self.by_host: dict[str, list[WorkerState]] = {}
        for worker in workers:
            self.by_host.setdefault(worker.host, []).append(worker)
        self.on_cpus = {worker.address for worker in cpu_workers(workers)}
        self.first = first
        self.current = current
        self.recycling = recycling
        self.free = {worker.address: worker.threads for worker in workers}
        self.assigned: dict[str, dict[str, SlotClaim]] = {}

    def _able(self, location: SlotLocation) -> list[str]:
        here = self.by_host.get(location.host, ())
        if not location.gpus:
            return [worker.address for worker in here if worker.address in self.on_cpus]
        owners = [worker.address for worker in here if worker.gpus and worker.gpus[0][0] == location.gpus[0]]
        return owners or [worker.address for worker in here if set(location.gpus) <= {name for name, _ in worker.gpus}]

    def _assign(self, address: str, location: SlotLocation, slots: int) -> int:
        claims = self.assigned.setdefault(address, {})
        before = claims.get(location.unit)
        if slots <= 0 or (before is not None and before.gpus != location.gpus):
            return 0
        claims[location.unit] = SlotClaim(slots + (before.slots if before else 0), location.gpus)
        self.free[address] -= slots
        return slots

    def keep_current(self, location: SlotLocation, slots: int) -> int:
        """Assign slots to processes that have them already; return how many are left."""
        for address in self._able(location):
            now = self.current.get(address, {}).get(self.first[location.unit])
            if now is not None and now.gpus == location.gpus:
                slots -= self._assign(address, location, min(now.slots, slots, self.free[address]))
        return slots

    def fill(self, location: SlotLocation, slots: int) -> None:
        """Assign the rest: beside slots of the same pool, in empty or released processes, then beside other pools."""

        def rank(address: str) -> tuple[bool, int, int]:
            assigned, current = self.assigned.get(address), self.current.get(address)
            mixed = 3 if assigned and set(assigned) != {location.unit} else 0 if assigned else 2 if current else 1
            return address in self.recycling, mixed, -self.free[address]

        while slots > 0:
            able = [address for address in self._able(location) if self.free[address] > 0]
            for address in sorted(able, key=rank):
                got = self._assign(address, location, min(slots, self.free[address]))
                if got:
                    break
            else:
                where = f" on {' and '.join(location.gpus)}" if location.gpus else ""
                raise ResourceError(
                    f"no worker process of host {location.host!r} has a free thread{where} for {slots} slots of "
                    f"operator {location.unit!r}, which are allocated there"
                )
            slots -= got


def _by_operator(pools: Mapping[str, SlotPoolSpec], assigned: Mapping[str, Mapping[str, SlotClaim]]) -> Assignment:
    """Convert the slots of each pool to slots of each of its operators, some of which may use only a few."""
    totals: dict[str, int] = {}
    for claims in assigned.values():
        for name, claim in claims.items():
            totals[name] = totals.get(name, 0) + claim.slots
    remaining = {
        member.operator: pools[name].slots_of(member, total)
        for name, total in totals.items()
        for member in pools[name].members
    }
    assignment: Assignment = {}
    for address, claims in assigned.items():
        for name, claim in claims.items():
            for member in pools[name].members:
                slots = min(claim.slots, remaining[member.operator])
                remaining[member.operator] -= slots
                if slots:
                    assignment.setdefault(address, {})[member.operator] = SlotClaim(slots, claim.gpus)
    return assignment
