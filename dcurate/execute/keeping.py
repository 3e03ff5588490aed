"""What stands on hosts now: to add to it, to drop what is not needed of it, and to lay another answer over it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dcurate.execute.allocation import Place, Places, Unit
from dcurate.execute.packing import (
    Bin,
    Bins,
    CardFill,
    Layout,
    Member,
    Model,
    added,
    exchange,
    places_on,
    total,
)
from dcurate.execute.search import WAYS, Packer

#: Kinds of hosts that are looked at for slots to drop, and how much work that is, see `dcurate.execute.search.EFFORT`.
LOOKED_AT, PLAN_EFFORT = 64, 50


class Spot(NamedTuple):
    """Where on a host some slots of an item stand: on a card, on several whole ones, or on its CPUs."""

    index: int
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
    return bins.make(model, one.cpus, one.seats, one.cards, one.held, one.wide)


def _filled(
    bins: Bins, one: Bin, cards: tuple[str, ...], slots: Iterable[tuple[int, tuple[str, ...], int]]
) -> tuple[Bin, tuple[str, ...]]:
    """A host with slots on it; its cards in an order that makes hosts equal that are filled alike."""
    number = {name: position for position, name in enumerate(cards)}
    cpus, seats, held, fills = one.cpus, one.seats, one.held, list(one.cards)
    wide: list[tuple[int, tuple[int, ...]]] = []
    for index, names, count in slots:
        item = bins.items[index]
        taken = tuple(number[name] for name in names if name in number)
        slots_here = min(count, cpus // item.cpus if item.cpus else count)
        if len(taken) != max(item.wide, int(item.on_card)) or len(set(taken)) != len(names):
            continue
        if item.wide:
            if slots_here < 1 or fills[taken[0]].seats < 1 or not all(fills[c].free_for(item) for c in taken):
                continue
            slots_here = 1
            wide.append((index, taken))
            for card in taken:
                fills[card] = CardFill(0, 0, 0, ((index, 0),))
        elif item.on_card:
            slots_here = min(slots_here, fills[taken[0]].room(item))
            fills[taken[0]] = fills[taken[0]].after(item, slots_here) if slots_here else fills[taken[0]]
        else:
            slots_here = min(slots_here, seats)
            seats -= slots_here
            held = added(held, index, slots_here)
        cpus -= slots_here * item.cpus
    return _sorted_cards(bins, one.model, cards, (cpus, seats, held, fills, wide))


def _sorted_cards(
    bins: Bins,
    model: Model,
    names: tuple[str, ...],
    filling: tuple[int, int, tuple[tuple[int, int], ...], list[CardFill], list[tuple[int, tuple[int, ...]]]],
) -> tuple[Bin, tuple[str, ...]]:
    cpus, seats, held, fills, wide = filling
    group = {card: number for number, (_, taken) in enumerate(wide) for card in taken}
    order = sorted(range(len(fills)), key=lambda c: (model.cards[c], fills[c].held, group.get(c, -1)))
    now = {card: position for position, card in enumerate(order)}
    moved = tuple(sorted((index, tuple(now[card] for card in taken)) for index, taken in wide))
    one = bins.make(model, cpus, seats, tuple(fills[card] for card in order), held, moved)
    return one, tuple(names[card] for card in order)


# Adding without moving


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
        return self._restored(best[0]), best[1]

    def _make_room(self, layout: Layout, missing: Sequence[int], surplus: list[int]) -> tuple[Layout, list[int]]:
        """Drop slots that are not needed for such as are, the fewest possible for each."""
        layout, missing = dict(layout), list(missing)
        for index in self.packer.hardest_first:
            item = self.bins.items[index]
            while missing[index] and self.packer.effort > 0:
                plans = []
                for one in sorted(layout, key=lambda one: (-one.cpus - one.load, one.model.number))[:LOOKED_AT]:
                    emptied = self._room_for(one, index, surplus)
                    if emptied is not None:
                        before, after = one.slots(), emptied.slots()
                        dropped = {i: n - after.get(i, 0) for i, n in before.items() if n > after.get(i, 0)}
                        plans.append((sum(dropped.values()), len(plans), one, emptied, dropped))
                if not plans:
                    break
                _, _, one, emptied, dropped = min(plans, key=lambda plan: plan[:2])
                hosts = min(layout[one], missing[index], *(surplus[i] // n for i, n in dropped.items()))
                exchange(layout, one, self.bins.after(emptied, item, 1), hosts)
                missing[index] -= hosts
                for i, n in dropped.items():
                    surplus[i] -= n * hosts
        return layout, missing

    def _room_for(self, one: Bin, index: int, surplus: Sequence[int]) -> Bin | None:
        """A host with room for a slot, where only what must go has gone; None if there is no way."""
        item, bins = self.bins.items[index], self.bins
        if bins.room(one, item):
            return one
        self.packer.effort -= PLAN_EFFORT
        kept = [sum(n for i, n in fill.held if not surplus[i]) for fill in one.cards]
        left, empty, gone = list(surplus), one, []
        for spot in sorted(spots(one), key=lambda spot: kept[spot.card] if spot.card is not None else 0):
            slots = min(spot.slots, left[spot.unit])
            if slots:
                left[spot.unit] -= slots
                empty = without(bins, empty, spot, slots)
                gone.append(spot._replace(slots=slots))
        if not bins.room(empty, item):
            return None
        for spot in sorted(
            gone, key=lambda spot: (bins.items[spot.unit].gpu, bins.items[spot.unit].cpus), reverse=True
        ):
            empty = self._back(empty, spot, index)
        return empty

    def _back(self, one: Bin, spot: Spot, index: int | None = None) -> Bin:
        """As many slots put back at a spot as leave room for a slot of an item."""
        left = step = spot.slots
        while step:
            new = again(self.bins, one, spot, step) if step <= left else None
            if new is not None and (index is None or self.bins.room(new, self.bins.items[index])):
                one, left = new, left - step
            else:
                step //= 2
        return one

    def _restored(self, layout: Layout) -> Layout:
        """With every slot put back that was dropped and would still fit."""
        restored: Layout = {}
        for one, hosts in layout.items():
            here = {spot[:3]: spot.slots for spot in spots(one)}
            new = one
            for spot in spots(self.packer.base[one.model]):
                gone = spot.slots - here.get(spot[:3], 0)
                if gone > 0:
                    new = self._back(new, spot._replace(slots=gone))
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
    pairs = []
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
