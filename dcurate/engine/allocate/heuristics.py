"""The greedy ways of packing: in which order items are placed, and on which host each slot goes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dcurate.engine.allocate.packing import MILLION, PLENTY, Bin, Bins, Item, Layout

#: Amounts beyond so many of the largest common part of all sizes can be filled somehow.
MOST_GRAINS = 4096

#: How many slots fewer than fit on a host are considered.
MOST_FEWER = 5


class Heuristic(NamedTuple):
    """A greedy way: an order of the items (see `orders`), and how a host is chosen for a GPU slot (see `RANKS`)."""

    order: int
    choice: str


#: Ways, those first that most often succeed.
HEURISTICS = tuple(
    Heuristic(order, choice)
    for order, choice in (
        *((0, choice) for choice in ("tight", "match", "spread", "thrifty", "strand")),
        *((1, choice) for choice in ("tight", "match", "spread")),
        *((2, choice) for choice in ("tight", "spread", "match")),
        *((order, choice) for order in (3, 4) for choice in ("tight", "match", "spread", "strand")),
        *((order, "strand") for order in (1, 2)),
        *((order, "thrifty") for order in (1, 2, 3, 4)),
    )
)


#: How many of them are tried for every question; the others for those that matter.
SIMPLE = 11


class Scale(NamedTuple):
    """How scarce resources are: what a core, and a card, is worth for the slots that are sought.

    Attributes:
        cores: needed, of those that hosts have on average.
        cards: likewise.
        lean: cores for a card, of the item that needs the fewest.
    """

    cores: float
    cards: float
    lean: float


class SubsetSums:
    """What is left at least where sizes are to fill an amount, each as often as one likes.

    Args:
        grain: sizes, and amounts that will be asked for, are sums of these.
        largest: amount that will be asked for; nothing is said to be left of amounts too large for the grain.

    Examples:
        >>> SubsetSums([2, 4], 20, [4]).after(6)
        2
    """

    def __init__(self, grain: Sequence[int], largest: int, sizes: Sequence[int]) -> None:
        self.grain = math.gcd(*grain)
        self.largest = min(largest // self.grain, MOST_GRAINS)
        self.filled = 1
        for size in sizes:
            step = size // self.grain
            while 0 < step <= self.largest:
                self.filled |= self.filled << step
                step *= 2
            self.filled &= (2 << self.largest) - 1

    def after(self, amount: int) -> int:
        """What is left of an amount."""
        grains = amount // self.grain
        if grains > self.largest:
            return 0
        return amount - ((self.filled & (2 << grains) - 1).bit_length() - 1) * self.grain


def orders(items: Sequence[Item], layout: Layout) -> list[list[int]]:
    """Orders of the items: the hardest to place first, by several ideas of what is hard."""
    memory = max((card.memory for one in layout for card in one.model.cards if card.memory < PLENTY), default=PLENTY)

    def size(item: Item) -> float:
        return max(item.share, item.memory * MILLION // memory)

    def density(item: Item) -> float:
        return item.cpus / (max(size(item), item.gpu) or MILLION)

    ideas = (
        lambda item: (item.on_card, item.wide, size(item), item.cpus),
        lambda item: (item.on_card, item.wide, density(item)),
        lambda item: (item.on_card, density(item)),
        lambda item: (item.wide > 1, item.cpus),
        lambda item: (item.cpus,),
    )
    return [[item.unit for item in sorted(items, key=idea, reverse=True)] for idea in ideas]


def gaps_for(items: Sequence[Item], need: Sequence[int], item: Item, layout: Layout) -> SubsetSums | None:
    """What the other items that are needed can fill: of a host's cores, or of a card; None if that cannot be said."""
    others = [each for each in items if need[each.unit] and each.unit != item.unit]
    if item.on_card:
        sizes = [each.share for each in others if each.share]
        return SubsetSums([item.share, *sizes], MILLION, sizes) if item.share and sizes else None
    sizes = [each.cpus for each in others if each.cpus and not each.on_card]
    largest = max((one.cpus for one in layout), default=0)
    return SubsetSums([item.cpus, *sizes], largest, sizes) if item.cpus and sizes else None


