"""Fill named hosts one slot after the other, and find slots that are not needed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from math import ceil, inf

from dcurate.engine.allocate.allocation import UNLIMITED, Allocation, Host, SchedulingUnit, SlotLocation, count_slots
from dcurate.engine.allocate.layouts import gpu_positions, host_classes
from dcurate.engine.allocate.model import Bin, Bins, Item


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
        self.taken: Allocation = Counter()
        self.counts: Counter[str] = Counter()
        self._bins = Bins(self.units.values())
        self._items = dict(zip(self.units, self._bins.items, strict=True))
        self._hosts = {host.name: host for host in hosts}
        self._filled: dict[str, Bin] = {}
        self._gpus: dict[str, dict[str, int]] = {}
        for host_class in host_classes(self._hosts.values()):
            for name, gpus in host_class.hosts:
                self._filled[name] = self._bins.empty(host_class)
                self._gpus[name] = {gpu: position for position, gpu in enumerate(gpus)}
        limits = {unit.name: (unit.fixed, unit.max_slots, UNLIMITED) for unit in self.units.values()}
        self._most = {name: min(limit for limit in some if limit is not None) for name, some in limits.items()}
        self._names = list(self._hosts)
        self._next = dict.fromkeys(self.units, 0)

    def take(self, location: SlotLocation, slots: int = 1) -> int:
        """Place up to `slots` slots at a location; return how many fit."""
        host_bin, item = self._filled.get(location.host), self._items.get(location.unit)
        gpus = gpu_positions(item, location.gpus, self._gpus[location.host]) if host_bin and item else None
        if host_bin is None or item is None or gpus is None:
            return 0
        count = min(
            slots, self._bins.fits_at(host_bin, item, gpus), self._most[location.unit] - self.counts[location.unit]
        )
        if count <= 0:
            return 0
        self._filled[location.host] = self._bins.put(host_bin, item, gpus, count)
        self.taken[location] += count
        self.counts[location.unit] += count
        return count

    def add(self, name: str) -> bool:
        """Place one more slot of a unit wherever it fits; return whether it fits anywhere.

        A unit that is pinned per host gets none.
        """
        if self.units[name].fixed_per_host is not None or self.counts[name] >= self._most[name]:
            return False
        while self._next[name] < len(self._names):
            host = self._names[self._next[name]]
            gpus = self._fullest_gpus(host, self._items[name])
            if gpus is not None and self.take(SlotLocation(host, name, gpus)):
                return True
            self._next[name] += 1
        return False

    def _fullest_gpus(self, host: str, item: Item) -> tuple[str, ...] | None:
        """Choose the GPUs for one more slot, the fullest with enough capacity; None if there are not enough."""
        if not item.on_gpu:
            return ()
        able: list[tuple[int, float, int, str]] = []
        for gpu in self._hosts[host].gpus:
            fill = self._filled[host].gpus[self._gpus[host][gpu.name]]
            if fill.free_slots > 0 and (fill.free_for(item) if item.num_gpus else fill.fits(item)):
                used = sum(self._bins.items[index].memory * slots for index, slots in fill.slot_counts)
                able.append((fill.share, gpu.memory - used, len(able), gpu.name))
        number = max(1, item.num_gpus)
        return tuple([name for *_, name in sorted(able)[:number]]) if len(able) >= number else None


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
            excess[unit.name] -= max(1, ceil(work * (1 - 1e-9))) if work < inf else excess[unit.name]
    return +excess
