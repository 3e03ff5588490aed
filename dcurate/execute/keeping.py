"""What stands on hosts now: to add to it, to drop what is not needed of it, and to lay another answer over it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dcurate.execute.allocation import Place, Places, Unit
from dcurate.execute.packing import (
    PLENTY,
    Bin,
    Bins,
    CardFill,
    Filling,
    Item,
    Layout,
    Member,
    Model,
    added,
    exchange,
    places_on,
    total,
)
from dcurate.execute.search import Packer
from dcurate.execute.ways import WAYS

#: Kinds of hosts that are looked at for slots to drop, for one slot and for one question.
LOOKED_AT, LOOKS = 64, 500


class Spot(NamedTuple):
    """Where on a host some slots of an item stand: on a card, on several whole ones, or on its CPUs."""

    unit: int
    card: int | None
    wide: tuple[int, ...]
    slots: int


def spots(one: Bin) -> list[Spot]:
    """All slots of a host."""
    found = [Spot(index, None, (), slots) for index, slots in one.held]
    for card, fill in enumerate(one.cards):
        found += [Spot(index, card, (), slots) for index, slots in fill.held if slots]
    return found + [Spot(index, None, wide, 1) for index, wide in one.wide]


def without(bins: Bins, one: Bin, spot: Spot, slots: int) -> Bin:
    """A host with fewer slots at a spot."""
    item = bins.items[spot.unit]
    return bins.drop_wide(one, item, spot.wide) if spot.wide else bins.put(one, item, spot.card, -slots)


def again(bins: Bins, one: Bin, spot: Spot, slots: int) -> Bin | None:
    """A host with slots put back at a spot; None if they do not fit there."""
    item = bins.items[spot.unit]
    if slots * item.cpus > one.cpus:
        return None
    if spot.wide:
        return bins.put_wide(one, item, spot.wide) if all(one.cards[c].free_for(item) for c in spot.wide) else None
    room = one.seats if spot.card is None else one.cards[spot.card].room(item)
    return bins.put(one, item, spot.card, slots) if slots <= room else None


# From places to bins


def stand(bins: Bins, units: Sequence[Unit], kinds: Sequence[Model], current: Mapping[Place, int]) -> Layout:
    """Hosts with what stands on them: a model for each kind of host and filling, so that a slot keeps its card.

    Slots of hosts, cards and units that are not there, and those that do not fit, are left out.
    """
    index_of = {unit.name: index for index, unit in enumerate(units)}
    on_host: dict[str, list[tuple[int, tuple[str, ...], int]]] = {}
    for place, slots in current.items():
        if place.unit in index_of and slots > 0:
            on_host.setdefault(place.host, []).append((index_of[place.unit], place.cards, slots))
    fillings: dict[Bin, list[Member]] = {}
    for kind in kinds:
        for name, own in kind.members:
            one, cards = _filled(bins, bins.empty(kind), own, sorted(on_host.get(name, ())))
            fillings.setdefault(one, []).append((name, cards))
    layout: Layout = {}
    for number, (one, members) in enumerate(fillings.items()):
        kind = one.model
        model = Model(number, kind.cpus, kind.seats, kind.cards, members)
        layout[as_model(bins, one, model)] = len(members)
    return layout


def as_model(bins: Bins, one: Bin, model: Model) -> Bin:
    """A bin as one of another model that has the same resources."""
    return bins.make(one.filling._replace(model=model))


def _filled(
    bins: Bins, one: Bin, cards: tuple[str, ...], slots: Iterable[tuple[int, tuple[str, ...], int]]
) -> tuple[Bin, tuple[str, ...]]:
    """A host with slots on it; its cards in an order that makes hosts equal that are filled alike."""
    number = {name: position for position, name in enumerate(cards)}
    cpus, seats, held, fills = one.cpus, one.seats, one.held, list(one.cards)
    wide: list[tuple[int, tuple[int, ...]]] = []
    for unit, names, count in slots:
        item = bins.items[unit]
        taken = tuple(number[name] for name in names if name in number)
        if len(taken) != max(item.wide, int(item.on_card)) or len(set(taken)) != len(names):
            continue
        fits = min(count, cpus // item.cpus if item.cpus else count)
        if item.wide:
            free = all(fills[card].free_for(item) for card in taken) and fills[taken[0]].seats > 0
            fits = min(fits, int(free))
            for card in taken if fits else ():
                fills[card] = CardFill(0, 0, 0, ((unit, 0),))
            wide += [(unit, taken)] * fits
        elif item.on_card:
            fits = min(fits, fills[taken[0]].room(item))
            fills[taken[0]] = fills[taken[0]].after(item, fits) if fits else fills[taken[0]]
        else:
            fits = min(fits, seats)
            seats -= fits
            held = added(held, unit, fits)
        cpus -= fits * item.cpus
    return _in_order(bins, Filling(one.model, cpus, seats, tuple(fills), held, tuple(wide)), cards)


def _in_order(bins: Bins, filling: Filling, names: tuple[str, ...]) -> tuple[Bin, tuple[str, ...]]:
    """Cards of the same kind by what is on them."""
    group = {card: number for number, (_, taken) in enumerate(filling.wide) for card in taken}
    empty, fills = filling.model.cards, filling.cards
    order = sorted(range(len(fills)), key=lambda card: (empty[card], fills[card].held, group.get(card, -1)))
    now = {card: position for position, card in enumerate(order)}
    wide = tuple(sorted((unit, tuple(now[card] for card in taken)) for unit, taken in filling.wide))
    one = bins.make(filling._replace(cards=tuple(fills[card] for card in order), wide=wide))
    return one, tuple(names[card] for card in order)


# Adding without moving


class _Cleared(NamedTuple):
    """A host where slots were dropped, and how many of each unit."""

    one: Bin
    dropped: dict[int, int]

    @property
    def slots(self) -> int:
        return sum(self.dropped.values())


class Keeper:
    """What stands, and how it can serve other counts of slots without moving any.

    Args:
        bins: of the units.
        layout: what stands; each model has one bin.
    """

    def __init__(self, bins: Bins, layout: Layout, effort: int) -> None:
        self.bins, self.layout = bins, layout
        self.counts = total(layout, len(bins.items))
        self.packer = Packer(bins, layout, effort)

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
        for layout, missing in self.packer.most(lack, len(WAYS) if hard else 3)[:3]:
            left = self._make_room(layout, missing, list(surplus))
            if best is None or sum(left[1]) < sum(best[1]):
                best = left
            if not any(best[1]):
                break
        assert best is not None
        layout, missing = best
        if any(missing) and any(surplus):
            enough = [want if more else 0 for want, more in zip(wanted, surplus, strict=True)]

            def returned(_: Sequence[int], after: Layout) -> Layout | None:
                stand = total(after, len(enough))
                return self._returned([max(0, n - slots) for n, slots in zip(enough, stand, strict=True)], after)

            least = trimmed(
                self.bins, layout, [want if more else None for want, more in zip(wanted, surplus, strict=True)]
            )
            other = self._shifted(least, missing, [not slots for slots in surplus], returned)
            layout, missing = (layout, missing) if other is None else (other, [0] * len(lack))
        return self._restored(layout), missing

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
        layout, missing = dict(layout), list(missing)
        while any(missing):
            plans: list[tuple[int, int, Bin, Item, _Cleared]] = []
            for one in sorted(layout, key=lambda one: (-one.cpus - one.load, one.model.number))[:LOOKED_AT]:
                for item in self.bins.items:
                    free = [0 if fast or unit == item.unit else PLENTY for unit, fast in enumerate(stays)]
                    plan = self._cleared(one, item, free) if missing[item.unit] else None
                    if plan:
                        plans.append((plan.slots, len(plans), one, item, plan))
            for _, _, one, item, plan in sorted(plans, key=lambda plan: plan[:2]):
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

    def _gone(self, one: Bin) -> Iterator[tuple[Spot, int]]:
        """Where slots of what stands were dropped on a host, and how many."""
        here = {spot[:3]: spot.slots for spot in spots(one)}
        for spot in spots(self.packer.base[one.model]):
            gone = spot.slots - here.get(spot[:3], 0)
            if gone > 0:
                yield spot, gone

    def _cleared(self, one: Bin, item: Item, surplus: Sequence[int]) -> _Cleared | None:
        """A host with room for a slot, where only what must go has gone; None if there is no way."""
        bins, items = self.bins, self.bins.items
        if bins.room(one, item):
            return _Cleared(one, {})
        kept = [sum(slots for unit, slots in fill.held if not surplus[unit]) for fill in one.cards]
        left, empty, gone = list(surplus), one, []
        for spot in sorted(spots(one), key=lambda spot: kept[spot.card] if spot.card is not None else 0):
            slots = min(spot.slots, left[spot.unit])
            if slots:
                left[spot.unit] -= slots
                empty = without(bins, empty, spot, slots)
                gone.append(spot._replace(slots=slots))
        if not bins.room(empty, item):
            return None
        gone.sort(key=lambda spot: (items[spot.unit].gpu, items[spot.unit].cpus), reverse=True)
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


def trimmed(bins: Bins, layout: Layout, most: Sequence[int | None]) -> Layout:
    """Without the slots beyond so many of each item: first those whose going frees a card, then from emptier hosts."""
    layout = dict(layout)
    counts = total(layout, len(bins.items))
    for index, limit in enumerate(most):
        extra = counts[index] - limit if limit is not None else 0
        while extra > 0:
            one, spot = min(
                ((one, spot) for one in layout for spot in spots(one) if spot.unit == index),
                key=lambda found: _clings(*found),
            )
            slots = min(spot.slots, extra)
            hosts = min(layout[one], extra // slots)
            exchange(layout, one, without(bins, one, spot, slots), hosts)
            extra -= hosts * slots
    return layout


def _clings(one: Bin, spot: Spot) -> tuple[bool, int, int]:
    shared = spot.card is not None and len(one.cards[spot.card].held) > 1
    return shared, sum(one.slots().values()), one.model.number


# Laying an answer over what stands


def relaid(bins: Bins, units: Sequence[Unit], layout: Layout, standing: Layout) -> Places:
    """A layout as places, on those of its equal hosts and cards that have most of it now.

    Args:
        layout: in models of `dcurate.execute.packing.models`.
        standing: the same hosts as they stand, see `stand`.
    """
    places: Places = Counter()
    now: dict[tuple[object, ...], list[tuple[Bin, list[Member]]]] = {}
    for one in standing:
        now.setdefault(resources(one.model), []).append((one, list(one.model.members)))
    left = dict(layout)
    pairs: list[tuple[int, bool, int, int, Bin, int]] = []
    for new in layout:
        counts = new.slots()
        for number, (old, _) in enumerate(now[resources(new.model)]):
            before = old.slots()
            same = sum(min(slots, before.get(index, 0)) for index, slots in counts.items())
            more = sum(before.values()) - same
            pairs.append((-same, new.cards != old.cards, more, len(pairs), new, number))
    for *_, new, number in sorted(pairs, key=lambda pair: pair[:4]):
        old, members = now[resources(new.model)][number]
        order = _card_order(new, old) if left[new] and members else ()
        while left[new] and members:
            host, cards = members.pop(0)
            left[new] -= 1
            places.update(places_on(new, units, host, [cards[number] for number in order]))
    return places


def resources(model: Model) -> tuple[object, ...]:
    """What hosts of a model have."""
    return model.cpus, model.seats, model.cards


def _card_order(new: Bin, old: Bin) -> list[int]:
    """For each card of a bin one of those that stand, so that most slots stay."""
    order: dict[int, int] = {}
    free = list(old.wide)
    for index, taken in new.wide:
        same = next((one for one in free if one[0] == index), None)
        if same is not None and all(
            new.model.cards[a] == old.model.cards[b] for a, b in zip(taken, same[1], strict=True)
        ):
            free.remove(same)
            order.update(zip(taken, same[1], strict=True))
    pairs = []
    for a, fill in enumerate(new.cards):
        counts = dict(fill.held)
        for b, before in enumerate(old.cards):
            if new.model.cards[a] == old.model.cards[b]:
                pairs.append((-sum(min(slots, counts.get(index, 0)) for index, slots in before.held), a != b, a, b))
    used = set(order.values())
    for _, _, a, b in sorted(pairs):
        if a not in order and b not in used:
            order[a] = b
            used.add(b)
    return [order[card] for card in range(len(new.cards))]
