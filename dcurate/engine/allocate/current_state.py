"""What stands on hosts now, as bins; and an answer as places, where most of it stands already. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.allocation import Allocation, SchedulingUnit, SlotLocation
from dcurate.engine.allocate.packing import (
    Bin,
    Bins,
    CardFill,
    Filling,
    HostId,
    Layout,
    PackingModel,
    added,
    exchange,
    places_on,
    total,
)


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


def stand(
    bins: Bins, units: Sequence[SchedulingUnit], kinds: Sequence[PackingModel], current: Mapping[SlotLocation, int]
) -> Layout:
    """Hosts with what stands on them: a model for each kind of host and filling, so that a slot keeps its card.

    Slots of hosts, cards and units that are not there, and those that do not fit, are left out.
    """
    index_of = {unit.name: index for index, unit in enumerate(units)}
    on_host: dict[str, list[tuple[int, tuple[str, ...], int]]] = {}
    for place, slots in current.items():
        if place.unit in index_of and slots > 0:
            on_host.setdefault(place.host, []).append((index_of[place.unit], place.cards, slots))
    fillings: dict[Bin, list[HostId]] = {}
    for kind in kinds:
        for name, own in kind.members:
            one, cards = _filled(bins, bins.empty(kind), own, sorted(on_host.get(name, ())))
            fillings.setdefault(one, []).append((name, cards))
    layout: Layout = {}
    for number, (one, members) in enumerate(fillings.items()):
        kind = one.model
        model = PackingModel(number, kind.cpus, kind.seats, kind.cards, members)
        layout[as_model(bins, one, model)] = len(members)
    return layout


def as_model(bins: Bins, one: Bin, model: PackingModel) -> Bin:
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


def relaid(bins: Bins, units: Sequence[SchedulingUnit], layout: Layout, standing: Layout) -> Allocation:
    """A layout as places, on those of its equal hosts and cards that have most of it now.

    Args:
        layout: in models of `dcurate.engine.allocate.packing.models`.
        standing: the same hosts as they stand, see `stand`.
    """
    places: Allocation = Counter()
    now: dict[tuple[object, ...], list[tuple[Bin, list[HostId]]]] = {}
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


def resources(model: PackingModel) -> tuple[object, ...]:
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