def thrifty(bins: Bins, one: Bin, item: Item, slots: int, gaps: SubsetSums) -> tuple[int, Bin]:
    """A few slots fewer on a host, or card, than fit, if what is left suits the other items better.

    One that has slots of the item is left as it is.

    Returns:
        How many slots, and what the host becomes.
    """
    size, left, card = item.cpus, one.cpus, None
    if item.on_card:
        fits = [
            (bool(fill.held), -fill.share, number)
            for number, fill in enumerate(one.cards)
            if fill.room(item) and all(index != item.unit for index, _ in fill.held)
        ]
        if not fits:
            return 0, one
        card = max(fits)[2]
        size, left, slots = item.share, one.cards[card].share, min(slots, one.cards[card].room(item))
    elif any(index == item.unit for index, _ in one.held):
        return 0, one
    fewest = max(1, slots - MOST_FEWER)
    slots = min(range(slots, fewest - 1, -1), key=lambda count: gaps.after(left - count * size))
    return slots, bins.put(one, item, card, slots)


def scale_of(items: Sequence[Item], need: Sequence[int], layout: Layout) -> Scale:
    """How scarce resources are on these hosts, if so many slots of each item are needed."""
    hosts = sum(layout.values())
    cores = sum(one.cpus * count for one, count in layout.items()) or 1
    cards = sum(one.load * count for one, count in layout.items()) or 1
    asked_cores = sum(item.cpus * slots for item, slots in zip(items, need, strict=True))
    asked_cards = sum(item.gpu * slots for item, slots in zip(items, need, strict=True))
    lean = min((item.cpus / item.gpu for item in items if item.gpu), default=0.0)
    return Scale((asked_cores / cores + 0.05) / cores * hosts, (asked_cards / cards + 0.05) / cards * hosts, lean)


# How hosts rank: the lowest is taken. Each looks at a host, what it becomes, and the item.

_Rank = tuple[float, float]


def _tight(_one: Bin, new: Bin, _item: Item, scale: Scale) -> _Rank:
    """The least left."""
    return new.cpus * scale.cores + new.load * scale.cards, 0.0


def _match(one: Bin, new: Bin, item: Item, scale: Scale) -> _Rank:
    """Cores and cards left in the proportion that the slot needs them."""
    cores, cards = one.cpus * scale.cores, one.load * scale.cards
    length = math.hypot(cores, cards)
    along = cores * item.cpus * scale.cores + cards * item.gpu * scale.cards
    return -along / length if length else 0.0, new.cpus * scale.cores + new.load * scale.cards


def _spread(_one: Bin, new: Bin, _item: Item, scale: Scale) -> _Rank:
    """The most cores left; for slots that are placed one by one."""
    return -new.cpus * scale.cores, 0.0


def _strand(one: Bin, new: Bin, _item: Item, scale: Scale) -> _Rank:
    """Few cards that have no cores left to go with them."""
    stranded = max(0.0, new.load * scale.lean - new.cpus) - max(0.0, one.load * scale.lean - one.cpus)
    return stranded, new.cpus * scale.cores + new.load * scale.cards


def _cpu(_one: Bin, new: Bin, _item: Item, scale: Scale) -> _Rank:
    """For CPU slots: hosts where no cards wait for cores, then the least left."""
    return new.load * scale.cards * 100 + new.cpus * scale.cores, 0.0


#: By choice; "cpu" is for CPU slots, whatever the choice.
RANKS: dict[str, Callable[[Bin, Bin, Item, Scale], _Rank]] = {
    "tight": _tight,
    "match": _match,
    "spread": _spread,
    "strand": _strand,
    "thrifty": _tight,
    "cpu": _cpu,
}
