"""Add slots to those that hosts have: find capacity, or drop and move others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.layouts import drop_surplus
from dcurate.engine.allocate.model import PLENTY, Bin, Bins, Item, Layout, SlotGroup, replace_hosts, total_slots
from dcurate.engine.allocate.packer import Packer, emptiest_first
from dcurate.engine.allocate.packing_heuristics import HEURISTICS

#: Limits of the search: host classes looked at for one slot, evictions planned for one question, and relocations tried.
MAX_HOSTS, MAX_PLANS, TRIES = 64, 500, 200


class _Eviction(NamedTuple):
    """A host after slots were dropped, and how many of each unit."""

    one: Bin
    dropped: dict[int, int]

    @property
    def slots(self) -> int:
        return sum(self.dropped.values())


class IncrementalPacker:
    """Current slots, and how they can become other counts without moving any.

    Args:
        bins: bins of the units.
        layout: the current slots; each host class has one bin.
    """

    def __init__(self, bins: Bins, layout: Layout, effort: int) -> None:
        self.bins, self.layout = bins, layout
        self.counts = total_slots(layout, len(bins.items))
        self.packer = Packer(bins, layout, effort)
        self._dropped: dict[Bin, tuple[SlotGroup, ...]] = {}

    def grow_to(self, wanted: Sequence[int], hard: bool = False) -> Layout | None:
        """At least these numbers of slots of each unit; where there are more now, as many of them as can stay."""
        layout, missing = self.closest_to(wanted, hard)
        return None if any(missing) else layout

    def closest_to(self, wanted: Sequence[int], hard: bool = False) -> tuple[Layout, list[int]]:
        """The layout that comes closest to these numbers of slots, and the slots that are missing."""
        shortage = [max(0, want - count) for want, count in zip(wanted, self.counts, strict=True)]
        packed = self.packer.pack_exhaustively(shortage)[0] if hard else self.packer.pack(shortage)
        if packed is not None:
            return packed, [0] * len(shortage)
        surplus = [max(0, count - want) for want, count in zip(wanted, self.counts, strict=True)]
        best = None
        for layout, missing in self.packer.closest(shortage, len(HEURISTICS) if hard else 3)[:3]:
            evicted = self._evict(layout, missing, list(surplus))
            if best is None or sum(evicted[1]) < sum(best[1]):
                best = evicted
            if not any(best[1]):
                break
        assert best is not None
        layout, missing = best
        if hard and any(missing) and any(surplus):
            alternative = self._evict_others(layout, missing, wanted)
            layout, missing = (layout, missing) if alternative is None else (alternative, [0] * len(shortage))
        return self._restore_all(layout), missing

    def _evict_others(self, layout: Layout, missing: Sequence[int], wanted: Sequence[int]) -> Layout | None:
        """Drop other slots of the units that have more than they need, so that all slots fit."""
        units = list(zip(wanted, self.counts, strict=True))
        limits = [want if count > want else None for want, count in units]

        def put_back(_: Sequence[int], after: Layout) -> Layout | None:
            pinned_now = zip(limits, total_slots(after, len(units)), strict=True)
            return self._put_back([max(0, (limit or 0) - slots) for limit, slots in pinned_now], after)

        return self.relocate(
            drop_surplus(self.bins, layout, limits), missing, [limit is None for limit in limits], put_back
        )

    def _evict(self, layout: Layout, missing: Sequence[int], surplus: list[int]) -> tuple[Layout, list[int]]:
        """Drop unneeded slots in favour of needed ones, as few as possible for each."""
        layout, missing, plans_left = dict(layout), list(missing), MAX_PLANS
        for unit in self.packer.hardest_first:
            item = self.bins.items[unit]
            known: dict[Bin, _Eviction | None] = {}
            while missing[unit] and plans_left > 0:
                best: tuple[int, Bin, _Eviction] | None = None
                for host_bin in emptiest_first(layout)[:MAX_HOSTS]:
                    plan = known.get(host_bin)
                    if host_bin not in known or (plan and any(surplus[i] < slots for i, slots in plan.dropped.items())):
                        plan = known[host_bin] = self._clear_for(host_bin, item, surplus)
                        plans_left -= 1
                    if plan and (best is None or plan.slots < best[0]):
                        best = plan.slots, host_bin, plan
                if best is None:
                    break
                _, host_bin, plan = best
                hosts = min(
                    layout[host_bin], missing[unit], *(surplus[i] // slots for i, slots in plan.dropped.items())
                )
                replace_hosts(layout, host_bin, self.bins.place(plan.one, item, 1), hosts)
                missing[unit] -= hosts
                for i, slots in plan.dropped.items():
                    surplus[i] -= slots * hosts
        return layout, missing

    def relocate(
        self,
        layout: Layout,
        missing: Sequence[int],
        stays: Sequence[bool],
        place: Callable[[Sequence[int], Layout], Layout | None] | None = None,
    ) -> Layout | None:
        """Free capacity for missing slots by taking others away, few for each, and placing these elsewhere.

        Args:
            stays: whether slots of a unit must stay where they are.
            place: places those that were taken away; anywhere by default.
        """
        place = place or (lambda slots, after: self.packer.pack(slots, layout=after))
        layout, missing, tries = dict(layout), list(missing), TRIES
        while any(missing):
            plans: list[tuple[int, int, Bin, Item, _Eviction]] = []
            for host_bin in emptiest_first(layout)[:MAX_HOSTS]:
                for item in self.bins.items:
                    free = [0 if fast or unit == item.unit else PLENTY for unit, fast in enumerate(stays)]
                    plan = self._clear_for(host_bin, item, free) if missing[item.unit] else None
                    if plan:
                        plans.append((plan.slots, len(plans), host_bin, item, plan))
            for _, _, host_bin, item, plan in sorted(plans, key=lambda plan: plan[:2])[:tries]:
                tries -= 1
                after = dict(layout)
                replace_hosts(after, host_bin, self.bins.place(plan.one, item, 1))
                placed = place([plan.dropped.get(unit, 0) for unit in range(len(missing))], after)
                if placed is not None:
                    layout = placed
                    missing[item.unit] -= 1
                    break
            else:
                return None
        return layout

    def _put_back(self, slots: Sequence[int], layout: Layout) -> Layout | None:
        """Put slots back where others of their unit were dropped."""
        layout = dict(layout)
        for unit, count in enumerate(slots):
            item = self.bins.items[unit]
            for _ in range(count):
                vacancy = next(
                    (
                        (host_bin, group.gpus)
                        for host_bin in layout
                        for group in self._dropped_groups(host_bin)
                        if group.unit == unit and self.bins.fits_at(host_bin, item, group.gpus)
                    ),
                    None,
                )
                if vacancy is None:
                    return None
                replace_hosts(layout, vacancy[0], self.bins.put(vacancy[0], item, vacancy[1]))
        return layout

    def _dropped_groups(self, host_bin: Bin) -> tuple[SlotGroup, ...]:
        """Return the current slots that were dropped on a host."""
        if host_bin not in self._dropped:
            here = {group[:2]: group.slots for group in host_bin.groups()}
            before = self.packer.base[host_bin.host_class].groups()
            gone = [group._replace(slots=group.slots - here.get(group[:2], 0)) for group in before]
            self._dropped[host_bin] = tuple(group for group in gone if group.slots > 0)
        return self._dropped[host_bin]

    def _clear_for(self, host_bin: Bin, item: Item, surplus: Sequence[int]) -> _Eviction | None:
        """Drop only what must go from a host to fit a slot; None if that is impossible."""
        bins, items = self.bins, self.bins.items
        if bins.fits(host_bin, item):
            return _Eviction(host_bin, {})
        droppable, empty, gone = list(surplus), host_bin, []
        for group in sorted(host_bin.groups(), key=lambda group: _eviction_cost(host_bin, group, surplus)):
            slots = min(group.slots, droppable[group.unit])
            if slots:
                droppable[group.unit] -= slots
                empty = bins.put(empty, items[group.unit], group.gpus, -slots)
                gone.append(group._replace(slots=slots))
        if not bins.fits(empty, item):
            return None
        crowd: Counter[tuple[int, ...]] = Counter()
        for group in gone:
            crowd[_shared_gpu(items, group)] += group.slots
        gone.sort(
            key=lambda group: (
                crowd[_shared_gpu(items, group)] / max(1, items[group.unit].num_gpus),
                items[group.unit].gpu_total,
            ),
            reverse=True,
        )
        for group in gone:
            empty = self._restore_up_to(empty, group, item)
        before, after = host_bin.slots(), empty.slots()
        dropped = {unit: slots - after.get(unit, 0) for unit, slots in before.items()}
        return _Eviction(empty, {unit: slots for unit, slots in dropped.items() if slots})

    def _restore_up_to(self, host_bin: Bin, group: SlotGroup, item: Item | None = None) -> Bin:
        """Put back as many slots of a group as leave capacity for a slot of an item."""
        mine, remaining, step = self.bins.items[group.unit], group.slots, group.slots
        while step:
            fits = step <= remaining and step <= self.bins.fits_at(host_bin, mine, group.gpus)
            new = self.bins.put(host_bin, mine, group.gpus, step) if fits else None
            if new is not None and (item is None or self.bins.fits(new, item)):
                host_bin, remaining = new, remaining - step
            else:
                step //= 2
        return host_bin

    def _restore_all(self, layout: Layout) -> Layout:
        """Put every dropped slot back that still fits."""
        restored: Layout = {}
        for host_bin, hosts in layout.items():
            new = host_bin
            for group in self._dropped_groups(host_bin):
                new = self._restore_up_to(new, group)
            restored[new] = restored.get(new, 0) + hosts
        return restored


def _eviction_cost(host_bin: Bin, group: SlotGroup, surplus: Sequence[int]) -> tuple[int, int]:
    """How little it helps to drop slots: on GPUs where others stay, and where there are many."""
    slot_counts = host_bin.gpus[group.gpus[0]].slot_counts if group.gpus else ()
    return sum(slots for unit, slots in slot_counts if not surplus[unit]), sum(slots for _, slots in slot_counts)


def _shared_gpu(items: Sequence[Item], group: SlotGroup) -> tuple[int, ...]:
    """The GPU that slots share with others; none for slots on CPUs and on whole GPUs."""
    return () if items[group.unit].num_gpus else group.gpus
