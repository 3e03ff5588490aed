"""Track the free capacity of hosts while slots are placed one after the other. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from math import ceil, inf

from dcurate.engine.allocate.allocation import UNLIMITED, Allocation, Host, SchedulingUnit, SlotLocation, count_slots

#: Amounts that differ by less than this are equal.
EPSILON = 1e-9


class _FreeGpu:
    """The free capacity of a GPU."""

    __slots__ = ("free_slots", "known", "memory", "name", "share")

    def __init__(self, name: str, memory: float, free_slots: int) -> None:
        self.name, self.memory, self.free_slots = name, memory, free_slots
        self.share, self.known = 1.0, memory > 0


class _SlotRequirement:
    """The requirement of one slot of a unit, computed once."""

    __slots__ = ("cpus", "gpus", "max_slots", "memory", "on_gpu", "share")

    def __init__(self, unit: SchedulingUnit) -> None:
        self.cpus, self.gpus, self.memory, self.on_gpu = unit.cpus, unit.gpus, unit.gpu_memory, unit.on_gpu
        self.share = min(1.0, unit.gpus)
        max_slots = UNLIMITED if unit.max_slots is None else unit.max_slots
        self.max_slots = (
            max_slots if unit.fixed is None else unit.fixed if unit.max_slots is None else min(unit.fixed, max_slots)
        )


class _FreeHost:
    """The free capacity of a host."""

    __slots__ = ("cpus", "free_slots", "gpus")

    def __init__(self, host: Host) -> None:
        self.cpus, self.free_slots = host.cpus, host.max_slots
        self.gpus = {gpu.name: _FreeGpu(gpu.name, gpu.memory, gpu.max_slots) for gpu in host.gpus}


class Capacity:
    """The free capacity of hosts. A slot on several GPUs runs in a process of the first of them.

    Examples:
        >>> capacity = Capacity([Host("a", cpus=2)], [SchedulingUnit("read")])
        >>> capacity.take(SlotLocation("a", "read"), 3)
        2
        >>> capacity.taken
        Counter({SlotLocation(host='a', unit='read', gpus=()): 2})
    """

    def __init__(self, hosts: Iterable[Host], units: Iterable[SchedulingUnit]) -> None:
        self.units = {unit.name: unit for unit in units}
        self._requirements = {name: _SlotRequirement(unit) for name, unit in self.units.items()}
        self.taken: Allocation = Counter()
        self.counts: Counter[str] = Counter()
        self._hosts = {host.name: _FreeHost(host) for host in hosts}
        self._names = list(self._hosts)
        self._next = dict.fromkeys(self.units, 0)

    def take(self, location: SlotLocation, slots: int = 1) -> int:
        """Place up to `slots` slots at a location; return how many fit."""
        host, requirement = self._hosts.get(location.host), self._requirements.get(location.unit)
        if host is None or requirement is None or requirement.on_gpu != bool(location.gpus):
            return 0
        gpus = [host.gpus[name] for name in location.gpus if name in host.gpus] if location.gpus else []
        if len(gpus) != len(location.gpus):
            return 0
        count = min(slots, _fits(host, gpus, requirement), requirement.max_slots - self.counts[location.unit])
        if count <= 0:
            return 0
        self._occupy(host, gpus, location, requirement, count)
        return count

    def add(self, name: str) -> bool:
        """Place one more slot of a unit wherever it fits; return whether it fits anywhere.

        A unit that is pinned per host gets none.
        """
        unit, requirement = self.units[name], self._requirements[name]
        if unit.fixed_per_host is not None or self.counts[name] >= requirement.max_slots:
            return False
        while self._next[name] < len(self._names):
            where = self._names[self._next[name]]
            host = self._hosts[where]
            gpus = _choose_gpus(host, requirement)
            if gpus is not None and _fits(host, gpus, requirement) > 0:
                self._occupy(host, gpus, SlotLocation(where, name, tuple([gpu.name for gpu in gpus])), requirement, 1)
                return True
            self._next[name] += 1
        return False

    def _occupy(
        self,
        host: _FreeHost,
        gpus: Sequence[_FreeGpu],
        location: SlotLocation,
        requirement: _SlotRequirement,
        count: int,
    ) -> None:
        host.cpus -= requirement.cpus * count
        if not gpus:
            host.free_slots -= count
        else:
            gpus[0].free_slots -= count
        for gpu in gpus:
            gpu.share -= requirement.share * count
            gpu.memory -= requirement.memory / len(gpus) * count
        self.taken[location] += count
        self.counts[location.unit] += count


def place_all(capacity: Capacity, *allocations: Mapping[SlotLocation, int]) -> Allocation:
    """Place allocations as far as they fit, the first one first; return all slots that are placed then."""
    for allocation_ in allocations:
        for location, slots in allocation_.items():
            if slots > capacity.taken[location]:
                capacity.take(location, slots - capacity.taken[location])
    return +capacity.taken


def grow(capacity: Capacity, working: Sequence[SchedulingUnit], may: Container[str]) -> Allocation:
    """Give free capacity to the slowest unit, repeatedly, until it cannot have more.

    Args:
        working: the units that count.
        may: names of the units that may grow.
    """
    heap = [(unit.rate(capacity.counts[unit.name]), number) for number, unit in enumerate(working)]
    heapify(heap)
    while heap and heap[0][0] < inf:
        unit = working[heap[0][1]]
        if unit.name not in may or not capacity.add(unit.name):
            break
        heapreplace(heap, (unit.rate(capacity.counts[unit.name]), heap[0][1]))
    return +capacity.taken


def surplus_slots(
    units: Iterable[SchedulingUnit], allocation: Mapping[SlotLocation, int], throughput: float
) -> Counter[str]:
    """Count the slots of each unit that are not needed for a throughput; all slots of a unit without work.

    Examples:
        >>> surplus_slots([SchedulingUnit("read", seconds=0.5)], {SlotLocation("a", "read"): 5}, throughput=4.0)
        Counter({'read': 3})
    """
    excess: Counter[str] = Counter(count_slots(allocation))
    for unit in units:
        if unit.weight > 0:
            work = throughput * unit.seconds * unit.weight if unit.seconds > 0 else 0.0
            excess[unit.name] -= max(1, ceil(work * (1 - EPSILON))) if work < inf else excess[unit.name]
    return +excess


def _fits(host: _FreeHost, gpus: Sequence[_FreeGpu], requirement: _SlotRequirement) -> int:
    """How many slots of a unit fit on a host, on these GPUs if there are any."""
    fits: float = gpus[0].free_slots if gpus else host.free_slots
    if requirement.cpus > 0:
        fits = min(fits, (host.cpus + EPSILON) / requirement.cpus)
    for gpu in gpus:
        if requirement.gpus > 0:
            fits = min(fits, (gpu.share + EPSILON) / requirement.share)
        if requirement.memory > 0 and gpu.known:
            fits = min(fits, gpu.memory * (1 + EPSILON) * len(gpus) / requirement.memory)
    return int(fits)


def _choose_gpus(host: _FreeHost, requirement: _SlotRequirement) -> list[_FreeGpu] | None:
    """Choose the GPUs for one more slot, the fullest with enough capacity; None if there are not enough."""
    if not requirement.on_gpu:
        return []
    number = max(1, ceil(requirement.gpus - EPSILON))
    able = [gpu for gpu in host.gpus.values() if gpu.free_slots > 0 and gpu.share + EPSILON >= requirement.share]
    able = [gpu for gpu in able if not gpu.known or gpu.memory * (1 + EPSILON) >= requirement.memory / number]
    able.sort(key=lambda gpu: (gpu.share, gpu.memory))
    return able[:number] if len(able) >= number else None
