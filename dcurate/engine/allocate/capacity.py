"""What is free on hosts while slots are laid down one after the other. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from math import ceil, inf

from dcurate.engine.allocate.allocation import UNLIMITED, Allocation, Host, SchedulingUnit, SlotLocation, count_slots

#: Amounts that differ by less than this are equal.
TINY = 1e-9


class _Card:
    """What is free of a card."""

    __slots__ = ("known", "memory", "name", "seats", "share")

    def __init__(self, name: str, memory: float, seats: int) -> None:
        self.name, self.memory, self.seats = name, memory, seats
        self.share, self.known = 1.0, memory > 0


class _Want:
    """What a slot of a unit takes, worked out once."""

    __slots__ = ("cpus", "gpus", "memory", "most", "on_gpu", "share")

    def __init__(self, unit: SchedulingUnit) -> None:
        self.cpus, self.gpus, self.memory, self.on_gpu = unit.cpus, unit.gpus, unit.gpu_memory, unit.on_gpu
        self.share = min(1.0, unit.gpus)
        most = UNLIMITED if unit.most is None else unit.most
        self.most = most if unit.fixed is None else unit.fixed if unit.most is None else min(unit.fixed, most)


class _Free:
    """What is free of a host."""

    __slots__ = ("cards", "cpus", "seats")

    def __init__(self, host: Host) -> None:
        self.cpus, self.seats = host.cpus, host.seats
        self.cards = {card.name: _Card(card.name, card.memory, card.seats) for card in host.cards}


class Capacity:
    """What is free on hosts. A slot on several cards has its seat on the first of them.

    Examples:
        >>> room = Capacity([Host("a", cpus=2)], [SchedulingUnit("read")])
        >>> room.take(SlotLocation("a", "read"), 3)
        2
        >>> room.taken
        Counter({SlotLocation(host='a', unit='read', cards=()): 2})
    """

    def __init__(self, hosts: Iterable[Host], units: Iterable[SchedulingUnit]) -> None:
        self.units = {unit.name: unit for unit in units}
        self._wants = {name: _Want(unit) for name, unit in self.units.items()}
        self.taken: Allocation = Counter()
        self.counts: Counter[str] = Counter()
        self._hosts = {host.name: _Free(host) for host in hosts}
        self._names = list(self._hosts)
        self._next = dict.fromkeys(self.units, 0)

    def take(self, place: SlotLocation, slots: int = 1) -> int:
        """Lay down up to so many slots at a place; how many fitted."""
        host, want = self._hosts.get(place.host), self._wants.get(place.unit)
        if host is None or want is None or want.on_gpu != bool(place.cards):
            return 0
        cards = [host.cards[name] for name in place.cards if name in host.cards] if place.cards else []
        if len(cards) != len(place.cards):
            return 0
        count = min(slots, _fitting(host, cards, want), want.most - self.counts[place.unit])
        if count <= 0:
            return 0
        self._lay(host, cards, place, want, count)
        return count

    def add(self, name: str) -> bool:
        """Lay down one more slot of a unit, wherever it fits; whether it does anywhere.

        A unit that is pinned to a number on each host is given none.
        """
        unit, want = self.units[name], self._wants[name]
        if unit.fixed_per_host is not None or self.counts[name] >= want.most:
            return False
        while self._next[name] < len(self._names):
            where = self._names[self._next[name]]
            host = self._hosts[where]
            cards = _choose(host, want)
            if cards is not None and _fitting(host, cards, want) > 0:
                self._lay(host, cards, SlotLocation(where, name, tuple([card.name for card in cards])), want, 1)
                return True
            self._next[name] += 1
        return False

    def _lay(self, host: _Free, cards: Sequence[_Card], place: SlotLocation, want: _Want, count: int) -> None:
        host.cpus -= want.cpus * count
        if not cards:
            host.seats -= count
        else:
            cards[0].seats -= count
        for card in cards:
            card.share -= want.share * count
            card.memory -= want.memory / len(cards) * count
        self.taken[place] += count
        self.counts[place.unit] += count


def keep(room: Capacity, *groups: Mapping[SlotLocation, int]) -> Allocation:
    """Fill each place up to so many slots as far as they fit, the first group first; returns all that is there then."""
    for group in groups:
        for place, slots in group.items():
            if slots > room.taken[place]:
                room.take(place, slots - room.taken[place])
    return +room.taken


def grow(room: Capacity, working: Sequence[SchedulingUnit], may: Container[str]) -> Allocation:
    """Give what is free to the slowest unit, again and again, until that one cannot have more.

    Args:
        working: the units that count.
        may: names of the units that may be given slots.
    """
    heap = [(unit.rate(room.counts[unit.name]), number) for number, unit in enumerate(working)]
    heapify(heap)
    while heap and heap[0][0] < inf:
        unit = working[heap[0][1]]
        if unit.name not in may or not room.add(unit.name):
            break
        heapreplace(heap, (unit.rate(room.counts[unit.name]), heap[0][1]))
    return +room.taken


def in_excess(units: Iterable[SchedulingUnit], places: Mapping[SlotLocation, int], throughput: float) -> Counter[str]:
    """How many slots of each unit are not needed for a throughput; all of a unit without work.

    Examples:
        >>> in_excess([SchedulingUnit("read", seconds=0.5)], {SlotLocation("a", "read"): 5}, throughput=4.0)
        Counter({'read': 3})
    """
    excess: Counter[str] = Counter(count_slots(places))
    for unit in units:
        if unit.weight > 0:
            work = throughput * unit.seconds * unit.weight if unit.seconds > 0 else 0.0
            excess[unit.name] -= max(1, ceil(work * (1 - TINY))) if work < inf else excess[unit.name]
    return +excess


def _fitting(host: _Free, cards: Sequence[_Card], want: _Want) -> int:
    """How many slots of a unit fit on a host, on these cards if it has cards."""
    fits: float = cards[0].seats if cards else host.seats
    if want.cpus > 0:
        fits = min(fits, (host.cpus + TINY) / want.cpus)
    for card in cards:
        if want.gpus > 0:
            fits = min(fits, (card.share + TINY) / want.share)
        if want.memory > 0 and card.known:
            fits = min(fits, card.memory * (1 + TINY) * len(cards) / want.memory)
    return int(fits)


def _choose(host: _Free, want: _Want) -> list[_Card] | None:
    """The cards for one more slot: of those with room, the fullest; None if there are not enough."""
    if not want.on_gpu:
        return []
    number = max(1, ceil(want.gpus - TINY))
    able = [card for card in host.cards.values() if card.seats > 0 and card.share + TINY >= want.share]
    able = [card for card in able if not card.known or card.memory * (1 + TINY) >= want.memory / number]
    able.sort(key=lambda card: (card.share, card.memory))
    return able[:number] if len(able) >= number else None
