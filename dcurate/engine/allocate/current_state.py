"""Load the current slots of hosts as bins, and lay a packed layout over them so that most slots stay. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.allocation import Allocation, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.packing import (
    Bin,
    Bins,
    BinState,
    GpuState,
    HostClass,
    HostId,
    Layout,
    allocation_on,
    replace_hosts,
    total_slots,
    with_slots,
)


class SlotGroup(NamedTuple):
    """Slots of an item on a host: on one GPU, on several whole GPUs, or on its CPUs."""

    unit: int
    gpu: int | None
    multi_gpu: tuple[int, ...]
    slots: int


def slot_groups(one: Bin) -> list[SlotGroup]:
    """Return all slots of a host."""
    found = [SlotGroup(index, None, (), slots) for index, slots in one.slot_counts]
    for gpu, fill in enumerate(one.gpus):
        found += [SlotGroup(index, gpu, (), slots) for index, slots in fill.slot_counts if slots]
    return found + [SlotGroup(index, None, multi_gpu, 1) for index, multi_gpu in one.multi_gpu]


def remove(bins: Bins, one: Bin, group: SlotGroup, slots: int) -> Bin:
    """Remove slots of a group from a host."""
    item = bins.items[group.unit]
    return (
        bins.drop_multi_gpu(one, item, group.multi_gpu) if group.multi_gpu else bins.put(one, item, group.gpu, -slots)
    )


def restore(bins: Bins, one: Bin, group: SlotGroup, slots: int) -> Bin | None:
    """Put slots of a group back on a host; None if they do not fit there."""
    item = bins.items[group.unit]
    if slots * item.cpus > one.cpus:
        return None
    if group.multi_gpu:
        return (
            bins.put_multi_gpu(one, item, group.multi_gpu)
            if all(one.gpus[c].free_for(item) for c in group.multi_gpu)
            else None
        )
    fits = one.free_slots if group.gpu is None else one.gpus[group.gpu].fits(item)
    return bins.put(one, item, group.gpu, slots) if slots <= fits else None


# From places to bins


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
        for name, own in kind.hosts:
            one, gpus = _load_host(bins, bins.empty(kind), own, sorted(on_host.get(name, ())))
            fillings.setdefault(one, []).append((name, gpus))
    layout: Layout = {}
    for number, (one, hosts) in enumerate(fillings.items()):
        kind = one.host_class
        host_class = HostClass(number, kind.cpus, kind.max_slots, kind.gpus, hosts)
        layout[with_host_class(bins, one, host_class)] = len(hosts)
    return layout


def with_host_class(bins: Bins, one: Bin, host_class: HostClass) -> Bin:
    """The bin in another host class that has the same resources."""
    return bins.make(one.filling._replace(host_class=host_class))


def _load_host(
    bins: Bins, one: Bin, gpus: tuple[str, ...], slots: Iterable[tuple[int, tuple[str, ...], int]]
) -> tuple[Bin, tuple[str, ...]]:
    """Load a host with its slots; order its GPUs so that hosts with equal fillings are equal."""
    number = {name: position for position, name in enumerate(gpus)}
    cpus, free_slots, slot_counts, fills = one.cpus, one.free_slots, one.slot_counts, list(one.gpus)
    multi_gpu: list[tuple[int, tuple[int, ...]]] = []
    for unit, names, count in slots:
        item = bins.items[unit]
        taken = tuple(number[name] for name in names if name in number)
        if len(taken) != max(item.num_gpus, int(item.on_gpu)) or len(set(taken)) != len(names):
            continue
        fits = min(count, cpus // item.cpus if item.cpus else count)
        if item.num_gpus:
            free = all(fills[gpu].free_for(item) for gpu in taken) and fills[taken[0]].free_slots > 0
            fits = min(fits, int(free))
            for gpu in taken if fits else ():
                fills[gpu] = GpuState(0, 0, 0, ((unit, 0),))
            multi_gpu += [(unit, taken)] * fits
        elif item.on_gpu:
            fits = min(fits, fills[taken[0]].fits(item))
            fills[taken[0]] = fills[taken[0]].place(item, fits) if fits else fills[taken[0]]
        else:
            fits = min(fits, free_slots)
            free_slots -= fits
            slot_counts = with_slots(slot_counts, unit, fits)
        cpus -= fits * item.cpus
    return _normalize_gpus(
        bins, BinState(one.host_class, cpus, free_slots, tuple(fills), slot_counts, tuple(multi_gpu)), gpus
    )


def _normalize_gpus(bins: Bins, filling: BinState, names: tuple[str, ...]) -> tuple[Bin, tuple[str, ...]]:
    """Order GPUs of the same kind by their slots."""
    multi_gpu_index = {gpu: number for number, (_, taken) in enumerate(filling.multi_gpu) for gpu in taken}
    empty, fills = filling.host_class.gpus, filling.gpus
    order = sorted(
        range(len(fills)), key=lambda gpu: (empty[gpu], fills[gpu].slot_counts, multi_gpu_index.get(gpu, -1))
    )
    now = {gpu: position for position, gpu in enumerate(order)}
    multi_gpu = tuple(sorted((unit, tuple(now[gpu] for gpu in taken)) for unit, taken in filling.multi_gpu))
    one = bins.make(filling._replace(gpus=tuple(fills[gpu] for gpu in order), multi_gpu=multi_gpu))
    return one, tuple(names[gpu] for gpu in order)


def drop_surplus(bins: Bins, layout: Layout, limits: Sequence[int | None]) -> Layout:
    """Drop slots above `limits`, preferring those that free a whole GPU, then those on emptier hosts."""
    layout = dict(layout)
    counts = total_slots(layout, len(bins.items))
    for index, limit in enumerate(limits):
        extra = counts[index] - limit if limit is not None else 0
        while extra > 0:
            one, group = min(
                ((one, group) for one in layout for group in slot_groups(one) if group.unit == index),
                key=lambda found: _drop_order(*found),
            )
            slots = min(group.slots, extra)
            hosts = min(layout[one], extra // slots)
            replace_hosts(layout, one, remove(bins, one, group, slots), hosts)
            extra -= hosts * slots
    return layout


def _drop_order(one: Bin, group: SlotGroup) -> tuple[bool, int, int]:
    shared = group.gpu is not None and len(one.gpus[group.gpu].slot_counts) > 1
    return shared, sum(one.slots().values()), one.host_class.number


# Laying a layout over the current slots


def align_to_current(bins: Bins, units: Sequence[SchedulingUnit], layout: Layout, current_layout: Layout) -> Allocation:
    """Convert a layout to locations, on those of its equal hosts and GPUs that have most of it now.

    Args:
        layout: in classes of `dcurate.engine.allocate.packing.host_classes`.
        current_layout: the same hosts with their current slots, see `load_current`.
    """
    allocation: Allocation = Counter()
    now: dict[tuple[object, ...], list[tuple[Bin, list[HostId]]]] = {}
    for one in current_layout:
        now.setdefault(resources(one.host_class), []).append((one, list(one.host_class.hosts)))
    left = dict(layout)
    pairs: list[tuple[int, bool, int, int, Bin, int]] = []
    for new in layout:
        counts = new.slots()
        for number, (old, _) in enumerate(now[resources(new.host_class)]):
            before = old.slots()
            same = sum(min(slots, before.get(index, 0)) for index, slots in counts.items())
            more = sum(before.values()) - same
            pairs.append((-same, new.gpus != old.gpus, more, len(pairs), new, number))
    for *_, new, number in sorted(pairs, key=lambda pair: pair[:4]):
        old, hosts = now[resources(new.host_class)][number]
        order = _gpu_order(new, old) if left[new] and hosts else ()
        while left[new] and hosts:
            host, gpus = hosts.pop(0)
            left[new] -= 1
            allocation.update(allocation_on(new, units, host, [gpus[number] for number in order]))
    return allocation


def resources(host_class: HostClass) -> tuple[object, ...]:
    """The resources of a host of a class."""
    return host_class.cpus, host_class.max_slots, host_class.gpus


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
