"""Convert hosts and slots at locations to layouts of the bin-packing model, and layouts back to locations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dcurate.engine.allocate.allocation import Allocation, Host, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.model import (
    PLENTY,
    Bin,
    Bins,
    GpuState,
    HostClass,
    HostId,
    HostResources,
    Item,
    Layout,
    SlotGroup,
    replace_hosts,
    total_slots,
    whole,
)


def host_classes(hosts: Iterable[Host]) -> list[HostClass]:
    """Group hosts by their resources, in an order that does not depend on theirs.

    Examples:
        >>> [len(each.hosts) for each in host_classes([Host("a", 4), Host("b", 8), Host("c", 4)])]
        [2, 1]
    """
    kinds: dict[tuple[float, int, tuple[tuple[float, int, float], ...], bool], list[HostId]] = {}
    for host in sorted(hosts, key=lambda host: host.name):
        gpus = sorted(host.gpus, key=lambda gpu: (gpu.memory or PLENTY, gpu.max_slots, gpu.share, gpu.name))
        gpu_kinds = tuple([(gpu.memory, gpu.max_slots, gpu.share) for gpu in gpus])
        kind = (host.cpus, host.max_slots, gpu_kinds, host.shared)
        kinds.setdefault(kind, []).append((host.name, tuple([gpu.name for gpu in gpus])))
    return [
        HostClass(number, HostResources(whole(cpus), slots, tuple(_empty(*gpu) for gpu in gpus), shared), hosts)
        for number, ((cpus, slots, gpus, shared), hosts) in enumerate(sorted(kinds.items()))
    ]


def _empty(memory: float, free_slots: int, share: float) -> GpuState:
    return GpuState(whole(share), whole(memory, 1) if memory > 0 else PLENTY, free_slots)


def gpu_positions(item: Item, names: Sequence[str], known: Mapping[str, int]) -> tuple[int, ...] | None:
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
            host_bin, known = bins.empty(kind), {gpu: position for position, gpu in enumerate(names)}
            for index, taken, slots in sorted(on_host.get(name, ())):
                item = bins.items[index]
                gpus = gpu_positions(item, taken, known)
                if gpus is not None and (fits := min(slots, bins.fits_at(host_bin, item, gpus))) > 0:
                    host_bin = bins.put(host_bin, item, gpus, fits)
            host_bin, ordered = _normalize_gpus(bins, host_bin, names)
            fillings.setdefault(host_bin, []).append((name, ordered))
    layout: Layout = {}
    for number, (host_bin, hosts) in enumerate(fillings.items()):
        layout[bins.make(HostClass(number, host_bin.host_class.resources, hosts), *host_bin.state[1:])] = len(hosts)
    return layout


def _normalize_gpus(bins: Bins, host_bin: Bin, names: tuple[str, ...]) -> tuple[Bin, tuple[str, ...]]:
    """Order GPUs of the same kind by their slots, so that hosts with equal fillings are equal."""
    multi_gpu_index = {gpu: number for number, (_, taken) in enumerate(host_bin.multi_gpu) for gpu in taken}
    empty, fills = host_bin.host_class.gpus, host_bin.gpus
    order = sorted(
        range(len(fills)), key=lambda gpu: (empty[gpu], fills[gpu].slot_counts, multi_gpu_index.get(gpu, -1))
    )
    now = {gpu: position for position, gpu in enumerate(order)}
    multi_gpu = tuple(sorted((unit, tuple(now[gpu] for gpu in taken)) for unit, taken in host_bin.multi_gpu))
    gpus = tuple(fills[gpu] for gpu in order)
    normal = bins.make(host_bin.host_class, host_bin.cpus, host_bin.free_slots, gpus, host_bin.slot_counts, multi_gpu)
    return normal, tuple(names[gpu] for gpu in order)


def drop_surplus(bins: Bins, layout: Layout, limits: Sequence[int | None]) -> Layout:
    """Drop slots above `limits`, preferring those that free a whole GPU, then those on emptier hosts."""
    layout = dict(layout)
    counts = total_slots(layout, len(bins.items))
    for index, limit in enumerate(limits):
        extra = counts[index] - limit if limit is not None else 0
        while extra > 0:
            host_bin, group = min(
                ((host_bin, group) for host_bin in layout for group in host_bin.groups() if group.unit == index),
                key=lambda candidate: _drop_order(*candidate),
            )
            slots = min(group.slots, extra)
            hosts = min(layout[host_bin], extra // slots)
            replace_hosts(layout, host_bin, bins.put(host_bin, bins.items[index], group.gpus, -slots), hosts)
            extra -= hosts * slots
    return layout


def _drop_order(host_bin: Bin, group: SlotGroup) -> tuple[bool, int, int]:
    shared = bool(group.gpus) and len(host_bin.gpus[group.gpus[0]].slot_counts) > 1
    return shared, sum(host_bin.slots().values()), host_bin.host_class.number


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
    for host_bin, hosts in layout.items():
        begin = used.get(host_bin.host_class, 0)
        used[host_bin.host_class] = begin + hosts
        for host, gpus in host_bin.host_class.hosts[begin : begin + hosts]:
            allocation.update(allocation_on(host_bin, units, host, gpus))
    return allocation


def align_to_current(units: Sequence[SchedulingUnit], layout: Layout, current_layout: Layout) -> Allocation:
    """Convert a layout to locations, on those of its equal hosts and GPUs that have most of it now.

    Args:
        layout: in classes of `host_classes`.
        current_layout: the same hosts with their current slots, see `load_current`.
    """
    allocation: Allocation = Counter()
    now: dict[HostResources, list[tuple[Bin, list[HostId]]]] = {}
    for host_bin in current_layout:
        now.setdefault(host_bin.host_class.resources, []).append((host_bin, list(host_bin.host_class.hosts)))
    remaining = dict(layout)
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
        order = _gpu_order(new, old) if remaining[new] and hosts else ()
        while remaining[new] and hosts:
            host, gpus = hosts.pop(0)
            remaining[new] -= 1
            allocation.update(allocation_on(new, units, host, [gpus[number] for number in order]))
    return allocation


def _gpu_order(new: Bin, old: Bin) -> list[int]:
    """Map each GPU of a bin to a GPU of the current one, so that most slots stay."""
    order: dict[int, int] = {}
    free = list(old.multi_gpu)
    for index, taken in new.multi_gpu:
        same = next((slot for slot in free if slot[0] == index), None)
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
