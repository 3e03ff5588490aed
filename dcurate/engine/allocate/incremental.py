"""Other counts of slots where some stand: they are added, or dropped to make room; the rest stays in place. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.current_state import Spot, again, spots, trimmed, without
from dcurate.engine.allocate.heuristics import HEURISTICS
from dcurate.engine.allocate.packing import PLENTY, Bin, Bins, Item, Layout, exchange, total
from dcurate.engine.allocate.search import Packer

#: Kinds of hosts that are looked at for slots to drop, for one slot and for one question; and moves that are tried.
LOOKED_AT, LOOKS, TRIES = 64, 500, 200


class _Cleared(NamedTuple):
    """A host where slots were dropped, and how many of each unit."""

    one: Bin
    dropped: dict[int, int]

    @property
    def slots(self) -> int:
        return sum(self.dropped.values())


class IncrementalPacker:
    """What stands, and how it can serve other counts of slots without moving any.

    Args:
        bins: of the units.
        layout: what stands; each model has one bin.
    """

    def __init__(self, bins: Bins, layout: Layout, effort: int) -> None:
        self.bins, self.layout = bins, layout
        self.counts = total(layout, len(bins.items))
        self.packer = Packer(bins, layout, effort)
        self._dropped: dict[Bin, tuple[tuple[Spot, int], ...]] = {}

    def grown(self, wanted: Sequence[int], hard: bool = False) -> Layout | None:
        """At least so many slots of each unit; where there are more now, of them as many as can stay."""
        layout, missing = self.nearest(wanted, hard)
        return None if any(missing) else layout

    def nearest(self, wanted: Sequence[int], hard: bool = False) -> tuple[Layout, list[int]]:
        """What comes closest to so many slots of each unit, and the slots that are missing."""
        lack = [max(0, want - count) for want, count in zip(wanted, self.counts, strict=True)]
        packed = self.packer.pack_hard(lack)[0] if hard else self.packer.pack(lack)
        if packed is not None:
            return packed, [0] * len(lack)
        surplus = [max(0, count - want) for want, count in zip(wanted, self.counts, strict=True)]
        best = None
        for layout, missing in self.packer.most(lack, len(HEURISTICS) if hard else 3)[:3]:
            left = self._make_room(layout, missing, list(surplus))
            if best is None or sum(left[1]) < sum(best[1]):
                best = left
            if not any(best[1]):
                break
        assert best is not None
        layout, missing = best
        if hard and any(missing) and any(surplus):
            others = self._with_others_dropped(layout, missing, wanted)
            layout, missing = (layout, missing) if others is None else (others, [0] * len(lack))
        return self._restored(layout), missing

    def _with_others_dropped(self, layout: Layout, missing: Sequence[int], wanted: Sequence[int]) -> Layout | None:
        """With other slots dropped of the units that have more than they need, so that all find room."""
        units = list(zip(wanted, self.counts, strict=True))
        limits = [want if count > want else None for want, count in units]

        def put_back(_: Sequence[int], after: Layout) -> Layout | None:
            stand = zip(limits, total(after, len(units)), strict=True)
            return self._returned([max(0, (limit or 0) - slots) for limit, slots in stand], after)

        return self._shifted(trimmed(self.bins, layout, limits), missing, [limit is None for limit in limits], put_back)

    def _make_room(self, layout: Layout, missing: Sequence[int], surplus: list[int]) -> tuple[Layout, list[int]]:
        """Drop slots that are not needed for such as are, as few as possible for each."""
        layout, missing, looks = dict(layout), list(missing), LOOKS
        for unit in self.packer.hardest_first:
            item = self.bins.items[unit]
            known: dict[Bin, _Cleared | None] = {}
            while missing[unit] and looks > 0:
                best: tuple[int, Bin, _Cleared] | None = None
                for one in sorted(layout, key=lambda one: (-one.cpus - one.load, one.model.number))[:LOOKED_AT]:
                    plan = known.get(one)
                    if one not in known or (plan and any(surplus[i] < slots for i, slots in plan.dropped.items())):
                        plan = known[one] = self._cleared(one, item, surplus)
                        looks -= 1
                    if plan and (best is None or plan.slots < best[0]):
                        best = plan.slots, one, plan
                if best is None:
                    break
                _, one, plan = best
                hosts = min(layout[one], missing[unit], *(surplus[i] // slots for i, slots in plan.dropped.items()))
                exchange(layout, one, self.bins.after(plan.one, item, 1), hosts)
                missing[unit] -= hosts
                for i, slots in plan.dropped.items():
                    surplus[i] -= slots * hosts
        return layout, missing

    def moved(self, layout: Layout, missing: Sequence[int], stays: Sequence[bool]) -> Layout | None:
        """Make room for slots that are missing by moving others to where there is room, few for each.

        Args:
            stays: whether slots of a unit must stay where they are.
        """
        return self._shifted(layout, missing, stays, lambda slots, after: self.packer.pack(slots, layout=after))

    def _shifted(
        self,
        layout: Layout,
        missing: Sequence[int],
        stays: Sequence[bool],
        place: Callable[[Sequence[int], Layout], Layout | None],
    ) -> Layout | None:
        """Take slots away where others are missing, and place them elsewhere."""
        layout, missing, tries = dict(layout), list(missing), TRIES
        while any(missing):
            plans: list[tuple[int, int, Bin, Item, _Cleared]] = []
            for one in sorted(layout, key=lambda one: (-one.cpus - one.load, one.model.number))[:LOOKED_AT]:
                for item in self.bins.items:
                    free = [0 if fast or unit == item.unit else PLENTY for unit, fast in enumerate(stays)]
                    plan = self._cleared(one, item, free) if missing[item.unit] else None
                    if plan:
                        plans.append((plan.slots, len(plans), one, item, plan))
            for _, _, one, item, plan in sorted(plans, key=lambda plan: plan[:2])[:tries]:
                tries -= 1
                after = dict(layout)
                exchange(after, one, self.bins.after(plan.one, item, 1))
                placed = place([plan.dropped.get(unit, 0) for unit in range(len(missing))], after)
                if placed is not None:
                    layout = placed
                    missing[item.unit] -= 1
                    break
            else:
                return None
        return layout

    def _returned(self, slots: Sequence[int], layout: Layout) -> Layout | None:
        """Put slots back where others of their unit were dropped."""
        layout = dict(layout)
        for unit, count in enumerate(slots):
            for _ in range(count):
                found = next(((one, new) for one in layout if (new := self._with_one_back(one, unit))), None)
                if found is None:
                    return None
                exchange(layout, *found)
        return layout

    def _with_one_back(self, one: Bin, unit: int) -> Bin | None:
        for spot, _ in self._gone(one):
            if spot.unit == unit and (new := again(self.bins, one, spot, 1)) is not None:
                return new
        return None

    def _gone(self, one: Bin) -> tuple[tuple[Spot, int], ...]:
        """Where slots of what stands were dropped on a host, and how many."""
        if one not in self._dropped:
            here = {spot[:3]: spot.slots for spot in spots(one)}
            before = spots(self.packer.base[one.model])
            gone = ((spot, spot.slots - here.get(spot[:3], 0)) for spot in before)
            self._dropped[one] = tuple((spot, slots) for spot, slots in gone if slots > 0)
        return self._dropped[one]

    def _cleared(self, one: Bin, item: Item, surplus: Sequence[int]) -> _Cleared | None:
        """A host with room for a slot, where only what must go has gone; None if there is no way."""
        bins, items = self.bins, self.bins.items
        if bins.room(one, item):
            return _Cleared(one, {})
        left, empty, gone = list(surplus), one, []
        for spot in sorted(spots(one), key=lambda spot: _clinging(one, spot, surplus)):
            slots = min(spot.slots, left[spot.unit])
            if slots:
                left[spot.unit] -= slots
                empty = without(bins, empty, spot, slots)
                gone.append(spot._replace(slots=slots))
        if not bins.room(empty, item):
            return None
        crowd = Counter({spot.card: 0 for spot in gone})
        for spot in gone:
            crowd[spot.card] += spot.slots
        gone.sort(key=lambda spot: (crowd[spot.card] / max(1, len(spot.wide)), items[spot.unit].gpu), reverse=True)
        for spot in gone:
            empty = self._back(empty, spot, item)
        before, after = one.slots(), empty.slots()
        dropped = {unit: slots - after.get(unit, 0) for unit, slots in before.items()}
        return _Cleared(empty, {unit: slots for unit, slots in dropped.items() if slots})

    def _back(self, one: Bin, spot: Spot, item: Item | None = None) -> Bin:
        """As many slots put back at a spot as leave room for a slot of an item."""
        left = step = spot.slots
        while step:
            new = again(self.bins, one, spot, step) if step <= left else None
            if new is not None and (item is None or self.bins.room(new, item)):
                one, left = new, left - step
            else:
                step //= 2
        return one

    def _restored(self, layout: Layout) -> Layout:
        """With every slot put back that was dropped and would still fit."""
        restored: Layout = {}
        for one, hosts in layout.items():
            new = one
            for spot, slots in self._gone(one):
                new = self._back(new, spot._replace(slots=slots))
            restored[new] = restored.get(new, 0) + hosts
        return restored


def _clinging(one: Bin, spot: Spot, surplus: Sequence[int]) -> tuple[int, int]:
    """How little it helps to drop slots: on cards where others stay, and where there are many."""
    held = one.cards[spot.card].held if spot.card is not None else ()
    return sum(slots for unit, slots in held if not surplus[unit]), sum(slots for _, slots in held)
