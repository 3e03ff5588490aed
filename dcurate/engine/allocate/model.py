"""The bin-packing model: slots are items, hosts are bins, and all amounts are integers. Pure.

Equal hosts form one *host class*, and a *bin* is a host class filled in some way. A *layout* says how many hosts are
filled like which bin, so that a thousand equal hosts cost no more than one. Each bin is made once and caches what it
becomes when slots are added, which makes trying many layouts cheap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from math import ceil, inf
from typing import NamedTuple

from dcurate.engine.allocate.allocation import (
    UNLIMITED,
    Allocation,
    Host,
    SchedulingUnit,
    SlotLocation,
    count_slots,
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
        return not self.slot_counts and self.memory >= item.memory

    def place(self, item: Item, slots: int) -> GpuState:
        """The GPU with more slots, or fewer if negative."""
        memory = self.memory - slots * item.memory if self.memory < PLENTY else PLENTY
        slot_counts = with_slots(self.slot_counts, item.unit, slots)
        return GpuState(self.share - slots * item.share, memory, self.free_slots - slots, slot_counts)


def with_slots(slot_counts: SlotCounts, index: int, slots: int) -> SlotCounts:
    """Add slots of one item, or remove them if negative."""
    counts = dict(slot_counts)
    counts[index] = counts.get(index, 0) + slots
    return tuple(sorted(one for one in counts.items() if one[1]))


#: Name of a host, and names of its GPUs.
HostId = tuple[str, tuple[str, ...]]


class HostClass:
    """Hosts with equal resources.

    Attributes:
        number: unique; independent of the order of the hosts.
        cpus: millionths of a core.
        max_slots: for CPU slots.
        gpus: each when it is empty, the smallest first.
        hosts: name of each host and of its GPUs, in the order of ``gpus``.
    """

    def __init__(self, number: int, cpus: int, max_slots: int, gpus: tuple[GpuState, ...], hosts: list[HostId]) -> None:
        self.number, self.cpus, self.max_slots, self.gpus, self.hosts = number, cpus, max_slots, gpus, hosts

    @property
    def resources(self) -> tuple[int, int, tuple[GpuState, ...]]:
        """The resources of one of the hosts."""
        return self.cpus, self.max_slots, self.gpus


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
        free_slots: for CPU slots.
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
    for one, hosts in layout.items():
        for index, _, slots in one.groups():
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
        return self.make(host_class, host_class.cpus, host_class.max_slots, host_class.gpus, (), ())

    def fits(self, one: Bin, item: Item) -> int:
        """How many slots fit on a host."""
        slots = one.fits_cache.get(item.unit)
        if slots is None:
            slots = one.fits_cache[item.unit] = _fits_on(one, item)
        return slots

    def fits_at(self, one: Bin, item: Item, gpus: tuple[int, ...]) -> int:
        """How many slots fit on the GPUs at these positions, or on the CPUs of the host if there are none."""
        limit = one.cpus // item.cpus if item.cpus else PLENTY
        if not gpus:
            return min(limit, one.free_slots)
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

    def _place(self, one: Bin, item: Item, slots: int) -> Bin:
        if not item.on_gpu:
            return self.put(one, item, (), slots)
        if item.num_gpus:
            for _ in range(slots):
                one = self.put(one, item, _choose_gpus(one, item))
            return one
        while slots:
            best, gpu, fits = None, 0, 0
            for number, fill in enumerate(one.gpus):
                here = min(slots, fill.fits(item))
                if not here:
                    continue
                memory = one.host_class.gpus[number].memory
                left = (fill.share - here * item.share) / MILLION
                if item.memory and memory < PLENTY:
                    left += (fill.memory - here * item.memory) / memory
                rank = (not fill.slot_counts, left)
                if best is None or rank < best:
                    best, gpu, fits = rank, number, here
            one = self.put(one, item, (gpu,), fits)
            slots -= fits
        return one

    def put(self, one: Bin, item: Item, gpus: tuple[int, ...], slots: int = 1) -> Bin:
        """Return a host with more slots, or fewer if negative, on the GPUs at these positions, or on its CPUs."""
        key = (item.unit, gpus, slots)
        new = one.place_cache.get(key)
        if new is None:
            new = one.place_cache[key] = self._put(one, item, gpus, slots)
        return new

    def _put(self, one: Bin, item: Item, gpus: tuple[int, ...], slots: int) -> Bin:
        host_class, cpus, free_slots, fills, slot_counts, multi_gpu = one.state
        if not gpus:
            free_slots -= slots
            slot_counts = with_slots(slot_counts, item.unit, slots)
        elif not item.num_gpus:
            fill = fills[gpus[0]].place(item, slots)
            fills = _with_gpus(one, gpus, fill if fill.slot_counts else None)
        elif slots > 0:
            fills = _with_gpus(one, gpus, GpuState(0, 0, 0, ((item.unit, 0),)))
            multi_gpu = tuple(sorted((*multi_gpu, (item.unit, gpus))))
        else:
            fills = _with_gpus(one, gpus, None)
            multi_gpu = tuple(slot for slot in multi_gpu if slot != (item.unit, gpus))
        return self.make(host_class, cpus - slots * item.cpus, free_slots, fills, slot_counts, multi_gpu)


def _with_gpus(one: Bin, gpus: tuple[int, ...], fill: GpuState | None) -> tuple[GpuState, ...]:
    """The GPUs of a host, of which some are filled otherwise, or empty."""
    fills = list(one.gpus)
    for gpu in gpus:
        fills[gpu] = fill or one.host_class.gpus[gpu]
    return tuple(fills)


def _fits_on(one: Bin, item: Item) -> int:
    limit = one.cpus // item.cpus if item.cpus else PLENTY
    if limit <= 0:
        return 0
    if not item.on_gpu:
        return min(limit, one.free_slots)
    if item.num_gpus:
        free = [gpu for gpu in one.gpus if gpu.free_for(item)]
        return min(limit, len(free) // item.num_gpus, sum(gpu.free_slots > 0 for gpu in free))
    return min(limit, sum(gpu.fits(item) for gpu in one.gpus))


def _choose_gpus(one: Bin, item: Item) -> tuple[int, ...]:
    """Choose whole GPUs for a slot: with no more memory than needed, and few with free processes."""
    free = [number for number, gpu in enumerate(one.gpus) if gpu.free_for(item)]
    first = next(number for number in free if one.gpus[number].free_slots > 0)
    rest = [number for number in free if number != first]
    rest.sort(key=lambda number: (one.gpus[number].free_slots > 0, one.gpus[number].memory, number))
    return (first, *rest[: item.num_gpus - 1])


# From hosts and locations to bins


def host_classes(hosts: Iterable[Host]) -> list[HostClass]:
    """Group hosts by their resources, in an order that does not depend on theirs.

    Examples:
        >>> [len(each.hosts) for each in host_classes([Host("a", 4), Host("b", 8), Host("c", 4)])]
        [2, 1]
    """
    kinds: dict[tuple[float, int, tuple[tuple[float, int], ...]], list[HostId]] = {}
    for host in sorted(hosts, key=lambda one: one.name):
        gpus = sorted(host.gpus, key=lambda gpu: (gpu.memory or PLENTY, gpu.max_slots, gpu.name))
        kind = (host.cpus, host.max_slots, tuple([(gpu.memory, gpu.max_slots) for gpu in gpus]))
        kinds.setdefault(kind, []).append((host.name, tuple([gpu.name for gpu in gpus])))
    return [
        HostClass(number, whole(cpus), free_slots, tuple(_empty(*gpu) for gpu in gpus), kinds[cpus, free_slots, gpus])
        for number, (cpus, free_slots, gpus) in enumerate(sorted(kinds))
    ]


def _empty(memory: float, free_slots: int) -> GpuState:
    return GpuState(MILLION, whole(memory, 1) if memory > 0 else PLENTY, free_slots)


def _positions(item: Item, names: Sequence[str], known: Mapping[str, int]) -> tuple[int, ...] | None:
    """The positions of the GPUs of a slot; None if these are not as many different ones as it takes."""
    gpus = tuple([known[name] for name in names if name in known]) if names else ()
    enough = len(gpus) == len(names) == max(item.num_gpus, int(item.on_gpu)) == len(set(gpus))
    return gpus if enough else None


def load_current(
    bins: Bins, units: Sequence[SchedulingUnit], kinds: Sequence[HostClass], current: Mapping[SlotLocation, int]
) -> Layout:
    """Load hosts with their current slots: one host class per kind and filling, so that slots keep their GPUs.

    Slots of unknown hosts, GPUs and units, and those that do not fit, are left out.
    """
    index_of = {unit.name: index for index, unit in enumerate(units)}
    on_host: dict[str, list[tuple[int, tuple[str, ...], int]]] = {}
    for location, slots in current.items():
        if location.unit in index_of and slots > 0:
            on_host.setdefault(location.host, []).append((index_of[location.unit], location.gpus, slots))
    fillings: dict[Bin, list[HostId]] = {}
    for kind in kinds:
        for name, names in kind.hosts:
            one, known = bins.empty(kind), {gpu: position for position, gpu in enumerate(names)}
            for index, taken, slots in sorted(on_host.get(name, ())):
                item = bins.items[index]
                gpus = _positions(item, taken, known)
                if gpus is not None and (fits := min(slots, bins.fits_at(one, item, gpus))) > 0:
                    one = bins.put(one, item, gpus, fits)
            one, ordered = _normalize_gpus(bins, one, names)
            fillings.setdefault(one, []).append((name, ordered))
    layout: Layout = {}
    for number, (one, hosts) in enumerate(fillings.items()):
        layout[bins.make(HostClass(number, *one.host_class.resources, hosts), *one.state[1:])] = len(hosts)
    return layout


def _normalize_gpus(bins: Bins, one: Bin, names: tuple[str, ...]) -> tuple[Bin, tuple[str, ...]]:
    """Order GPUs of the same kind by their slots, so that hosts with equal fillings are equal."""
    multi_gpu_index = {gpu: number for number, (_, taken) in enumerate(one.multi_gpu) for gpu in taken}
    empty, fills = one.host_class.gpus, one.gpus
    order = sorted(
        range(len(fills)), key=lambda gpu: (empty[gpu], fills[gpu].slot_counts, multi_gpu_index.get(gpu, -1))
    )
    now = {gpu: position for position, gpu in enumerate(order)}
    multi_gpu = tuple(sorted((unit, tuple(now[gpu] for gpu in taken)) for unit, taken in one.multi_gpu))
    gpus = tuple(fills[gpu] for gpu in order)
    normal = bins.make(one.host_class, one.cpus, one.free_slots, gpus, one.slot_counts, multi_gpu)
    return normal, tuple(names[gpu] for gpu in order)


def drop_surplus(bins: Bins, layout: Layout, limits: Sequence[int | None]) -> Layout:
    """Drop slots above `limits`, preferring those that free a whole GPU, then those on emptier hosts."""
    layout = dict(layout)
    counts = total_slots(layout, len(bins.items))
    for index, limit in enumerate(limits):
        extra = counts[index] - limit if limit is not None else 0
        while extra > 0:
            one, group = min(
                ((one, group) for one in layout for group in one.groups() if group.unit == index),
                key=lambda found: _drop_order(*found),
            )
            slots = min(group.slots, extra)
            hosts = min(layout[one], extra // slots)
            replace_hosts(layout, one, bins.put(one, bins.items[index], group.gpus, -slots), hosts)
            extra -= hosts * slots
    return layout


def _drop_order(one: Bin, group: SlotGroup) -> tuple[bool, int, int]:
    shared = bool(group.gpus) and len(one.gpus[group.gpus[0]].slot_counts) > 1
    return shared, sum(one.slots().values()), one.host_class.number


# From bins to locations


def allocation_on(one: Bin, units: Sequence[SchedulingUnit], host: str, gpus: Sequence[str]) -> Allocation:
    """Convert the slots of a bin to locations on a host."""
    allocation: Allocation = Counter()
    for index, taken, slots in one.groups():
        allocation[SlotLocation(host, units[index].name, tuple([gpus[number] for number in taken]))] += slots
    return allocation


def to_allocation(layout: Layout, units: Sequence[SchedulingUnit]) -> Allocation:
    """Convert a layout to locations, on the hosts of each class in their order."""
    allocation: Allocation = Counter()
    used: dict[HostClass, int] = {}
    for one, hosts in layout.items():
        begin = used.get(one.host_class, 0)
        used[one.host_class] = begin + hosts
        for host, gpus in one.host_class.hosts[begin : begin + hosts]:
            allocation.update(allocation_on(one, units, host, gpus))
    return allocation


def align_to_current(units: Sequence[SchedulingUnit], layout: Layout, current_layout: Layout) -> Allocation:
    """Convert a layout to locations, on those of its equal hosts and GPUs that have most of it now.

    Args:
        layout: in classes of `host_classes`.
        current_layout: the same hosts with their current slots, see `load_current`.
    """
    allocation: Allocation = Counter()
    now: dict[tuple[int, int, tuple[GpuState, ...]], list[tuple[Bin, list[HostId]]]] = {}
    for one in current_layout:
        now.setdefault(one.host_class.resources, []).append((one, list(one.host_class.hosts)))
    left = dict(layout)
    pairs: list[tuple[int, bool, int, int, Bin, int]] = []
    for new in layout:
        counts = new.slots()
        for number, (old, _) in enumerate(now[new.host_class.resources]):
            before = old.slots()
            same = sum(min(slots, before.get(index, 0)) for index, slots in counts.items())
            more = sum(before.values()) - same
            pairs.append((-same, new.gpus != old.gpus, more, len(pairs), new, number))
    for *_, new, number in sorted(pairs, key=lambda pair: pair[:4]):
        old, hosts = now[new.host_class.resources][number]
        order = _gpu_order(new, old) if left[new] and hosts else ()
        while left[new] and hosts:
            host, gpus = hosts.pop(0)
            left[new] -= 1
            allocation.update(allocation_on(new, units, host, [gpus[number] for number in order]))
    return allocation


def _gpu_order(new: Bin, old: Bin) -> list[int]:
    """Map each GPU of a bin to a GPU of the current one, so that most slots stay."""
    order: dict[int, int] = {}
    free = list(old.multi_gpu)
    for index, taken in new.multi_gpu:
        same = next((one for one in free if one[0] == index), None)
        if same is not None and all(
            new.host_class.gpus[a] == old.host_class.gpus[b] for a, b in zip(taken, same[1], strict=True)
        ):
            free.remove(same)
            order.update(zip(taken, same[1], strict=True))
    pairs = []
    for a, fill in enumerate(new.gpus):
        counts = dict(fill.slot_counts)
        for b, before in enumerate(old.gpus):
            if new.host_class.gpus[a] == old.host_class.gpus[b]:
                pairs.append(
                    (-sum(min(slots, counts.get(index, 0)) for index, slots in before.slot_counts), a != b, a, b)
                )
    used = set(order.values())
    for _, _, a, b in sorted(pairs):
        if a not in order and b not in used:
            order[a] = b
            used.add(b)
    return [order[gpu] for gpu in range(len(new.gpus))]


# Named hosts that are filled one slot after the other


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
        self._most = {name: min(one for one in some if one is not None) for name, some in limits.items()}
        self._names = list(self._hosts)
        self._next = dict.fromkeys(self.units, 0)

    def take(self, location: SlotLocation, slots: int = 1) -> int:
        """Place up to `slots` slots at a location; return how many fit."""
        one, item = self._filled.get(location.host), self._items.get(location.unit)
        gpus = _positions(item, location.gpus, self._gpus[location.host]) if one and item else None
        if one is None or item is None or gpus is None:
            return 0
        count = min(slots, self._bins.fits_at(one, item, gpus), self._most[location.unit] - self.counts[location.unit])
        if count <= 0:
            return 0
        self._filled[location.host] = self._bins.put(one, item, gpus, count)
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
