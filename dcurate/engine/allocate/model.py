"""The bin-packing model: slots are items, hosts are bins, and all amounts are integers. Pure.

Equal hosts form one *host class*, and a *bin* is a host class filled in some way. A *layout* says how many hosts are
filled like which bin, so that a thousand equal hosts cost no more than one. Each bin is made once and caches what it
becomes when slots are added, which makes trying many layouts cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dcurate.engine.allocate.allocation import (
    SchedulingUnit,
)

#: Cores, and shares of a GPU, are counted in millionths.
MILLION = 1_000_000

#: More of a resource than is ever needed.
PLENTY = 1 << 60

#: Slots by item, ascending.
SlotCounts = tuple[tuple[int, int], ...]


def whole(amount: float, scale: float = MILLION) -> int:
    """Convert an amount to an integer: ten tenths make one, six sixths are not more than one.

    Examples:
        >>> whole(0.1), 6 * whole(1 / 6)
        (100000, 999996)
    """
    return int(amount * scale + 1e-3)


class Item(NamedTuple):
    """The requirement of one slot of a unit.

    Attributes:
        unit: its index.
        cpus: millionths of a core.
        share: millionths of a GPU; 0 for a slot that takes whole GPUs.
        memory: bytes on each of its GPUs.
        num_gpus: number of whole GPUs.
        on_gpu: whether it runs in a process of a GPU, and not in a CPU process.
    """

    unit: int
    cpus: int
    share: int
    memory: int
    num_gpus: int
    on_gpu: bool

    @property
    def gpu_total(self) -> int:
        """Millionths of GPUs, all together."""
        return self.share + self.num_gpus * MILLION

    @classmethod
    def of(cls, number: int, unit: SchedulingUnit) -> Item:
        """Build the item of a unit; a number of GPUs above one is rounded up."""
        num_gpus = -int(-unit.gpus // 1) if unit.gpus >= 1 else 0
        share = 0 if num_gpus else max(whole(unit.gpus), int(unit.gpus > 0))
        memory = whole(unit.gpu_memory / max(num_gpus, 1), 1)
        return cls(number, whole(unit.cpus), share, memory, num_gpus, unit.on_gpu)


class GpuState(NamedTuple):
    """Free resources of a GPU, and its slots; a GPU that is taken whole has 0 slots of the item."""

    share: int
    memory: int
    free_slots: int
    slot_counts: SlotCounts = ()

    def fits(self, item: Item) -> int:
        """How many slots fit, ignoring cores; for slots that do not take whole GPUs."""
        slots = self.free_slots
        if item.share:
            slots = min(slots, self.share // item.share)
        if item.memory and self.memory < PLENTY:
            slots = min(slots, self.memory // item.memory)
        return slots

    def free_for(self, item: Item) -> bool:
        """Whether it can be one of the GPUs of a slot that takes whole ones."""
        return not self.slot_counts and self.share == MILLION and self.memory >= item.memory

    def place(self, item: Item, slots: int) -> GpuState:
        """The GPU with more slots, or fewer if negative."""
        memory = self.memory - slots * item.memory if self.memory < PLENTY else PLENTY
        slot_counts = with_slots(self.slot_counts, item.unit, slots)
        return GpuState(self.share - slots * item.share, memory, self.free_slots - slots, slot_counts)


def with_slots(slot_counts: SlotCounts, index: int, slots: int) -> SlotCounts:
    """Add slots of one item, or remove them if negative."""
    counts = dict(slot_counts)
    counts[index] = counts.get(index, 0) + slots
    return tuple(sorted(pair for pair in counts.items() if pair[1]))


#: Name of a host, and names of its GPUs.
HostId = tuple[str, tuple[str, ...]]


class HostResources(NamedTuple):
    """The resources of a host.

    Attributes:
        cpus: millionths of a core.
        max_slots: for CPU slots.
        gpus: each when it is empty, the smallest first.
        shared: whether slots on its GPUs take of ``max_slots``, too.
    """

    cpus: int
    max_slots: int
    gpus: tuple[GpuState, ...]
    shared: bool


class HostClass:
    """Hosts with equal resources.

    Attributes:
        number: unique; independent of the order of the hosts.
        resources: resources of one of the hosts.
        hosts: name of each host and of its GPUs, in the order of `HostResources.gpus`.
    """

    def __init__(self, number: int, resources: HostResources, hosts: list[HostId]) -> None:
        self.number, self.resources, self.hosts = number, resources, hosts

    @property
    def gpus(self) -> tuple[GpuState, ...]:
        """Each GPU when it is empty, the smallest first."""
        return self.resources.gpus


class SlotGroup(NamedTuple):
    """Slots of an item at one place of a host: at the positions of their GPUs, or on its CPUs if there are none."""

    unit: int
    gpus: tuple[int, ...]
    slots: int


class Bin:
    """A filled host that caches what it becomes. Only `Bins` makes bins; equal bins are identical.

    Attributes:
        state: the next six attributes.
        cpus: free millionths of a core.
        free_slots: for CPU slots, and for GPU slots where these share processes with them.
        gpus: state of each GPU.
        slot_counts: CPU slots.
        multi_gpu: slots that take whole GPUs: the item, and the positions of the GPUs, that of its process first.
        free_gpu: free GPU capacity in millionths of GPUs, where memory counts as a share of the GPU's.
        fits_cache: how many slots of an item fit.
        place_cache: the bin with a number of slots of an item added, anywhere or on certain GPUs.
    """

    __slots__ = (
        "_groups",
        "cpus",
        "fits_cache",
        "free_gpu",
        "free_slots",
        "gpus",
        "host_class",
        "multi_gpu",
        "place_cache",
        "slot_counts",
        "state",
    )

    def __init__(self, state: _BinState) -> None:
        self.state = state
        self.host_class, self.cpus, self.free_slots, self.gpus, self.slot_counts, self.multi_gpu = state
        self.free_gpu = sum(
            min(gpu.share, gpu.memory * MILLION // empty.memory)
            for gpu, empty in zip(self.gpus, self.host_class.gpus, strict=True)
        )
        self.fits_cache: dict[int, int] = {}
        self.place_cache: dict[tuple[int, int] | tuple[int, tuple[int, ...], int], Bin] = {}
        self._groups: list[SlotGroup] | None = None

    def groups(self) -> list[SlotGroup]:
        """Return all slots."""
        if self._groups is None:
            self._groups = [SlotGroup(index, (), slots) for index, slots in self.slot_counts]
            for gpu, fill in enumerate(self.gpus):
                self._groups += [SlotGroup(index, (gpu,), slots) for index, slots in fill.slot_counts if slots]
            self._groups += [SlotGroup(index, gpus, 1) for index, gpus in self.multi_gpu]
        return self._groups

    def slots(self) -> dict[int, int]:
        """Count the slots of each item."""
        counts: dict[int, int] = {}
        for index, _, slots in self.groups():
            counts[index] = counts.get(index, 0) + slots
        return counts


_BinState = tuple[HostClass, int, int, tuple[GpuState, ...], SlotCounts, tuple[tuple[int, tuple[int, ...]], ...]]

#: Number of hosts that are filled like each bin.
Layout = dict[Bin, int]


def replace_hosts(layout: Layout, old: Bin, new: Bin, hosts: int = 1) -> None:
    """Refill hosts of one bin like another."""
    if layout[old] == hosts:
        del layout[old]
    else:
        layout[old] -= hosts
    layout[new] = layout.get(new, 0) + hosts


def total_slots(layout: Layout, items: int) -> list[int]:
    """Count the slots of each item."""
    counts = [0] * items
    for host_bin, hosts in layout.items():
        for index, _, slots in host_bin.groups():
            counts[index] += slots * hosts
    return counts


class Bins:
    """Makes and caches bins."""

    def __init__(self, units: Iterable[SchedulingUnit]) -> None:
        self.items = tuple(Item.of(index, unit) for index, unit in enumerate(units))
        self._known: dict[_BinState, Bin] = {}

    def make(self, *state: *_BinState) -> Bin:
        """Return the bin with this state."""
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = Bin(state)
        return known

    def empty(self, host_class: HostClass) -> Bin:
        """Return an empty host of a class."""
        resources = host_class.resources
        return self.make(host_class, resources.cpus, resources.max_slots, resources.gpus, (), ())

    def fits(self, one: Bin, item: Item) -> int:
        """How many slots fit on a host."""
        slots = one.fits_cache.get(item.unit)
        if slots is None:
            slots = one.fits_cache[item.unit] = _fits_on(one, item)
        return slots

    def fits_at(self, one: Bin, item: Item, gpus: tuple[int, ...]) -> int:
        """How many slots fit on the GPUs at these positions, or on the CPUs of the host if there are none."""
        limit = _limit_on(one, item)
        if not gpus:
            return limit
        first = one.gpus[gpus[0]]
        if item.num_gpus:
            return min(limit, int(first.free_slots > 0 and all(one.gpus[gpu].free_for(item) for gpu in gpus)))
        return min(limit, first.fits(item))

    def place(self, one: Bin, item: Item, slots: int) -> Bin:
        """Return a host with more slots, which must fit: on the GPUs that they fill best."""
        key = (item.unit, slots)
        new = one.place_cache.get(key)
        if new is None:
            new = one.place_cache[key] = self._place(one, item, slots)
        return new

    def _place(self, host_bin: Bin, item: Item, slots: int) -> Bin:
        if not item.on_gpu:
            return self.put(host_bin, item, (), slots)
        if item.num_gpus:
            for _ in range(slots):
                host_bin = self.put(host_bin, item, _choose_gpus(host_bin, item))
            return host_bin
        while slots:
            best, gpu, fits = None, 0, 0
            for number, fill in enumerate(host_bin.gpus):
                here = min(slots, fill.fits(item))
                if not here:
                    continue
                memory = host_bin.host_class.gpus[number].memory
                leftover = (fill.share - here * item.share) / MILLION
                if item.memory and memory < PLENTY:
                    leftover += (fill.memory - here * item.memory) / memory
                rank = (not fill.slot_counts, leftover)
                if best is None or rank < best:
                    best, gpu, fits = rank, number, here
            host_bin = self.put(host_bin, item, (gpu,), fits)
            slots -= fits
        return host_bin

    def put(self, one: Bin, item: Item, gpus: tuple[int, ...], slots: int = 1) -> Bin:
        """Return a host with more slots, or fewer if negative, on the GPUs at these positions, or on its CPUs."""
        key = (item.unit, gpus, slots)
        new = one.place_cache.get(key)
        if new is None:
            new = one.place_cache[key] = self._put(one, item, gpus, slots)
        return new

    def _put(self, host_bin: Bin, item: Item, gpus: tuple[int, ...], slots: int) -> Bin:
        host_class, cpus, free_slots, fills, slot_counts, multi_gpu = host_bin.state
        if not gpus or host_class.resources.shared:
            free_slots -= slots
        if not gpus:
            slot_counts = with_slots(slot_counts, item.unit, slots)
        elif not item.num_gpus:
            fill = fills[gpus[0]].place(item, slots)
            fills = _with_gpus(host_bin, gpus, fill if fill.slot_counts else None)
        elif slots > 0:
            fills = _with_gpus(host_bin, gpus, GpuState(0, 0, 0, ((item.unit, 0),)))
            multi_gpu = tuple(sorted((*multi_gpu, (item.unit, gpus))))
        else:
            fills = _with_gpus(host_bin, gpus, None)
            multi_gpu = tuple(slot for slot in multi_gpu if slot != (item.unit, gpus))
        return self.make(host_class, cpus - slots * item.cpus, free_slots, fills, slot_counts, multi_gpu)


def _with_gpus(host_bin: Bin, gpus: tuple[int, ...], fill: GpuState | None) -> tuple[GpuState, ...]:
    """The GPUs of a host, of which some are filled otherwise, or empty."""
    fills = list(host_bin.gpus)
    for gpu in gpus:
        fills[gpu] = fill or host_bin.host_class.gpus[gpu]
    return tuple(fills)


def _limit_on(host: Bin, item: Item) -> int:
    """How many slots fit on a host if its GPUs were free."""
    limit = host.cpus // item.cpus if item.cpus else PLENTY
    return min(limit, host.free_slots) if not item.on_gpu or host.host_class.resources.shared else limit


def _fits_on(host: Bin, item: Item) -> int:
    limit = _limit_on(host, item)
    if limit <= 0 or not item.on_gpu:
        return max(0, limit)
    if item.num_gpus:
        free = [gpu for gpu in host.gpus if gpu.free_for(item)]
        return min(limit, len(free) // item.num_gpus, sum(gpu.free_slots > 0 for gpu in free))
    return min(limit, sum(gpu.fits(item) for gpu in host.gpus))


def _choose_gpus(host_bin: Bin, item: Item) -> tuple[int, ...]:
    """Choose whole GPUs for a slot: with no more memory than needed, and few with free processes."""
    free = [number for number, gpu in enumerate(host_bin.gpus) if gpu.free_for(item)]
    first = next(number for number in free if host_bin.gpus[number].free_slots > 0)
    remaining = [number for number in free if number != first]
    remaining.sort(key=lambda number: (host_bin.gpus[number].free_slots > 0, host_bin.gpus[number].memory, number))
    return (first, *remaining[: item.num_gpus - 1])
