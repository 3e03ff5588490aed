"""How slots fill hosts: needs and hosts in whole numbers, and every filling of a host as a value. Pure.

Hosts that are alike are one *model*, and a *bin* is a model filled in some way. A *layout* says how many hosts are
filled like which bin, so that a thousand equal hosts cost no more than one. Each bin is made once and remembers what
becomes of it when slots are added, which makes trying many layouts cheap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dcurate.engine.allocate.allocation import Allocation, Card, Host, SchedulingUnit, SlotLocation

#: Cores, and shares of a card, are counted in millionths.
MILLION = 1_000_000

#: More of something than is ever needed.
PLENTY = 1 << 60

#: Slots by item, ascending.
Held = tuple[tuple[int, int], ...]


def whole(amount: float, scale: float = MILLION) -> int:
    """An amount in whole numbers: tenths add up to one, a sixth six times is not more than one.

    Examples:
        >>> whole(0.1), 6 * whole(1 / 6)
        (100000, 999996)
    """
    return int(amount * scale + 1e-3)


class Item(NamedTuple):
    """What one slot of a unit takes.

    Attributes:
        unit: its index.
        cpus: millionths of a core.
        share: millionths of a card; 0 for a slot that takes whole cards.
        memory: bytes on each of its cards.
        wide: how many whole cards.
        on_card: whether it takes a seat on a card, and not one of the host.
    """

    unit: int
    cpus: int
    share: int
    memory: int
    wide: int
    on_card: bool

    @property
    def gpu(self) -> int:
        """Millionths of cards, all together."""
        return self.share + self.wide * MILLION

    @classmethod
    def of(cls, number: int, unit: SchedulingUnit) -> Item:
        """The item of a unit; a number of GPUs above one is rounded up."""
        wide = -int(-unit.gpus // 1) if unit.gpus >= 1 else 0
        share = 0 if wide else max(whole(unit.gpus), int(unit.gpus > 0))
        memory = whole(unit.gpu_memory / max(wide, 1), 1)
        return cls(number, whole(unit.cpus), share, memory, wide, unit.on_gpu)


class CardFill(NamedTuple):
    """What is left of a card, and the slots on it; a card of a wide slot is held with 0 slots of it."""

    share: int
    memory: int
    seats: int
    held: Held = ()

    def room(self, item: Item) -> int:
        """How many slots fit, if cores do not matter; for slots that do not take whole cards."""
        slots = self.seats
        if item.share:
            slots = min(slots, self.share // item.share)
        if item.memory and self.memory < PLENTY:
            slots = min(slots, self.memory // item.memory)
        return slots

    def free_for(self, item: Item) -> bool:
        """Whether it may be one of the cards of a wide slot."""
        return not self.held and self.memory >= item.memory

    def after(self, item: Item, slots: int) -> CardFill:
        """With more slots, or fewer if negative."""
        memory = self.memory - slots * item.memory if self.memory < PLENTY else PLENTY
        held = added(self.held, item.unit, slots)
        return CardFill(self.share - slots * item.share, memory, self.seats - slots, held)


def added(held: Held, index: int, slots: int) -> Held:
    """With more slots of one item, or fewer if negative."""
    counts = dict(held)
    counts[index] = counts.get(index, 0) + slots
    return tuple(sorted(one for one in counts.items() if one[1]))


#: Name of a host, and names of its cards.
HostId = tuple[str, tuple[str, ...]]


class PackingModel:
    """Hosts that are alike.

    Attributes:
        number: tells it from other models; models are in the same order whatever the order of the hosts.
        cpus: millionths of a core.
        seats: for CPU slots.
        cards: each when it is empty, the smallest first.
        members: name of each host and of its cards, in the order of ``cards``.
    """

    def __init__(self, number: int, cpus: int, seats: int, cards: tuple[CardFill, ...], members: list[HostId]) -> None:
        self.number, self.cpus, self.seats, self.cards, self.members = number, cpus, seats, cards, members


class Filling(NamedTuple):
    """What is left of a host of a model, and the slots on it.

    Attributes:
        cpus: millionths of a core.
        seats: for CPU slots.
        cards: each as it is.
        held: CPU slots.
        wide: slots that take whole cards: the item, and the positions of the cards, the one with the seat first.
    """

    model: PackingModel
    cpus: int
    seats: int
    cards: tuple[CardFill, ...]
    held: Held = ()
    wide: tuple[tuple[int, tuple[int, ...]], ...] = ()


class Bin:
    """A filling that knows what becomes of it. Only `Bins` makes them; two that are equal are the same.

    Attributes:
        load: what is left for GPU slots, in millionths of cards, where memory counts as a share of the card's.
        rooms: how many slots of an item fit, as far as it was asked.
        afters: what it becomes with so many slots of an item, as far as it was asked.
    """

    __slots__ = ("afters", "cards", "cpus", "filling", "held", "load", "model", "rooms", "seats", "wide")

    def __init__(self, filling: Filling) -> None:
        self.filling = filling
        self.model, self.cpus, self.seats, self.cards, self.held, self.wide = filling
        self.load = sum(
            min(card.share, card.memory * MILLION // empty.memory)
            for card, empty in zip(self.cards, self.model.cards, strict=True)
        )
        self.rooms: dict[int, int] = {}
        self.afters: dict[tuple[int, int], Bin] = {}

    def slots(self) -> dict[int, int]:
        """How many slots of each item stand here."""
        counts = dict(self.held)
        for card in self.cards:
            for item, slots in card.held:
                counts[item] = counts.get(item, 0) + slots
        for item, _ in self.wide:
            counts[item] = counts.get(item, 0) + 1
        return {item: slots for item, slots in counts.items() if slots}


#: How many hosts are filled like which bin.
Layout = dict[Bin, int]


def exchange(layout: Layout, old: Bin, new: Bin, hosts: int = 1) -> None:
    """Fill hosts of one bin like another."""
    if layout[old] == hosts:
        del layout[old]
    else:
        layout[old] -= hosts
    layout[new] = layout.get(new, 0) + hosts


def total(layout: Layout, items: int) -> list[int]:
    """How many slots of each item there are."""
    counts = [0] * items
    for one, hosts in layout.items():
        for index, slots in one.slots().items():
            counts[index] += slots * hosts
    return counts


class Bins:
    """Every bin met so far, and how one becomes another."""

    def __init__(self, units: Sequence[SchedulingUnit]) -> None:
        self.items = tuple(Item.of(index, unit) for index, unit in enumerate(units))
        self._known: dict[Filling, Bin] = {}

    def make(self, filling: Filling) -> Bin:
        """The bin that is filled so."""
        known = self._known.get(filling)
        if known is None:
            known = self._known[filling] = Bin(filling)
        return known

    def empty(self, model: PackingModel) -> Bin:
        """A host of the model with nothing on it."""
        return self.make(Filling(model, model.cpus, model.seats, model.cards))

    def room(self, one: Bin, item: Item) -> int:
        """How many slots still fit on a host."""
        slots = one.rooms.get(item.unit)
        if slots is None:
            slots = one.rooms[item.unit] = _room(one, item)
        return slots

    def after(self, one: Bin, item: Item, slots: int) -> Bin:
        """A host with more slots, of which there must be room: on the card that they fill best."""
        key = (item.unit, slots)
        new = one.afters.get(key)
        if new is None:
            new = one.afters[key] = self._after(one, item, slots)
        return new

    def _after(self, one: Bin, item: Item, slots: int) -> Bin:
        if not item.on_card:
            return self.put(one, item, None, slots)
        if item.wide:
            for _ in range(slots):
                one = self.put_wide(one, item, _cards_for(one, item))
            return one
        while slots:
            best, card, fits = None, 0, 0
            for number, fill in enumerate(one.cards):
                here = min(slots, fill.room(item))
                if not here:
                    continue
                memory = one.model.cards[number].memory
                left = (fill.share - here * item.share) / MILLION
                if item.memory and memory < PLENTY:
                    left += (fill.memory - here * item.memory) / memory
                rank = (not fill.held, left)
                if best is None or rank < best:
                    best, card, fits = rank, number, here
            one = self.put(one, item, card, fits)
            slots -= fits
        return one

    def put(self, one: Bin, item: Item, card: int | None, slots: int = 1) -> Bin:
        """With more slots, or fewer if negative, on one card, or among the CPU slots."""
        cpus = one.cpus - slots * item.cpus
        if card is None:
            held = added(one.held, item.unit, slots)
            return self.make(Filling(one.model, cpus, one.seats - slots, one.cards, held, one.wide))
        fill = one.cards[card].after(item, slots)
        cards = (*one.cards[:card], fill if fill.held else one.model.cards[card], *one.cards[card + 1 :])
        return self.make(Filling(one.model, cpus, one.seats, cards, one.held, one.wide))

    def put_wide(self, one: Bin, item: Item, cards: tuple[int, ...]) -> Bin:
        """With a slot that takes whole cards."""
        taken = CardFill(0, 0, 0, ((item.unit, 0),))
        fills = tuple(taken if number in cards else fill for number, fill in enumerate(one.cards))
        wide = tuple(sorted((*one.wide, (item.unit, cards))))
        return self.make(Filling(one.model, one.cpus - item.cpus, one.seats, fills, one.held, wide))

    def drop_wide(self, one: Bin, item: Item, cards: tuple[int, ...]) -> Bin:
        """Without a slot that took whole cards."""
        fills = tuple(one.model.cards[number] if number in cards else fill for number, fill in enumerate(one.cards))
        wide = tuple(slot for slot in one.wide if slot != (item.unit, cards))
        return self.make(Filling(one.model, one.cpus + item.cpus, one.seats, fills, one.held, wide))


def _room(one: Bin, item: Item) -> int:
    limit = one.cpus // item.cpus if item.cpus else PLENTY
    if limit <= 0:
        return 0
    if not item.on_card:
        return min(limit, one.seats)
    if item.wide:
        free = [card for card in one.cards if card.free_for(item)]
        return min(limit, len(free) // item.wide, sum(card.seats > 0 for card in free))
    return min(limit, sum(card.room(item) for card in one.cards))


def _cards_for(one: Bin, item: Item) -> tuple[int, ...]:
    """Cards for a wide slot: with memory enough and no more than needed, and only one that has a seat if possible."""
    free = [number for number, card in enumerate(one.cards) if card.free_for(item)]
    first = next(number for number in free if one.cards[number].seats > 0)
    rest = [number for number in free if number != first]
    rest.sort(key=lambda number: (one.cards[number].seats > 0, one.cards[number].memory, number))
    return (first, *rest[: item.wide - 1])


# From hosts to models, and back


def in_order(host: Host) -> list[Card]:
    """The cards of a host in the order of its model."""
    return sorted(host.cards, key=lambda card: (card.memory or PLENTY, card.seats, card.name))


def models(hosts: Sequence[Host]) -> list[PackingModel]:
    """Hosts by what they have, in an order that does not depend on theirs.

    Examples:
        >>> [len(each.members) for each in models([Host("a", 4), Host("b", 8), Host("c", 4)])]
        [2, 1]
    """
    kinds: dict[tuple[float, int, tuple[tuple[float, int], ...]], list[HostId]] = {}
    for host in sorted(hosts, key=lambda one: one.name):
        cards = in_order(host)
        kind = (host.cpus, host.seats, tuple([(card.memory, card.seats) for card in cards]))
        kinds.setdefault(kind, []).append((host.name, tuple([card.name for card in cards])))
    return [
        PackingModel(number, whole(cpus), seats, tuple(_empty(*card) for card in cards), kinds[cpus, seats, cards])
        for number, (cpus, seats, cards) in enumerate(sorted(kinds))
    ]


def _empty(memory: float, seats: int) -> CardFill:
    return CardFill(MILLION, whole(memory, 1) if memory > 0 else PLENTY, seats)


def places_on(one: Bin, units: Sequence[SchedulingUnit], host: str, cards: Sequence[str]) -> Allocation:
    """The slots of a bin as places on a host."""
    places: Allocation = Counter()
    for index, slots in one.held:
        places[SlotLocation(host, units[index].name)] += slots
    for name, fill in zip(cards, one.cards, strict=True):
        for index, slots in fill.held:
            if slots:
                places[SlotLocation(host, units[index].name, (name,))] += slots
    for index, positions in one.wide:
        places[SlotLocation(host, units[index].name, tuple(cards[number] for number in positions))] += 1
    return places


def to_allocation(layout: Layout, units: Sequence[SchedulingUnit]) -> Allocation:
    """A layout as places, on the hosts of each model in their order."""
    places: Allocation = Counter()
    used: dict[PackingModel, int] = {}
    for one, hosts in layout.items():
        begin = used.get(one.model, 0)
        used[one.model] = begin + hosts
        for host, cards in one.model.members[begin : begin + hosts]:
            places.update(places_on(one, units, host, cards))
    return places
